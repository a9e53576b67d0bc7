/* SPDX-License-Identifier: GPL-2.0 */
/* Names for people from the names of linkers: C++, and Rust in both of its manners. */
#ifndef STACKBEAT_DEBUGINFO_DEMANGLE_H
#define STACKBEAT_DEBUGINFO_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A few bytes of a mangled name can stand for gigabytes: what is longer, with its NUL,
 * stays mangled.
 */
#define DEMANGLED_MAX 4096u

/*
 * Writes the function that `name` stands for, without its parameters. False, with
 * nothing written, where `name` is not mangled, or broken.
 */
bool demangle(const char *name, char text[DEMANGLED_MAX]);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Demangles symbol names: C++, and Rust's legacy and v0 schemes. */
#ifndef STACKBEAT_DEBUGINFO_DEMANGLE_H
#define STACKBEAT_DEBUGINFO_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A short mangled name can expand to gigabytes: a name that is longer than this, with its NUL,
 * stays mangled.
 */
#define DEMANGLED_MAX 4096u

/*
 * Writes the demangled name without parameters to `text`. Returns false if `name` is not mangled,
 * is broken or too long; `text` is unspecified then.
 */
bool demangle(const char *name, char text[DEMANGLED_MAX]);

#endif

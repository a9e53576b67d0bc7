/* SPDX-License-Identifier: GPL-2.0 */
/* The version of Go that has built a program, by its build information (debug/buildinfo). */
#ifndef STACKBEAT_RUNTIME_GO_VERSION_H
#define STACKBEAT_RUNTIME_GO_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct go_version {
	unsigned int major, minor;
	const char *text; /* as it is written in the bytes, without a terminator */
	size_t length;
};

/*
 * Parses a version: "go1.24.4", or "devel go1.25-4ce110 ...". Returns false if there is no number
 * in it.
 */
bool go_version_parse(const char *text, size_t length, struct go_version *version);

/*
 * Finds the build information of Go 1.18 or later in untrusted bytes: a section .go.buildinfo, or a
 * segment of data, at an ELF virtual address. Returns false if there is none, or no number in it.
 */
bool go_version_find(const void *bytes, size_t size, uint64_t address, struct go_version *version);

#endif

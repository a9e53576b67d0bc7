/* SPDX-License-Identifier: GPL-2.0 */
/* Functions at an address, with their source lines. */
#ifndef STACKBEAT_SYMBOLIZE_SOURCE_LINE_H
#define STACKBEAT_SYMBOLIZE_SOURCE_LINE_H

#include <stddef.h>
#include <stdint.h>

/* A function at an address. Unknown strings are NULL, unknown numbers 0. */
struct source_line {
	const char *function; /* demangled */
	const char *system_name; /* linker name; NULL only if `function` is NULL */
	const char *file; /* path with its directory */
	uint32_t line;
	uint32_t start_line; /* of the function in `file` */
	uint64_t start; /* first address of the function; 0 if it is inlined */
};

/* Addresses from `start` to before `end`; none if `end` is 0. */
struct address_range {
	uint64_t start, end;
};

/*
 * Returns a copy of `count` lines, which the caller frees, with the same strings; NULL when out of
 * memory.
 */
struct source_line *source_lines_copy(const struct source_line *lines, size_t count);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Functions with their source lines, as found for an address. */
#ifndef STACKBEAT_SYMBOLIZE_SOURCE_LINE_H
#define STACKBEAT_SYMBOLIZE_SOURCE_LINE_H

#include <stddef.h>
#include <stdint.h>

/* A function at an address. Texts are NULL, and numbers 0, where they are unknown. */
struct source_line {
	const char *function; /* for people */
	const char *system_name; /* as in the object; NULL only where function is */
	const char *file; /* with its directory */
	uint32_t line;
	uint32_t start_line; /* where the function begins in `file` */
	uint64_t start; /* its first address; 0 for one that is inlined */
};

/* A copy of `count` lines, for free(), that shares their texts; NULL when out of memory. */
struct source_line *source_lines_copy(const struct source_line *lines, size_t count);

#endif

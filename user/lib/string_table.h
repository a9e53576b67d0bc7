/* SPDX-License-Identifier: GPL-2.0 */
/* Texts, each of which is kept once, and has a number. */
#ifndef STACKBEAT_LIB_STRING_TABLE_H
#define STACKBEAT_LIB_STRING_TABLE_H

#include "lib/hash.h"

#include <stddef.h>
#include <stdint.h>

#define STRING_NONE HASH_NONE

/* All zero is an empty table. */
struct string_table {
	char **items; /* string_table_clear() frees them */
	size_t count, capacity;
	struct hash index;
};

/* The number of a text of `length` bytes, added if need be; STRING_NONE: out of memory. */
uint32_t string_table_add(struct string_table *texts, const char *text, size_t length);

void string_table_clear(struct string_table *texts);

#endif

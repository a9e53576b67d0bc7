/* SPDX-License-Identifier: GPL-2.0 */
/* Interned strings: the table has one copy of each string, and numbers them from 0. */
#ifndef STACKBEAT_LIB_STRING_TABLE_H
#define STACKBEAT_LIB_STRING_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/hash.h"

#define STRING_NONE HASH_NONE

/* All zero is an empty table. */
struct string_table {
	char **items; /* string_table_clear() frees them */
	size_t count, capacity;
	struct hash index;
};

/*
 * Returns the number of the string that ends at a NUL or after `length` bytes; adds a copy if it is
 * missing. STRING_NONE: out of memory.
 */
uint32_t string_table_add(struct string_table *table, const char *string, size_t length);

/* Returns the number of a string, or STRING_NONE if the table does not have it. */
uint32_t string_table_find(const struct string_table *table, const char *string);

/* Frees all strings; the table is empty then. */
void string_table_clear(struct string_table *table);

#endif

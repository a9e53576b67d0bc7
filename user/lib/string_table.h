/* SPDX-License-Identifier: GPL-2.0 */
/* Texts, each of which is kept once, and has a number. */
#ifndef STACKBEAT_LIB_STRING_TABLE_H
#define STACKBEAT_LIB_STRING_TABLE_H

#include "lib/hash.h"

#include <stddef.h>
#include <stdint.h>

#define TEXTS_NONE HASH_NONE

/* All zero is an empty table. */
struct texts {
	char **items; /* texts_clear() frees them */
	size_t count, capacity;
	struct hash index;
};

/* The number of a text of `length` bytes, added if need be; TEXTS_NONE: out of memory. */
uint32_t texts_add(struct texts *texts, const char *text, size_t length);

void texts_clear(struct texts *texts);

#endif

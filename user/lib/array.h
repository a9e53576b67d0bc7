/* SPDX-License-Identifier: GPL-2.0 */
/* Growing arrays. */
#ifndef STACKBEAT_LIB_ARRAY_H
#define STACKBEAT_LIB_ARRAY_H

#include <stddef.h>

/* The part of array_reserve() that is seldom needed. */
int array_grow(void *items, size_t *capacity, size_t count, size_t more, size_t size);

/*
 * Reserves room for `more` entries of `size` bytes behind the first `count` of *items, an array
 * with room for *capacity. An empty array is NULL with a capacity of 0. The caller owns *items
 * and frees it. Returns 0, or -ENOMEM with nothing changed.
 */
static inline int array_reserve(void *items, size_t *capacity, size_t count, size_t more,
				size_t size)
{
	size_t needed;

	if (!__builtin_add_overflow(count, more, &needed) && needed <= *capacity)
		return 0;
	return array_grow(items, capacity, count, more, size);
}

/*
 * Appends a copy of `string` to the *count strings of *strings, an array of array_reserve(). The
 * caller frees each string. Returns 0, or -ENOMEM with nothing added.
 */
int array_add_string(char ***strings, size_t *capacity, size_t *count, const char *string);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "lib/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 16

/* The `items` of array_grow() is the address of a pointer of any type. */
typedef void *any_pointer __attribute__((may_alias));

int array_grow(void *items, size_t *capacity, size_t count, size_t more, size_t size)
{
	any_pointer *array = items;
	size_t needed, wanted;
	void *grown;

	if (__builtin_add_overflow(count, more, &needed))
		return -ENOMEM;
	wanted = *capacity + *capacity / 2;
	if (wanted < CAPACITY_MIN)
		wanted = CAPACITY_MIN;
	if (wanted < needed)
		wanted = needed;
	grown = reallocarray(*array, wanted, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = wanted;
	return 0;
}

/* gcc's analyzer loses track of pointers stored at a variable index, and reports a leak. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

int array_add_string(char ***strings, size_t *capacity, size_t *count, const char *string)
{
	char *copy;

	if (array_reserve(strings, capacity, *count, 1, sizeof(**strings)))
		return -ENOMEM;
	copy = strdup(string);
	if (!copy)
		return -ENOMEM;
	(*strings)[(*count)++] = copy;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
#include "array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 16

int array_reserve(void *items, size_t *capacity, size_t count, size_t more, size_t size)
{
	size_t needed, wanted;
	void *old, *grown;

	if (__builtin_add_overflow(count, more, &needed))
		return -ENOMEM;
	if (needed <= *capacity)
		return 0;
	wanted = *capacity + *capacity / 2;
	if (wanted < CAPACITY_MIN)
		wanted = CAPACITY_MIN;
	if (wanted < needed)
		wanted = needed;
	/* `items` is the address of a pointer of any type. */
	memcpy(&old, items, sizeof(old));
	grown = reallocarray(old, wanted, size);
	if (!grown)
		return -ENOMEM;
	memcpy(items, &grown, sizeof(grown));
	*capacity = wanted;
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/* Search in tables that are sorted by an address. */
#ifndef STACKBEAT_LIB_UPPER_BOUND_H
#define STACKBEAT_LIB_UPPER_BOUND_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * How many of the `count` elements of `size` bytes begin with an address, their
 * first member, that is not above `address`. The last of these is the only one
 * that can hold it, if the elements do not overlap.
 */
static inline size_t upper_bound(const void *elements, size_t count, size_t size, uint64_t address)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t start;

		memcpy(&start, (const char *)elements + middle * size, sizeof(start));
		if (start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Binary search in tables sorted by address. */
#ifndef STACKBEAT_LIB_UPPER_BOUND_H
#define STACKBEAT_LIB_UPPER_BOUND_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Returns the number of elements, of `count` elements of `size` bytes, with a start not above
 * `address`. The start is the first member (uint64_t) of an element. If ranges of elements do not
 * overlap, only the last of these can contain `address`.
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

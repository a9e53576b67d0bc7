// SPDX-License-Identifier: GPL-2.0
#include "serve/slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"

static void close_slice(struct slices *slices, const struct slice *slice)
{
	slices->bytes -= slice->size;
	if (slice->content.file >= 0)
		close(slice->content.file);
}

int slices_add(struct slices *slices, uint32_t number, const struct slice_file *content)
{
	struct slice slice = {.number = number, .content = *content};
	size_t at = slices->count;
	struct stat status;

	if (array_reserve(&slices->items, &slices->capacity, slices->count, 1,
			  sizeof(*slices->items))) {
		if (content->file >= 0)
			close(content->file);
		return -ENOMEM;
	}
	if (content->file >= 0 && !fstat(content->file, &status))
		slice.size = (uint64_t)status.st_size;
	while (at && slices->items[at - 1].number > number)
		at--;
	memmove(slices->items + at + 1, slices->items + at,
		(slices->count - at) * sizeof(*slices->items));
	slices->items[at] = slice;
	slices->count++;
	slices->bytes += slice.size;
	return 0;
}

bool slices_have(const struct slices *slices, uint32_t first, uint32_t last)
{
	uint64_t wanted = last >= first ? (uint64_t)last - first + 1 : 0;

	for (size_t i = 0; i < slices->count && wanted; i++)
		wanted -= slices->items[i].number >= first && slices->items[i].number <= last;
	return !wanted;
}

size_t slices_find(const struct slices *slices, uint32_t first, uint32_t last,
		   struct slice_file **found)
{
	size_t count = 0;

	*found = calloc(slices->count + 1, sizeof(**found));
	for (size_t i = 0; i < slices->count && *found; i++) {
		if (slices->items[i].number >= first && slices->items[i].number <= last)
			(*found)[count++] = slices->items[i].content;
	}
	return count;
}

uint32_t slices_connected(const struct slices *slices, uint32_t first, uint32_t last)
{
	const struct slice *before = NULL;

	for (size_t i = 0; i < slices->count; i++) {
		const struct slice *slice = &slices->items[i];

		if (slice->number < first || slice->number > last)
			continue;
		if (before && llabs(slice->content.start_ns - before->content.start_ns -
				    before->content.duration_ns) >= NS_PER_SECOND)
			return before->number;
		before = slice;
	}
	return last;
}

void slices_drop(struct slices *slices, uint32_t number)
{
	size_t count = 0;

	while (count < slices->count && slices->items[count].number < number)
		close_slice(slices, &slices->items[count++]);
	if (count)
		memmove(slices->items, slices->items + count,
			(slices->count - count) * sizeof(*slices->items));
	slices->count -= count;
}

void slices_clear(struct slices *slices)
{
	slices_drop(slices, UINT32_MAX);
	free(slices->items);
	*slices = (struct slices){0};
}

// SPDX-License-Identifier: GPL-2.0
#include "source/record_buffer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <stackbeat.h>

#define SIZE_MIN (64u << 10)
#define SIZE_MAX_BYTES (1u << 30)

/* Returns whether there is room for `more` bytes. */
static bool record_buffer_reserve(struct record_buffer *buffer, size_t more)
{
	size_t size = buffer->size ? buffer->size : SIZE_MIN;
	uint8_t *data;

	while (size - buffer->used < more && size < SIZE_MAX_BYTES)
		size *= 2;
	if (size - buffer->used < more)
		return false;
	if (size == buffer->size)
		return true;
	data = realloc(buffer->data, size);
	if (!data)
		return false;
	buffer->data = data;
	buffer->size = (uint32_t)size;
	return true;
}

void *record_buffer_add(struct record_buffer *buffer, uint16_t type, uint16_t flags, size_t size)
{
	const size_t rounded = (size + 7) / 8 * 8;
	struct stackbeat_record *record;

	if (!record_buffer_reserve(buffer, rounded))
		return NULL;
	record = (void *)(buffer->data + buffer->used);
	memset(record, 0, rounded);
	*record = (struct stackbeat_record){type, flags, (uint32_t)rounded};
	buffer->used += rounded;
	return record;
}

void record_buffer_remove(struct record_buffer *buffer, size_t bytes)
{
	buffer->used -= bytes;
	if (buffer->used)
		memmove(buffer->data, buffer->data + bytes, buffer->used);
}

void record_buffer_clear(struct record_buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct record_buffer){.data = NULL};
}

/* SPDX-License-Identifier: GPL-2.0 */
/* Records of stackbeat.h in memory, as a ring of the module has them. */
#ifndef STACKBEAT_SOURCE_RECORD_BUFFER_H
#define STACKBEAT_SOURCE_RECORD_BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* All zero is an empty buffer. The records are the first `used` bytes. */
struct record_buffer {
	uint8_t *data;
	size_t used;
	uint32_t size; /* bytes of `data`, a power of two: as decode_records() wants it */
};

/*
 * Appends a record of `size` bytes, rounded up to a multiple of 8, with type, flags and size, and
 * zeros otherwise. The pointer is valid until the next call. NULL: out of memory.
 */
void *record_buffer_add(struct record_buffer *buffer, uint16_t type, uint16_t flags, size_t size);

/* Removes the first bytes. */
void record_buffer_remove(struct record_buffer *buffer, size_t bytes);

void record_buffer_clear(struct record_buffer *buffer);

#endif

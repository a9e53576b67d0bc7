/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads untrusted bytes in little-endian order. A read beyond the end returns 0 and marks the
 * cursor as broken for good: a parser may check `broken` once, after several reads.
 */
#ifndef STACKBEAT_LIB_BYTE_CURSOR_H
#define STACKBEAT_LIB_BYTE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cursor {
	const unsigned char *at, *end;
	bool broken;
};

/* Returns a cursor at `offset` in `size` bytes; it is broken if `offset` is beyond them. */
static inline struct cursor cursor_at(const void *bytes, size_t size, uint64_t offset)
{
	const unsigned char *start = bytes;

	if (offset > size)
		return (struct cursor){start, start, true};
	return (struct cursor){start + offset, start + size, false};
}

static inline size_t cursor_left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

static inline void cursor_break(struct cursor *cursor)
{
	cursor->at = cursor->end;
	cursor->broken = true;
}

/* Returns false, with the cursor broken, if fewer than `size` bytes are left. */
static inline bool cursor_skip(struct cursor *cursor, uint64_t size)
{
	if (size > cursor_left(cursor)) {
		cursor_break(cursor);
		return false;
	}
	cursor->at += size;
	return true;
}

/* Reads a number of `size` bytes, at most 8, on a little-endian machine: all supported ones are. */
static inline uint64_t cursor_number(struct cursor *cursor, size_t size)
{
	const unsigned char *bytes = cursor->at;
	uint64_t value = 0;
	uint16_t quarter;
	uint32_t half;

	if (!cursor_skip(cursor, size))
		return 0;
	if (size == 1)
		return *bytes;
	if (size == sizeof(quarter)) {
		memcpy(&quarter, bytes, sizeof(quarter));
		return quarter;
	}
	if (size == sizeof(half)) {
		memcpy(&half, bytes, sizeof(half));
		return half;
	}
	if (size == sizeof(value))
		memcpy(&value, bytes, sizeof(value));
	else
		memcpy(&value, bytes, size);
	return value;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	if (cursor->at == cursor->end) {
		cursor->broken = true;
		return 0;
	}
	return *cursor->at++;
}

static inline uint16_t cursor_u16(struct cursor *cursor)
{
	return (uint16_t)cursor_number(cursor, sizeof(uint16_t));
}

static inline uint32_t cursor_u32(struct cursor *cursor)
{
	return (uint32_t)cursor_number(cursor, sizeof(uint32_t));
}

static inline uint64_t cursor_u64(struct cursor *cursor)
{
	return cursor_number(cursor, sizeof(uint64_t));
}

/* Read LEB128 numbers. Bits above 64 are ignored. */
static inline uint64_t cursor_uleb128(struct cursor *cursor)
{
	uint64_t value = 0;
	uint8_t byte;

	if (cursor->at < cursor->end && *cursor->at < 0x80)
		return *cursor->at++;
	for (unsigned int shift = 0;; shift += 7) {
		byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
}

static inline int64_t cursor_sleb128(struct cursor *cursor)
{
	unsigned int shift = 0;
	uint64_t value = 0;
	uint8_t byte;

	do {
		byte = cursor_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (shift < 64 && (byte & 0x40))
		value |= ~UINT64_C(0) << shift;
	return (int64_t)value;
}

/* Reads a NUL-terminated string; NULL, with the cursor broken, if there is no NUL. */
static inline const char *cursor_string(struct cursor *cursor)
{
	const char *string = (const char *)cursor->at;
	const unsigned char *end = memchr(cursor->at, '\0', cursor_left(cursor));

	if (!end) {
		cursor_break(cursor);
		return NULL;
	}
	cursor->at = end + 1;
	return string;
}

#endif

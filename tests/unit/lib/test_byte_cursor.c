// SPDX-License-Identifier: GPL-2.0
/* Reads of untrusted bytes, up to their end and beyond. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "lib/byte_cursor.h"

static const uint8_t bytes[] = {0x01, 0x92, 0x83, 0xa4, 0x85, 0x96, 0x87, 0xf8, 0x09};

static uint64_t expected_number(size_t size)
{
	uint64_t value = 0;

	for (size_t i = size; i-- > 0;)
		value = value << 8 | bytes[i];
	return value;
}

static void begins_within_the_bytes(void **state)
{
	struct cursor cursor;

	(void)state;
	for (uint64_t offset = 0; offset <= sizeof(bytes); offset++) {
		cursor = cursor_at(bytes, sizeof(bytes), offset);
		assert_false(cursor.broken);
		assert_ptr_equal(cursor.at, bytes + offset);
		assert_int_equal(cursor_left(&cursor), sizeof(bytes) - offset);
	}
	cursor = cursor_at(bytes, sizeof(bytes), sizeof(bytes) + 1);
	assert_true(cursor.broken);
	assert_int_equal(cursor_left(&cursor), 0);
	cursor = cursor_at(bytes, sizeof(bytes), UINT64_MAX);
	assert_true(cursor.broken);
}

static void reads_numbers_of_each_size(void **state)
{
	(void)state;
	for (size_t size = 1; size <= 8; size++) {
		for (size_t available = 0; available <= sizeof(bytes); available++) {
			struct cursor cursor = cursor_at(bytes, available, 0);
			bool enough = size <= available;

			assert_int_equal(cursor_number(&cursor, size),
					 enough ? expected_number(size) : 0);
			assert_int_equal(cursor.broken, !enough);
			assert_int_equal(cursor_left(&cursor), enough ? available - size : 0);
		}
	}
}

static void reads_fixed_numbers(void **state)
{
	struct cursor cursor = cursor_at(bytes, sizeof(bytes), 0);

	(void)state;
	assert_int_equal(cursor_u8(&cursor), 0x01);
	assert_int_equal(cursor_u16(&cursor), 0x8392);
	assert_int_equal(cursor_u32(&cursor), 0x879685a4);
	assert_int_equal(cursor_left(&cursor), 2);
	assert_int_equal(cursor_u8(&cursor), 0xf8);
	assert_int_equal(cursor_u8(&cursor), 0x09);
	assert_false(cursor.broken);
	assert_int_equal(cursor_u8(&cursor), 0);
	assert_true(cursor.broken);
	cursor = cursor_at(bytes, sizeof(bytes), 0);
	assert_int_equal(cursor_u64(&cursor), expected_number(8));
	assert_int_equal(cursor_left(&cursor), 1);
	assert_int_equal(cursor_u16(&cursor), 0);
	assert_true(cursor.broken);
	assert_int_equal(cursor_left(&cursor), 0);
}

static void skips_within_the_bytes(void **state)
{
	struct cursor cursor = cursor_at(bytes, sizeof(bytes), 1);

	(void)state;
	assert_true(cursor_skip(&cursor, 0));
	assert_true(cursor_skip(&cursor, sizeof(bytes) - 1));
	assert_int_equal(cursor_left(&cursor), 0);
	assert_false(cursor.broken);
	assert_false(cursor_skip(&cursor, 1));
	assert_true(cursor.broken);
	cursor = cursor_at(bytes, sizeof(bytes), 1);
	assert_false(cursor_skip(&cursor, UINT64_MAX));
	assert_true(cursor.broken);
	assert_int_equal(cursor_left(&cursor), 0);
}

struct leb128 {
	const char *bytes;
	size_t size;
	uint64_t unsigned_value;
	int64_t signed_value;
};

static void reads_leb128(void **state)
{
	static const struct leb128 numbers[] = {
		{"\x00", 1, 0, 0},
		{"\x01", 1, 1, 1},
		{"\x3f", 1, 0x3f, 0x3f},
		{"\x40", 1, 0x40, -0x40},
		{"\x7f", 1, 0x7f, -1},
		{"\x80\x01", 2, 0x80, 0x80},
		{"\xff\x00", 2, 0x7f, 0x7f},
		{"\x80\x7f", 2, 0x3f80, -0x80},
		{"\xe5\x8e\x26", 3, 624485, 624485},
		{"\xc0\xbb\x78", 3, 0x1e1dc0, -123456},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10, UINT64_C(1) << 63, INT64_MIN},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, -1},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9, INT64_MAX, -1},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x40", 9, UINT64_C(1) << 62, -(INT64_C(1) << 62)},
		/* Bits above 64 are ignored. */
		{"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 12, 1, 1},
		{"\x82\x80\x80\x80\x80\x80\x80\x80\x80\xfe\x7f", 11, 2, 2},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct cursor cursor = cursor_at(numbers[i].bytes, numbers[i].size, 0);

		assert_int_equal(cursor_uleb128(&cursor), numbers[i].unsigned_value);
		assert_int_equal(cursor_left(&cursor), 0);
		assert_false(cursor.broken);
		cursor = cursor_at(numbers[i].bytes, numbers[i].size, 0);
		assert_int_equal(cursor_sleb128(&cursor), numbers[i].signed_value);
		assert_int_equal(cursor_left(&cursor), 0);
		assert_false(cursor.broken);
		/* Without the last byte. */
		cursor = cursor_at(numbers[i].bytes, numbers[i].size - 1, 0);
		cursor_uleb128(&cursor);
		assert_true(cursor.broken);
		cursor = cursor_at(numbers[i].bytes, numbers[i].size - 1, 0);
		cursor_sleb128(&cursor);
		assert_true(cursor.broken);
	}
}

static void reads_strings(void **state)
{
	static const char strings[] = {'a', 'b', '\0', '\0', 'c', 'd'};
	struct cursor cursor = cursor_at(strings, sizeof(strings), 0);

	(void)state;
	assert_string_equal(cursor_string(&cursor), "ab");
	assert_string_equal(cursor_string(&cursor), "");
	assert_int_equal(cursor_left(&cursor), 2);
	assert_null(cursor_string(&cursor));
	assert_true(cursor.broken);
	assert_int_equal(cursor_left(&cursor), 0);
	cursor = cursor_at(strings, sizeof(strings), sizeof(strings));
	assert_null(cursor_string(&cursor));
	assert_true(cursor.broken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_within_the_bytes),
		cmocka_unit_test(reads_numbers_of_each_size),
		cmocka_unit_test(reads_fixed_numbers),
		cmocka_unit_test(skips_within_the_bytes),
		cmocka_unit_test(reads_leb128),
		cmocka_unit_test(reads_strings),
	};

	return cmocka_run_group_tests_name("byte_cursor", tests, NULL, NULL);
}

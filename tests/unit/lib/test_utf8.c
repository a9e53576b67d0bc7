// SPDX-License-Identifier: GPL-2.0
/* UTF-8: every code point, and every kind of invalid sequence. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/utf8.h"

/* Encodes a code point in `length` bytes, which may be more than it needs. */
static void encode(uint32_t code_point, size_t length, char *text)
{
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};

	for (size_t i = length - 1; i > 0; i--, code_point >>= 6)
		text[i] = (char)(0x80 | (code_point & 0x3f));
	text[0] = (char)(length == 1 ? code_point : first[length] | code_point);
	text[length] = '\0';
}

static size_t shortest(uint32_t code_point)
{
	return 1 + (code_point >= 0x80) + (code_point >= 0x800) + (code_point >= 0x10000);
}

static void decodes_each_code_point(void **state)
{
	char text[8];

	(void)state;
	for (uint32_t code_point = 1; code_point < 0x110000; code_point++) {
		size_t length = shortest(code_point);
		uint32_t decoded = 0;

		encode(code_point, length, text);
		if (code_point >= 0xd800 && code_point <= 0xdfff) {
			assert_int_equal(utf8_decode(text, &decoded), 0);
			continue;
		}
		if (utf8_decode(text, &decoded) != length || decoded != code_point)
			fail_msg("U+%04x is decoded as U+%04x", code_point, decoded);
	}
	assert_int_equal(utf8_decode("", NULL), 0);
	assert_int_equal(utf8_decode("a", NULL), 1);
}

static void refuses_invalid_sequences(void **state)
{
	char text[8];

	(void)state;
	for (uint32_t code_point = 1; code_point < 0x10000; code_point++) {
		size_t length = shortest(code_point) + 1;

		encode(code_point, length, text);
		assert_int_equal(utf8_decode(text, NULL), 0);
		if (length > 2)
			continue;
		encode(code_point, 3, text);
		assert_int_equal(utf8_decode(text, NULL), 0);
	}
	for (uint32_t code_point = 0x110000; code_point < 0x200000; code_point += 0xfff) {
		encode(code_point, 4, text);
		assert_int_equal(utf8_decode(text, NULL), 0);
	}
	/* First bytes that begin no sequence, and sequences that end too early. */
	for (int byte = 0x80; byte < 0xc2; byte++) {
		const char sequence[] = {(char)byte, '\x80', '\x80', '\x80', '\0'};

		assert_int_equal(utf8_decode(sequence, NULL), 0);
	}
	for (int byte = 0xc2; byte < 0x100; byte++) {
		for (size_t length = 0; length < 4; length++) {
			char sequence[8] = {(char)byte};

			memset(sequence + 1, '\x90', length);
			assert_int_equal(utf8_decode(sequence, NULL) != 0,
					 byte < 0xe0    ? length >= 1
					 : byte == 0xe0 ? 0 /* overlong */
					 : byte < 0xf0  ? length >= 2
					 : byte < 0xf4  ? length >= 3
							: 0);
		}
	}
	assert_int_equal(utf8_decode("\xf4\x8f\xbf\xbf", NULL), 4);
	assert_int_equal(utf8_decode("\xf4\x90\x80\x80", NULL), 0);
	assert_int_equal(utf8_decode("\xf5\x80\x80\x80", NULL), 0);
	assert_int_equal(utf8_decode("\xc3\x28", NULL), 0);
	assert_int_equal(utf8_decode("\xc3\xff", NULL), 0);
}

static void validates_strings(void **state)
{
	(void)state;
	assert_true(utf8_valid(""));
	assert_true(utf8_valid("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z"));
	assert_false(utf8_valid("a\xc3"));
	assert_false(utf8_valid("\xff"));
	assert_false(utf8_valid("a\xc3\xa4\x80z"));
}

static bool should_be_hidden(uint32_t code_point)
{
	return code_point < ' ' || (code_point >= 0x7f && code_point <= 0x9f) ||
	       code_point == 0x061c || code_point == 0x200e || code_point == 0x200f ||
	       (code_point >= 0x2028 && code_point <= 0x202e) ||
	       (code_point >= 0x2066 && code_point <= 0x2069);
}

static void print_by(void (*print)(FILE *out, const char *text), const char *text, char *result,
		     size_t size)
{
	FILE *out = fmemopen(result, size, "w");

	assert_non_null(out);
	print(out, text);
	fclose(out);
}

static void printed(const char *text, char *result, size_t size)
{
	print_by(utf8_print, text, result, size);
}

static void controls_are_hidden(void **state)
{
	char text[16], result[64], escaped[16];

	(void)state;
	for (uint32_t code_point = 1; code_point < 0x3000; code_point++) {
		encode(code_point, shortest(code_point), text);
		strcat(text, "z");
		snprintf(escaped, sizeof(escaped), code_point < 0x100 ? "\\x%02xz" : "\\u%04xz",
			 code_point);
		printed(text, result, sizeof(result));
		assert_string_equal(result, should_be_hidden(code_point) ? escaped : text);
		strcpy(result, text);
		utf8_sanitize(result);
		assert_string_equal(result, should_be_hidden(code_point) ? "?z" : text);
	}
}

/* Those below are escaped in strings, and are space between these. */
static void controls_in_json_are_escaped(void **state)
{
	char text[16], result[64], escaped[16];

	(void)state;
	for (uint32_t code_point = 1; code_point < 0x3000; code_point++) {
		encode(code_point, shortest(code_point), text);
		strcat(text, "z");
		snprintf(escaped, sizeof(escaped), "\\u%04xz", code_point);
		print_by(utf8_print_json, text, result, sizeof(result));
		assert_string_equal(
			result, code_point >= ' ' && should_be_hidden(code_point) ? escaped : text);
	}
	print_by(utf8_print_json, "a\xff\xc3\xa4\x80z\xc3", result, sizeof(result));
	assert_string_equal(result, "a\\ufffd\xc3\xa4\\ufffdz\\ufffd");
}

static void invalid_bytes_are_hidden(void **state)
{
	char text[] = "a\xff\xc3\xa4\x80\xe2\x82z\xc3", result[64];

	(void)state;
	printed(text, result, sizeof(result));
	assert_string_equal(result, "a\\xff\xc3\xa4\\x80\\xe2\\x82z\\xc3");
	utf8_sanitize(text);
	assert_string_equal(text, "a?\xc3\xa4???z?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_each_code_point),
		cmocka_unit_test(refuses_invalid_sequences),
		cmocka_unit_test(validates_strings),
		cmocka_unit_test(controls_are_hidden),
		cmocka_unit_test(controls_in_json_are_escaped),
		cmocka_unit_test(invalid_bytes_are_hidden),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}

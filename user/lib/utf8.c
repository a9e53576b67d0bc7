// SPDX-License-Identifier: GPL-2.0
#include "lib/utf8.h"

#include <inttypes.h>
#include <string.h>

static size_t sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first >= 0xc2 && first < 0xe0)
		return 2;
	if (first >= 0xe0 && first < 0xf0)
		return 3;
	if (first >= 0xf0 && first < 0xf5)
		return 4;
	return 0;
}

size_t utf8_decode(const char *text, uint32_t *code_point)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *bytes = (const unsigned char *)text;
	size_t length = sequence_length(bytes[0]);
	uint32_t value;
	size_t i;

	if (!length || !bytes[0])
		return 0;
	value = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
	for (i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (bytes[i] & 0x3f);
	}
	if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return 0;
	if (code_point)
		*code_point = value;
	return length;
}

bool utf8_valid(const char *text)
{
	size_t length;

	while ((length = utf8_decode(text, NULL)))
		text += length;
	return !*text;
}

/* C0 and C1, line separators, and characters that change the direction of text. */
static bool is_control(uint32_t code_point)
{
	return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
	       code_point == 0x61c || code_point == 0x200e || code_point == 0x200f ||
	       (code_point >= 0x2028 && code_point <= 0x202e) ||
	       (code_point >= 0x2066 && code_point <= 0x2069);
}

void utf8_print(FILE *out, const char *text)
{
	uint32_t code_point;
	size_t length;

	for (; *text; text += length) {
		length = utf8_decode(text, &code_point);
		if (!length) {
			length = 1;
			fprintf(out, "\\x%02x", (unsigned char)*text);
		} else if (is_control(code_point)) {
			fprintf(out, code_point < 0x100 ? "\\x%02x" : "\\u%04x", code_point);
		} else {
			fwrite(text, 1, length, out);
		}
	}
}

void utf8_print_json(FILE *out, const char *json)
{
	uint32_t code_point;
	size_t length;

	for (; *json; json += length) {
		length = utf8_decode(json, &code_point);
		if (!length) {
			length = 1;
			fputs("\\ufffd", out);
		} else if (code_point >= 0x20 && is_control(code_point)) {
			fprintf(out, "\\u%04" PRIx32, code_point);
		} else {
			fwrite(json, 1, length, out);
		}
	}
}

void utf8_sanitize(char *text)
{
	uint32_t code_point;
	char *end = text;
	size_t length;

	for (; *text; text += length) {
		length = utf8_decode(text, &code_point);
		if (!length || is_control(code_point)) {
			length += !length;
			*end++ = '?';
		} else {
			memmove(end, text, length);
			end += length;
		}
	}
	*end = '\0';
}

// SPDX-License-Identifier: GPL-2.0
#include "lib/build_id.h"

#include <string.h>

#define HEX_DIGITS "0123456789abcdef"
#define DIRECTORY_DIGITS 2u

void build_id_format(const void *bytes, size_t size, char *hex)
{
	const unsigned char *next = bytes;

	for (; size; size--, next++) {
		*hex++ = HEX_DIGITS[*next >> 4];
		*hex++ = HEX_DIGITS[*next & 0xf];
	}
	*hex = '\0';
}

bool build_id_valid(const char *text)
{
	size_t digits = strspn(text, HEX_DIGITS);

	return digits > DIRECTORY_DIGITS && !text[digits];
}

bool build_id_equal(const char *a, const char *b)
{
	return !strcmp(a, b);
}

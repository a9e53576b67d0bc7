// SPDX-License-Identifier: GPL-2.0
#include "runtime/go_version.h"

#include <stdint.h>
#include <string.h>

/*
 * The magic number, the size of a pointer, flags, and at STRINGS the version as a string behind its
 * length, which is one byte for all versions.
 */
#define ALIGNMENT 16u
#define FLAGS 15u
#define HAS_STRINGS 0x2u
#define STRINGS 32u
#define LENGTH_MAX 127u

static const unsigned char magic[] = {0xff, ' ', 'G', 'o', ' ', 'b', 'u',
				      'i',  'l', 'd', 'i', 'n', 'f', ':'};

/* Reads a number of at most four digits, and advances *at to its end. */
static bool go_version_read_number(const char **at, const char *end, unsigned int *number)
{
	const char *start = *at;

	*number = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - start < 4)
		*number = *number * 10 + (unsigned int)(*(*at)++ - '0');
	return *at > start;
}

/* Development versions have a prefix. */
bool go_version_parse(const char *text, size_t length, struct go_version *version)
{
	const char *end = text + length, *at = memmem(text, length, "go", 2);

	if (!at)
		return false;
	at += 2;
	version->text = text;
	version->length = length;
	return go_version_read_number(&at, end, &version->major) && at < end && *at++ == '.' &&
	       go_version_read_number(&at, end, &version->minor);
}

bool go_version_find(const void *bytes, size_t size, uint64_t address, struct go_version *version)
{
	const unsigned char *start = bytes, *at = start;

	while ((at = memmem(at, size - (size_t)(at - start), magic, sizeof(magic)))) {
		size_t left = size - (size_t)(at - start);

		/* A segment of data may begin at any word, as with thread-local variables in C. */
		if ((address + (size_t)(at - start)) % ALIGNMENT == 0 && left > STRINGS &&
		    at[FLAGS] & HAS_STRINGS && at[STRINGS] <= LENGTH_MAX &&
		    at[STRINGS] < left - STRINGS &&
		    go_version_parse((const char *)at + STRINGS + 1, at[STRINGS], version))
			return true;
		at++;
	}
	return false;
}

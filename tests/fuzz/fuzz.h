/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fuzz target is a file fuzz_NAME.c, with one function that gets any bytes at all. What it calls
 * must neither crash nor read what is not its own, whatever they are. corpus/NAME/ are inputs to
 * begin with.
 */
#ifndef STACKBEAT_FUZZ_H
#define STACKBEAT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs are sequences of texts that end with 0 or with the input: the next one, to be freed, or
 * NULL. */
static inline char *fuzz_text(const uint8_t **data, size_t *size)
{
	size_t length = strnlen((const char *)*data, *size);
	char *text;

	if (*size == 0)
		return NULL;
	text = strndup((const char *)*data, length);
	if (!text)
		abort();
	length += length < *size;
	*data += length;
	*size -= length;
	return text;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fuzz target is a file fuzz_NAME.c with one function, which takes arbitrary bytes. The tested
 * code must neither crash nor read out of bounds on any input. corpus/NAME/ holds the seed inputs.
 */
#ifndef STACKBEAT_FUZZ_H
#define STACKBEAT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional; called first. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/*
 * Takes the next string from an input that is a sequence of strings, each ended by a NUL or by the
 * end of the input. Returns it, to be freed, or NULL.
 */
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

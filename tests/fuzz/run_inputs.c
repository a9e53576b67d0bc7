// SPDX-License-Identifier: GPL-2.0
/*
 * Runs a fuzz target once on each file that is named, and on no input: the part of libFuzzer that
 * the suite `seeds` needs, linked with the objects of the unit tests. Prints the name of each input
 * first, so that the last one is the input of a crash.
 */
#include "fuzz.h"

#include <stdio.h>
#include <unistd.h>

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}

/* As large as the input, so that the sanitizer notices each byte behind it. */
static uint8_t *read_input(const char *path, size_t *size)
{
	uint8_t *data = NULL;
	FILE *file = fopen(path, "rb");
	long end = -1;

	if (file && fseek(file, 0, SEEK_END) == 0)
		end = ftell(file);
	if (end > 0 && (data = malloc((size_t)end)))
		rewind(file);
	if (end < 0 || (end && (!data || fread(data, 1, (size_t)end, file) != (size_t)end))) {
		fprintf(stderr, "ERROR: %s can't be read\n", path);
		exit(1);
	}
	fclose(file);
	*size = (size_t)end;
	return data;
}

/* An input has hung after `argv[1]` seconds. */
int main(int argc, char **argv)
{
	const uint8_t none = 0;

	if (argc < 3)
		return 2;
	LLVMFuzzerInitialize(&argc, &argv);
	alarm((unsigned int)atoi(argv[1]));
	LLVMFuzzerTestOneInput(&none, 0);
	for (int i = 2; i < argc; i++) {
		uint8_t *data;
		size_t size;

		fprintf(stderr, "%s\n", argv[i]);
		data = read_input(argv[i], &size);
		alarm((unsigned int)atoi(argv[1]));
		LLVMFuzzerTestOneInput(data, size);
		free(data);
	}
	return 0;
}

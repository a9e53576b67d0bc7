// SPDX-License-Identifier: GPL-2.0
/*
 * gosym_dump FILE START END: what gosym says of each address from START to END (hex), as
 * tests/gosym/program prints what Go says.
 */
#include "gosym.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int print_frame(const struct gosym_frame *frame, void *arg)
{
	fprintf(arg, "\t%s|%s:%u|%u", frame->name, frame->file ? frame->file : "?", frame->line,
		frame->start_line);
	return 0;
}

static void dump(const struct gosym *gosym, uint64_t start, uint64_t end)
{
	char *text = NULL, *last = strdup("");
	size_t size;

	for (uint64_t pc = start; pc < end; pc++) {
		FILE *stream = open_memstream(&text, &size);

		gosym_lookup(gosym, pc, print_frame, stream);
		fclose(stream);
		if (strcmp(text, last) != 0)
			printf("%lx%s\n", (unsigned long)pc, text);
		free(last);
		last = text;
	}
	free(last);
}

int main(int argc, char **argv)
{
	struct gosym *gosym;
	struct error error;
	struct stat st;
	void *data;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: gosym_dump FILE START END\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		perror(argv[1]);
		return 1;
	}
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	if (gosym_open(data, (size_t)st.st_size, &gosym, &error) != 0) {
		fprintf(stderr, "%s: %s\n", argv[1], error.text);
		return 1;
	}
	dump(gosym, strtoull(argv[2], NULL, 16), strtoull(argv[3], NULL, 16));
	gosym_close(gosym);
	munmap(data, (size_t)st.st_size);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * dump frames|lines FILE START END: what gosym says of the addresses from START to END (hex).
 * "frames" prints it as tests/interop/gosym/program prints what Go says. "lines" prints as much of
 * it, for each address, as `go tool addr2line` knows: the function that holds the address, as it is
 * called in the file, and FILE:LINE of the innermost frame. "*" is what was left out with a
 * wrapper.
 */
#include "runtime/go_pclntab.h"

#include "lib/error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (64u << 10)

struct text {
	char text[TEXT_MAX];
	size_t size;
};

static int add_frame(const struct go_frame *frame, void *arg)
{
	struct text *text = arg;
	int size = snprintf(text->text + text->size, TEXT_MAX - text->size, "\t%s|%s:%u|%u",
			    frame->name, frame->file ? frame->file : "?", frame->line,
			    frame->start_line);

	if (size < 0 || (size_t)size >= TEXT_MAX - text->size)
		abort();
	text->size += (size_t)size;
	return 0;
}

static void print_frames(const struct go_pclntab *gosym, uint64_t start, uint64_t end)
{
	static struct text texts[2];
	struct text *text = &texts[0], *last = &texts[1], *swap;

	for (uint64_t pc = start; pc < end; pc++) {
		text->text[0] = '\0';
		text->size = 0;
		go_pclntab_lookup(gosym, pc, add_frame, text);
		if (strcmp(text->text, last->text) == 0)
			continue;
		printf("%lx%s\n", (unsigned long)pc, text->text);
		swap = last;
		last = text;
		text = swap;
	}
}

struct line {
	char function[TEXT_MAX], place[TEXT_MAX];
};

static int keep_ends(const struct go_frame *frame, void *arg)
{
	struct line *line = arg;

	if (strcmp(line->place, "*") == 0)
		snprintf(line->place, TEXT_MAX, "%s:%u", frame->file ? frame->file : "?",
			 frame->line);
	if (!frame->inlined)
		snprintf(line->function, TEXT_MAX, "%s", frame->system_name);
	return 0;
}

static void print_lines(const struct go_pclntab *gosym, uint64_t start, uint64_t end)
{
	static struct line line;

	for (uint64_t pc = start; pc < end; pc++) {
		strcpy(line.function, "*");
		strcpy(line.place, "*");
		go_pclntab_lookup(gosym, pc, keep_ends, &line);
		printf("%s\n%s\n", line.function, line.place);
	}
}

static const void *map_file(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *data;

	if (fd < 0 || fstat(fd, &st) != 0) {
		perror(path);
		exit(1);
	}
	*size = (size_t)st.st_size;
	data = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	return data;
}

int main(int argc, char **argv)
{
	struct go_pclntab *gosym;
	struct error error;
	const void *data;
	size_t size;

	if (argc != 5) {
		fprintf(stderr, "usage: dump frames|lines FILE START END\n");
		return 2;
	}
	data = map_file(argv[2], &size);
	if (go_pclntab_open(data, size, &gosym, &error) != 0) {
		fprintf(stderr, "%s: %s\n", argv[2], error.text);
		return 1;
	}
	(strcmp(argv[1], "lines") == 0 ? print_lines : print_frames)(
		gosym, strtoull(argv[3], NULL, 16), strtoull(argv[4], NULL, 16));
	go_pclntab_close(gosym);
	munmap((void *)data, size);
	return 0;
}

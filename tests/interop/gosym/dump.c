// SPDX-License-Identifier: GPL-2.0
/*
 * dump frames|lines FILE START END: symbolizes the addresses from START to END (hex) by the
 * pclntab. "frames" prints all frames, in the format of tests/interop/gosym/program. "lines" prints
 * for each address the output of `go tool addr2line`: the function that holds the address, by its
 * name in the file, and FILE:LINE of the innermost frame. "*" stands for an omitted wrapper.
 */
#include "runtime/go_pclntab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/error.h"

#define TEXT_MAX (64u << 10)

struct output {
	char text[TEXT_MAX];
	size_t size;
};

static int add_frame(const struct go_frame *frame, void *arg)
{
	struct output *output = arg;
	int size = snprintf(output->text + output->size, TEXT_MAX - output->size, "\t%s|%s:%u|%u",
			    frame->name, frame->file ? frame->file : "?", frame->line,
			    frame->start_line);

	if (size < 0 || (size_t)size >= TEXT_MAX - output->size)
		abort();
	output->size += (size_t)size;
	return 0;
}

static void print_frames(const struct go_pclntab *pclntab, uint64_t start, uint64_t end)
{
	static struct output outputs[2];
	struct output *output = &outputs[0], *last = &outputs[1], *swap;

	for (uint64_t pc = start; pc < end; pc++) {
		output->text[0] = '\0';
		output->size = 0;
		go_pclntab_lookup(pclntab, pc, add_frame, output);
		if (!strcmp(output->text, last->text))
			continue;
		printf("%lx%s\n", (unsigned long)pc, output->text);
		swap = last;
		last = output;
		output = swap;
	}
}

struct line {
	char function[TEXT_MAX], place[TEXT_MAX];
};

static int set_line(const struct go_frame *frame, void *arg)
{
	struct line *line = arg;

	if (!strcmp(line->place, "*"))
		snprintf(line->place, TEXT_MAX, "%s:%u", frame->file ? frame->file : "?",
			 frame->line);
	if (!frame->inlined)
		snprintf(line->function, TEXT_MAX, "%s", frame->system_name);
	return 0;
}

static void print_lines(const struct go_pclntab *pclntab, uint64_t start, uint64_t end)
{
	static struct line line;

	for (uint64_t pc = start; pc < end; pc++) {
		strcpy(line.function, "*");
		strcpy(line.place, "*");
		go_pclntab_lookup(pclntab, pc, set_line, &line);
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
	struct go_pclntab *pclntab;
	struct error error;
	const void *data;
	size_t size;

	if (argc != 5) {
		fprintf(stderr, "usage: dump frames|lines FILE START END\n");
		return 2;
	}
	data = map_file(argv[2], &size);
	if (go_pclntab_open(data, size, &pclntab, &error) != 0) {
		fprintf(stderr, "%s: %s\n", argv[2], error.text);
		return 1;
	}
	(!strcmp(argv[1], "lines") ? print_lines : print_frames)(
		pclntab, strtoull(argv[3], NULL, 16), strtoull(argv[4], NULL, 16));
	go_pclntab_close(pclntab);
	munmap((void *)data, size);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * name_addresses FILE [DEBUG-DIRECTORY]: reads addresses (hex, one per line) and symbolizes them as
 * a recording does. For each address with a symbol, prints a line with the address and a line for
 * each frame, innermost first, with tabs between the fields:
 *	FUNCTION SYSTEM-NAME FILE LINE START-LINE
 * Prints problems of the files, and finally the peak memory, to stderr.
 */
#include "debuginfo/debug_paths.h"
#include "symbolize/worker.h"
#include "symbolize/worker_pool.h"

#include "lib/array.h"
#include "lib/error.h"
#include "lib/string_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Number of workers; each reads a part of the file. */
#define PROCESSES 2u

static void print_text(const char *text)
{
	if (text)
		fputs(text, stdout);
	putchar('\t');
}

static int print(void *arg, size_t job, size_t index, const struct source_line *lines, size_t count)
{
	const uint64_t *vaddrs = arg;

	(void)job;
	printf("%#" PRIx64 "\n", vaddrs[index]);
	for (size_t i = 0; i < count; i++) {
		print_text(lines[i].function);
		print_text(lines[i].system_name);
		print_text(lines[i].file);
		printf("%" PRIu32 "\t%" PRIu32 "\n", lines[i].line, lines[i].start_line);
	}
	return 0;
}

static void print_problem(void *arg, const char *path, const char *text)
{
	(void)arg;
	(void)path;
	fprintf(stderr, "%s\n", text);
}

static int open_file(void *arg, unsigned int candidate, struct error *error)
{
	int fd = open(arg, O_RDONLY | O_CLOEXEC);

	(void)candidate, (void)error;

	return fd < 0 ? -errno : fd;
}

static uint64_t *read_addresses(size_t *count)
{
	size_t capacity = 0;
	uint64_t *vaddrs = NULL, vaddr;

	*count = 0;
	while (scanf("%" SCNx64, &vaddr) == 1) {
		if (array_reserve(&vaddrs, &capacity, *count, 1, sizeof(*vaddrs)) != 0)
			exit(1);
		vaddrs[(*count)++] = vaddr;
	}
	return vaddrs;
}

/* Prints an upper bound: all children count as the largest one, and shared memory for each. */
static void print_memory(unsigned int processes)
{
	struct rusage own, child;

	getrusage(RUSAGE_SELF, &own);
	getrusage(RUSAGE_CHILDREN, &child);
	fprintf(stderr, "peak %ld KiB\n", own.ru_maxrss + processes * child.ru_maxrss);
}

int main(int argc, char **argv)
{
	const char *directory = argc > 2 ? argv[2] : DEBUG_DIRECTORY;
	struct worker_pool namer = {
		.options.directories = &directory,
		.options.directory_count = 1,
		.options.problem = print_problem,
		.processes = PROCESSES,
		.lines = print,
	};
	struct worker_job job = {.build_id = "", .open = open_file};
	struct string_table texts = {0};
	struct sandbox_server sandbox;
	struct error error;
	uint64_t *vaddrs;
	int result;

	if (argc < 2) {
		fprintf(stderr, "usage: name_addresses FILE [DEBUG-DIRECTORY]\n");
		return 2;
	}
	if (sandbox_server_start(&sandbox, worker_main, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	namer.options.sandbox = &sandbox;
	job.path = job.arg = argv[1];
	job.addresses = vaddrs = read_addresses(&job.count);
	namer.arg = vaddrs;
	result = worker_pool_run(&namer, &job, 1, &texts);
	sandbox_server_stop(&sandbox);
	print_memory(PROCESSES);
	string_table_clear(&texts);
	free(vaddrs);
	return result != 0;
}

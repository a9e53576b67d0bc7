// SPDX-License-Identifier: GPL-2.0
/*
 * name_addresses FILE [DEBUG-DIRECTORY]: reads addresses, one a line, and writes what
 * `addr2line -a -f -i` would, in the order of the units. For comparisons and benchmarks.
 */
#include "debugfile.h"
#include "debuginfo.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "array.h"

static const char *known(const char *text)
{
	return text ? text : "??";
}

static int print(void *arg, size_t index, const struct debuginfo_frame *frames, size_t count)
{
	const uint64_t *vaddrs = arg;

	printf("%#018" PRIx64 "\n", vaddrs[index]);
	if (count == 0)
		printf("??\n??:0\n");
	for (size_t i = 0; i < count; i++)
		printf("%s\n%s:%" PRIu32 "\n",
		       known(frames[i].linkage_name ? frames[i].linkage_name : frames[i].name),
		       known(frames[i].file), frames[i].line);
	return 0;
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

int main(int argc, char **argv)
{
	const char *directory = argc > 2 ? argv[2] : DEBUG_DIRECTORY;
	const struct debug_search search = {.directories = &directory, .directory_count = 1};
	struct debuginfo *debuginfo;
	struct debug_files files;
	struct error error;
	uint64_t *vaddrs;
	size_t count;
	int fd, result;

	fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) {
		perror(argc > 1 ? argv[1] : "usage: name_addresses FILE [DEBUG-DIRECTORY]");
		return 2;
	}
	vaddrs = read_addresses(&count);
	if (debug_files_open(&files, fd, argv[1], "", &search, &error) != 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	if (*files.problem.text)
		fprintf(stderr, "%s\n", files.problem.text);
	if (!files.dwarf) {
		fprintf(stderr, "%s\n", files.missing.text);
		return 1;
	}
	if (debuginfo_open(files.dwarf, files.alt.elf, &debuginfo, &error) != 0) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	result = debuginfo_each(debuginfo, vaddrs, count, print, vaddrs);
	debuginfo_close(debuginfo);
	debug_files_close(&files);
	close(fd);
	free(vaddrs);
	return result != 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The search for debug files: the input is a binary, with or without links to a debug file and to
 * the shared file of dwz, and with or without MiniDebugInfo.
 */
#include "file.h"

#include "debuginfo/debug_files.h"

#include <errno.h>
#include <stdio.h>

static int open_nothing(void *arg, enum debug_name kind, const char *name, const char *beside,
			unsigned int *candidate, char **path)
{
	(void)arg, (void)kind, (void)name, (void)beside, (void)candidate;
	*path = NULL;
	return -ENOENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct debug_search search = {.open = open_nothing};
	int fd = fuzz_file(data, size);
	struct debug_files files;
	struct error error = {""};

	if (debug_files_open(&files, fd, "/bin/fuzz", "", &search, &error) == 0)
		debug_files_close(&files);
	else if (!*error.text)
		abort();
	return 0;
}

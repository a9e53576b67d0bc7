/* SPDX-License-Identifier: GPL-2.0 */
/* A directory for the files of one test: setup and teardown functions for cmocka. */
#ifndef STACKBEAT_TEST_SCRATCH_H
#define STACKBEAT_TEST_SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRATCH_TEST(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

struct scratch {
	char path[64];
};

static inline int scratch_setup(void **state)
{
	struct scratch *scratch = malloc(sizeof(*scratch));

	if (!scratch)
		return -1;
	strcpy(scratch->path, "/tmp/stackbeat-test.XXXXXX");
	*state = scratch;
	return mkdtemp(scratch->path) ? 0 : -1;
}

/* Returns DIRECTORY/`name`, which the caller frees. */
static inline char *scratch_file(void **state, const char *name)
{
	const struct scratch *scratch = *state;
	char *path;

	return asprintf(&path, "%s/%s", scratch->path, name) < 0 ? NULL : path;
}

/* Returns the number of directory entries; with `deletes`, unlinks them (files only). */
static inline size_t scratch_count(void **state, int deletes)
{
	const struct scratch *scratch = *state;
	DIR *directory = opendir(scratch->path);
	struct dirent *entry;
	size_t count = 0;

	while (directory && (entry = readdir(directory))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		count++;
		if (deletes)
			unlinkat(dirfd(directory), entry->d_name, 0);
	}
	if (directory)
		closedir(directory);
	return count;
}

static inline int scratch_teardown(void **state)
{
	struct scratch *scratch = *state;
	int ret;

	scratch_count(state, 1);
	ret = rmdir(scratch->path);
	free(scratch);
	return ret;
}

#endif

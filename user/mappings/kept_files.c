// SPDX-License-Identifier: GPL-2.0
#include "mappings/kept_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

bool is_file_linked(int fd)
{
	struct statx st;

	return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &st) && st.stx_nlink;
}

static int compare_owners(const void *a, const void *b)
{
	const struct kept_file *x = a, *y = b;

	if (x->is_linked != y->is_linked)
		return x->is_linked ? -1 : 1;
	return (x->owner > y->owner) - (x->owner < y->owner);
}

static int kept_files_compare_ranks(const void *a, const void *b)
{
	const struct kept_file *x = a, *y = b;

	if (x->is_linked != y->is_linked)
		return x->is_linked ? -1 : 1;
	return (x->rank < y->rank) - (x->rank > y->rank);
}

/* The last file of an owner has as its rank the number of the others. */
void kept_files_sort(struct kept_file *files, size_t count)
{
	qsort(files, count, sizeof(*files), compare_owners);
	for (size_t i = 0; i < count; i++)
		files[i].rank =
			i && !compare_owners(&files[i - 1], &files[i]) ? files[i - 1].rank + 1 : 0;
	qsort(files, count, sizeof(*files), kept_files_compare_ranks);
}

size_t kept_files_max(size_t max)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < max)
		return limit.rlim_cur / 2;
	return max;
}

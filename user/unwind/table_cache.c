// SPDX-License-Identifier: GPL-2.0
#include "unwind/table_cache.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "unwind/compile.h"

static bool table_cache_is_valid(const struct unwind_summary *summary, const void *table,
				 size_t size)
{
	return unwind_summary_is_valid(summary) && summary->size == size &&
	       (!size || stackbeat_unwind_check(table, size));
}

int table_cache_find(struct file_cache *cache, const struct file_key *key,
		     struct unwind_summary *summary, struct stackbeat_unwind_table **table)
{
	const struct cache_key entry = {CACHE_UNWIND_TABLE, key, 1};
	void *bytes;
	size_t size;
	int err = file_cache_read(cache, &entry, summary, sizeof(*summary), &bytes, &size);

	*table = bytes;
	if (!err && table_cache_is_valid(summary, bytes, size))
		return 0;
	free(bytes);
	*table = NULL;
	*summary = (struct unwind_summary){0};
	return -ENOENT;
}

/* What depends on the file alone. */
static bool is_of_use(const struct unwind_summary *summary)
{
	return summary->result == UNWIND_COMPILED || summary->result == UNWIND_NO_INFORMATION ||
	       summary->result == UNWIND_OTHER_MACHINE || summary->result == UNWIND_TOO_LARGE;
}

int table_cache_store(struct file_cache *cache, const struct file_key *key,
		      const struct unwind_summary *summary,
		      const struct stackbeat_unwind_table *table)
{
	const struct cache_key entry = {CACHE_UNWIND_TABLE, key, 1};
	const struct iovec parts[] = {
		{.iov_base = (void *)summary, .iov_len = sizeof(*summary)},
		{.iov_base = (void *)table, .iov_len = summary->size},
	};

	/* The rings fill while the reader of samples is here. */
	return is_of_use(summary) ? file_cache_store_only(cache, &entry, parts, 2) : 0;
}

/* SPDX-License-Identifier: GPL-2.0 */
/* Compiled unwind tables (compile.h) in a cache of files (debuginfo/file_cache.h). */
#ifndef STACKBEAT_UNWIND_TABLE_CACHE_H
#define STACKBEAT_UNWIND_TABLE_CACHE_H

#include "debuginfo/file_cache.h"

struct stackbeat_unwind_table;
struct unwind_summary;

/*
 * Finds what was compiled of a file. Returns 0 and sets *summary and *table, as unwind_job_finish()
 * does; or -ENOENT with both empty.
 */
int table_cache_find(struct file_cache *cache, const struct file_key *key,
		     struct unwind_summary *summary, struct stackbeat_unwind_table **table);

/*
 * Stores what was compiled of a file: a table, or NULL for a file that has none, by its summary.
 * What is of no use later is not stored. Returns 0 or a negative errno value.
 */
int table_cache_store(struct file_cache *cache, const struct file_key *key,
		      const struct unwind_summary *summary,
		      const struct stackbeat_unwind_table *table);

#endif

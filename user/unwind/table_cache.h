/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Compiled unwind tables (compile.h) in a directory, for later recordings, and for others at the
 * same time.
 *
 * A table is found by the identity of its file, which the kernel vouches for: see struct table_key.
 * What is in a file, such as a build ID, does not choose the table of another file.
 *
 * Each table is one file. It appears as a whole, by a rename, and has the build ID of the command
 * that compiled it, its length, and a checksum: what another build has compiled, or what is
 * damaged, is not found, and is replaced. The files that were not used for the longest time are
 * removed when all of them exceed a limit; those of tables for files that are not root's have half
 * of it.
 */
#ifndef STACKBEAT_UNWIND_TABLE_CACHE_H
#define STACKBEAT_UNWIND_TABLE_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/build_id.h"

struct error;
struct stackbeat_unwind_table;
struct table_cache;
struct unwind_summary;

/* Default limit. All programs and libraries of a desktop take about 100 MB. */
#define TABLE_CACHE_BYTES_MAX (UINT64_C(256) << 20)

#define TABLE_KEY_BOOT_SIZE 40

/*
 * The identity of a file's contents: of a file for which the kernel reports STACKBEAT_FILE_LASTING.
 * The time of change is the kernel's: users can't set it. All bytes count: clear them first.
 */
struct table_key {
	uint64_t device, inode, size;
	uint64_t generation;
	int64_t changed_s, changed_ns; /* st_ctim */
	uint64_t owner; /* uid */
	/* The ID of the boot, of devices whose number is another one after each; else "". */
	char boot[TABLE_KEY_BOOT_SIZE];
	char build_id[136]; /* as text */
};

_Static_assert(sizeof(((struct table_key *)0)->build_id) >= BUILD_ID_SIZE, "a build ID fits");

struct table_cache_config {
	const char *directory; /* created, with those above it, if it is missing */
	uint64_t bytes_max;
	const char *compiler; /* NULL: the build ID of this command */
};

/*
 * Opens a cache. Returns NULL with `error` set if that fails: -EPERM if others than this user can
 * write to the directory. table_cache_close() accepts NULL.
 */
struct table_cache *table_cache_open(const struct table_cache_config *config, struct error *error);
void table_cache_close(struct table_cache *cache);

/*
 * Finds what was compiled of a file. Returns 0 and sets *summary and *table, as unwind_job_finish()
 * does; or -ENOENT with both empty.
 */
int table_cache_find(struct table_cache *cache, const struct table_key *key,
		     struct unwind_summary *summary, struct stackbeat_unwind_table **table);

/*
 * Stores what was compiled of a file: a table, or NULL for a file that has none, by its summary.
 * What is of no use later is not stored. Returns 0 or a negative errno value.
 */
int table_cache_store(struct table_cache *cache, const struct table_key *key,
		      const struct unwind_summary *summary,
		      const struct stackbeat_unwind_table *table);

#endif

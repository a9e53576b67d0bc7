/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The unwind tables of mapped files: compiles them in workers (unwind/job.h), and passes them to
 * the module. Files in which samples have frames come first, before them those that a copy of a
 * stack waits for. An owner of files other than root has one worker at a time, and all of them
 * leave one to root, so that files that take long don't keep others waiting. Nothing here waits: a
 * recording goes on meanwhile.
 *
 * With a cache, a file that was compiled before, by any recording, needs no worker. The key is
 * computed here, of the open file: a worker decides the table of its own file only. What it has
 * compiled is stored when the module has found that the file is the mapped one.
 *
 * Tables are also kept for copies of stacks, as far as memory permits. A table that was dropped is
 * compiled again when a copy needs it. What is known of a file is forgotten with the file.
 *
 * A failure that may pass (no memory, too many descriptors, no room in the module, a worker that
 * was killed or too slow) is retried some times, after longer and longer times: until then, the
 * file is as one without a table here, and the module does not learn of it.
 */
#ifndef STACKBEAT_RECORD_TABLE_JOBS_H
#define STACKBEAT_RECORD_TABLE_JOBS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat_unwind.h>

struct mapped_file;
struct mapped_files;
struct sandbox_server;
struct file_cache;
struct unwind_tables;

/* Workers at the same time. */
#define UNWIND_TABLES_JOBS 3u
/* Descriptors of unwind_tables_poll(), at most. */
#define UNWIND_TABLES_FDS (UNWIND_TABLES_JOBS + 1)
/* Default limit of the tables that are kept. */
#define UNWIND_TABLES_BYTES_MAX (64u << 20)

struct unwind_tables_config {
	const struct sandbox_server *sandbox; /* with run_unwind_worker() */
	size_t memory; /* bytes of the tables that are kept; 0: none is kept */
	struct file_cache *cache; /* unwind/table_cache.h; NULL: none */
	int64_t retry_ns; /* before the first retry after a failure; 0: a second */
	/* As device_push_unwind_table(). */
	int (*push)(uint64_t file, const struct stackbeat_unwind_table *table, void *arg);
	/* Called with one line per file. NULL: off. */
	void (*message)(const char *text, void *arg);
	void *arg;
};

/* A file that is still retried is counted as failed or refused when its retries end. */
struct unwind_tables_counts {
	uint64_t compiled; /* tables */
	uint64_t cached; /* files whose table, or that they have none, is from the cache */
	uint64_t without; /* files without call frame information, or of another machine */
	uint64_t failed; /* files that could not be opened, or compiled, or were changed */
	uint64_t refused; /* tables that the module has refused */
	uint64_t unsupported; /* ranges of code, in all tables, whose rule a table can't express */
	/* The newest Go 1.x that runtime/go_layout.h does not know, as far as goroutines are read.
	 */
	uint32_t unknown_go; /* its minor version; 0: none */
};

/*
 * Makes the tables of all `files` that are added from now on, and of the vdso. `files` must outlive
 * them; `config` is copied. Returns NULL with errno set if that fails. unwind_tables_free() accepts
 * NULL.
 */
struct unwind_tables *unwind_tables_new(struct mapped_files *files,
					const struct unwind_tables_config *config);
void unwind_tables_free(struct unwind_tables *tables);

/* Starts and finishes jobs. Call it when a descriptor of unwind_tables_poll() is readable. */
void unwind_tables_run(struct unwind_tables *tables);

/* Sets the events of `fds` to wait for. Returns their number. */
size_t unwind_tables_poll(const struct unwind_tables *tables, struct pollfd fds[UNWIND_TABLES_FDS]);

enum unwind_table_state {
	UNWIND_TABLE_PENDING, /* it is not known yet */
	UNWIND_TABLE_READY,
	UNWIND_TABLE_NONE,
};

/*
 * Looks up the table of a file for a copy of a stack. Sets *view, for UNWIND_TABLE_READY, which is
 * valid until the next call of unwind_tables_run(). A table that is not there is compiled before
 * others.
 */
enum unwind_table_state unwind_tables_find(struct unwind_tables *tables, struct mapped_file *file,
					   const struct stackbeat_unwind_view **view);

/* Ends all jobs. From now on, no table is passed to the module, and none is pending. */
void unwind_tables_stop(struct unwind_tables *tables);

void unwind_tables_counts(const struct unwind_tables *tables, struct unwind_tables_counts *counts);

/* Returns why the module has refused the first table that it has refused: one line; "": none. */
const char *unwind_tables_refusal(const struct unwind_tables *tables);

/* Returns the bytes of memory of the tables that are kept. */
size_t unwind_tables_bytes(const struct unwind_tables *tables);

/* Returns the bytes of memory of what is known of each file, in addition to the tables. */
size_t unwind_tables_list_bytes(const struct unwind_tables *tables);

#endif

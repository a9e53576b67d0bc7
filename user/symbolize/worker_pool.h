/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names for many addresses of many files, in parallel.
 *
 * Each file is read by a process of its own, which tells through a pipe what it has
 * found. The files are not trusted, they may lie on a file system that hangs, and they
 * may take much memory: a process can be killed without loss, and takes nothing along
 * when it crashes. It is confined (see sandbox/seccomp_filter.h) from when it has opened the file.
 */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_POOL_H
#define STACKBEAT_SYMBOLIZE_WORKER_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "symbolize/source_line.h"
#include "symbolize/worker_protocol.h"

struct worker_pool {
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	/*
	 * The directory of a cache (see symbol_cache.h), or NULL. Of files with a build id, names
	 * come from there, and go there where they come with a file and a line, and from files
	 * of which file_is_trusted() each.
	 */
	const char *cache;
	unsigned int processes; /* at a time; 0: as many as there are CPUs */
	unsigned int patience; /* seconds without a sign of life; 0: WORKER_TIMEOUT_S */
	unsigned int limit; /* seconds that a process may take; 0: WORKER_DEADLINE_S */
	/* An fd: as soon as it can be read, naming ends. It is not read. 0: none. */
	int stop;
	/*
	 * Gets the lines of the address at `index` of a job, innermost first; 0 where the
	 * frame is not to be shown (a wrapper that Go's compiler has made). The texts stay as
	 * long as the struct string_table of worker_pool_run(). Returns 0 or a negative errno
	 * value, which ends it.
	 */
	int (*name)(void *arg, size_t job, size_t index, const struct source_line *lines,
		    size_t count);
	/* Gets what is wrong with a job's files, one line, without its path. May be NULL. */
	void (*problem)(void *arg, size_t job, const char *text);
	/*
	 * Gets told how far a file is fetched from a server, in bytes (`total` 0: unknown).
	 * NULL: nothing is fetched.
	 */
	void (*progress)(void *arg, size_t job, uint64_t done, uint64_t total);
	void *arg;
};

/* How long a file may keep silent, and take in all. */
#define WORKER_TIMEOUT_S 30u
#define WORKER_DEADLINE_S 600u

struct string_table;

/*
 * Names the addresses of all jobs; `texts` gets the texts. What could not be named is
 * just not told of. A job that takes too long, or tells too much text for its addresses, ends
 * with a problem, and keeps the names that were told before. Returns 0, -ENOMEM, -EINTR where
 * `stop` has ended it, or what `name` returned.
 */
int worker_pool_run(const struct worker_pool *namer, const struct worker_job *jobs, size_t count,
		    struct string_table *texts);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Options of symbolization, while recording and offline. */
#ifndef STACKBEAT_SYMBOLIZE_SYMBOLIZE_OPTIONS_H
#define STACKBEAT_SYMBOLIZE_SYMBOLIZE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct archive_reader;
struct debuginfod_helper;
struct file_cache;
struct sandbox_server;

/* All fields but `sandbox` may be zero. */
struct symbolize_options {
	const struct sandbox_server *sandbox; /* of worker_main() (worker.h) */
	const struct debuginfod_helper *debuginfod; /* NULL: nothing is downloaded */
	struct file_cache *cache; /* of what was read of files before; NULL: none */
	unsigned int timeout_s; /* for all files together; 0: no limit */
	/* Reports that `timeout_s` is over: `files` were not read, or not completely. */
	void (*timed_out)(void *arg, unsigned int timeout_s, size_t files);
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	const struct archive_reader *archive; /* searched for debug files first; NULL: none */
	/* An fd, which is polled but not read: symbolization stops once it is readable. 0: none. */
	int stop;
	/* Reports that `stop` was readable. The symbols found so far stay. NULL: -EINTR instead. */
	void (*interrupted)(void *arg);
	/*
	 * Reports that `count` addresses of a mapping have no symbol after all. May be NULL.
	 */
	void (*missing)(void *arg, const char *path, const char *build_id, size_t count);
	/* Reports one problem with a file, one line without the path. May be NULL. */
	void (*problem)(void *arg, const char *path, const char *text);
	/*
	 * Reports how many bytes of a debug file are downloaded (`total` 0: unknown size). May be
	 * NULL.
	 */
	void (*progress)(void *arg, const char *path, uint64_t done, uint64_t total);
	/*
	 * Reports how many of the addresses of all files are done, `elapsed_ms` after the start, at
	 * most ten times a second. May be NULL.
	 */
	void (*names_progress)(void *arg, size_t done, size_t total, int64_t elapsed_ms);
	void *arg;
};

#endif

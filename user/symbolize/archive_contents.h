/* SPDX-License-Identifier: GPL-2.0 */
/* What goes into an archive (see binary_archive.h): finds it, and hands it over. */
#ifndef STACKBEAT_SYMBOLIZE_ARCHIVE_CONTENTS_H
#define STACKBEAT_SYMBOLIZE_ARCHIVE_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>

struct binary_finder;
struct pprof_profile;

struct archive_plan {
	const struct binary_finder *search;
	const char *const *directories; /* of debug files */
	size_t directory_count;
	bool without_debug; /* no debug files */
	/* A mapping's file, or what is of it, is missing, for this reason. */
	void (*missing)(void *arg, const char *path, const char *text);
	void *arg;
};

/*
 * These return 0, or a negative errno value, which ends it. The fds stay the caller's. `path` is
 * that of the mapping, `name` that in the archive.
 */
struct archive_sink {
	int (*object)(void *arg, const char *path, const char *name, int fd);
	int (*debug_file)(void *arg, const char *path, const char *name, int fd);
	int (*text)(void *arg, const char *path); /* a file of the kernel's, for "path" */
	void (*missing)(void *arg, const char *path, const char *text);
	void *arg;
};

/* Returns 0, -ENOMEM, or what one of the functions returned. */
int archive_contents_collect(const struct archive_plan *plan, const struct pprof_profile *profile,
			     const struct archive_sink *sink);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Collects the contents of an archive (see binary_archive.h). */
#ifndef STACKBEAT_SYMBOLIZE_ARCHIVE_CONTENTS_H
#define STACKBEAT_SYMBOLIZE_ARCHIVE_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>

struct binary_finder;
struct profile;
struct sandbox_server;

struct archive_plan {
	const struct sandbox_server *sandbox; /* reads headers (debuginfo/elf_headers.h) */
	const struct binary_finder *search;
	const char *const *directories; /* of debug files */
	size_t directory_count;
	bool without_debug; /* skip debug files */
	/* Reports that the binary or debug file of a mapping is missing, and why. */
	void (*missing)(void *arg, const char *path, const char *text);
	void *arg;
};

/*
 * Receives the contents. The functions return 0, or a negative errno value, which ends the
 * collection. The fds stay the caller's. `path` belongs to the mapping, `name` to the archive.
 */
struct archive_sink {
	int (*binary)(void *arg, const char *path, const char *name, int fd);
	int (*debug_file)(void *arg, const char *path, const char *name, int fd);
	int (*kernel_file)(void *arg, const char *path); /* a file of /proc or /sys */
	void (*missing)(void *arg, const char *path, const char *text);
	void *arg;
};

/* Collects the contents for a profile. Returns 0, a negative errno value, or the sink's. */
int archive_contents_collect(const struct archive_plan *plan, const struct profile *profile,
			     const struct archive_sink *sink);

#endif

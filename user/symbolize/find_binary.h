/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Looks for the files that a profile names, after the recording and perhaps on another
 * machine: a file is taken only if it is the one of the profile.
 */
#ifndef STACKBEAT_SYMBOLIZE_FIND_BINARY_H
#define STACKBEAT_SYMBOLIZE_FIND_BINARY_H

#include <stdint.h>

struct error;

struct binary_finder {
	/*
	 * Where to look first: in its .build-id/ab/cdef..., then for the path below it, then
	 * for the name in it. NULL: only at the path itself.
	 */
	const char *directory;
	/* ns since 1970: a file without a build id must be ELF, and not have changed since. */
	int64_t time;
};

/*
 * Opens the file that a profile calls `path`, with this build id (hex, "" if it has none).
 * Returns a read-only file descriptor of a regular file, which the caller closes, or
 * -ENOENT, with `error` saying where it was looked for, or what was found in its place and is
 * another one.
 */
int binary_finder_open(const struct binary_finder *search, const char *path, const char *build_id,
		       struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the binaries that a profile names, after the recording and perhaps on another machine. A
 * file is used only if it proves to be the file of the profile.
 */
#ifndef STACKBEAT_SYMBOLIZE_FIND_BINARY_H
#define STACKBEAT_SYMBOLIZE_FIND_BINARY_H

#include <stdbool.h>
#include <stdint.h>

struct archive_reader;
struct error;

struct binary_finder {
	/*
	 * Searched before the path itself: first DIRECTORY/.build-id/ab/cdef..., then the path
	 * below DIRECTORY, then the file name in DIRECTORY. After the path: the files in
	 * DIRECTORY/.untrusted, see mappings/binary_store.h. NULL: none.
	 */
	const char *directory;
	const struct archive_reader *archive; /* searched as `directory`, and before it; or NULL */
	/* ns since 1970: an ELF file without a build ID must not have changed since. */
	int64_t time;
};

/*
 * Opens the file number `candidate` (from 0) among the possible places of the file that a profile
 * names `path`, with a build ID (hex, "" if it has none): the caller has a worker compare the build
 * ID. If only untrusted users have saved files with the build ID, and these differ, none is taken.
 * Sets *is_trusted to whether no untrusted user can have written it. Returns a read-only file
 * descriptor of a regular file, which the caller closes, or -ENOENT if there are no more, with the
 * places searched, or a file that was not taken, in `error`.
 */
int binary_finder_open(const struct binary_finder *search, const char *path, const char *build_id,
		       unsigned int candidate, bool *is_trusted, struct error *error);

#endif

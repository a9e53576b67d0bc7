/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Archives of the files needed to symbolize a profile elsewhere: a compressed tar file with
 *	.build-id/ab/cdef...		binaries (programs and libraries), by build ID
 *	.build-id/ab/cdef....debug	debug files
 *	PATH				binaries without a build ID
 *	proc/kallsyms, proc/modules, sys/kernel/notes, sys/module/NAME/notes/...
 *					copies of these files, if the kernel was sampled
 */
#ifndef STACKBEAT_SYMBOLIZE_BINARY_ARCHIVE_H
#define STACKBEAT_SYMBOLIZE_BINARY_ARCHIVE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "symbolize/archive_contents.h"

struct error;
struct profile;

/*
 * Limits of the uncompressed bytes of an archive, and of one file in it: sparse files, and archives
 * of them, can have any size in little space.
 */
#define BINARY_ARCHIVE_BYTES_MAX (UINT64_C(16) << 30)
#define BINARY_ARCHIVE_FILE_MAX (UINT64_C(8) << 30)

struct binary_archive_counts {
	size_t binaries;
	size_t debug_files;
	size_t missing; /* binaries, kernel files, files that are too large, crashed searches */
	uint64_t size; /* bytes of the archive */
};

/*
 * Writes the archive of a profile to `path` ("-": stdout). Returns 0, or a negative errno value
 * with `error` set and no file left: -ENOENT if there is nothing to collect.
 */
int binary_archive_create(const struct archive_plan *plan, const struct profile *profile,
			  const char *path, struct binary_archive_counts *counts,
			  struct error *error);

/* An unpacked archive. All zero: none. */
struct binary_archive {
	char directory[PATH_MAX];
};

/*
 * Unpacks an archive into a new directory below TMPDIR (default /tmp). binary_archive_remove()
 * removes the directory, and so does SIGINT, SIGTERM or SIGHUP that ends the process. Only one
 * archive can be unpacked at a time. Returns 0, or a negative errno value with nothing left behind:
 * -EBADMSG if the file is no valid archive, -EFBIG if it exceeds BINARY_ARCHIVE_BYTES_MAX, or a
 * file in it BINARY_ARCHIVE_FILE_MAX.
 */
int binary_archive_unpack(struct binary_archive *unpacked, const char *path, struct error *error);
void binary_archive_remove(struct binary_archive *unpacked);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Archives of what a profile needs to be named elsewhere: a compressed tar file with
 *	.build-id/ab/cdef...		programs and libraries, by their build ids
 *	.build-id/ab/cdef....debug	their debug files
 *	PATH				what has no build id
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
struct pprof_profile;

/*
 * Bytes of all that is in an archive, unpacked, and of one file in it. A file may say that it has
 * any size and take no room, and so may what is in an archive.
 */
#define BINARY_ARCHIVE_BYTES_MAX (UINT64_C(16) << 30)
#define BINARY_ARCHIVE_FILE_MAX (UINT64_C(8) << 30)

struct binary_archive_counts {
	size_t objects; /* programs and libraries */
	size_t debug_files;
	size_t missing; /* and the kernel, what is too large, searches that died */
	uint64_t size; /* bytes of the archive */
};

/*
 * Writes the archive of a profile to `path` ("-": the standard output). Returns 0, or a
 * negative errno value with `error` set and nothing written: -ENOENT when there is nothing
 * to collect.
 */
int binary_archive_create(const struct archive_plan *plan, const struct pprof_profile *profile,
			  const char *path, struct binary_archive_counts *counts,
			  struct error *error);

/* An archive, unpacked. All zero: none. */
struct binary_archive {
	char directory[PATH_MAX];
};

/*
 * Unpacks an archive into a new directory below TMPDIR (/tmp), which goes with
 * binary_archive_remove(), or when SIGINT, SIGTERM or SIGHUP end the process. Of one at a time.
 * Returns 0 or a negative errno value with nothing left behind: -EBADMSG for what is no archive,
 * -EFBIG for one of more than BINARY_ARCHIVE_BYTES_MAX, or with a file of more than
 * BINARY_ARCHIVE_FILE_MAX.
 */
int binary_archive_unpack(struct binary_archive *bundle, const char *path, struct error *error);
void binary_archive_remove(struct binary_archive *bundle);

#endif

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

#include <stddef.h>
#include <stdint.h>

#include "symbolize/archive_contents.h"

struct error;
struct profile;

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

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file that is there as a whole or not at all: it is written without a name, and takes
 * its own when it is finished. Where the file system has no such files (NFS, FAT), it has
 * another name in the same directory until then: what a signal would leave.
 */
#ifndef STACKBEAT_LIB_ATOMIC_FILE_H
#define STACKBEAT_LIB_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

struct atomic_file {
	char *path; /* as given, for messages */
	char *target; /* what is replaced: `path` with its symbolic links followed */
	char *temporary; /* its name for now; NULL: it has none, or is written in place */
	uint64_t size; /* bytes written */
	int fd;
	bool nameless; /* private: it gets a name when it is finished */
	/* To be set by the caller, for what is not worth waiting for the disk. */
	bool transient;
};

/*
 * Begins to write `path`. "-" is the standard output. What is there and is no
 * regular file (a pipe, /dev/null) is written in place.
 *
 * Returns 0, and atomic_file_commit() or atomic_file_discard() must follow; or a negative errno
 * value with `file` untouched.
 */
int atomic_file_create(struct atomic_file *file, const char *path, struct error *error);

/*
 * Whether `path` can be written, as far as that can be known without doing it. Returns 0 or a
 * negative errno value, and leaves nothing.
 */
int atomic_file_check(const char *path, struct error *error);

/* Writes all of `data`. Returns 0 or a negative errno value; `file` stays open. */
int atomic_file_write(struct atomic_file *file, const void *data, size_t size, struct error *error);

/*
 * Brings the file to the disk and gives it its name. Returns 0, or a negative errno
 * value, and then what was at `path` is as it was. `file` is closed in both cases;
 * file->size stays.
 */
int atomic_file_commit(struct atomic_file *file, struct error *error);

/* Forgets all that was written. `file` is closed. */
void atomic_file_discard(struct atomic_file *file);

#endif

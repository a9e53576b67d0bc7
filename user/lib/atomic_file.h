/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files that appear completely or not at all. A file is written without a name (O_TMPFILE), and is
 * renamed to its path at the end. On file systems without O_TMPFILE (NFS, FAT) it has a temporary
 * name in the same directory until then, and a fatal signal leaves it there.
 */
#ifndef STACKBEAT_LIB_ATOMIC_FILE_H
#define STACKBEAT_LIB_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/error.h"

struct atomic_file {
	char *path; /* as given, for messages */
	char *target; /* the file to replace: `path` with its symbolic links followed */
	char *temporary; /* temporary name; NULL: no name yet, or written in place */
	uint64_t size; /* bytes written */
	int fd;
	bool nameless; /* private: opened with O_TMPFILE */
};

/*
 * Opens a file that will replace `path`. "-" is the standard output. An existing file that is not
 * regular (a pipe, /dev/null) is written in place. A symbolic link that another user can have put
 * into a directory that all users may write to is refused (-EACCES), and a file that the process
 * may not replace there (-EPERM).
 *
 * Returns 0, and atomic_file_commit() or atomic_file_discard() must follow; or a negative errno
 * value with `file` unchanged.
 */
int atomic_file_create(struct atomic_file *file, const char *path, struct error *error);

/*
 * Checks whether `path` can be written, as far as that is possible without writing. Returns 0 or a
 * negative errno value, and leaves no file.
 */
int atomic_file_check(const char *path, struct error *error);

/*
 * Holds room for `bytes` in the file, which must be new, until it is closed, as far as the file
 * system can do that; else checks whether there is room. Returns 0 or a negative errno value.
 */
int atomic_file_reserve(struct atomic_file *file, uint64_t bytes, struct error *error);

/* Writes all of `data`. Returns 0 or a negative errno value; `file` stays open. */
int atomic_file_write(struct atomic_file *file, const void *data, size_t size, struct error *error);

/*
 * Synchronizes the file with the disk and renames it to its path. Returns 0, or a negative errno
 * value with the file at `path` unchanged. `file` is closed in both cases; file->size stays.
 */
int atomic_file_commit(struct atomic_file *file, struct error *error);

/* Removes the file that was written, and closes `file`. */
void atomic_file_discard(struct atomic_file *file);

/*
 * Returns whether `name`, of a file in a directory, is a temporary one: the file is being written,
 * or a fatal signal or a power failure has left it.
 */
bool atomic_file_is_temporary(const char *name);

/* Creates, writes and commits a file with these contents. Returns 0 or a negative errno value. */
int atomic_file_store(const char *path, const void *data, size_t size, struct error *error);

#endif

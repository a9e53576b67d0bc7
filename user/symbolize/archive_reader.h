/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The files of an archive (see binary_archive.h) that a profile needs. They are unpacked in one
 * pass, as a compressed archive can't be searched, to files without names, which end with this
 * process.
 */
#ifndef STACKBEAT_SYMBOLIZE_ARCHIVE_READER_H
#define STACKBEAT_SYMBOLIZE_ARCHIVE_READER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct archive_reader;
struct error;
struct profile;
struct sandbox_server;

/*
 * Limits of the uncompressed bytes of an archive, and of one file in it: sparse files, and archives
 * of them, can have any size in little space.
 */
#define BINARY_ARCHIVE_BYTES_MAX (UINT64_C(16) << 30)
#define BINARY_ARCHIVE_FILE_MAX (UINT64_C(8) << 30)

/* Limit of the debug files that several binaries share; the profile does not name them. */
#define ARCHIVE_SHARED_BYTES_MAX (UINT64_C(1) << 30)

/*
 * Unpacks, by a worker of `sandbox`, the files that a profile names: binaries and debug files by
 * build ID, binaries by path, and the symbols of the kernel; and debug files that several binaries
 * share (dwz). They are stored in TMPDIR (default /var/tmp), or in memory if it does not support
 * files without names. Raises the soft limit of open files of this process, by one for each file.
 *
 * Returns 0, or a negative errno value with `error` set: -EBADMSG if the file is no valid archive,
 * -EFBIG if it exceeds BINARY_ARCHIVE_BYTES_MAX, or a file in it BINARY_ARCHIVE_FILE_MAX.
 * archive_reader_close() takes NULL, too.
 */
int archive_reader_open(const struct sandbox_server *sandbox, const char *path,
			const struct profile *profile, struct archive_reader **reader,
			struct error *error);
void archive_reader_close(struct archive_reader *reader);

/*
 * Opens the entry `name` ("proc/kallsyms"). Returns a read-only fd, which the caller closes, or a
 * negative errno value: -ENOENT if it was not unpacked.
 */
int archive_reader_file(const struct archive_reader *reader, const char *name);

/* Opens the debug file of a build ID, as archive_reader_file(). */
int archive_reader_debug_file(const struct archive_reader *reader, const char *build_id);

/*
 * Writes a path by which this process and its children can open the entry `name`, until
 * archive_reader_close(). Returns false if it was not unpacked.
 */
bool archive_reader_path(const struct archive_reader *reader, const char *name,
			 char path[PATH_MAX]);

#endif

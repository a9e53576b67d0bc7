/* SPDX-License-Identifier: GPL-2.0 */
/* Opens files by untrusted paths, which may name a FIFO, a device, or a directory. */
#ifndef STACKBEAT_LIB_REGULAR_FILE_H
#define STACKBEAT_LIB_REGULAR_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens `path` for reading if it is a regular file. No other file is opened: the call can't block,
 * and has no side effects on devices. `flags` is O_NOFOLLOW or 0. Sets *st to the status of the
 * file. Returns an fd (close-on-exec), or a negative errno value: -EINVAL for other types of files.
 */
int open_regular_file(const char *path, int flags, struct stat *st);

/*
 * Like open_regular_file(), with `path` resolved as in a chroot in the directory `root`: neither
 * symbolic links nor ".." lead out of it.
 */
int open_regular_file_in(const char *root, const char *path, int flags, struct stat *st);

#endif

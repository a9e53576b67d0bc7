/* SPDX-License-Identifier: GPL-2.0 */
/* Opening files by paths from outside, where anything may lie: a FIFO, a device, a directory. */
#ifndef STACKBEAT_LIB_REGULAR_FILE_H
#define STACKBEAT_LIB_REGULAR_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Opens `path` for reading, if it is a regular file; nothing else is opened, so
 * that it can't block and has no side effects. `flags` is O_NOFOLLOW or 0. *st
 * becomes the state of the file. Returns an fd (close-on-exec), or a negative
 * errno value: -EINVAL where it is no regular file.
 */
int open_regular_file(const char *path, int flags, struct stat *st);

/*
 * The same, as a process whose root is the directory `root` sees it: no symbolic link leads out of
 * there, nor does "..".
 */
int open_regular_file_in(const char *root, const char *path, int flags, struct stat *st);

/*
 * Whether names from an open file may be kept for all that have its build id: only who could
 * change those anyway, this user or root, can have written it. Anybody can give a file of his own
 * the build id of another one, and a file system of his own (FUSE) can say that root has.
 */
bool file_is_trusted(int fd);

#endif

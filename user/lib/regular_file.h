/* SPDX-License-Identifier: GPL-2.0 */
/* Opens files by untrusted paths, which may name a FIFO, a device, or a directory. */
#ifndef STACKBEAT_LIB_REGULAR_FILE_H
#define STACKBEAT_LIB_REGULAR_FILE_H

#include <stdbool.h>
#include <stdint.h>
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

/*
 * Finds the directory `path`, resolved as by open_regular_file_in(). Returns an fd of O_PATH
 * (close-on-exec), or a negative errno value.
 */
int open_directory_in(const char *root, const char *path);

/*
 * Like open_regular_file(), for the entry `name` of a directory. The entry may be neither a
 * symbolic link nor a mount point: -ELOOP and -EXDEV. A user may mount a file there that the user
 * may not read.
 */
int open_regular_entry(int directory, const char *name, struct stat *st);

/* The uid of files on file systems that can report any owner (FUSE, those mounted with nosuid). */
#define FILE_UID_ANY UINT32_MAX

/*
 * The user who can have written a file. It is trusted if only this user and root can: other users
 * can give their files the build ID of another file, and their file systems (FUSE, and
 * others that users can mount, which are nosuid) can report root as the owner.
 */
struct file_owner {
	uint32_t uid; /* or FILE_UID_ANY */
	bool is_trusted;
};

/* Sets the owner of an open file; FILE_UID_ANY if it is unknown. May block as fstat(2) does. */
void file_owner_read(struct file_owner *owner, int fd);

/* Returns whether two open files have the same contents. False if they can't be read. */
bool file_contents_equal(int a, int b);

#endif

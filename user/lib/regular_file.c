// SPDX-License-Identifier: GPL-2.0
#include "lib/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Opens the file of `found`, an fd of O_PATH, for reading, and closes `found`. */
static int open_found(int found, struct stat *st)
{
	char found_path[64];
	int fd;

	if (fstat(found, st))
		fd = -errno;
	else if (!S_ISREG(st->st_mode))
		fd = -EINVAL;
	else {
		snprintf(found_path, sizeof(found_path), "/proc/self/fd/%d", found);
		fd = open(found_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	close(found);
	return fd;
}

int open_regular_file(const char *path, int flags, struct stat *st)
{
	int found = open(path, O_PATH | O_CLOEXEC | flags);

	return found < 0 ? -errno : open_found(found, st);
}

/* Opens a path below a directory with O_PATH. Returns an fd or a negative errno value. */
static int find_below(int directory, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
		.resolve = resolve,
	};
	int found = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));

	return found < 0 ? -errno : found;
}

static int find_in_root(const char *root, const char *path, int flags)
{
	int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), found;

	if (directory < 0)
		return -errno;
	found = find_below(directory, path, flags, RESOLVE_IN_ROOT);
	close(directory);
	return found;
}

int open_regular_file_in(const char *root, const char *path, int flags, struct stat *st)
{
	int found = find_in_root(root, path, flags);

	return found < 0 ? found : open_found(found, st);
}

int open_directory_in(const char *root, const char *path)
{
	return find_in_root(root, path, O_DIRECTORY);
}

int open_regular_entry(int directory, const char *name, struct stat *st)
{
	int found = find_below(directory, name, 0,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);

	return found < 0 ? found : open_found(found, st);
}

void file_owner_read(struct file_owner *owner, int fd)
{
	struct statfs system;
	struct stat st;

	*owner = (struct file_owner){.uid = FILE_UID_ANY};
	/* A user may have mounted a file system without set-user-ID bits, or have made its image.
	 */
	if (fstat(fd, &st) || fstatfs(fd, &system) || system.f_type == FUSE_SUPER_MAGIC ||
	    (system.f_flags & ST_NOSUID))
		return;
	owner->uid = st.st_uid;
	owner->is_trusted =
		(st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

bool file_contents_equal(int a, int b)
{
	char left[8192], right[8192];
	struct stat first, second;
	off_t at = 0;

	if (fstat(a, &first) || fstat(b, &second) || first.st_size != second.st_size)
		return false;
	while (at < first.st_size) {
		ssize_t size = pread(a, left, sizeof(left), at);

		if (size <= 0 || pread(b, right, (size_t)size, at) != size ||
		    memcmp(left, right, (size_t)size))
			return false;
		at += size;
	}
	return true;
}

// SPDX-License-Identifier: GPL-2.0
#include "process/find_mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/regular_file.h"

bool is_identical_file(const struct file_identity *identity, int fd)
{
	int generation;
	struct stat st;

	if (fstat(fd, &st) || st.st_ino != identity->inode ||
	    (uint64_t)st.st_size != identity->size)
		return false;
	/*
	 * On overlayfs and btrfs, stat() returns another device number than that of the kernel's
	 * inode. Both have no block device of their own, so that the major number is 0. The other
	 * fields must do there.
	 */
	if (st.st_dev != identity->device && major(st.st_dev) && major(identity->device))
		return false;
	/* Not all file systems have a generation, or report it. */
	return !identity->generation || ioctl(fd, FS_IOC_GETVERSION, &generation) || !generation ||
	       (uint32_t)generation == identity->generation;
}

__attribute__((format(printf, 2, 3))) static int open_path(int flags, const char *format, ...)
{
	char path[PATH_MAX];
	struct stat st;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	return open_regular_file(path, flags, &st);
}

/* Opens the path as a process sees it. The process may have put malicious links there. */
static int open_path_in_process(const char *root, const struct file_place *place)
{
	char directory[PATH_MAX];
	struct stat st;
	int length = snprintf(directory, sizeof(directory), "%s/proc/%" PRIu32 "/root", root,
			      place->pid);

	if (length < 0 || (size_t)length >= sizeof(directory))
		return -ENAMETOOLONG;
	return open_regular_file_in(directory, place->path, O_NOFOLLOW, &st);
}

int find_mapped_file(const char *root, const struct file_place *place, unsigned int number)
{
	int fd = -ENOENT;

	if (number == 0 && place->pid)
		fd = open_path(0, "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, root,
			       place->pid, place->start, place->end);
	else if (number == 1 && place->pid && *place->path == '/')
		fd = open_path_in_process(root, place);
	else if (number == 2 && *place->path == '/')
		fd = open_path(O_NOFOLLOW, "%s%s", root, place->path);
	return fd == -ENOENT ? -ESTALE : fd;
}

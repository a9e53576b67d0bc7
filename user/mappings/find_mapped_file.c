// SPDX-License-Identifier: GPL-2.0
#include "mappings/find_mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/regular_file.h"
#include "lib/timed_call.h"

#define FIND_TIMEOUT_NS (5 * NS_PER_SECOND)
#define LINK_TIMEOUT_NS NS_PER_SECOND

bool is_identical_file(const struct file_identity *identity, int fd)
{
	int generation;
	struct stat st;

	if (fstat(fd, &st) || st.st_ino != identity->inode ||
	    (uint64_t)st.st_size != identity->size)
		return false;
	/*
	 * On overlayfs and btrfs, stat() returns another device number than in the kernel's
	 * inode. Both have no block device of their own, so that the major number is 0. The other
	 * fields must do there.
	 */
	if (st.st_dev != identity->device && major(st.st_dev) && major(identity->device))
		return false;
	/* Not all file systems have a generation, or report it. */
	return !identity->generation || ioctl(fd, FS_IOC_GETVERSION, &generation) || !generation ||
	       (uint32_t)generation == identity->generation;
}

__attribute__((format(printf, 2, 3))) static int find_mapped_file_open(int flags,
								       const char *format, ...)
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
		fd = find_mapped_file_open(0, "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
					   root, place->pid, place->start, place->end);
	else if (number == 1 && place->pid && *place->path == '/')
		fd = open_path_in_process(root, place);
	else if (number == 2 && *place->path == '/')
		fd = find_mapped_file_open(O_NOFOLLOW, "%s%s", root, place->path);
	return fd == -ENOENT ? -ESTALE : fd;
}

/* With a time-out */

struct find_call {
	char *root, *path; /* owned */
	struct file_place place;
	unsigned int number;
	bool must_be_identical;
	struct file_identity identity;
	int fd;
};

static void find_mapped_file_try(void *arg)
{
	struct find_call *call = arg;
	int fd = find_mapped_file(call->root, &call->place, call->number);

	call->fd = fd;
	if (fd < 0 || !call->must_be_identical || is_identical_file(&call->identity, fd))
		return;
	close(fd);
	call->fd = -ESTALE;
}

static void free_find(struct find_call *call)
{
	if (!call)
		return;
	free(call->root);
	free(call->path);
	free(call);
}

static void drop_find(void *arg)
{
	struct find_call *call = arg;

	if (call->fd >= 0)
		close(call->fd);
	free_find(call);
}

int find_mapped_file_timed(const char *root, const struct file_place *place, unsigned int number,
			   const struct file_identity *identity)
{
	struct find_call *call = calloc(1, sizeof(*call));
	int fd = -ENOMEM;

	if (call) {
		call->root = strdup(root);
		call->path = strdup(place->path);
	}
	if (call && call->root && call->path) {
		call->place = *place;
		call->place.path = call->path;
		call->number = number;
		call->must_be_identical = identity;
		if (identity)
			call->identity = *identity;
		fd = timed_call(find_mapped_file_try, drop_find, call, FIND_TIMEOUT_NS);
		if (fd == -ETIMEDOUT)
			return fd;
		if (!fd)
			fd = call->fd;
	}
	free_find(call);
	return fd;
}

struct link_call {
	char path[PATH_MAX]; /* of the entry */
	struct mapping_link link;
	int err;
};

static void read_link(void *arg)
{
	struct link_call *call = arg;
	ssize_t length = readlink(call->path, call->link.path, sizeof(call->link.path) - 1);
	struct statx st;

	call->err = -ENOENT;
	/* AT_STATX_DONT_SYNC: cached attributes must do, as the server of a network file system,
	 * or a FUSE process, could block the call. */
	if (length < 0 ||
	    statx(AT_FDCWD, call->path, AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_SIZE,
		  &st) ||
	    !S_ISREG(st.stx_mode))
		return;
	call->link.path[length] = '\0';
	call->link.identity = (struct file_identity){
		.device = makedev(st.stx_dev_major, st.stx_dev_minor),
		.inode = st.stx_ino,
		.size = st.stx_size,
	};
	call->err = 0;
}

int read_mapping_link(const char *root, uint32_t pid, uint64_t start, uint64_t end,
		      struct mapping_link *link)
{
	struct link_call *call = calloc(1, sizeof(*call));
	int err;

	if (!call)
		return -ENOMEM;
	snprintf(call->path, sizeof(call->path),
		 "%s/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, root, pid, start, end);
	err = timed_call(read_link, free, call, LINK_TIMEOUT_NS);
	if (err == -ETIMEDOUT)
		return err;
	if (!err)
		err = call->err;
	if (!err)
		*link = call->link;
	free(call);
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include "lib/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
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

int open_regular_file_in(const char *root, const char *path, int flags, struct stat *st)
{
	struct open_how how = {
		.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
		.resolve = RESOLVE_IN_ROOT,
	};
	int directory = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), found;

	if (directory < 0)
		return -errno;
	found = (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
	if (found < 0)
		found = -errno;
	close(directory);
	return found < 0 ? found : open_found(found, st);
}

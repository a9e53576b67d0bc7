// SPDX-License-Identifier: GPL-2.0
#include "regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int open_regular_file(const char *path, int flags, struct stat *st)
{
	char found_path[64];
	int found, fd;

	found = open(path, O_PATH | O_CLOEXEC | flags);
	if (found < 0)
		return -errno;
	if (fstat(found, st) != 0)
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

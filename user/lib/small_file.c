// SPDX-License-Identifier: GPL-2.0
#include "lib/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

ssize_t small_file_read(const char *root, const char *path, char *text, size_t size)
{
	char whole[PATH_MAX];
	size_t length = 0;
	ssize_t got = 0;
	int fd;

	*text = '\0';
	if (snprintf(whole, sizeof(whole), "%s%s", root, path) >= (int)sizeof(whole))
		return -ENAMETOOLONG;
	fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	while (length < size - 1) {
		got = read(fd, text + length, size - 1 - length);
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	got = got < 0 ? -errno : (ssize_t)length;
	close(fd);
	text[got < 0 ? 0 : length] = '\0';
	return got;
}

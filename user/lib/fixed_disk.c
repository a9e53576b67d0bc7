// SPDX-License-Identifier: GPL-2.0
#include "lib/fixed_disk.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/major.h>
#include <stdio.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Returns the first character of a file, 0 if there is none. */
static char read_character(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char character;

	if (fd < 0)
		return 0;
	if (read(fd, &character, 1) != 1)
		character = 0;
	close(fd);
	return character;
}

bool device_is_fixed_disk(const char *root, uint64_t device)
{
	char path[PATH_MAX], is_removable;

	if (major(device) == LOOP_MAJOR)
		return false;
	snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/removable", root, major(device),
		 minor(device));
	is_removable = read_character(path);
	/* A partition is a directory in the directory of its disk. */
	if (!is_removable) {
		snprintf(path, sizeof(path), "%s/sys/dev/block/%u:%u/../removable", root,
			 major(device), minor(device));
		is_removable = read_character(path);
	}
	return is_removable == '0';
}

/* SPDX-License-Identifier: GPL-2.0 */
/* Whether a process sleeps: a child that waits in pause() does. */
#ifndef STACKBEAT_TEST_ASLEEP_H
#define STACKBEAT_TEST_ASLEEP_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "unit.h"

/* Before a process sleeps, it may be in the dynamic linker, which looks for pause(). */
static inline bool is_asleep(pid_t pid)
{
	char path[64], text[128] = "", *name_end;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	name_end = strrchr(text, ')');
	assert_non_null(name_end);
	return name_end[2] == 'S';
}

#endif

// SPDX-License-Identifier: GPL-2.0
#include "lib/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSETS "/proc/self/timens_offsets"

int64_t clock_offset_in(const char *path, const char *clock)
{
	FILE *file = fopen(path, "re");
	size_t length = strlen(clock);
	int64_t offset = 0;
	char line[128], *end;

	/* Kernels without time namespaces have no such file. */
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, clock, length) && line[length] == ' ')
			offset = strtoll(line + length, &end, 10) * NS_PER_SECOND +
				 strtoll(end, NULL, 10);
	}
	fclose(file);
	return offset;
}

/* Read once: this process does not change its time namespace. */
static int64_t monotonic_offset, boottime_offset;

static void read_offsets(void)
{
	monotonic_offset = clock_offset_in(OFFSETS, "monotonic");
	boottime_offset = clock_offset_in(OFFSETS, "boottime");
}

int64_t clock_offset_ns(clockid_t clock)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_offsets);
	return clock == CLOCK_BOOTTIME ? boottime_offset : monotonic_offset;
}

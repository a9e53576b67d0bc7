// SPDX-License-Identifier: GPL-2.0
#include "lib/cpu_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"

/* Of /proc/PID/stat, see proc(5); cstime follows. */
#define CUTIME_FIELD 16u

int64_t cpu_time_of_usage(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_SECOND +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
}

int64_t cpu_time_of_process(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return -1;
	return time_ns(time);
}

int64_t cpu_time_of_children(pid_t pid)
{
	unsigned long long user, system;
	char path[64], line[1024] = "", *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	/* The name of the program may have any characters: the fields after it are counted. */
	end = strrchr(line, ')');
	for (unsigned int field = 3; end && field <= CUTIME_FIELD; field++)
		end = strchr(end + 1, ' ');
	if (!end)
		return 0;
	user = strtoull(end, &end, 10);
	system = strtoull(end, &end, 10);
	return (int64_t)(user + system) * (NS_PER_SECOND / sysconf(_SC_CLK_TCK));
}

int64_t cpu_time_own(void)
{
	struct rusage children = {0};

	getrusage(RUSAGE_CHILDREN, &children);
	return now_ns(CLOCK_PROCESS_CPUTIME_ID) + cpu_time_of_usage(&children);
}

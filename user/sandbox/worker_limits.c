// SPDX-License-Identifier: GPL-2.0
#include "sandbox/worker_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/pidfd.h"

/*
 * Bytes that a worker may allocate in addition to the memory inherited from its parent. Compressed
 * sections of one file may expand to 4 GiB (see debuginfo/debug_files.c). On machines with less
 * memory for each CPU, the limit is such that all workers together have half of it.
 */
#define MEMORY_MAX ((rlim_t)6 << 30)
#define OOM_VICTIM "1000"
#define KILLED_MS 200
#define STATM_DATA 6u /* number of the field in /proc/PID/statm, from 1 */

/* Returns the bytes that RLIMIT_DATA counts: private writable memory; 0 if unknown. */
static rlim_t read_data_size(void)
{
	char line[256] = "", *field = line;
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	for (unsigned int i = 0; i < STATM_DATA; i++)
		pages = strtoul(field, &field, 10);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

unsigned int worker_processes(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 1;
	return cpus < (long)WORKER_PROCESSES_MAX ? (unsigned int)cpus : WORKER_PROCESSES_MAX;
}

void limit_memory(void)
{
	rlim_t extra = (rlim_t)sysconf(_SC_PHYS_PAGES) * (rlim_t)sysconf(_SC_PAGESIZE) / 2 /
		       worker_processes(),
	       max = read_data_size();
	const struct rlimit no_core = {0};
	struct rlimit limit;

	setrlimit(RLIMIT_CORE, &no_core);
	if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur > WORKER_STACK_MAX) {
		limit.rlim_cur = WORKER_STACK_MAX;
		setrlimit(RLIMIT_STACK, &limit);
	}
	if (!max || getrlimit(RLIMIT_DATA, &limit))
		return;
	max += extra < MEMORY_MAX ? extra : MEMORY_MAX;
	if (limit.rlim_cur > max)
		limit.rlim_cur = max;
	setrlimit(RLIMIT_DATA, &limit);
}

int oom_score_open(struct oom_score *score)
{
	ssize_t got;

	score->fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (score->fd < 0)
		return -errno;
	got = read(score->fd, score->usual, sizeof(score->usual) - 1);
	score->usual[got > 0 ? got : 0] = '\0';
	return 0;
}

void oom_score_set(const struct oom_score *score, bool victim)
{
	const char *value = victim ? OOM_VICTIM : score->usual;

	if (score->fd >= 0 && pwrite(score->fd, value, strlen(value), 0) < 0)
		errno = 0; /* not fatal: the score stays */
}

void wait_killed(pid_t pid)
{
	process_exits_within(pid, KILLED_MS);
	waitpid(pid, NULL, WNOHANG);
}

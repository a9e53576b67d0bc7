// SPDX-License-Identifier: GPL-2.0
#include "sandbox/worker_limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/pidfd.h"

/*
 * Bytes that a worker may allocate in addition to the memory inherited from its parent. Compressed
 * sections of one file may expand to 4 GiB (see debuginfo/debug_files.c). On small machines the
 * limit is half of the physical memory.
 */
#define MEMORY_MAX ((rlim_t)6 << 30)
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

static void limit_memory(void)
{
	rlim_t extra = (rlim_t)sysconf(_SC_PHYS_PAGES) * (rlim_t)sysconf(_SC_PAGESIZE) / 2,
	       max = read_data_size();
	struct rlimit limit;

	if (!max || getrlimit(RLIMIT_DATA, &limit))
		return;
	max += extra < MEMORY_MAX ? extra : MEMORY_MAX;
	if (limit.rlim_cur > max)
		limit.rlim_cur = max;
	setrlimit(RLIMIT_DATA, &limit);
}

void limit_worker(pid_t parent)
{
	const struct rlimit no_core = {0};
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	setrlimit(RLIMIT_CORE, &no_core);
	limit_memory();
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (write(fd, "1000", 4) < 0)
			errno = 0; /* not fatal: it has the usual OOM score */
		close(fd);
	}
}

void wait_killed(pid_t pid)
{
	process_exits_within(pid, KILLED_MS);
	waitpid(pid, NULL, WNOHANG);
}

// SPDX-License-Identifier: GPL-2.0
#include "lib/file_limit.h"

#include <sys/param.h>
#include <sys/resource.h>

void raise_file_limit(size_t count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return;
	limit.rlim_cur += MIN(count, limit.rlim_max - limit.rlim_cur);
	setrlimit(RLIMIT_NOFILE, &limit);
}

size_t file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return FILE_LIMIT_MAX;
	return limit.rlim_cur;
}

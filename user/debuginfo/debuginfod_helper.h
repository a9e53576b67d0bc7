/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fetches debug files for a confined worker (see sandbox/seccomp_filter.h). A separate helper
 * process, which reads no file contents, may use the network and debuginfod's cache.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H
#define STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H

#include "lib/error.h"

#include <sys/types.h>

struct debuginfod_helper {
	int socket; /* -1: not running, or abandoned */
	pid_t pid;
};

/*
 * Forks the helper process, which dies with this process. The helper closes `close_fd`. Returns 0,
 * to be followed by debuginfod_helper_stop(); or a negative errno value.
 */
int debuginfod_helper_start(struct debuginfod_helper *helper, int close_fd);
void debuginfod_helper_stop(struct debuginfod_helper *helper);

/*
 * As debuginfod_fetch(). Returns -ETIMEDOUT if `progress` returns a value other than 0, and -EIO if
 * the helper crashed. Either abandons the helper: later calls return -ETIMEDOUT.
 */
int debuginfod_helper_fetch(struct debuginfod_helper *helper, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Asks debuginfod servers for a process that is confined (see sandbox/seccomp_filter.h): a process
 * beside it, which looks into no file, may use the network and debuginfod's cache.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H
#define STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H

#include "lib/error.h"

#include <sys/types.h>

struct debuginfod_helper {
	int socket; /* -1: it is not there, or was given up */
	pid_t pid;
};

/*
 * Starts the process, which ends with this one, and closes `not_its`, an fd. Returns 0, and
 * debuginfod_helper_stop() should follow; or a negative errno value.
 */
int debuginfod_helper_start(struct debuginfod_helper *fetcher, int not_its);
void debuginfod_helper_stop(struct debuginfod_helper *fetcher);

/*
 * As debuginfod_fetch(). Where `progress` returns other than 0, the process is given up: nothing
 * more is fetched.
 */
int debuginfod_helper_fetch(struct debuginfod_helper *fetcher, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error);

#endif

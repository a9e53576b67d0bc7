/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fetches debug files for workers, which may not use the network (sandbox/fork_server.h). A helper
 * process, which reads no file contents, may use the network and debuginfod's cache. It is started
 * early, and confined: if it was started by root, it is the user SANDBOX_UID, with a cache below
 * DEBUGINFOD_ROOT_CACHE unless DEBUGINFOD_CACHE_PATH is set; it has no capabilities, no terminal
 * and no open files of its parent, executes, traces and signals no program, connects to no Unix
 * socket, and writes to its cache only, where the kernel has Landlock.
 */
#ifndef STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H
#define STACKBEAT_DEBUGINFO_DEBUGINFOD_HELPER_H

#include "lib/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define DEBUGINFOD_ROOT_CACHE "/var/cache/stackbeat/debuginfod"

struct debuginfod_helper {
	int socket;
	pid_t pid;
	bool unconfined; /* it was refused a part of its confinement */
};

/*
 * Forks the helper process, which dies with this process. Returns 0, to be followed by
 * debuginfod_helper_stop(); or a negative errno value with `error` set.
 */
int debuginfod_helper_start(struct debuginfod_helper *helper, struct error *error);
void debuginfod_helper_stop(struct debuginfod_helper *helper);

/* Connects a worker. Returns a socket, which the caller closes, or a negative errno value. */
int debuginfod_helper_connect(const struct debuginfod_helper *helper);

/*
 * As debuginfod_fetch(), by the helper at the other end of *socket. Returns -ETIMEDOUT if
 * `progress` returns a value other than 0, and -EIO if the helper crashed. Either closes *socket
 * and sets it to -1: later calls return -ETIMEDOUT.
 */
int debuginfod_helper_fetch(int *socket, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error);

#endif

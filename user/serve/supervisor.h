/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processes of `serve` that are not the sampler: the HTTP server, and its keeper, which starts
 * it again after a crash.
 */
#ifndef STACKBEAT_SERVE_SUPERVISOR_H
#define STACKBEAT_SERVE_SUPERVISOR_H

#include <sys/types.h>

#include "serve/http_config.h"

struct supervisor {
	struct http_config http; /* but for `socket`, `statm`, `restarts` and `cpu_before_ns` */
	uid_t uid; /* of these processes, if this one is root */
	int socket; /* of the sampler, to the server */
	/* Private. */
	pid_t pid; /* of the keeper; 0: not started */
	int lock; /* of the store, in these processes; -1: none */
};

/*
 * Starts both, and waits until the server can serve: it has the lock of the store. This process
 * closes its listeners. Returns 0 or a negative errno value; supervisor_end() is to be called in
 * both cases.
 */
int supervisor_start(struct supervisor *server, struct error *error);
/* Waits until the server has stored the rest. Returns 0, or a negative errno value if it failed. */
int supervisor_end(struct supervisor *server, struct error *error);

#endif

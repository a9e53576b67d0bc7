/* SPDX-License-Identifier: GPL-2.0 */
/* Calls of workers whose result is small. */
#ifndef STACKBEAT_SANDBOX_WORKER_CALL_H
#define STACKBEAT_SANDBOX_WORKER_CALL_H

#include <sys/types.h>

#include "sandbox/fork_server.h"

/*
 * Starts a worker with two fds, `input` and the write end of a pipe, and waits until it has written
 * its result. Writes at most `size` bytes to `result`, which are untrusted. Returns their number;
 * -ETIMEDOUT after `cpu_ms` of its CPU time, 10 s in which it hangs, or `timeout_ms`;
 * -E2BIG for a longer result, -EBADMSG if the worker crashed, or another negative errno value. The
 * worker is killed in any case. It may be called by several threads.
 */
ssize_t worker_call(const struct sandbox_server *server, enum worker_kind kind, int input,
		    void *result, size_t size, unsigned int cpu_ms, unsigned int timeout_ms);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Limits for workers that parse untrusted files: they may crash, hang, or allocate too much. */
#ifndef STACKBEAT_SANDBOX_WORKER_LIMITS_H
#define STACKBEAT_SANDBOX_WORKER_LIMITS_H

#include <sys/types.h>

/*
 * Limits the calling process. Call it first in a worker that `parent` has just forked. The worker
 * dies with `parent`, is the first victim of the OOM killer, dumps no core, and has a limit of
 * memory (RLIMIT_DATA), above which allocations fail. Files mapped for reading do not count.
 */
void limit_worker(pid_t parent);

/*
 * Reaps a child that was killed. Waits for a short time only: the child may hang in the kernel, and
 * is not reaped then.
 */
void wait_killed(pid_t pid);

#endif

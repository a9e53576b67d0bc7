/* SPDX-License-Identifier: GPL-2.0 */
/* Processes that read files which nobody trusts: they may crash, hang, and want much memory. */
#ifndef STACKBEAT_SANDBOX_WORKER_LIMITS_H
#define STACKBEAT_SANDBOX_WORKER_LIMITS_H

#include <sys/types.h>

/*
 * To be called first of all by a process that was just forked by `parent`, with which it ends.
 * It is worth less than anything else on the machine, leaves no core, and has a limit of memory,
 * by which allocations fail. Files that are mapped to be read do not count.
 */
void limit_worker(pid_t parent);

/*
 * Waits for a child that was killed, so that nothing is left of it; but not for long, as it may
 * hang in the kernel.
 */
void wait_killed(pid_t pid);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Limits for workers that parse untrusted files: they may crash, hang, or allocate too much. */
#ifndef STACKBEAT_SANDBOX_WORKER_LIMITS_H
#define STACKBEAT_SANDBOX_WORKER_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define WORKER_PROCESSES_MAX 64u

/* Returns how many workers read the files of a profile at a time: one for each CPU, but not more.
 */
unsigned int worker_processes(void);

/* Bytes of stack that a worker may have at most. */
#define WORKER_STACK_MAX ((size_t)8 << 20)

/*
 * Limits the calling process, and processes that it forks later: each dumps no core, and has a
 * limit of memory (RLIMIT_DATA, and RLIMIT_STACK), above which allocations fail: worker_processes()
 * of them have at most half of the memory of the machine. Files mapped for reading do not count.
 */
void limit_memory(void);

/* The score by which the OOM killer chooses its victims, of the process that opened it. */
struct oom_score {
	int fd; /* -1: none */
	char usual[16];
};

/* Opens the score of the calling process. Returns 0 or a negative errno value, with `fd` -1. */
int oom_score_open(struct oom_score *score);

/*
 * Makes the process the first victim, or as likely as before. Processes that it forks have its
 * score at that time.
 */
void oom_score_set(const struct oom_score *score, bool victim);

/*
 * Reaps a child that was killed. Waits for a short time only: the child may hang in the kernel, and
 * is not reaped then.
 */
void wait_killed(pid_t pid);

#endif

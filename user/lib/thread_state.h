/* SPDX-License-Identifier: GPL-2.0 */
/* The state of threads. */
#ifndef STACKBEAT_LIB_THREAD_STATE_H
#define STACKBEAT_LIB_THREAD_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A thread that runs, or waits for a CPU. */
#define THREAD_RUNNABLE 'R'

/* Returns the state of a thread of a process, as proc_pid_stat(5) has it; '\0': unknown. */
char thread_state(pid_t pid, pid_t tid);

/* What `sleeps` of thread_awaits_cpu() is before the first look. */
#define THREAD_SLEEPS_UNKNOWN (-1)

/*
 * Returns whether a thread of this process gets no CPU: it is runnable, and has not slept since the
 * last look. A thread that a file system lets wait sleeps, even if each of its answers is fast.
 * `sleeps` is the number of the thread's sleeps at the last look, and is set.
 */
bool thread_awaits_cpu(pid_t tid, int64_t *sleeps);

#endif

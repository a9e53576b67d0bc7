/* SPDX-License-Identifier: GPL-2.0 */
/* The CPU time of processes, in nanoseconds. */
#ifndef STACKBEAT_LIB_CPU_TIME_H
#define STACKBEAT_LIB_CPU_TIME_H

#include <stdint.h>
#include <sys/types.h>

struct rusage;

/* Returns the CPU time in a result of wait4() or getrusage(). */
int64_t cpu_time_of_usage(const struct rusage *usage);

/* Returns the CPU time of a process without its children; -1: unknown. */
int64_t cpu_time_of_process(pid_t pid);

/*
 * Returns the CPU time of the descendants of a process that were waited for; 0 if it is unknown. It
 * is rounded to clock ticks.
 */
int64_t cpu_time_of_children(pid_t pid);

/* Returns the CPU time of this process and of all descendants that were waited for. */
int64_t cpu_time_own(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks in nanoseconds. */
#ifndef STACKBEAT_LIB_CLOCK_H
#define STACKBEAT_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

static inline int64_t time_ns(struct timespec time)
{
	return time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

static inline int64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time_ns(time);
}

/*
 * Returns the offset (ns) of CLOCK_MONOTONIC or CLOCK_BOOTTIME in the time namespace of this
 * process, see time_namespaces(7). The kernel's clocks, and the times in records of the module,
 * are without it.
 */
int64_t clock_offset_ns(clockid_t clock);

/* Returns the time (ns) of such a clock in the kernel, without the offset. */
static inline int64_t kernel_now_ns(clockid_t clock)
{
	return now_ns(clock) - clock_offset_ns(clock);
}

/*
 * Returns the offset (ns) of the clock named `clock` in a file like /proc/self/timens_offsets; 0
 * if the file or its line is missing.
 */
int64_t clock_offset_in(const char *path, const char *clock);

#endif

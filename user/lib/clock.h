/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks, in nanoseconds. */
#ifndef STACKBEAT_LIB_CLOCK_H
#define STACKBEAT_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND INT64_C(1000000000)

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
 * How far CLOCK_MONOTONIC or CLOCK_BOOTTIME is ahead, in the time namespace of this process, of
 * what it is in the kernel and thus in all that the module tells (time_namespaces(7)), in ns.
 */
int64_t clock_offset_ns(clockid_t clock);

/* The time of such a clock in the kernel. */
static inline int64_t kernel_now_ns(clockid_t clock)
{
	return now_ns(clock) - clock_offset_ns(clock);
}

/* The offset of a clock in a file such as /proc/self/timens_offsets, in ns; 0: it has none. */
int64_t clock_offset_in(const char *path, const char *clock);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks, in nanoseconds. */
#ifndef STACKBEAT_CLOCK_H
#define STACKBEAT_CLOCK_H

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

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Clocks that stand for as long as a test wants, however slow the machine is. */
#ifndef STACKBEAT_TEST_STANDING_CLOCK_H
#define STACKBEAT_TEST_STANDING_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"

/* Where the clocks stand; 0: they go on. */
static int64_t realtime_stands_at_ns, monotonic_stands_at_ns;

/* Replaces libc's function. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = 0;

	if (clock == CLOCK_REALTIME)
		ns = realtime_stands_at_ns;
	else if (clock == CLOCK_MONOTONIC)
		ns = monotonic_stands_at_ns;
	if (!ns)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * naps [ROUNDS [PERIOD [ITERATIONS]]]
 *
 * Wakes every PERIOD us, works ITERATIONS, and sleeps again.
 *
 * Prints one line of JSON with the CPU time.
 */
#include "bare.h"

#define SYS_CLOCK_NANOSLEEP 230

struct time {
	long seconds, nanoseconds;
};

static NOINLINE void nap(struct time *end, u64 period)
{
	keep_frame();
	end->nanoseconds += period;
	end->seconds += end->nanoseconds / 1000000000;
	end->nanoseconds %= 1000000000;
	system_call(SYS_CLOCK_NANOSLEEP, 1, 1, (long)end, 0);
}

static NOINLINE void burst(u64 iterations)
{
	work(iterations);
}

NOINLINE int main(int argc, char **argv)
{
	u64 rounds = argument(argc, argv, 1, 1000);
	u64 period = argument(argc, argv, 2, 2000) * 1000;
	u64 iterations = argument(argc, argv, 3, 300000);
	struct time next;

	/* 1: CLOCK_MONOTONIC, and then TIMER_ABSTIME */
	system_call(SYS_CLOCK_GETTIME, 1, (long)&next, 0, 0);
	while (rounds--) {
		nap(&next, period);
		burst(iterations);
	}
	print("{\"cpu_ns\": ");
	print_number(cpu_time());
	print("}\n");
	return 0;
}

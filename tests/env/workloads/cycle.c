// SPDX-License-Identifier: GPL-2.0
/*
 * cycle [CYCLES [OFFSET]]
 *
 * Repeats a cycle of 1 ms, in phase with CLOCK_MONOTONIC: the cycle begins OFFSET us after each
 * full ms. The first 30 % of it are spent in part_a and the rest in part_b. Both spin until their
 * time is over, and so keep their shares despite interruptions. A sampler with an interval of 1 ms
 * sees only one of them.
 *
 * Prints one line of JSON with the time spent in each part, in cycles of the TSC, and the process
 * ID.
 */
#include "bare.h"

#define SYS_GETPID 39
#define CYCLE_NS 1000000
#define PART_A_NS 300000
/* Iterations of work() between two reads of the TSC: few, so that the parts end in time. */
#define ITERATIONS 200

static inline __attribute__((always_inline)) u64 ticks(void)
{
	unsigned int low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

static inline u64 now_ns(void)
{
	struct {
		long seconds, nanoseconds;
	} time;

	/* 1: CLOCK_MONOTONIC */
	system_call(SYS_CLOCK_GETTIME, 1, (long)&time, 0, 0);
	return time.seconds * 1000000000ULL + time.nanoseconds;
}

/*
 * Reads both clocks at one time. Of several readings, the fastest: no other task ran in between.
 */
static void read_clocks(u64 *ns, u64 *tsc)
{
	u64 shortest = ~0ULL, before, time, after;

	for (int i = 0; i < 10; i++) {
		before = ticks();
		time = now_ns();
		after = ticks();
		if (after - before >= shortest)
			continue;
		shortest = after - before;
		*ns = time;
		*tsc = before + shortest / 2;
	}
}

static NOINLINE void part_a(u64 end)
{
	while (ticks() < end)
		work(ITERATIONS);
}

static NOINLINE void part_b(u64 end)
{
	while (ticks() < end)
		work(ITERATIONS);
}

NOINLINE int main(int argc, char **argv)
{
	u64 cycles = argument(argc, argv, 1, 1000);
	u64 offset = argument(argc, argv, 2, 0) * 1000;
	u64 in_a = 0, in_b = 0;
	u64 start_ns, end_ns, start, phase, begin, middle, end;
	double per_ns;

	read_clocks(&start_ns, &start);
	while (now_ns() < start_ns + 20 * CYCLE_NS)
		;
	read_clocks(&end_ns, &end);
	per_ns = (double)(end - start) / (double)(end_ns - start_ns);

	while (cycles--) {
		/* Read the clock in each cycle, so that the error of per_ns does not add up. */
		phase = (now_ns() + CYCLE_NS - offset) % CYCLE_NS;
		begin = ticks();
		part_a(phase < PART_A_NS ? begin + (u64)((PART_A_NS - phase) * per_ns) : 0);
		middle = ticks();
		part_b(begin + (u64)((CYCLE_NS - phase) * per_ns));
		end = ticks();
		in_a += middle - begin;
		in_b += end - middle;
	}

	print("{\"part_a\": ");
	print_number(in_a);
	print(", \"part_b\": ");
	print_number(in_b);
	print(", \"pid\": ");
	print_number(system_call(SYS_GETPID, 0, 0, 0, 0));
	print("}\n");
	return 0;
}

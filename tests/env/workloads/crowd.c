// SPDX-License-Identifier: GPL-2.0
/*
 * crowd COUNT ITERATIONS STEP
 *
 * Forks COUNT processes. For each byte of standard input, the next STEP of them work ITERATIONS,
 * one after another, from the first one again after the last one; then it writes a byte. All end
 * with it.
 */
#include "bare.h"

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define PR_SET_PDEATHSIG 1
#define SIGKILL 9

/* Whose turn it is: a word for each process, and one for the first process of all. */
static unsigned int *turns;

static NOINLINE void await_turn(u64 index)
{
	keep_frame();
	while (!__atomic_load_n(&turns[index], __ATOMIC_ACQUIRE))
		system_call(SYS_FUTEX, (long)&turns[index], FUTEX_WAIT, 0, 0);
	turns[index] = 0;
}

static NOINLINE void give_turn(u64 index)
{
	keep_frame();
	__atomic_store_n(&turns[index], 1, __ATOMIC_RELEASE);
	system_call(SYS_FUTEX, (long)&turns[index], FUTEX_WAKE, 1, 0);
}

static NOINLINE void member(u64 index, u64 count, u64 step, u64 iterations)
{
	keep_frame();
	system_call(SYS_PRCTL, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
	for (;;) {
		await_turn(index);
		work(iterations);
		give_turn((index + 1) % step && index + 1 < count ? index + 1 : count);
	}
}

int main(int argc, char **argv)
{
	u64 count = argument(argc, argv, 1, 1), iterations = argument(argc, argv, 2, 1);
	u64 step = argument(argc, argv, 3, count), next = 0;
	long memory = map((count + 1) * sizeof(*turns), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1);
	char byte;

	if (memory < 0)
		return 1;
	turns = (unsigned int *)memory;
	for (u64 i = 0; i < count; i++) {
		long child = system_call(SYS_FORK, 0, 0, 0, 0);

		if (child < 0)
			return 1;
		if (!child)
			member(i, count, step, iterations);
	}
	while (system_call(SYS_READ, 0, (long)&byte, 1, 0) == 1) {
		give_turn(next);
		await_turn(count);
		next = next + step < count ? next + step : 0;
		system_call(SYS_WRITE, 1, (long)&byte, 1, 0);
	}
	return 0;
}

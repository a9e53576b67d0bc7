// SPDX-License-Identifier: GPL-2.0
/*
 * bomb TOTAL [ITERATIONS]
 *
 * Forks as fast as possible, in all children too, until there were TOTAL processes (or a few less);
 * each works ITERATIONS. When fork() fails, waits for a child to exit. Prints the number of
 * processes.
 */
#include "bare.h"

#define SYS_GETPID 39

static u64 *made;

static NOINLINE void toil(u64 iterations)
{
	work(iterations);
}

static long reap(void)
{
	return system_call(SYS_WAIT4, -1, 0, 0, 0);
}

static NOINLINE void multiply(u64 total, u64 iterations)
{
	long pid;

	while (__atomic_fetch_add(made, 1, __ATOMIC_RELAXED) < total) {
		pid = system_call(SYS_FORK, 0, 0, 0, 0);
		if (!pid)
			toil(iterations);
		if (pid >= 0)
			continue;
		__atomic_fetch_sub(made, 1, __ATOMIC_RELAXED);
		if (reap() < 0)
			return;
	}
	__atomic_fetch_sub(made, 1, __ATOMIC_RELAXED);
}

NOINLINE int main(int argc, char **argv)
{
	u64 total = argument(argc, argv, 1, 100);
	long shared = map(4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	long self;

	if (shared < 0)
		return 1;
	made = (u64 *)shared;
	self = system_call(SYS_GETPID, 0, 0, 0, 0);
	multiply(total, argument(argc, argv, 2, 100000));
	while (reap() > 0)
		;
	if (system_call(SYS_GETPID, 0, 0, 0, 0) == self) {
		print_number(*made);
		print("\n");
	}
	return 0;
}

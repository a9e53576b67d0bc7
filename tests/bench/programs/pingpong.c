// SPDX-License-Identifier: GPL-2.0
/*
 * pingpong COUNT
 *
 * Two processes pass a byte back and forth through two pipes, COUNT times: on one CPU, two context
 * switches each time. As batch processes they do not preempt each other when they wake, which
 * varies from boot to boot.
 */
#include "bench.h"

#define SYS_PIPE 22
#define SYS_SCHED_SETSCHEDULER 144
#define SCHED_BATCH 3

static NOINLINE long hand_on(int from, int to)
{
	char byte;

	keep_frame();
	if (system_call(SYS_READ, from, (long)&byte, 1, 0) != 1)
		return 0;
	return system_call(SYS_WRITE, to, (long)&byte, 1, 0);
}

static NOINLINE void answer(const int *there, const int *back)
{
	while (hand_on(there[0], back[1]) == 1)
		;
}

static NOINLINE u64 play(const int *there, const int *back, u64 count)
{
	u64 start = ticks();

	system_call(SYS_WRITE, there[1], (long)"", 1, 0);
	while (count--)
		hand_on(back[0], there[1]);
	return ticks() - start;
}

NOINLINE int main(int argc, char **argv)
{
	int there[2], back[2], priority = 0;
	char byte;
	long pid;

	if (argc != 2 || system_call(SYS_PIPE, (long)there, 0, 0, 0) ||
	    system_call(SYS_PIPE, (long)back, 0, 0, 0) ||
	    system_call(SYS_SCHED_SETSCHEDULER, 0, SCHED_BATCH, (long)&priority, 0))
		return 2;
	pid = system_call(SYS_FORK, 0, 0, 0, 0);
	if (pid < 0)
		return 1;
	if (!pid) {
		work_500(WARM_UP);
		answer(there, back);
		return 0;
	}
	/* The child has its warm-up, too: wait for it before the measurement. */
	system_call(SYS_WRITE, there[1], (long)"", 1, 0);
	if (system_call(SYS_READ, back[0], (long)&byte, 1, 0) != 1)
		return 1;
	be_ready();
	print_ticks(play(there, back, argument(argc, argv, 1, 1)));
	/* 62: kill. The child has a copy of the other end, so it would see no end of file. */
	system_call(62, pid, 9, 0, 0);
	system_call(SYS_WAIT4, pid, 0, 0, 0);
	return 0;
}

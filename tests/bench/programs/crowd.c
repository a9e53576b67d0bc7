// SPDX-License-Identifier: GPL-2.0
/*
 * crowd COUNT SLICES WORK KNOWN
 *
 * COUNT processes work in turns, SLICES times 500 times WORK instructions in total: they pass a
 * byte from one to the next through pipes. Each process has KNOWN turns before the measurement.
 */
#include "bench.h"

#define SYS_CLOSE 3
#define SYS_PIPE 22

static NOINLINE void turn(u64 amount)
{
	keep_frame();
	work_500(amount);
}

/* Works at each turn, until the other end of the pipe is closed. */
static NOINLINE void take_turns(int from, int to, u64 amount)
{
	char byte;

	while (system_call(SYS_READ, from, (long)&byte, 1, 0) == 1) {
		turn(amount);
		system_call(SYS_WRITE, to, (long)&byte, 1, 0);
	}
}

/* The byte goes around once per COUNT slices; the parent has the first turn. */
static NOINLINE u64 go_around(int from, int to, u64 rounds, u64 amount)
{
	u64 start = ticks();
	char byte = 0;

	while (rounds--) {
		turn(amount);
		system_call(SYS_WRITE, to, (long)&byte, 1, 0);
		system_call(SYS_READ, from, (long)&byte, 1, 0);
	}
	return ticks() - start;
}

NOINLINE int main(int argc, char **argv)
{
	u64 count = argument(argc, argv, 1, 1), slices = argument(argc, argv, 2, 1);
	u64 amount = argument(argc, argv, 3, 1), index;
	int first[2], next[2], from;
	long pid;

	if (argc != 5 || !count || system_call(SYS_PIPE, (long)first, 0, 0, 0))
		return 2;
	from = first[0];
	for (index = 1; index < count; index++) {
		if (system_call(SYS_PIPE, (long)next, 0, 0, 0))
			return 1;
		pid = system_call(SYS_FORK, 0, 0, 0, 0);
		if (pid < 0)
			return 1;
		if (!pid) {
			system_call(SYS_CLOSE, first[1], 0, 0, 0);
			system_call(SYS_CLOSE, next[0], 0, 0, 0);
			take_turns(from, next[1], amount);
			return 0;
		}
		system_call(SYS_CLOSE, from, 0, 0, 0);
		system_call(SYS_CLOSE, next[1], 0, 0, 0);
		from = next[0];
	}
	go_around(from, first[1], argument(argc, argv, 4, 0), amount);
	be_ready();
	print_ticks(go_around(from, first[1], slices / count, amount));
	return 0;
}

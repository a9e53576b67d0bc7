// SPDX-License-Identifier: GPL-2.0
/*
 * stacks COUNT DEPTH SLICES WORK
 *
 * Works in SLICES of 500 times WORK instructions with COUNT distinct stacks (up to 10 times
 * 2^DEPTH): at the end of paths of DEPTH calls, each with another order of left and right, and at
 * 10 addresses each: _start, main, visit, left or right (DEPTH times), bottom. All paths are
 * visited in turn.
 */
#include "bench.h"

static NOINLINE void bottom(u64 amount)
{
	keep_frame();
	work_500(amount);
}

static NOINLINE void left(u64 path, u64 depth, u64 amount);
static NOINLINE void right(u64 path, u64 depth, u64 amount);

static inline __attribute__((always_inline)) void descend(u64 path, u64 depth, u64 amount)
{
	if (!depth)
		bottom(amount);
	else if (path & 1)
		right(path >> 1, depth - 1, amount);
	else
		left(path >> 1, depth - 1, amount);
}

static NOINLINE void left(u64 path, u64 depth, u64 amount)
{
	descend(path, depth, amount);
}

static NOINLINE void right(u64 path, u64 depth, u64 amount)
{
	descend(path, depth, amount);
}

static NOINLINE u64 visit(u64 count, u64 depth, u64 slices, u64 amount)
{
	u64 start = ticks(), path = 0;

	while (slices--) {
		descend(path, depth, amount);
		if (++path == count)
			path = 0;
	}
	return ticks() - start;
}

NOINLINE int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	be_ready();
	print_ticks(visit(argument(argc, argv, 1, 1) / WORK_ADDRESSES, argument(argc, argv, 2, 1),
			  argument(argc, argv, 3, 1), argument(argc, argv, 4, 1)));
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * deep [DEPTH [ITERATIONS]]
 *
 * Works at the bottom of DEPTH calls: _start, main, descend (DEPTH times), bottom.
 */
#include "bare.h"

static NOINLINE void bottom(u64 iterations)
{
	work(iterations);
}

static NOINLINE void descend(u64 depth, u64 iterations)
{
	if (depth > 1)
		descend(depth - 1, iterations);
	else
		bottom(iterations);
}

NOINLINE int main(int argc, char **argv)
{
	descend(argument(argc, argv, 1, 2000), argument(argc, argv, 2, 1000000000));
	return 0;
}

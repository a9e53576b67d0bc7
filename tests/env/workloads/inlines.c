// SPDX-License-Identifier: GPL-2.0
/*
 * inlines ROUNDS: spends its CPU time in a function that is inlined into a second one, which is
 * inlined into a third. Comments mark the lines of the calls, for the tests.
 */
#include "bare.h"

#define STEPS 100000

static volatile u64 sink;

static inline __attribute__((always_inline)) void innermost(u64 seed)
{
	for (u64 i = 0; i < STEPS; i++) /* in the loop */
		sink = seed * i; /* in the loop */
}

static inline __attribute__((always_inline)) void between(u64 seed)
{
	innermost(seed); /* innermost is called */
}

static NOINLINE void outermost(u64 seed)
{
	keep_frame();
	between(seed + 1); /* between is called */
	sink = seed;
}

NOINLINE int main(int argc, char **argv)
{
	u64 rounds = argument(argc, argv, 1, 1000);

	while (rounds--)
		outermost(rounds); /* outermost is called */
	return 0;
}

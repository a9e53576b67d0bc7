// SPDX-License-Identifier: GPL-2.0
/*
 * inlines SECONDS: takes its CPU time in a function that is inlined in another one, which is
 * inlined in a third. Known: the lines with "calls" are those of the callers, in every stack
 * from the loop, and the loop's own are marked, too.
 */
#include "bare.h"

#define ROUNDS 4096

static volatile uint64_t sink;

static inline __attribute__((always_inline)) void innermost(uint64_t seed)
{
	for (uint32_t i = 0; i < ROUNDS; i++) /* the loop */
		sink = seed * i; /* the loop */
}

static inline __attribute__((always_inline)) void between(uint64_t seed)
{
	innermost(seed); /* between calls */
}

__attribute__((noinline)) void outermost(uint64_t seed)
{
	between(seed + 1); /* outermost calls */
	sink = seed;
}

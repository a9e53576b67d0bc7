/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Common behaviour of the programs without a C library. Each works for a while, so that profilers
 * read its files, prints "ready", waits for a line of input, does its work, and prints one line of
 * JSON with the TSC ticks of the work. In a guest whose clock counts instructions, these are
 * instructions.
 */
#ifndef BENCH_H
#define BENCH_H

#include "bare.h"
#include "counted.h"

#define SYS_READ 0
#define WARM_UP 1000000

/* Whether there was one. */
static inline int read_line(void)
{
	char line;

	return system_call(SYS_READ, 0, (long)&line, 1, 0) == 1;
}

static inline void be_ready(void)
{
	work_500(WARM_UP);
	print("ready\n");
	if (!read_line())
		system_call(SYS_EXIT_GROUP, 1, 0, 0, 0);
}

static inline void print_ticks(u64 taken)
{
	print("{\"ticks\": ");
	print_number(taken);
	print("}\n");
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs without a C library have in common: their conduct. Each works a
 * while in vain, so that who samples it has met it, prints "ready", waits for a line,
 * and then does what it is asked to, and prints one line of JSON with the ticks of the
 * time-stamp counter that it took. These are instructions where a guest's clock counts
 * these.
 */
#ifndef BENCH_H
#define BENCH_H

#include "bare.h"
#include "counted.h"

#define SYS_READ 0
#define WARM_UP 1000000

static inline void be_ready(void)
{
	char line;

	work_500(WARM_UP);
	print("ready\n");
	if (system_call(SYS_READ, 0, (long)&line, 1, 0) != 1)
		system_call(SYS_EXIT_GROUP, 1, 0, 0, 0);
}

static inline void print_ticks(u64 taken)
{
	print("{\"ticks\": ");
	print_number(taken);
	print("}\n");
}

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * forker [CHILDREN [ITERATIONS [STATUS]]]
 *
 * Runs CHILDREN processes one after the other, each named "forked", which work
 * ITERATIONS in _start, main, child. Prints a line of JSON with the CPU time of
 * each child, and exits with STATUS.
 */
#include "bare.h"

static NOINLINE void child(u64 iterations)
{
	work(iterations);
}

NOINLINE int main(int argc, char **argv)
{
	u64 children = argument(argc, argv, 1, 3);
	u64 iterations = argument(argc, argv, 2, 100000000);
	u64 index;
	long pid;

	for (index = 0; index < children; index++) {
		pid = system_call(SYS_FORK, 0, 0, 0, 0);
		if (pid < 0)
			return 255;
		if (!pid) {
			/* 15: PR_SET_NAME */
			system_call(SYS_PRCTL, 15, (long)"forked", 0, 0);
			child(iterations);
			print("{\"child\": ");
			print_number(index);
			print(", \"cpu_ns\": ");
			print_number(cpu_time());
			print("}\n");
			system_call(SYS_EXIT_GROUP, 0, 0, 0, 0);
		}
		system_call(SYS_WAIT4, pid, 0, 0, 0);
	}
	return argument(argc, argv, 3, 0);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * vforker [CHILDREN [ITERATIONS]]
 *
 * Prints "ready" and waits for a byte of input. Works in _start, main until there is more input,
 * then runs CHILDREN processes by vfork, one after the other, each of which works ITERATIONS in
 * the shared memory. Prints "done" and works on.
 */
#include "bare.h"

#define POLL_IN 1

struct poll_fd {
	int fd;
	short events, returned;
};

NOINLINE int main(int argc, char **argv)
{
	u64 children = argument(argc, argv, 1, 3);
	u64 iterations = argument(argc, argv, 2, 100000000);
	struct poll_fd input = {.fd = 0, .events = POLL_IN};
	char byte;
	u64 index;
	long pid;

	print("ready\n");
	if (system_call(SYS_READ, 0, (long)&byte, 1, 0) != 1)
		return 255;
	do
		work(iterations / 100);
	while (system_call(SYS_POLL, (long)&input, 1, 0, 0) == 0);
	for (index = 0; index < children; index++) {
		pid = system_call(SYS_VFORK, 0, 0, 0, 0);
		if (pid < 0)
			return 255;
		if (!pid) {
			work(iterations);
			system_call(SYS_EXIT_GROUP, 0, 0, 0, 0);
		}
		system_call(SYS_WAIT4, pid, 0, 0, 0);
	}
	print("done\n");
	for (;;)
		work(iterations);
}

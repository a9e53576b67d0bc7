// SPDX-License-Identifier: GPL-2.0
/*
 * fiber zero|stale
 *
 * Works at the bottom of DEPTH calls on a stack of its own, as coroutines do: run, descend (DEPTH
 * times), bottom. The return address of the outermost frame is 0; its saved frame pointer is 0, or
 * the one of main (stale).
 */
#include "bare.h"

#define DEPTH 4

static char stack[1 << 16] __attribute__((aligned(16)));

static NOINLINE void bottom(void)
{
	work(1000000000);
}

static NOINLINE void descend(int depth)
{
	if (depth > 1)
		descend(depth - 1);
	else
		bottom();
}

static NOINLINE __attribute__((used)) void run(void)
{
	descend(DEPTH);
	system_call(SYS_EXIT_GROUP, 0, 0, 0, 0);
}

NOINLINE int main(int argc, char **argv)
{
	const int is_stale = argc > 1 && argv[1][0] == 's';

	__asm__ volatile("test %1, %1\n"
			 "jnz 1f\n"
			 "xor %%ebp, %%ebp\n"
			 "1: mov %0, %%rsp\n"
			 "push $0\n"
			 "jmp run\n"
			 :
			 : "r"(stack + sizeof(stack)), "r"(is_stale)
			 : "memory");
	return 0;
}

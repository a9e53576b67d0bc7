// SPDX-License-Identifier: GPL-2.0
/*
 * depth u|k DEPTH AMOUNT
 *
 * A fixed amount of work at the bottom of DEPTH calls: _start, main, descend
 * (DEPTH times), bottom. With `u` it is AMOUNT times 500 instructions in bottom
 * itself; with `k`, AMOUNT times 64 KiB of /dev/zero that bottom reads with pread.
 *
 * First it works 0.5 s in vain, so that who samples it has met it, prints a line, and
 * waits for one. Then it prints one line of JSON: ticks of the time-stamp counter that the work
 * took, which are instructions where a guest's clock counts these.
 */
#include "bare.h"

#define SYS_READ 0
#define WARM_UP 1000000

static char buffer[64 << 10];
static long zero;

static inline __attribute__((always_inline)) u64 ticks(void)
{
	unsigned int low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

/* Mostly what an emulator skips: it executes these 100 times as fast as a short loop. */
static inline __attribute__((always_inline)) void work_500(u64 count)
{
	__asm__ volatile("1:	.rept 498\n"
			 "	nop\n"
			 "	.endr\n"
			 "	dec %0\n"
			 "	jnz 1b"
			 : "+r"(count)
			 :
			 : "cc");
}

static void read_zeros(u64 count)
{
	while (count--)
		system_call(SYS_PREAD64, zero, (long)buffer, sizeof(buffer), 0);
}

static NOINLINE u64 bottom(int in_kernel, u64 amount)
{
	u64 start;
	char line;

	keep_frame();
	work_500(WARM_UP);
	read_zeros(1);
	print("ready\n");
	if (system_call(SYS_READ, 0, (long)&line, 1, 0) != 1)
		return 0;
	start = ticks();
	if (in_kernel)
		read_zeros(amount);
	else
		work_500(amount);
	return ticks() - start;
}

static NOINLINE u64 descend(u64 depth, int in_kernel, u64 amount)
{
	return depth > 1 ? descend(depth - 1, in_kernel, amount) : bottom(in_kernel, amount);
}

NOINLINE int main(int argc, char **argv)
{
	u64 taken;

	if (argc != 4)
		return 2;
	zero = system_call(SYS_OPEN, (long)"/dev/zero", 0, 0, 0);
	if (zero < 0)
		return 1;
	taken = descend(argument(argc, argv, 2, 1), argv[1][0] == 'k', argument(argc, argv, 3, 1));
	print("{\"ticks\": ");
	print_number(taken);
	print("}\n");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * depth u|k DEPTH AMOUNT
 *
 * A fixed amount of work at the bottom of DEPTH calls: _start, main, descend
 * (DEPTH times), bottom. With `u` it is AMOUNT times 500 instructions in bottom
 * itself; with `k`, AMOUNT times 64 KiB of /dev/zero that bottom reads with pread.
 * It does the work again, and prints another line, for each further line of input.
 */
#include "bench.h"

static char buffer[64 << 10];
static long zero;

static void read_zeros(u64 count)
{
	while (count--)
		system_call(SYS_PREAD64, zero, (long)buffer, sizeof(buffer), 0);
}

static NOINLINE int bottom(int in_kernel, u64 amount)
{
	u64 start;

	keep_frame();
	read_zeros(1);
	be_ready();
	do {
		start = ticks();
		if (in_kernel)
			read_zeros(amount);
		else
			work_500(amount);
		print_ticks(ticks() - start);
	} while (read_line());
	return 0;
}

static NOINLINE int descend(u64 depth, int in_kernel, u64 amount)
{
	return depth > 1 ? descend(depth - 1, in_kernel, amount) : bottom(in_kernel, amount);
}

NOINLINE int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	zero = system_call(SYS_OPEN, (long)"/dev/zero", 0, 0, 0);
	if (zero < 0)
		return 1;
	return descend(argument(argc, argv, 2, 1), argv[1][0] == 'k', argument(argc, argv, 3, 1));
}

// SPDX-License-Identifier: GPL-2.0
/*
 * shares [ITERATIONS [SLICE [SEED]]]
 *
 * Three leaves share the work 50/30/20, exactly, at the end of chains of 3, 12
 * and 40 calls below main(). The work is the same loop in each. It is done in
 * slices of random length (1 to 2 * SLICE iterations) in random order, so that
 * no sampler can alias with it.
 *
 * Expected: each stack is a complete path from the root of this tree.
 *
 *	_start  main  a_01 ... a_03  leaf_a
 *	              b_01 ... b_12  leaf_b
 *	              c_01 ... c_40  leaf_c
 *
 * Prints one line of JSON with the iterations of each leaf and the CPU time.
 */
#include "bare.h"

static NOINLINE void leaf_a(u64 iterations)
{
	work(iterations);
}

static NOINLINE void leaf_b(u64 iterations)
{
	work(iterations);
}

static NOINLINE void leaf_c(u64 iterations)
{
	work(iterations);
}

#define LINK(name, callee)                                                                         \
	static NOINLINE void name(u64 iterations)                                                  \
	{                                                                                          \
		callee(iterations);                                                                \
	}

/* clang-format off */
LINK(a_03, leaf_a); LINK(a_02, a_03); LINK(a_01, a_02);

LINK(b_12, leaf_b); LINK(b_11, b_12); LINK(b_10, b_11); LINK(b_09, b_10);
LINK(b_08, b_09); LINK(b_07, b_08); LINK(b_06, b_07); LINK(b_05, b_06);
LINK(b_04, b_05); LINK(b_03, b_04); LINK(b_02, b_03); LINK(b_01, b_02);

LINK(c_40, leaf_c); LINK(c_39, c_40); LINK(c_38, c_39); LINK(c_37, c_38);
LINK(c_36, c_37); LINK(c_35, c_36); LINK(c_34, c_35); LINK(c_33, c_34);
LINK(c_32, c_33); LINK(c_31, c_32); LINK(c_30, c_31); LINK(c_29, c_30);
LINK(c_28, c_29); LINK(c_27, c_28); LINK(c_26, c_27); LINK(c_25, c_26);
LINK(c_24, c_25); LINK(c_23, c_24); LINK(c_22, c_23); LINK(c_21, c_22);
LINK(c_20, c_21); LINK(c_19, c_20); LINK(c_18, c_19); LINK(c_17, c_18);
LINK(c_16, c_17); LINK(c_15, c_16); LINK(c_14, c_15); LINK(c_13, c_14);
LINK(c_12, c_13); LINK(c_11, c_12); LINK(c_10, c_11); LINK(c_09, c_10);
LINK(c_08, c_09); LINK(c_07, c_08); LINK(c_06, c_07); LINK(c_05, c_06);
LINK(c_04, c_05); LINK(c_03, c_04); LINK(c_02, c_03); LINK(c_01, c_02);
/* clang-format on */

/* xorshift64* */
static inline u64 next_random(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1dULL) >> 16;
}

NOINLINE int main(int argc, char **argv)
{
	static void (*const chain[3])(u64) = {a_01, b_01, c_01};
	u64 total = argument(argc, argv, 1, 1000000000) / 10;
	u64 slice = argument(argc, argv, 2, 1000000);
	u64 state = argument(argc, argv, 3, 1);
	u64 left[3] = {total * 5, total * 3, total * 2};
	u64 done[3] = {0, 0, 0};
	u64 pick, iterations;
	int leaf;

	while (left[0] + left[1] + left[2]) {
		/* Draw a leaf in proportion to its remaining iterations. */
		pick = next_random(&state) % (left[0] + left[1] + left[2]);
		leaf = pick < left[0] ? 0 : pick < left[0] + left[1] ? 1 : 2;
		iterations = 1 + next_random(&state) % (2 * slice);
		if (iterations > left[leaf])
			iterations = left[leaf];
		chain[leaf](iterations);
		left[leaf] -= iterations;
		done[leaf] += iterations;
	}

	print("{\"leaf_a\": ");
	print_number(done[0]);
	print(", \"leaf_b\": ");
	print_number(done[1]);
	print(", \"leaf_c\": ");
	print_number(done[2]);
	print(", \"cpu_ns\": ");
	print_number(cpu_time());
	print("}\n");
	return 0;
}

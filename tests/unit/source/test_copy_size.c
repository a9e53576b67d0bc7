// SPDX-License-Identifier: GPL-2.0
/* The size of copies follows what stacks need. */
#include "unit.h"

#include <stdbool.h>
#include <stdint.h>

#include "source/copy_size.h"

#define KIB 1024u

static struct copy_size size;

/* Notes stacks that need as much, and chooses. Returns the size, in KiB. */
static uint32_t after(unsigned int stacks, uint64_t need)
{
	const uint32_t before = copy_size_bytes(size.step);
	bool has_changed;

	for (unsigned int i = 0; i < stacks; i++)
		copy_size_note(&size, need);
	has_changed = copy_size_choose(&size);
	assert_int_equal(has_changed, copy_size_bytes(size.step) != before);
	return copy_size_bytes(size.step) / KIB;
}

static void short_stacks_have_short_copies(void **state)
{
	(void)state;
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	assert_int_equal(copy_size_bytes(size.step), 32 * KIB);
	assert_int_equal(after(255, 100), 32);
	assert_int_equal(after(1, 2 * KIB), 2);
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	assert_int_equal(after(256, 2 * KIB + 8), 4);
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	assert_int_equal(after(256, 16 * KIB), 16);
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	assert_int_equal(after(1000, 16 * KIB + 8), 32);
}

/* One deep stack in 1,024 may be cut, not more. */
static void few_deep_stacks_keep_the_size(void **state)
{
	(void)state;
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	copy_size_note(&size, 20 * KIB);
	assert_int_equal(after(500, 100), 32);
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	copy_size_note(&size, 20 * KIB);
	assert_int_equal(after(1023, 100), 2);
	copy_size_init(&size, 32 * KIB, 32 * KIB);
	copy_size_note(&size, 20 * KIB);
	copy_size_note(&size, 20 * KIB);
	assert_int_equal(after(1023, 100), 32);
	/* What is long ago does not count. */
	for (unsigned int i = 0; i < 4; i++)
		after(1000, 100);
	assert_int_equal(after(1000, 100), 2);
}

static void cut_stacks_bring_the_size_back(void **state)
{
	(void)state;
	copy_size_init(&size, 16 * KIB, 32 * KIB);
	assert_int_equal(after(256, 100), 2);
	assert_int_equal(after(3, 3 * KIB), 2);
	assert_int_equal(after(1, 3 * KIB), 16);
	/* After each attempt that fails, the next one waits for four times as many stacks. */
	assert_int_equal(after(1023, 100), 16);
	assert_int_equal(after(1, 100), 2);
	assert_int_equal(after(4, 3 * KIB), 16);
	assert_int_equal(after(4095, 100), 16);
	assert_int_equal(after(1, 100), 2);
	/* The size was larger than at the start, and has shrunk twice. */
	copy_size_init(&size, 8 * KIB, 32 * KIB);
	assert_int_equal(after(4, 10 * KIB), 16);
	assert_int_equal(after(4, 20 * KIB), 32);
	assert_int_equal(after(256, 3 * KIB), 4);
	assert_int_equal(after(256, 100), 2);
	assert_int_equal(after(4, 3 * KIB), 32);
}

static void few_cut_stacks_are_borne(void **state)
{
	(void)state;
	copy_size_init(&size, 8 * KIB, 32 * KIB);
	assert_int_equal(after(256, 100), 2);
	assert_int_equal(after(200, 100), 2);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(after(255, 100), 2);
		assert_int_equal(after(1, 30 * KIB), 2);
	}
	/* More than one in 256. */
	assert_int_equal(after(9, 30 * KIB), 8);
}

static void deep_stacks_have_longer_copies(void **state)
{
	(void)state;
	copy_size_init(&size, 8 * KIB, 32 * KIB);
	assert_int_equal(after(4, 8 * KIB + 8), 16);
	assert_int_equal(after(4, 8 * KIB + 8), 16);
	assert_int_equal(after(4, 16 * KIB + 8), 32);
	/* There is no larger size. */
	assert_int_equal(after(9, 33 * KIB), 32);
	copy_size_init(&size, 33 * KIB, 64 * KIB);
	assert_int_equal(copy_size_bytes(size.step), 32 * KIB);
	assert_int_equal(after(9, 65 * KIB), 32);
	copy_size_init(&size, 8 * KIB, 16 * KIB);
	assert_int_equal(after(9, 30 * KIB), 16);
	assert_int_equal(after(9, 30 * KIB), 16);
}

static void smallest_size_is_the_first_step(void **state)
{
	(void)state;
	copy_size_init(&size, 2 * KIB, 32 * KIB);
	assert_int_equal(copy_size_bytes(size.step), 2 * KIB);
	copy_size_init(&size, 2 * KIB + 8, 32 * KIB);
	assert_int_equal(copy_size_bytes(size.step), 4 * KIB);
}

static void patience_has_an_end(void **state)
{
	static const unsigned int stacks[] = {256, 1024, 4096, 16 << 10, 64 << 10, 64 << 10};

	(void)state;
	copy_size_init(&size, 16 * KIB, 32 * KIB);
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		assert_int_equal(after(stacks[i] - 1, 100), 16);
		assert_int_equal(after(1, 100), 2);
		assert_int_equal(after(4, 3 * KIB), 16);
	}
}

/* Notes stacks for 8 KiB, the last of which are deeper. */
static uint32_t after_deep(unsigned int stacks, unsigned int deep)
{
	copy_size_init(&size, 8 * KIB, 32 * KIB);
	for (unsigned int i = 0; i < stacks - deep; i++)
		copy_size_note(&size, 5 * KIB);
	return after(deep, 30 * KIB);
}

static void one_in_256_is_borne(void **state)
{
	(void)state;
	assert_int_equal(after_deep(1023, 4), 16);
	assert_int_equal(after_deep(1024, 4), 8);
	assert_int_equal(after_deep(1025, 5), 16);
}

/* Half of what was counted stays. */
static void former_stacks_count_less(void **state)
{
	(void)state;
	assert_int_equal(after_deep(256, 3), 8);
	assert_int_equal(after(2, 30 * KIB), 8);
	assert_int_equal(after(1, 30 * KIB), 16);
	assert_int_equal(after_deep(2048, 8), 8);
	assert_int_equal(after(1, 30 * KIB), 16);
	assert_int_equal(after_deep(2048, 8), 8);
	assert_int_equal(after(0, 0), 8);
}

static void a_full_ring_ends_the_growth(void **state)
{
	(void)state;
	copy_size_init(&size, 8 * KIB, 32 * KIB);
	assert_int_equal(after(4, 30 * KIB), 16);
	copy_size_lost(&size);
	assert_int_equal(after(4, 30 * KIB), 8);
	assert_int_equal(after(4, 30 * KIB), 8);
	/* It may shrink, and come back. */
	for (unsigned int i = 0; i < 4; i++)
		after(256, 100);
	assert_int_equal(copy_size_bytes(size.step), 2 * KIB);
	assert_int_equal(after(100, 30 * KIB), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_stacks_have_short_copies),
		cmocka_unit_test(few_deep_stacks_keep_the_size),
		cmocka_unit_test(cut_stacks_bring_the_size_back),
		cmocka_unit_test(few_cut_stacks_are_borne),
		cmocka_unit_test(deep_stacks_have_longer_copies),
		cmocka_unit_test(smallest_size_is_the_first_step),
		cmocka_unit_test(patience_has_an_end),
		cmocka_unit_test(one_in_256_is_borne),
		cmocka_unit_test(former_stacks_count_less),
		cmocka_unit_test(a_full_ring_ends_the_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

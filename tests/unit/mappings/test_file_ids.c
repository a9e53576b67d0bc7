// SPDX-License-Identifier: GPL-2.0
/* Ids of files: how they are found, and when they are forgotten. */
#include "mappings/file_ids.h"

#include <stdbool.h>

#include "unit.h"

#define ITEMS 100u
/* More calls than a released id stays. */
#define MANY_SWEEPS 20u

static struct file_ids ids;
static unsigned int forgotten[ITEMS];

static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < ITEMS; i++)
		forgotten[i] = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	file_ids_clear(&ids);
	return 0;
}

static void count_forgotten(uint32_t file, void *arg)
{
	assert_ptr_equal(arg, &ids);
	assert_in_range(file, 0, ITEMS - 1);
	forgotten[file]++;
}

static void sweep(unsigned int count)
{
	while (count--)
		file_ids_sweep(&ids, count_forgotten, &ids);
}

static void ids_are_found(void **state)
{
	(void)state;
	assert_int_equal(file_ids_find(&ids, 0), FILE_NONE);
	for (uint32_t i = 0; i < ITEMS; i++)
		assert_int_equal(file_ids_add(&ids, (uint64_t)i << 40, i / 2), 0);
	for (uint32_t i = 0; i < ITEMS; i++)
		assert_int_equal(file_ids_find(&ids, (uint64_t)i << 40), i / 2);
	assert_int_equal(file_ids_find(&ids, 1), FILE_NONE);
	sweep(MANY_SWEEPS);
	for (uint32_t i = 0; i < ITEMS; i++)
		assert_int_equal(file_ids_find(&ids, (uint64_t)i << 40), i / 2);
	file_ids_clear(&ids);
	assert_int_equal(file_ids_find(&ids, 0), FILE_NONE);
}

/* Whenever an id is released, it stays for the same number of calls. */
static void released_ids_are_forgotten_later(void **state)
{
	unsigned int calls, first = 0;

	(void)state;
	for (uint32_t round = 0; round < 5; round++) {
		assert_int_equal(file_ids_add(&ids, 7, round), 0);
		file_ids_retire(&ids, 7);
		for (calls = 0; !forgotten[round] && calls < MANY_SWEEPS; calls++) {
			assert_int_equal(file_ids_find(&ids, 7), round);
			/* A second release changes nothing, nor does one of an unknown id. */
			file_ids_retire(&ids, 7);
			file_ids_retire(&ids, 8);
			sweep(1);
		}
		assert_int_equal(file_ids_find(&ids, 7), FILE_NONE);
		assert_int_equal(forgotten[round], 1);
		assert_in_range(calls, 3, MANY_SWEEPS - 1);
		first = first ? first : calls;
		assert_int_equal(calls, first);
		/* An id that is released between other calls. */
		sweep(round);
	}
}

/* Between the first calls, too. */
static void early_release_is_no_exception(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(file_ids_add(&ids, i, i), 0);
	for (uint32_t i = 0; i < 3; i++) {
		file_ids_retire(&ids, i);
		sweep(1);
	}
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(file_ids_find(&ids, i), i);
	sweep(MANY_SWEEPS);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(file_ids_find(&ids, i), FILE_NONE);
		assert_int_equal(forgotten[i], 1);
	}
	assert_int_equal(file_ids_find(&ids, 3), 3);
	assert_int_equal(forgotten[3], 0);
}

static void places_of_forgotten_ids_are_used_again(void **state)
{
	size_t capacity;

	(void)state;
	for (uint32_t i = 0; i < ITEMS; i++)
		assert_int_equal(file_ids_add(&ids, i, i), 0);
	capacity = ids.capacity;
	for (uint32_t round = 1; round <= 5; round++) {
		for (uint32_t i = 0; i < ITEMS; i++)
			file_ids_retire(&ids, (uint64_t)(round - 1) * ITEMS + i);
		sweep(MANY_SWEEPS);
		for (uint32_t i = 0; i < ITEMS; i++) {
			assert_int_equal(forgotten[i], round);
			assert_int_equal(file_ids_add(&ids, (uint64_t)round * ITEMS + i, i), 0);
		}
		for (uint32_t i = 0; i < ITEMS; i++)
			assert_int_equal(file_ids_find(&ids, (uint64_t)round * ITEMS + i), i);
	}
	assert_int_equal(ids.capacity, capacity);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(ids_are_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(released_ids_are_forgotten_later, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(early_release_is_no_exception, set_up, tear_down),
		cmocka_unit_test_setup_teardown(places_of_forgotten_ids_are_used_again, set_up,
						tear_down),
	};

	return cmocka_run_group_tests_name("file_ids", tests, NULL, NULL);
}

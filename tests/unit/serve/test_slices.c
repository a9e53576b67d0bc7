// SPDX-License-Identifier: GPL-2.0
/* The slices that a server has. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "lib/clock.h"
#include "serve/slices.h"

static struct slices slices;

static int tear_down(void **state)
{
	(void)state;
	slices_clear(&slices);
	return 0;
}

/* Returns the file of the slice, which has `size` bytes. */
static int add(uint32_t number, long size)
{
	const struct slice_file content = {memfd_create("slice", MFD_CLOEXEC), 10 * number, 10,
					   false};

	assert_true(content.file >= 0);
	assert_int_equal(ftruncate(content.file, size), 0);
	assert_int_equal(slices_add(&slices, number, &content), 0);
	return content.file;
}

static void add_empty(uint32_t number)
{
	const struct slice_file content = {-1, 10 * number, 10, false};

	assert_int_equal(slices_add(&slices, number, &content), 0);
}

static bool is_open(int file)
{
	return fcntl(file, F_GETFD) >= 0;
}

static void expect_found(uint32_t first, uint32_t last, const uint32_t *numbers, size_t count)
{
	struct slice_file *found;

	assert_int_equal(slices_find(&slices, first, last, &found), count);
	assert_non_null(found);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(found[i].start_ns, 10 * numbers[i]);
	free(found);
}

static void slices_may_come_in_any_order(void **state)
{
	(void)state;
	add_empty(4);
	add_empty(2);
	add_empty(5);
	add_empty(3);
	expect_found(1, 9, (uint32_t[]){2, 3, 4, 5}, 4);
	expect_found(3, 4, (uint32_t[]){3, 4}, 2);
	expect_found(6, 9, NULL, 0);
}

/* Slice N starts at N hours and lasts an hour; the clock is set by `step` before the last one. */
static void expect_connected(int64_t step_ns, bool connected)
{
	const int64_t hour = 3600 * NS_PER_SECOND;

	for (uint32_t number = 2; number <= 5; number++) {
		const struct slice_file content = {-1, number * hour + (number == 5 ? step_ns : 0),
						   hour, false};

		assert_int_equal(slices_add(&slices, number, &content), 0);
	}
	assert_int_equal(slices_connected(&slices, 2, 5), connected ? 5 : 4);
	assert_int_equal(slices_connected(&slices, 2, 4), 4);
	assert_int_equal(slices_connected(&slices, 5, 5), 5);
	assert_int_equal(slices_connected(&slices, 6, 7), 7);
	slices_clear(&slices);
}

static void steps_of_the_clock_are_between_slices(void **state)
{
	(void)state;
	expect_connected(0, true);
	expect_connected(NS_PER_SECOND - 1, true);
	expect_connected(1 - NS_PER_SECOND, true);
	expect_connected(NS_PER_SECOND, false);
	expect_connected(-NS_PER_SECOND, false);
	expect_connected(20 * 86400 * NS_PER_SECOND, false);
	expect_connected(-100000 * 3600 * NS_PER_SECOND, false);
}

static void ranges_are_complete_with_all_slices(void **state)
{
	(void)state;
	assert_false(slices_have(&slices, 1, 1));
	add_empty(2);
	add_empty(4);
	assert_true(slices_have(&slices, 2, 2));
	assert_false(slices_have(&slices, 2, 3));
	assert_false(slices_have(&slices, 1, 2));
	assert_false(slices_have(&slices, 2, 4));
	add_empty(3);
	assert_true(slices_have(&slices, 2, 4));
	assert_true(slices_have(&slices, 3, 4));
	assert_false(slices_have(&slices, 2, 5));
	assert_false(slices_have(&slices, 0, UINT32_MAX));
	/* No slice is wanted. */
	assert_true(slices_have(&slices, 9, 8));
}

static void dropped_slices_are_closed(void **state)
{
	int files[3];

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		files[i] = add(i + 1, 1000 * (i + 1));
	add_empty(4);
	assert_int_equal(slices.bytes, 6000);
	slices_drop(&slices, 1);
	assert_int_equal(slices.bytes, 6000);
	slices_drop(&slices, 3);
	assert_int_equal(slices.bytes, 3000);
	assert_false(is_open(files[0]));
	assert_false(is_open(files[1]));
	assert_true(is_open(files[2]));
	expect_found(0, UINT32_MAX, (uint32_t[]){3, 4}, 2);
	slices_clear(&slices);
	assert_false(is_open(files[2]));
	assert_int_equal(slices.count + slices.bytes, 0);
}

/* If the standard input is closed. */
static void descriptor_0_is_a_file(void **state)
{
	const int copy = dup(STDIN_FILENO), file = memfd_create("slice", MFD_CLOEXEC);
	const struct slice_file content = {STDIN_FILENO, 10, 10, false};
	bool was_open, is_closed;

	(void)state;
	assert_int_equal(ftruncate(file, 1000), 0);
	assert_int_equal(dup2(file, STDIN_FILENO), STDIN_FILENO);
	close(file);
	assert_int_equal(slices_add(&slices, 1, &content), 0);
	was_open = is_open(STDIN_FILENO);
	assert_int_equal(slices.bytes, 1000);
	slices_drop(&slices, 2);
	is_closed = !is_open(STDIN_FILENO);
	if (copy >= 0) {
		dup2(copy, STDIN_FILENO);
		close(copy);
	}
	assert_true(was_open);
	assert_true(is_closed);
	assert_int_equal(slices.bytes, 0);
}

static void slice_without_memory_is_closed(void **state)
{
	const struct slice_file content = {memfd_create("slice", MFD_CLOEXEC), 10, 10, false};
	const struct slice_file empty = {-1, 20, 10, false};

	(void)state;
	fail_malloc(1, true);
	assert_int_equal(slices_add(&slices, 1, &content), -ENOMEM);
	assert_int_equal(slices_add(&slices, 2, &empty), -ENOMEM);
	fail_malloc(0, false);
	assert_false(is_open(content.file));
	assert_int_equal(slices.count, 0);
}

#define TEST(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slices_may_come_in_any_order),
		TEST(steps_of_the_clock_are_between_slices),
		TEST(ranges_are_complete_with_all_slices),
		TEST(dropped_slices_are_closed),
		TEST(descriptor_0_is_a_file),
		TEST(slice_without_memory_is_closed),
	};

	return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}

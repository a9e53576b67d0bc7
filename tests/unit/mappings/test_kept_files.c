// SPDX-License-Identifier: GPL-2.0
/* The order in which kept files are closed. */
#include "mappings/kept_files.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "sandbox.h"
#include "unit.h"

#define COUNT 9

/* Files of users 1 (3 linked, 1 other), 2 (2 linked, 2 others) and 0 (1 other). */
static const struct kept_file files[COUNT] = {
	{.file = 1, .owner = 1, .is_linked = true},
	{.file = 2, .owner = 0},
	{.file = 3, .owner = 2, .is_linked = true},
	{.file = 4, .owner = 2},
	{.file = 5, .owner = 1, .is_linked = true},
	{.file = 6, .owner = 1},
	{.file = 7, .owner = 2},
	{.file = 8, .owner = 1, .is_linked = true},
	{.file = 9, .owner = 2, .is_linked = true},
};

static void linked_files_of_the_largest_owner_come_first(void **state)
{
	/* The owner of the most that are left; files of equal ranks may come in any order. */
	static const struct {
		bool is_linked;
		int owner; /* -1: any */
	} expected[COUNT] = {{true, 1},  {true, -1},  {true, -1},  {true, -1}, {true, -1},
			     {false, 2}, {false, -1}, {false, -1}, {false, -1}};
	struct kept_file sorted[COUNT];
	size_t left[2][3] = {{1, 1, 2}, {0, 3, 2}};

	(void)state;
	memcpy(sorted, files, sizeof(files));
	kept_files_sort(sorted, COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		size_t *counts = left[sorted[i].is_linked];

		assert_int_equal(sorted[i].is_linked, expected[i].is_linked);
		if (expected[i].owner >= 0)
			assert_int_equal(sorted[i].owner, expected[i].owner);
		for (size_t owner = 0; owner < 3; owner++)
			assert_true(counts[owner] <= counts[sorted[i].owner]);
		counts[sorted[i].owner]--;
	}
}

static void half_of_the_descriptors_are_kept(void **state)
{
	struct rlimit before, limit;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){.rlim_cur = 100, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(kept_files_max(49), 49);
	assert_int_equal(kept_files_max(50), 50);
	assert_int_equal(kept_files_max(51), 50);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void file_without_a_name_is_not_linked(void **state)
{
	int fd;

	(void)state;
	write_text(in_sandbox("file"), "");
	fd = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(is_file_linked(fd));
	assert_int_equal(unlink(in_sandbox("file")), 0);
	assert_false(is_file_linked(fd));
	assert_int_equal(close(fd), 0);
	assert_false(is_file_linked(fd));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(linked_files_of_the_largest_owner_come_first),
		cmocka_unit_test(half_of_the_descriptors_are_kept),
		cmocka_unit_test_setup_teardown(file_without_a_name_is_not_linked, make_sandbox,
						remove_sandbox),
	};

	return cmocka_run_group_tests_name("kept_files", tests, NULL, NULL);
}

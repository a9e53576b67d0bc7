// SPDX-License-Identifier: GPL-2.0
/* Causes of truncated stacks, and the comments with their counts. */
#include "unit.h"

#include <string.h>

#include "pprof/truncation.h"

static void kernel_part_comes_first(void **state)
{
	(void)state;
	for (enum stackbeat_unwind_stop user = 0; user < STACKBEAT_STOP_COUNT; user++) {
		assert_int_equal(truncation_of(STACKBEAT_STOP_MAX_DEPTH, user, true),
				 TRUNCATED_KERNEL);
		assert_int_equal(truncation_of(STACKBEAT_STOP_BAD_FRAME, user, false),
				 TRUNCATED_KERNEL);
	}
}

static void user_part_counts_unless_it_is_complete(void **state)
{
	static const struct {
		enum stackbeat_unwind_stop stop;
		enum truncation cause, complete;
	} cases[] = {
		{STACKBEAT_STOP_MAX_DEPTH, TRUNCATED_MAX_DEPTH, TRUNCATED_NOT},
		{STACKBEAT_STOP_FAULT, TRUNCATED_UNREADABLE_MEMORY, TRUNCATED_NOT},
		{STACKBEAT_STOP_BAD_FRAME, TRUNCATED_BAD_FRAME_POINTER, TRUNCATED_NOT},
		{STACKBEAT_STOP_EXEC, TRUNCATED_EXEC, TRUNCATED_EXEC},
	};
	bool seen[STACKBEAT_STOP_COUNT] = {false};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		seen[cases[i].stop] = true;
		assert_int_equal(truncation_of(0, cases[i].stop, false), cases[i].cause);
		assert_int_equal(truncation_of(0, cases[i].stop, true), cases[i].complete);
	}
	for (enum stackbeat_unwind_stop stop = 0; stop < STACKBEAT_STOP_COUNT; stop++) {
		if (!seen[stop])
			assert_int_equal(truncation_of(stop, stop, false), TRUNCATED_NOT);
	}
}

static void names_are_those_of_causes(void **state)
{
	(void)state;
	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++)
		assert_int_equal(truncation_by_name(truncation_name(cause)), cause);
	assert_string_equal(truncation_name(TRUNCATED_MAX_DEPTH), "max-depth");
	assert_string_equal(truncation_name(TRUNCATED_NOT), "");
	assert_int_equal(truncation_by_name(""), TRUNCATED_NOT);
	assert_int_equal(truncation_by_name("no-such"), TRUNCATED_NOT);
}

static void comments_have_all_counts(void **state)
{
	const struct truncation_counts counts = {{1, 2, 4, 8, 16}, 77, 9};
	const struct truncation_counts most = {
		{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
		UINT64_MAX,
		UINT64_MAX};
	char text[TRUNCATION_COMMENT_SIZE];

	(void)state;
	assert_int_equal(truncation_total(&counts), 31);
	truncation_comment(&counts, text);
	assert_string_equal(text, "truncated: 31 (kernel 1, max-depth 2, unreadable-memory 4, "
				  "bad-frame-pointer 8, exec 16)");
	frames_comment(&counts, text);
	assert_string_equal(text, "user frames: 77, outside all mappings 9");
	truncation_comment(&most, text);
	assert_non_null(strstr(text, "exec 18446744073709551615)"));
	frames_comment(&most, text);
	assert_non_null(strstr(text, "mappings 18446744073709551615"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_part_comes_first),
		cmocka_unit_test(user_part_counts_unless_it_is_complete),
		cmocka_unit_test(names_are_those_of_causes),
		cmocka_unit_test(comments_have_all_counts),
	};

	return cmocka_run_group_tests_name("truncation", tests, NULL, NULL);
}

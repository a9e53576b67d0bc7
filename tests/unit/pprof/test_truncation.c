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
		unsigned int stop;
		enum truncation cause, complete;
	} cases[] = {
		{STACKBEAT_STOP_MAX_DEPTH, TRUNCATED_MAX_DEPTH, TRUNCATED_NOT},
		{STACKBEAT_STOP_FAULT, TRUNCATED_UNREADABLE_MEMORY, TRUNCATED_NOT},
		{STACKBEAT_STOP_BAD_FRAME, TRUNCATED_BAD_FRAME_POINTER, TRUNCATED_NOT},
		{STACKBEAT_STOP_EXEC, TRUNCATED_EXEC, TRUNCATED_EXEC},
		{STACKBEAT_STOP_NO_RULE, TRUNCATED_NO_RULE, TRUNCATED_NOT},
		{STACKBEAT_STOP_NO_TABLE, TRUNCATED_NO_TABLE, TRUNCATED_NOT},
		{TRUNCATION_STOP_COPY_ENDS, TRUNCATED_STACK_COPY, TRUNCATED_NOT},
		{TRUNCATION_STOP_UNKNOWN_MAPPING, TRUNCATED_UNKNOWN_MAPPING, TRUNCATED_NOT},
	};
	bool seen[TRUNCATION_STOP_UNKNOWN_MAPPING + 1] = {false};

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

static void label_has_the_object_without_a_table(void **state)
{
	char text[TRUNCATION_LABEL_SIZE], path[2 * TRUNCATION_LABEL_SIZE];

	(void)state;
	truncation_label(TRUNCATED_NO_TABLE, "/usr/lib/libx.so", text);
	assert_string_equal(text, "no-unwind-table: libx.so");
	assert_int_equal(truncation_by_name(text), TRUNCATED_NO_TABLE);
	truncation_label(TRUNCATED_NO_TABLE, "[anon]", text);
	assert_string_equal(text, "no-unwind-table: [anon]");
	truncation_label(TRUNCATED_NO_TABLE, "", text);
	assert_string_equal(text, "no-unwind-table");
	truncation_label(TRUNCATED_NO_TABLE, "/a/b\033\xff", text);
	assert_string_equal(text, "no-unwind-table: b??");
	truncation_label(TRUNCATED_NO_RULE, "/usr/lib/libx.so", text);
	assert_string_equal(text, "no-unwind-rule");
	truncation_label(TRUNCATED_NOT, "/usr/lib/libx.so", text);
	assert_string_equal(text, "");
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	truncation_label(TRUNCATED_NO_TABLE, path, text);
	assert_int_equal(strlen(text), sizeof(text) - 1);
	assert_int_equal(truncation_by_name("no-unwind-tables"), TRUNCATED_NOT);
	assert_int_equal(truncation_by_name("no-unwind"), TRUNCATED_NOT);
}

static void comments_have_all_counts(void **state)
{
	const struct truncation_counts counts = {{1, 2, 4, 8, 16, 32, 64, 128, 256}, 77, 9};
	const struct truncation_counts most = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
						UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
						UINT64_MAX},
					       UINT64_MAX,
					       UINT64_MAX};
	char text[TRUNCATION_COMMENT_SIZE];

	(void)state;
	assert_int_equal(truncation_total(&counts), 511);
	truncation_comment(&counts, text);
	assert_string_equal(text, "truncated: 511 (kernel 1, max-depth 2, unreadable-memory 4, "
				  "bad-frame-pointer 8, exec 16, no-unwind-rule 32, "
				  "no-unwind-table 64, stack-copy 128, unknown-mapping 256)");
	frames_comment(&counts, text);
	assert_string_equal(text, "user frames: 77, outside all mappings 9");
	truncation_comment(&most, text);
	assert_non_null(strstr(text, "unknown-mapping 18446744073709551615)"));
	frames_comment(&most, text);
	assert_non_null(strstr(text, "mappings 18446744073709551615"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_part_comes_first),
		cmocka_unit_test(user_part_counts_unless_it_is_complete),
		cmocka_unit_test(names_are_those_of_causes),
		cmocka_unit_test(label_has_the_object_without_a_table),
		cmocka_unit_test(comments_have_all_counts),
	};

	return cmocka_run_group_tests_name("truncation", tests, NULL, NULL);
}

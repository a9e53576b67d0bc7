// SPDX-License-Identifier: GPL-2.0
/* Functions of a Go program by address. */
#include "unit.h"

#include "unwind/go_program.h"

#define START UINT64_C(0x400000)

static const struct go_program_function functions[] = {
	{.start = 0}, {.start = 0x10}, {.start = 0x40}, {.start = 0x41}};

static const struct go_program program = {
	.code_start = START,
	.code_end = START + 0x60,
	.functions = functions,
	.function_count = 4,
};

static void expect_function(uint64_t offset, size_t index)
{
	assert_ptr_equal(go_program_function_at(&program, START + offset), &functions[index]);
}

static void functions_end_where_the_next_one_starts(void **state)
{
	(void)state;
	expect_function(0, 0);
	expect_function(0xf, 0);
	expect_function(0x10, 1);
	expect_function(0x3f, 1);
	expect_function(0x40, 2);
	expect_function(0x41, 3);
	expect_function(0x5f, 3);
}

static void other_code_has_no_function(void **state)
{
	(void)state;
	assert_null(go_program_function_at(&program, START - 1));
	assert_null(go_program_function_at(&program, START + 0x60));
	assert_null(go_program_function_at(&program, 0));
	assert_null(go_program_function_at(&program, UINT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_end_where_the_next_one_starts),
		cmocka_unit_test(other_code_has_no_function),
	};

	return cmocka_run_group_tests_name("go_program", tests, NULL, NULL);
}

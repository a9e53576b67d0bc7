// SPDX-License-Identifier: GPL-2.0
/* Offsets of clocks in a time namespace. */
#include "lib/clock.h"

#include "sandbox.h"

static int64_t offset(const char *text, const char *clock)
{
	write_file(in_sandbox("offsets"), text, strlen(text));
	return clock_offset_in(in_sandbox("offsets"), clock);
}

static void each_clock_has_its_offset(void **state)
{
	/* The format of Linux. */
	const char *text = "monotonic       86400 500000000\n"
			   "boottime          -20 250000000\n";

	(void)state;
	assert_int_equal(offset(text, "monotonic"), INT64_C(86400500000000));
	assert_int_equal(offset(text, "boottime"), INT64_C(-19750000000));
	assert_int_equal(offset(text, "realtime"), 0);
}

static void missing_offset_is_zero(void **state)
{
	(void)state;
	assert_int_equal(offset("", "monotonic"), 0);
	assert_int_equal(offset("monotonic\n", "monotonic"), 0);
	assert_int_equal(clock_offset_in(in_sandbox("is_not_there"), "monotonic"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_clock_has_its_offset),
		cmocka_unit_test(missing_offset_is_zero),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

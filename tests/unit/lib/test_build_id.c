// SPDX-License-Identifier: GPL-2.0
/* Build IDs as strings. */
#include "lib/build_id.h"

#include "unit.h"

#include <string.h>

static void formats_bytes_as_lowercase_hex(void **state)
{
	const unsigned char bytes[] = {0x00, 0x1f, 0xa9, 0xff};
	char hex[2 * sizeof(bytes) + 2];

	(void)state;
	memset(hex, 'x', sizeof(hex));
	build_id_format(bytes, sizeof(bytes), hex);
	assert_string_equal(hex, "001fa9ff");
	assert_int_equal(hex[sizeof(hex) - 1], 'x');
	build_id_format(bytes, 0, hex);
	assert_string_equal(hex, "");
}

static void formats_the_longest(void **state)
{
	unsigned char bytes[BUILD_ID_BYTES_MAX];
	char hex[BUILD_ID_SIZE];

	(void)state;
	memset(bytes, 0xab, sizeof(bytes));
	build_id_format(bytes, sizeof(bytes), hex);
	assert_int_equal(strlen(hex), sizeof(hex) - 1);
	assert_true(build_id_valid(hex));
}

static void valid_build_ids_are_paths_below_a_directory(void **state)
{
	(void)state;
	assert_true(build_id_valid("001fa9ff"));
	assert_true(build_id_valid("001"));
	assert_false(build_id_valid(""));
	assert_false(build_id_valid("0"));
	assert_false(build_id_valid("00"));
	assert_false(build_id_valid("001FA9FF"));
	assert_false(build_id_valid("00/../../etc"));
	assert_false(build_id_valid("001fa9ff "));
	assert_false(build_id_valid("x01fa9ff"));
}

static void equal_build_ids_have_equal_digits(void **state)
{
	(void)state;
	assert_true(build_id_equal("001fa9ff", "001fa9ff"));
	assert_true(build_id_equal("", ""));
	assert_false(build_id_equal("001fa9ff", ""));
	assert_false(build_id_equal("001fa9ff", "001fa9"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(formats_bytes_as_lowercase_hex),
		cmocka_unit_test(formats_the_longest),
		cmocka_unit_test(valid_build_ids_are_paths_below_a_directory),
		cmocka_unit_test(equal_build_ids_have_equal_digits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* The command line of `stackbeat rate`, `pause` and `resume`. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "cli/session_option.h"
#include "lib/error.h"

static struct session_option option;
static struct error error;
static int first;

static int parse_argv(char **argv)
{
	int argc = 0;

	while (argv[argc])
		argc++;
	memset(&option, 0xaa, sizeof(option));
	memset(&error, 0, sizeof(error));
	return session_option_parse(argc, argv, &option, &first, &error);
}

#define ARGV(...) ((char *[]){"rate", ##__VA_ARGS__, NULL})
#define TAKES(...) assert_int_equal(parse_argv(ARGV(__VA_ARGS__)), 0)

static void refuses(const char *part, char **argv)
{
	assert_int_equal(parse_argv(argv), -EINVAL);
	assert_non_null(strstr(error.text, part));
	assert_null(strchr(error.text, '\n'));
}

#define REFUSES(part, ...) refuses(part, ARGV(__VA_ARGS__))

static void the_session_need_not_be_named(void **state)
{
	(void)state;
	TAKES();
	assert_int_equal(option.session, 0);
	assert_false(option.help);
	assert_int_equal(first, 1);
}

static void it_is_named_in_both_forms(void **state)
{
	(void)state;
	TAKES("-s", "12");
	assert_int_equal(option.session, 12);
	assert_int_equal(first, 3);
	TAKES("--session=4294967295");
	assert_int_equal(option.session, UINT32_MAX);
	TAKES("--session", "7", "-h");
	assert_int_equal(option.session, 7);
	assert_true(option.help);
	TAKES("--help");
	assert_true(option.help);
}

static void what_is_no_option_is_left(void **state)
{
	char **argv = ARGV("99", "-s", "3");

	(void)state;
	assert_int_equal(parse_argv(argv), 0);
	assert_int_equal(option.session, 3);
	assert_string_equal(argv[first], "99");
	TAKES("--", "-s");
	assert_int_equal(option.session, 0);
	assert_int_equal(first, 2);
}

static void what_is_wrong_is_named(void **state)
{
	static const char *const no_ids[] = {"", "0", "-1", "x", "1x", "4294967296", "1.5"};

	(void)state;
	for (size_t i = 0; i < sizeof(no_ids) / sizeof(no_ids[0]); i++)
		REFUSES("--session", "-s", (char *)no_ids[i]);
	REFUSES("-s: its value is missing", "-s");
	REFUSES("--session: its value is missing", "1", "--session");
	REFUSES("'--no-such'", "--no-such");
	REFUSES("'-Z'", "-Z");
	REFUSES("'--help=1': takes no value", "--help=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_session_need_not_be_named),
		cmocka_unit_test(it_is_named_in_both_forms),
		cmocka_unit_test(what_is_no_option_is_left),
		cmocka_unit_test(what_is_wrong_is_named),
	};

	return cmocka_run_group_tests_name("session_option", tests, NULL, NULL);
}

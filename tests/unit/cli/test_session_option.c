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
#define PARSES(...) assert_int_equal(parse_argv(ARGV(__VA_ARGS__)), 0)

static void refuses(const char *part, char **argv)
{
	assert_int_equal(parse_argv(argv), -EINVAL);
	assert_non_null(strstr(error.text, part));
	assert_null(strchr(error.text, '\n'));
}

#define REFUSES(part, ...) refuses(part, ARGV(__VA_ARGS__))

static void session_is_optional(void **state)
{
	(void)state;
	PARSES();
	assert_int_equal(option.session, 0);
	assert_false(option.help);
	assert_int_equal(first, 1);
}

static void short_and_long_option_are_parsed(void **state)
{
	(void)state;
	PARSES("-s", "12");
	assert_int_equal(option.session, 12);
	assert_int_equal(first, 3);
	PARSES("--session=4294967295");
	assert_int_equal(option.session, UINT32_MAX);
	PARSES("--session", "7", "-h");
	assert_int_equal(option.session, 7);
	assert_true(option.help);
	PARSES("--help");
	assert_true(option.help);
}

static void arguments_are_left(void **state)
{
	char **argv = ARGV("99", "-s", "3");

	(void)state;
	assert_int_equal(parse_argv(argv), 0);
	assert_int_equal(option.session, 3);
	assert_string_equal(argv[first], "99");
	PARSES("--", "-s");
	assert_int_equal(option.session, 0);
	assert_int_equal(first, 2);
}

static void errors_name_the_problem(void **state)
{
	static const char *const no_ids[] = {"", "0", "-1", "x", "1x", "4294967296", "1.5"};

	(void)state;
	for (size_t i = 0; i < sizeof(no_ids) / sizeof(no_ids[0]); i++)
		REFUSES("-s: ", "-s", (char *)no_ids[i]);
	REFUSES("-s: its value is missing", "-s");
	REFUSES("--session: its value is missing", "1", "--session");
	REFUSES("'--no-such'", "--no-such");
	REFUSES("'-Z'", "-Z");
	REFUSES("'--help=1': takes no value", "--help=1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(session_is_optional),
		cmocka_unit_test(short_and_long_option_are_parsed),
		cmocka_unit_test(arguments_are_left),
		cmocka_unit_test(errors_name_the_problem),
	};

	return cmocka_run_group_tests_name("session_option", tests, NULL, NULL);
}

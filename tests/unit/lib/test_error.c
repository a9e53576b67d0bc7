// SPDX-License-Identifier: GPL-2.0
/* Error messages of one line. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"

static struct error error;

static void sets_the_message_and_returns_the_code(void **state)
{
	(void)state;
	assert_int_equal(error_set(&error, EINVAL, "%s: %d is too much", "it", 7), -EINVAL);
	assert_string_equal(error.text, "it: 7 is too much");
	assert_int_equal(error_errno(&error, ENOENT, "%s", "/no/such"), -ENOENT);
	assert_string_equal(error.text, "/no/such: No such file or directory");
}

static void message_is_optional(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, EPERM, "%d", 1), -EPERM);
	assert_int_equal(error_errno(NULL, EPERM, "%d", 1), -EPERM);
}

static void unknown_codes_have_a_message(void **state)
{
	(void)state;
	assert_int_equal(error_errno(&error, 99999, "it"), -99999);
	assert_non_null(strstr(error.text, "99999"));
}

/* The reason is more important than the end of a long name. */
static void long_messages_are_truncated_but_keep_the_reason(void **state)
{
	char name[4096], *end;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(error_set(&error, EINVAL, "%s", name), -EINVAL);
	assert_int_equal(strlen(error.text), sizeof(error.text) - 1);

	assert_int_equal(error_errno(&error, ENOENT, "%s", name), -ENOENT);
	assert_int_equal(strlen(error.text), sizeof(error.text) - 1);
	end = error.text + strlen(error.text) - strlen("n: No such file or directory");
	assert_string_equal(end, "n: No such file or directory");

	/* All lengths around the one at which the name is truncated. */
	for (size_t length = 450; length < 530; length++) {
		name[length] = '\0';
		error_errno(&error, ENOENT, "%s", name);
		assert_true(strlen(error.text) < sizeof(error.text));
		assert_non_null(strstr(error.text, "n: No such file or directory"));
		name[length] = 'n';
	}
}

/* An untrusted name must neither begin a new line nor control the terminal. */
static void control_characters_are_replaced(void **state)
{
	(void)state;
	error_set(&error, EINVAL, "'%s'", "two\nlines\r\t\x1b[2J\x7f, grün");
	assert_string_equal(error.text, "'two?lines???[2J?, grün'");
	error_set(&error, EINVAL, "'%s'",
		  "\xc2\x9b"
		  "2J, \xe2\x80\xae, \xff");
	assert_string_equal(error.text, "'?2J, ?, ?'");
	error_errno(&error, ENOENT, "a\nb");
	assert_string_equal(error.text, "a?b: No such file or directory");
}

static void first_error_is_kept(void **state)
{
	struct error later = {"later"};
	int err = 0;

	(void)state;
	error_set(&error, EINVAL, "first");
	error_keep_first(&err, &error, 0, &later);
	assert_int_equal(err, 0);
	assert_string_equal(error.text, "first");
	error_keep_first(&err, &error, -EIO, &later);
	assert_int_equal(err, -EIO);
	assert_string_equal(error.text, "later");
	later = (struct error){"last"};
	error_keep_first(&err, &error, -ENOMEM, &later);
	assert_int_equal(err, -EIO);
	assert_string_equal(error.text, "later");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_the_message_and_returns_the_code),
		cmocka_unit_test(message_is_optional),
		cmocka_unit_test(unknown_codes_have_a_message),
		cmocka_unit_test(long_messages_are_truncated_but_keep_the_reason),
		cmocka_unit_test(control_characters_are_replaced),
		cmocka_unit_test(first_error_is_kept),
	};

	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* The command line of `stackbeat load`, without a module. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "source/module.h"

static char loaded[256]; /* the parameters, each behind a blank */
static int load_calls, load_error;

/* Instead of that in source/module.c, which would load the module. */
int module_load(char *const *parameters, char path[PATH_MAX], struct error *error)
{
	load_calls++;
	*loaded = '\0';
	for (; *parameters; parameters++) {
		strcat(loaded, " ");
		strcat(loaded, *parameters);
	}
	strcpy(path, "/lib/stackbeat.ko");
	return load_error ? error_set(error, -load_error, "no module") : 0;
}

static int load(char *first, char *second)
{
	char *argv[] = {"load", first, second, NULL};

	load_calls = 0;
	return cmd_load(!first ? 1 : !second ? 2 : 3, argv);
}

static void parameters_are_passed_on(void **state)
{
	(void)state;
	assert_int_equal(load(NULL, NULL), STATUS_OK);
	assert_string_equal(loaded, "");
	assert_int_equal(load("rate_max=100", NULL), STATUS_OK);
	assert_string_equal(loaded, " rate_max=100");
	assert_int_equal(load("rate_max=100", "unprivileged=1"), STATUS_OK);
	assert_string_equal(loaded, " rate_max=100 unprivileged=1");
	load_error = -ENOENT;
	assert_int_equal(load(NULL, NULL), STATUS_FAILED);
	load_error = 0;
}

static void other_arguments_are_refused(void **state)
{
	static char *const wrong[] = {"rate_max", "=100",  "-a=1", "a=1 b=2",
				      "a=\"b\"",  "a=1\n", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(load(wrong[i], NULL), STATUS_USAGE);
		assert_int_equal(load("rate_max=100", wrong[i]), STATUS_USAGE);
		assert_int_equal(load_calls, 0);
	}
	assert_int_equal(load("--help", NULL), STATUS_OK);
	assert_int_equal(load("rate_max=100", "-h"), STATUS_OK);
	assert_int_equal(load_calls, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parameters_are_passed_on),
		cmocka_unit_test(other_arguments_are_refused),
	};

	return cmocka_run_group_tests_name("cmd_load", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Libraries that are loaded on demand. */
#include "lib/optional_library.h"

#include <dlfcn.h>
#include <math.h>

#include "lib/error.h"
#include "unit.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct {
	double (*cosine)(double x);
	double (*root)(double x);
} functions;

static const char *const names[] = {"cos", "sqrt"};
static const char *const other_names[] = {"cos", "no_such_function"};

static void first_library_that_exists_is_loaded(void **state)
{
	const struct optional_library library = {
		.files = {"libdoes-not-exist.so.1", "libm.so.6"},
		.names = names,
		.count = COUNT(names),
	};
	struct error error;
	void *handle;

	(void)state;
	handle = optional_library_load(&library, &functions, &error);
	assert_non_null(handle);
	assert_true(functions.cosine(0) == 1);
	assert_true(functions.root(4) == 2);
	dlclose(handle);
}

static void missing_library_is_an_error(void **state)
{
	const struct optional_library library = {
		.files = {"libdoes-not-exist.so.1"},
		.names = names,
		.count = COUNT(names),
		.missing = "it is missing",
	};
	struct error error;

	(void)state;
	functions.root = sqrt;
	assert_null(optional_library_load(&library, &functions, &error));
	assert_string_equal(error.text, "it is missing");
	assert_null(functions.root);
}

static void missing_function_is_an_error(void **state)
{
	const struct optional_library library = {
		.files = {"libm.so.6"},
		.names = other_names,
		.count = COUNT(other_names),
		.too_old = "it is too old",
	};
	struct error error;

	(void)state;
	assert_null(optional_library_load(&library, &functions, &error));
	assert_string_equal(error.text, "it is too old");
	assert_null(functions.cosine);
	assert_null(functions.root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_library_that_exists_is_loaded),
		cmocka_unit_test(missing_library_is_an_error),
		cmocka_unit_test(missing_function_is_an_error),
	};

	return cmocka_run_group_tests_name("optional_library", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Names that a worker demangles, all of them in one call. */
#include "symbolize/demangle_names.h"

#include <string.h>

#include "lib/string_table.h"
#include "symbolize/source_line.h"
#include "unit.h"
#include "worker_server.h"

static void assert_demangled(const char *const (*names)[2], size_t count)
{
	struct source_line *lines = calloc(count + 1, sizeof(*lines));
	struct string_table strings = {0};

	assert_non_null(lines);
	for (size_t i = 0; i < count; i++)
		lines[i] =
			(struct source_line){.function = names[i][0], .system_name = names[i][0]};
	assert_int_equal(demangle_lines(worker_server(), lines, count, &strings), 0);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(lines[i].function, names[i][1]);
		assert_ptr_equal(lines[i].system_name, names[i][0]);
	}
	string_table_clear(&strings);
	free(lines);
}

static void each_name_gets_its_own_result(void **state)
{
	static const char *const names[][2] = {
		{"main", "main"},
		{"_ZN5outer5innerEi", "outer::inner"},
		{"_Zrubbish", "_Zrubbish"},
		{"", ""},
		{"_Z3addIiET_S0_S0_", "add<int>"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_Z", "_Z"},
		{"Z1fv", "Z1fv"},
		{"_Z1fv", "f"},
	};

	(void)state;
	assert_demangled(names, sizeof(names) / sizeof(names[0]));
	assert_demangled(names, 2);
	assert_demangled(names, 1);
	assert_demangled(names, 0);
}

/* More than a pipe holds. */
static void many_names_are_demangled(void **state)
{
	enum { COUNT = 5000 };
	static const char *names[COUNT][2];

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		names[i][0] = i % 3 ? "_ZN19long_namespace_name13long_functionEv" : "_Zrubbish";
		names[i][1] = i % 3 ? "long_namespace_name::long_function" : names[i][0];
	}
	assert_demangled((const char *const(*)[2])names, COUNT);
}

static void names_may_be_mangled_by_their_start(void **state)
{
	(void)state;
	assert_true(is_mangled("_Z1fv"));
	assert_true(is_mangled("_R"));
	assert_false(is_mangled("main"));
	assert_false(is_mangled("_"));
	assert_false(is_mangled(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_name_gets_its_own_result),
		cmocka_unit_test(many_names_are_demangled),
		cmocka_unit_test(names_may_be_mangled_by_their_start),
	};

	return cmocka_run_group_tests_name("demangle_names", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "lib/module_file.h"

#include <string.h>

#include "sandbox.h"

#define MODULES "/lib/modules/1.2-test/"

static char path[PATH_MAX];

static void place_file(const char *name)
{
	run("mkdir -p %s%s/$(dirname %s) && touch %s%s/%s", sandbox, MODULES, name, sandbox,
	    MODULES, name);
}

static bool find_file(void)
{
	return module_file_find(sandbox, "1.2-test", path);
}

static void module_is_found_where_it_is_installed(void **state)
{
	static const char *const names[] = {
		/* From the last to the first that is looked for. */
		"extra/stackbeat.ko",
		"updates/dkms/stackbeat.ko.gz",
		"updates/dkms/stackbeat.ko.zst",
		"updates/dkms/stackbeat.ko.xz",
		"updates/dkms/stackbeat.ko",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		place_file(names[i]);
		assert_true(find_file());
		assert_memory_equal(path, MODULES, strlen(MODULES));
		assert_string_equal(path + strlen(MODULES), names[i]);
	}
}

static void other_files_are_no_module(void **state)
{
	(void)state;
	assert_false(find_file());
	assert_string_equal(path, "");
	place_file("extra/other.ko");
	place_file("extra/stackbeat.ko.old");
	place_file("kernel/stackbeat.ko");
	assert_false(find_file());
	/* Of another kernel. */
	place_file("extra/stackbeat.ko");
	assert_false(module_file_find(sandbox, "1.3-test", path));
}

static void long_names_are_no_module(void **state)
{
	char release[PATH_MAX];

	(void)state;
	memset(release, 'a', sizeof(release) - 1);
	release[sizeof(release) - 1] = '\0';
	assert_false(module_file_find(sandbox, release, path));
	assert_string_equal(path, "");
	release[PATH_MAX - 64] = '\0';
	assert_false(module_file_find(sandbox, release, path));
}

int main(void)
{
#define SANDBOX_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)
	const struct CMUnitTest tests[] = {
		SANDBOX_TEST(module_is_found_where_it_is_installed),
		SANDBOX_TEST(other_files_are_no_module),
		SANDBOX_TEST(long_names_are_no_module),
	};

	return cmocka_run_group_tests_name("module file", tests, NULL, NULL);
}

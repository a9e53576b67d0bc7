// SPDX-License-Identifier: GPL-2.0
#include "lib/module_file.h"

#include <elf.h>
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

/* Whether the file is damaged if it begins with these bytes. */
static bool is_damaged(const char *bytes, size_t size)
{
	write_file(in_sandbox("m.ko"), bytes, size);
	return module_file_is_damaged(sandbox, "/m.ko");
}

static void damaged_files_are_no_module(void **state)
{
	Elf64_Ehdr header = {.e_ident = ELFMAG, .e_type = ET_REL};

	(void)state;
	assert_true(module_file_is_damaged(sandbox, "/m.ko"));
	assert_true(is_damaged("", 0));
	assert_true(is_damaged("text", 4));
	assert_false(is_damaged((char *)&header, sizeof(header)));
	/* Cut, a program, and zeros that a crash leaves. */
	assert_true(is_damaged((char *)&header, sizeof(header) - 1));
	header.e_type = ET_EXEC;
	assert_true(is_damaged((char *)&header, sizeof(header)));
	header = (Elf64_Ehdr){.e_type = ET_REL};
	assert_true(is_damaged((char *)&header, sizeof(header)));
	/* Compressed ones. */
	assert_false(is_damaged("\xfd"
				"7zXZ",
				6));
	assert_false(is_damaged("\x28\xb5\x2f\xfd", 4));
	assert_false(is_damaged("\x1f\x8b\x08", 3));
	/* No regular files, which block nobody. */
	run("rm %s/m.ko && mkfifo %s/m.ko", sandbox, sandbox);
	assert_true(module_file_is_damaged(sandbox, "/m.ko"));
	run("rm %s/m.ko && mkdir %s/m.ko", sandbox, sandbox);
	assert_true(module_file_is_damaged(sandbox, "/m.ko"));
}

static void remedy_makes_the_file_again(void **state)
{
	(void)state;
	assert_string_equal(module_file_remedy("/lib/modules/1.2/updates/dkms/stackbeat.ko.xz"),
			    "apt install --reinstall stackbeat-dkms");
	assert_string_equal(module_file_remedy("/lib/modules/1.2/extra/stackbeat.ko"),
			    "make module install");
	assert_string_equal(module_file_remedy("/home/a/build/kmod/1.2/stackbeat.ko"),
			    "make module");
}

int main(void)
{
#define SANDBOX_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)
	const struct CMUnitTest tests[] = {
		SANDBOX_TEST(module_is_found_where_it_is_installed),
		SANDBOX_TEST(other_files_are_no_module),
		SANDBOX_TEST(long_names_are_no_module),
		SANDBOX_TEST(damaged_files_are_no_module),
		SANDBOX_TEST(remedy_makes_the_file_again),
	};

	return cmocka_run_group_tests_name("module file", tests, NULL, NULL);
}

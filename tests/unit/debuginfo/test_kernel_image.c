// SPDX-License-Identifier: GPL-2.0
/* Modules in memory, and the files of the kernel and of modules on disk. */
#include "debuginfo/kernel_image.h"

#include <errno.h>
#include <fcntl.h>

#include "debuginfo/debug_paths.h"
#include "debuginfo/kallsyms.h"
#include "lib/error.h"
#include "sandbox.h"

#define TEXT UINT64_C(0xffffffff81000000)
#define MODULES UINT64_C(0xffffffffc0000000)

static void write_modules(const char *text)
{
	run("mkdir -p '%s'", in_sandbox("proc"));
	write_text(in_sandbox("proc/kallsyms"), "0000000000000000 A fixed_percpu_data\n"
						"ffffffff81000000 T _text\n");
	write_text(in_sandbox("proc/modules"), text);
}

static void modules_are_found_by_address_and_name(void **state)
{
	struct kernel *kernel;

	(void)state;
	write_modules("third 4096 1 - Live 0xffffffffc0020000 (OE)\n"
		      "first 8192 1 third, Live 0xffffffffc0000000\n"
		      "second 4096 0 - Live 0xffffffffc0010000\n");
	kernel = kernel_new(sandbox);
	assert_non_null(kernel);
	assert_true(kernel_has_module_list(kernel));
	assert_string_equal(kernel_mapping_at(kernel, MODULES - 1)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, "[first]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x1fff)->name, "[first]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x2000)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10000)->name, "[second]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10fff)->name, "[second]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x11000)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x20fff)->name, "[third]");
	assert_string_equal(kernel_mapping_at(kernel, UINT64_MAX)->name, KERNEL_MAPPING);
	assert_true(kernel_mapping_at(kernel, 0)->start == TEXT);
	assert_true(kernel_mapping_at(kernel, 0)->limit == UINT64_MAX);
	assert_true(kernel_mapping_by_name(kernel, "[second]")->start == MODULES + 0x10000);
	assert_true(kernel_mapping_by_name(kernel, "[first]")->limit == MODULES + 0x2000);
	assert_true(kernel_mapping_by_name(kernel, KERNEL_MAPPING)->start == TEXT);
	assert_null(kernel_mapping_by_name(kernel, "[fourth]"));
	assert_null(kernel_mapping_by_name(kernel, "first"));
	kernel_free(kernel);
	/* A start that is known is not read. */
	kernel = kernel_new_at(sandbox, 0x1234000);
	assert_non_null(kernel);
	assert_true(kernel_mapping_by_name(kernel, KERNEL_MAPPING)->start == 0x1234000);
	assert_true(kernel_mapping_by_name(kernel, "[second]")->start == MODULES + 0x10000);
	kernel_free(kernel);
}

/* Of a kernel that hides its addresses, and of hostile archives. */
static void invalid_modules_are_omitted(void **state)
{
	static const char *const lines[] = {
		"hidden 4096 1 - Live 0x0000000000000000\n",
		"short 4096 1 - Live\n",
		"wraps 18446744073709551615 1 - Live 0xffffffffc0000000\n",
		"\n",
		/* 70 letters: with the brackets it is too long by one. */
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 4096 1 - "
		"Live "
		"0xffffffffc0000000\n",
	};
	struct kernel *kernel;
	char name[128], text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(text, sizeof(text), "%sgood 4096 1 - Live 0xffffffffc0010000\n", lines[i]);
		write_modules(text);
		kernel = kernel_new(sandbox);
		assert_non_null(kernel);
		assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, KERNEL_MAPPING);
		assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10000)->name, "[good]");
		kernel_free(kernel);
	}
	/* The longest name. */
	write_modules(lines[4] + 1);
	kernel = kernel_new(sandbox);
	snprintf(name, sizeof(name), "[%.69s]", lines[4]);
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, name);
	kernel_free(kernel);
}

/* As for a service that may not see addresses, and has the symbols from the service manager. */
static void hidden_modules_are_placed_by_their_symbols(void **state)
{
	struct kallsyms *kallsyms;
	struct kernel *kernel;
	struct error error;

	(void)state;
	write_modules("first 8192 1 second, Live 0x0000000000000000\n"
		      "second 4096 0 - Live 0x0000000000000000\n"
		      "nothing 4096 0 - Live 0x0000000000000000\n"
		      "seen 4096 0 - Live 0xffffffffc0030000\n");
	/* `second` has data before its code; a range of `first` is of its initialization. */
	write_text(in_sandbox("symbols"), "ffffffff81000000 T _text\n"
					  "ffffffff9fffffff t below\t[nothing]\n"
					  "ffffffffc0000010 t one\t[first]\n"
					  "ffffffffc0001010 t two\t[first]\n"
					  "ffffffffc000f000 d data\t[second]\n"
					  "ffffffffc0010040 t three\t[second]\n"
					  "ffffffffc0020000 t four\t[first]\n"
					  "ffffffffc0030000 t five\t[seen]\n"
					  "ffffffffc0040000 t six\t[unknown]\n");
	assert_int_equal(kallsyms_read(in_sandbox("symbols"), &kallsyms, &error), 0);
	kernel = kernel_new(sandbox);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10)->name, KERNEL_MAPPING);
	assert_int_equal(kernel_place_modules(kernel, NULL), 0);
	assert_null(kernel_mapping_by_name(kernel, "[first]"));
	assert_int_equal(kernel_place_modules(kernel, kallsyms), 0);
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, "[first]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x1fff)->name, "[first]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x2000)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10000)->name, "[second]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x20000)->name, KERNEL_MAPPING);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x30000)->name, "[seen]");
	assert_true(kernel_mapping_by_name(kernel, "[first]")->start == MODULES);
	assert_true(kernel_mapping_by_name(kernel, "[second]")->limit == MODULES + 0x11000);
	assert_null(kernel_mapping_by_name(kernel, "[nothing]"));
	assert_null(kernel_mapping_by_name(kernel, "[unknown]"));
	/* Once more, as for another profile. */
	assert_int_equal(kernel_place_modules(kernel, kallsyms), 0);
	assert_true(kernel_mapping_by_name(kernel, "[first]")->start == MODULES);
	kernel_free(kernel);
	kallsyms_free(kallsyms);
}

/* The first of them is found by its name. */
static void name_may_come_twice(void **state)
{
	struct kernel *kernel;

	(void)state;
	write_modules("same 4096 1 - Live 0xffffffffc0010000\n"
		      "same 4096 1 - Live 0xffffffffc0000000\n");
	kernel = kernel_new(sandbox);
	assert_true(kernel_mapping_by_name(kernel, "[same]")->start == MODULES);
	assert_string_equal(kernel_mapping_at(kernel, MODULES + 0x10001)->name, "[same]");
	kernel_free(kernel);
}

static bool only_modules(const void *path_arg, const char *name, char path[PATH_MAX])
{
	assert_string_equal(path_arg, "argument");
	if (strcmp(name, MODULES_PATH))
		return false;
	strcpy(path, in_sandbox("proc/modules"));
	return true;
}

static void files_of_the_kernel_may_be_missing(void **state)
{
	struct kernel *kernel;

	(void)state;
	write_modules("first 8192 1 - Live 0xffffffffc0000000\n");
	kernel = kernel_from_files(only_modules, "argument");
	assert_non_null(kernel);
	assert_true(kernel_has_module_list(kernel));
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, "[first]");
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->build_id, "");
	assert_int_equal(kernel_mapping_by_name(kernel, KERNEL_MAPPING)->start, 0);
	kernel_free(kernel);

	kernel = kernel_from_kallsyms(in_sandbox("proc/kallsyms"));
	assert_non_null(kernel);
	assert_false(kernel_has_module_list(kernel));
	assert_true(kernel_mapping_at(kernel, MODULES)->start == TEXT);
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->build_id, "");
	kernel_free(kernel);

	run("rm -r '%s'", in_sandbox("proc"));
	kernel = kernel_new(sandbox);
	assert_non_null(kernel);
	assert_string_equal(kernel_mapping_at(kernel, MODULES)->name, KERNEL_MAPPING);
	kernel_free(kernel);
	kernel_free(NULL);
}

/* Returns the name of an open file below the sandbox, and closes it; "" for an error. */
static const char *path_of(int fd)
{
	static char path[PATH_MAX];
	char link[64];
	ssize_t length;

	if (fd < 0) {
		assert_int_equal(fd, -ENOENT);
		return "";
	}
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	assert_true(length > 0);
	path[length] = '\0';
	close(fd);
	return path + strlen(sandbox);
}

static void vmlinux_is_searched_at_each_place(void **state)
{
	static const char *const paths[] = {
		DEBUG_DIRECTORY "/boot/vmlinux-1.2",
		DEBUG_DIRECTORY "/lib/modules/1.2/vmlinux",
		"/lib/modules/1.2/build/vmlinux",
		"/boot/vmlinux-1.2",
	};

	(void)state;
	assert_int_equal(kernel_open_vmlinux(sandbox, "1.2", 0), -ENOENT);
	for (size_t i = 0; i < 4; i++)
		run("cd '%s' && mkdir -p \".$(dirname %s)\" && touch .%s", sandbox, paths[i],
		    paths[i]);
	for (unsigned int i = 0; i < 4; i++)
		assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.2", i)), paths[i]);
	assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.2", 4)), "");
	assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.3", 0)), "");
	/* Those that are there are counted. */
	run("cd '%s' && rm .%s && rm .%s && mkdir .%s", sandbox, paths[0], paths[2], paths[2]);
	assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.2", 0)), paths[1]);
	assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.2", 1)), paths[3]);
	assert_string_equal(path_of(kernel_open_vmlinux(sandbox, "1.2", 2)), "");
}

static void module_comes_after_its_debug_file(void **state)
{
	static const char debug[] = DEBUG_DIRECTORY "/lib/modules/1.2/kernel/a-module.ko";

	(void)state;
	run("cd '%s' && mkdir -p lib/modules/1.2/kernel && echo 'int f;' >main.c && "
	    "cc -c -o lib/modules/1.2/kernel/a-module.ko main.c && depmod -b . 1.2 2>/dev/null",
	    sandbox);
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[a_module]", 0)),
			    "/lib/modules/1.2/kernel/a-module.ko");
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[a_module]", 1)), "");
	run("cd '%s' && mkdir -p \".$(dirname %s)\" && touch .%s", sandbox, debug, debug);
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[a_module]", 0)), debug);
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[a_module]", 1)),
			    "/lib/modules/1.2/kernel/a-module.ko");
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[a_module]", 2)), "");
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.2", "[other]", 0)), "");
	assert_string_equal(path_of(kernel_open_module(sandbox, "1.3", "[a_module]", 0)), "");
}

static void kernel_mappings_are_above_user_memory(void **state)
{
	(void)state;
	assert_true(is_kernel_mapping(KERNEL_MAPPING, TEXT));
	assert_true(is_kernel_mapping("[ext4]", UINT64_C(1) << 63));
	assert_false(is_kernel_mapping("[ext4]", (UINT64_C(1) << 63) - 1));
	assert_false(is_kernel_mapping("[anon]", 0x1000));
	assert_false(is_kernel_mapping("[vsyscall]", UINT64_C(0xffffffffff600000)));
	assert_false(is_kernel_mapping("/bin/program", TEXT));
	assert_false(is_kernel_mapping("", TEXT));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(modules_are_found_by_address_and_name),
		TEST(invalid_modules_are_omitted),
		TEST(hidden_modules_are_placed_by_their_symbols),
		TEST(name_may_come_twice),
		TEST(files_of_the_kernel_may_be_missing),
		TEST(vmlinux_is_searched_at_each_place),
		TEST(module_comes_after_its_debug_file),
		TEST(kernel_mappings_are_above_user_memory),
	};

	return cmocka_run_group_tests_name("kernel_image", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbol_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "debuginfo/dwarf_lookup.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "sandbox.h"
#include "symbolize/worker_pool.h"

#define ID "0123abcd"

static const struct source_line inlined[] = {
	{.function = "inner", .system_name = "_Z5inner", .file = "/a.cc", .line = 3},
	{.function = "outer",
	 .system_name = "_Z5outer",
	 .file = "/a.cc",
	 .line = 7,
	 .start_line = 5,
	 .start = 0x1000},
};

static struct source_line found[INLINE_DEPTH_MAX];
static size_t count;

static void expect_inlined(const struct cached_symbols *names, uint64_t address)
{
	assert_true(cached_symbols_find(names, address, found, &count));
	assert_int_equal(count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(found[i].function, inlined[i].function);
		assert_string_equal(found[i].system_name, inlined[i].system_name);
		assert_string_equal(found[i].file, inlined[i].file);
		assert_int_equal(found[i].line, inlined[i].line);
		assert_int_equal(found[i].start_line, inlined[i].start_line);
		assert_int_equal(found[i].start, inlined[i].start);
	}
}

/* Keeps a function with one inlined at 0x1004 and 0x1010, and what is not to be shown at 0x2000. */
static void write_some(void)
{
	struct cached_symbols *names = symbol_cache_read(sandbox, ID);

	assert_non_null(names);
	assert_int_equal(cached_symbols_add(names, 0x2000, NULL, 0), 0);
	assert_int_equal(cached_symbols_add(names, 0x1010, inlined, 2), 0);
	assert_int_equal(cached_symbols_add(names, 0x1004, inlined, 2), 0);
	symbol_cache_write(sandbox, ID, names);
	cached_symbols_free(names);
}

static void test_what_is_kept_is_found(void **state)
{
	struct cached_symbols *names;

	(void)state;
	write_some();
	names = symbol_cache_read(sandbox, ID);
	expect_inlined(names, 0x1004);
	expect_inlined(names, 0x1010);
	assert_true(cached_symbols_find(names, 0x2000, found, &count));
	assert_int_equal(count, 0);
	assert_false(cached_symbols_find(names, 0x1005, found, &count));
	assert_false(cached_symbols_find(names, UINT64_MAX, found, &count));

	/* More comes to what is there; twice is once. */
	assert_int_equal(cached_symbols_add(names, 1, inlined + 1, 1), 0);
	assert_int_equal(cached_symbols_add(names, 1, inlined + 1, 1), 0);
	symbol_cache_write(sandbox, ID, names);
	cached_symbols_free(names);
	names = symbol_cache_read(sandbox, ID);
	expect_inlined(names, 0x1004);
	assert_true(cached_symbols_find(names, 1, found, &count));
	assert_int_equal(count, 1);
	assert_string_equal(found[0].function, "outer");
	cached_symbols_free(names);
}

static void test_names_of_other_builds_and_paths(void **state)
{
	static const char *const others[] = {"0123abce", "", "../0123abcd", "0123ABCD", "/"};

	(void)state;
	write_some();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct cached_symbols *names = symbol_cache_read(sandbox, others[i]);

		assert_non_null(names);
		assert_false(cached_symbols_find(names, 0x1004, found, &count));
		cached_symbols_free(names);
	}
}

/* Whatever is in the file, reading it is safe, and what it says can be used. */
static void test_broken_files(void **state)
{
	const char *path = in_sandbox(ID ".names");
	unsigned char bytes[4096];
	struct cached_symbols *names;
	size_t size, usable = 0;
	FILE *file;

	(void)state;
	write_some();
	file = fopen(path, "r");
	size = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	assert_true(size > 200 && size < sizeof(bytes));
	for (size_t length = 0; length < size; length++) {
		write_file(path, bytes, length);
		names = symbol_cache_read(sandbox, ID);
		assert_false(cached_symbols_find(names, 0x1004, found, &count));
		cached_symbols_free(names);
	}
	for (size_t i = 0; i < 8 * size; i++) {
		bytes[i / 8] ^= 1u << i % 8;
		write_file(path, bytes, size);
		bytes[i / 8] ^= 1u << i % 8;
		names = symbol_cache_read(sandbox, ID);
		for (uint64_t address = 0x1000; address <= 0x2000; address += 4) {
			if (!cached_symbols_find(names, address, found, &count))
				continue;
			for (size_t j = 0; j < count; j++)
				usable += found[j].function ? strlen(found[j].function) : 1;
		}
		cached_symbols_free(names);
	}
	assert_true(usable > 0);
}

static bool is_there(const char *name)
{
	return access(in_sandbox("%s", name), F_OK) == 0;
}

static void test_the_bound(void **state)
{
	static const char *const names[] = {"aa.names", "bb.names", "cc.names", "other"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		write_text(in_sandbox("%s", names[i]), "");
		assert_int_equal(truncate(in_sandbox("%s", names[i]), SYMBOL_CACHE_BYTES_MAX / 2),
				 0);
	}
	run("touch -d '2 days ago' %s", in_sandbox("bb.names"));
	run("touch -d '1 day ago' %s", in_sandbox("aa.names"));
	run("touch -d '9 days ago' %s", in_sandbox("other"));
	symbol_cache_trim(sandbox);
	assert_true(is_there("aa.names"));
	assert_false(is_there("bb.names"));
	assert_true(is_there("cc.names"));
	assert_true(is_there("other"));
	symbol_cache_trim(in_sandbox("missing"));
}

static void test_the_directory(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	setenv("XDG_CACHE_HOME", in_sandbox("cache"), 1);
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("cache/stackbeat"));
	assert_true(is_there("cache/stackbeat"));
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", in_sandbox("home"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_string_equal(directory, "");
	run("umask 022 && mkdir %s", in_sandbox("home"));
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("home/.cache/stackbeat"));
	/* A link may lead anywhere. */
	run("rmdir %s && ln -s /tmp %s", directory, directory);
	assert_false(symbol_cache_directory(directory));
	unsetenv("HOME");
	assert_false(symbol_cache_directory(directory));
}

/* Who may put another directory in the place of one that was checked could have it be any. */
static void test_a_directory_in_a_place_of_others(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	run("mkdir -p %s && chmod 777 %s", in_sandbox("open/home"), in_sandbox("open"));
	setenv("HOME", in_sandbox("open/home"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_string_equal(directory, "");
	assert_false(is_there("open/home/.cache"));
	run("ln -s %s %s", in_sandbox("open/home"), in_sandbox("link"));
	setenv("XDG_CACHE_HOME", in_sandbox("link/.cache"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_false(is_there("open/home/.cache"));
	unsetenv("XDG_CACHE_HOME");
	run("chmod 1777 %s", in_sandbox("open"));
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("open/home/.cache/stackbeat"));
	/* Names are believed: nobody else is to write them. */
	run("chmod 770 %s", directory);
	assert_false(symbol_cache_directory(directory));
	unsetenv("HOME");
}

/* As with "sudo -E". */
static void test_the_home_of_another_user(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	if (geteuid() != 0)
		skip();
	run("mkdir %s && chown 1234 %s", in_sandbox("others"), in_sandbox("others"));
	setenv("HOME", in_sandbox("others"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_false(is_there("others/.cache"));
	unsetenv("HOME");
}

/* With the namer */

static size_t told;
static char last[256];
static bool opened;
static bool lookup_is_untrusted;

static int take_name(void *arg, size_t job, size_t index, const struct source_line *lines,
		     size_t number)
{
	(void)arg, (void)job, (void)index;
	told++;
	snprintf(last, sizeof(last), "%s:%" PRIu32, lines[number - 1].system_name,
		 lines[number - 1].line);
	return 0;
}

static void take_problem(void *arg, const char *path, const char *text)
{
	(void)arg, (void)path, (void)text;
	opened = true;
}

/* It is called in another process: the error tells that it was. */
static int open_program(void *arg, struct error *error)
{
	int fd = open(in_sandbox("program"), O_RDONLY | O_CLOEXEC);

	(void)arg;
	error_set(error, EINVAL, "opened");
	return fd < 0 ? -errno : fd;
}

static void name_main(const char *build_id, uint64_t code_start, uint64_t address)
{
	const struct worker_pool pool = {
		.options.cache = sandbox,
		.options.problem = take_problem,
		.lines = take_name,
	};
	const struct worker_job job = {
		.path = in_sandbox("program"),
		.build_id = build_id,
		.addresses = &address,
		.count = 1,
		.open = open_program,
		.lookup_is_untrusted = lookup_is_untrusted,
		.code_start = code_start,
	};
	struct string_table texts = {0};

	told = 0;
	opened = false;
	*last = '\0';
	assert_int_equal(worker_pool_run(&pool, &job, 1, &texts), 0);
	string_table_clear(&texts);
}

static uint64_t build_program(const char *options)
{
	char command[256];
	uint64_t address;
	FILE *pipe;

	write_text(in_sandbox("main.c"), "int main(void)\n{\n\treturn 0;\n}\n");
	run("cd '%s' && cc -O1 -fcf-protection=none -Wl,--build-id=0x" ID
	    " %s -o program main.c && "
	    "chmod 755 program",
	    sandbox, options);
	snprintf(command, sizeof(command), "nm %s/program | awk '$3 == \"main\" {print $1}'",
		 sandbox);
	pipe = popen(command, "r");
	assert_int_equal(fscanf(pipe, "%" SCNx64, &address), 1);
	pclose(pipe);
	return address;
}

static void test_files_are_read_once(void **state)
{
	uint64_t address = build_program("-g");
	char first[sizeof(last)];
	const uint64_t elsewhere = UINT64_C(0xffffffff90000000);

	(void)state;
	name_main(ID, 0, address);
	assert_true(opened);
	assert_string_not_equal(last, "main:0");
	strcpy(first, last);
	name_main(ID, 0, address);
	assert_false(opened);
	assert_string_equal(last, first);
	name_main(ID, 0, address + 1);
	assert_true(opened);
	name_main("", 0, address);
	assert_true(opened);
	/* Code that lies elsewhere each time has its names by where they are in it. */
	name_main(ID, elsewhere + 0x1000, elsewhere + address);
	assert_true(opened);
	assert_string_equal(last, first);
	name_main(ID, 2 * elsewhere + 0x1000, 2 * elsewhere + address);
	assert_false(opened);
	assert_string_equal(last, first);
}

/* Debug information may come later. */
static void test_names_without_lines_are_not_kept(void **state)
{
	uint64_t address = build_program("");

	(void)state;
	for (int i = 0; i < 2; i++) {
		name_main(ID, 0, address);
		assert_true(opened);
		assert_string_equal(last, "main:0");
	}
}

/* Whoever can write a file can give it the build id of another one, and any names. */
static void test_names_from_files_of_others_are_not_kept(void **state)
{
	uint64_t address = build_program("-g");

	(void)state;
	run("chmod o+w %s", in_sandbox("program"));
	name_main(ID, 0, address);
	run("chmod 775 %s", in_sandbox("program"));
	name_main(ID, 0, address);
	assert_true(opened);
	run("chmod 755 %s", in_sandbox("program"));
	if (geteuid() == 0) {
		run("chown 1234 %s", in_sandbox("program"));
		name_main(ID, 0, address);
		assert_true(opened);
		run("chown 0 %s", in_sandbox("program"));
	}
	name_main(ID, 0, address);
	assert_true(opened);
	name_main(ID, 0, address);
	assert_false(opened);
}

/* Nor those of a debug file that others can write, beside a binary that they can't. */
static void test_names_from_debug_files_of_others_are_not_kept(void **state)
{
	uint64_t address = build_program("-g");

	(void)state;
	run("cd '%s' && objcopy --only-keep-debug program program.debug && strip program && "
	    "objcopy --add-gnu-debuglink=program.debug program && chmod 777 program.debug",
	    sandbox);
	for (int i = 0; i < 2; i++) {
		name_main(ID, 0, address);
		assert_true(opened);
		assert_memory_equal(last, "main:", strlen("main:"));
		assert_string_not_equal(last, "main:0");
	}
	run("chmod 755 '%s'", in_sandbox("program.debug"));
	lookup_is_untrusted = true;
	for (int i = 0; i < 2; i++) {
		name_main(ID, 0, address);
		assert_true(opened);
	}
	lookup_is_untrusted = false;
	name_main(ID, 0, address);
	assert_true(opened);
	name_main(ID, 0, address);
	assert_false(opened);
}

#define CACHE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_what_is_kept_is_found),
		CACHE_TEST(test_names_of_other_builds_and_paths),
		CACHE_TEST(test_broken_files),
		CACHE_TEST(test_the_bound),
		CACHE_TEST(test_the_directory),
		CACHE_TEST(test_a_directory_in_a_place_of_others),
		CACHE_TEST(test_the_home_of_another_user),
		CACHE_TEST(test_files_are_read_once),
		CACHE_TEST(test_names_without_lines_are_not_kept),
		CACHE_TEST(test_names_from_files_of_others_are_not_kept),
		CACHE_TEST(test_names_from_debug_files_of_others_are_not_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

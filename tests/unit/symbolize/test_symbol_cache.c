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

static void expect_inlined(const struct cached_symbols *symbols, uint64_t address)
{
	assert_true(cached_symbols_find(symbols, address, found, &count));
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

/* Caches a function with an inlined one at 0x1004 and 0x1010, and an elided frame at 0x2000. */
static void write_some(void)
{
	struct cached_symbols *symbols = symbol_cache_read(sandbox, ID);

	assert_non_null(symbols);
	assert_int_equal(cached_symbols_add(symbols, 0x2000, NULL, 0), 0);
	assert_int_equal(cached_symbols_add(symbols, 0x1010, inlined, 2), 0);
	assert_int_equal(cached_symbols_add(symbols, 0x1004, inlined, 2), 0);
	symbol_cache_write(sandbox, ID, symbols);
	cached_symbols_free(symbols);
}

static void cached_symbols_are_found(void **state)
{
	struct cached_symbols *symbols;

	(void)state;
	write_some();
	symbols = symbol_cache_read(sandbox, ID);
	expect_inlined(symbols, 0x1004);
	expect_inlined(symbols, 0x1010);
	assert_true(cached_symbols_find(symbols, 0x2000, found, &count));
	assert_int_equal(count, 0);
	assert_false(cached_symbols_find(symbols, 0x1005, found, &count));
	assert_false(cached_symbols_find(symbols, UINT64_MAX, found, &count));

	/* New addresses are merged with the old ones; duplicates are removed. */
	assert_int_equal(cached_symbols_add(symbols, 1, inlined + 1, 1), 0);
	assert_int_equal(cached_symbols_add(symbols, 1, inlined + 1, 1), 0);
	symbol_cache_write(sandbox, ID, symbols);
	cached_symbols_free(symbols);
	symbols = symbol_cache_read(sandbox, ID);
	expect_inlined(symbols, 0x1004);
	assert_true(cached_symbols_find(symbols, 1, found, &count));
	assert_int_equal(count, 1);
	assert_string_equal(found[0].function, "outer");
	cached_symbols_free(symbols);
}

static void invalid_build_ids_find_nothing(void **state)
{
	static const char *const others[] = {"0123abce", "", "../0123abcd", "0123ABCD", "/"};

	(void)state;
	write_some();
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct cached_symbols *symbols = symbol_cache_read(sandbox, others[i]);

		assert_non_null(symbols);
		assert_false(cached_symbols_find(symbols, 0x1004, found, &count));
		cached_symbols_free(symbols);
	}
}

/* Each truncation and each flipped bit: strings that are found can be read. */
static void corrupt_files_are_read_safely(void **state)
{
	const char *path = in_sandbox(ID ".names");
	unsigned char bytes[4096];
	struct cached_symbols *symbols;
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
		symbols = symbol_cache_read(sandbox, ID);
		assert_false(cached_symbols_find(symbols, 0x1004, found, &count));
		cached_symbols_free(symbols);
	}
	for (size_t i = 0; i < 8 * size; i++) {
		bytes[i / 8] ^= 1u << i % 8;
		write_file(path, bytes, size);
		bytes[i / 8] ^= 1u << i % 8;
		symbols = symbol_cache_read(sandbox, ID);
		for (uint64_t address = 0x1000; address <= 0x2000; address += 4) {
			if (!cached_symbols_find(symbols, address, found, &count))
				continue;
			for (size_t j = 0; j < count; j++)
				usable += found[j].function ? strlen(found[j].function) : 1;
		}
		cached_symbols_free(symbols);
	}
	assert_true(usable > 0);
}

static bool exists(const char *name)
{
	return access(in_sandbox("%s", name), F_OK) == 0;
}

static void least_recently_used_files_are_evicted(void **state)
{
	static const char *const symbols[] = {"aa.names", "bb.names", "cc.names", "other"};

	(void)state;
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		write_text(in_sandbox("%s", symbols[i]), "");
		assert_int_equal(truncate(in_sandbox("%s", symbols[i]), SYMBOL_CACHE_BYTES_MAX / 2),
				 0);
	}
	run("touch -d '2 days ago' %s", in_sandbox("bb.names"));
	run("touch -d '1 day ago' %s", in_sandbox("aa.names"));
	run("touch -d '9 days ago' %s", in_sandbox("other"));
	symbol_cache_trim(sandbox);
	assert_true(exists("aa.names"));
	assert_false(exists("bb.names"));
	assert_true(exists("cc.names"));
	assert_true(exists("other"));
	symbol_cache_trim(in_sandbox("missing"));
}

static void directory_is_created_without_links(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	setenv("XDG_CACHE_HOME", in_sandbox("cache"), 1);
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("cache/stackbeat"));
	assert_true(exists("cache/stackbeat"));
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", in_sandbox("home"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_string_equal(directory, "");
	run("umask 022 && mkdir %s", in_sandbox("home"));
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("home/.cache/stackbeat"));
	/* Symbolic links are rejected. */
	run("rmdir %s && ln -s /tmp %s", directory, directory);
	assert_false(symbol_cache_directory(directory));
	unsetenv("HOME");
	assert_false(symbol_cache_directory(directory));
}

static void directory_that_others_can_replace_is_rejected(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	run("mkdir -p %s && chmod 777 %s", in_sandbox("open/home"), in_sandbox("open"));
	setenv("HOME", in_sandbox("open/home"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_string_equal(directory, "");
	assert_false(exists("open/home/.cache"));
	run("ln -s %s %s", in_sandbox("open/home"), in_sandbox("link"));
	setenv("XDG_CACHE_HOME", in_sandbox("link/.cache"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_false(exists("open/home/.cache"));
	unsetenv("XDG_CACHE_HOME");
	run("chmod 1777 %s", in_sandbox("open"));
	assert_true(symbol_cache_directory(directory));
	assert_string_equal(directory, in_sandbox("open/home/.cache/stackbeat"));
	/* Cached symbols are trusted: no other user may write them. */
	run("chmod 770 %s", directory);
	assert_false(symbol_cache_directory(directory));
	unsetenv("HOME");
}

/* As with "sudo -E". */
static void home_of_another_user_is_rejected(void **state)
{
	char directory[PATH_MAX];

	(void)state;
	if (geteuid() != 0)
		skip();
	run("mkdir %s && chown 1234 %s", in_sandbox("others"), in_sandbox("others"));
	setenv("HOME", in_sandbox("others"), 1);
	assert_false(symbol_cache_directory(directory));
	assert_false(exists("others/.cache"));
	unsetenv("HOME");
}

/* With the worker pool */

static size_t received;
static char last[256];
static bool opened;
static bool lookup_is_untrusted;

static int store_line(void *arg, size_t job, size_t index, const struct source_line *lines,
		      size_t line_count)
{
	(void)arg, (void)job, (void)index;
	received++;
	snprintf(last, sizeof(last), "%s:%" PRIu32, lines[line_count - 1].system_name,
		 lines[line_count - 1].line);
	return 0;
}

static void note_opened(void *arg, const char *path, const char *text)
{
	(void)arg, (void)path, (void)text;
	opened = true;
}

/* Runs in a worker process: the error shows that it was called. */
static int open_program(void *arg, struct error *error)
{
	int fd = open(in_sandbox("program"), O_RDONLY | O_CLOEXEC);

	(void)arg;
	error_set(error, EINVAL, "opened");
	return fd < 0 ? -errno : fd;
}

static void symbolize_main(const char *build_id, uint64_t code_start, uint64_t address)
{
	const struct worker_pool pool = {
		.options.cache = sandbox,
		.options.problem = note_opened,
		.lines = store_line,
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
	struct string_table strings = {0};

	received = 0;
	opened = false;
	*last = '\0';
	assert_int_equal(worker_pool_run(&pool, &job, 1, &strings), 0);
	string_table_clear(&strings);
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

static void cached_files_are_not_opened(void **state)
{
	uint64_t address = build_program("-g");
	char first[sizeof(last)];
	const uint64_t elsewhere = UINT64_C(0xffffffff90000000);

	(void)state;
	symbolize_main(ID, 0, address);
	assert_true(opened);
	assert_string_not_equal(last, "main:0");
	strcpy(first, last);
	symbolize_main(ID, 0, address);
	assert_false(opened);
	assert_string_equal(last, first);
	symbolize_main(ID, 0, address + 1);
	assert_true(opened);
	symbolize_main("", 0, address);
	assert_true(opened);
	/* Relocated code is cached by its offset from code_start. */
	symbolize_main(ID, elsewhere + 0x1000, elsewhere + address);
	assert_true(opened);
	assert_string_equal(last, first);
	symbolize_main(ID, 2 * elsewhere + 0x1000, 2 * elsewhere + address);
	assert_false(opened);
	assert_string_equal(last, first);
}

/* Debug information may be installed later. */
static void symbols_without_lines_are_not_cached(void **state)
{
	uint64_t address = build_program("");

	(void)state;
	for (int i = 0; i < 2; i++) {
		symbolize_main(ID, 0, address);
		assert_true(opened);
		assert_string_equal(last, "main:0");
	}
}

/* A user who can write a file can fake its build ID and symbols. */
static void untrusted_files_are_not_cached(void **state)
{
	uint64_t address = build_program("-g");

	(void)state;
	run("chmod o+w %s", in_sandbox("program"));
	symbolize_main(ID, 0, address);
	run("chmod 775 %s", in_sandbox("program"));
	symbolize_main(ID, 0, address);
	assert_true(opened);
	run("chmod 755 %s", in_sandbox("program"));
	if (geteuid() == 0) {
		run("chown 1234 %s", in_sandbox("program"));
		symbolize_main(ID, 0, address);
		assert_true(opened);
		run("chown 0 %s", in_sandbox("program"));
	}
	symbolize_main(ID, 0, address);
	assert_true(opened);
	symbolize_main(ID, 0, address);
	assert_false(opened);
}

/* A debug file that others can write, beside a binary that they can't. */
static void untrusted_debug_files_are_not_cached(void **state)
{
	uint64_t address = build_program("-g");

	(void)state;
	run("cd '%s' && objcopy --only-keep-debug program program.debug && strip program && "
	    "objcopy --add-gnu-debuglink=program.debug program && chmod 777 program.debug",
	    sandbox);
	for (int i = 0; i < 2; i++) {
		symbolize_main(ID, 0, address);
		assert_true(opened);
		assert_memory_equal(last, "main:", strlen("main:"));
		assert_string_not_equal(last, "main:0");
	}
	run("chmod 755 '%s'", in_sandbox("program.debug"));
	lookup_is_untrusted = true;
	for (int i = 0; i < 2; i++) {
		symbolize_main(ID, 0, address);
		assert_true(opened);
	}
	lookup_is_untrusted = false;
	symbolize_main(ID, 0, address);
	assert_true(opened);
	symbolize_main(ID, 0, address);
	assert_false(opened);
}

#define CACHE_TEST(test) cmocka_unit_test_setup_teardown(test, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(cached_symbols_are_found),
		CACHE_TEST(invalid_build_ids_find_nothing),
		CACHE_TEST(corrupt_files_are_read_safely),
		CACHE_TEST(least_recently_used_files_are_evicted),
		CACHE_TEST(directory_is_created_without_links),
		CACHE_TEST(directory_that_others_can_replace_is_rejected),
		CACHE_TEST(home_of_another_user_is_rejected),
		CACHE_TEST(cached_files_are_not_opened),
		CACHE_TEST(symbols_without_lines_are_not_cached),
		CACHE_TEST(untrusted_files_are_not_cached),
		CACHE_TEST(untrusted_debug_files_are_not_cached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

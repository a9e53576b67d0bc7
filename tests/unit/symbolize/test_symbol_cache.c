// SPDX-License-Identifier: GPL-2.0
/* Symbols that are kept, in this process and in those that it forks. */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/dwarf_lookup.h"
#include "symbolize/symbol_cache.h"

#define SIZE ((size_t)64 << 10)
/* The entries that fit: three quarters of the slots. */
#define ENTRIES ((uint64_t)SIZE / 128 * 3 / 4)

static const struct symbol_file libc = {1, 2, 3, 4, 5, "c0ffee", "/lib/libc.so.6"};
static const struct source_line simple = {.function = "f", .system_name = "f"};
static struct symbol_cache *cache;

static int set_up(void **state)
{
	(void)state;
	cache = symbol_cache_new(SIZE);
	return cache ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	symbol_cache_free(cache);
	return 0;
}

/* Adds the lines of one address. */
static void add(const struct symbol_file *file, uint64_t address, const struct source_line *lines,
		size_t count)
{
	symbol_cache_add(cache, file, address, &(struct address_range){0}, lines, count);
}

static void add_range(uint64_t address, uint64_t start, uint64_t end, const char *name)
{
	const struct source_line line = {.function = name};
	const struct address_range same = {start, end};

	symbol_cache_add(cache, &libc, address, &same, &line, 1);
}

/* The lines that were found: copies of their strings, which live as long as the test. */
struct found {
	unsigned int calls;
	size_t count;
	struct source_line lines[INLINE_DEPTH_MAX];
	int err;
};

static void copy(const char **string)
{
	*string = *string ? strdup(*string) : NULL;
}

static int take(void *arg, const struct source_line *lines, size_t count)
{
	struct found *found = arg;

	found->calls++;
	found->count = count;
	for (size_t i = 0; i < count; i++) {
		found->lines[i] = lines[i];
		copy(&found->lines[i].function);
		copy(&found->lines[i].system_name);
		copy(&found->lines[i].file);
	}
	return found->err;
}

static void free_found(struct found *found)
{
	for (size_t i = 0; i < found->count; i++) {
		free((char *)found->lines[i].function);
		free((char *)found->lines[i].system_name);
		free((char *)found->lines[i].file);
	}
	found->count = 0;
}

static void check_string(const char *string, const char *wanted)
{
	if (wanted)
		assert_string_equal(string, wanted);
	else
		assert_null(string);
}

static void expect(const struct symbol_file *file, uint64_t address,
		   const struct source_line *lines, size_t count)
{
	struct found found = {0};
	int err = 1;

	assert_true(symbol_cache_find(cache, file, address, take, &found, &err));
	assert_int_equal(err, 0);
	assert_int_equal(found.calls, 1);
	assert_int_equal(found.count, count);
	for (size_t i = 0; i < count; i++) {
		check_string(found.lines[i].function, lines[i].function);
		check_string(found.lines[i].system_name, lines[i].system_name);
		check_string(found.lines[i].file, lines[i].file);
		assert_int_equal(found.lines[i].line, lines[i].line);
		assert_int_equal(found.lines[i].start_line, lines[i].start_line);
	}
	free_found(&found);
}

static bool is_known(const struct symbol_file *file, uint64_t address)
{
	struct found found = {0};
	int err = 1;
	bool known = symbol_cache_find(cache, file, address, take, &found, &err);

	assert_int_equal(err, 0);
	assert_true(known || !found.calls);
	free_found(&found);
	return known;
}

static void lines_are_found(void **state)
{
	const struct source_line inlined[] = {
		{.function = "inner(int)", .system_name = "_Z5inneri", .file = "a.c", .line = 7},
		{.function = "outer", .system_name = "outer", .start_line = 3},
	};
	const struct source_line unknown = {.line = 1};

	(void)state;
	assert_false(is_known(&libc, 0x10));
	add(&libc, 0x10, inlined, 2);
	add(&libc, 0x11, &simple, 1);
	add(&libc, 0x12, &unknown, 1);
	expect(&libc, 0x10, inlined, 2);
	expect(&libc, 0x11, &simple, 1);
	expect(&libc, 0x12, &unknown, 1);
	assert_false(is_known(&libc, 0xf));
	assert_false(is_known(&libc, 0x13));
	/* The first lines stay. */
	add(&libc, 0x11, inlined, 2);
	expect(&libc, 0x11, &simple, 1);
	symbol_cache_clear(cache);
	assert_false(is_known(&libc, 0x10));
	add(&libc, 0x11, inlined, 2);
	expect(&libc, 0x11, inlined, 2);
}

static void missing_symbols_are_known(void **state)
{
	struct found found = {0};
	int err = 1;

	(void)state;
	add(&libc, 1, NULL, SYMBOL_CACHE_NONE);
	add(&libc, 2, &simple, 0);
	assert_true(symbol_cache_find(cache, &libc, 1, take, &found, &err));
	assert_int_equal(err, 0);
	assert_int_equal(found.calls, 0);
	/* An elided frame has no lines, which is something else. */
	expect(&libc, 2, NULL, 0);
}

/* Expects a function at the addresses from `first` to `last`. */
static void expect_function(uint64_t first, uint64_t last, const char *name)
{
	const struct source_line line = {.function = name};

	expect(&libc, first, &line, 1);
	expect(&libc, first + (last - first) / 2, &line, 1);
	expect(&libc, last, &line, 1);
}

static void ranges_are_found(void **state)
{
	const struct source_line exact = {.function = "exact"};

	(void)state;
	add_range(0x1010, 0x1000, 0x1100, "first");
	add_range(0x11ff, 0x1100, 0x1200, "second");
	expect_function(0x1000, 0x10ff, "first");
	expect_function(0x1100, 0x11ff, "second");
	assert_false(is_known(&libc, 0xfff));
	assert_false(is_known(&libc, 0x1200));
	/* What is known stays, and does not hide the rest of a range. */
	add_range(0x1080, 0x1080, 0x1090, "other");
	add_range(0x1300, 0x1180, 0x1400, "third");
	expect_function(0x1000, 0x10ff, "first");
	expect_function(0x1100, 0x11ff, "second");
	expect_function(0x1200, 0x13ff, "third");
	/* At the end of the addresses. */
	add_range(UINT64_MAX - 1, UINT64_MAX - 16, UINT64_MAX, "last");
	expect_function(UINT64_MAX - 16, UINT64_MAX - 1, "last");
	assert_false(is_known(&libc, UINT64_MAX));
	add(&libc, UINT64_MAX, &exact, 1);
	expect(&libc, UINT64_MAX, &exact, 1);
	add_range(0, 0, 1, "zero");
	expect_function(0, 0, "zero");
	assert_false(is_known(&libc, 1));
	/* An address of its own comes first. */
	add(&libc, 0x1020, &exact, 1);
	expect(&libc, 0x1020, &exact, 1);
}

/* A function of several pages is found in all of them, wherever its first sample was. */
static void pages_of_a_range_are_kept(void **state)
{
	static const uint64_t addresses[] = {0x1f80, 0x2fff, 0x3123, 0x400f};

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		assert_true(symbol_cache_clear(cache));
		add_range(addresses[i], 0x1f80, 0x4010, "large");
		expect_function(0x1f80, 0x1fff, "large");
		expect_function(0x2000, 0x3fff, "large");
		expect_function(0x4000, 0x400f, "large");
		assert_false(is_known(&libc, 0x1f7f));
		assert_false(is_known(&libc, 0x4010));
	}
}

/* A range of many blocks needs few entries, and no more than a limit. */
static void blocks_of_a_range_are_kept(void **state)
{
	static const uint64_t addresses[] = {0x1f80, 0x12345, 0x80000, 0x12400f};

	(void)state;
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		assert_true(symbol_cache_clear(cache));
		add_range(addresses[i], 0x1f80, 0x124010, "large");
		expect_function(0x30000, 0x11ffff, "large");
		assert_false(is_known(&libc, 0x1f7f));
		assert_false(is_known(&libc, 0x124010));
		expect_function(addresses[i], addresses[i], "large");
	}
	assert_true(symbol_cache_clear(cache));
	add_range(UINT64_C(1) << 40, 0x1000, UINT64_MAX, "huge");
	expect_function(UINT64_C(1) << 40, (UINT64_C(1) << 40) + 32 * 0x10000, "huge");
	assert_false(is_known(&libc, (UINT64_C(1) << 40) + 33 * 0x10000));
	assert_true(is_known(&libc, (UINT64_C(1) << 40) - 32 * 0x10000));
	assert_false(is_known(&libc, (UINT64_C(1) << 40) - 33 * 0x10000));
}

/* A page with many ranges does not make the cache slow. */
static void crowded_pages_have_addresses(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 40; i++)
		add_range(0x1000 + 16 * i, 0x1000 + 16 * i, 0x1010 + 16 * i, "f");
	for (uint64_t i = 0; i < 40; i++) {
		assert_true(is_known(&libc, 0x1000 + 16 * i));
		assert_int_equal(is_known(&libc, 0x1001 + 16 * i), i < 32);
	}
	add_range(0x2000, 0x2000, 0x2010, "f");
	expect_function(0x2000, 0x200f, "f");
}

static void whole_file_is_one_range(void **state)
{
	const struct address_range all = {0, UINT64_MAX};
	struct symbol_file other = libc;

	(void)state;
	symbol_cache_add(cache, &libc, 5, &all, NULL, SYMBOL_CACHE_NONE);
	assert_true(is_known(&libc, 0));
	assert_true(is_known(&libc, 5));
	assert_true(is_known(&libc, UINT64_MAX - 1));
	assert_false(is_known(&libc, UINT64_MAX));
	other.inode++;
	assert_false(is_known(&other, 5));
}

/* Ranges fill it like addresses: what does not fit goes with all else. */
static void ranges_fill_it(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < ENTRIES; i++)
		add_range(i << 20, i << 20, (i << 20) + 0x10000, "large");
	for (uint64_t i = 0; i < ENTRIES; i++)
		expect_function(i << 20, (i << 20) + 0xfff, "large");
	add_range(ENTRIES << 20, ENTRIES << 20, (ENTRIES << 20) + 16, "one more");
	expect_function(ENTRIES << 20, (ENTRIES << 20) + 15, "one more");
	assert_false(is_known(&libc, 0));
}

/* One file of large functions, of which a few were sampled, does not end what others have. */
static void pages_without_samples_leave_room(void **state)
{
	(void)state;
	add_range(0x1000, 0x1000, 0x1010, "first");
	for (uint64_t i = 1; i < ENTRIES / 2; i++)
		add_range(i << 30, i << 30, (i + 1) << 30, "large");
	for (uint64_t i = 1; i < ENTRIES / 2; i++)
		expect_function(i << 30, (i << 30) + 0xfff, "large");
	expect_function(0x1000, 0x100f, "first");
}

static void each_file_has_its_own(void **state)
{
	struct symbol_file others[] = {libc, libc, libc, libc, libc, libc, libc, libc};
	char path[PATH_MAX + 465];

	(void)state;
	others[0].device++;
	others[1].inode++;
	others[2].size++;
	others[3].generation++;
	others[4].build_id = "c0ffe";
	others[5].build_id = "";
	others[6].owner++;
	others[7].path = "/tmp/libc.so.6";
	add(&libc, 1, &simple, 1);
	for (size_t i = 0; i < 8; i++) {
		const struct source_line line = {.function = "g", .line = (uint32_t)i};

		assert_false(is_known(&others[i], 1));
		add(&others[i], 1, &line, 1);
		expect(&others[i], 1, &line, 1);
	}
	expect(&libc, 1, &simple, 1);
	/* Five numbers, "c0ffee" and the path: one byte less than the limit, and the limit. */
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	others[0] = libc;
	others[0].path = path + 1;
	add(&others[0], 1, &simple, 1);
	expect(&others[0], 1, &simple, 1);
	others[0].path = path;
	add(&others[0], 1, &simple, 1);
	assert_false(is_known(&others[0], 1));
}

static void inlined_functions_are_bounded(void **state)
{
	struct source_line lines[INLINE_DEPTH_MAX + 1];

	(void)state;
	for (size_t i = 0; i <= INLINE_DEPTH_MAX; i++)
		lines[i] = simple;
	add(&libc, 1, lines, INLINE_DEPTH_MAX);
	add(&libc, 2, lines, INLINE_DEPTH_MAX + 1);
	expect(&libc, 1, lines, INLINE_DEPTH_MAX);
	assert_false(is_known(&libc, 2));
}

static void errors_are_those_of_the_caller(void **state)
{
	struct found found = {.err = -ENOMEM};
	int err = 0;

	(void)state;
	add(&libc, 1, &simple, 0);
	assert_true(symbol_cache_find(cache, &libc, 1, take, &found, &err));
	assert_int_equal(err, -ENOMEM);
}

/* All go at once. */
static void full_cache_begins_again(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < ENTRIES; i++)
		add(&libc, i, &simple, 1);
	for (uint64_t i = 0; i < ENTRIES; i++)
		expect(&libc, i, &simple, 1);
	add(&libc, ENTRIES, &simple, 1);
	expect(&libc, ENTRIES, &simple, 1);
	for (uint64_t i = 0; i < ENTRIES; i++)
		assert_false(is_known(&libc, i));
}

static void strings_fill_it(void **state)
{
	char name[1001];
	const struct source_line line = {.function = name};
	uint64_t lost = 0;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (uint64_t i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "%03u", (unsigned int)i);
		name[3] = 'n';
		add(&libc, i, &line, 1);
		expect(&libc, i, &line, 1);
		lost += i && !is_known(&libc, 0);
	}
	/* 64 KiB hold 60 of them. */
	assert_in_range(lost, 130, 150);
}

static void many_strings_fill_it(void **state)
{
	char names[3][16];
	const struct source_line line = {names[0], names[1], names[2], 0, 0, 0};

	(void)state;
	for (uint64_t i = 0; i < 2 * ENTRIES; i++) {
		for (size_t j = 0; j < 3; j++)
			snprintf(names[j], sizeof(names[j]), "%u.%zu", (unsigned int)i, j);
		add(&libc, i, &line, 1);
		expect(&libc, i, &line, 1);
	}
}

static void what_never_fits_is_left_out(void **state)
{
	char *name = malloc(SIZE + 1);
	const struct source_line line = {.function = name};

	(void)state;
	assert_non_null(name);
	memset(name, 'n', SIZE);
	name[SIZE] = '\0';
	add(&libc, 1, &simple, 1);
	add(&libc, 2, &line, 1);
	assert_false(is_known(&libc, 2));
	add(&libc, 1, &simple, 1);
	expect(&libc, 1, &simple, 1);
	free(name);
}

static void await_exit(pid_t pid, int status)
{
	int got;

	assert_int_equal(waitpid(pid, &got, 0), pid);
	assert_int_equal(got, status);
}

static void forked_processes_share_it(void **state)
{
	const struct source_line line = {.function = "of the child"};
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		add(&libc, 1, &line, 1);
		_exit(0);
	}
	await_exit(pid, 0);
	expect(&libc, 1, &line, 1);
}

static int die(void *arg, const struct source_line *lines, size_t count)
{
	(void)arg, (void)lines, (void)count;
	return raise(SIGKILL);
}

static void killed_process_costs_the_contents(void **state)
{
	int err;
	pid_t pid;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		add(&libc, 1, &simple, 1);
		pid = fork();
		if (!pid)
			_exit(symbol_cache_find(cache, &libc, 1, die, NULL, &err));
		await_exit(pid, SIGKILL);
		assert_false(is_known(&libc, 1));
	}
	add(&libc, 1, &simple, 1);
	expect(&libc, 1, &simple, 1);
}

static int gate[2];

static int stay(void *arg, const struct source_line *lines, size_t count)
{
	(void)arg, (void)lines, (void)count;
	if (write(gate[1], "", 1) == 1)
		pause();
	return 0;
}

static void stopped_process_is_not_waited_for(void **state)
{
	char byte;
	pid_t pid;
	int err;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	add(&libc, 1, &simple, 1);
	pid = fork();
	if (!pid)
		_exit(symbol_cache_find(cache, &libc, 1, stay, NULL, &err));
	assert_int_equal(read(gate[0], &byte, 1), 1);
	assert_false(is_known(&libc, 1));
	add(&libc, 2, &simple, 1);
	assert_false(symbol_cache_clear(cache));
	assert_int_equal(kill(pid, SIGKILL), 0);
	await_exit(pid, SIGKILL);
	assert_false(is_known(&libc, 2));
	add(&libc, 2, &simple, 1);
	expect(&libc, 2, &simple, 1);
	assert_true(symbol_cache_clear(cache));
	assert_false(is_known(&libc, 2));
	close(gate[0]);
	close(gate[1]);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lines_are_found),
		TEST(missing_symbols_are_known),
		TEST(ranges_are_found),
		TEST(pages_of_a_range_are_kept),
		TEST(blocks_of_a_range_are_kept),
		TEST(crowded_pages_have_addresses),
		TEST(whole_file_is_one_range),
		TEST(ranges_fill_it),
		TEST(pages_without_samples_leave_room),
		TEST(each_file_has_its_own),
		TEST(inlined_functions_are_bounded),
		TEST(errors_are_those_of_the_caller),
		TEST(full_cache_begins_again),
		TEST(strings_fill_it),
		TEST(many_strings_fill_it),
		TEST(what_never_fits_is_left_out),
		TEST(forked_processes_share_it),
		TEST(killed_process_costs_the_contents),
		TEST(stopped_process_is_not_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

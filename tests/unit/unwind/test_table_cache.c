// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include "unwind/table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox.h"
#include "unwind/cfi.h"
#include "unwind/compile.h"
#include "unwind/table_builder.h"

#define LIMIT (UINT64_C(1) << 20)
#define COMPILER "0123456789abcdef0123"

static struct file_cache *open_as(const char *compiler, uint64_t limit)
{
	const struct file_cache_config config = {
		.directory = in_sandbox("cache"),
		.bytes_max = limit,
		.maker = compiler,
	};
	struct error error = {""};
	struct file_cache *cache = file_cache_open(&config, &error);

	if (!cache)
		fail_msg("%s", error.text);
	return cache;
}

static struct file_cache *open_usual(void)
{
	return open_as(COMPILER, LIMIT);
}

static struct file_key key_of(uint64_t inode)
{
	struct file_key key;

	memset(&key, 0, sizeof(key));
	key.device = 0x801;
	key.inode = inode;
	key.size = 1000;
	key.generation = 7;
	key.changed_s = 1700000000;
	key.changed_ns = 12345;
	strcpy(key.build_id, "c0ffee");
	return key;
}

/* A table with a number of rows, each with another rule than the one before. */
static struct unwind_summary make_table(unsigned int rows, struct stackbeat_unwind_table **table)
{
	struct table_builder *builder = table_builder_new();
	struct table_counts counts;
	struct unwind_summary summary = {.result = UNWIND_COMPILED, .functions = 3};

	assert_non_null(builder);
	for (unsigned int i = 0; i < rows; i++) {
		const struct cfi_row row = {
			.kind = CFI_CALLER,
			.base = CFI_RSP,
			.offset = 8 + 8 * (i % 100),
			.return_address = {.place = CFI_AT_CFA, .offset = -8},
		};

		assert_int_equal(table_builder_add(builder, 0x1000 + 4 * i, 0x1004 + 4 * i, &row),
				 0);
	}
	assert_int_equal(table_builder_finish(builder, 0, table, &counts), 0);
	table_builder_free(builder);
	summary.size = (*table)->size;
	summary.rows = counts.rows;
	return summary;
}

static void store(struct file_cache *cache, const struct file_key *key, unsigned int rows)
{
	struct stackbeat_unwind_table *table;
	const struct unwind_summary summary = make_table(rows, &table);

	assert_int_equal(table_cache_store(cache, key, &summary, table), 0);
	free(table);
}

/* Whether the table with this number of rows is found; nothing, or that one. */
static bool has(struct file_cache *cache, const struct file_key *key, unsigned int rows)
{
	struct stackbeat_unwind_table *expected, *table;
	const struct unwind_summary made = make_table(rows, &expected);
	struct unwind_summary summary;
	int err = table_cache_find(cache, key, &summary, &table);

	if (!err) {
		assert_memory_equal(&summary, &made, sizeof(summary));
		assert_memory_equal(table, expected, summary.size);
	} else {
		assert_int_equal(err, -ENOENT);
		assert_null(table);
		assert_int_equal(summary.size, 0);
	}
	free(table);
	free(expected);
	return !err;
}

/* Returns the number of entries, and the path of the last one in `path`. */
static unsigned int list_files(char path[PATH_MAX])
{
	char directory[PATH_MAX];
	unsigned int count = 0;
	struct dirent *item;
	DIR *files;

	snprintf(directory, PATH_MAX, "%s", in_sandbox("cache"));
	files = opendir(directory);
	assert_non_null(files);
	while ((item = readdir(files))) {
		if (*item->d_name == '.' || !strcmp(item->d_name, "unchecked"))
			continue;
		assert_in_range(snprintf(path, PATH_MAX, "%s/%s", directory, item->d_name), 1,
				PATH_MAX - 1);
		count++;
	}
	closedir(files);
	return count;
}

static void tables_are_found_later(void **state)
{
	struct file_cache *cache = open_usual();
	const struct file_key key = key_of(1), other = key_of(2);
	struct stat st;
	char path[PATH_MAX];

	(void)state;
	assert_false(has(cache, &key, 50));
	store(cache, &key, 50);
	store(cache, &other, 70);
	assert_true(has(cache, &key, 50));
	assert_true(has(cache, &other, 70));
	file_cache_close(cache);
	cache = open_usual();
	assert_true(has(cache, &key, 50));
	assert_true(has(cache, &other, 70));
	file_cache_close(cache);
	assert_int_equal(list_files(path), 2);
	assert_int_equal(stat(in_sandbox("cache"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	file_cache_close(NULL);
}

/* What depends on the file alone: that it has no table, but not that memory was short. */
static void files_without_a_table_are_known(void **state)
{
	static const struct {
		enum unwind_result result;
		bool is_kept;
	} results[] = {
		{UNWIND_NO_INFORMATION, true}, {UNWIND_OTHER_MACHINE, true},
		{UNWIND_TOO_LARGE, true},      {UNWIND_BROKEN_FILE, false},
		{UNWIND_NO_MEMORY, false},
	};
	struct file_cache *cache = open_usual();
	struct stackbeat_unwind_table *table;
	struct unwind_summary found;

	(void)state;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		const struct unwind_summary summary = {.result = results[i].result};
		const struct file_key key = key_of(i);

		assert_int_equal(table_cache_store(cache, &key, &summary, NULL), 0);
		assert_int_equal(table_cache_find(cache, &key, &found, &table),
				 results[i].is_kept ? 0 : -ENOENT);
		assert_null(table);
		if (results[i].is_kept)
			assert_int_equal(found.result, results[i].result);
	}
	file_cache_close(cache);
}

/* Any other identity is another file: a build ID, which a file can claim, does not choose a table.
 */
static void identity_decides(void **state)
{
	struct file_cache *cache = open_usual();
	const struct file_key key = key_of(1);
	struct file_key others[9];

	(void)state;
	for (size_t i = 0; i < 9; i++)
		others[i] = key;
	others[0].device++;
	others[1].inode++;
	others[2].size++;
	others[3].generation++;
	others[4].changed_s++;
	others[5].changed_ns++;
	others[6].owner++;
	others[7].boot[0] = 'a';
	others[8].build_id[0] = 'd';
	store(cache, &key, 50);
	for (size_t i = 0; i < 9; i++)
		assert_false(has(cache, &others[i], 50));
	/* A file that was changed has the same place. */
	store(cache, &others[4], 60);
	assert_true(has(cache, &others[4], 60));
	assert_false(has(cache, &key, 50));
	file_cache_close(cache);
}

/* Of two builds of the command, each has its own. */
static void another_compiler_finds_nothing(void **state)
{
	struct file_cache *one = open_usual(), *other = open_as("fedcba98765432100123", LIMIT),
			  *similar = open_as("0123456789abcdef0124", LIMIT);
	const struct file_key key = key_of(1);

	(void)state;
	store(one, &key, 50);
	assert_false(has(other, &key, 50));
	assert_false(has(similar, &key, 50));
	store(other, &key, 60);
	assert_true(has(one, &key, 50));
	assert_true(has(other, &key, 60));
	file_cache_close(one);
	file_cache_close(other);
	file_cache_close(similar);
	/* This program has a build ID. */
	one = open_as(NULL, LIMIT);
	assert_false(has(one, &key, 50));
	store(one, &key, 70);
	assert_true(has(one, &key, 70));
	file_cache_close(one);
}

/* Each bit of a file counts, and its length. What is damaged is replaced. */
static void damage_is_noticed(void **state)
{
	struct file_cache *cache = open_usual();
	const struct file_key key = key_of(1);
	char path[PATH_MAX], *bytes;
	off_t size;
	size_t read;

	(void)state;
	store(cache, &key, 20);
	assert_int_equal(list_files(path), 1);
	bytes = (char *)read_bytes(path, &read);
	bytes[read] = '\0';
	size = (off_t)read;
	for (off_t i = 0; i < size; i++) {
		bytes[i] ^= (char)(1 << i % 8);
		write_file(path, bytes, (size_t)size);
		assert_false(has(cache, &key, 20));
		bytes[i] ^= (char)(1 << i % 8);
	}
	for (off_t part = 0; part < size; part++) {
		write_file(path, bytes, (size_t)part);
		assert_false(has(cache, &key, 20));
	}
	write_file(path, bytes, (size_t)size + 1);
	assert_false(has(cache, &key, 20));
	/* After a crash, blocks that were not written are zero. */
	memset(bytes + size / 2, 0, (size_t)(size - size / 2));
	write_file(path, bytes, (size_t)size);
	assert_false(has(cache, &key, 20));
	store(cache, &key, 20);
	assert_true(has(cache, &key, 20));
	free(bytes);
	file_cache_close(cache);
}

static void set_used(const struct file_key *key, time_t seconds)
{
	const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
	char path[PATH_MAX];

	snprintf(path, PATH_MAX, "%s/%lu-801-%lx-0123456789abcdef", in_sandbox("cache"), key->owner,
		 key->inode);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void least_recently_used_goes_first(void **state)
{
	const time_t now = time(NULL);
	struct file_cache *cache = open_as(COMPILER, 1 << 30);
	struct file_key keys[40];

	(void)state;
	/* 32 KiB each: there is room for 32, and for 28 after a removal. */
	for (unsigned int i = 0; i < 40; i++) {
		keys[i] = key_of(i);
		store(cache, &keys[i], 10000);
		set_used(&keys[i], now - 100000 + 1000 * i);
	}
	/* The first one is used again. */
	assert_true(has(cache, &keys[0], 10000));
	file_cache_close(cache);
	cache = open_as(COMPILER, LIMIT);
	store(cache, &keys[39], 10000);
	file_cache_close(cache);
	cache = open_as(COMPILER, LIMIT);
	assert_true(has(cache, &keys[0], 10000));
	for (unsigned int i = 1; i < 13; i++)
		assert_false(has(cache, &keys[i], 10000));
	for (unsigned int i = 13; i < 40; i++)
		assert_true(has(cache, &keys[i], 10000));
	file_cache_close(cache);
}

/* Whatever users map, half is left for the files of root. */
static void users_leave_room(void **state)
{
	struct file_cache *cache = open_as(COMPILER, LIMIT);
	struct file_key keys[10], users;

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		keys[i] = key_of(i);
		store(cache, &keys[i], 10000);
		set_used(&keys[i], 1700000000);
	}
	for (unsigned int i = 0; i < 60; i++) {
		users = key_of(100 + i);
		users.owner = 1000 + i % 5;
		store(cache, &users, 10000);
	}
	assert_true(has(cache, &users, 10000));
	for (unsigned int i = 0; i < 10; i++)
		assert_true(has(cache, &keys[i], 10000));
	file_cache_close(cache);
}

static uint64_t bytes_in_use(void)
{
	char directory[PATH_MAX], path[2 * PATH_MAX];
	uint64_t bytes = 0;
	struct dirent *item;
	struct stat st;
	DIR *files;

	snprintf(directory, PATH_MAX, "%s", in_sandbox("cache"));
	files = opendir(directory);
	assert_non_null(files);
	while ((item = readdir(files))) {
		snprintf(path, sizeof(path), "%s/%s", directory, item->d_name);
		if (!lstat(path, &st) && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	}
	closedir(files);
	return bytes;
}

/* The limit holds at any time, but for what one process has not checked. */
static void size_is_bounded(void **state)
{
	struct file_cache *cache = open_as(COMPILER, LIMIT);

	(void)state;
	for (unsigned int i = 0; i < 200; i++) {
		const struct file_key key = key_of(i);

		store(cache, &key, 1000 + 50 * i);
		assert_true(has(cache, &key, 1000 + 50 * i));
		assert_in_range(bytes_in_use(), 1, LIMIT + LIMIT / 256 + 50000);
	}
	file_cache_close(cache);
}

/* What writers have left that were killed; files of others are left alone. */
static void old_temporary_files_are_removed(void **state)
{
	const struct timespec old[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
	struct file_cache *cache = open_usual();
	const struct file_key key = key_of(1);

	(void)state;
	write_text(in_sandbox("cache/new-0123456789abcdef"), "old");
	assert_int_equal(chmod(in_sandbox("cache/new-0123456789abcdef"), 0600), 0);
	assert_int_equal(utimensat(AT_FDCWD, in_sandbox("cache/new-0123456789abcdef"), old, 0), 0);
	write_text(in_sandbox("cache/new-1123456789abcdef"), "new");
	write_text(in_sandbox("cache/notes"), "text");
	store(cache, &key, 50);
	file_cache_close(cache);
	assert_int_equal(access(in_sandbox("cache/new-0123456789abcdef"), F_OK), -1);
	assert_int_equal(access(in_sandbox("cache/new-1123456789abcdef"), F_OK), 0);
	assert_int_equal(access(in_sandbox("cache/notes"), F_OK), 0);
}

/* A directory may have files whose names resemble ours, of any age and size. */
static void files_of_others_are_left_alone(void **state)
{
	static const char *const names[] = {
		"new-contract.pdf",
		"new-0123456789abcdeg",
		"new-0123456789abcdef0",
		"2024-01-02-holiday.mp4",
		"1-todo.txt",
		"0-1-2-0123456789abcdeX",
		"0-1-2-0123456789abcdef.c",
		"0-1--0123456789abcdef",
		"0-1-2-",
		"1-2-3",
		"0-801-2-0123456789abcdef0",
		"0-0-0-0123456789abcdef-kernels",
		"0-801-2-0123456789abcdef-",
	};
	const struct timespec old[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
	struct file_cache *cache = open_usual();
	const char *path;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		path = in_sandbox("cache/%s", names[i]);
		write_text(path, "text");
		assert_int_equal(truncate(path, 4 * LIMIT), 0);
		assert_int_equal(chmod(path, 0600), 0);
		assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	}
	/* Files with our names that are not as we make them. */
	path = in_sandbox("cache/0-1-2-0123456789abcdef");
	write_text(path, "text");
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(mkdir(in_sandbox("cache/0-1-3-0123456789abcdef"), 0600), 0);
	for (unsigned int i = 0; i < 40; i++)
		store(cache, &(struct file_key){.device = 7, .inode = 100 + i}, 2000);
	file_cache_close(cache);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(access(in_sandbox("cache/%s", names[i]), F_OK), 0);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(access(in_sandbox("cache/0-1-3-0123456789abcdef"), F_OK), 0);
}

/* Several recordings store the same tables, with a limit that removes them all the time. */
static void processes_share_a_cache(void **state)
{
	pid_t pids[3];
	int status;

	(void)state;
	for (unsigned int process = 0; process < 3; process++) {
		pids[process] = fork();
		assert_true(pids[process] >= 0);
		if (pids[process])
			continue;
		struct file_cache *cache = open_as(COMPILER, LIMIT / 4);

		for (unsigned int i = 0; i < 200; i++) {
			const struct file_key key = key_of(i * (process + 1) % 30);
			const unsigned int rows = 2000 + 10 * (unsigned int)key.inode;

			/* Any result that is wrong ends this process. */
			if (!has(cache, &key, rows))
				store(cache, &key, rows);
		}
		file_cache_close(cache);
		_exit(0);
	}
	for (unsigned int process = 0; process < 3; process++) {
		assert_int_equal(waitpid(pids[process], &status, 0), pids[process]);
		assert_int_equal(status, 0);
	}
}

static void directories_of_others_are_refused(void **state)
{
	const struct file_cache_config config = {.directory = in_sandbox("cache"),
						 .bytes_max = LIMIT,
						 .maker = COMPILER},
				       missing = {.directory = "/proc/cache",
						  .bytes_max = LIMIT,
						  .maker = COMPILER};
	struct error error;

	(void)state;
	assert_int_equal(mkdir(in_sandbox("cache"), 0700), 0);
	assert_int_equal(chmod(in_sandbox("cache"), 0770), 0);
	assert_null(file_cache_open(&config, &error));
	assert_non_null(strstr(error.text, "another user can write to it"));
	assert_int_equal(chmod(in_sandbox("cache"), 0755), 0);
	file_cache_close(file_cache_open(&config, &error));
	assert_int_equal(rename(in_sandbox("cache"), in_sandbox("real")), 0);
	assert_int_equal(symlink("real", in_sandbox("cache")), 0);
	assert_null(file_cache_open(&config, &error));
	assert_null(file_cache_open(&missing, &error));
}

/* A link or a pipe in the place of a file is neither read nor written. */
static void only_regular_files_are_read(void **state)
{
	struct file_cache *cache = open_usual();
	const struct file_key key = key_of(1);
	char path[PATH_MAX];

	(void)state;
	store(cache, &key, 50);
	assert_int_equal(list_files(path), 1);
	assert_int_equal(rename(path, in_sandbox("moved")), 0);
	assert_int_equal(symlink(in_sandbox("moved"), path), 0);
	assert_false(has(cache, &key, 50));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(has(cache, &key, 50));
	store(cache, &key, 50);
	assert_true(has(cache, &key, 50));
	file_cache_close(cache);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(tables_are_found_later),
		TEST(files_without_a_table_are_known),
		TEST(identity_decides),
		TEST(another_compiler_finds_nothing),
		TEST(damage_is_noticed),
		TEST(least_recently_used_goes_first),
		TEST(users_leave_room),
		TEST(size_is_bounded),
		TEST(old_temporary_files_are_removed),
		TEST(files_of_others_are_left_alone),
		TEST(processes_share_a_cache),
		TEST(directories_of_others_are_refused),
		TEST(only_regular_files_are_read),
	};

	return cmocka_run_group_tests_name("table_cache", tests, NULL, NULL);
}

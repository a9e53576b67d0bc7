// SPDX-License-Identifier: GPL-2.0
/* Entries of several files; tests/unit/unwind/test_table_cache.c has entries of one file. */
#include "debuginfo/file_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/major.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/regular_file.h"
#include "sandbox.h"
#include "standing_clock.h"

/* Of all files, if it is set. */
static dev_t device_of_files;

int fstat(int fd, struct stat *st)
{
	const int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (!result && device_of_files)
		st->st_dev = device_of_files;
	return result;
}

static struct file_cache *open_cache(uint64_t limit)
{
	const struct file_cache_config config = {
		.directory = in_sandbox("cache"),
		.bytes_max = limit,
		.maker = "0123456789abcdef0123",
	};
	struct error error = {""};
	struct file_cache *cache = file_cache_open(&config, &error);

	assert_non_null(cache);
	return cache;
}

static void set_file(struct file_key *key, uint64_t inode, uint64_t owner)
{
	memset(key, 0, sizeof(*key));
	key->device = 0x801;
	key->inode = inode;
	key->changed_s = 1700000000;
	key->owner = owner;
}

static void store(struct file_cache *cache, const struct cache_key *key, const char text[8])
{
	const struct iovec part = {(void *)text, 8};

	assert_int_equal(file_cache_store(cache, key, &part, 1), 0);
}

/* Whether this text is found; nothing else may be. */
static bool has(struct file_cache *cache, const struct cache_key *key, const char text[8])
{
	char head[8];
	size_t size;
	void *rest;

	if (file_cache_read(cache, key, head, sizeof(head), &rest, &size))
		return false;
	assert_memory_equal(head, text, 8);
	assert_null(rest);
	assert_int_equal(size, 0);
	return true;
}

/* All files count, and their order: another file that the maker had may have decided the entry. */
static void all_files_decide(void **state)
{
	struct file_cache *cache = open_cache(1 << 20);
	struct file_key files[5];
	const struct cache_key all = {CACHE_FILE_SYMBOLS, files, 3},
			       less = {CACHE_FILE_SYMBOLS, files, 2},
			       more = {CACHE_FILE_SYMBOLS, files, 4},
			       other_kind = {CACHE_UNWIND_TABLE, files, 3};
	struct file_key kept;

	(void)state;
	for (unsigned int i = 0; i < 5; i++)
		set_file(&files[i], i + 1, 0);
	store(cache, &all, "of three");
	assert_true(has(cache, &all, "of three"));
	assert_false(has(cache, &less, "of three"));
	assert_false(has(cache, &more, "of three"));
	assert_false(has(cache, &other_kind, "of three"));
	store(cache, &other_kind, "a table!");
	assert_true(has(cache, &all, "of three"));
	for (unsigned int i = 0; i < 3; i++) {
		kept = files[i];
		files[i].changed_ns++;
		assert_false(has(cache, &all, "of three"));
		files[i] = kept;
	}
	kept = files[1];
	files[1] = files[2];
	files[2] = kept;
	assert_false(has(cache, &all, "of three"));
	/* Entries with the same first file replace each other. */
	store(cache, &all, "swapped!");
	assert_true(has(cache, &all, "swapped!"));
	files[2] = files[1];
	files[1] = kept;
	assert_false(has(cache, &all, "of three"));
	file_cache_close(cache);
}

/* An entry of this size takes ENTRY_ON_DISK bytes with its header. */
#define ENTRY_SIZE (32u << 10)
#define ENTRY_ON_DISK (36u << 10)

typedef int store_function(struct file_cache *cache, const struct cache_key *key,
			   const struct iovec parts[], size_t count);

static void store_large_by(store_function *function, struct file_cache *cache, uint64_t inode)
{
	static const char bytes[ENTRY_SIZE];
	const struct iovec part = {(void *)bytes, sizeof(bytes)};
	struct file_key file;

	set_file(&file, inode, 0);
	assert_int_equal(
		function(cache, &(struct cache_key){CACHE_FILE_SYMBOLS, &file, 1}, &part, 1), 0);
}

static void store_large(struct file_cache *cache, uint64_t inode)
{
	store_large_by(file_cache_store, cache, inode);
}

/* Returns what the entries of store_large() take on the disk. */
static unsigned int bytes_of_large(struct file_cache *cache, uint64_t count)
{
	unsigned int bytes = 0;

	for (uint64_t inode = 0; inode < count; inode++) {
		struct file_key file;
		int fd;

		set_file(&file, inode, 0);
		fd = file_cache_open_entry(cache,
					   &(struct cache_key){CACHE_FILE_SYMBOLS, &file, 1});
		if (fd < 0)
			continue;
		close(fd);
		bytes += ENTRY_ON_DISK;
	}
	return bytes;
}

/* Each process counts what it stores itself, and there may be many. */
static void many_processes_keep_the_limit(void **state)
{
	struct file_cache *caches[16];

	(void)state;
	for (unsigned int i = 0; i < 16; i++)
		caches[i] = open_cache(1 << 20);
	for (unsigned int i = 0; i < 32; i++)
		store_large(caches[i % 16], i);
	assert_in_range(bytes_of_large(caches[0], 32), 1 << 19, 1 << 20);
	for (unsigned int i = 0; i < 16; i++)
		file_cache_close(caches[i]);
}

/* A reader of samples must not wait for a look at all files. */
static void stores_without_a_look_are_bounded(void **state)
{
	struct file_cache *cache = open_cache(1 << 20), *other = open_cache(1 << 20);
	const unsigned int full = (1 << 20) / ENTRY_ON_DISK;

	(void)state;
	for (unsigned int i = 0; i < full; i++)
		store_large(other, i);
	/* Less than an eighth: nothing is removed until the end. */
	for (unsigned int i = 0; i < 3; i++)
		store_large_by(file_cache_store_only, cache, full + i);
	assert_int_equal(bytes_of_large(cache, full + 3), (full + 3) * ENTRY_ON_DISK);
	file_cache_close(cache);
	assert_in_range(bytes_of_large(other, full + 3), 1 << 19, 1 << 20);
	/* A process that does not end. */
	cache = open_cache(1 << 20);
	for (unsigned int i = 0; i < 4 * full; i++) {
		store_large_by(file_cache_store_only, cache, i);
		assert_in_range(bytes_of_large(other, 4 * full), 0, 9 << 17);
	}
	file_cache_close(cache);
	/* After a look, none is left to others. */
	cache = open_cache(1 << 16);
	file_cache_close(cache);
	assert_in_range(bytes_of_large(other, 4 * full), 1 << 19, 1 << 20);
	file_cache_close(other);
}

/* Stores entries in a process that ends without a look. */
static void store_in_child(struct file_cache *cache, unsigned int first, unsigned int count)
{
	pid_t child = fork();
	int status;

	if (!child) {
		for (unsigned int i = 0; i < count; i++)
			store_large_by(file_cache_store_only, cache, first + i);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void looks_that_were_left_follow(void **state)
{
	struct file_cache *cache = open_cache(1 << 20), *other = open_cache(1 << 20);
	const unsigned int full = (1 << 20) / ENTRY_ON_DISK;

	(void)state;
	for (unsigned int i = 0; i < full; i++)
		store_large(cache, i);
	/* By the parent, as for the sampler of top. */
	store_in_child(cache, full, 3);
	assert_int_equal(bytes_of_large(other, full + 3), (full + 3) * ENTRY_ON_DISK);
	file_cache_close(cache);
	assert_in_range(bytes_of_large(other, full + 3), 1 << 19, 1 << 20);
	/* By the next recording, after a kill. */
	for (unsigned int i = 0; i < full; i++)
		store_large(other, i);
	store_in_child(other, full, 3);
	assert_in_range(bytes_of_large(other, full + 3), (1 << 20) + 1, 9 << 17);
	cache = open_cache(1 << 20);
	assert_in_range(bytes_of_large(other, full + 3), 1 << 19, 1 << 20);
	file_cache_close(cache);
	file_cache_close(other);
}

/* Entries that are being written, or were left by a crash less than an hour ago, take their place.
 */
static void unfinished_entries_count_for_the_limit(void **state)
{
	const char *unfinished = in_sandbox("cache/new-0123456789abcdef");
	struct file_cache *cache = open_cache(1 << 20);
	const size_t size = 3 << 18;

	(void)state;
	write_text(unfinished, "");
	assert_int_equal(chmod(unfinished, 0600), 0);
	assert_int_equal(truncate(unfinished, (off_t)size), 0);
	for (unsigned int i = 0; i < 20; i++)
		store_large(cache, i);
	assert_int_equal(access(unfinished, F_OK), 0);
	assert_in_range(bytes_of_large(cache, 20), ENTRY_ON_DISK, (1 << 20) - size);
	file_cache_close(cache);
}

/* The half of root is for entries of which root owns all files. */
static void any_owner_counts_for_the_limit(void **state)
{
	static const char bytes[32 << 10];
	const struct iovec part = {(void *)bytes, sizeof(bytes)};
	struct file_cache *cache = open_cache(1 << 20);
	struct file_key files[2];
	const struct cache_key key = {CACHE_FILE_SYMBOLS, files, 2};
	unsigned int found = 0;

	(void)state;
	for (unsigned int i = 0; i < 40; i++) {
		set_file(&files[0], i, 0);
		set_file(&files[1], 100, 1000);
		assert_int_equal(file_cache_store(cache, &key, &part, 1), 0);
	}
	for (unsigned int i = 0; i < 40; i++) {
		set_file(&files[0], i, 0);
		int fd = file_cache_open_entry(cache, &key);

		found += fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	assert_in_range(found, 10, 17);
	file_cache_close(cache);
}

static void mapped_entries_are_checked(void **state)
{
	struct file_cache *cache = open_cache(1 << 20);
	struct file_key file;
	const struct cache_key key = {CACHE_FILE_SYMBOLS, &file, 1};
	size_t size, found_size;
	struct stat st;
	char *copy;
	int fd;

	(void)state;
	set_file(&file, 1, 0);
	assert_int_equal(file_cache_open_entry(cache, &key), -ENOENT);
	store(cache, &key, "contents");
	fd = file_cache_open_entry(cache, &key);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	size = (size_t)st.st_size;
	copy = malloc(size);
	assert_non_null(copy);
	assert_int_equal(pread(fd, copy, size, 0), size);
	close(fd);
	assert_memory_equal(file_cache_check(copy, size, &found_size), "contents", 8);
	assert_int_equal(found_size, 8);
	for (size_t i = 0; i < size * 8; i++) {
		copy[i / 8] ^= (char)(1 << i % 8);
		assert_null(file_cache_check(copy, size, &found_size));
		copy[i / 8] ^= (char)(1 << i % 8);
	}
	for (size_t part = 0; part < size; part++)
		assert_null(file_cache_check(copy, part, &found_size));
	free(copy);
	file_cache_close(cache);
}

/* A file of this machine has a key, unless its file system could be a user's. */
static void keys_of_files(void **state)
{
	struct file_owner owner;
	struct file_key key, again;
	struct stat st;
	int fd = open("/bin/sh", O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	file_owner_read(&owner, fd);
	if (owner.uid == FILE_UID_ANY)
		skip();
	assert_true(file_key_of(fd, &key));
	assert_true(file_key_of(fd, &again));
	assert_memory_equal(&key, &again, sizeof(key));
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(key.inode, st.st_ino);
	assert_int_equal(key.size, st.st_size);
	assert_int_equal(key.changed_s, st.st_ctim.tv_sec);
	assert_int_equal(key.changed_ns, st.st_ctim.tv_nsec);
	assert_int_equal(key.owner, st.st_uid);
	device_of_files = makedev(LOOP_MAJOR, 0);
	assert_false(file_key_of(fd, &key));
	device_of_files = 0;
	close(fd);
	/* What has just changed may change again at the same time, as far as times show it. */
	realtime_stands_at_ns = now_ns(CLOCK_REALTIME);
	write_text(in_sandbox("new"), "text");
	fd = open(in_sandbox("new"), O_RDONLY);
	assert_false(file_key_of(fd, &key));
	close(fd);
	realtime_stands_at_ns = 0;
	fd = open("/dev/null", O_RDONLY);
	assert_false(file_key_of(fd, &key));
	close(fd);
	assert_false(file_key_of(-1, &key));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_sandbox, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_files_decide),
		TEST(many_processes_keep_the_limit),
		TEST(stores_without_a_look_are_bounded),
		TEST(looks_that_were_left_follow),
		TEST(unfinished_entries_count_for_the_limit),
		TEST(any_owner_counts_for_the_limit),
		TEST(mapped_entries_are_checked),
		TEST(keys_of_files),
	};

	return cmocka_run_group_tests_name("file_cache", tests, NULL, NULL);
}

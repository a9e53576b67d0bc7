// SPDX-License-Identifier: GPL-2.0
/* The store of binaries: what the files of one owner may take. */
#include "mappings/binary_store.h"

#include <errno.h>
#include <fcntl.h>

#include "lib/error.h"
#include "lib/regular_file.h"
#include "sandbox.h"

#define BLOCK 512 /* bytes of st_blocks */
#define SIZE 8192 /* of the files: all of it is data */
#define BLOCKS_MAX ((blkcnt_t)(BINARY_STORE_OWNER_BYTES_MAX / BLOCK))

static const struct file_owner user = {.uid = 1000}, other = {.uid = 1001},
			       root = {.is_trusted = true};

static struct binary_store *store;

/* What a file takes before it is copied. Its owner may change it meanwhile. */
static int blocks_fd = -1;
static blkcnt_t blocks;
static size_t size; /* of the next file */

int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (fd == blocks_fd)
		st->st_blocks = blocks;
	return result;
}

static int set_up(void **state)
{
	struct error error;

	if (make_sandbox(state))
		return -1;
	size = SIZE;
	store = binary_store_new(in_sandbox("store"), &error);
	return store ? 0 : -1;
}

static int tear_down(void **state)
{
	binary_store_free(store);
	return remove_sandbox(state);
}

/* Adds a file that takes `before` blocks when it is opened, and 16 when it is copied. */
static int add(const char *build_id, const struct file_owner *owner, blkcnt_t before)
{
	static const char bytes[SIZE] = "binary";
	struct error error = {""};
	uint64_t progress = 0;
	int err;

	write_file(in_sandbox("file"), bytes, size);
	blocks_fd = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
	assert_true(blocks_fd >= 0);
	blocks = before;
	err = binary_store_add(store, build_id, blocks_fd, owner, &progress, &error);
	close(blocks_fd);
	blocks_fd = -1;
	assert_int_equal(!*error.text, !err);
	if (err)
		assert_non_null(strstr(error.text, "binaries of one user may take 4 GiB"));
	return err;
}

static bool has(const char *path)
{
	return !access(in_sandbox("store/%s", path), F_OK);
}

static void files_of_a_user_are_limited(void **state)
{
	(void)state;
	assert_int_equal(add("aa01", &user, BLOCKS_MAX - SIZE / BLOCK), 0);
	assert_int_equal(add("aa02", &user, SIZE / BLOCK + 1), -EDQUOT);
	assert_false(has(".untrusted/1000/.build-id/aa/02"));
	/* A file that the store has takes no more. */
	assert_int_equal(add("aa01", &user, BLOCKS_MAX), 0);
	assert_int_equal(add("aa02", &other, SIZE / BLOCK + 1), 0);
	assert_int_equal(add("aa02", &root, BLOCKS_MAX + 1), 0);
	assert_int_equal(add("aa02", &user, SIZE / BLOCK), 0);
	assert_true(has(".untrusted/1000/.build-id/aa/02"));
	assert_true(has(".untrusted/1001/.build-id/aa/02"));
	assert_true(has(".build-id/aa/02"));
	assert_int_equal(add("aa03", &user, 1), -EDQUOT);
}

/* A file with a hole, which its owner fills before it is copied. */
static void filled_holes_are_limited(void **state)
{
	(void)state;
	assert_int_equal(add("aa01", &user, BLOCKS_MAX - SIZE / BLOCK), 0);
	/* Takes one block more than before, and than there is room for. */
	assert_int_equal(add("aa02", &user, 1), 0);
	assert_int_equal(add("aa03", &user, 0), -EDQUOT);
	assert_false(has(".untrusted/1000/.build-id/aa/03"));
	assert_int_equal(add("aa03", &root, 0), 0);
}

/* What is not stored takes no room of its user. */
static void failed_copies_are_not_charged(void **state)
{
	(void)state;
	assert_int_equal(add("aa01", &user, BLOCKS_MAX - 15), 0);
	/* One block fits, the blocks of the copy don't. */
	for (int i = 0; i < 3; i++)
		assert_int_equal(add("aa02", &user, 1), -EDQUOT);
	assert_int_equal(add("aa02", &root, 1), 0);
	size = SIZE - BLOCK;
	assert_int_equal(add("aa03", &user, 15), 0);
	assert_int_equal(add("aa04", &user, 1), -EDQUOT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_of_a_user_are_limited),
		TEST(filled_holes_are_limited),
		TEST(failed_copies_are_not_charged),
	};

	return cmocka_run_group_tests_name("binary_store", tests, NULL, NULL);
}

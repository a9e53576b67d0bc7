// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/sparse_copy.h"

#define SIZE (3 << 20)
#define FIRST (1 << 20) /* offset of data behind a hole */

static int from, to;
static bool lies; /* the file system: holes and data are before the offset */

/* Replaces libc's function. */
off_t lseek(int fd, off_t offset, int whence)
{
	if (lies && (whence == SEEK_DATA || whence == SEEK_HOLE))
		return whence == SEEK_HOLE;
	return syscall(SYS_lseek, fd, offset, whence);
}
static char *expected;

static void put(off_t offset, size_t size)
{
	for (size_t i = 0; i < size; i++)
		expected[(size_t)offset + i] = (char)(1 + (offset + (off_t)i) % 251);
	assert_int_equal(pwrite(from, expected + offset, size, offset), size);
}

static int setup(void **state)
{
	(void)state;
	from = memfd_create("from", MFD_CLOEXEC);
	to = memfd_create("to", MFD_CLOEXEC);
	expected = calloc(1, SIZE);
	return from < 0 || to < 0 || !expected || ftruncate(from, SIZE) ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	close(from);
	close(to);
	free(expected);
	return 0;
}

static void expect_copy(off_t size)
{
	char *copied = malloc((size_t)size + 1);

	assert_non_null(copied);
	assert_int_equal(lseek(to, 0, SEEK_END), size);
	assert_int_equal(pread(to, copied, (size_t)size + 1, 0), size);
	assert_memory_equal(copied, expected, size);
	free(copied);
}

static void data_and_holes_are_copied(void **state)
{
	uint64_t progress = 7;

	(void)state;
	put(FIRST, 100000);
	put(SIZE - 5000, 5000);
	assert_int_equal(lseek(from, 10, SEEK_SET), 10);
	assert_int_equal(sparse_copy(to, from, SIZE, &progress), 0);
	expect_copy(SIZE);
	assert_int_equal(lseek(from, 0, SEEK_CUR), 0);
	/* Holes, which are not read, stay holes. */
	assert_in_range(progress, 105007, 200000);
	assert_in_range(lseek(to, 0, SEEK_DATA), FIRST - 4095, FIRST);
	assert_in_range(lseek(to, FIRST, SEEK_HOLE), FIRST + 100000, FIRST + 104096);
}

static void only_the_first_bytes_are_copied(void **state)
{
	(void)state;
	put(0, SIZE);
	assert_int_equal(sparse_copy(to, from, 70001, NULL), 0);
	expect_copy(70001);
}

static void empty_and_missing_parts_are_zeros(void **state)
{
	(void)state;
	assert_int_equal(sparse_copy(to, from, SIZE, NULL), 0);
	expect_copy(SIZE);
	assert_int_equal(lseek(to, 0, SEEK_DATA), -1);
	/* The file was truncated meanwhile. */
	assert_int_equal(ftruncate(from, 10), 0);
	assert_int_equal(sparse_copy(to, from, SIZE, NULL), 0);
	expect_copy(SIZE);
}

static void answers_that_are_wrong_end_the_search(void **state)
{
	(void)state;
	put(0, 100000);
	lies = true;
	assert_int_equal(sparse_copy(to, from, SIZE, NULL), 0);
	lies = false;
	expect_copy(SIZE);
}

static void errors_are_returned(void **state)
{
	int pipes[2], sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	put(0, 1000);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(sparse_copy(sealed, from, 1000, NULL), -EPERM);
	close(sealed);
	/* It has no offsets: data is not searched, and reading fails. */
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(sparse_copy(to, pipes[0], 1000, NULL), -ESPIPE);
	close(pipes[0]);
	close(pipes[1]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(data_and_holes_are_copied),
		TEST(only_the_first_bytes_are_copied),
		TEST(empty_and_missing_parts_are_zeros),
		TEST(answers_that_are_wrong_end_the_search),
		TEST(errors_are_returned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

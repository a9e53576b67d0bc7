// SPDX-License-Identifier: GPL-2.0
/* The file with the position of a push: what is read, refused and locked. */
#include "push/push_state.h"

#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "failing_malloc.h"
#include "lib/error.h"
#include "store/window_name.h"

#define NOW INT64_C(1700000000000000)

static const char *path;

/* A program that another thread starts gets no file. (gcov opens others, after the tests.) */
__attribute__((visibility("hidden"))) int open(const char *name, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (!strncmp(name, sandbox, strlen(sandbox)))
		assert_int_not_equal(flags & O_CLOEXEC, 0);
	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	path = in_sandbox("state");
	return 0;
}

static void expect_text(const char *wanted)
{
	size_t size;
	unsigned char *bytes = read_bytes(path, &size);

	assert_int_equal(size, strlen(wanted));
	assert_memory_equal(bytes, wanted, size);
	free(bytes);
}

static void expect_read(const char *text, int64_t next_us, size_t done)
{
	struct push_state push;
	struct error error;

	write_text(path, text);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.next_us == next_us);
	assert_int_equal(push.done, done);
	push_state_close(&push);
}

static void expect_refused(const char *text, size_t size)
{
	struct push_state push;
	struct error error = {0};

	write_file(path, text, size);
	if (push_state_open(&push, path, NOW, &error) != -EBADMSG)
		fail_msg("accepted: '%s'", text);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "is not the state of a push"));
	push_state_close(&push);
}

static void new_state_begins_now(void **state)
{
	struct push_state push;
	struct error error;

	(void)state;
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.next_us == NOW);
	assert_int_equal(push.done, 0);
	/* Nothing was pushed: the next process begins at its own time. */
	assert_int_equal(access(path, F_OK), -1);
	push_state_close(&push);
}

static void written_state_is_read(void **state)
{
	struct push_state push;
	struct error error;

	(void)state;
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	push.next_us = NOW + 12;
	push.done = 345;
	assert_int_equal(push_state_write(&push, &error), 0);
	expect_text("next: 1700000000000012 345\n");
	push.done = 6;
	assert_int_equal(push_state_write(&push, &error), 0);
	expect_text("next: 1700000000000012 6\n");
	push_state_close(&push);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.next_us == NOW + 12);
	assert_int_equal(push.done, 6);
	/* The longest one. */
	push.next_us = INT64_MAX;
	push.done = SIZE_MAX;
	assert_int_equal(push_state_write(&push, &error), 0);
	push_state_close(&push);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.next_us == INT64_MAX);
	assert_true(push.done == SIZE_MAX);
	push_state_close(&push);
}

static void third_number_is_optional(void **state)
{
	struct push_state push;
	struct error error;

	(void)state;
	expect_read("next: 1 2 3\n", 1, 2);
	expect_refused("next: 1 2 9223372036854775808\n", 30);
	expect_refused("next: 1 2 3 4\n", 14);
	expect_refused("next: 1 2 \n", 11);
	expect_refused("next: 1 2 3", 11);
	write_file(path, "next: 1 2 3\n", 12);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.ahead_us == 3);
	push.next_us = INT64_MAX - 1;
	push.done = SIZE_MAX;
	push.ahead_us = INT64_MAX;
	assert_int_equal(push_state_write(&push, &error), 0);
	expect_text("next: 9223372036854775806 18446744073709551615 9223372036854775807\n");
	push_state_close(&push);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.ahead_us == INT64_MAX);
	assert_true(push.done == SIZE_MAX);
	push_state_close(&push);
}

/* One line for each. */
static void early_windows_are_kept(void **state)
{
	static const char text[] = "next: 1 2 9000000\n"
				   "early: 5000000 60\n"
				   "early: 253402300799999999 3600\n";
	struct push_state push;
	struct error error;

	(void)state;
	write_text(path, text);
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_true(push.early_is_known);
	assert_int_equal(push.early_count, 2);
	assert_true(push.early[0].start_us == 5000000);
	assert_int_equal(push.early[0].seconds, 60);
	assert_true(push.early[1].start_us == WINDOW_START_MAX);
	assert_int_equal(push.early[1].seconds, WINDOW_SECONDS_MAX);
	write_text(path, "");
	assert_int_equal(push_state_write(&push, &error), 0);
	expect_text(text);
	/* Without the number, they are of no use. */
	push.ahead_us = 0;
	assert_int_equal(push_state_write(&push, &error), 0);
	expect_text("next: 1 2\n");
	push_state_close(&push);
	/* As it was written before there were such lines. */
	write_text(path, "next: 1 2 3\n");
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	assert_false(push.early_is_known);
	push_state_close(&push);
}

static void early_windows_have_limits(void **state)
{
	static const char *const lines[] = {
		"early: 5 0\n",      "early: 5 3601\n", "early: 253402300800000000 60\n",
		"early: 5\n",        "early: 5 60",     "early: 5 60 \n",
		"early: 5 60\n\n",   "early: -5 60\n",  "early:\n",
		"early: 5 60\nnext", "Early: 5 60\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char text[128];

		snprintf(text, sizeof(text), "next: 1 2 3\n%s", lines[i]);
		expect_refused(text, strlen(text));
	}
	expect_refused("next: 1 2\nearly: 5 60\n", 22);
}

static void file_that_is_too_large_is_not_read(void **state)
{
	struct push_state push;
	struct error error = {0};

	(void)state;
	write_text(path, "next: 1 2\n");
	assert_int_equal(truncate(path, (16 << 20) + 1), 0);
	assert_int_equal(push_state_open(&push, path, NOW, &error), -EFBIG);
	assert_non_null(strstr(error.text, path));
	push_state_close(&push);
}

static void numbers_have_limits(void **state)
{
	(void)state;
	expect_read("next: 0 0\n", 0, 0);
	expect_read("next: 9 9\n", 9, 9);
	expect_read("next: 9223372036854775807 18446744073709551615\n", INT64_MAX, SIZE_MAX);
	expect_refused("next: 9223372036854775808 0\n", 28);
	expect_refused("next: 18446744073709551616 0\n", 29);
	expect_refused("next: 1 18446744073709551616\n", 29);
}

static void other_files_are_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"\n",
		"next: ",
		"next: 1",
		"next: 1 ",
		"next: 1 2",
		"next: 1 2 ",
		"next: 1\n",
		"next: 1\n2\n",
		"next: 1 2\n\n",
		"next: 1 2\n3",
		"next:  1 2\n",
		"next: 1  2\n",
		"next: -1 2\n",
		"next: +1 2\n",
		"next: 1 -2\n",
		"next: /1 2\n",
		"next: :1 2\n",
		"next: a 2\n",
		"next: 1a 2\n",
		"next: 0x1 2\n",
		"Next: 1 2\n",
		"next:\t1 2\n",
		" next: 1 2\n",
		"1 2\n",
	};
	static const char with_nul[] = "next: 1\0 2\n";
	char longer[128];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		expect_refused(texts[i], strlen(texts[i]));
	expect_refused(with_nul, sizeof(with_nul) - 1);
	/* More than a state can have. */
	memset(longer, '0', sizeof(longer));
	memcpy(longer, "next: 1 ", 8);
	longer[sizeof(longer) - 1] = '\n';
	expect_refused(longer, sizeof(longer));
}

static void state_has_one_user(void **state)
{
	struct push_state first, second;
	struct error error = {0};
	int fd;

	(void)state;
	assert_int_equal(push_state_open(&first, path, NOW, &error), 0);
	assert_int_equal(push_state_open(&second, path, NOW, &error), -EBUSY);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "another process pushes"));
	push_state_close(&second);
	/* The lock outlives the replacement of the state. */
	assert_int_equal(push_state_write(&first, &error), 0);
	assert_int_equal(push_state_open(&second, path, NOW, &error), -EBUSY);
	push_state_close(&second);
	push_state_close(&first);
	/* Closing it again closes no other file. */
	push_state_close(&first);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	assert_int_equal(push_state_open(&second, path, NOW, &error), 0);
	/* Programs that this one starts do not keep the lock, and others can't take it. */
	assert_int_equal(fcntl(second.lock, F_GETFD), FD_CLOEXEC);
	fd = open(in_sandbox("state.lock"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), -1);
	push_state_close(&second);
	assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
	close(fd);
}

static void lock_is_private(void **state)
{
	struct push_state push;
	struct error error;
	struct stat status;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	umask(mask);
	assert_int_equal(stat(in_sandbox("state.lock"), &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	push_state_close(&push);
}

/* A lock that is descriptor 0 is one, too. */
static void closed_standard_input_is_no_problem(void **state)
{
	int copy = dup(STDIN_FILENO);
	struct push_state first, second;
	struct error error;
	int busy, free;

	(void)state;
	close(STDIN_FILENO);
	assert_int_equal(push_state_open(&first, path, NOW, &error), 0);
	busy = push_state_open(&second, path, NOW, &error);
	push_state_close(&second);
	push_state_close(&first);
	/* As for the state itself. */
	write_text(path, "next: 1 2\n");
	free = push_state_open(&second, path, NOW, &error);
	push_state_close(&second);
	if (copy >= 0) {
		dup2(copy, STDIN_FILENO);
		close(copy);
	}
	assert_int_equal(busy, -EBUSY);
	assert_int_equal(free, 0);
	assert_true(second.next_us == 1);
}

static void links_are_not_followed(void **state)
{
	struct push_state push;
	struct error error = {0};

	(void)state;
	write_text(in_sandbox("other"), "next: 1 2\n");
	assert_int_equal(symlink("other", path), 0);
	assert_int_equal(push_state_open(&push, path, NOW, &error), -ELOOP);
	assert_non_null(strstr(error.text, "can't read"));
	push_state_close(&push);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(in_sandbox("state.lock")), 0);
	assert_int_equal(symlink("other", in_sandbox("state.lock")), 0);
	assert_int_equal(push_state_open(&push, path, NOW, &error), -ELOOP);
	assert_non_null(strstr(error.text, "can't lock"));
	push_state_close(&push);
}

static void unusable_paths_are_errors(void **state)
{
	struct push_state push;
	struct error error = {0};

	(void)state;
	assert_int_equal(push_state_open(&push, in_sandbox("none/state"), NOW, &error), -ENOENT);
	assert_non_null(strstr(error.text, "none/state"));
	assert_int_equal(push_state_write(&push, &error), -ENOENT);
	push_state_close(&push);
	/* It can be opened, but not read. */
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(push_state_open(&push, path, NOW, &error), -EISDIR);
	assert_non_null(strstr(error.text, "can't read"));
	push_state_close(&push);
	/* Nobody writes to it: this does not wait. */
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(push_state_open(&push, path, NOW, &error), -EBADMSG);
	push_state_close(&push);
}

static void lack_of_memory_is_an_error(void **state)
{
	struct push_state push;
	struct error error = {0};
	int err;

	(void)state;
	fail_malloc(1, true);
	err = push_state_open(&push, path, NOW, &error);
	fail_malloc(0, false);
	assert_int_equal(err, -ENOMEM);
	assert_non_null(strstr(error.text, path));
	/* No other file is closed for the lock. */
	push_state_close(&push);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	/* Neither the text nor the early windows are there. */
	write_text(path, "next: 1 2 3\nearly: 2 60\n");
	for (unsigned long number = 2; number <= 3; number++) {
		fail_malloc(number, true);
		err = push_state_open(&push, path, NOW, &error);
		fail_malloc(0, false);
		assert_int_equal(err, -ENOMEM);
		assert_non_null(strstr(error.text, path));
		push_state_close(&push);
	}
	assert_int_equal(push_state_open(&push, path, NOW, &error), 0);
	fail_malloc(1, true);
	err = push_state_write(&push, &error);
	fail_malloc(0, false);
	assert_int_equal(err, -ENOMEM);
	push_state_close(&push);
	expect_text("next: 1 2 3\nearly: 2 60\n");
}

/* The state is written in place, to a device that is full. */
static void failed_write_is_an_error(void **state)
{
	const struct push_state push = {.path = "/dev/full", .lock = -1, .next_us = NOW};
	struct error error = {0};

	(void)state;
	assert_int_equal(push_state_write(&push, &error), -ENOSPC);
	assert_non_null(strstr(error.text, "/dev/full"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(new_state_begins_now),
		TEST(written_state_is_read),
		TEST(third_number_is_optional),
		TEST(early_windows_are_kept),
		TEST(early_windows_have_limits),
		TEST(file_that_is_too_large_is_not_read),
		TEST(numbers_have_limits),
		TEST(other_files_are_refused),
		TEST(state_has_one_user),
		TEST(lock_is_private),
		TEST(closed_standard_input_is_no_problem),
		TEST(links_are_not_followed),
		TEST(unusable_paths_are_errors),
		TEST(lack_of_memory_is_an_error),
		TEST(failed_write_is_an_error),
	};

	return cmocka_run_group_tests_name("push_state", tests, NULL, NULL);
}

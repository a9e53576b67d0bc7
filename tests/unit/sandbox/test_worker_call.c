// SPDX-License-Identifier: GPL-2.0
/* Results of workers, and workers that give none. */
#include "sandbox/worker_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "patience.h"
#include "unit.h"

#define MANY 300000u /* more than a pipe holds */

static struct sandbox_server server;

/* `kind` selects what the worker does. */
static void worker(enum worker_kind kind, const int fds[], size_t count)
{
	static unsigned char bytes[MANY];
	const struct timespec timeout = {.tv_sec = 1};
	size_t size = kind == WORKER_READ_HEADERS ? MANY : 4, sent = 0;
	unsigned int word = 0;
	ssize_t got;

	if (count != 2 || pread(fds[0], bytes, sizeof(bytes), 0) < 0)
		_exit(2);
	if (kind == WORKER_SYMBOLIZE) {
		for (;;)
			sched_yield();
	}
	if (kind == WORKER_URGENT_UNWIND_TABLE) {
		for (;;)
			syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
	}
	if (kind == WORKER_GO_PROGRAM)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
	while (sent < size) {
		got = write(fds[1], bytes + sent, size - sent);
		if (got < 0)
			_exit(2);
		sent += (size_t)got;
	}
	if (kind == WORKER_DEMANGLE)
		raise(SIGKILL);
	if (kind == WORKER_UNPACK)
		_exit(3);
	/* It closes its pipe, and lives. */
	if (kind == WORKER_VERIFY) {
		close(fds[1]);
		for (;;)
			sched_yield();
	}
}

/* An input of MANY bytes. */
static int make_input(const unsigned char *bytes)
{
	int fd = memfd_create("input", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, MANY), MANY);
	return fd;
}

static void results_are_read_to_their_end(void **state)
{
	static unsigned char bytes[MANY], result[MANY + 1];
	int input;

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		bytes[i] = (unsigned char)(i * i >> 3);
	input = make_input(bytes);
	/* Shorter than the result may be, and as long. */
	assert_int_equal(worker_call(&server, WORKER_READ_HEADERS, input, result, MANY + 1, 20000,
				     (unsigned int)hang_ms()),
			 MANY);
	assert_memory_equal(result, bytes, MANY);
	memset(result, 0, sizeof(result));
	assert_int_equal(worker_call(&server, WORKER_READ_HEADERS, input, result, MANY, 20000,
				     (unsigned int)hang_ms()),
			 MANY);
	assert_memory_equal(result, bytes, MANY);
	assert_int_equal(worker_call(&server, WORKER_READ_HEADERS, input, result, MANY - 1, 20000,
				     (unsigned int)hang_ms()),
			 -E2BIG);
	assert_int_equal(worker_call(&server, WORKER_UNWIND_TABLE, input, result, 4, 20000,
				     (unsigned int)hang_ms()),
			 4);
	assert_int_equal(worker_call(&server, WORKER_UNWIND_TABLE, input, result, 3, 20000,
				     (unsigned int)hang_ms()),
			 -E2BIG);
	close(input);
}

static size_t count_fds(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void failures_are_errors(void **state)
{
	unsigned char result[16];
	int input = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	size_t before = count_fds();
	int64_t begin;

	(void)state;
	/* A complete result of a worker that crashed, or failed. */
	assert_int_equal(worker_call(&server, WORKER_DEMANGLE, input, result, sizeof(result), 20000,
				     (unsigned int)hang_ms()),
			 -EBADMSG);
	assert_int_equal(worker_call(&server, WORKER_UNPACK, input, result, sizeof(result), 20000,
				     (unsigned int)hang_ms()),
			 -EBADMSG);
	assert_int_equal(worker_call(&server, WORKER_VERIFY, input, result, sizeof(result), 20000,
				     (unsigned int)hang_ms()),
			 -EBADMSG);
	/* It hangs. */
	begin = now_ns(CLOCK_MONOTONIC);
	assert_int_equal(worker_call(&server, WORKER_SYMBOLIZE, input, result, sizeof(result),
				     UINT_MAX, 300),
			 -ETIMEDOUT);
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= 300 * (NS_PER_SECOND / 1000) - 2000000);
	assert_int_equal(
		worker_call(&server, WORKER_SYMBOLIZE, input, result, sizeof(result), UINT_MAX, 0),
		-ETIMEDOUT);
	/* It uses up its CPU time. */
	assert_int_equal(worker_call(&server, WORKER_SYMBOLIZE, input, result, sizeof(result), 300,
				     (unsigned int)INT_MAX),
			 -ETIMEDOUT);
	/* It waits for ever. */
	assert_int_equal(worker_call(&server, WORKER_URGENT_UNWIND_TABLE, input, result,
				     sizeof(result), UINT_MAX, (unsigned int)INT_MAX),
			 -ETIMEDOUT);
	/* While it waits, it uses none. */
	assert_int_equal(worker_call(&server, WORKER_GO_PROGRAM, input, result, sizeof(result), 500,
				     (unsigned int)hang_ms()),
			 4);
	/* No descriptor is left. */
	assert_int_equal(count_fds(), before);
	close(input);
}

static void worker_needs_a_server(void **state)
{
	struct sandbox_server gone;
	struct error error;
	char result;
	size_t before;

	(void)state;
	assert_int_equal(sandbox_server_start(&gone, worker, &error), 0);
	sandbox_server_stop(&gone);
	before = count_fds();
	assert_int_equal(worker_call(&gone, WORKER_VERIFY, STDIN_FILENO, &result, 1, 20000,
				     (unsigned int)hang_ms()),
			 -EBADF);
	assert_int_equal(count_fds(), before);
}

static int start_server(void **state)
{
	struct error error;

	(void)state;
	return sandbox_server_start(&server, worker, &error);
}

static int stop_server(void **state)
{
	(void)state;
	sandbox_server_stop(&server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_are_read_to_their_end),
		cmocka_unit_test(failures_are_errors),
		cmocka_unit_test(worker_needs_a_server),
	};

	return cmocka_run_group_tests_name("worker_call", tests, start_server, stop_server);
}

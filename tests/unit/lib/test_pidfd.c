// SPDX-License-Identifier: GPL-2.0
#include "lib/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

/* The errno of later calls of pidfd_open(), or 0; -1: the ID is used again, by this process. */
static int open_result;

int pidfd_open(pid_t pid, unsigned int flags)
{
	if (open_result > 0) {
		errno = open_result;
		return -1;
	}
	return (int)syscall(SYS_pidfd_open, open_result ? getpid() : pid, flags);
}

static uint32_t start_process(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return (uint32_t)pid;
}

static void end_process(uint32_t pid)
{
	kill((pid_t)pid, SIGKILL);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
}

static int open_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static int reset(void **state)
{
	(void)state;
	open_result = 0;
	return 0;
}

static void watch_ends_with_last_process(void **state)
{
	uint32_t pids[] = {start_process(), start_process()};
	struct process_watch watch;
	int before = open_fds();

	(void)state;
	assert_int_equal(process_watch_open(&watch, pids, 2), 0);
	assert_false(process_watch_has_ended(&watch));
	end_process(pids[1]);
	assert_false(process_watch_has_ended(&watch));
	assert_int_equal(open_fds(), before + 1);
	end_process(pids[0]);
	assert_true(process_watch_has_ended(&watch));
	assert_true(process_watch_has_ended(&watch));
	process_watch_close(&watch);
	assert_int_equal(open_fds(), before);
}

static void id_that_is_used_again_is_another_process(void **state)
{
	uint32_t pid = start_process();
	struct process_watch watch;

	(void)state;
	assert_int_equal(process_watch_open(&watch, &pid, 1), 0);
	end_process(pid);
	open_result = -1;
	assert_true(process_watch_has_ended(&watch));
	process_watch_close(&watch);
}

static void missing_process_has_ended(void **state)
{
	uint32_t pids[] = {start_process(), start_process()};
	struct process_watch watch;

	(void)state;
	end_process(pids[0]);
	assert_int_equal(process_watch_open(&watch, pids, 1), 0);
	assert_true(process_watch_has_ended(&watch));
	process_watch_close(&watch);
	/* It runs, as far as is known. */
	open_result = EMFILE;
	assert_int_equal(process_watch_open(&watch, pids + 1, 1), 0);
	assert_false(process_watch_has_ended(&watch));
	process_watch_close(&watch);
	end_process(pids[1]);
}

static void limit_of_files_is_raised(void **state)
{
	uint32_t pids[64];
	struct process_watch watch;
	struct rlimit old, limit;

	(void)state;
	for (size_t i = 0; i < 64; i++)
		pids[i] = (uint32_t)getpid();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit = old;
	limit.rlim_cur = 32;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(process_watch_open(&watch, pids, 64), 0);
	assert_int_equal(watch.count, 64);
	for (size_t i = 0; i < watch.count; i++)
		assert_true(watch.processes[i].fd >= 0);
	process_watch_close(&watch);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(limit.rlim_cur, 32 + 64);
	setrlimit(RLIMIT_NOFILE, &old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(watch_ends_with_last_process, reset),
		cmocka_unit_test_setup(id_that_is_used_again_is_another_process, reset),
		cmocka_unit_test_setup(missing_process_has_ended, reset),
		cmocka_unit_test_setup(limit_of_files_is_raised, reset),
	};

	return cmocka_run_group_tests_name("pidfd", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Work in processes of its own, with limits. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/pidfd.h"
#include "patience.h"
#include "sandbox/seccomp_filter.h"
#include "serve/profile_job.h"

static struct profile_job job = {.file = -1};
static struct rlimit memory_limit; /* that the job sets */

/* The memory of the sanitizer is beyond the limit of jobs. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (resource != RLIMIT_DATA)
		return prlimit(0, resource, limit, NULL);
	memory_limit = *limit;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	profile_job_release(&job);
	return 0;
}

static void wait_for_end(void)
{
	const pid_t pid = job.pid;

	assert_true(process_exits_within(pid, hang_ms()));
	assert_true(profile_job_has_ended(&job));
	assert_int_equal(job.pid, 0);
	/* It was reaped, and stays ended. */
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_true(profile_job_has_ended(&job));
}

static int write_text(void *arg, int file, struct profile_job_result *result, struct error *error)
{
	(void)error;
	result->windows = 7;
	return write(file, arg, strlen(arg)) == (ssize_t)strlen(arg) ? 0 : -EIO;
}

static void job_leaves_a_file_and_results(void **state)
{
	char text[16] = "";

	(void)state;
	assert_int_equal(profile_job_start(&job, write_text, "answer"), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, 0);
	assert_int_equal(job.result->windows, 7);
	assert_int_equal(pread(job.file, text, sizeof(text) - 1, 0), 6);
	assert_string_equal(text, "answer");
}

static int fail_long(void *arg, int file, struct profile_job_result *result, struct error *error)
{
	char text[sizeof(error->text)];

	(void)arg, (void)file, (void)result;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	return error_set(error, EBADMSG, "%s", text);
}

static void errors_have_a_message(void **state)
{
	(void)state;
	assert_int_equal(profile_job_start(&job, fail_long, NULL), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, -EBADMSG);
	/* As much as there is room for. */
	assert_int_equal(strlen(job.result->error), sizeof(job.result->error) - 1);
	assert_int_equal(strspn(job.result->error, "x"), sizeof(job.result->error) - 1);
}

static int crash(void *arg, int file, struct profile_job_result *result, struct error *error)
{
	(void)arg, (void)file, (void)result, (void)error;
	raise(SIGKILL);
	return 0;
}

static void crashed_job_is_not_done(void **state)
{
	(void)state;
	assert_int_equal(profile_job_start(&job, crash, NULL), 0);
	wait_for_end();
	assert_false(job.result->done);
}

static int wait_for_byte(void *arg, int file, struct profile_job_result *result,
			 struct error *error)
{
	char byte;

	(void)file, (void)result, (void)error;
	return read(*(int *)arg, &byte, 1) == 1 ? 0 : -EIO;
}

static void running_job_is_not_waited_for(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(profile_job_start(&job, wait_for_byte, &ends[0]), 0);
	assert_false(profile_job_has_ended(&job));
	assert_false(job.result->done);
	assert_int_equal(write(ends[1], "", 1), 1);
	wait_for_end();
	assert_int_equal(job.result->err, 0);
	close(ends[0]);
	close(ends[1]);
}

/* With the rights of the process that serves HTTP, which may send no signals. */
static int kill_job(void)
{
	int ends[2];

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || seccomp_confine_network_client() ||
	    pipe(ends) || profile_job_start(&job, wait_for_byte, &ends[0]))
		return 1;
	profile_job_kill(&job);
	if (!process_exits_within(job.pid, hang_ms()))
		return 2;
	if (!profile_job_has_ended(&job) || job.result->done)
		return 3;
	/* It has ended, and this process does not. */
	profile_job_kill(&job);
	profile_job_release(&job);
	profile_job_kill(&job);
	return 0;
}

static void killed_job_is_not_done(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(kill_job());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Returns the limit of the process that is not as it should be; 0: none. */
static int check_limits(void *arg, int file, struct profile_job_result *result, struct error *error)
{
	struct rlimit cpu;
	int dies_with = 0;
	sigset_t blocked;

	(void)arg, (void)file, (void)result, (void)error;
	if (memory_limit.rlim_cur != (rlim_t)1 << 30 || memory_limit.rlim_max != (rlim_t)1 << 30)
		return 1;
	if (getrlimit(RLIMIT_CPU, &cpu) || cpu.rlim_cur != 60 || cpu.rlim_max != 60)
		return 2;
	if (getpriority(PRIO_PROCESS, 0) < 5)
		return 3;
	if (prctl(PR_GET_PDEATHSIG, &dies_with) || dies_with != SIGKILL)
		return 4;
	if (sigprocmask(SIG_SETMASK, NULL, &blocked) || sigismember(&blocked, SIGCHLD))
		return 5;
	if (alarm(0) < 100)
		return 6;
	return 0;
}

/* Returns the result of write() with the last byte that an answer may have, and after it. */
static int write_at_limit(void *arg, int file, struct profile_job_result *result,
			  struct error *error)
{
	const off_t limit = (off_t)256 << 20;

	(void)arg, (void)result;
	if (pwrite(file, "x", 1, limit - 1) != 1)
		return 1;
	if (pwrite(file, "x", 1, limit) >= 0)
		return 2;
	return error_errno(error, errno, "answer");
}

static void large_answer_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(profile_job_start(&job, write_at_limit, NULL), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, -EFBIG);
	assert_string_equal(job.result->error, "answer: File too large");
}

static void jobs_have_limits(void **state)
{
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	assert_int_equal(profile_job_start(&job, check_limits, NULL), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, 0);
}

static void job_without_a_process_leaves_nothing(void **state)
{
	struct rlimit files, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = files;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(profile_job_start(&job, write_text, "answer"), -ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(job.file, -1);
	assert_null(job.result);
	assert_true(profile_job_has_ended(&job));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

#define TEST(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(job_leaves_a_file_and_results), TEST(errors_have_a_message),
		TEST(crashed_job_is_not_done),       TEST(running_job_is_not_waited_for),
		TEST(killed_job_is_not_done),        TEST(jobs_have_limits),
		TEST(large_answer_is_an_error),      TEST(job_without_a_process_leaves_nothing),
	};

	return cmocka_run_group_tests_name("profile_job", tests, NULL, NULL);
}

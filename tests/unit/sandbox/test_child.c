// SPDX-License-Identifier: GPL-2.0
/* Processes of stackbeat's own, in their roles. */
#include "sandbox/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/pidfd.h"
#include "patience.h"
#include "sandbox/seccomp_filter.h"
#include "unit.h"

#define MIB ((rlim_t)1 << 20)

static struct rlimit memory_limit; /* that the child sets */
static pid_t adopter; /* 0: the parent is there */

/* The memory of the sanitizer is beyond the limit of some. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (resource != RLIMIT_DATA)
		return prlimit(0, resource, limit, NULL);
	memory_limit = *limit;
	return 0;
}

pid_t getppid(void)
{
	pid_t (*const real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "getppid");

	return adopter ? adopter : real();
}

/* Returns the status of a child in a role, which exits with what a function returns. */
static int status_of(enum child_role role, int (*function)(enum child_role role))
{
	pid_t child = child_fork(role);
	int status;

	assert_true(child >= 0);
	if (!child)
		_exit(function(role));
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static int exit_zero(enum child_role role)
{
	(void)role;
	return 0;
}

static int nice_before;

static int nice_of(enum child_role role)
{
	(void)role;
	return getpriority(PRIO_PROCESS, 0);
}

static void check_priorities(void)
{
	static const int nicer[CHILD_ROLES] = {
		[CHILD_FILE_EXPORTER] = 5,
		[CHILD_SLICE_EXPORTER] = 5,
		[CHILD_EXTRA_SESSION] = 5,
	};
	static const int nice[CHILD_ROLES] = {
		[CHILD_TABLE_WORKER] = 5, [CHILD_JOB] = 5, [CHILD_ANNOTATOR] = 5};

	nice_before = getpriority(PRIO_PROCESS, 0);
	for (int role = 0; role < CHILD_ROLES; role++) {
		int expected = nice[role] > nice_before ? nice[role] : nice_before + nicer[role];

		assert_int_equal(WEXITSTATUS(status_of(role, nice_of)),
				 expected < 19 ? expected : 19);
	}
}

static void roles_have_priorities(void **state)
{
	const int before = getpriority(PRIO_PROCESS, 0);

	(void)state;
	check_priorities();
	/* Lower than any of theirs, as with nice(1). */
	assert_int_equal(setpriority(PRIO_PROCESS, 0, before > 10 ? before : 10), 0);
	check_priorities();
	/* Only root may. */
	setpriority(PRIO_PROCESS, 0, before);
}

/* Returns the number of the limit that is not as it should be; 0: none. */
static int check_limits_of_job(enum child_role role)
{
	const bool is_job = role == CHILD_JOB;
	const rlim_t cpu_s = is_job ? 60 : 30, file_mib = is_job ? 256 : 64;
	struct rlimit cpu, file;
	sigset_t blocked;

	if (memory_limit.rlim_cur != 1024 * MIB || memory_limit.rlim_max != 1024 * MIB)
		return 1;
	if (getrlimit(RLIMIT_CPU, &cpu) || cpu.rlim_cur != cpu_s || cpu.rlim_max != cpu_s)
		return 2;
	if (getrlimit(RLIMIT_FSIZE, &file) || file.rlim_max != file_mib * MIB)
		return 3;
	if (signal(SIGXFSZ, SIG_DFL) != SIG_IGN)
		return 4;
	if (sigprocmask(SIG_SETMASK, NULL, &blocked) || sigismember(&blocked, SIGALRM))
		return 5;
	return alarm(0) < (is_job ? 500 : 50) ? 6 : 0;
}

static int check_limits_of_others(enum child_role role)
{
	struct rlimit limit;
	sigset_t blocked;

	(void)role;
	if (memory_limit.rlim_cur || getrlimit(RLIMIT_CPU, &limit) || limit.rlim_cur == 60)
		return 1;
	if (sigprocmask(SIG_SETMASK, NULL, &blocked) || !sigismember(&blocked, SIGALRM))
		return 2;
	return alarm(0) ? 3 : 0;
}

static void jobs_have_limits(void **state)
{
	sigset_t set, before;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigprocmask(SIG_BLOCK, &set, &before);
	for (int role = 0; role < CHILD_ROLES; role++)
		assert_int_equal(status_of(role, role == CHILD_JOB || role == CHILD_ANNOTATOR
							 ? check_limits_of_job
							 : check_limits_of_others),
				 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static bool outlives_parent(enum child_role role)
{
	return role == CHILD_SANDBOX_SERVER || role == CHILD_DEBUGINFOD_HELPER ||
	       role == CHILD_FILE_EXPORTER || role == CHILD_HTTP_KEEPER || role == CHILD_PAGER ||
	       role == CHILD_ANNOTATION_SERVER;
}

static int signal_of_parent(enum child_role role)
{
	int number = 0;

	(void)role;
	return prctl(PR_GET_PDEATHSIG, &number) ? 99 : number;
}

static void children_die_with_their_parent(void **state)
{
	(void)state;
	for (int role = 0; role < CHILD_ROLES; role++) {
		assert_int_equal(WEXITSTATUS(status_of(role, signal_of_parent)),
				 outlives_parent(role) ? 0 : SIGKILL);
		/* The parent has gone before. */
		adopter = getpid() + 1;
		assert_int_equal(WEXITSTATUS(status_of(role, exit_zero)), !outlives_parent(role));
		adopter = 0;
	}
}

static int gives_rights_up(enum child_role role)
{
	(void)role;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static void given_rights_do_not_come_back(void **state)
{
	(void)state;
	for (int role = 0; role < CHILD_ROLES; role++) {
		bool keeps = role == CHILD_OPENER || role == CHILD_FILE_EXPORTER ||
			     role == CHILD_SLICE_EXPORTER || role == CHILD_EXTRA_SESSION ||
			     role == CHILD_JOB || role == CHILD_UNMOUNTER || role == CHILD_PAGER ||
			     role == CHILD_TOP_SAMPLER;

		assert_int_equal(WEXITSTATUS(status_of(role, gives_rights_up)), !keeps);
	}
}

static void secrets_stay_in_their_roles(void **state)
{
	(void)state;
	child_note_secrets(true);
	for (int role = 0; role < CHILD_ROLES; role++) {
		if (role == CHILD_HTTP_KEEPER || role == CHILD_HTTP_SERVER || role == CHILD_JOB) {
			assert_int_equal(status_of(role, exit_zero), 0);
			continue;
		}
		errno = 0;
		assert_int_equal(child_fork(role), -1);
		assert_int_equal(errno, EPERM);
	}
	child_note_secrets(false);
	for (int role = 0; role < CHILD_ROLES; role++)
		assert_int_equal(status_of(role, exit_zero), 0);
}

static int step; /* of the other thread */

static void *fork_later(void *arg)
{
	__atomic_store_n(&step, 1, __ATOMIC_SEQ_CST);
	*(int *)arg = status_of(CHILD_FILE_EXPORTER, exit_zero);
	return NULL;
}

/* A child has no copy of what is opened between the calls. */
static void forks_wait_for_others(void **state)
{
	pthread_t thread;
	int status = -1;
	int ends[2];

	(void)state;
	child_forks_stop();
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pthread_create(&thread, NULL, fork_later, &status), 0);
	while (!__atomic_load_n(&step, __ATOMIC_SEQ_CST))
		sched_yield();
	/* A fork that does not wait is there soon: waitpid() finds it. */
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(waitpid(-1, NULL, WNOHANG | WNOWAIT), -1);
		sched_yield();
	}
	close(ends[0]);
	close(ends[1]);
	child_forks_go_on();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(status, 0);
}

static struct child job = {.file = -1};

/* Of a role. */
struct result {
	struct child_result child;
	int windows;
};

static int start_job(child_function *work, void *arg)
{
	int err = child_prepare(&job, CHILD_JOB, sizeof(struct result));

	return err ? err : child_start(&job, work, arg);
}

static int tear_down(void **state)
{
	(void)state;
	child_release(&job);
	return 0;
}

static void wait_for_end(void)
{
	const pid_t pid = job.pid;

	assert_true(process_exits_within(pid, hang_ms()));
	assert_true(child_has_ended(&job, false));
	assert_int_equal(job.pid, 0);
	/* It was reaped, and stays ended. */
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_true(child_has_ended(&job, false));
}

static int write_text(void *arg, struct child *child, struct error *error)
{
	(void)error;
	((struct result *)child->result)->windows = 7;
	return write(child->file, arg, strlen(arg)) == (ssize_t)strlen(arg) ? 0 : -EIO;
}

static void job_leaves_a_file_and_results(void **state)
{
	char text[16] = "";

	(void)state;
	assert_int_equal(start_job(write_text, "answer"), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, 0);
	assert_int_equal(((struct result *)job.result)->windows, 7);
	assert_int_equal(pread(job.file, text, sizeof(text) - 1, 0), 6);
	assert_string_equal(text, "answer");
}

static int fail_long(void *arg, struct child *child, struct error *error)
{
	char text[sizeof(error->text)];

	(void)arg, (void)child;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	return error_set(error, EBADMSG, "%s", text);
}

static void errors_have_a_message(void **state)
{
	(void)state;
	assert_int_equal(start_job(fail_long, NULL), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, -EBADMSG);
	/* As much as there is room for. */
	assert_int_equal(strlen(job.result->error), sizeof(job.result->error) - 1);
	assert_int_equal(strspn(job.result->error, "x"), sizeof(job.result->error) - 1);
}

static int crash(void *arg, struct child *child, struct error *error)
{
	(void)arg, (void)child, (void)error;
	raise(SIGKILL);
	return 0;
}

static void crashed_job_is_not_done(void **state)
{
	(void)state;
	assert_int_equal(start_job(crash, NULL), 0);
	wait_for_end();
	assert_false(job.result->done);
}

static int wait_for_byte(void *arg, struct child *child, struct error *error)
{
	char byte;

	(void)child, (void)error;
	return read(*(int *)arg, &byte, 1) == 1 ? 0 : -EIO;
}

static int signal_itself(void *arg, struct child *child, struct error *error)
{
	raise(SIGINT);
	raise(SIGTERM);
	raise(SIGHUP);
	return write_text(arg, child, error);
}

/* A terminal and systemd send them to all processes, and the job writes a window. */
static void signals_that_its_parent_blocks_do_not_end_a_job(void **state)
{
	sigset_t set, before;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &before);
	assert_int_equal(start_job(signal_itself, "answer"), 0);
	wait_for_end();
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_true(job.result->done);
	assert_int_equal(job.result->err, 0);
}

static void running_job_is_not_waited_for(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(start_job(wait_for_byte, &ends[0]), 0);
	assert_false(child_has_ended(&job, false));
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

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || seccomp_confine_acceptor() || pipe(ends) ||
	    start_job(wait_for_byte, &ends[0]))
		return 1;
	child_stop(&job);
	if (!process_exits_within(job.pid, hang_ms()))
		return 2;
	if (!child_has_ended(&job, false) || job.result->done)
		return 3;
	/* It has ended, and this process does not. */
	child_stop(&job);
	child_release(&job);
	child_stop(&job);
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

/* Returns the result of write() with the last byte that an answer may have, and after it. */
static int write_at_limit(void *arg, struct child *child, struct error *error)
{
	const off_t limit = (off_t)256 << 20;

	(void)arg;
	if (pwrite(child->file, "x", 1, limit - 1) != 1)
		return 1;
	if (pwrite(child->file, "x", 1, limit) >= 0)
		return 2;
	return error_errno(error, errno, "answer");
}

static void large_answer_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(start_job(write_at_limit, NULL), 0);
	wait_for_end();
	assert_true(job.result->done);
	assert_int_equal(job.result->err, -EFBIG);
	assert_string_equal(job.result->error, "answer: File too large");
}

static void job_without_a_process_leaves_nothing(void **state)
{
	struct rlimit files, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = files;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(start_job(write_text, "answer"), -ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(job.file, -1);
	assert_null(job.result);
	assert_true(child_has_ended(&job, false));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void job_runs_here(void **state)
{
	(void)state;
	assert_int_equal(child_prepare(&job, CHILD_JOB, sizeof(struct result)), 0);
	child_run(&job, fail_long, NULL);
	assert_true(job.result->done);
	assert_int_equal(job.result->err, -EBADMSG);
	assert_true(child_has_ended(&job, true));
}

#define TEST(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roles_have_priorities),
		cmocka_unit_test(jobs_have_limits),
		cmocka_unit_test(children_die_with_their_parent),
		cmocka_unit_test(given_rights_do_not_come_back),
		cmocka_unit_test(secrets_stay_in_their_roles),
		cmocka_unit_test(forks_wait_for_others),
		TEST(job_leaves_a_file_and_results),
		TEST(errors_have_a_message),
		TEST(crashed_job_is_not_done),
		TEST(signals_that_its_parent_blocks_do_not_end_a_job),
		TEST(running_job_is_not_waited_for),
		TEST(killed_job_is_not_done),
		TEST(large_answer_is_an_error),
		TEST(job_without_a_process_leaves_nothing),
		TEST(job_runs_here),
	};

	return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}

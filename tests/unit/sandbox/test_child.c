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

#include "patience.h"
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

static void roles_have_priorities(void **state)
{
	static const int nicer[CHILD_ROLES] = {
		[CHILD_FILE_EXPORTER] = 5,
		[CHILD_SLICE_EXPORTER] = 5,
		[CHILD_EXTRA_SESSION] = 5,
	};
	static const int nice[CHILD_ROLES] = {[CHILD_TABLE_WORKER] = 5, [CHILD_JOB] = 5};

	(void)state;
	nice_before = getpriority(PRIO_PROCESS, 0);
	for (int role = 0; role < CHILD_ROLES; role++) {
		int expected = nice[role] > nice_before ? nice[role] : nice_before + nicer[role];

		assert_int_equal(WEXITSTATUS(status_of(role, nice_of)),
				 expected < 19 ? expected : 19);
	}
}

/* Returns the number of the limit that is not as it should be; 0: none. */
static int check_limits_of_job(enum child_role role)
{
	struct rlimit cpu, file;
	sigset_t blocked;

	(void)role;
	if (memory_limit.rlim_cur != 1024 * MIB || memory_limit.rlim_max != 1024 * MIB)
		return 1;
	if (getrlimit(RLIMIT_CPU, &cpu) || cpu.rlim_cur != 60 || cpu.rlim_max != 60)
		return 2;
	if (getrlimit(RLIMIT_FSIZE, &file) || file.rlim_max != 256 * MIB)
		return 3;
	if (signal(SIGXFSZ, SIG_DFL) != SIG_IGN)
		return 4;
	if (sigprocmask(SIG_SETMASK, NULL, &blocked) || sigismember(&blocked, SIGALRM))
		return 5;
	return alarm(0) < 100 ? 6 : 0;
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
		assert_int_equal(status_of(role, role == CHILD_JOB ? check_limits_of_job
								   : check_limits_of_others),
				 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static bool outlives_parent(enum child_role role)
{
	return role == CHILD_SANDBOX_SERVER || role == CHILD_DEBUGINFOD_HELPER ||
	       role == CHILD_FILE_EXPORTER || role == CHILD_HTTP_KEEPER;
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
			     role == CHILD_JOB;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roles_have_priorities),
		cmocka_unit_test(jobs_have_limits),
		cmocka_unit_test(children_die_with_their_parent),
		cmocka_unit_test(given_rights_do_not_come_back),
		cmocka_unit_test(secrets_stay_in_their_roles),
		cmocka_unit_test(forks_wait_for_others),
	};

	return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Limits and priorities, in child processes. */
#include "sandbox/worker_limits.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "unit.h"

#define MIB ((rlim_t)1 << 20)
#define WORKER_MEMORY_MAX (6 * 1024 * MIB)

/* Returns the status of a child that runs a function, which returns its exit code. */
static int status_of(int (*function)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0)
		_exit(function());
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

/* Private writable memory of this process. */
static rlim_t data_size(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;
	int found = file ? fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) : 0;

	if (file)
		fclose(file);
	return found == 1 ? (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

static long fake_cpus, fake_gib; /* 0: as this machine has */

long sysconf(int name)
{
	static long (*real)(int name);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sysconf");
	if (name == _SC_NPROCESSORS_ONLN && fake_cpus)
		return fake_cpus;
	if (name == _SC_PHYS_PAGES && fake_gib)
		return fake_gib * (long)(1024 * MIB) / real(_SC_PAGESIZE);
	return real(name);
}

static void there_is_a_worker_for_each_cpu(void **state)
{
	static const long cpus[] = {-1, 1, 2, 64, 65};
	static const unsigned int workers[] = {1, 1, 2, 64, 64};

	(void)state;
	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		fake_cpus = cpus[i];
		assert_int_equal(worker_processes(), workers[i]);
	}
	fake_cpus = 0;
}

/* Above what the process has: 6 GiB, or such that all workers have half of the memory together. */
static int memory_is_limited_to(rlim_t extra)
{
	const rlim_t before = data_size();
	struct rlimit core, data;

	limit_memory();
	if (getrlimit(RLIMIT_CORE, &core) || getrlimit(RLIMIT_DATA, &data))
		return 1;
	if (core.rlim_cur || core.rlim_max)
		return 2;
	if (!before || data.rlim_cur < before + extra - 16 * MIB ||
	    data.rlim_cur > before + extra + 16 * MIB)
		return 3;
	/* The hard limit stays. */
	return data.rlim_max == data.rlim_cur ? 4 : 0;
}

static int memory_of_a_large_machine(void)
{
	fake_gib = 256;
	fake_cpus = 8;
	return memory_is_limited_to(WORKER_MEMORY_MAX);
}

static int memory_is_shared(void)
{
	fake_gib = 16;
	fake_cpus = 4;
	return memory_is_limited_to(2 * 1024 * MIB);
}

static int memory_is_shared_by_as_many_as_there_are(void)
{
	fake_gib = 128;
	fake_cpus = 128;
	return memory_is_limited_to(1024 * MIB);
}

static int lower_limit_stays(void)
{
	const rlim_t low = data_size() + 32 * MIB;
	struct rlimit data;

	if (getrlimit(RLIMIT_DATA, &data))
		return 1;
	data.rlim_cur = low;
	if (setrlimit(RLIMIT_DATA, &data))
		return 2;
	limit_memory();
	return getrlimit(RLIMIT_DATA, &data) || data.rlim_cur != low;
}

/* Returns the stack's limit after limit_memory(), in MiB. */
static int stack_limit_from(rlim_t limit)
{
	struct rlimit stack;

	if (getrlimit(RLIMIT_STACK, &stack))
		return -1;
	stack.rlim_cur = limit;
	if (setrlimit(RLIMIT_STACK, &stack))
		return -1;
	limit_memory();
	return getrlimit(RLIMIT_STACK, &stack) ? -1 : (int)(stack.rlim_cur / MIB);
}

static int large_stack_is_limited(void)
{
	return stack_limit_from(64 * MIB) != (int)(WORKER_STACK_MAX / MIB);
}

static int small_stack_stays(void)
{
	return stack_limit_from(2 * MIB) != 2;
}

static void memory_has_limits(void **state)
{
	(void)state;
	assert_int_equal(status_of(memory_of_a_large_machine), 0);
	assert_int_equal(status_of(memory_is_shared), 0);
	assert_int_equal(status_of(memory_is_shared_by_as_many_as_there_are), 0);
	assert_int_equal(status_of(lower_limit_stays), 0);
	assert_int_equal(status_of(large_stack_is_limited), 0);
	assert_int_equal(status_of(small_stack_stays), 0);
}

static int own_score(void)
{
	FILE *file = fopen("/proc/self/oom_score_adj", "re");
	int score = -1;

	if (!file || fscanf(file, "%d", &score) != 1)
		score = -1;
	if (file)
		fclose(file);
	return score;
}

static int victim_is_chosen(void)
{
	struct oom_score score;
	FILE *file = fopen("/proc/self/oom_score_adj", "we");

	/* A score of its own, which any process may raise. */
	if (!file || fprintf(file, "123") != 3 || fclose(file))
		return 1;
	if (oom_score_open(&score) || score.fd < 0)
		return 2;
	oom_score_set(&score, true);
	if (own_score() != 1000)
		return 3;
	oom_score_set(&score, false);
	return own_score() != 123;
}

static void worker_is_the_first_victim(void **state)
{
	const struct oom_score none = {.fd = -1, .usual = "17"};
	int before = own_score();

	(void)state;
	assert_int_equal(status_of(victim_is_chosen), 0);
	oom_score_set(&none, true);
	assert_int_equal(own_score(), before);
}

static void killed_child_is_reaped(void **state)
{
	int64_t begin;
	pid_t child = fork();
	siginfo_t end;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		for (;;)
			pause();
	}
	begin = now_ns(CLOCK_MONOTONIC);
	/* Not killed, as if it hung in the kernel: it is given up. */
	wait_killed(child);
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= NS_PER_SECOND / 10);
	assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT), 0);
	wait_killed(child);
	assert_int_equal(waitpid(child, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_a_worker_for_each_cpu),
		cmocka_unit_test(memory_has_limits),
		cmocka_unit_test(worker_is_the_first_victim),
		cmocka_unit_test(killed_child_is_reaped),
	};

	return cmocka_run_group_tests_name("worker_limits", tests, NULL, NULL);
}

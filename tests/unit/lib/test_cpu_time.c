// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include "lib/cpu_time.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"

#define USED_NS (50 * NS_PER_MS)
/* utime and stime are rounded to a clock tick each. */
#define TICKS_NS (20 * NS_PER_MS)

static void use_cpu(void)
{
	const int64_t end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + USED_NS;

	while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < end)
		;
}

static pid_t child_that_uses_cpu(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		use_cpu();
		_exit(0);
	}
	return pid;
}

static void usage_is_the_sum_of_both_modes(void **state)
{
	const struct rusage usage = {.ru_utime = {1, 2}, .ru_stime = {3, 4}};

	(void)state;
	assert_int_equal(cpu_time_of_usage(&usage), INT64_C(4000006000));
}

static void children_count_when_they_were_waited_for(void **state)
{
	int64_t before = cpu_time_own(), own = now_ns(CLOCK_PROCESS_CPUTIME_ID), children;
	pid_t pid = child_that_uses_cpu();
	siginfo_t info;

	(void)state;
	children = cpu_time_of_children(getpid());
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(cpu_time_own() - before < USED_NS + now_ns(CLOCK_PROCESS_CPUTIME_ID) - own);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* Microseconds are lost twice. */
	assert_true(cpu_time_own() - before >= USED_NS - 2000);
	assert_true(cpu_time_of_children(getpid()) - children >= USED_NS - TICKS_NS);
}

static void time_of_a_process_is_that_of_its_clock(void **state)
{
	pid_t pid = child_that_uses_cpu();
	int64_t begin = cpu_time_of_process(getpid());

	(void)state;
	while (cpu_time_of_process(pid) < USED_NS / 2)
		assert_true(cpu_time_of_process(pid) >= 0);
	assert_true(cpu_time_of_process(getpid()) >= begin && begin > 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(cpu_time_of_process(pid), -1);
	assert_int_equal(cpu_time_of_children(pid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_is_the_sum_of_both_modes),
		cmocka_unit_test(children_count_when_they_were_waited_for),
		cmocka_unit_test(time_of_a_process_is_that_of_its_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "inspect/thread_stop.h"
#include "lib/error.h"
#include "lib/thread_state.h"

static int64_t step_s; /* by which the clock goes on whenever it is read */
static int64_t passed_s; /* by which it has gone on */
static char shown_state; /* of the thread */
static unsigned int looks; /* at it */
static int held; /* by a grandchild: when it is closed, the thread goes on */
static bool lets_go; /* when its state is looked at */

/* Replaces libc's function: time does not pass while the machine is busy. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	passed_s += step_s;
	*time = (struct timespec){.tv_sec = passed_s};
	return 0;
}

char thread_state(pid_t pid, pid_t tid)
{
	assert_int_equal(pid, tid);
	looks++;
	/* From then on, no time passes. */
	if (lets_go) {
		close(held);
		step_s = 0;
	}
	lets_go = false;
	return shown_state;
}

/* Starts a process that waits in the kernel, for vfork(2), until `held` is closed. */
static pid_t start_waiting(void)
{
	int ends[2], begun[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(begun), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[1]);
		/* NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork) */
		if (!vfork()) {
			write(begun[1], "", 1);
			read(ends[0], &byte, 1);
			_exit(0);
		}
		for (;;)
			pause();
	}
	close(ends[0]);
	close(begun[1]);
	assert_int_equal(read(begun[0], &byte, 1), 1);
	close(begun[0]);
	held = ends[1];
	return pid;
}

static void end_waiting(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void thread_without_a_cpu_is_waited_for(void **state)
{
	struct thread_copy copy = {0};
	struct error error;
	pid_t pid = start_waiting();

	(void)state;
	step_s = 2;
	shown_state = THREAD_RUNNABLE;
	lets_go = true;
	assert_int_equal(thread_copy_read(pid, pid, &copy, &error), 0);
	assert_false(lets_go);
	assert_true(copy.registers[STACKBEAT_REGISTER_RSP]);
	end_waiting(pid);
}

static void thread_that_waits_in_the_kernel_is_given_up(void **state)
{
	struct thread_copy copy = {0};
	struct error error;
	pid_t pid = start_waiting();

	(void)state;
	step_s = 2;
	looks = 0;
	shown_state = 'D';
	assert_int_equal(thread_copy_read(pid, pid, &copy, &error), -ETIMEDOUT);
	step_s = 0;
	assert_int_equal(looks, 1);
	assert_non_null(strstr(error.text, "does not stop: it waits in the kernel"));
	close(held);
	end_waiting(pid);
}

/* Without a CPU for ten seconds. */
static void thread_that_never_stops_is_given_up(void **state)
{
	struct thread_copy copy = {0};
	struct error error;
	pid_t pid = start_waiting();

	(void)state;
	step_s = 4;
	looks = 0;
	shown_state = THREAD_RUNNABLE;
	assert_int_equal(thread_copy_read(pid, pid, &copy, &error), -ETIMEDOUT);
	step_s = 0;
	assert_int_equal(looks, 2);
	close(held);
	end_waiting(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread_without_a_cpu_is_waited_for),
		cmocka_unit_test(thread_that_waits_in_the_kernel_is_given_up),
		cmocka_unit_test(thread_that_never_stops_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

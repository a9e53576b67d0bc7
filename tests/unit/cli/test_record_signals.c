// SPDX-License-Identifier: GPL-2.0
/* Signals of a recording: which ones interrupt the writing of a file, and when it is killed. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/record_signals.h"
#include "lib/error.h"
#include "record/child_command.h"
#include "sandbox/child.h"

static struct signal_handling old;
static int signals;

static int set_up(void **state)
{
	struct error error;

	(void)state;
	signals = record_signals_open(&old, &error);
	return signals < 0;
}

static int tear_down(void **state)
{
	struct signalfd_siginfo info;

	(void)state;
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		;
	close(signals);
	sigaction(SIGPIPE, &old.pipe, NULL);
	sigaction(SIGXFSZ, &old.file_size, NULL);
	return sigprocmask(SIG_SETMASK, &old.mask, NULL);
}

static unsigned int polls, returns_at_once; /* without a signal */

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct timespec time = {.tv_nsec = timeout * 1000000L};

	polls++;
	returns_at_once += timeout >= 0;
	return ppoll(fds, count, timeout < 0 ? NULL : &time, NULL);
}

static bool is_readable(int fd)
{
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	return poll(&polled, 1, 0) == 1;
}

/* A command that ends, or a request for a file, is no reason to stop the symbolization. */
static void only_ends_of_the_recording_interrupt(void **state)
{
	int here = record_signals_interruption(true), exporter = record_signals_interruption(false);
	struct signalfd_siginfo info;

	(void)state;
	raise(SIGCHLD);
	raise(SIGUSR2);
	assert_true(is_readable(signals));
	assert_false(is_readable(here));
	assert_false(is_readable(exporter));
	raise(SIGINT);
	assert_true(is_readable(here));
	assert_false(is_readable(exporter));
	raise(SIGTERM);
	assert_true(is_readable(exporter));
	/* They still end the recording. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(read(signals, &info, sizeof(info)), sizeof(info));
	assert_false(is_readable(here));
	close(here);
	close(exporter);
}

/* Returns a child that exits, or else waits for ever: for SIGTERM, or only SIGKILL. */
static pid_t start_child(bool exits, bool hangs)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	/* Before the signals are unblocked: the first one may have come already. */
	signal(SIGTERM, hangs ? SIG_IGN : SIG_DFL);
	sigprocmask(SIG_SETMASK, &old.mask, NULL);
	if (exits)
		_exit(7);
	for (;;)
		pause();
}

static void end_of_the_child_is_waited_for(void **state)
{
	struct child child = {.pid = start_child(true, false)};

	(void)state;
	assert_int_equal(record_signals_wait(signals, &child), 0);
	assert_true(WIFEXITED(child.status));
	assert_int_equal(WEXITSTATUS(child.status), 7);
}

/* As a worker: it sends what a user would press. */
static void send_signals(int count)
{
	if (fork())
		return;
	for (int i = 0; i < count; i++) {
		/* Equal signals that are pending are one. */
		kill(getppid(), i % 2 ? SIGTERM : SIGINT);
		usleep(10000);
	}
	_exit(0);
}

static void first_signal_ends_the_child(void **state)
{
	struct child child = {.pid = start_child(false, false)};

	(void)state;
	send_signals(1);
	assert_int_equal(record_signals_wait(signals, &child), 0);
	assert_true(WIFSIGNALED(child.status));
	assert_int_equal(WTERMSIG(child.status), SIGTERM);
	wait(NULL);
}

static void second_signal_kills_a_child_that_hangs(void **state)
{
	struct child child = {.pid = start_child(false, true)};
	int status;

	(void)state;
	send_signals(2);
	assert_int_equal(record_signals_wait(signals, &child), -EINTR);
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	wait(NULL);
}

/* A loop would take the CPU time that the child needs to write its file. */
static void waits_for_a_signal_without_a_loop(void **state)
{
	struct child child = {.pid = start_child(false, false)};

	(void)state;
	send_signals(1);
	polls = returns_at_once = 0;
	assert_int_equal(record_signals_wait(signals, &child), 0);
	assert_in_range(polls, 1, 4);
	assert_int_equal(returns_at_once, 0);
	wait(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(only_ends_of_the_recording_interrupt),
		TEST(end_of_the_child_is_waited_for),
		TEST(first_signal_ends_the_child),
		TEST(second_signal_kills_a_child_that_hangs),
		TEST(waits_for_a_signal_without_a_loop),
	};

	return cmocka_run_group_tests_name("record_signals", tests, NULL, NULL);
}

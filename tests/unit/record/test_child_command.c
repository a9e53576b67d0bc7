// SPDX-License-Identifier: GPL-2.0
/* The command that is profiled: its start, its end and its exit status. */
#include "record/child_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "unit.h"

static struct child_command child;
static struct error error;

static bool prints_to_stderr; /* of the next command */

static void prepare(char *program, char *argument)
{
	char *argv[] = {program, "-c", argument, NULL};
	struct signal_handling signals = {
		.pipe.sa_handler = SIG_DFL,
		.file_size.sa_handler = SIG_IGN,
	};
	const struct command_setup setup = {&signals, prints_to_stderr};

	sigemptyset(&signals.mask);
	*error.text = '\0';
	assert_int_equal(child_command_prepare(&child, argv, &setup, &error), 0);
	assert_true(child.pid > 0);
	assert_false(child.ended);
}

static void wait_for_end(void)
{
	siginfo_t info;

	assert_int_equal(waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0);
	child_command_reap(&child);
	assert_true(child.ended);
}

static void exit_status_is_passed_on(void **state)
{
	(void)state;
	prepare("/bin/sh", "exit 7");
	assert_int_equal(child_command_release(&child, "sh", &error), 0);
	wait_for_end();
	assert_int_equal(child_command_pass_status(&child), 7);
	/* It ends once. */
	child_command_end(&child);
	/* Its pipes are closed, and nothing else is, again and again. */
	assert_int_equal(child.go_fd, 0);
	assert_int_equal(child.exec_error_fd, 0);
	child_command_reap(&child);
	assert_int_equal(child_command_pass_status(&child), 7);
}

static void signals_are_handled_as_before(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	prepare("/bin/sh", "kill -XFSZ $$; kill -PIPE $$; exit 7");
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(child_command_release(&child, "sh", &error), 0);
	wait_for_end();
	assert_true(WIFSIGNALED(child.status));
	assert_int_equal(WTERMSIG(child.status), SIGPIPE);
	child_command_end(&child);
}

static void signal_is_passed_on(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	prepare("/bin/sh", "kill -USR1 $$");
	assert_int_equal(child_command_release(&child, "sh", &error), 0);
	wait_for_end();
	pid = fork();
	if (pid == 0) {
		signal(SIGUSR1, SIG_IGN);
		_exit(child_command_pass_status(&child));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGUSR1);
}

static void assert_not_run(char *program, int code)
{
	char expected[256];

	prepare(program, "");
	assert_int_equal(child_command_release(&child, program, &error), -code);
	snprintf(expected, sizeof(expected), "can't run '%s': %s", program, strerror(code));
	assert_string_equal(error.text, expected);
	assert_true(child.ended);
}

static void command_that_cannot_run_is_reported(void **state)
{
	(void)state;
	assert_not_run("/nonexistent", ENOENT);
	assert_not_run("/proc", EACCES);
}

static void command_is_not_run_before_its_release(void **state)
{
	int ends[2];
	char byte, script[64];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	snprintf(script, sizeof(script), "echo >&%d", ends[1]);
	prepare("/bin/sh", script);
	child_command_end(&child);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	assert_true(child.ended);
}

/* The profile is on standard output then. */
static void output_goes_to_standard_error_if_asked_for(void **state)
{
	const int saved = dup(STDERR_FILENO);
	char text[16] = "";
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	prints_to_stderr = true;
	prepare("/bin/sh", "echo printed");
	prints_to_stderr = false;
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(ends[1]);
	assert_int_equal(child_command_release(&child, "sh", &error), 0);
	wait_for_end();
	assert_int_equal(read(ends[0], text, sizeof(text) - 1), strlen("printed\n"));
	assert_string_equal(text, "printed\n");
	close(ends[0]);
	child_command_end(&child);
}

static void running_command_is_ended(void **state)
{
	(void)state;
	prepare("/bin/sh", "exec sleep 1000");
	assert_int_equal(child_command_release(&child, "sh", &error), 0);
	child_command_reap(&child);
	assert_false(child.ended);
	/* It handles the signal when it continues. */
	assert_int_equal(kill(child.pid, SIGSTOP), 0);
	child_command_end(&child);
	assert_true(child.ended);
	assert_true(WIFSIGNALED(child.status));
	assert_int_equal(WTERMSIG(child.status), SIGTERM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_status_is_passed_on),
		cmocka_unit_test(signals_are_handled_as_before),
		cmocka_unit_test(signal_is_passed_on),
		cmocka_unit_test(command_that_cannot_run_is_reported),
		cmocka_unit_test(command_is_not_run_before_its_release),
		cmocka_unit_test(output_goes_to_standard_error_if_asked_for),
		cmocka_unit_test(running_command_is_ended),
	};

	return cmocka_run_group_tests_name("child_command", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "record/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cpu_time.h"
#include "lib/error.h"
#include "lib/pidfd.h"

#define TERM_TIMEOUT_MS 5000
#define KILL_TIMEOUT_MS 200

static void exec_command(int go, int failed, char **argv, const struct command_setup *setup)
{
	char byte;
	int code;

	/* The recorder gave up or died: the command is not run then. */
	if (read(go, &byte, 1) != 1)
		_exit(0);
	sigaction(SIGPIPE, &setup->signals->pipe, NULL);
	sigaction(SIGXFSZ, &setup->signals->file_size, NULL);
	sigprocmask(SIG_SETMASK, &setup->signals->mask, NULL);
	if (!setup->prints_to_stderr || dup2(STDERR_FILENO, STDOUT_FILENO) == STDOUT_FILENO)
		execvp(argv[0], argv);
	code = errno;
	if (write(failed, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(code == ENOENT ? 127 : 126);
}

int child_command_prepare(struct child_command *child, char **argv,
			  const struct command_setup *setup, struct error *error)
{
	int go[2], failed[2], code;

	*child = (struct child_command){0};
	if (pipe2(go, O_CLOEXEC))
		return error_errno(error, errno, "can't start '%s'", argv[0]);
	if (pipe2(failed, O_CLOEXEC)) {
		code = errno;
		goto err_failed;
	}
	child->pid = fork();
	if (child->pid < 0) {
		code = errno;
		child->pid = 0;
		goto err_fork;
	}
	if (!child->pid) {
		close(go[1]);
		close(failed[0]);
		exec_command(go[0], failed[1], argv, setup);
	}
	close(go[0]);
	close(failed[1]);
	child->go_fd = go[1];
	child->exec_error_fd = failed[0];
	return 0;

err_fork:
	close(failed[0]);
	close(failed[1]);
err_failed:
	close(go[0]);
	close(go[1]);
	return error_errno(error, code, "can't start '%s'", argv[0]);
}

static void close_pipe(int *fd)
{
	if (*fd)
		close(*fd);
	*fd = 0;
}

int child_command_release(struct child_command *child, const char *name, struct error *error)
{
	ssize_t length;
	int code = 0;

	if (write(child->go_fd, "", 1) != 1)
		code = errno;
	close_pipe(&child->go_fd);
	/* A successful exec closes the other end: nothing can be read then. */
	do {
		length = code ? 0 : read(child->exec_error_fd, &code, sizeof(code));
	} while (length < 0 && errno == EINTR);
	close_pipe(&child->exec_error_fd);
	if (!code)
		return 0;
	child_command_end(child);
	return error_errno(error, code, "can't run '%s'", name);
}

void child_command_reap(struct child_command *child)
{
	struct rusage usage;
	pid_t pid;

	if (!child->pid || child->ended)
		return;
	do {
		pid = wait4(child->pid, &child->status, WNOHANG, &usage);
	} while (pid < 0 && errno == EINTR);
	child->ended = pid == child->pid;
	if (child->ended)
		child->cpu_ns = cpu_time_of_usage(&usage);
}

void child_command_end(struct child_command *child)
{
	close_pipe(&child->go_fd);
	close_pipe(&child->exec_error_fd);
	child_command_reap(child);
	if (!child->pid || child->ended)
		return;
	kill(child->pid, SIGTERM);
	/* A stopped process handles SIGTERM when it continues. */
	kill(child->pid, SIGCONT);
	if (!process_exits_within(child->pid, TERM_TIMEOUT_MS))
		kill(child->pid, SIGKILL);
	process_exits_within(child->pid, KILL_TIMEOUT_MS);
	child_command_reap(child);
}

int child_command_pass_status(const struct child_command *child)
{
	sigset_t set;
	int number;

	if (WIFEXITED(child->status))
		return WEXITSTATUS(child->status);
	number = WTERMSIG(child->status);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	return 128 + number;
}

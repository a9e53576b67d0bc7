// SPDX-License-Identifier: GPL-2.0
#include "record/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/pidfd.h"

#define END_PATIENCE_MS 5000
#define KILLED_MS 200

static void run_child(int go, int failed, char **command, const sigset_t *mask)
{
	char byte;
	int code;

	/* The reader gave up, or died: nothing to run then. */
	if (read(go, &byte, 1) != 1)
		_exit(0);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(command[0], command);
	code = errno;
	if (write(failed, &code, sizeof(code)) < 0)
		_exit(126);
	_exit(code == ENOENT ? 127 : 126);
}

int child_command_prepare(struct child_command *target, char **command, const sigset_t *mask,
			  struct error *error)
{
	int go[2], failed[2], code;

	*target = (struct child_command){0};
	if (pipe2(go, O_CLOEXEC))
		return error_errno(error, errno, "can't start '%s'", command[0]);
	if (pipe2(failed, O_CLOEXEC)) {
		code = errno;
		goto err_failed;
	}
	target->pid = fork();
	if (target->pid < 0) {
		code = errno;
		target->pid = 0;
		goto err_fork;
	}
	if (!target->pid) {
		close(go[1]);
		close(failed[0]);
		run_child(go[0], failed[1], command, mask);
	}
	close(go[0]);
	close(failed[1]);
	target->go = go[1];
	target->failed = failed[0];
	return 0;

err_fork:
	close(failed[0]);
	close(failed[1]);
err_failed:
	close(go[0]);
	close(go[1]);
	return error_errno(error, code, "can't start '%s'", command[0]);
}

static void close_pipe(int *fd)
{
	if (*fd)
		close(*fd);
	*fd = 0;
}

int child_command_release(struct child_command *target, const char *name, struct error *error)
{
	ssize_t length;
	int code = 0;

	if (write(target->go, "", 1) != 1)
		code = errno;
	close_pipe(&target->go);
	/* Ends without a byte when exec succeeds: the other end is closed by it. */
	do {
		length = code ? 0 : read(target->failed, &code, sizeof(code));
	} while (length < 0 && errno == EINTR);
	close_pipe(&target->failed);
	if (!code)
		return 0;
	child_command_end(target);
	return error_errno(error, code, "can't run '%s'", name);
}

static void note_end(struct child_command *target, int options)
{
	pid_t pid;

	if (!target->pid || target->ended)
		return;
	do {
		pid = waitpid(target->pid, &target->status, options);
	} while (pid < 0 && errno == EINTR);
	target->ended = pid == target->pid;
}

void child_command_reap(struct child_command *target)
{
	note_end(target, WNOHANG);
}

void child_command_end(struct child_command *target)
{
	close_pipe(&target->go);
	close_pipe(&target->failed);
	child_command_reap(target);
	if (!target->pid || target->ended)
		return;
	kill(target->pid, SIGTERM);
	/* One that is stopped ends when it goes on; one that does not want to is made to. */
	kill(target->pid, SIGCONT);
	if (!process_exits_within(target->pid, END_PATIENCE_MS))
		kill(target->pid, SIGKILL);
	note_end(target, process_exits_within(target->pid, KILLED_MS) ? 0 : WNOHANG);
}

int child_command_pass_status(const struct child_command *target)
{
	sigset_t set;
	int number;

	if (WIFEXITED(target->status))
		return WEXITSTATUS(target->status);
	number = WTERMSIG(target->status);
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	return 128 + number;
}

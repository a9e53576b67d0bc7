/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command that is profiled. It is started in two steps, so that the session is configured with
 * its process ID before its first instruction.
 */
#ifndef STACKBEAT_RECORD_CHILD_COMMAND_H
#define STACKBEAT_RECORD_CHILD_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* How a process handles signals. */
struct signal_handling {
	sigset_t mask;
	struct sigaction pipe, file_size; /* SIGPIPE, SIGXFSZ */
};

/* What the command gets from the recorder. */
struct command_setup {
	const struct signal_handling *signals;
	bool prints_to_stderr; /* what it prints to standard output goes to standard error */
};

/* All zero: no command. */
struct child_command {
	pid_t pid; /* 0: none */
	bool ended;
	int status; /* of waitpid(), if `ended` */
	int64_t cpu_ns; /* with its descendants, if `ended` */
	int go_fd; /* private: a byte written here lets the child exec */
	int exec_error_fd; /* private: the errno of a failed exec can be read here */
};

/*
 * Forks a child that runs `argv` (NULL-terminated) with `setup` after child_command_release().
 * Returns 0 or a negative errno value.
 */
int child_command_prepare(struct child_command *child, char **argv,
			  const struct command_setup *setup, struct error *error);

/*
 * Lets the child exec its command; `name` is for the message. Returns 0, or a negative errno
 * value: the child has ended then.
 */
int child_command_release(struct child_command *child, const char *name, struct error *error);

/* Sets `ended` and `status` if the child has ended; doesn't wait. */
void child_command_reap(struct child_command *child);

/*
 * Ends the child if it runs, by SIGTERM or, if that doesn't end it, SIGKILL, and waits for it: not
 * for long after SIGKILL, as it may hang in the kernel.
 */
void child_command_end(struct child_command *child);

/*
 * The exit status to pass on. Doesn't return if a signal ended the command: then the same signal
 * ends this process, as in perf.
 */
int child_command_pass_status(const struct child_command *child);

#endif

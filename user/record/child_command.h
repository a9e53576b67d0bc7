/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The command that is profiled: started in two steps, so that the sampler knows
 * its process before the first instruction of it runs.
 */
#ifndef STACKBEAT_RECORD_CHILD_COMMAND_H
#define STACKBEAT_RECORD_CHILD_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct error;

struct child_command {
	pid_t pid; /* 0: none */
	bool ended;
	int status; /* as waitpid() tells, once ended */
	int go; /* written to when it may run */
	int failed; /* tells the errno of an exec that failed */
};

/*
 * Forks a child that will run `command` (NULL-terminated) with the signal mask
 * `mask` once child_command_release() is called. Returns 0 or a negative errno value.
 */
int child_command_prepare(struct child_command *target, char **command, const sigset_t *mask,
			  struct error *error);

/* Lets it run. Returns 0, or a negative errno value: then it has ended. */
int child_command_release(struct child_command *target, const char *name, struct error *error);

/* Looks, without waiting, whether it has ended. */
void child_command_reap(struct child_command *target);

/* Ends it with SIGTERM if it runs, or with SIGKILL where that does not, and waits for it. */
void child_command_end(struct child_command *target);

/*
 * The exit status to pass on. Where the command was ended by a signal, does not
 * return: ends this process by the same signal, as perf does.
 */
int child_command_pass_status(const struct child_command *target);

#endif

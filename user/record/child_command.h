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

struct target {
	pid_t pid; /* 0: none */
	bool ended;
	int status; /* as waitpid() tells, once ended */
	int go; /* written to when it may run */
	int failed; /* tells the errno of an exec that failed */
};

/*
 * Forks a child that will run `command` (NULL-terminated) with the signal mask
 * `mask` once target_release() is called. Returns 0 or a negative errno value.
 */
int target_prepare(struct target *target, char **command, const sigset_t *mask,
		   struct error *error);

/* Lets it run. Returns 0, or a negative errno value: then it has ended. */
int target_release(struct target *target, const char *name, struct error *error);

/* Looks, without waiting, whether it has ended. */
void target_reap(struct target *target);

/* Ends it with SIGTERM if it runs, or with SIGKILL where that does not, and waits for it. */
void target_end(struct target *target);

/*
 * The exit status to pass on. Where the command was ended by a signal, does not
 * return: ends this process by the same signal, as perf does.
 */
int target_pass_status(const struct target *target);

#endif

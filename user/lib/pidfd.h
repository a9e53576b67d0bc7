/* SPDX-License-Identifier: GPL-2.0 */
/* Waits for the end of processes by pidfds. */
#ifndef STACKBEAT_LIB_PIDFD_H
#define STACKBEAT_LIB_PIDFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Returns whether a process has exited, or exits within `milliseconds`. It may still be a zombie.
 * Returns false, too, where pidfd_open() fails for another reason than a missing process.
 */
bool process_exits_within(pid_t pid, int milliseconds);

struct pollfd;

/* Watched processes. All zero: none. */
struct process_watch {
	struct pollfd *processes; /* those that run; fd is a pidfd, or -1 if it can't be opened */
	size_t count;
};

/*
 * Opens the processes with these IDs (those that exist), so that an ID that is used again later
 * does not count. Raises the soft limit of open files of this process by their number, within the
 * hard limit. Returns 0, to be followed by process_watch_close(), or -ENOMEM.
 */
int process_watch_open(struct process_watch *watch, const uint32_t *ids, size_t count);

/*
 * Returns whether all processes have exited. A process that could not be opened for another reason
 * than that it is missing counts as running.
 */
bool process_watch_has_ended(struct process_watch *watch);

void process_watch_close(struct process_watch *watch);

#endif

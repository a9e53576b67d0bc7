/* SPDX-License-Identifier: GPL-2.0 */
/* The signals of `stackbeat record`: they are blocked, and read from a signalfd. */
#ifndef STACKBEAT_CLI_RECORD_SIGNALS_H
#define STACKBEAT_CLI_RECORD_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

struct child;
struct error;
struct signal_handling;

/*
 * Blocks the signals that end a recording (SIGINT, SIGTERM, SIGQUIT, SIGXCPU, and SIGHUP unless it
 * is ignored), SIGCHLD, SIGUSR2, which requests a file, and SIGUSR1: batch systems send it to all
 * processes of a job, for the command. Ignores SIGPIPE and SIGXFSZ: a message that nobody reads, or
 * a file that is too large, must not end it. *old is how they were handled before. Returns a
 * signalfd for those that are blocked, which does not block, or a negative errno value.
 */
int record_signals_open(struct signal_handling *old, struct error *error);

/*
 * Returns another signalfd, which is readable when one of the blocked signals interrupts a
 * symbolization: SIGTERM, and SIGINT if `of_terminal`. 0: none is left. Who only polls it leaves
 * the signal for the other signalfd, too.
 */
int record_signals_interruption(bool of_terminal);

/* From now on, `signals` receives SIGINT and SIGTERM only. */
void record_signals_restrict(int signals);

/*
 * Waits until child_has_ended(). The first SIGINT or SIGTERM sends SIGTERM to it, the second one
 * SIGKILL. `signals` receives these and SIGCHLD from now on. Returns 0, or -EINTR after SIGKILL,
 * without waiting: a file system may hang for ever.
 */
int record_signals_wait(int signals, struct child *child);

#endif

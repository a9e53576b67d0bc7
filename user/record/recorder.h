/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One recording: opens a session, runs the command, drains the rings until something ends the
 * recording, and reads the counters.
 */
#ifndef STACKBEAT_RECORD_RECORDER_H
#define STACKBEAT_RECORD_RECORDER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/pidfd.h"
#include "record/child_command.h"
#include "record/collector.h"
#include "record/profile_export.h"
#include "session/session.h"

struct error;
struct sample_totals;

/* Strings and pointers are not owned, and must outlive the recorder. */
struct recorder_config {
	const struct session_config *session;
	double seconds; /* 0: until stopped */
	uint32_t labels; /* LABEL_SET()s by which samples are distinguished */
	const char *save_binaries; /* directory, or NULL */
	bool no_symbolize; /* no symbols are read */
	char **command; /* NULL-terminated; NULL: none */
	const sigset_t *command_signals; /* the signal mask of the command */
	/*
	 * A file descriptor that wakes the recorder when it is readable, or -1. `stop_requested` is
	 * called after each drain, and ends the recording when it returns true.
	 */
	int wake_fd;
	bool (*stop_requested)(void *arg);
	/* A problem that doesn't end the recording. */
	void (*warning)(const char *text, void *arg);
	/* Called once a second, with counters up to date; NULL: never. */
	void (*progress)(const struct recording *recording, const struct sample_totals *totals,
			 void *arg);
	void *arg; /* of the callbacks */
};

struct recorder {
	struct session session; /* `loaded`, `rate` and `parts` are for the caller */
	struct collector collector;
	struct child_command command;
	struct process_watch targets; /* private: the processes of the config */
	struct recording recording; /* counters, times, rate and cpus are the recorder's */
	int64_t own_cpu_start; /* private: ns of CPU time before the recording */
};

/*
 * Opens a session, and loads the module if necessary; `recorder` is all zero, but for the fields
 * of `recording` that are the caller's. Returns 0 or a negative errno value. recorder_free() is to
 * be called in both cases, and `recorder` must not move until then.
 */
int recorder_open(struct recorder *recorder, const struct recorder_config *config,
		  struct error *error);

/*
 * Records until the command ends, the duration is over, all processes of the config have ended, the
 * session is stopped, `stop_requested` returns true, or an error occurs. Returns 0, or the first
 * error as a negative errno value. In both cases, all samples that could be read are in the
 * collector.
 */
int recorder_run(struct recorder *recorder, const struct recorder_config *config,
		 struct error *error);

/* Closes the session, which frees its timers, rings and files; the samples stay. */
void recorder_close(struct recorder *recorder);

/* Ends the command if it still runs, and frees everything. */
void recorder_free(struct recorder *recorder);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One recording: opens a session, runs the command, drains the rings until something ends the
 * recording, and reads the counters. It has windows: what was recorded can be taken meanwhile.
 */
#ifndef STACKBEAT_RECORD_RECORDER_H
#define STACKBEAT_RECORD_RECORDER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/pidfd.h"
#include "lib/wall_clock.h"
#include "record/child_command.h"
#include "record/collector.h"
#include "record/profile_export.h"
#include "sandbox/fork_server.h"
#include "source/session.h"

struct error;
struct sample_totals;
struct sandbox_server;
struct file_cache;

/* Strings and pointers are not owned, and must outlive the recorder. */
struct recorder_config {
	const struct session_config *session;
	double seconds; /* 0: until stopped */
	const struct labels *labels; /* of the samples */
	size_t memory; /* bytes for what is recorded, see collector_limit_memory(); 0: no limit */
	bool takes_when_full; /* `drained` calls recorder_take() when collector_is_full() */
	const char *save_binaries; /* directory, or NULL */
	bool no_symbolize; /* no symbols are read */
	unsigned int verify_timeout_s; /* see verification_run() */
	const struct sandbox_server *sandbox; /* of worker_main() (symbolize/worker.h); of unwind
						 tables and `save_binaries` */
	struct file_cache
		*cache; /* of what was read of files (debuginfo/file_cache.h); NULL: none */
	pid_t helper; /* downloads debug files for the symbols; 0: none */
	bool shares_sandbox; /* it has worked for other recordings before */
	char **command; /* NULL-terminated; NULL: none */
	struct command_setup command_setup;
	/*
	 * A file descriptor that wakes the recorder when it is readable, or -1. `stop_requested` is
	 * called after each drain, and ends the recording when it returns true.
	 */
	int wake_fd;
	bool (*stop_requested)(void *arg);
	/* Called after each drain; it may call the functions below. NULL: never. */
	void (*drained)(void *arg);
	/* Called with the session when it is configured; NULL: never. */
	void (*configured)(const struct session *session, void *arg);
	/* A problem that doesn't end the recording. */
	void (*warning)(const char *text, void *arg);
	/* Called with one line per unwind table. NULL: off. */
	void (*table)(const char *text, void *arg);
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
	int64_t wake_at; /* CLOCK_MONOTONIC, ns: drains at this time at the latest; 0: no such time
			  */
	/* Set by the caller: CPU time of processes that it forked for files, and of these the time
	 * for symbols. */
	int64_t forked_cpu_ns, forked_symbols_ns;
	bool is_ended_by_others; /* recorder_run() has returned because the session was stopped */
	uint64_t clock_steps; /* how often the wall clock was set since the start, by a second or
				 more */
	/* Private. */
	uint64_t anonymous_code; /* events at the last drain */
	/* CLOCK_MONOTONIC, ns: when the rings are drained to compare text that a program may have
	 * moved (0: no such time), and the earliest time at which an event sets it again. */
	int64_t compare_at, compare_next;
	void *reserve; /* memory that is not used before sampling has ended */
	const struct sandbox_server *sandbox; /* NULL: none */
	struct sandbox_cpu sandbox_cpu, sandbox_before; /* now, and before the recording */
	int64_t sandbox_asked_after; /* CLOCK_MONOTONIC, ns: it did not answer before */
	pid_t helper;
	int64_t helper_cpu_ns;
	int64_t own_cpu_ns[CPU_PARTS]; /* of this process and the openers that it forked */
	int64_t start; /* CLOCK_MONOTONIC, ns */
	struct wall_clock clock;
	bool stopped; /* the counters are as at the stop */
	uint64_t stats[STACKBEAT_S_COUNT]; /* of the module, as they were last read */
	struct recording taken; /* the counters and the duration at the last recorder_take() */
	int64_t taken_suspended_ns; /* see wall_clock.h; likewise */
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
 * collector, and memory is left to take them, also after -ENOMEM.
 */
int recorder_run(struct recorder *recorder, const struct recorder_config *config,
		 struct error *error);

/*
 * Moves all samples since the last call (or the start) to `window`, which the caller frees with
 * window_clear(), and sets `recording` to the times and counters of that period: the sums over all
 * windows with samples are the sums of the whole recording. The start is given by the wall clock as
 * it is set now, so that it may follow a step of it. Sampling goes on meanwhile, and nothing is
 * lost or counted twice. May be called from `drained`, and after recorder_run(). Returns 0, or a
 * negative errno value: then all samples stay for the next call, and `window` is empty.
 */
int recorder_take(struct recorder *recorder, struct window *window, struct recording *recording,
		  struct error *error);

/*
 * As recorder_take(), after recorder_run() and for the last time: where memory is not enough for
 * all samples, returns -ENOMEM, and `window` has those for which it is.
 */
int recorder_take_last(struct recorder *recorder, struct window *window,
		       struct recording *recording, struct error *error);

/*
 * Call after recorder_take() has returned a window without samples: the next window begins at the
 * end of this one, and not at its start. The counters of this one are still in the next one.
 */
void recorder_skip_empty(struct recorder *recorder);

/*
 * As recorder_take(), but takes nothing: sets *window to the samples in the recorder, until another
 * function is called.
 */
int recorder_peek(struct recorder *recorder, struct window **window, struct recording *recording,
		  struct error *error);

/* Sets `recording` to the times and counters since the start. Returns 0 or a negative errno value.
 */
int recorder_measure(struct recorder *recorder, struct recording *recording, struct error *error);

/*
 * Adds to `recording`, of the window that was taken last, the CPU time that this command has used
 * since then, or since the last call: the next window has it not. The time of this process since
 * then was for `part`; what other processes work for is known.
 */
void recorder_count_cpu(struct recorder *recorder, struct recording *recording, enum cpu_part part);

/* Closes the session, which frees its timers, rings and files; the samples stay. */
void recorder_close(struct recorder *recorder);

/* Ends the command if it still runs, and frees everything. */
void recorder_free(struct recorder *recorder);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Work on profiles for HTTP requests and the store, each in a process of its own: it may take as
 * long and as much memory as its limits allow, and fail, while other requests are answered.
 */
#ifndef STACKBEAT_SERVE_PROFILE_JOB_H
#define STACKBEAT_SERVE_PROFILE_JOB_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "store/store.h"

struct error;

/* What a job leaves beside its file. */
struct profile_job_result {
	bool done;
	int err; /* 0 or a negative errno value */
	char error[160]; /* message of `err` */
	/* Of a job for the store, also if it was killed: what it had done. */
	struct store_counts store;
	uint64_t windows, window_bytes; /* in the store */
	struct store_damaged damaged;
	sem_t end; /* private: profile_job_kill() */
};

/* All zero but `file`, which is -1: none. */
struct profile_job {
	pid_t pid; /* 0: it has ended */
	int file; /* what it has written */
	struct profile_job_result *result;
};

/* The work: writes to `file`, and may set the members of `result` for the store. */
typedef int profile_job_function(void *arg, int file, struct profile_job_result *result,
				 struct error *error);

/* Starts a job, in a copy of this process. Returns 0 or a negative errno value. */
int profile_job_start(struct profile_job *job, profile_job_function *work, void *arg);

/* Returns whether the job has ended; does not wait. Then, result->done says if it came to its end.
 */
bool profile_job_has_ended(struct profile_job *job);

/* Ends a job that still runs, soon, and before it comes to its end. Needs no right to signal.
 */
void profile_job_kill(struct profile_job *job);

/* Frees the results. A job that still runs goes on. */
void profile_job_release(struct profile_job *job);

#endif

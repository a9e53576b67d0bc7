/* SPDX-License-Identifier: GPL-2.0 */
/* Compiles unwind tables (compile.h) in workers without rights (sandbox/fork_server.h). */
#ifndef STACKBEAT_UNWIND_JOB_H
#define STACKBEAT_UNWIND_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/compile.h"

struct sandbox_server;

/*
 * Nanoseconds of CPU time that a worker may use, in which it may hang, and that may pass. It runs
 * beside busy programs, possibly at a low priority.
 */
#define UNWIND_JOB_CPU_NS (INT64_C(60) * 1000 * 1000 * 1000)
#define UNWIND_JOB_HANG_NS (INT64_C(60) * 1000 * 1000 * 1000)
#define UNWIND_JOB_NS (INT64_C(300) * 1000 * 1000 * 1000)

/* A file that is being compiled. */
struct unwind_job {
	int lifeline; /* readable when the worker has ended or was killed; poll it */
	int result; /* memfd */
	int64_t deadline; /* CLOCK_MONOTONIC, ns: call unwind_job_finish() then at the latest */
};

/*
 * Starts to compile a file, whose fd the caller keeps and may close: an urgent one at the usual
 * priority, others at a low one. Does not wait. Returns 0 or a negative errno value.
 * unwind_job_finish() must follow.
 */
int unwind_job_start(struct unwind_job *job, const struct sandbox_server *server, int fd,
		     bool is_urgent);

/*
 * Ends a job, and its worker if that still runs. Returns 0 and sets *summary, and *table, which the
 * caller frees, to a valid table; NULL if the file has none, see summary->result. Or returns
 * -ETIMEDOUT if the worker has not ended or hung, -ETIME if it has used up its CPU time, as it
 * would again, -ECANCELED if it was killed, -EAGAIN if it could not be forked, -EBADMSG if it has
 * crashed or its result is invalid, or another negative errno value.
 */
int unwind_job_finish(struct unwind_job *job, struct unwind_summary *summary,
		      struct stackbeat_unwind_table **table);

/* The work of the worker (WORKER_*UNWIND_TABLE): the file, and the memfd for the result. */
void run_unwind_worker(const int fds[], size_t count);

#endif

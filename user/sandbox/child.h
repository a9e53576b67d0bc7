/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes of stackbeat's own: what each is for, and what it may do. The command that a recording
 * starts is none of them (record/child_command.h).
 */
#ifndef STACKBEAT_SANDBOX_CHILD_H
#define STACKBEAT_SANDBOX_CHILD_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* docs/architecture.md has a row for each; tests/lint-processes compares them with child.c. */
enum child_role {
	CHILD_SANDBOX_SERVER, /* forks workers on request */
	CHILD_UNMOUNTER, /* waits for an unmount of the server */
	CHILD_WORKER, /* parses one file */
	CHILD_TABLE_WORKER, /* compiles an unwind table that nobody waits for */
	CHILD_OPENER, /* opens files for workers */
	CHILD_DEBUGINFOD_HELPER,
	CHILD_DOWNLOAD, /* of the helper, for one worker */
	CHILD_FILE_EXPORTER, /* writes a file of --rotate or --snapshot */
	CHILD_SLICE_EXPORTER, /* writes a slice of `serve` */
	CHILD_EXTRA_SESSION, /* records at another rate than `serve` */
	CHILD_TOP_SAMPLER, /* samples for `top`, which shows it */
	CHILD_HTTP_KEEPER, /* starts the HTTP server again */
	CHILD_HTTP_SERVER,
	CHILD_JOB, /* makes an answer, or stores a window */
	CHILD_ANNOTATION_SERVER, /* forks annotators on request */
	CHILD_ANNOTATOR, /* reads the code of a function for a job */
	CHILD_PAGER, /* shows text on a terminal */
};

#define CHILD_ROLES (CHILD_PAGER + 1)

/*
 * Starts a process in a role, with its nice value, its limits and its end, see child.c. Returns as
 * fork(). The child has no copy of what another thread has opened after child_forks_stop(). In a
 * CHILD_SANDBOX_SERVER, getpid() is 1 if it has PID, mount, network, IPC and UTS namespaces of its
 * own. Fails with EPERM if this process has secrets that the role may not have.
 */
pid_t child_fork(enum child_role role);

/* Between these calls, other threads wait in child_fork(). */
void child_forks_stop(void);
void child_forks_go_on(void);

/* Says whether this process has secrets: the keys of TLS, or a token. Children inherit that. */
void child_note_secrets(bool has_secrets);

/* What a child leaves in memory that it shares with its parent; its role may have more. */
struct child_result {
	bool done; /* the child came to its end */
	int err; /* 0 or a negative errno value */
	char error[160]; /* message of `err` */
	sem_t stop; /* private: child_stop() */
};

/* All zero but `file`, which is -1: none. */
struct child {
	enum child_role role;
	pid_t pid; /* 0: it has ended, or was not started */
	/* After its end: as of waitpid(), and its CPU time with its descendants. */
	int status;
	int64_t cpu_ns;
	/* Of a role that leaves a file in memory. */
	int file;
	struct child_result *result;
	size_t result_size; /* private */
};

/* The work: writes to child->file, and may set what its result has more. Returns result->err. */
typedef int child_function(void *arg, struct child *child, struct error *error);

/*
 * Makes the file and the result of a child; `result_size`: of the structure whose first member is
 * the struct child_result. Returns 0, to be followed by child_release(), or -ENOMEM.
 */
int child_prepare(struct child *child, enum child_role role, size_t result_size);
/*
 * Starts a child, prepared or all zero but for its role and `file`: it calls `work`, and exits with
 * EXIT_FAILURE unless that returns 0. Returns 0 or a negative errno value.
 */
int child_start(struct child *child, child_function *work, void *arg);
/* Calls `work` in this process instead, and returns what it returns. */
int child_run(struct child *child, child_function *work, void *arg);
/* Returns whether the child has ended; `waits` for that. Then, its result counts, if it is done. */
bool child_has_ended(struct child *child, bool waits);
/*
 * Ends a child of a role that can be stopped, soon, and before it comes to its end. It needs no
 * right to send signals.
 */
void child_stop(struct child *child);
/* Frees file and result. A child that still runs goes on. */
void child_release(struct child *child);

#endif

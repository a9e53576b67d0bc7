/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes of stackbeat's own: what each is for, and what it may do. The command that a recording
 * starts is none of them (record/child_command.h).
 */
#ifndef STACKBEAT_SANDBOX_CHILD_H
#define STACKBEAT_SANDBOX_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

/* docs/architecture.md has a row for each; tests/lint-processes compares them with child.c. */
enum child_role {
	CHILD_SANDBOX_SERVER, /* forks workers on request */
	CHILD_WORKER, /* parses one file */
	CHILD_TABLE_WORKER, /* compiles an unwind table that nobody waits for */
	CHILD_OPENER, /* opens files for workers */
	CHILD_DEBUGINFOD_HELPER,
	CHILD_DOWNLOAD, /* of the helper, for one worker */
	CHILD_FILE_EXPORTER, /* writes a file of --rotate or --snapshot */
	CHILD_SLICE_EXPORTER, /* writes a slice of `serve` */
	CHILD_EXTRA_SESSION, /* records at another rate than `serve` */
	CHILD_HTTP_KEEPER, /* starts the HTTP server again */
	CHILD_HTTP_SERVER,
	CHILD_JOB, /* makes an answer, or stores a window */
};

#define CHILD_ROLES (CHILD_JOB + 1)

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

#endif

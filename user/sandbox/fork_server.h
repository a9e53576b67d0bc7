/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Starts workers without rights. A server process is forked early, while the process that needs
 * workers holds nothing of value, and gives up its rights. It forks a worker on each request. A
 * worker
 * - is another user, if the server was started by root, and has no capabilities,
 * - has an empty root directory (or can open no file, by Landlock), no network and no other
 * processes, as far as the kernel permits that,
 * - has a filter of system calls (seccomp_filter.h), with which it can't open a file,
 * - has the limits of worker_limits.h, and dies with the server, which dies with its parent.
 *
 * A lifeline, a socket, stands for each worker: the parent polls it for the end of the worker, and
 * the worker is killed when the parent closes it.
 */
#ifndef STACKBEAT_SANDBOX_FORK_SERVER_H
#define STACKBEAT_SANDBOX_FORK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct error;

/* Fds that a worker may get. */
#define WORKER_FDS_MAX 5u

/* Parts of the confinement that the kernel, or a container, has refused. */
enum sandbox_missing {
	SANDBOX_NO_USER = 1 << 0, /* workers are root */
	SANDBOX_NO_EMPTY_ROOT = 1 << 1, /* neither namespaces nor Landlock */
	SANDBOX_NO_SECCOMP = 1 << 2,
	SANDBOX_HAS_CAPABILITIES = 1 << 3,
	SANDBOX_NO_CONFINED_HELPER = 1 << 4, /* of debuginfod */
};

/* What a worker does. */
enum worker_kind {
	WORKER_READ_HEADERS, /* debuginfo/elf_headers.h */
	WORKER_SYMBOLIZE, /* symbolize/worker.h */
	WORKER_DEMANGLE, /* symbolize/demangle_names.h */
	WORKER_UNPACK, /* symbolize/archive_unpacker.h */
	WORKER_UNWIND_TABLE, /* unwind/job.h; at a low priority */
	WORKER_URGENT_UNWIND_TABLE, /* the same at the usual priority */
	WORKER_VERIFY, /* unwind/elfutils_walk.h */
	WORKER_GO_PROGRAM, /* unwind/go_program.h */
};

/* The work of a worker, which exits when the function returns. */
typedef void worker_function(enum worker_kind kind, const int fds[], size_t count);

struct sandbox_server {
	pid_t pid;
	int socket;
	unsigned int missing; /* enum sandbox_missing */
};

/*
 * Forks the server. Call it before files are opened and threads are started. Returns 0 or a
 * negative errno value with `error` set. sandbox_server_stop() kills the workers that are left.
 */
int sandbox_server_start(struct sandbox_server *server, worker_function *work, struct error *error);
void sandbox_server_stop(struct sandbox_server *server);

/*
 * Starts a worker, which gets copies of `count` fds, WORKER_FDS_MAX at most, and runs `work` of the
 * server. Does not wait. It may be called by several threads. Returns the lifeline of the worker,
 * which the caller closes, or a negative errno value: -EPIPE if the server has died.
 */
int sandbox_worker_start(const struct sandbox_server *server, enum worker_kind kind,
			 const int fds[], size_t count);

/* Kills a worker, but keeps its lifeline, from which the status can be read. */
void sandbox_worker_kill(int lifeline);

#define WORKER_STATUS_UNKNOWN (-1)

/*
 * Returns whether a worker has exited, which makes its lifeline readable, and sets *status (as
 * waitpid(); WORKER_STATUS_UNKNOWN if it could not be forked or the server has died). Does not
 * wait.
 */
bool sandbox_worker_exited(int lifeline, int *status);

/* Writes the names of missing parts: "no namespaces, no seccomp"; "" if there is none. */
#define SANDBOX_MISSING_SIZE 128u
void sandbox_missing_text(unsigned int missing, char text[SANDBOX_MISSING_SIZE]);

#endif

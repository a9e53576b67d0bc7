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
 * the worker is killed when the parent closes it, or at the limits that the parent sets there: of
 * CPU time, and of time in which it hangs. The server reads the CPU time from the kernel's clock: a
 * worker can't evade it, and need not be trusted to report it. A worker that waits for a CPU on a
 * busy machine gets some time, and does not hang.
 */
#ifndef STACKBEAT_SANDBOX_FORK_SERVER_H
#define STACKBEAT_SANDBOX_FORK_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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

#define WORKER_KINDS (WORKER_GO_PROGRAM + 1)

/* CPU time in ns since the start of a server, see sandbox_server_cpu(). */
struct sandbox_cpu {
	int64_t server;
	int64_t workers[WORKER_KINDS]; /* by enum worker_kind, also of those that have ended */
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
 * Asks the server for the CPU time of its processes, and waits for the answer. Returns 0 or a
 * negative errno value: -EPIPE if the server has died.
 */
int sandbox_server_cpu(const struct sandbox_server *server, struct sandbox_cpu *cpu);

/*
 * Starts a worker, which gets copies of `count` fds, WORKER_FDS_MAX at most, and runs `work` of the
 * server. Does not wait. It may be called by several threads. Returns the lifeline of the worker,
 * which the caller closes, or a negative errno value: -EPIPE if the server has died.
 */
int sandbox_worker_start(const struct sandbox_server *server, enum worker_kind kind,
			 const int fds[], size_t count);

/*
 * Limits a worker from now on, in place of limits before. The server kills it when it has used
 * `cpu_ns` of CPU time, or has used less than a thousandth of `hang_ns` in a time of `hang_ns`: it
 * hangs. The status is there at once, while the worker itself may not die for long in the kernel.
 * Does not wait. Without a CPU clock, `hang_ns` limits the elapsed time.
 */
void sandbox_worker_limit(int lifeline, int64_t cpu_ns, int64_t hang_ns);

/* Kills a worker, but keeps its lifeline, from which the status can be read. */
void sandbox_worker_kill(int lifeline);

#define WORKER_STATUS_UNKNOWN (-1)

/* Return whether a worker with this status was killed as it has used up its CPU time, or hung. */
bool sandbox_status_is_cpu_limit(int status);
bool sandbox_status_is_hang(int status);

/*
 * Returns whether a worker has exited or was killed at a limit, which makes its lifeline readable,
 * and sets *status (as waitpid(); WORKER_STATUS_UNKNOWN if it could not be forked or the server has
 * died). Does not wait. Call it again only if it returned false.
 */
bool sandbox_worker_exited(int lifeline, int *status);

/* Writes the names of missing parts: "no namespaces, no seccomp"; "" if there is none. */
#define SANDBOX_MISSING_SIZE 128u
void sandbox_missing_text(unsigned int missing, char text[SANDBOX_MISSING_SIZE]);

#endif

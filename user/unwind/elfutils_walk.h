/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walks copies of stacks by elfutils (libdwfl), in a worker without rights: a second opinion, which
 * shares no code with unwind tables.
 */
#ifndef STACKBEAT_UNWIND_ELFUTILS_WALK_H
#define STACKBEAT_UNWIND_ELFUTILS_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct sandbox_server;

/* Files of a process; further ones are not used. */
#define ELFUTILS_MODULES_MAX 128u

/* A file of a process. */
struct elfutils_module {
	uint64_t bias; /* address - ELF virtual address */
	int fd; /* owned by the caller */
};

/* Why a walk by elfutils has ended. */
enum elfutils_end {
	ELFUTILS_OUTERMOST, /* or an error of elfutils */
	ELFUTILS_NO_RULE, /* the last frame's code has no call frame information */
	ELFUTILS_COPY_ENDS, /* memory outside of the copy is needed */
	ELFUTILS_MAX_DEPTH, /* STACKBEAT_USER_FRAMES_MAX */
	ELFUTILS_END_COUNT
};

struct elfutils_walk {
	uint32_t end; /* enum elfutils_end */
	uint32_t count; /* at least 1 */
	/* As in struct stackbeat_sample, but frames that were interrupted have the address itself.
	 */
	uint64_t frames[STACKBEAT_USER_FRAMES_MAX];
};

/*
 * Walks `count` stacks of a process, and calls `take` with each result, in order. `modules` are its
 * files. Waits `timeout_ms` for the worker, at most. Returns 0; or a negative errno value:
 * -ETIMEDOUT, -EBADMSG if the worker has crashed or its result is invalid. `take` was called for
 * none, or some, then.
 */
int elfutils_walk_stacks(const struct sandbox_server *server, const struct elfutils_module *modules,
			 size_t module_count, struct stackbeat_stack *const *stacks, size_t count,
			 int64_t timeout_ms,
			 void (*take)(size_t stack, const struct elfutils_walk *walk, void *arg),
			 void *arg);

/* The work of the worker (WORKER_VERIFY): the request, the memfd for the result, and a socket. */
void run_elfutils_worker(const int fds[], size_t count);

#endif

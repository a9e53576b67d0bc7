/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is needed of the file of a Go program to find the goroutines in the memory of its process,
 * and the callers in their stacks. A worker without rights (sandbox/fork_server.h) reads the file.
 */
#ifndef STACKBEAT_UNWIND_GO_PROGRAM_H
#define STACKBEAT_UNWIND_GO_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat_unwind.h>

struct error;
struct sandbox_server;

/* Functions that the stacks of goroutines depend on. */
enum go_function_kind {
	GO_FUNCTION_OTHER,
	GO_FUNCTION_RUNTIME, /* of the package runtime, and none of those below */
	/* runtime.main and others in which goroutines begin that run the code of the program. */
	GO_FUNCTION_RUNTIME_ENTRY,
	/* Of goroutines of the runtime that call functions of the program: finalizers, cleanups. */
	GO_FUNCTION_RUNTIME_CALLER,
	GO_FUNCTION_GOEXIT, /* the first caller in all stacks */
	/* Called by the runtime at any instruction: the address in its caller is no call. */
	GO_FUNCTION_INJECTED,
	GO_FUNCTION_KINDS
};

struct go_program_function {
	uint32_t start; /* ELF virtual address - code_start */
	uint16_t kind; /* enum go_function_kind */
	uint16_t is_wrapper; /* 1: tracebacks leave it out */
};

#define GO_VERSION_SIZE 64u

struct go_program {
	char version[GO_VERSION_SIZE]; /* "go1.24.4"; control characters are replaced */
	unsigned int minor; /* 24 of Go 1.24 */
	/* ELF virtual addresses of runtime.allglen and runtime.allgptr; 0: they are in another
	 * file. */
	uint64_t allglen, allgptr;
	uint64_t code_start, code_end; /* ELF virtual addresses of Go's code */
	/*
	 * For each instruction, the size of the frame, also where a function changes stacks: these
	 * are rules for the stack of a goroutine that is parked. All are relative to rsp.
	 */
	struct stackbeat_unwind_view frames;
	const struct go_program_function *functions; /* in ascending order */
	size_t function_count;
	void *memory; /* private: of the members above */
};

/*
 * Reads a file, of which the caller keeps the fd. Waits for the worker. Returns 0, to be followed
 * by go_program_clear(); -ENODATA if it is not a Go program, -ENOTSUP if it is a program that is
 * too old or of another machine, or another negative errno value, with `error` set.
 */
int go_program_read(const struct sandbox_server *server, int fd, struct go_program *program,
		    struct error *error);
void go_program_clear(struct go_program *program);

/*
 * Returns the function that holds an ELF virtual address; NULL: the address is outside of Go's
 * code.
 */
const struct go_program_function *go_program_function_at(const struct go_program *program,
							 uint64_t address);

/* The work of the worker (WORKER_GO_PROGRAM): the file, and the pipe for the result. */
void run_go_program_worker(const int fds[], size_t count);

#endif

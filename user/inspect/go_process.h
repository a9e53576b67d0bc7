/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A running process with Go code: its program, or a library that was built from Go. Plugins, and
 * programs whose runtime is in a library (-buildmode=shared), have code in several files.
 */
#ifndef STACKBEAT_INSPECT_GO_PROCESS_H
#define STACKBEAT_INSPECT_GO_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "inspect/process_maps.h"
#include "lib/pidfd.h"
#include "unwind/go_program.h"

struct error;
struct go_layout;
struct goroutines_file;
struct goroutines_source;
struct sandbox_server;
struct symbol_source;

/* A file with Go's code. */
struct go_file {
	int fd;
	char *path; /* as the process sees it */
	struct process_mapping mapping; /* of its code; without a path */
	struct process_file file;
	struct go_program program;
};

struct go_process {
	pid_t pid;
	struct process_watch watch;
	struct go_file runtime; /* the file with the runtime that is used */
	struct go_file *others; /* with code only */
	struct goroutines_file *places; /* of `others`, for goroutines.h */
	size_t other_count;
	const struct go_layout *layout;
	bool is_newer; /* than all versions of Go whose layout is known */
};

/*
 * Finds Go's code in a process. Returns 0, to be followed by go_process_close(); or a negative
 * errno value with `error` set: -ESRCH, -EACCES, -ENODATA if it has no Go code, -ENOTSUP for a
 * version of Go that is too old.
 */
int go_process_open(const struct sandbox_server *server, pid_t pid, struct go_process *process,
		    struct error *error);
void go_process_close(struct go_process *process);

/*
 * Checks, after memory was read, that the process still runs the same program. Returns 0, -ESRCH,
 * or another negative errno value, with `error` set.
 */
int go_process_check(struct go_process *process, struct error *error);

/* Sets a source for goroutines_read(), which is valid until go_process_close(). */
void go_process_source(const struct go_process *process, struct goroutines_source *source);

/* Returns the file with a number, as in frames of goroutines.h; NULL: there is none. */
const struct go_file *go_process_file(const struct go_process *process, size_t number);

/* Sets a source of the symbols of the files, see symbolize/symbol_source.h. */
void go_process_symbols(const struct go_process *process, struct symbol_source *source);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol between the worker pool, its workers, and their openers. A worker gets its job as a
 * memfd (job_bytes.h), writes messages to a pipe, and asks its opener, by a SOCK_SEQPACKET socket,
 * for files.
 */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H
#define STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/disassembler.h"

struct error;
struct file_key;

/* Fds of a worker (WORKER_SYMBOLIZE), in this order. */
enum worker_fd {
	WORKER_FD_JOB,
	WORKER_FD_OUTPUT,
	WORKER_FD_OPENER,
	WORKER_FD_DEBUGINFOD, /* optional */
};

/* The addresses of one file. */
struct worker_job {
	const char *path; /* for messages, and to find debug files beside it */
	const char *build_id; /* hex; "" if unknown */
	const uint64_t *addresses; /* ELF virtual addresses, unless `code_start` or `offsets` */
	size_t count;
	/*
	 * Opens the file number `candidate` (from 0) of those that may be the file, which must be a
	 * regular one. The opener calls it, maybe after the files of other jobs: it must leave
	 * nothing behind. The worker takes the first file that has the build ID of the job, or just
	 * the first one if that is "". Returns an fd; -ENOENT if there are no more; or another
	 * negative errno value if this candidate can't be opened. `error` is "" before; it may get
	 * a problem of one line, which is reported if no file was taken. NULL: there is no file.
	 */
	int (*open)(void *arg, unsigned int candidate, struct error *error);
	/*
	 * Sets the key of a file that `open` has opened. Returns false if nothing proves what it
	 * has: nothing that is read of it is kept. NULL: nothing does for any file.
	 */
	bool (*identify)(void *arg, int fd, struct file_key *key);
	void *arg; /* of `open` and `identify` */
	/*
	 * The uid of the owner of the file, or FILE_UID_ANY, if the caller knows it better than by
	 * the file that `open` opens, which may be a copy. Owners share the time of the workers.
	 */
	bool has_owner;
	uint32_t owner; /* else 0 */
	bool offsets; /* `addresses` are offsets in the file */
	bool is_module; /* a kernel module: `code_start` is its load address */
	bool is_perf_map; /* `open` opens a perf map, not an ELF file */
	uint64_t perf_map_bytes; /* limit of what is read of it; the pool sets it */
	/*
	 * Other than SYNTAX_NONE: the functions that hold the addresses are disassembled, and no
	 * address is symbolized. It needs disassembler_load() before the server of workers starts.
	 */
	enum disassembler_syntax syntax;
	/* Where the code of the file starts, in terms of `addresses`; 0: as in the file. */
	uint64_t code_start;
};

/* Messages of workers */

/* The header of a message, followed by `size` bytes. */
struct worker_message {
	uint32_t type; /* enum worker_message_type */
	uint32_t size;
};

enum worker_message_type {
	WORKER_STRING, /* bytes; strings are numbered from 1 in order, 0 is none */
	WORKER_LINES, /* struct worker_lines */
	WORKER_PROBLEM, /* bytes: one line */
	WORKER_PROGRESS, /* struct worker_progress */
	/*
	 * Empty; the last message: the job is complete. The worker may still give what it has read
	 * to its opener, to be kept.
	 */
	WORKER_END,
	WORKER_OPENED, /* empty: the file itself was opened, not only debug files of it */
	WORKER_RANGE, /* struct worker_range */
	WORKER_MAP_READ, /* struct worker_map_read */
	WORKER_FUNCTION, /* struct worker_function: its instructions follow, in order */
	/* struct instruction, up to the end of its text. */
	WORKER_INSTRUCTION,
};

/* Seconds that the downloads of a worker may take. */
#define WORKER_FETCH_S 120u

/* Longer strings are truncated: a few bytes of a file can contain many of them. */
#define WORKER_STRING_MAX 4096u

struct worker_line {
	uint32_t function, system_name, file; /* numbers of strings */
	uint32_t line, start_line;
	uint32_t padding;
	uint64_t start;
};

struct worker_lines {
	uint32_t index; /* of the address */
	uint32_t count; /* of lines */
	struct worker_line lines[];
};

/* All addresses from `start` to before `end` have the lines, or no lines, of one of them. */
struct worker_range {
	uint32_t index; /* of the address */
	uint32_t padding;
	uint64_t start, end;
};

/* What was read of a perf map since the last such message. */
struct worker_map_read {
	uint64_t bytes;
	uint32_t is_truncated; /* the map has more than `perf_map_bytes` */
	uint32_t padding;
};

/* A function of a job with `syntax`. */
struct worker_function {
	uint64_t start, size; /* ELF virtual addresses */
	uint64_t shift; /* virtual address minus address of the job */
	uint32_t name; /* number of a string; 0: the file has no symbol there */
	uint32_t padding;
};

/* The last bytes of a longer function are left out. */
#define FUNCTION_BYTES_MAX ((size_t)1 << 20)

/* Bytes of a download; `total` is 0 if unknown. */
struct worker_progress {
	uint64_t done, total;
};

/* Requests to the opener, and its responses, which have the fd of the file */

/* Values after the values of enum debug_name (debuginfo/debug_paths.h). */
#define OPEN_BINARY 100u
/*
 * Opens what was kept of all files that the worker was given until now (kept_symbols.h). The result
 * is -ENOENT if nothing is, and KEEP_SYMBOLS may follow; -ENOTSUP if nothing can be.
 */
#define OPEN_KEPT 101u
/*
 * Keeps `size` bytes, which follow in messages of up to KEEP_MESSAGE_MAX bytes; then the response.
 * Once for all files that the worker was given until now: if it is not accepted, or if bytes are
 * missing, the response is the last one.
 */
#define KEEP_SYMBOLS 102u
#define KEEP_MESSAGE_MAX ((size_t)32 << 10)

/* A worker that asks for more is compromised. */
#define OPEN_REQUESTS_MAX 1000u

struct open_request {
	uint32_t kind; /* enum debug_name, or OPEN_BINARY */
	uint32_t candidate;
	uint64_t size; /* of KEEP_SYMBOLS */
	char name[PATH_MAX]; /* "" for OPEN_BINARY and those after it */
	char beside[PATH_MAX]; /* path of the file that has the name; "": unknown */
};

struct open_response {
	int32_t result; /* 0 or a negative errno value */
	uint32_t candidate; /* the next one */
	char path[PATH_MAX]; /* for messages; "": none */
	char problem[512]; /* of job->open */
};

#endif

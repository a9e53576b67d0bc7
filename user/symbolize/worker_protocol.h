/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol between the worker pool and its workers: a job for each worker, and the messages
 * that the worker sends back.
 */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H
#define STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/elf_symbols.h"

struct archive_reader;
struct error;

/*
 * The addresses of one file. The worker calls the functions: `open` before it enters the sandbox,
 * `lookup` afterwards.
 */
struct worker_job {
	const char *path; /* for messages, and to find debug files beside it */
	const char *build_id; /* hex; "" if unknown */
	const uint64_t *addresses; /* ELF virtual addresses, unless `code_start` or `offsets` */
	size_t count;
	/*
	 * Returns an fd or a negative errno value. `error` is "" before; it may get a problem of
	 * one line, which is reported. NULL: there is no file.
	 */
	int (*open)(void *arg, struct error *error);
	/* Finds the symbol of an ELF virtual address without debug information. May be NULL. */
	bool (*lookup)(void *arg, uint64_t vaddr, struct symbol *symbol);
	void *arg; /* of `open` and `lookup` */
	bool offsets; /* `addresses` are offsets in the file */
	bool is_module; /* a kernel module: `code_start` is its load address */
	bool is_perf_map; /* `open` opens a perf map, not an ELF file; `lookup` is NULL */
	/* Where the code of the file starts, in terms of `addresses`; 0: as in the file. */
	uint64_t code_start;
};

/* Where a worker looks for debug files. */
struct worker_settings {
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	const struct archive_reader *archive; /* searched before; NULL: none */
	bool fetches; /* downloads from a debuginfod server, if one is configured */
};

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
	WORKER_END, /* empty; the last message: the job is complete */
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

/* Bytes of a download; `total` is 0 if unknown. */
struct worker_progress {
	uint64_t done, total;
};

#endif

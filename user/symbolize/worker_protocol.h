/* SPDX-License-Identifier: GPL-2.0 */
/* Between symbolize/worker_pool.c and the processes that it starts: jobs, and the messages that
 * answer them. */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H
#define STACKBEAT_SYMBOLIZE_WORKER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/elf_symbols.h"

struct error;

/*
 * What is to be named. The functions are called in the process of the file: `open` before it is
 * confined, `lookup` after that.
 */
struct worker_job {
	const char *path; /* for messages, and to find debug files beside it */
	const char *build_id; /* hex; "" if unknown */
	const uint64_t *addresses; /* ELF virtual addresses, but for `code_start` and `offsets` */
	size_t count;
	/*
	 * An fd, or a negative errno value; `error` is "", and gets one line to be told. NULL:
	 * there is no file.
	 */
	int (*open)(void *arg, struct error *error);
	/* The symbol that holds an ELF virtual address, where nothing else is known of it. */
	bool (*lookup)(void *arg, uint64_t vaddr, struct symbol *symbol); /* may be NULL */
	bool lookup_is_untrusted; /* its symbols are of a file that file_is_trusted() not */
	void *arg;
	bool offsets; /* `addresses` are offsets in the file */
	bool is_module; /* of the kernel: `code_start` is where its code lies */
	bool is_perf_map; /* `open` opens a perf map, not an ELF file; `lookup` is NULL */
	/* 0, or where the code of the file begins in terms of `addresses`. */
	uint64_t code_start;
};

/* Where the worker of a job may look for debug files. */
struct worker_settings {
	const char *const *directories; /* of debug files; NULL: DEBUG_DIRECTORY */
	size_t directory_count;
	bool fetches; /* from a debuginfod server, where one is configured */
};

/* A message: this, and `size` bytes. */
struct worker_message {
	uint32_t type; /* enum worker_message_type */
	uint32_t size;
};

enum worker_message_type {
	WORKER_STRING, /* bytes; the texts are numbered from 1 as they come, 0 is none */
	WORKER_LINES, /* struct worker_lines */
	WORKER_PROBLEM, /* bytes: one line */
	WORKER_PROGRESS, /* struct worker_progress */
	WORKER_END, /* nothing: all was told */
	WORKER_TRUSTED, /* nothing, first of all: its names may be kept (see symbol_cache.h) */
	WORKER_UNTRUSTED, /* nothing, at any time: the names that follow may not be kept */
};

/* How long fetching a file may take. */
#define WORKER_FETCH_S 120u

/* Longer names are cut: many of them may lie in a few bytes of a file. */
#define WORKER_STRING_MAX 4096u

struct worker_line {
	uint32_t function, system_name, file; /* texts */
	uint32_t line, start_line;
	uint32_t padding;
	uint64_t start;
};

struct worker_lines {
	uint32_t index; /* of the address */
	uint32_t count; /* of lines */
	struct worker_line lines[];
};

struct worker_progress {
	uint64_t done, total;
};

#endif

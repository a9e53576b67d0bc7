/* SPDX-License-Identifier: GPL-2.0 */
/* Between namer.c and the processes that it starts: what they do, and how they tell. */
#ifndef STACKBEAT_NAMER_CHILD_H
#define STACKBEAT_NAMER_CHILD_H

#include "namer.h"

/* A message: this, and `size` bytes. */
struct namer_message {
	uint32_t type; /* enum namer_type */
	uint32_t size;
};

enum namer_type {
	NAMER_TEXT, /* bytes; the texts are numbered from 1 as they come, 0 is none */
	NAMER_LINES, /* struct namer_lines */
	NAMER_PROBLEM, /* bytes: one line */
	NAMER_PROGRESS, /* struct namer_progress */
	NAMER_END, /* nothing: all was told */
	NAMER_TRUSTED, /* nothing, first of all: its names may be kept (see name_cache.h) */
	NAMER_UNTRUSTED, /* nothing, at any time: the names that follow may not be kept */
};

/* Longer names are cut: many of them may lie in a few bytes of a file. */
#define NAMER_TEXT_MAX 4096u

struct namer_line {
	uint32_t function, system_name, file; /* texts */
	uint32_t line, start_line;
	uint32_t padding;
	uint64_t start;
};

struct namer_lines {
	uint32_t index; /* of the address */
	uint32_t count; /* of lines */
	struct namer_line lines[];
};

struct namer_progress {
	uint64_t done, total;
};

/* Does a job, and writes the messages to `fd`. */
void namer_child(const struct namer *namer, const struct namer_job *job, int fd);

#endif

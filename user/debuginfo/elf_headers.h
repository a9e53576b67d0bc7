/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of an untrusted ELF file in a worker (sandbox/fork_server.h). */
#ifndef STACKBEAT_DEBUGINFO_ELF_HEADERS_H
#define STACKBEAT_DEBUGINFO_ELF_HEADERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "debuginfo/elf_symbols.h"

struct error;
struct sandbox_server;

/* Linkers make one or two; further ones are left out. */
#define ELF_HEADERS_SEGMENTS_MAX 32u

struct elf_headers {
	char build_id[BUILD_ID_SIZE]; /* hex; "": none */
	uint64_t extent; /* as elf_extent() */
	bool has_dwarf;
	char link[NAME_MAX + 1]; /* .gnu_debuglink; "": none */
	char alt_link[PATH_MAX]; /* .gnu_debugaltlink; "": none */
	char alt_build_id[BUILD_ID_SIZE]; /* of the file of `alt_link`, hex; "": none */
	uint32_t segment_count;
	struct elf_segment segments[ELF_HEADERS_SEGMENTS_MAX]; /* executable ones */
};

/*
 * Reads the headers of a regular file. Waits for at most 5 s. Returns 0; or -EINVAL if it is not an
 * ELF file, -ETIMEDOUT if its file system hangs, or another negative errno value, with `error` set.
 * It may be called by several threads.
 */
int worker_read_headers(const struct sandbox_server *server, int fd, struct elf_headers *headers,
			struct error *error);

/* The work of the worker (WORKER_READ_HEADERS): the file, and the pipe for the result. */
void run_headers_worker(const int fds[], size_t count);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the headers of an untrusted ELF file in a worker (sandbox/fork_server.h). */
#ifndef STACKBEAT_DEBUGINFO_ELF_HEADERS_H
#define STACKBEAT_DEBUGINFO_ELF_HEADERS_H

#include <stddef.h>

#include "debuginfo/debug_files.h"

struct error;
struct sandbox_server;

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

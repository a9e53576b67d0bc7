/* SPDX-License-Identifier: GPL-2.0 */
/* The work of all workers of the reader, and a worker that symbolizes the addresses of one job. */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_H
#define STACKBEAT_SYMBOLIZE_WORKER_H

#include <stddef.h>

#include "sandbox/fork_server.h"

/* For sandbox_server_start(). */
void worker_main(enum worker_kind kind, const int fds[], size_t count);

/*
 * Runs a job: fds are as in enum worker_fd (worker_protocol.h). Writes the messages to the
 * output, which it closes.
 */
void symbolize_in_worker(const int fds[], size_t count);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* A worker process, which symbolizes the addresses of one job. */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_H
#define STACKBEAT_SYMBOLIZE_WORKER_H

struct worker_job;
struct worker_settings;

/*
 * Runs a job in a forked worker: enters the sandbox, and writes the messages (see
 * worker_protocol.h) to `fd`, which it closes. The process must exit afterwards.
 */
void worker_main(const struct worker_settings *settings, const struct worker_job *job, int fd);

#endif

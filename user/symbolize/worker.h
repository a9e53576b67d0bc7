/* SPDX-License-Identifier: GPL-2.0 */
/* A process that names the addresses of one job. */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_H
#define STACKBEAT_SYMBOLIZE_WORKER_H

struct worker_job;
struct worker_settings;

/* Does a job, and writes the messages to `fd`. */
void worker_main(const struct worker_settings *settings, const struct worker_job *job, int fd);

#endif

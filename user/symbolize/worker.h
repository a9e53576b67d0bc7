/* SPDX-License-Identifier: GPL-2.0 */
/* A process that names the addresses of one job. */
#ifndef STACKBEAT_SYMBOLIZE_WORKER_H
#define STACKBEAT_SYMBOLIZE_WORKER_H

struct namer_job;
struct worker_settings;

/* Does a job, and writes the messages to `fd`. */
void namer_child(const struct worker_settings *settings, const struct namer_job *job, int fd);

#endif

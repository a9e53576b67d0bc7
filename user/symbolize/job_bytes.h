/* SPDX-License-Identifier: GPL-2.0 */
/* Passes jobs to workers. */
#ifndef STACKBEAT_SYMBOLIZE_JOB_BYTES_H
#define STACKBEAT_SYMBOLIZE_JOB_BYTES_H

#include <stddef.h>

#include "debuginfo/elf_symbols.h"
#include "symbolize/worker_protocol.h"

/*
 * Writes a job, without its `open`, to a memfd that can't be changed any more. Returns the fd,
 * which the caller closes, or a negative errno value.
 */
int job_bytes_write(const struct worker_job *job);

/* A job as its worker gets it. */
struct received_job {
	struct worker_job job; /* its pointers are into the fields below */
	char path[PATH_MAX], build_id[BUILD_ID_SIZE];
	uint64_t *addresses;
};

/* Reads a job. Returns 0, to be followed by job_bytes_free(), -EBADMSG or -ENOMEM. */
int job_bytes_read(int fd, struct received_job *received);
void job_bytes_free(struct received_job *received);

#endif

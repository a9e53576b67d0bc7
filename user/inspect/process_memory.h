/* SPDX-License-Identifier: GPL-2.0 */
/* Reads the memory of a running process, which goes on to run, by process_vm_readv(2). */
#ifndef STACKBEAT_INSPECT_PROCESS_MEMORY_H
#define STACKBEAT_INSPECT_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct error;

/* Places that are read with one call at most. */
#define MEMORY_BATCH_MAX 1024u

/* Places to read, and where to write what is there. */
struct memory_batch {
	struct iovec to[MEMORY_BATCH_MAX], from[MEMORY_BATCH_MAX];
	bool was_read[MEMORY_BATCH_MAX]; /* all of it */
	size_t count;
};

static inline void memory_batch_add(struct memory_batch *batch, void *to, uint64_t address,
				    size_t size)
{
	batch->to[batch->count] = (struct iovec){to, size};
	batch->from[batch->count] = (struct iovec){(void *)(uintptr_t)address, size};
	batch->count++;
}

/*
 * Reads the places of a batch, and sets batch->was_read. Returns 0, also if some were not read; or
 * -ESRCH if the process has exited, or -EPERM.
 */
int memory_batch_read(pid_t pid, struct memory_batch *batch);

/*
 * Explains why the memory of a process can't be read: `err` is -ENOENT or -ESRCH, -EACCES or
 * -EPERM, or another negative errno value. Returns it, as -ESRCH or -EACCES.
 */
int process_memory_explain(pid_t pid, int err, struct error *error);

/* Reads one place. Returns 0, -EFAULT, -ESRCH or -EPERM. */
int process_memory_read(pid_t pid, uint64_t address, void *to, size_t size);

#endif

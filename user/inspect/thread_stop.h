/* SPDX-License-Identifier: GPL-2.0 */
/* Stops a thread for as long as its registers and parts of its stack are copied, by ptrace(2). */
#ifndef STACKBEAT_INSPECT_THREAD_STOP_H
#define STACKBEAT_INSPECT_THREAD_STOP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <stackbeat.h>

struct error;

/* A part of a stack. */
struct stack_region {
	uint64_t start;
	size_t size; /* bytes that could be read */
	unsigned char *bytes; /* with room for STACK_REGION_SIZE; owned by the caller */
};

#define STACK_REGION_SIZE ((size_t)256 << 10)
#define STACK_REGIONS_MAX 8u

struct thread_copy {
	uint64_t registers[STACKBEAT_REGISTERS]; /* by DWARF number, with rip */
	uint64_t fs_base; /* 0: unknown */
	struct stack_region regions[STACK_REGIONS_MAX];
	size_t region_count;
	int64_t stopped_ns; /* time between the stop and its end, as seen from here */
};

/*
 * Stops thread `tid` of process `pid`, copies its registers and regions, and lets it run again. The
 * first region begins at rsp; the caller sets the starts of the others. Returns 0, or a negative
 * errno value with `error` set: -ESRCH, -EACCES, -EBUSY if another process traces the thread,
 * -ENOTSUP if it runs 32-bit code, or -ETIMEDOUT if it does not stop.
 */
int thread_copy_read(pid_t pid, pid_t tid, struct thread_copy *copy, struct error *error);

/* Reads a region of a process whose `start` and `bytes` are set, as far as there is memory. */
void stack_region_read(pid_t pid, struct stack_region *region);

#endif

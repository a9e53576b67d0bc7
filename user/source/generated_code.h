/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code that the kernel generates (BPF programs, trampolines of ftrace, instructions of kprobes), as
 * perf events announce it when it comes and goes (PERF_RECORD_KSYMBOL): also for samples of the
 * module, as nothing else in the kernel announces it.
 */
#ifndef STACKBEAT_SOURCE_GENERATED_CODE_H
#define STACKBEAT_SOURCE_GENERATED_CODE_H

#include <stdbool.h>
#include <stdint.h>

struct cpulist;
struct generated_code;

/* Code has come or gone. */
struct generated_code_change {
	uint64_t time; /* the kernel's CLOCK_MONOTONIC, ns */
	uint64_t start, end; /* addresses; `end` is excluded, and above `start` */
	bool is_gone; /* soon: a CPU may still run it */
	bool is_bpf;
	const char *name; /* as the kernel's; a user may have chosen a part of it */
};

typedef void generated_code_fn(const struct generated_code_change *change, void *arg);

/*
 * Opens an event on each CPU that is online, as a BPF program may be loaded on any of them, but not
 * on isolated CPUs, which this would interrupt, unless `cpus` has them. `cpus` must outlive it.
 * `is_perf`: samples come from perf events. Returns NULL if the kernel or the rights of the user do
 * not allow it, if too few files would be left to others, or with samples of the module on a kernel
 * of PREEMPT_RT, where a real-time task may keep an event from being closed. Free it with
 * generated_code_close(), which accepts NULL.
 */
struct generated_code *generated_code_open(bool is_perf, const struct cpulist *cpus);
void generated_code_close(struct generated_code *code);

/* Returns a descriptor to poll, which is readable when a ring is half full. */
int generated_code_fd(const struct generated_code *code);

/*
 * Calls `fn` for all changes since the last call, in their order; the changes of the last
 * microseconds may be late. About each 10 s, it also follows the CPUs that come and go.
 */
void generated_code_read(struct generated_code *code, generated_code_fn *fn, void *arg);

/* Returns the number of changes that were lost, as a ring was full. */
uint64_t generated_code_lost(const struct generated_code *code);

#endif

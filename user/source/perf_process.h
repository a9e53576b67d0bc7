/* SPDX-License-Identifier: GPL-2.0 */
/* What /proc knows of a process that lives already when it is profiled by perf events. */
#ifndef STACKBEAT_SOURCE_PERF_PROCESS_H
#define STACKBEAT_SOURCE_PERF_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

struct perf_mapping;

/* Identity of a process; 0 or "": unknown. */
struct perf_process_status {
	uint64_t start_time; /* CLOCK_BOOTTIME, ns */
	uint32_t parent, ns_pid;
	char comm[STACKBEAT_COMM_SIZE];
	char cgroup[STACKBEAT_PATH_MAX];
};

/*
 * Sets `status`. `root` is prepended to /proc ("" except in tests). Returns false if there is no
 * such process.
 */
bool perf_process_read(const char *root, uint32_t pid, struct perf_process_status *status);

/* Reads the name of a thread. Returns false if there is none. */
bool perf_process_comm(uint32_t pid, uint32_t tid, char comm[STACKBEAT_COMM_SIZE]);

/*
 * Calls `fn` for each executable mapping, until it returns other than 0. `is_main`: of the
 * program's file. Returns that value; 0; or -ENOENT if the mappings can't be read.
 */
typedef int perf_process_mapping_fn(const struct perf_mapping *mapping, bool is_main, void *arg);
int perf_process_mappings(uint32_t pid, perf_process_mapping_fn *fn, void *arg);

/* Calls `fn` for each number that is the name of an entry of a directory, as above. */
int perf_process_each(const char *directory, int (*fn)(uint32_t number, void *arg), void *arg);

#endif

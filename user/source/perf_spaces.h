/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The processes that perf events describe: their mappings and names, in the order of time. Of those
 * that are sampled, writes the records that the module writes of its address spaces (see "Address
 * spaces" in stackbeat.h): mappings of a process are a snapshot at its first sample, and events
 * from then on.
 */
#ifndef STACKBEAT_SOURCE_PERF_SPACES_H
#define STACKBEAT_SOURCE_PERF_SPACES_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

struct perf_files;
struct perf_mapping;
struct perf_spaces;
struct record_buffer;

struct perf_spaces_counts {
	uint64_t spaces, events, without_file, dropped; /* of records, see enum stackbeat_stat */
};

/*
 * Both must outlive the table; `out` gets the records. Returns NULL when out of memory.
 * perf_spaces_free() accepts NULL.
 */
struct perf_spaces *perf_spaces_new(struct perf_files *files, struct record_buffer *out);
void perf_spaces_free(struct perf_spaces *spaces);

/*
 * Reads the mappings of all processes, or of one, which live already. Call it when their records
 * are written. A process that can't be read is left out. Returns 0 or -ENOMEM.
 */
int perf_spaces_read_all(struct perf_spaces *spaces);
int perf_spaces_read(struct perf_spaces *spaces, uint32_t pid);

/* The records of the kernel. All return 0 or -ENOMEM. */
int perf_spaces_map(struct perf_spaces *spaces, uint32_t pid, const struct perf_mapping *mapping);
int perf_spaces_comm(struct perf_spaces *spaces, uint32_t pid, uint32_t tid, const char *comm,
		     bool is_exec);
int perf_spaces_fork(struct perf_spaces *spaces, uint32_t pid, uint32_t tid, uint32_t parent,
		     uint32_t parent_tid);
void perf_spaces_exit(struct perf_spaces *spaces, uint32_t pid, uint32_t tid);

/* Records were lost: mappings of all processes are read again at their next sample. */
void perf_spaces_lost(struct perf_spaces *spaces);

/* Sets the name of a thread. */
void perf_spaces_thread_comm(struct perf_spaces *spaces, uint32_t pid, uint32_t tid,
			     char comm[STACKBEAT_COMM_SIZE]);

/*
 * Announces the address space of a process that is sampled, if it was not yet, and sets its id and
 * its generation. Returns 0 or -ENOMEM.
 */
int perf_spaces_sample(struct perf_spaces *spaces, uint32_t pid, uint64_t *id,
		       uint32_t *generation);

/* Forgets processes that have ended. Call it about once a second, when no record is left. */
void perf_spaces_sweep(struct perf_spaces *spaces);

void perf_spaces_counts(const struct perf_spaces *spaces, struct perf_spaces_counts *counts);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes and what they map, read from /proc while they live.
 *
 * A process id stands for one program image after another: exec, and reuse of
 * the id. Each image is a struct process of its own, so that stacks keep the
 * mappings of the image in which they were taken.
 */
#ifndef STACKBEAT_PROCESS_H
#define STACKBEAT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct object;
struct processes;
struct process;

/* Executable mappings of one process. Further ones are not seen. */
#define MAPPINGS_MAX 65536u

struct mapping {
	uint64_t start, end; /* addresses, end excluded */
	uint64_t offset; /* of `start` in the file, bytes */
	uint64_t device; /* as st_dev; 0 for what is not a file */
	uint64_t inode; /* 0 for what is not a file */
	char *path; /* without " (deleted)"; "[anon]", "[vdso]", "[heap]", ... */
	bool deleted; /* /proc said " (deleted)" */
	struct object *object; /* NULL for what has no ELF file */
};

struct processes_counts {
	uint64_t images; /* struct process made */
	uint64_t execs; /* of these, made because a process id has a new image */
	uint64_t gone; /* images whose mappings were asked for, and which have none */
	uint64_t reads; /* times that a maps file was read */
};

/*
 * An empty table. `root` is put before "/proc" and before the paths of mapped
 * files: "" but for tests. Returns NULL and sets `error` when out of memory.
 * processes_free() frees all processes, their mappings and objects; NULL is fine.
 */
struct processes *processes_new(const char *root, struct error *error);
void processes_free(struct processes *processes);

/*
 * The current image of process `pid`; `comm` is the name of the thread that
 * was sampled. On first sight its mappings are read; a process that is gone
 * already has none. A thread name that is new to the process makes it look
 * whether it has executed another program. Owned by the table, valid until
 * processes_free(). Returns NULL when out of memory.
 */
struct process *processes_get(struct processes *processes, uint32_t pid, const char *comm);

/*
 * Reads the mappings again, at most once per image and tick. Returns the image
 * that is current then: `process`, with the new mappings merged in (they win
 * over older ones where they overlap; older ones stay elsewhere, for what was
 * unmapped meanwhile), or a new image. Returns NULL when out of memory.
 * Pointers to mappings of the process are invalid afterwards.
 */
struct process *processes_refresh(struct processes *processes, struct process *process);

/*
 * Begins a tick. To be called before each pass over the rings: what a pass
 * drains was sampled before it, so that reading mappings twice in one pass
 * would tell nothing more about it.
 */
void processes_tick(struct processes *processes);

void processes_counts(const struct processes *processes, struct processes_counts *counts);

uint32_t process_pid(const struct process *process);

/* The thread name with which this image was first seen. */
const char *process_comm(const struct process *process);

/* Whether each of `count` addresses lies in a mapping; true for none. */
bool process_covers(const struct process *process, const uint64_t *addresses, size_t count);

/* The mapping that holds an address, or NULL. Valid until the next refresh. */
const struct mapping *process_mapping(const struct process *process, uint64_t address);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces: whose they are, and what they map, as the kernel tells it.
 *
 * A space lives as long as the table, as stacks refer to it; its mappings only until
 * its process has ended and all of its samples were seen: what is kept of a frame is
 * its place in an object.
 */
#ifndef STACKBEAT_PROCESS_ADDRESS_SPACE_H
#define STACKBEAT_PROCESS_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct error;
struct mapped_file;
struct mapped_files;
struct address_space;
struct address_spaces;

/*
 * What a frame of user code is in, as a number, and what the number that goes with it
 * means there. Beyond these: SEGMENT_FILES + 2 * index of an object, for an ELF virtual
 * address; one more, for an offset in the file.
 */
enum segment {
	SEGMENT_NONE, /* in no mapping that is known: the address */
	SEGMENT_ANON, /* anonymous memory: the address */
	SEGMENT_VSYSCALL, /* the address */
	SEGMENT_VDSO, /* the vdso of a 32-bit program: the address */
	SEGMENT_FILES = 8,
};

struct address_space_counts {
	uint64_t told; /* spaces with a record */
	uint64_t dropped; /* of these, whose mappings were dropped as they had ended */
	uint64_t left_out; /* mappings and changes beyond the bounds of mapping_history.h */
	uint64_t perf_maps_dropped; /* perf maps that were not taken, see runtime/perf_map_watcher.h
				     */
};

/*
 * An empty table. `root` is put before /proc ("" but for tests). The objects must
 * outlive it. Returns NULL and sets `error` when out of memory. address_spaces_free() takes
 * NULL too.
 */
struct address_spaces *address_spaces_new(const char *root, struct mapped_files *objects,
					  struct error *error);
void address_spaces_free(struct address_spaces *spaces);

/* The objects that its mappings are of. */
struct mapped_files *address_spaces_files(const struct address_spaces *spaces);

/*
 * Whether the process ids that the kernel tells are those of /proc here, as they are
 * unless told otherwise. If not, nobody can say which processes have ended.
 */
void address_spaces_same_pid_ns(struct address_spaces *spaces, bool trust);

/* Take what the kernel told (see session/ring_decode.h). Return 0 or -ENOMEM. */
int address_spaces_add(struct address_spaces *spaces, const struct stackbeat_address_space *record);
int address_spaces_add_mapping(struct address_spaces *spaces,
			       const struct stackbeat_mapping *record);

/*
 * The space of an id; a placeholder where it is not told yet. Id 0: one for each process
 * id, `pid`. Owned by the table, and valid until address_spaces_free(). NULL when out of memory.
 */
struct address_space *address_spaces_get(struct address_spaces *spaces, uint64_t id, uint32_t pid);

/*
 * Whether address_space_segment_at() knows at once what a generation maps, without
 * address_space_advance() before. `settled`: all that is to be told of it was told.
 */
bool address_space_ready(const struct address_space *space, uint32_t generation, bool settled);

/*
 * Goes forward to a generation, of which all that is to be told was told: what was
 * mapped before is forgotten. Returns 0 or -ENOMEM.
 */
int address_space_advance(struct address_space *space, uint32_t generation);

/*
 * The place of an address at a generation, and its number there: see enum segment. For a
 * generation that the space has passed, only where nothing has changed since.
 */
uint32_t address_space_segment_at(const struct address_space *space, uint32_t generation,
				  uint64_t address, uint64_t *number);

/*
 * Whether what is in SEGMENT_NONE at a generation is in no executable mapping, and not just
 * in none that is known: then it is no code.
 */
bool address_space_is_certain(const struct address_space *space, uint32_t generation);

/*
 * To be called when all samples up to the time `seen` were handed on, and all was told
 * that is to be told of them; `now` is later (both of the kernel's CLOCK_MONOTONIC, ns).
 * Goes forward where something was told that no sample needs, and drops the mappings of
 * processes that have ended. With `look`, looks which ones have, and marks the objects
 * that the others map (mapped_files_mark()). Returns 0 or -ENOMEM.
 */
int address_spaces_collect_garbage(struct address_spaces *spaces, uint64_t seen, uint64_t now,
				   bool look);

/*
 * A frame is in anonymous memory: where the process tells of the code that it makes (see
 * runtime/perf_map_watcher.h), that is kept, now and as it goes on.
 */
void address_space_has_jit_code(struct address_space *space);

/* To be called when nothing is to be told any more: what processes tell is looked for once more. */
void address_spaces_finish(struct address_spaces *spaces);

/* The perf map of its process, or -1. It stays open as long as the table. */
int address_space_perf_map(const struct address_space *space);

void address_spaces_counts(const struct address_spaces *spaces,
			   struct address_space_counts *counts);

/* Of the process; 0 and "": not known, or none. */
uint32_t address_space_pid(const struct address_space *space);
uint32_t address_space_ns_pid(const struct address_space *space); /* in its own namespace */
uint32_t address_space_parent(const struct address_space *space); /* process id */
uint64_t
address_space_start_time(const struct address_space *space); /* the kernel's CLOCK_BOOTTIME, ns */
const char *address_space_comm(const struct address_space *space);
const char *address_space_cgroup_path(const struct address_space *space);

/* The object of a place, or NULL; *is_offset tells what its numbers are. */
struct mapped_file *segment_file(const struct mapped_files *objects, uint32_t place,
				 bool *is_offset);

#endif

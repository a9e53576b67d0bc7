/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The address spaces of sampled processes: identity and mappings, from the kernel's records.
 *
 * An address space is forgotten once its process has ended and all of its samples were handled. So
 * the table grows with the processes that live, not with those that were sampled.
 */
#ifndef STACKBEAT_MAPPINGS_ADDRESS_SPACE_H
#define STACKBEAT_MAPPINGS_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct error;
struct mapping;
struct mapped_file;
struct mapped_files;
struct perf_map_fd;
struct address_space;
struct address_spaces;

/*
 * The kind of memory that a user frame is in. The meaning of an offset depends on its segment.
 * Segments of files follow: SEGMENT_FILES + SEGMENTS_OF_FILE * index of the mapped file + enum
 * segment_kind.
 */
enum segment {
	SEGMENT_NONE, /* in no known mapping; the offset is the address */
	SEGMENT_ANON, /* anonymous memory; the address */
	SEGMENT_VSYSCALL, /* the address */
	SEGMENT_VDSO, /* the vdso of a 32-bit program; the address */
	/* In a profile, but in no address space: */
	SEGMENT_KERNEL, /* the address */
	SEGMENT_MERGED, /* callers that were dropped for lack of memory; 0 */
	SEGMENT_FILES = 8,
};

/* What the offset in a segment of a file is. */
enum segment_kind {
	SEGMENT_VADDRS, /* an ELF virtual address */
	SEGMENT_OFFSETS, /* an offset in the file, whose headers are not known */
	/* The address, in a profile: the file is no ELF file, and its process has a perf map. */
	SEGMENT_ADDRESSES,
	SEGMENTS_OF_FILE = 4,
};

/* Returns the segment of a kind of the mapped file with an index. */
static inline uint32_t segment_of_file(uint32_t index, enum segment_kind kind)
{
	return SEGMENT_FILES + SEGMENTS_OF_FILE * index + kind;
}

static inline bool segment_is_of_kind(uint32_t segment, enum segment_kind kind)
{
	return segment >= SEGMENT_FILES && (segment - SEGMENT_FILES) % SEGMENTS_OF_FILE == kind;
}

/* Returns whether the names of the code in a segment are in the process's perf map, by address. */
static inline bool segment_is_jit(uint32_t segment)
{
	return segment == SEGMENT_ANON || segment_is_of_kind(segment, SEGMENT_ADDRESSES);
}

struct address_space_counts {
	uint64_t ended; /* announced address spaces that have ended, and are forgotten */
	uint64_t mappings_dropped; /* mappings and events beyond the bounds of mapping_history.h */
	uint64_t perf_maps_dropped; /* see perf_maps_dropped() */
};

/*
 * Returns an empty table, or NULL with `error` set when out of memory. `root` is prepended to
 * /proc ("", except in tests). `files` must outlive the table. address_spaces_free() accepts NULL.
 */
struct address_spaces *address_spaces_new(const char *root, struct mapped_files *files,
					  struct error *error);
void address_spaces_free(struct address_spaces *spaces);

/*
 * Called before an address space is forgotten: after the call, nothing may refer to it. Returns 0,
 * or a negative errno value: then it is kept.
 */
typedef int forget_address_space_fn(struct address_space *space, void *arg);

/* Sets the function that is called for each address space before it is forgotten; NULL: none. */
void address_spaces_on_forget(struct address_spaces *spaces, forget_address_space_fn *forget,
			      void *arg);

/*
 * Called for text that a process has moved to anonymous memory, of a file that is mapped beside it.
 * Returns 0 or a negative errno value; -ESTALE: the caller tries again at a later generation.
 */
typedef int moved_text_fn(const struct stackbeat_moved_text *moved, void *arg);
void address_spaces_on_moved_text(struct address_spaces *spaces, moved_text_fn *fn, void *arg);

/* Returns the files that the mappings refer to. */
struct mapped_files *address_spaces_files(const struct address_spaces *spaces);

/*
 * Sets whether the process ids in records are as in /proc here, which is the default. If not,
 * ended processes can't be recognized.
 */
void address_spaces_same_pid_ns(struct address_spaces *spaces, bool same);

/*
 * From now on, notes the executable file of a process, by its ID here. address_spaces_main_path()
 * returns its path, which is valid until the next record is added; NULL: unknown.
 */
void address_spaces_follow_main(struct address_spaces *spaces, uint32_t pid);
const char *address_spaces_main_path(const struct address_spaces *spaces);

/* Add a record (see source/ring_decode.h). Return 0 or -ENOMEM. */
int address_spaces_add(struct address_spaces *spaces, const struct stackbeat_address_space *record);
int address_spaces_add_mapping(struct address_spaces *spaces,
			       const struct stackbeat_mapping *record);

/*
 * Returns the address space of an id, or a placeholder before its record. With id 0 there is one
 * for each process id `pid`. Owned by the table, and valid until it is forgotten. NULL when out of
 * memory.
 */
struct address_space *address_spaces_get(struct address_spaces *spaces, uint64_t id, uint32_t pid);

/*
 * Returns whether address_space_segment_at() at a generation needs no address_space_advance()
 * before. `settled`: all records of this generation have arrived.
 */
bool address_space_ready(const struct address_space *space, uint32_t generation, bool settled);

/*
 * Advances to a generation; all of its records must have arrived. Mappings that were replaced
 * before are dropped. Returns 0 or -ENOMEM.
 */
int address_space_advance(struct address_space *space, uint32_t generation);

/*
 * Looks up `count` (at least 1) addresses at a generation, up to the first address that is in
 * SEGMENT_NONE, and that one. Replaces each by its offset, and sets its segment. Returns the number
 * of addresses looked up. For a generation that the address space has passed, only mappings that
 * have not changed since are found. Anonymous memory of a live process that has the bytes of a file
 * which is mapped beside it belongs to that file (see moved_text.h).
 */
size_t address_space_segments_at(struct address_space *space, uint32_t generation,
				 uint64_t *addresses, uint32_t *segments, size_t count);

/* The same for one address: returns its segment. */
static inline uint32_t address_space_segment_at(struct address_space *space, uint32_t generation,
						uint64_t address, uint64_t *offset)
{
	uint32_t segment;

	*offset = address;
	address_space_segments_at(space, generation, offset, &segment, 1);
	return segment;
}

/*
 * Returns the mapping in which an address is found, valid until the next call of another function
 * for the address space; NULL: none, or the vsyscall page.
 */
const struct mapping *address_space_mapping_at(struct address_space *space, uint32_t generation,
					       uint64_t address);

/*
 * A copy of the mappings at one generation: an address space may go on meanwhile. The files of its
 * segments are not forgotten as long as it is marked each second.
 */
struct mapping_view {
	struct mapping *mappings; /* by address; owned */
	size_t count;
	bool is_certain; /* as address_space_is_certain() */
};

/*
 * Makes a view of the mappings of an address space at a generation, which the caller clears.
 * Returns 0, or -ENOMEM with an empty view.
 */
int mapping_view_init(struct mapping_view *view, struct address_space *space, uint32_t generation);
void mapping_view_clear(struct mapping_view *view);

/* As address_space_segments_at(), in a view. */
size_t mapping_view_segments(const struct mapping_view *view, uint64_t *addresses,
			     uint32_t *segments, size_t count);

/* As address_space_mapping_at(), in a view. */
const struct mapping *mapping_view_mapping(const struct mapping_view *view, uint64_t address);

/* As mapped_files_mark(), for all files of the view. */
void mapping_view_mark(const struct mapping_view *view, struct mapped_files *files);

/* Returns the bytes of memory of a view, without the overhead of malloc(). */
size_t mapping_view_bytes(const struct mapping_view *view);

/*
 * A held address space is not forgotten, even if its process has ended. Each hold needs one
 * release.
 */
void address_space_hold(struct address_space *space);
void address_space_release(struct address_space *space);

/*
 * Returns whether an address in SEGMENT_NONE at a generation is certain to be in no executable
 * mapping, rather than in none that is known: then it is no code.
 */
bool address_space_is_certain(const struct address_space *space, uint32_t generation);

/*
 * Call when all samples up to the time `seen` were handled, and all records that concern them.
 * `now` is later; both are of the kernel's CLOCK_MONOTONIC, in ns. Applies pending mapping events
 * that no sample needs, and forgets ended processes, and address spaces whose record did not
 * arrive. With `check_alive`, also checks which processes have ended, and marks the files that the
 * live ones map (mapped_files_mark()). Returns 0 or a negative errno value.
 */
int address_spaces_collect_garbage(struct address_spaces *spaces, uint64_t seen, uint64_t now,
				   bool check_alive);

/*
 * A sampled frame is in anonymous memory, or in a file that may be no ELF file, so the process
 * probably has JIT code: its perf map, if there is one, is kept open from now on (see
 * runtime/perf_map_watcher.h).
 */
void address_space_has_jit_code(struct address_space *space);

/* Call after the last record: looks for perf maps one last time. */
void address_spaces_finish(struct address_spaces *spaces);

/*
 * Returns the id of the perf map that the process has, or may have later, see
 * perf_map_watcher_id(); 0: none.
 */
uint32_t address_space_perf_map(const struct address_space *space);

/*
 * Returns the mapping that has an offset in a segment of SEGMENT_OFFSETS now, or NULL if none of
 * the first ADDRESS_MAPPINGS_MAX mappings has it. It takes that many steps, so that a caller with
 * several offsets should try the last mapping first. It lives until the space advances.
 */
#define ADDRESS_MAPPINGS_MAX 1024u
const struct mapping *address_space_mapping_of(const struct address_space *space, uint32_t segment,
					       uint64_t offset);

/* As perf_map_watcher_take(). */
int address_spaces_take_perf_maps(struct address_spaces *spaces, bool forget,
				  struct perf_map_fd **maps, size_t *count);

/*
 * Returns the number of events so far of code in anonymous memory: a program may have moved its
 * text, which address_space_segments_at() finds out when it looks up a sample of it.
 */
uint64_t address_spaces_anonymous_code(const struct address_spaces *spaces);

/* Returns the bytes of memory of the address spaces, without the overhead of malloc(). */
size_t address_spaces_bytes(const struct address_spaces *spaces);

/* Returns the index of an address space; indices of forgotten ones are used again. */
uint32_t address_space_index(const struct address_space *space);

void address_spaces_counts(const struct address_spaces *spaces,
			   struct address_space_counts *counts);

/* Returns whether the record of the address space has arrived: its process does not change then. */
bool address_space_is_announced(const struct address_space *space);

/* Identity of the process; 0 or "": unknown, or none. */
uint32_t address_space_pid(const struct address_space *space);
uint32_t address_space_ns_pid(const struct address_space *space); /* in its own namespace */
uint32_t address_space_parent(const struct address_space *space); /* process id */
uint64_t
address_space_start_time(const struct address_space *space); /* the kernel's CLOCK_BOOTTIME, ns */
const char *address_space_comm(const struct address_space *space);
const char *address_space_cgroup_path(const struct address_space *space);

/*
 * Returns the file of a segment, or NULL. Sets *is_offset to whether offsets in the segment are
 * no ELF virtual addresses.
 */
struct mapped_file *segment_file(const struct mapped_files *files, uint32_t segment,
				 bool *is_offset);

#endif

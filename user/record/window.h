/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The samples of a period of a recording, as a raw profile: of addresses, without address spaces.
 * So equal stacks of all processes are one, and nothing refers to a process, which may have ended.
 *
 * A location is an offset in a segment (see mappings/address_space.h): it has the mapping of
 * this place, or none for SEGMENT_NONE. Each sample has its labels, and LABEL_TRUNCATED,
 * chosen or not, if its stack is truncated unless the symbols show a root. Values are as in
 * profile_set_recorded_types(). Times of moments are of CLOCK_MONOTONIC, not since 1970.
 */
#ifndef STACKBEAT_RECORD_WINDOW_H
#define STACKBEAT_RECORD_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pprof/labels.h"
#include "pprof/profile.h"

struct mapped_files;
struct perf_map_fd;
struct stack;

/* What was merged for lack of memory, see window_reduce(). */
struct window_merged {
	uint64_t stacks; /* that were merged with others */
	uint64_t labels; /* samples that have lost labels only */
	uint64_t callers; /* samples that have lost callers */
};

/* How the callers in user parts were found: one count for each in each sample. */
struct window_callers {
	uint64_t by_table; /* by unwind tables, in the kernel */
	uint64_t by_frame_pointer;
	uint64_t by_copy; /* by a copy of the stack, see stack_copies.h */
};

struct window_cache;

struct window {
	struct profile *profile;
	struct window_cache *cache; /* of numbers in the profile; NULL: none */
	struct mapped_files *files; /* to which the segments refer; or NULL */
	uint32_t *held_files; /* indices of the files that the window holds; owned */
	size_t held_count, held_capacity;
	struct perf_map_fd *perf_maps; /* of the sampled processes; owned */
	size_t perf_map_count;
	uint64_t samples;
	struct window_callers callers;
	uint64_t merged_stacks; /* see struct window_merged */
};

/*
 * Makes an empty window. It holds all of `files` (NULL: none) in which its stacks have frames,
 * until window_clear(), for which `files` must still exist. Returns 0 or -ENOMEM. window_clear() is
 * to be called in both cases.
 */
int window_init(struct window *window, struct mapped_files *files);
void window_clear(struct window *window);

/*
 * Moves the contents of a window to `taken`, which window_clear() frees. Returns 0, or -ENOMEM with
 * nothing moved, and `taken` empty.
 */
int window_take(struct window *window, struct window *taken);

/* Replaces the perf maps of a window, which it owns from now on. */
void window_set_perf_maps(struct window *window, struct perf_map_fd *maps, size_t count);

/* Adds the counts of a stack with these labels. Returns 0 or -ENOMEM. */
int window_add(struct window *window, const struct labels *labels, const struct stack *stack);

/*
 * Merges the lightest samples until the window takes at most `bytes`, as far as that is possible.
 * Sums stay exact. A sample first loses the labels of its thread (pid, nspid, tid, thread, cpu,
 * the labels of its goroutine and the labels that the program has given it: keys that are neither
 * stackbeat's nor added by `labels`), then all frames but the leaf, which gets a caller in
 * SEGMENT_MERGED, then all labels of the process, then its leaf. It gets the label "merged":
 * MERGED_LABELS or MERGED_CALLERS. Takes as much memory meanwhile as the window. Returns 0 or
 * -ENOMEM: then the window is valid, but may be larger.
 */
int window_reduce(struct window *window, const struct labels *labels, size_t bytes);

/* Counts what window_reduce() has merged in a window. */
void window_count_merged(const struct window *window, struct window_merged *merged);

/* Returns the bytes of memory of a window, without the overhead of malloc(). */
size_t window_bytes(const struct window *window);

#endif

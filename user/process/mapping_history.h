/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The executable mappings of one address space over its generations, as the
 * metadata ring tells them: see "Address spaces" in stackbeat.h. Records may come
 * in any order.
 *
 * It goes forward only: it holds the mappings at one generation, and what was told
 * of later ones. So its memory is bounded by what is mapped, not by how often that
 * changes.
 */
#ifndef STACKBEAT_PROCESS_MAPPING_HISTORY_H
#define STACKBEAT_PROCESS_MAPPING_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bounds of one space. From MAPPING_HISTORY_SPANS_MANY on, neighbouring anonymous mappings
 * become one, with the hole between them, in which nothing can run.
 */
#define MAPPING_HISTORY_SPANS_MANY 4096u
#define MAPPING_HISTORY_SPANS_MAX 16384u /* as many as the kernel reads */
#define MAPPING_HISTORY_EVENTS_MAX 65536u /* that are ahead of its generation */

/* What a mapping is: see address_space.h for what the numbers stand for. */
struct span {
	uint64_t start, end; /* addresses, end excluded */
	uint64_t shift; /* what is added to its addresses, modulo 2^64 */
	uint32_t place; /* 0: none */
};

struct mapping_history;

/* An empty history. NULL when out of memory. mapping_history_free() takes NULL too. */
struct mapping_history *mapping_history_new(void);
void mapping_history_free(struct mapping_history *history);

/*
 * What the kernel told: that mappings were read at a generation, with `gap` as in
 * struct stackbeat_address_space, `left_out` if they are not all; one of these mappings; a
 * change. All return 0 or -ENOMEM. What is beyond a bound is left
 * out, and counted in *lost.
 */
int mapping_history_read(struct mapping_history *history, uint32_t generation, uint32_t gap,
			 bool left_out);
int mapping_history_mapping(struct mapping_history *history, uint32_t generation,
			    const struct span *span, uint64_t *lost);
int mapping_history_event(struct mapping_history *history, uint32_t generation,
			  const struct span *span, uint64_t *lost);

/*
 * Whether mapping_history_find() at this generation needs no mapping_history_advance() before.
 * `settled`: all that is to be told of this generation was told.
 */
bool mapping_history_ready(const struct mapping_history *history, uint32_t generation,
			   bool settled);

/*
 * Goes forward to a generation of which all that is to be told was told. Does nothing
 * where no mappings were read yet. Returns 0 or -ENOMEM.
 */
int mapping_history_advance(struct mapping_history *history, uint32_t generation);

/* The latest generation that was told of. */
uint32_t mapping_history_latest(const struct mapping_history *history);

/* Bytes that changes have moved, for tests: a change moves at most 4 for each mapping. */
uint64_t mapping_history_moved(const struct mapping_history *history);

/* Whether something was told of a generation that lies ahead. */
bool mapping_history_is_behind(const struct mapping_history *history);

/*
 * The mapping that holds an address at a generation, or NULL. For generations before
 * that of the history only where nothing has changed since. Valid until the next call of
 * another function.
 */
const struct span *mapping_history_find(struct mapping_history *history, uint32_t generation,
					uint64_t address);

/*
 * Whether what mapping_history_find() does not find at this generation is in no executable mapping,
 * and not just in none that is known.
 */
bool mapping_history_is_certain(const struct mapping_history *history, uint32_t generation);

/* Calls `fn` for the place of each mapping that may still be found. */
void mapping_history_each_segment(const struct mapping_history *history,
				  void (*fn)(uint32_t place, void *arg), void *arg);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The executable mappings of one address space over its generations, from the records of the
 * metadata ring: see "Address spaces" in stackbeat.h. Records may arrive in any order.
 *
 * A history only moves forward: it holds the mappings at one generation, and the pending records
 * of later ones. Its memory is bounded by the number of mappings, not by the number of mapping
 * events over time.
 *
 * An example: a process has mapped A, and is sampled for the first time at generation 2. When the
 * kernel takes a snapshot, the generation is 3. Later the kernel loses the event of E, and takes
 * another snapshot: its gap begins with the lost event.
 *
 *	generation	1	2	3	4	5	6	7
 *	process maps	(A)	B	C	D	E	-	F
 *	at		0x1000	0x2000	0x3000	0x4000	0x2000		0x1000
 *	event		-	B	C	D	lost	-	F
 *	snapshot			A B C			A E C D
 *	gap							5
 *	sample		-	s1	-	s2	s3	s4	s5
 *
 * mapping_history_find() after mapping_history_advance() to the generation:
 *
 *	0x1000		A	A	A	A	A	A	F
 *	0x2000		.	B	B	B	.	E	E
 *	0x3000		.	.	C	C	C	C	C
 *	0x4000		.	.	none	D	D	D	D
 *	certain		no	no	yes	yes	no	yes	yes
 *
 * - Before the first snapshot (1, 2), its mappings are found where no event up to it has replaced
 *   them: A, but not B before its event. All events up to it must have arrived.
 * - From a snapshot on, a mapping comes from the latest event, or else of the snapshot. Where there
 *   is neither, no mapping is certain, rather than unknown (.).
 * - In the gap (5), only what is the same before and after it is known.
 * - If the event of D were lost without another snapshot, nothing would be known from 4 on. If it
 *   arrives after the lookup of s2, lookups may find less than they could, but no wrong mapping.
 *
 * tests/unit/mapping_model.h is a model that takes the words of stackbeat.h literally. The
 * unit test and tests/fuzz/fuzz_history.c compare all lookups of simulated processes with it;
 * the unit test has this example, too. The invariants are in check_history().
 */
#ifndef STACKBEAT_MAPPINGS_MAPPING_HISTORY_H
#define STACKBEAT_MAPPINGS_MAPPING_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Bounds of one address space. From MAPPING_HISTORY_COALESCE_THRESHOLD mappings on, neighbouring
 * anonymous mappings are merged across the hole between them, in which nothing can run.
 */
#define MAPPING_HISTORY_COALESCE_THRESHOLD 4096u
#define MAPPING_HISTORY_MAPPINGS_MAX 16384u /* as many as the kernel reads */
#define MAPPING_HISTORY_EVENTS_MAX 65536u /* pending: later than the history's generation */

struct mapping {
	uint64_t start, end; /* addresses, end excluded */
	uint64_t bias; /* added to its addresses, modulo 2^64, for offsets in the segment */
	uint32_t segment; /* enum segment of address_space.h; 0: none */
};

static inline bool mapping_contains(const struct mapping *mapping, uint64_t address)
{
	return address >= mapping->start && address < mapping->end;
}

struct mapping_history;

/* Returns an empty history, or NULL when out of memory. mapping_history_free() accepts NULL. */
struct mapping_history *mapping_history_new(void);
void mapping_history_free(struct mapping_history *history);

/*
 * Add one record: a snapshot of all mappings at a generation; one mapping of such a snapshot; a
 * mapping event. `gap` is as in struct stackbeat_address_space; `incomplete`: the kernel dropped
 * mappings of the snapshot. All return 0 or -ENOMEM. A mapping or an event beyond a bound is
 * dropped, and counted in *dropped.
 */
int mapping_history_add_snapshot(struct mapping_history *history, uint32_t generation, uint32_t gap,
				 bool incomplete);
int mapping_history_add_mapping(struct mapping_history *history, uint32_t generation,
				const struct mapping *mapping, uint64_t *dropped);
int mapping_history_add_event(struct mapping_history *history, uint32_t generation,
			      const struct mapping *mapping, uint64_t *dropped);

/*
 * Returns whether mapping_history_find() at this generation needs no mapping_history_advance()
 * before. `settled`: all records of this generation have arrived.
 */
bool mapping_history_ready(const struct mapping_history *history, uint32_t generation,
			   bool settled);

/*
 * Advances to a generation; all of its records must have arrived. Does nothing before the first
 * snapshot. Returns 0 or -ENOMEM.
 */
int mapping_history_advance(struct mapping_history *history, uint32_t generation);

/* Returns the latest generation of any record. */
uint32_t mapping_history_latest_generation(const struct mapping_history *history);

/* Returns the bytes that events have moved, for tests: at most 4 per mapping and event. */
uint64_t mapping_history_bytes_moved(const struct mapping_history *history);

/* Returns the bytes of memory of a history, without the overhead of malloc(). */
size_t mapping_history_bytes(const struct mapping_history *history);

/* Returns whether there are records of later generations. */
bool mapping_history_has_pending(const struct mapping_history *history);

/*
 * Returns the mapping that holds an address at a generation, or NULL. For generations before the
 * history's own, only mappings that have not changed since are found. The result is valid until
 * the next call of another function.
 */
const struct mapping *mapping_history_find(struct mapping_history *history, uint32_t generation,
					   uint64_t address);

/*
 * Sets *neighbour to the first mapping that is not anonymous before (or `after`) the mapping that
 * holds an address, beyond MAPPING_HISTORY_NEIGHBOURS anonymous ones at most. Returns whether there
 * is one.
 */
#define MAPPING_HISTORY_NEIGHBOURS 4u
bool mapping_history_neighbour(const struct mapping_history *history, uint64_t address, bool after,
			       struct mapping *neighbour);

/*
 * A part of the mapping that holds its start is in fact this mapping, since the same generation.
 * Returns 0, -ENOENT if there is no such mapping, or -ENOMEM.
 */
int mapping_history_correct(struct mapping_history *history, const struct mapping *part);

/*
 * Sets *mappings to a copy of all mappings that mapping_history_find() finds at a generation, by
 * address, which the caller frees. Returns their number, or -ENOMEM.
 */
ssize_t mapping_history_copy(const struct mapping_history *history, uint32_t generation,
			     struct mapping **mappings);

/*
 * Returns the first of the `max` lowest mappings at the history's generation that has an offset in
 * a segment, or NULL. The mapping lives as long as the history does not change.
 */
const struct mapping *mapping_history_mapping_of(const struct mapping_history *history,
						 uint32_t segment, uint64_t offset, size_t max);

/*
 * Returns whether an address that mapping_history_find() does not find at this generation is
 * certain to be in no executable mapping, rather than in none that is known.
 */
bool mapping_history_is_certain(const struct mapping_history *history, uint32_t generation);

/* Calls `fn` with the segment of each mapping that may still be found. */
void mapping_history_each_segment(const struct mapping_history *history,
				  void (*fn)(uint32_t segment, void *arg), void *arg);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The executable mappings of an address space, sorted, for walks by unwind tables, as they are at one
 * generation of the space. The worker makes them from the mappings that it has read, and applies each
 * mapping event to them, whose cost does not depend on their number: they are in chunks, and an event
 * makes a new chunk from the one of its range.
 *
 * The tick reads them under RCU: the slot of a space leads to an array of chunks (struct sb_unwind_maps),
 * and that to the chunks. All changes are made by the worker, and by requests of the reader, under the
 * lock of the spaces:
 *
 *	An event within a chunk replaces the chunk in its array, another one replaces the array, which has
 *	most chunks of its predecessor. What a chunk says of addresses is never changed.
 *
 *	A chunk is freed a grace period after it was replaced in the array that is in the slot, and an
 *	array after it has left the slot. No tick that begins later finds them: an array that has left the
 *	slot is not found, whatever chunks it has.
 *
 *	A walk keeps the tables that it has found from tick to tick, as long as the serial number is the
 *	same. Each change sets a new serial number after the new chunk, and before the references of the
 *	mappings that it has replaced are dropped. A tick with the former serial number has begun before
 *	that, and objects and tables are freed a grace period after their last reference: it may use tables
 *	of both chunks. The generation is set last: a tick that finds it finds the change, and a tick that
 *	finds the former one may find the mappings before or after the event, which has happened by then.
 */
#ifndef STACKBEAT_UNWIND_MAPS_H
#define STACKBEAT_UNWIND_MAPS_H

#include <linux/atomic.h>
#include <linux/hashtable.h>
#include <linux/list.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

#include "stackbeat.h"
#include "unwind_object.h"

struct sb_unwind_map {
	u64 start, end;
	u64 offset;		/* in the file */
	u64 bias;		/* address - ELF virtual address */
	struct sb_unwind_object *object;	/* with a reference; NULL: frame pointers */
	bool vdso;
	bool uprobes;		/* the page with the trampoline of uretprobes */
	bool biased;		/* `bias` is valid; see sb_unwind_map_set_bias() */
	/* Not read by ticks. */
	bool by_tables;		/* counted in sb_unwind_maps.by_tables */
	u8 index;		/* in its chunk */
	struct hlist_node waiting;	/* in sb_unwind_spaces.waiting, or unhashed */
};

/* Neighbouring mappings, one at least. */
struct sb_unwind_chunk {
	struct rcu_head rcu;
	struct sb_unwind_spaces *spaces;	/* whose `dropped` counts the chunk once it is replaced */
	struct sb_unwind_slot *slot;	/* of the array that has it */
	u32 count;
	struct sb_unwind_map items[];
};

struct sb_unwind_maps {
	struct rcu_head rcu;
	struct sb_unwind_spaces *spaces;	/* whose `dropped` counts the array once it is dropped */
	struct sb_unwind_slot *slot;
	void *owner;		/* of the slot, for the caller */
	struct list_head list;	/* in spaces->arrays, while it is in the slot */
	u64 serial;		/* no other array, and no other state of this one, has the same, of any session */
	u64 id;			/* of the address space */
	u32 generation;
	u32 count;		/* mappings; as the next two and `whole` not read by ticks */
	u32 room;		/* mappings for which it was allocated */
	u32 by_tables;		/* mappings that keep `frame_pointers` from being set */
	bool whole;		/* no other array has its chunks: they are freed with it */
	bool used;		/* by a tick, since the last search for arrays to be freed */
	/* No mapping has a table, except the vDSO, and no return address is replaced. */
	bool frame_pointers;
	/* The addresses at which the space had its vDSO. */
	u64 vdso_start, vdso_size;
	u32 chunk_count;
	/* Chunk i has the mappings from `start` on, up to `start` of chunk i + 1. Chunk 0 starts at 0. */
	struct {
		u64 start;
		struct sb_unwind_chunk __rcu *chunk;
	} chunks[];
};

/* Of STACKBEAT_FILES_MAX files, few share a list. */
#define SB_UNWIND_WAITING_BITS 12

/* The place of the array of a space; of 0 at first. */
struct sb_unwind_slot {
	struct sb_unwind_maps __rcu *maps;
};

/* The arrays of a session. Under the lock of its spaces. */
struct sb_unwind_spaces {
	/* Those that are in slots: where the next search for arrays to be freed starts is the first. */
	struct list_head arrays;
	u32 array_count;
	u32 items;		/* mappings of all arrays */
	/* The size of arrays and chunks that wait for a grace period, in mappings. */
	atomic_t dropped;
	/* The mappings of objects whose tables are not known yet, by object. */
	DECLARE_HASHTABLE(waiting, SB_UNWIND_WAITING_BITS);
};

/* All fields are 0 before. */
void sb_unwind_spaces_init(struct sb_unwind_spaces *spaces);
/* No tick runs any more. May wait for a grace period. The slots are not used. */
void sb_unwind_spaces_free(struct sb_unwind_spaces *spaces);

/* The owner of a slot has lost the mappings of its space with this id. */
typedef void sb_unwind_lost_fn(void *arg, void *owner, u64 id);

/*
 * Allocates an empty array for a slot, with room for `count` mappings. Frees arrays of other slots if
 * there are too many, and calls `lost` for the owner of each. NULL: no memory, the array would be too
 * large, or too many arrays wait for being freed.
 */
struct sb_unwind_maps *sb_unwind_maps_alloc(struct sb_unwind_spaces *spaces,
					    struct sb_unwind_slot *slot, void *owner, u32 count,
					    sb_unwind_lost_fn *lost, void *arg);
/*
 * Appends a mapping; they come in the order of their addresses, and do not overlap. Takes a reference to
 * its object. ENOMEM.
 */
int sb_unwind_maps_add(struct sb_unwind_maps *maps, const struct sb_unwind_map *map);
/* Frees an array that was not published. */
void sb_unwind_maps_discard(struct sb_unwind_maps *maps);
/* Puts an array in its slot, and frees the former array after a grace period. */
void sb_unwind_maps_publish(struct sb_unwind_maps *maps, u64 id, u32 generation);

/*
 * Applies a mapping event: from its generation on its range holds this mapping only. Nothing happens
 * if the array belongs to another space, or of this generation or a later one. ENOMEM; ESTALE: an event
 * is missing before this one. After an error the array is gone.
 */
int sb_unwind_maps_apply(struct sb_unwind_slot *slot, u64 id, u32 generation,
			 const struct sb_unwind_map *map, sb_unwind_lost_fn *lost, void *arg);

/*
 * Whether a mapping of an object, as files have, begins at the end of a range or ends at its start. False
 * if the array belongs to another space.
 */
bool sb_unwind_maps_touch_object(const struct sb_unwind_slot *slot, u64 id, u64 start, u64 end);

/*
 * Anonymous memory has the code of the file beside it from now on, see STACKBEAT_IOC_MOVED_TEXT: ENOENT,
 * ESTALE, EINVAL, ENOMEM. The range is not empty. The time depends on the number of arrays.
 */
int sb_unwind_spaces_move_text(struct sb_unwind_spaces *spaces,
			       const struct stackbeat_moved_text *moved, sb_unwind_lost_fn *lost,
			       void *arg);

/* Frees the array of a slot, if there is one, after a grace period. */
void sb_unwind_slot_clear(struct sb_unwind_slot *slot);

/* Frees the arrays of spaces for which `is_used` is false. */
void sb_unwind_spaces_sweep(struct sb_unwind_spaces *spaces,
			    bool (*is_used)(void *arg, void *owner, u64 id), void *arg);

/*
 * The table of an object, or that it has none, is known from now on: completes its mappings whose
 * ELF headers could not be read before, and what is derived from tables. The time depends on the number
 * of its mappings only.
 */
void sb_unwind_spaces_update(struct sb_unwind_spaces *spaces, const struct sb_unwind_object *object);

/* Sets the bias of a mapping, if the ELF segments of its file are known. */
void sb_unwind_map_set_bias(struct sb_unwind_map *map, const struct sb_elf *elf);

/* Returns the index of the chunk of an address. There is one at least. */
static inline u32 sb_unwind_maps_search(const struct sb_unwind_maps *maps, u64 address)
{
	u32 low = 0, count = maps->chunk_count, half;

	for (; count > 1; count -= half) {
		half = count / 2;
		if (maps->chunks[low + half].start <= address)
			low += half;
	}
	return low;
}

/* Returns the mapping of an address in a chunk, or NULL. */
static inline const struct sb_unwind_map *sb_unwind_chunk_find(const struct sb_unwind_chunk *chunk,
							       u64 address)
{
	const struct sb_unwind_map *map = chunk->items;
	u32 count = chunk->count, half;

	/* The last mapping that starts at or before the address is map - 1. */
	while (count) {
		half = count / 2;
		if (map[half].start <= address) {
			map += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	if (map == chunk->items || address >= map[-1].end)
		return NULL;
	return map - 1;
}

/* Returns the mapping of an address, or NULL. Called by a tick. */
static inline const struct sb_unwind_map *sb_unwind_maps_find(const struct sb_unwind_maps *maps,
							      u64 address)
{
	const struct sb_unwind_chunk *chunk;

	if (!maps->chunk_count)
		return NULL;
	chunk = rcu_dereference_sched(maps->chunks[sb_unwind_maps_search(maps, address)].chunk);
	return sb_unwind_chunk_find(chunk, address);
}

#endif

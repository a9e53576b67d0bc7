/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The executable mappings of an address space, sorted, for walks by unwind tables: an array that is
 * valid at one generation of the space. The worker makes it from the mappings that it has read, and
 * a new one from each mapping event that changes it. The tick reads it under RCU.
 */
#ifndef STACKBEAT_UNWIND_MAPS_H
#define STACKBEAT_UNWIND_MAPS_H

#include <linux/atomic.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

#include "unwind_object.h"

struct sb_unwind_map {
	u64 start, end;
	u64 offset;		/* in the file */
	u64 bias;		/* address - ELF virtual address */
	struct sb_unwind_object *object;	/* with a reference; NULL: frame pointers */
	bool vdso;
	bool uprobes;		/* the page with the trampoline of uretprobes */
	bool biased;		/* `bias` is valid; see sb_unwind_maps_set_bias() */
};

struct sb_unwind_maps {
	struct rcu_head rcu;
	struct sb_unwind_spaces *spaces;	/* whose `waiting` counts the array once it is dropped */
	u64 serial;		/* no other array has the same, of any session */
	u64 id;			/* of the address space */
	u32 generation;		/* increased by events that change no mapping */
	u32 count;
	bool used;		/* by a tick, since the last search for arrays to be freed */
	/* No mapping has a table, except that of the vDSO, and no return address is replaced. */
	bool frame_pointers;
	u64 vdso_start, vdso_size;
	struct sb_unwind_map items[];
};

/* The arrays of a session, by entry of its table of spaces. Under the lock of its spaces. */
struct sb_unwind_spaces {
	struct sb_unwind_maps __rcu **slots;
	u32 slot_count;
	u32 items;		/* of all arrays */
	/* Items of dropped arrays that wait for a grace period, and one more for each of these. */
	atomic_t waiting;
	u32 hand;		/* where the next search for arrays to be freed starts */
};

/* ENOMEM. */
int sb_unwind_spaces_init(struct sb_unwind_spaces *spaces, u32 slot_count);
/*
 * No tick runs any more. May wait for a grace period. Also allowed after sb_unwind_spaces_init() has
 * failed.
 */
void sb_unwind_spaces_free(struct sb_unwind_spaces *spaces);

/*
 * Allocates an empty array for a slot, with room for `count` mappings. Frees arrays of other slots if
 * there are too many, and calls `lost` for each. NULL: no memory, the array would be too large, or too
 * many arrays wait for being freed.
 */
struct sb_unwind_maps *sb_unwind_maps_alloc(struct sb_unwind_spaces *spaces, u32 slot, u32 count,
					    void (*lost)(void *arg, u32 slot, u64 id), void *arg);
/* Appends a mapping; they come in the order of their addresses. Takes a reference to its object. */
void sb_unwind_maps_add(struct sb_unwind_maps *maps, const struct sb_unwind_map *map);
/* Publishes an array as that of a slot, and frees the former one after a grace period. */
void sb_unwind_maps_publish(struct sb_unwind_spaces *spaces, u32 slot, struct sb_unwind_maps *maps,
			    u64 id, u32 generation);

/*
 * Applies a mapping event: from its generation on its range holds this mapping only. Nothing happens
 * if the array is that of another space, or of this generation or a later one. ENOMEM; ESTALE: an event
 * is missing before this one. After an error the array is gone.
 */
int sb_unwind_maps_apply(struct sb_unwind_spaces *spaces, u32 slot, u64 id, u32 generation,
			 const struct sb_unwind_map *map,
			 void (*lost)(void *arg, u32 slot, u64 id), void *arg);

/* Frees the arrays of spaces for which `is_used` is false. */
void sb_unwind_spaces_sweep(struct sb_unwind_spaces *spaces,
			    bool (*is_used)(void *arg, u32 slot, u64 id), void *arg);

/*
 * The table of an object, or that it has none, is known from now on: completes its mappings whose
 * ELF headers could not be read before, and what is derived from tables.
 */
void sb_unwind_spaces_update(struct sb_unwind_spaces *spaces, const struct sb_unwind_object *object);

/* Sets the bias of a mapping, if the ELF segments of its file are known. */
void sb_unwind_map_set_bias(struct sb_unwind_map *map, const struct sb_elf *elf);

#endif

// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "limits.h"
#include "unwind_maps.h"

static atomic64_t sb_unwind_maps_last_serial;

int sb_unwind_spaces_init(struct sb_unwind_spaces *spaces, u32 slot_count)
{
	spaces->slots = kvcalloc(slot_count, sizeof(*spaces->slots), GFP_KERNEL_ACCOUNT);
	spaces->slot_count = spaces->slots ? slot_count : 0;
	return spaces->slots ? 0 : -ENOMEM;
}

/* The arrays change under the lock of the spaces only. */
static struct sb_unwind_maps *sb_unwind_maps_of(const struct sb_unwind_spaces *spaces, u32 slot)
{
	return rcu_dereference_protected(spaces->slots[slot], true);
}

/* Drops the references of the mappings [first, end) of an array. */
static void sb_unwind_maps_put_objects(const struct sb_unwind_maps *maps, u32 first, u32 end)
{
	for (; first < end; first++)
		sb_unwind_object_put(maps->items[first].object);
}

static void sb_unwind_maps_free(struct rcu_head *rcu)
{
	struct sb_unwind_maps *maps = container_of(rcu, struct sb_unwind_maps, rcu);
	struct sb_unwind_spaces *spaces = maps->spaces;
	u32 items = maps->count + 1;

	kvfree(maps);
	/* Pairs with the acquire in sb_unwind_spaces_free(): the spaces are not used afterwards. */
	atomic_sub_return_release(items, &spaces->waiting);
}

/*
 * Frees an array that has left its slot, after a grace period, and drops the references of its mappings
 * [first, end); the array that has replaced it has the others. A tick may use all its objects until
 * then: objects are freed after a grace period, too. This is not kvfree_rcu(), which may keep hundreds
 * of arrays for seconds, and does not say when they are free: a process can replace an array of
 * thousands of mappings thousands of times a second.
 */
static void sb_unwind_maps_drop(struct sb_unwind_spaces *spaces, struct sb_unwind_maps *maps,
				u32 first, u32 end)
{
	sb_unwind_maps_put_objects(maps, first, end);
	spaces->items -= maps->count;
	maps->spaces = spaces;
	atomic_add(maps->count + 1, &spaces->waiting);
	call_rcu(&maps->rcu, sb_unwind_maps_free);
}

void sb_unwind_spaces_free(struct sb_unwind_spaces *spaces)
{
	struct sb_unwind_maps *maps;
	u32 slot;

	for (slot = 0; slot < spaces->slot_count; slot++) {
		maps = sb_unwind_maps_of(spaces, slot);
		if (maps)
			sb_unwind_maps_put_objects(maps, 0, maps->count);
		kvfree(maps);
		cond_resched();
	}
	kvfree(spaces->slots);
	/* Pairs with the release in sb_unwind_maps_free(). */
	if (atomic_read_acquire(&spaces->waiting))
		rcu_barrier();
}

static void sb_unwind_maps_remove(struct sb_unwind_spaces *spaces, u32 slot)
{
	struct sb_unwind_maps *maps = sb_unwind_maps_of(spaces, slot);

	RCU_INIT_POINTER(spaces->slots[slot], NULL);
	sb_unwind_maps_drop(spaces, maps, 0, maps->count);
}

/*
 * Frees arrays until `count` more mappings fit: in a circle, first those that no tick has used since
 * the last time.
 */
static void sb_unwind_spaces_shrink(struct sb_unwind_spaces *spaces, u32 count, u32 keep,
				    void (*lost)(void *arg, u32 slot, u64 id), void *arg)
{
	u32 left = 2 * spaces->slot_count, slot;
	struct sb_unwind_maps *maps;
	u64 id;

	while (left-- && spaces->items + count > SB_UNWIND_MAPS_MAX) {
		slot = spaces->hand++ % spaces->slot_count;
		maps = sb_unwind_maps_of(spaces, slot);
		if (!maps || slot == keep)
			continue;
		if (READ_ONCE(maps->used)) {
			WRITE_ONCE(maps->used, false);
			continue;
		}
		id = maps->id;
		sb_unwind_maps_remove(spaces, slot);
		lost(arg, slot, id);
	}
}

void sb_unwind_spaces_sweep(struct sb_unwind_spaces *spaces,
			    bool (*is_used)(void *arg, u32 slot, u64 id), void *arg)
{
	const struct sb_unwind_maps *maps;
	u32 slot;

	for (slot = 0; slot < spaces->slot_count; slot++) {
		maps = sb_unwind_maps_of(spaces, slot);
		if (maps && !is_used(arg, slot, maps->id))
			sb_unwind_maps_remove(spaces, slot);
		cond_resched();
	}
}

struct sb_unwind_maps *sb_unwind_maps_alloc(struct sb_unwind_spaces *spaces, u32 slot, u32 count,
					    void (*lost)(void *arg, u32 slot, u64 id), void *arg)
{
	struct sb_unwind_maps *maps;

	if (count > SB_UNWIND_SPACE_MAPS_MAX ||
	    count + atomic_read(&spaces->waiting) > SB_UNWIND_MAPS_MAX)
		return NULL;
	sb_unwind_spaces_shrink(spaces, count, slot, lost, arg);
	if (spaces->items + count > SB_UNWIND_MAPS_MAX)
		return NULL;
	maps = kvmalloc(struct_size(maps, items, count), GFP_KERNEL_ACCOUNT);
	if (maps)
		memset(maps, 0, sizeof(*maps));
	return maps;
}

void sb_unwind_maps_add(struct sb_unwind_maps *maps, const struct sb_unwind_map *map)
{
	maps->items[maps->count] = *map;
	if (map->object)
		sb_unwind_object_hold(map->object);
	maps->count++;
}

/* Whether frame pointers lead to the callers in the mapping of an object. */
static bool sb_unwind_object_has_frame_pointers(const struct sb_unwind_object *object)
{
	return !object || rcu_access_pointer(object->table) == &sb_unwind_no_table;
}

static void sb_unwind_maps_derive(struct sb_unwind_maps *maps)
{
	const struct sb_unwind_map *map;
	bool frame_pointers = true;
	u32 i;

	for (i = 0; i < maps->count; i++) {
		map = &maps->items[i];
		if (map->vdso) {
			maps->vdso_start = map->start;
			maps->vdso_size = map->end - map->start;
		} else if (map->uprobes || !sb_unwind_object_has_frame_pointers(map->object)) {
			frame_pointers = false;
		}
	}
	WRITE_ONCE(maps->frame_pointers, frame_pointers);
}

/* Makes an array that of a slot. The caller drops the former one. */
static void sb_unwind_maps_put_in_slot(struct sb_unwind_spaces *spaces, u32 slot,
				       struct sb_unwind_maps *maps, u64 id, u32 generation)
{
	maps->serial = atomic64_inc_return(&sb_unwind_maps_last_serial);
	maps->id = id;
	maps->generation = generation;
	maps->used = true;
	spaces->items += maps->count;
	sb_unwind_maps_derive(maps);
	rcu_assign_pointer(spaces->slots[slot], maps);
}

void sb_unwind_maps_publish(struct sb_unwind_spaces *spaces, u32 slot, struct sb_unwind_maps *maps,
			    u64 id, u32 generation)
{
	struct sb_unwind_maps *old = sb_unwind_maps_of(spaces, slot);

	sb_unwind_maps_put_in_slot(spaces, slot, maps, id, generation);
	if (old)
		sb_unwind_maps_drop(spaces, old, 0, old->count);
}

/* Appends the part [start, end) of a mapping, unless it is empty. */
static void sb_unwind_maps_add_part(struct sb_unwind_maps *maps, const struct sb_unwind_map *map,
				    u64 start, u64 end)
{
	struct sb_unwind_map part = *map;

	if (start >= end)
		return;
	part.offset += start - part.start;
	part.start = start;
	part.end = end;
	sb_unwind_maps_add(maps, &part);
}

/* Appends the mappings [first, end) of another array, with their references, which it then has no more. */
static void sb_unwind_maps_move(struct sb_unwind_maps *maps, const struct sb_unwind_maps *from,
				u32 first, u32 end)
{
	memcpy(&maps->items[maps->count], &from->items[first],
	       array_size(end - first, sizeof(from->items[0])));
	maps->count += end - first;
}

/* Returns the index of the first mapping that ends after an address, or the number of mappings. */
static u32 sb_unwind_maps_search(const struct sb_unwind_maps *maps, u64 address)
{
	u32 low = 0, high = maps->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (maps->items[middle].end > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/*
 * Whether walks find the same in the range of `map` before and after it replaces a part of `item`. Where
 * the bias is to be found later, it is found for the start of the item.
 */
static bool sb_unwind_map_covers(const struct sb_unwind_map *item, const struct sb_unwind_map *map)
{
	if (map->start < item->start || map->end > item->end || map->object != item->object ||
	    map->vdso != item->vdso || map->uprobes != item->uprobes)
		return false;
	/* Without an object, stacks are walked by frame pointers, whatever the offset. */
	return !map->object ||
	       (map->offset - item->offset == map->start - item->start &&
		map->biased == item->biased && map->bias == item->bias &&
		(map->biased || map->start == item->start));
}

int sb_unwind_maps_apply(struct sb_unwind_spaces *spaces, u32 slot, u64 id, u32 generation,
			 const struct sb_unwind_map *map,
			 void (*lost)(void *arg, u32 slot, u64 id), void *arg)
{
	struct sb_unwind_maps *old = sb_unwind_maps_of(spaces, slot);
	const struct sb_unwind_map *item;
	struct sb_unwind_maps *maps;
	u32 first, end;

	if (!old || old->id != id || (s32)(generation - old->generation) <= 0)
		return 0;
	if (generation != old->generation + 1) {
		sb_unwind_maps_remove(spaces, slot);
		return -ESTALE;
	}
	first = sb_unwind_maps_search(old, map->start);
	if (first < old->count && sb_unwind_map_covers(&old->items[first], map)) {
		/* The array is the same before and after: a tick may see either generation. */
		WRITE_ONCE(old->generation, generation);
		return 0;
	}
	/* The mapping may split another one, and is one more. */
	maps = sb_unwind_maps_alloc(spaces, slot, old->count + 2, lost, arg);
	if (!maps) {
		sb_unwind_maps_remove(spaces, slot);
		return -ENOMEM;
	}
	/* The mapping replaces parts of [first, end). */
	for (end = first; end < old->count && old->items[end].start < map->end; end++)
		;
	sb_unwind_maps_move(maps, old, 0, first);
	if (first < end) {
		item = &old->items[first];
		sb_unwind_maps_add_part(maps, item, item->start, map->start);
	}
	sb_unwind_maps_add(maps, map);
	if (first < end) {
		item = &old->items[end - 1];
		sb_unwind_maps_add_part(maps, item, map->end, item->end);
	}
	sb_unwind_maps_move(maps, old, end, old->count);
	sb_unwind_maps_put_in_slot(spaces, slot, maps, id, generation);
	sb_unwind_maps_drop(spaces, old, first, end);
	return 0;
}

void sb_unwind_map_set_bias(struct sb_unwind_map *map, const struct sb_elf *elf)
{
	u64 vaddr;

	if (!sb_elf_vaddr(elf, map->offset, &vaddr))
		return;
	WRITE_ONCE(map->bias, map->start - vaddr);
	/* Pairs with the acquire in sb_unwind_map_of(). */
	smp_store_release(&map->biased, true);
}

void sb_unwind_spaces_update(struct sb_unwind_spaces *spaces, const struct sb_unwind_object *object)
{
	/* The caller's reference keeps it. */
	const struct sb_unwind_table *table = sb_unwind_object_table(object);
	struct sb_unwind_maps *maps;
	u32 slot, i;
	bool found;

	for (slot = 0; slot < spaces->slot_count; slot++) {
		maps = sb_unwind_maps_of(spaces, slot);
		found = false;
		for (i = 0; maps && i < maps->count; i++) {
			if (maps->items[i].object != object)
				continue;
			found = true;
			if (!maps->items[i].biased && table)
				sb_unwind_map_set_bias(&maps->items[i], &table->elf);
		}
		if (found)
			sb_unwind_maps_derive(maps);
		cond_resched();
	}
}

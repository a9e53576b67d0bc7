// SPDX-License-Identifier: GPL-2.0
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>

#include "limits.h"
#include "unwind_maps.h"
#include "worker_memory.h"

static atomic64_t sb_unwind_maps_last_serial;

void sb_unwind_spaces_init(struct sb_unwind_spaces *spaces)
{
	INIT_LIST_HEAD(&spaces->arrays);
}

/* The arrays and their chunks change under the lock of the spaces only. */
static struct sb_unwind_maps *sb_unwind_maps_of(const struct sb_unwind_slot *slot)
{
	return rcu_dereference_protected(slot->maps, true);
}

static struct sb_unwind_chunk *sb_unwind_maps_chunk(const struct sb_unwind_maps *maps, u32 index)
{
	return rcu_dereference_protected(maps->chunks[index].chunk, true);
}

/* The size of an array that waits for a grace period, in mappings. */
static u32 sb_unwind_maps_weight(const struct sb_unwind_maps *maps)
{
	u32 array = array_size(maps->chunk_count, sizeof(maps->chunks[0])) /
		    sizeof(struct sb_unwind_map) + 1;

	return maps->whole ? maps->count + array : array;
}

/* Frees an array, and its chunks unless another one has them. No tick uses it. */
static void sb_unwind_maps_free(struct sb_unwind_maps *maps)
{
	u32 i;

	for (i = 0; maps->whole && i < maps->chunk_count; i++)
		kfree(sb_unwind_maps_chunk(maps, i));
	kvfree(maps);
}

static void sb_unwind_maps_free_rcu(struct rcu_head *rcu)
{
	struct sb_unwind_maps *maps = container_of(rcu, struct sb_unwind_maps, rcu);
	struct sb_unwind_spaces *spaces = maps->spaces;
	u32 weight = sb_unwind_maps_weight(maps);

	sb_unwind_maps_free(maps);
	/* Pairs with the acquire in sb_unwind_spaces_free(): the spaces are not used afterwards. */
	atomic_sub_return_release(weight, &spaces->dropped);
}

static void sb_unwind_chunk_free_rcu(struct rcu_head *rcu)
{
	struct sb_unwind_chunk *chunk = container_of(rcu, struct sb_unwind_chunk, rcu);
	struct sb_unwind_spaces *spaces = chunk->spaces;
	u32 weight = chunk->count + 1;

	kfree(chunk);
	/* As in sb_unwind_maps_free_rcu(). */
	atomic_sub_return_release(weight, &spaces->dropped);
}

/*
 * Frees an array that has left its slot, after a grace period; `whole`: with its chunks. This is not
 * kvfree_rcu(), which may keep hundreds of arrays for seconds, and does not say when they are free: a
 * process can replace chunks thousands of times a second.
 */
static void sb_unwind_maps_drop(struct sb_unwind_spaces *spaces, struct sb_unwind_maps *maps,
				bool whole)
{
	maps->whole = whole;
	atomic_add(sb_unwind_maps_weight(maps), &spaces->dropped);
	call_rcu(&maps->rcu, sb_unwind_maps_free_rcu);
}

/* Frees a chunk that is in no array that is in a slot, after a grace period. */
static void sb_unwind_chunk_drop(struct sb_unwind_spaces *spaces, struct sb_unwind_chunk *chunk)
{
	atomic_add(chunk->count + 1, &spaces->dropped);
	call_rcu(&chunk->rcu, sb_unwind_chunk_free_rcu);
}

/* Drops the reference of a mapping. A tick may use its object until a grace period has passed. */
static void sb_unwind_map_put(struct sb_unwind_map *map)
{
	hash_del(&map->waiting);
	sb_unwind_object_put(map->object);
}

/* Drops the references of all mappings of an array. */
static void sb_unwind_maps_put_objects(const struct sb_unwind_maps *maps)
{
	struct sb_unwind_chunk *chunk;
	u32 i, j;

	for (i = 0; i < maps->chunk_count; i++) {
		chunk = sb_unwind_maps_chunk(maps, i);
		for (j = 0; j < chunk->count; j++)
			sb_unwind_map_put(&chunk->items[j]);
		cond_resched();
	}
}

void sb_unwind_maps_discard(struct sb_unwind_maps *maps)
{
	sb_unwind_maps_put_objects(maps);
	maps->whole = true;
	sb_unwind_maps_free(maps);
}

void sb_unwind_spaces_free(struct sb_unwind_spaces *spaces)
{
	struct sb_unwind_maps *maps, *next;

	list_for_each_entry_safe(maps, next, &spaces->arrays, list) {
		sb_unwind_maps_discard(maps);
		cond_resched();
	}
	/* Pairs with the releases in the callbacks above. */
	if (atomic_read_acquire(&spaces->dropped))
		rcu_barrier();
}

/* Frees an array that has left its slot, with all that it has. */
static void sb_unwind_maps_retire(struct sb_unwind_maps *maps)
{
	struct sb_unwind_spaces *spaces = maps->spaces;

	list_del(&maps->list);
	spaces->array_count--;
	spaces->items -= maps->count;
	sb_unwind_maps_put_objects(maps);
	sb_unwind_maps_drop(spaces, maps, true);
}

void sb_unwind_slot_clear(struct sb_unwind_slot *slot)
{
	struct sb_unwind_maps *maps = sb_unwind_maps_of(slot);

	if (!maps)
		return;
	RCU_INIT_POINTER(slot->maps, NULL);
	sb_unwind_maps_retire(maps);
}

/*
 * Frees arrays until `count` more mappings fit: in a circle, first those that no tick has used since
 * the last time.
 */
static void sb_unwind_spaces_shrink(struct sb_unwind_spaces *spaces, u32 count,
				    const struct sb_unwind_slot *keep, sb_unwind_lost_fn *lost,
				    void *arg)
{
	u32 left = 2 * spaces->array_count;
	struct sb_unwind_maps *maps;
	void *owner;
	u64 id;

	while (left-- && spaces->items + count > SB_UNWIND_MAPS_MAX) {
		maps = list_first_entry(&spaces->arrays, struct sb_unwind_maps, list);
		list_move_tail(&maps->list, &spaces->arrays);
		if (maps->slot == keep)
			continue;
		if (READ_ONCE(maps->used)) {
			WRITE_ONCE(maps->used, false);
			continue;
		}
		owner = maps->owner;
		id = maps->id;
		sb_unwind_slot_clear(maps->slot);
		lost(arg, owner, id);
	}
}

void sb_unwind_spaces_sweep(struct sb_unwind_spaces *spaces,
			    bool (*is_used)(void *arg, void *owner, u64 id), void *arg)
{
	struct sb_unwind_maps *maps, *next;

	list_for_each_entry_safe(maps, next, &spaces->arrays, list) {
		if (!is_used(arg, maps->owner, maps->id))
			sb_unwind_slot_clear(maps->slot);
		cond_resched();
	}
}

/*
 * Whether the array of a slot may grow by `more` mappings to `all`. Frees arrays of other slots for
 * these.
 */
static bool sb_unwind_spaces_reserve(struct sb_unwind_spaces *spaces,
				     const struct sb_unwind_slot *slot, u32 all, u32 more,
				     sb_unwind_lost_fn *lost, void *arg)
{
	if (all > SB_UNWIND_SPACE_MAPS_MAX ||
	    more + atomic_read(&spaces->dropped) > SB_UNWIND_MAPS_MAX)
		return false;
	sb_unwind_spaces_shrink(spaces, more, slot, lost, arg);
	return spaces->items + more <= SB_UNWIND_MAPS_MAX;
}

/* Allocates an empty array for a slot, with room for `chunk_count` chunks. */
static struct sb_unwind_maps *sb_unwind_maps_alloc_chunks(struct sb_unwind_spaces *spaces,
							  struct sb_unwind_slot *slot, void *owner,
							  u32 chunk_count)
{
	struct sb_unwind_maps *maps = sb_worker_alloc(struct_size(maps, chunks, chunk_count));

	if (!maps)
		return NULL;
	memset(maps, 0, sizeof(*maps));
	maps->spaces = spaces;
	maps->slot = slot;
	maps->owner = owner;
	return maps;
}

struct sb_unwind_maps *sb_unwind_maps_alloc(struct sb_unwind_spaces *spaces,
					    struct sb_unwind_slot *slot, void *owner, u32 count,
					    sb_unwind_lost_fn *lost, void *arg)
{
	struct sb_unwind_maps *maps;

	if (!sb_unwind_spaces_reserve(spaces, slot, count, count, lost, arg))
		return NULL;
	maps = sb_unwind_maps_alloc_chunks(spaces, slot, owner,
					   DIV_ROUND_UP(count, SB_UNWIND_CHUNK_MAPS));
	if (maps)
		maps->room = count;
	return maps;
}

/* Allocates an empty chunk of an array, with room for `count` mappings. */
static struct sb_unwind_chunk *sb_unwind_chunk_alloc(const struct sb_unwind_maps *maps, u32 count)
{
	struct sb_unwind_chunk *chunk = kmalloc(struct_size(chunk, items, count), SB_GFP_WORKER);

	if (!chunk)
		return NULL;
	chunk->spaces = maps->spaces;
	chunk->slot = maps->slot;
	chunk->count = 0;
	return chunk;
}

/* Whether the callers in a mapping are not found by frame pointers alone, or this is not known yet. */
static bool sb_unwind_map_is_by_tables(const struct sb_unwind_map *map)
{
	const struct sb_unwind_object *object = map->object;

	if (map->vdso)
		return false;
	return map->uprobes ||
	       (object && rcu_access_pointer(object->table) != &sb_unwind_no_table);
}

/* Appends the part [start, end) of a mapping to a chunk. Takes a reference to its object. */
static const struct sb_unwind_map *sb_unwind_chunk_add(struct sb_unwind_chunk *chunk,
						       const struct sb_unwind_map *map, u64 start,
						       u64 end)
{
	struct sb_unwind_map *item = &chunk->items[chunk->count];
	const struct sb_unwind_table *table;

	*item = *map;
	item->offset += start - map->start;
	item->start = start;
	item->end = end;
	item->index = chunk->count++;
	INIT_HLIST_NODE(&item->waiting);
	if (item->object) {
		sb_unwind_object_hold(item->object);
		/* Read once: a session that sets the table later finds the mapping in the list. */
		table = sb_unwind_object_table(item->object);
		if (!table)
			hash_add(chunk->spaces->waiting, &item->waiting,
				 (unsigned long)item->object);
		else if (!item->biased)
			sb_unwind_map_set_bias(item, &table->elf);
	}
	/* After that: an update corrects only mappings in the list. */
	item->by_tables = sb_unwind_map_is_by_tables(item);
	return item;
}

/*
 * Appends a mapping of another chunk, with its reference and its place in the list of those that wait:
 * the other chunk is not to be used any more, except by ticks.
 */
static void sb_unwind_chunk_move(struct sb_unwind_chunk *chunk, const struct sb_unwind_map *from)
{
	struct sb_unwind_map *item = &chunk->items[chunk->count];

	*item = *from;
	item->index = chunk->count++;
	if (hlist_unhashed(&from->waiting))
		return;
	*item->waiting.pprev = &item->waiting;
	if (item->waiting.next)
		item->waiting.next->pprev = &item->waiting.next;
}

/* With several vDSOs, the range has all of them, and what is between them. */
static void sb_unwind_maps_add_vdso(struct sb_unwind_maps *maps, const struct sb_unwind_map *map)
{
	u64 start = map->start, end = map->end;

	if (maps->vdso_size) {
		start = min(start, maps->vdso_start);
		end = max(end, maps->vdso_start + maps->vdso_size);
	}
	maps->vdso_start = start;
	maps->vdso_size = end - start;
}

int sb_unwind_maps_add(struct sb_unwind_maps *maps, const struct sb_unwind_map *map)
{
	u32 last = maps->chunk_count;
	struct sb_unwind_chunk *chunk = last ? sb_unwind_maps_chunk(maps, last - 1) : NULL;
	const struct sb_unwind_map *item;

	if (!chunk || chunk->count == SB_UNWIND_CHUNK_MAPS) {
		chunk = sb_unwind_chunk_alloc(maps, min(maps->room - maps->count,
							SB_UNWIND_CHUNK_MAPS));
		if (!chunk)
			return -ENOMEM;
		maps->chunks[last].start = last ? map->start : 0;
		RCU_INIT_POINTER(maps->chunks[last].chunk, chunk);
		maps->chunk_count++;
	}
	item = sb_unwind_chunk_add(chunk, map, map->start, map->end);
	if (item->vdso)
		sb_unwind_maps_add_vdso(maps, item);
	maps->by_tables += item->by_tables;
	maps->count++;
	return 0;
}

/* Says what the mappings of an array are like. In the array of a slot, before the generation. */
static void sb_unwind_maps_set_by_tables(struct sb_unwind_maps *maps, u32 by_tables)
{
	maps->by_tables = by_tables;
	WRITE_ONCE(maps->frame_pointers, !by_tables);
}

/* The array differs from now on. After its chunks have changed. */
static void sb_unwind_maps_set_serial(struct sb_unwind_maps *maps)
{
	/* Pairs with the acquire in sb_walk_use_maps(). */
	smp_store_release(&maps->serial, atomic64_inc_return(&sb_unwind_maps_last_serial));
}

/* The array is valid at this generation from now on. After all that differs from the former one. */
static void sb_unwind_maps_set_generation(struct sb_unwind_maps *maps, u32 generation)
{
	/* Pairs with the acquire in sb_space_maps(). */
	smp_store_release(&maps->generation, generation);
}

/* Puts an array in its slot. The caller drops the former array. */
static void sb_unwind_maps_put_in_slot(struct sb_unwind_maps *maps, u64 id, u32 generation)
{
	maps->id = id;
	maps->used = true;
	sb_unwind_maps_set_by_tables(maps, maps->by_tables);
	sb_unwind_maps_set_serial(maps);
	sb_unwind_maps_set_generation(maps, generation);
	rcu_assign_pointer(maps->slot->maps, maps);
}

void sb_unwind_maps_publish(struct sb_unwind_maps *maps, u64 id, u32 generation)
{
	struct sb_unwind_spaces *spaces = maps->spaces;
	struct sb_unwind_maps *old = sb_unwind_maps_of(maps->slot);

	list_add_tail(&maps->list, &spaces->arrays);
	spaces->array_count++;
	spaces->items += maps->count;
	sb_unwind_maps_put_in_slot(maps, id, generation);
	if (old)
		sb_unwind_maps_retire(old);
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

/* Chunks by which an event can replace others: one chunk splits into two, and two into three. */
#define SB_UNWIND_CHANGE_CHUNKS 3

/* The change of an array by an event. */
struct sb_unwind_change {
	const struct sb_unwind_map *map;	/* what its range holds from then on */
	u32 first, end;		/* the chunks that are replaced */
	u32 removed, added;	/* mappings of these, and of the new chunks */
	u32 by_tables;		/* as in struct sb_unwind_maps, of the new chunks less of the old ones */
	u32 each;		/* mappings of each new chunk; the last one has the rest */
	u32 count, filled;	/* new chunks, and how many of them are full */
	struct sb_unwind_chunk *chunks[SB_UNWIND_CHANGE_CHUNKS];
};

/* Whether a mapping stays as it is. */
static bool sb_unwind_change_keeps(const struct sb_unwind_change *change,
				   const struct sb_unwind_map *item)
{
	return item->end <= change->map->start || item->start >= change->map->end;
}

/* Adds a chunk to those that are replaced. */
static void sb_unwind_change_take(struct sb_unwind_change *change,
				  const struct sb_unwind_chunk *chunk)
{
	u32 i;

	change->removed += chunk->count;
	/* A mapping stays, or leaves its parts before and behind the range. */
	for (i = 0; i < chunk->count; i++)
		change->added += (chunk->items[i].start < change->map->start) +
				 (chunk->items[i].end > change->map->end);
}

/* Whether a neighbour of the chunks that are replaced is so small that they have room for it. */
static bool sb_unwind_change_has_room(const struct sb_unwind_change *change,
				      const struct sb_unwind_chunk *chunk)
{
	return change->added + chunk->count <= SB_UNWIND_CHUNK_MAPS / 2;
}

/*
 * Selects the chunks to be replaced: the chunks of the range, and neighbours of small chunks. So two
 * neighbouring chunks have more than half of the mappings of a full one, however mappings go.
 */
static void sb_unwind_change_select(struct sb_unwind_change *change,
				    const struct sb_unwind_maps *maps)
{
	const struct sb_unwind_map *map = change->map;
	u32 i;

	change->added = 1;
	if (!maps->chunk_count)
		return;
	change->first = sb_unwind_maps_search(maps, map->start);
	change->end = sb_unwind_maps_search(maps, max(map->start, map->end - 1)) + 1;
	for (i = change->first; i < change->end; i++) {
		sb_unwind_change_take(change, sb_unwind_maps_chunk(maps, i));
		cond_resched();
	}
	if (change->end < maps->chunk_count &&
	    sb_unwind_change_has_room(change, sb_unwind_maps_chunk(maps, change->end)))
		sb_unwind_change_take(change, sb_unwind_maps_chunk(maps, change->end++));
	if (change->first &&
	    sb_unwind_change_has_room(change, sb_unwind_maps_chunk(maps, change->first - 1)))
		sb_unwind_change_take(change, sb_unwind_maps_chunk(maps, --change->first));
}

/* Allocates the new chunks. ENOMEM. */
static int sb_unwind_change_alloc(struct sb_unwind_change *change,
				  const struct sb_unwind_maps *maps)
{
	u32 left = change->added, room, i, count = DIV_ROUND_UP(left, SB_UNWIND_CHUNK_MAPS);

	change->each = DIV_ROUND_UP(left, count);
	for (i = 0; i < count; i++, left -= room) {
		room = min(left, change->each);
		change->chunks[i] = sb_unwind_chunk_alloc(maps, room);
		if (!change->chunks[i])
			return -ENOMEM;
		change->count++;
	}
	return 0;
}

static void sb_unwind_change_free(struct sb_unwind_change *change)
{
	while (change->count)
		kfree(change->chunks[--change->count]);
}

/* Returns the new chunk of the next mapping. */
static struct sb_unwind_chunk *sb_unwind_change_next(struct sb_unwind_change *change)
{
	if (change->chunks[change->filled]->count == change->each)
		change->filled++;
	return change->chunks[change->filled];
}

static void sb_unwind_change_add_part(struct sb_unwind_change *change,
				      const struct sb_unwind_map *map, u64 start, u64 end)
{
	change->by_tables += sb_unwind_chunk_add(sb_unwind_change_next(change), map, start,
						 end)->by_tables;
}

/*
 * Fills the new chunks: with the mappings that stay, which keep their references, with parts of
 * those that do not, and with the one of the event.
 */
static void sb_unwind_change_fill(struct sb_unwind_change *change,
				  const struct sb_unwind_maps *maps)
{
	const struct sb_unwind_map *map = change->map, *item;
	const struct sb_unwind_chunk *chunk;
	bool added = false, behind, kept;
	u32 i, j;

	for (i = change->first; i < change->end; i++) {
		chunk = sb_unwind_maps_chunk(maps, i);
		for (j = 0; j < chunk->count; j++) {
			item = &chunk->items[j];
			behind = item->end > map->end;
			kept = sb_unwind_change_keeps(change, item);
			if (!kept && item->start < map->start)
				sb_unwind_change_add_part(change, item, item->start, map->start);
			if (!added && behind)
				sb_unwind_change_add_part(change, map, map->start, map->end);
			added = added || behind;
			if (kept)
				sb_unwind_chunk_move(sb_unwind_change_next(change), item);
			else if (behind)
				sb_unwind_change_add_part(change, item, map->end, item->end);
			if (!kept)
				change->by_tables -= item->by_tables;
		}
		cond_resched();
	}
	if (!added)
		sb_unwind_change_add_part(change, map, map->start, map->end);
}

/* Frees the chunks that were replaced, and drops the references of the mappings that do not stay. */
static void sb_unwind_change_drop_old(const struct sb_unwind_change *change,
				      struct sb_unwind_spaces *spaces,
				      struct sb_unwind_chunk *chunk)
{
	u32 i;

	for (i = 0; i < chunk->count; i++) {
		if (!sb_unwind_change_keeps(change, &chunk->items[i]))
			sb_unwind_map_put(&chunk->items[i]);
	}
	sb_unwind_chunk_drop(spaces, chunk);
}

/* Replaces one chunk by another one. */
static void sb_unwind_maps_replace_chunk(struct sb_unwind_maps *maps,
					 struct sb_unwind_change *change, u32 generation)
{
	struct sb_unwind_chunk *old = sb_unwind_maps_chunk(maps, change->first);

	sb_unwind_change_fill(change, maps);
	maps->count += change->added - change->removed;
	rcu_assign_pointer(maps->chunks[change->first].chunk, change->chunks[0]);
	sb_unwind_maps_set_by_tables(maps, maps->by_tables + change->by_tables);
	sb_unwind_maps_set_serial(maps);
	sb_unwind_maps_set_generation(maps, generation);
	sb_unwind_change_drop_old(change, maps->spaces, old);
}

/* Puts the chunks of an array into another one, in the place of those that are replaced. */
static void sb_unwind_maps_copy_chunks(struct sb_unwind_maps *maps,
				       const struct sb_unwind_maps *from,
				       const struct sb_unwind_change *change)
{
	u32 i, at = change->first, rest = from->chunk_count - change->end;

	memcpy(maps->chunks, from->chunks, array_size(at, sizeof(maps->chunks[0])));
	for (i = 0; i < change->count; i++, at++) {
		/* The first new chunk starts where the first replaced chunk does. */
		maps->chunks[at].start = i ? change->chunks[i]->items[0].start :
				     from->chunk_count ? from->chunks[at].start : 0;
		RCU_INIT_POINTER(maps->chunks[at].chunk, change->chunks[i]);
	}
	memcpy(&maps->chunks[at], &from->chunks[change->end],
	       array_size(rest, sizeof(maps->chunks[0])));
	maps->chunk_count = at + rest;
}

/* Replaces an array by another one. ENOMEM. */
static int sb_unwind_maps_replace(struct sb_unwind_maps *old, struct sb_unwind_change *change,
				  u32 generation)
{
	struct sb_unwind_spaces *spaces = old->spaces;
	struct sb_unwind_maps *maps;
	u32 i;

	maps = sb_unwind_maps_alloc_chunks(spaces, old->slot, old->owner,
					   old->chunk_count + change->count -
					   (change->end - change->first));
	if (!maps)
		return -ENOMEM;
	sb_unwind_change_fill(change, old);
	sb_unwind_maps_copy_chunks(maps, old, change);
	maps->count = old->count + change->added - change->removed;
	maps->by_tables = old->by_tables + change->by_tables;
	maps->vdso_start = old->vdso_start;
	maps->vdso_size = old->vdso_size;
	if (change->map->vdso)
		sb_unwind_maps_add_vdso(maps, change->map);
	list_replace(&old->list, &maps->list);
	sb_unwind_maps_put_in_slot(maps, old->id, generation);
	for (i = change->first; i < change->end; i++) {
		sb_unwind_change_drop_old(change, spaces, sb_unwind_maps_chunk(old, i));
		cond_resched();
	}
	sb_unwind_maps_drop(spaces, old, false);
	return 0;
}

/* Puts a mapping into an array that is in a slot. ENOMEM. */
static int sb_unwind_maps_change(struct sb_unwind_maps *maps, const struct sb_unwind_map *map,
				 u32 generation, sb_unwind_lost_fn *lost, void *arg)
{
	struct sb_unwind_spaces *spaces = maps->spaces;
	struct sb_unwind_change change = { .map = map };
	u32 all, more;
	int err;

	sb_unwind_change_select(&change, maps);
	all = maps->count - change.removed + change.added;
	more = all > maps->count ? all - maps->count : 0;
	if (!sb_unwind_spaces_reserve(spaces, maps->slot, all, more, lost, arg))
		return -ENOMEM;
	err = sb_unwind_change_alloc(&change, maps);
	/* The range of the vDSO is constant in an array. */
	if (!err && change.end - change.first == 1 && change.count == 1 && !map->vdso)
		sb_unwind_maps_replace_chunk(maps, &change, generation);
	else if (!err)
		err = sb_unwind_maps_replace(maps, &change, generation);
	if (err)
		sb_unwind_change_free(&change);
	else
		spaces->items += change.added - change.removed;
	return err;
}

/*
 * Returns the mapping of an address in an array that is in a slot, or NULL. Inline: each mapping event
 * takes it.
 */
static __always_inline const struct sb_unwind_map *
sb_unwind_maps_at(const struct sb_unwind_maps *maps, u64 address)
{
	u32 chunk;

	if (!maps->chunk_count)
		return NULL;
	chunk = sb_unwind_maps_search(maps, address);
	return sb_unwind_chunk_find(sb_unwind_maps_chunk(maps, chunk), address);
}

/* Whether an array says of a range what an event says. */
static bool sb_unwind_maps_have(const struct sb_unwind_maps *maps, const struct sb_unwind_map *map)
{
	const struct sb_unwind_map *item = sb_unwind_maps_at(maps, map->start);

	return item && sb_unwind_map_covers(item, map);
}

int sb_unwind_maps_apply(struct sb_unwind_slot *slot, u64 id, u32 generation,
			 const struct sb_unwind_map *map, sb_unwind_lost_fn *lost, void *arg)
{
	struct sb_unwind_maps *maps = sb_unwind_maps_of(slot);
	int err = 0;

	if (!maps || maps->id != id || (s32)(generation - maps->generation) <= 0)
		return 0;
	if (generation != maps->generation + 1)
		err = -ESTALE;
	else if (sb_unwind_maps_have(maps, map))
		/* The mappings are the same before and after: a tick may see either generation. */
		sb_unwind_maps_set_generation(maps, generation);
	else
		err = sb_unwind_maps_change(maps, map, generation, lost, arg);
	if (err)
		sb_unwind_slot_clear(slot);
	return err;
}

static bool sb_unwind_maps_have_object(const struct sb_unwind_maps *maps, u64 address)
{
	const struct sb_unwind_map *item = sb_unwind_maps_at(maps, address);

	return item && item->object && !item->vdso;
}

bool sb_unwind_maps_touch_object(const struct sb_unwind_slot *slot, u64 id, u64 start, u64 end)
{
	const struct sb_unwind_maps *maps = sb_unwind_maps_of(slot);

	return maps && maps->id == id &&
	       ((start && sb_unwind_maps_have_object(maps, start - 1)) ||
		sb_unwind_maps_have_object(maps, end));
}

/* Whether mappings without an object have all of a range, which is not empty. */
static bool sb_unwind_maps_are_anonymous(const struct sb_unwind_maps *maps, u64 start, u64 end)
{
	const struct sb_unwind_map *item;

	for (; start < end; start = item->end) {
		item = sb_unwind_maps_at(maps, start);
		if (!item || item->object || item->vdso || item->uprobes)
			return false;
		cond_resched();
	}
	return true;
}

int sb_unwind_spaces_move_text(struct sb_unwind_spaces *spaces,
			       const struct stackbeat_moved_text *moved, sb_unwind_lost_fn *lost,
			       void *arg)
{
	const struct sb_unwind_map *beside;
	struct sb_unwind_map map;
	struct sb_unwind_maps *maps;
	bool found = false;

	list_for_each_entry(maps, &spaces->arrays, list) {
		found = maps->id == moved->address_space;
		if (found)
			break;
		cond_resched();
	}
	if (!found)
		return -ENOENT;
	if (maps->generation != moved->generation)
		return -ESTALE;
	beside = sb_unwind_maps_at(maps, moved->beside);
	if (!beside || !beside->object || beside->vdso ||
	    !sb_unwind_maps_are_anonymous(maps, moved->start, moved->end))
		return -EINVAL;
	map = (struct sb_unwind_map){
		.start = moved->start,
		.end = moved->end,
		.offset = beside->offset + (moved->start - beside->start),
		.bias = beside->bias,
		.object = beside->object,
		.biased = beside->biased,
	};
	return sb_unwind_maps_change(maps, &map, moved->generation, lost, arg);
}

void sb_unwind_map_set_bias(struct sb_unwind_map *map, const struct sb_elf *elf)
{
	u64 vaddr;

	if (!sb_elf_vaddr(elf, map->offset, &vaddr))
		return;
	WRITE_ONCE(map->bias, map->start - vaddr);
	/* Pairs with the acquire in sb_walk_find_range(). */
	smp_store_release(&map->biased, true);
}

/* The table of an object is known from now on: completes a mapping of it. */
static void sb_unwind_maps_complete(struct sb_unwind_maps *maps, struct sb_unwind_map *map,
				    const struct sb_unwind_table *table)
{
	if (!map->biased && table)
		sb_unwind_map_set_bias(map, &table->elf);
	if (map->by_tables && !sb_unwind_map_is_by_tables(map)) {
		map->by_tables = false;
		sb_unwind_maps_set_by_tables(maps, maps->by_tables - 1);
	}
}

void sb_unwind_spaces_update(struct sb_unwind_spaces *spaces, const struct sb_unwind_object *object)
{
	/* The caller's reference keeps it. */
	const struct sb_unwind_table *table = sb_unwind_object_table(object);
	const struct sb_unwind_chunk *chunk;
	struct sb_unwind_map *map;
	struct hlist_node *next;

	hash_for_each_possible_safe(spaces->waiting, map, next, waiting, (unsigned long)object) {
		if (map->object == object) {
			hash_del(&map->waiting);
			chunk = container_of(map - map->index, struct sb_unwind_chunk, items[0]);
			sb_unwind_maps_complete(sb_unwind_maps_of(chunk->slot), map, table);
		}
		cond_resched();
	}
}

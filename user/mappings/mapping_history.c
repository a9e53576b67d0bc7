// SPDX-License-Identifier: GPL-2.0
#include "mappings/mapping_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/invariant.h"

/* Adjacent anonymous mappings are interchangeable. 1 is SEGMENT_ANON. */
#define is_anonymous(mapping) ((mapping)->segment == 1)

/* Segment of a range that is mapped, where it is unknown by which mapping. */
#define SEGMENT_UNKNOWN UINT32_MAX

struct history_entry {
	struct mapping mapping;
	uint32_t since; /* first generation at which the mapping is known to exist */
};

/*
 * Sorted, disjoint entries. Entries stay in their slots, and only their 4-byte indices move: a
 * process that remaps low addresses among many mappings can't make the reader pay much more for
 * an event than the process paid for it.
 */
struct map {
	uint32_t *order; /* indices of `entries`, by address */
	size_t count, order_capacity;
	struct history_entry *entries;
	size_t used, capacity; /* of `entries` */
	uint32_t free_list; /* 1 + index of the first unused entry, linked by `since`; 0: none */
	uint64_t bytes_moved; /* of `order` */
};

struct event {
	uint32_t generation;
	struct mapping mapping;
};

/* The mappings that the kernel read at one generation. */
struct snapshot {
	uint32_t generation;
	uint32_t gap; /* first generation that may be missing; 0: none */
	bool incomplete; /* the kernel, or this reader, dropped mappings */
	struct map map; /* not sorted until it is used */
};

/* Frames of a stack are in a few files. */
#define FOUND_ENTRIES 8u

/*
 * The history at a generation: `map`, and the records that are not in it yet. check_history() has
 * its invariants.
 */
struct mapping_history {
	struct map map; /* at `generation` */
	uint16_t found[FOUND_ENTRIES]; /* see found_of() */
	uint32_t generation;
	uint32_t base; /* generation of the last snapshot in the map; 0: none */
	uint32_t settled; /* all records up to this generation had arrived when it was reached */
	uint32_t latest; /* latest generation of any record */
	uint32_t accounted; /* generations up to this one are in the map, or counted as missing */
	uint32_t first_missing; /* from `base` to `accounted`, without record; 0: none */
	uint32_t missing_max; /* upper bound of the number of missing generations */
	size_t coalesce_threshold; /* number of entries from which on anonymous ones are merged */
	bool started; /* the map is valid */
	bool in_gap; /* the gap of the first snapshot */
	bool incomplete; /* as the last snapshot in the map */
	struct event *events; /* after `base`, sorted if `events_sorted` */
	size_t event_count, event_capacity;
	struct snapshot *snapshots; /* after `base`, sorted */
	size_t snapshot_count, snapshot_capacity;
	bool events_sorted;
	uint32_t first_event; /* lowest generation of the events; UINT32_MAX: no events */
};

/* Maps */

static struct history_entry *map_at(const struct map *map, size_t index)
{
	return &map->entries[map->order[index]];
}

/* Reserves room for `more` entries. Returns 0 or -ENOMEM. */
static int map_reserve(struct map *map, size_t more)
{
	if (array_reserve(&map->order, &map->order_capacity, map->count, more, sizeof(*map->order)))
		return -ENOMEM;
	return array_reserve(&map->entries, &map->capacity, map->used, more, sizeof(*map->entries));
}

/* Copies `entry` into a free slot, which must be reserved. Returns the index of the slot. */
static uint32_t map_store_entry(struct map *map, const struct history_entry *entry)
{
	uint32_t number = map->free_list;

	if (number)
		map->free_list = map->entries[--number].since;
	else
		number = (uint32_t)map->used++;
	map->entries[number] = *entry;
	return number;
}

static void map_release_entry(struct map *map, uint32_t number)
{
	map->entries[number].since = map->free_list;
	map->free_list = number + 1;
}

static int map_append(struct map *map, const struct mapping *mapping, uint32_t since)
{
	struct history_entry *last = map->count ? map_at(map, map->count - 1) : NULL;

	if (mapping->start >= mapping->end || !mapping->segment)
		return 0;
	/* Merge with the preceding entry if this one continues it. */
	if (last && last->mapping.end == mapping->start &&
	    last->mapping.segment == mapping->segment && last->mapping.bias == mapping->bias &&
	    (last->since == since || is_anonymous(mapping))) {
		last->mapping.end = mapping->end;
		last->since = since > last->since ? since : last->since;
		return 0;
	}
	if (map_reserve(map, 1))
		return -ENOMEM;
	map->order[map->count++] = map_store_entry(map, &(struct history_entry){*mapping, since});
	return 0;
}

static int map_append_part(struct map *map, const struct history_entry *entry, uint64_t start,
			   uint64_t end)
{
	struct mapping part = entry->mapping;

	if (part.start < start)
		part.start = start;
	if (part.end > end)
		part.end = end;
	return map_append(map, &part, entry->since);
}

static void map_clear(struct map *map)
{
	free(map->order);
	free(map->entries);
	*map = (struct map){0};
}

/* Returns the position in `order` of the first entry that ends after `address`. */
static size_t map_find(const struct map *map, uint64_t address)
{
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map_at(map, middle)->mapping.end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Replaces the entries from `first` to `last` (excluded) by the entries of `with`. */
static int map_splice(struct map *map, size_t first, size_t last, const struct map *with)
{
	size_t moved = (map->count - last) * sizeof(*map->order);

	if (map_reserve(map, with->count))
		return -ENOMEM;
	for (size_t i = first; i < last; i++)
		map_release_entry(map, map->order[i]);
	if (moved && with->count != last - first) {
		memmove(map->order + first + with->count, map->order + last, moved);
		map->bytes_moved += moved;
	}
	for (size_t i = 0; i < with->count; i++)
		map->order[first + i] = map_store_entry(map, map_at(with, i));
	map->count += with->count - (last - first);
	return 0;
}

static bool is_same_segment(const struct mapping *a, const struct mapping *b)
{
	return a->segment == b->segment && a->bias == b->bias;
}

/* Appends `mapping` in a range that no newer entry holds. */
static int map_append_range(struct map *map, const struct mapping *mapping, uint64_t start,
			    uint64_t end, uint32_t since)
{
	const struct mapping part = {start, end, mapping->bias, mapping->segment};

	return map_append(map, &part, since);
}

/*
 * Appends the part of an entry that is newer than `mapping`, within its range. Adjacent anonymous
 * mappings are merged and take the newest `since`: if such an entry conflicts with `mapping`, the
 * range is marked unknown.
 */
static int map_append_newer(struct map *map, const struct history_entry *entry, uint64_t start,
			    uint64_t end, const struct mapping *mapping)
{
	struct history_entry kept = *entry;

	if (is_anonymous(&kept.mapping) && !is_same_segment(&kept.mapping, mapping))
		kept.mapping.segment = SEGMENT_UNKNOWN;
	return map_append_part(map, &kept, start, end);
}

/*
 * Overlays a range with `mapping` from a generation on, except where newer entries hold it.
 * Segment 0 removes the older entries.
 */
static int map_overlay(struct map *map, const struct mapping *mapping, uint32_t since)
{
	size_t first = map_find(map, mapping->start), last;
	uint64_t next = mapping->start;
	struct map with = {0};
	int err = 0;

	/* It may be merged with its neighbour. */
	if (first > 0)
		first--;
	for (last = first; last < map->count && !err; last++) {
		const struct history_entry *entry = map_at(map, last);
		uint64_t from = entry->mapping.start > next ? entry->mapping.start : next;
		uint64_t to = entry->mapping.end < mapping->end ? entry->mapping.end : mapping->end;

		if (entry->mapping.start > mapping->end)
			break;
		err = map_append_part(&with, entry, 0, mapping->start);
		if (!err && from < to && entry->since >= since) {
			err = map_append_range(&with, mapping, next, from, since);
			if (!err)
				err = map_append_newer(&with, entry, from, to, mapping);
			next = to;
		}
		if (!err && entry->mapping.end > mapping->end) {
			err = map_append_range(&with, mapping, next, mapping->end, since);
			if (!err)
				err = map_append_part(&with, entry, mapping->end, UINT64_MAX);
			next = mapping->end;
		}
	}
	if (!err)
		err = map_append_range(&with, mapping, next, mapping->end, since);
	if (!err)
		err = map_splice(map, first, last, &with);
	map_clear(&with);
	return err;
}

/*
 * Sets *part to the first part of an entry between *next and `end`, and *next to its end. Returns
 * false if there is none.
 */
static bool map_next_part(const struct map *map, uint64_t *next, uint64_t end,
			  struct history_entry *part)
{
	size_t at = map_find(map, *next);

	if (*next >= end || at == map->count || map_at(map, at)->mapping.start >= end)
		return false;
	*part = *map_at(map, at);
	if (part->mapping.start < *next)
		part->mapping.start = *next;
	if (part->mapping.end > end)
		part->mapping.end = end;
	*next = part->mapping.end;
	return true;
}

static int mapping_history_compare(const void *a, const void *b, void *entries)
{
	const struct history_entry *left =
		(const struct history_entry *)entries + *(const uint32_t *)a;
	const struct history_entry *right =
		(const struct history_entry *)entries + *(const uint32_t *)b;

	if (left->mapping.start != right->mapping.start)
		return left->mapping.start < right->mapping.start ? -1 : 1;
	return (left->mapping.end > right->mapping.end) - (left->mapping.end < right->mapping.end);
}

/* Whether the entries are sorted and disjoint, and none would be merged with the one before it. */
static bool map_is_sorted(const struct map *map)
{
	for (size_t i = 1; i < map->count; i++) {
		if (map_at(map, i)->mapping.start <= map_at(map, i - 1)->mapping.end)
			return false;
	}
	return true;
}

/* Sorts the mappings of a snapshot. Where two overlap, the lower one wins. */
static int map_sort(struct map *map)
{
	struct map sorted = {0};
	uint64_t end = 0;
	int err = 0;

	/* The kernel mostly reads them in this order. */
	if (map_is_sorted(map))
		return 0;
	if (map->count)
		qsort_r(map->order, map->count, sizeof(*map->order), mapping_history_compare,
			map->entries);
	for (size_t i = 0; i < map->count && !err; i++) {
		const struct history_entry *entry = map_at(map, i);

		err = map_append_part(&sorted, entry, end, UINT64_MAX);
		if (entry->mapping.end > end)
			end = entry->mapping.end;
	}
	map_clear(map);
	*map = sorted;
	return err;
}

/* Reduces `map` to what is the same in `other`; entries keep their `since`. */
static int map_intersect(struct map *map, const struct map *other)
{
	struct map common = {0};
	size_t i = 0, j = 0;
	int err = 0;

	while (i < map->count && j < other->count && !err) {
		const struct history_entry *mine = map_at(map, i);
		const struct mapping *theirs = &map_at(other, j)->mapping;

		if (is_same_segment(&mine->mapping, theirs))
			err = map_append_part(&common, mine, theirs->start, theirs->end);
		if (mine->mapping.end < theirs->end)
			i++;
		else
			j++;
	}
	map_clear(map);
	*map = common;
	return err;
}

/* Merges neighbouring anonymous entries. Returns whether that has halved the map. */
static bool map_coalesce_anonymous(struct map *map)
{
	size_t kept = 0, before = map->count;

	for (size_t i = 1; i < map->count; i++) {
		struct history_entry *last = map_at(map, kept);
		const struct history_entry *next = map_at(map, i);

		if (!is_anonymous(&last->mapping) || !is_anonymous(&next->mapping)) {
			map->order[++kept] = map->order[i];
			continue;
		}
		last->mapping.end = next->mapping.end;
		if (last->since < next->since)
			last->since = next->since;
		map_release_entry(map, map->order[i]);
	}
	if (map->count)
		map->count = kept + 1;
	return map->count < before / 2;
}

/* Invariants */

/* Returns whether the entries are sorted and disjoint, none from after `latest`. */
static bool map_is_valid(const struct map *map, uint32_t latest)
{
	size_t unused = 0;

	for (size_t i = 0; i < map->count; i++) {
		const struct history_entry *entry = map_at(map, i);

		if (map->order[i] >= map->used || entry->since > latest ||
		    !entry->mapping.segment || entry->mapping.start >= entry->mapping.end)
			return false;
		if (i && map_at(map, i - 1)->mapping.end > entry->mapping.start)
			return false;
	}
	/* Each slot is either in `order` or in the list of the unused ones. */
	for (uint32_t next = map->free_list; next; next = map->entries[next - 1].since) {
		if (next > map->used || ++unused > map->used)
			return false;
	}
	return map->count + unused == map->used && map->used <= map->capacity &&
	       map->count <= map->order_capacity;
}

static bool snapshots_are_valid(const struct mapping_history *history)
{
	uint32_t last = history->base;

	for (size_t i = 0; i < history->snapshot_count; i++) {
		const struct snapshot *snapshot = &history->snapshots[i];

		if ((i || last) && snapshot->generation <= last)
			return false;
		if (snapshot->generation > history->latest)
			return false;
		last = snapshot->generation;
	}
	/* A gap ends with a snapshot. */
	return history->snapshot_count || !history->in_gap;
}

static bool events_are_valid(const struct mapping_history *history)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < history->event_count; i++) {
		uint32_t generation = history->events[i].generation;

		if (generation < first)
			first = generation;
		if ((history->base && generation <= history->base) || generation > history->latest)
			return false;
		if (i && history->events_sorted && history->events[i - 1].generation > generation)
			return false;
	}
	return history->first_event == first;
}

/* base <= accounted <= generation, and missing generations are between the first two. */
static bool generations_are_valid(const struct mapping_history *history)
{
	if (!history->started)
		return !history->map.count && !history->base && !history->generation &&
		       !history->settled && !history->first_missing && !history->missing_max;
	if (history->base > history->accounted || history->settled > history->generation ||
	    history->base > history->generation)
		return false;
	/* Generation 1 has no record. */
	if (history->accounted > 1 && history->accounted > history->generation)
		return false;
	if (!history->first_missing)
		return true;
	return history->missing_max && history->first_missing > history->base &&
	       history->first_missing <= history->accounted;
}

/* The invariants of a history, except while a function changes it. Aborts if one is violated. */
static void check_history(const struct mapping_history *history)
{
	invariant(generations_are_valid(history));
	invariant(map_is_valid(&history->map, history->generation));
	invariant(snapshots_are_valid(history));
	invariant(events_are_valid(history));
}

/* Adding records */

struct mapping_history *mapping_history_new(void)
{
	struct mapping_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->coalesce_threshold = MAPPING_HISTORY_COALESCE_THRESHOLD;
	history->first_event = UINT32_MAX;
	history->accounted = 1;
	return history;
}

static void drop_snapshot(struct mapping_history *history, size_t index)
{
	map_clear(&history->snapshots[index].map);
	history->snapshot_count--;
	memmove(&history->snapshots[index], &history->snapshots[index + 1],
		(history->snapshot_count - index) * sizeof(*history->snapshots));
}

void mapping_history_free(struct mapping_history *history)
{
	if (!history)
		return;
	while (history->snapshot_count)
		drop_snapshot(history, history->snapshot_count - 1);
	free(history->snapshots);
	free(history->events);
	map_clear(&history->map);
	free(history);
}

/* Returns the snapshot at a generation, adding it if needed; NULL when out of memory. */
static struct snapshot *get_snapshot(struct mapping_history *history, uint32_t generation)
{
	size_t at = 0;

	while (at < history->snapshot_count && history->snapshots[at].generation < generation)
		at++;
	if (at < history->snapshot_count && history->snapshots[at].generation == generation)
		return &history->snapshots[at];
	if (array_reserve(&history->snapshots, &history->snapshot_capacity, history->snapshot_count,
			  1, sizeof(*history->snapshots)))
		return NULL;
	memmove(&history->snapshots[at + 1], &history->snapshots[at],
		(history->snapshot_count - at) * sizeof(*history->snapshots));
	history->snapshot_count++;
	history->snapshots[at] = (struct snapshot){.generation = generation};
	return &history->snapshots[at];
}

/* Returns whether the map is based on a snapshot of this generation or a later one. */
static bool is_before_base(const struct mapping_history *history, uint32_t generation)
{
	return history->base && generation <= history->base;
}

/*
 * Returns whether a snapshot is of no use any more. In a gap the map has lost events that are newer
 * than a late one.
 */
static bool is_outdated(const struct mapping_history *history, uint32_t generation)
{
	return is_before_base(history, generation) ||
	       (history->in_gap && generation <= history->generation);
}

int mapping_history_add_snapshot(struct mapping_history *history, uint32_t generation, uint32_t gap,
				 bool incomplete)
{
	struct snapshot *snapshot;

	invariant(generations_are_valid(history));
	if (generation > history->latest)
		history->latest = generation;
	if (is_outdated(history, generation))
		return 0;
	snapshot = get_snapshot(history, generation);
	if (!snapshot)
		return -ENOMEM;
	if (gap && (!snapshot->gap || gap < snapshot->gap))
		snapshot->gap = gap;
	snapshot->incomplete |= incomplete;
	return 0;
}

int mapping_history_add_mapping(struct mapping_history *history, uint32_t generation,
				const struct mapping *mapping, uint64_t *dropped)
{
	struct snapshot *snapshot;

	invariant(generations_are_valid(history));
	if (generation > history->latest)
		history->latest = generation;
	if (is_outdated(history, generation))
		return 0;
	snapshot = get_snapshot(history, generation);
	if (!snapshot)
		return -ENOMEM;
	if (snapshot->map.count == MAPPING_HISTORY_MAPPINGS_MAX) {
		snapshot->incomplete = true;
		++*dropped;
		return 0;
	}
	return map_append(&snapshot->map, mapping, generation);
}

/*
 * Entries in the range of an event that are older than it become uncertain until `since`. So do
 * merged anonymous ones: their `since` may belong to another part.
 */
static int mark_uncertain(struct map *map, const struct mapping *event, uint32_t generation,
			  uint32_t since)
{
	uint64_t next = event->start;
	struct history_entry part;
	int err = 0;

	while (!err && map_next_part(map, &next, event->end, &part)) {
		if (part.since < generation ||
		    (is_anonymous(&part.mapping) && !is_same_segment(&part.mapping, event)))
			err = map_overlay(map, &part.mapping, since);
	}
	return err;
}

/*
 * Removes, in the range of an event, the mappings that the first snapshot, which is later than
 * the event, has contributed to the map.
 */
static int drop_initial_mappings(struct mapping_history *history, const struct mapping *range)
{
	struct mapping nothing = {.start = range->start, .end = range->end};

	/* Entries of events stay: their generation is not 0. */
	return map_overlay(&history->map, &nothing, 1);
}

int mapping_history_add_event(struct mapping_history *history, uint32_t generation,
			      const struct mapping *mapping, uint64_t *dropped)
{
	invariant(generations_are_valid(history));
	if (generation > history->latest)
		history->latest = generation;
	if (is_before_base(history, generation))
		return mark_uncertain(&history->map, mapping, generation, history->base);
	if (history->event_count == MAPPING_HISTORY_EVENTS_MAX) {
		++*dropped;
		return 0;
	}
	if (array_reserve(&history->events, &history->event_capacity, history->event_count, 1,
			  sizeof(*history->events)))
		return -ENOMEM;
	history->events[history->event_count++] = (struct event){generation, *mapping};
	history->events_sorted = false;
	if (generation < history->first_event)
		history->first_event = generation;
	if (history->started && !history->base && history->snapshot_count &&
	    generation <= history->snapshots[0].generation)
		return drop_initial_mappings(history, mapping);
	return 0;
}

/* Advancing */

static int compare_events(const void *a, const void *b)
{
	const struct event *left = a, *right = b;

	return (left->generation > right->generation) - (left->generation < right->generation);
}

static void sort_events(struct mapping_history *history)
{
	if (!history->events_sorted && history->event_count)
		qsort(history->events, history->event_count, sizeof(*history->events),
		      compare_events);
	history->events_sorted = true;
}

static void drop_events(struct mapping_history *history, size_t count)
{
	if (!count)
		return;
	history->event_count -= count;
	memmove(history->events, history->events + count,
		history->event_count * sizeof(*history->events));
	history->first_event = history->event_count ? history->events[0].generation : UINT32_MAX;
}

/*
 * Returns the first generation between the last snapshot and the next generation that may be
 * missing, or UINT32_MAX. A gap of a later snapshot may begin before the next one.
 */
static uint32_t next_gap_start(const struct mapping_history *history)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < history->snapshot_count; i++) {
		uint32_t gap = history->snapshots[i].gap;

		if (gap && gap < first)
			first = gap;
	}
	if (!history->snapshot_count || first > history->snapshots[0].generation)
		return UINT32_MAX;
	return first > history->base ? first : history->base + 1;
}

/* Returns whether there is an event for each generation up to `to`. Events are sorted. */
static bool has_all_events(const struct mapping_history *history, uint32_t to)
{
	uint32_t next = 2;

	for (size_t i = 0; i < history->event_count && next <= to; i++) {
		if (history->events[i].generation > next)
			return false;
		next = history->events[i].generation + 1;
	}
	return next > to;
}

/*
 * Fills the map for generations before the first snapshot: with the mappings of the snapshot,
 * except those in the range of an event up to it.
 */
static int start_from_snapshot(struct mapping_history *history)
{
	struct snapshot *first = &history->snapshots[0];
	int err = map_sort(&first->map);

	history->started = true;
	if (next_gap_start(history) != UINT32_MAX || !has_all_events(history, first->generation))
		return err;
	for (size_t i = 0; i < first->map.count && !err; i++)
		err = map_append(&history->map, &map_at(&first->map, i)->mapping, 0);
	for (size_t i = 0; i < history->event_count && !err; i++) {
		if (history->events[i].generation <= first->generation)
			err = drop_initial_mappings(history, &history->events[i].mapping);
	}
	return err;
}

/* Counts the generations before `end` that are in neither the map nor a gap as missing. */
static void note_missing(struct mapping_history *history, uint32_t end)
{
	if (end > history->accounted + 1 && !history->first_missing)
		history->first_missing = history->accounted + 1;
	history->missing_max += end - history->accounted - 1;
}

/* Removes the parts of mappings that an event in a gap, or a late one before it, contradicts. */
static int drop_contradicted(struct mapping_history *history, const struct mapping *event)
{
	uint64_t from = event->start;
	struct history_entry part;
	int err = 0;

	while (!err && map_next_part(&history->map, &from, event->end, &part)) {
		if (is_same_segment(&part.mapping, event))
			continue;
		part.mapping.segment = 0;
		err = map_overlay(&history->map, &part.mapping, UINT32_MAX);
	}
	return err;
}

/*
 * Reduces the map to what is known within a gap: mappings that are the same before and after it,
 * and in all events of it.
 */
static int enter_gap(struct mapping_history *history)
{
	const struct snapshot *next = &history->snapshots[0];
	uint32_t begin = next_gap_start(history);
	int err = map_sort(&history->snapshots[0].map);

	if (begin <= history->first_missing) {
		history->first_missing = 0;
	} else if (begin > history->accounted + 1) {
		note_missing(history, begin);
		history->accounted = begin - 1;
	}
	if (!err)
		err = map_intersect(&history->map, &next->map);
	for (size_t i = 0; i < history->event_count && !err; i++) {
		if (history->events[i].generation > next->generation)
			break;
		err = drop_contradicted(history, &history->events[i].mapping);
	}
	history->in_gap = true;
	return err;
}

/* Returns since when a mapping of a snapshot is known, if the map holds all of it. */
static uint32_t known_since(const struct map *map, const struct history_entry *entry)
{
	size_t at = map_find(map, entry->mapping.start);
	uint64_t next = entry->mapping.start;
	uint32_t since = 0;

	for (; next < entry->mapping.end; at++) {
		const struct history_entry *old;

		if (!map->order || at == map->count)
			return entry->since;
		old = map_at(map, at);
		if (old->mapping.start > next || !is_same_segment(&old->mapping, &entry->mapping))
			return entry->since;
		if (old->since > since)
			since = old->since;
		next = old->mapping.end;
	}
	return since < entry->since ? since : entry->since;
}

/* Generations that are missing up to a snapshot do not matter any more. */
static void update_missing(struct mapping_history *history)
{
	if (history->accounted <= history->base) {
		history->accounted = history->base;
		history->first_missing = history->missing_max = 0;
	} else if (history->first_missing && history->first_missing <= history->base) {
		history->first_missing = history->base + 1; /* perhaps: the snapshot was late */
		history->missing_max = history->accounted - history->base;
	}
}

static int apply_snapshot(struct mapping_history *history)
{
	struct snapshot *snapshot = &history->snapshots[0];
	struct map old = history->map, rebuilt = {0};
	int err = map_sort(&snapshot->map);

	for (size_t i = 0; i < snapshot->map.count && !err; i++) {
		const struct history_entry *entry = map_at(&snapshot->map, i);

		err = map_append(&rebuilt, &entry->mapping, known_since(&old, entry));
	}
	/* Events that are newer than a late snapshot, and are applied already. */
	for (size_t i = 0; i < old.count && !err; i++) {
		uint32_t since = map_at(&old, i)->since;
		struct mapping later = map_at(&old, i)->mapping;

		if (since <= snapshot->generation)
			continue;
		if (is_anonymous(&later))
			later.segment = SEGMENT_UNKNOWN; /* as in map_append_newer() */
		err = map_overlay(&rebuilt, &later, since);
	}
	map_clear(&old);
	history->map = rebuilt;
	history->base = snapshot->generation;
	history->incomplete = snapshot->incomplete;
	history->in_gap = false;
	update_missing(history);
	drop_snapshot(history, 0);
	return err;
}

/* Each generation has one event: one without was lost, or is late. */
static void note_event(struct mapping_history *history, uint32_t generation)
{
	if (generation > history->accounted) {
		note_missing(history, generation);
		history->accounted = generation;
	} else if (history->missing_max && !--history->missing_max) {
		history->first_missing = 0;
	}
}

static int apply_event(struct mapping_history *history, const struct event *event)
{
	struct map *map = &history->map;
	struct mapping nothing = {.start = event->mapping.start, .end = event->mapping.end};

	note_event(history, event->generation);
	if (map->count >= history->coalesce_threshold && !history->incomplete &&
	    !map_coalesce_anonymous(map))
		history->coalesce_threshold = map->count * 2;
	if (map->count >= MAPPING_HISTORY_MAPPINGS_MAX)
		return map_overlay(map, &nothing, event->generation);
	return map_overlay(map, &event->mapping, event->generation);
}

/*
 * Returns the generation of the next snapshot to apply or, with *gap, of the gap before it to
 * enter. A gap that the history has passed, as its record was late, is not entered.
 */
static uint32_t next_snapshot(const struct mapping_history *history, bool *gap)
{
	uint32_t begin = history->in_gap ? UINT32_MAX : next_gap_start(history);

	*gap = begin != UINT32_MAX && history->snapshots[0].generation > history->generation;
	if (*gap)
		return begin > history->generation ? begin : history->generation;
	return history->snapshot_count ? history->snapshots[0].generation : UINT32_MAX;
}

int mapping_history_advance(struct mapping_history *history, uint32_t generation)
{
	size_t done = 0;
	int err = 0;

	if (!history->started && !history->snapshot_count)
		return 0;
	sort_events(history);
	if (!history->started)
		err = start_from_snapshot(history);
	while (!err) {
		const struct event *event =
			done < history->event_count ? &history->events[done] : NULL;
		bool gap;
		uint32_t snapshot = next_snapshot(history, &gap);

		if (event && event->generation < snapshot) {
			if (event->generation > generation)
				break;
			err = history->in_gap ? drop_contradicted(history, &event->mapping)
					      : apply_event(history, event);
			if (event->generation > history->generation)
				history->generation = event->generation;
			done++;
			continue;
		}
		if (snapshot == UINT32_MAX || snapshot > generation)
			break;
		if (snapshot > history->generation)
			history->generation = snapshot;
		drop_events(history, done);
		done = 0;
		err = gap ? enter_gap(history) : apply_snapshot(history);
		while (!gap && done < history->event_count &&
		       history->events[done].generation <= history->base)
			done++;
	}
	drop_events(history, done);
	if (generation > history->generation)
		history->generation = generation;
	if (generation > history->settled)
		history->settled = generation;
	if (!err)
		check_history(history);
	return err;
}

/* Returns whether an event up to this generation is missing, and is in no gap. */
static bool misses_event(const struct mapping_history *history, uint32_t generation)
{
	return (history->first_missing && generation >= history->first_missing) ||
	       (!history->in_gap && generation > history->accounted);
}

bool mapping_history_ready(const struct mapping_history *history, uint32_t generation, bool settled)
{
	bool gap;

	/* The kernel may still read the mappings again. */
	if (!settled && (generation > history->settled || misses_event(history, generation)))
		return false;
	return history->started && history->first_event > generation &&
	       next_snapshot(history, &gap) > generation;
}

uint64_t mapping_history_bytes_moved(const struct mapping_history *history)
{
	return history->map.bytes_moved;
}

static size_t map_bytes(const struct map *map)
{
	return map->order_capacity * sizeof(*map->order) + map->capacity * sizeof(*map->entries);
}

size_t mapping_history_bytes(const struct mapping_history *history)
{
	size_t bytes = sizeof(*history) + map_bytes(&history->map) +
		       history->event_capacity * sizeof(*history->events) +
		       history->snapshot_capacity * sizeof(*history->snapshots);

	for (size_t i = 0; i < history->snapshot_count; i++)
		bytes += map_bytes(&history->snapshots[i].map);
	return bytes;
}

uint32_t mapping_history_latest_generation(const struct mapping_history *history)
{
	return history->latest;
}

bool mapping_history_has_pending(const struct mapping_history *history)
{
	return history->event_count || history->snapshot_count;
}

/*
 * Returns the place of the lower 16 bits of the index of the mapping that was found last, for an
 * address with these bits. The map may have changed since: the caller verifies the index.
 */
static uint16_t *found_of(struct mapping_history *history, uint64_t address)
{
	return &history->found[(address >> 17) % FOUND_ENTRIES];
}

const struct mapping *mapping_history_find(struct mapping_history *history, uint32_t generation,
					   uint64_t address)
{
	const struct map *map = &history->map;
	uint16_t *found = found_of(history, address);
	const struct history_entry *entry;
	size_t at = *found;

	if (!history->started || misses_event(history, generation))
		return NULL;
	if (at >= map->count || !mapping_contains(&map_at(map, at)->mapping, address)) {
		at = map_find(map, address);
		if (at == map->count || !mapping_contains(&map_at(map, at)->mapping, address))
			return NULL;
		*found = (uint16_t)at;
	}
	entry = map_at(map, at);
	if (entry->since > generation || entry->mapping.segment == SEGMENT_UNKNOWN)
		return NULL;
	return &entry->mapping;
}

bool mapping_history_neighbour(const struct mapping_history *history, uint64_t address, bool after,
			       struct mapping *neighbour)
{
	const struct map *map = &history->map;
	size_t at = map_find(map, address);

	for (size_t i = 0; i <= MAPPING_HISTORY_NEIGHBOURS; i++) {
		if (after ? at + 1 >= map->count : !at)
			return false;
		at = after ? at + 1 : at - 1;
		*neighbour = map_at(map, at)->mapping;
		if (!is_anonymous(neighbour))
			return neighbour->segment != SEGMENT_UNKNOWN;
	}
	return false;
}

int mapping_history_correct(struct mapping_history *history, const struct mapping *part)
{
	struct map *map = &history->map, with = {0};
	const size_t at = map_find(map, part->start);
	struct history_entry entry;
	int err;

	if (at == map->count || part->start < map_at(map, at)->mapping.start ||
	    part->end > map_at(map, at)->mapping.end)
		return -ENOENT;
	entry = *map_at(map, at);
	err = map_append_part(&with, &entry, 0, part->start);
	if (!err)
		err = map_append(&with, part, entry.since);
	if (!err)
		err = map_append_part(&with, &entry, part->end, UINT64_MAX);
	if (!err)
		err = map_splice(map, at, at + 1, &with);
	map_clear(&with);
	return err;
}

ssize_t mapping_history_copy(const struct mapping_history *history, uint32_t generation,
			     struct mapping **mappings)
{
	const struct map *map = &history->map;
	size_t count = 0;

	*mappings = calloc(map->count + 1, sizeof(**mappings));
	if (!*mappings)
		return -ENOMEM;
	if (!history->started || misses_event(history, generation))
		return 0;
	for (size_t i = 0; i < map->count; i++) {
		const struct history_entry *entry = map_at(map, i);

		if (entry->since <= generation && entry->mapping.segment != SEGMENT_UNKNOWN)
			(*mappings)[count++] = entry->mapping;
	}
	return (ssize_t)count;
}

const struct mapping *mapping_history_mapping_of(const struct mapping_history *history,
						 uint32_t segment, uint64_t offset, size_t max)
{
	const struct map *map = &history->map;

	for (size_t i = 0; i < map->count && i < max; i++) {
		const struct mapping *mapping = &map_at(map, i)->mapping;

		if (mapping->segment == segment &&
		    mapping_contains(mapping, offset - mapping->bias))
			return mapping;
	}
	return NULL;
}

bool mapping_history_is_certain(const struct mapping_history *history, uint32_t generation)
{
	return history->base && generation >= history->base && !history->in_gap &&
	       !history->incomplete && !misses_event(history, generation);
}

static void for_each_segment(const struct map *map, void (*fn)(uint32_t segment, void *arg),
			     void *arg)
{
	for (size_t i = 0; i < map->count; i++) {
		if (map_at(map, i)->mapping.segment != SEGMENT_UNKNOWN)
			fn(map_at(map, i)->mapping.segment, arg);
	}
}

void mapping_history_each_segment(const struct mapping_history *history,
				  void (*fn)(uint32_t segment, void *arg), void *arg)
{
	for_each_segment(&history->map, fn, arg);
	for (size_t i = 0; i < history->snapshot_count; i++)
		for_each_segment(&history->snapshots[i].map, fn, arg);
	for (size_t i = 0; i < history->event_count; i++)
		fn(history->events[i].mapping.segment, arg);
}

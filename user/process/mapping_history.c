// SPDX-License-Identifier: GPL-2.0
#include "process/mapping_history.h"

#include "lib/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Anonymous memory, which is all alike. */
#define is_anonymous(span) ((span)->place == 1)

/* Place of what something is known to hold, but not what. */
#define UNKNOWN UINT32_MAX

struct entry {
	struct span span;
	uint32_t since; /* generation from which on it is known to be there */
};

/*
 * Entries, sorted and disjoint. They stay where they are, and numbers of theirs are moved: who
 * changes many mappings low down in many can't make that cost much more than it costs him.
 */
struct map {
	uint32_t *order; /* indices of `entries`, by address */
	size_t count, order_capacity;
	struct entry *entries;
	size_t used, capacity; /* of `entries` */
	uint32_t free; /* 1 + index of the first one that is not in `order`; `since` tells the next
			*/
	uint64_t moved; /* bytes of `order` */
};

struct change {
	uint32_t generation;
	struct span span;
};

/* What was read at one generation. */
struct capture {
	uint32_t generation;
	uint32_t gap; /* first generation that may be missing; 0: none */
	bool partial; /* mappings were left out */
	struct map map; /* not sorted until it is used */
};

struct mapping_history {
	struct map map; /* at generation `at` */
	size_t found; /* where in it an address was found last: the next one is often near */
	uint32_t at;
	uint32_t base; /* generation of the last capture in the map; 0: none */
	uint32_t known; /* all was told up to this generation, when it was found */
	uint32_t latest;
	uint32_t last; /* generation of the last capture or change in the map */
	uint32_t missing; /* first one between `base` and `last` that was not told; 0: none */
	uint32_t untold; /* how many of these there are at most */
	size_t crowded; /* entries from which on anonymous ones become one */
	bool started; /* the map means something */
	bool in_gap; /* of the first capture */
	bool partial;
	struct change *changes; /* after `at`, sorted if `sorted` */
	size_t change_count, change_capacity;
	struct capture *captures; /* after `base`, sorted */
	size_t capture_count, capture_capacity;
	bool sorted;
	uint32_t earliest; /* generation of the changes, UINT32_MAX: there are none */
};

/* Maps */

static struct entry *map_at(const struct map *map, size_t index)
{
	return &map->entries[map->order[index]];
}

/* Room for `more` entries. Returns 0 or -ENOMEM. */
static int map_reserve(struct map *map, size_t more)
{
	if (array_reserve(&map->order, &map->order_capacity, map->count, more, sizeof(*map->order)))
		return -ENOMEM;
	return array_reserve(&map->entries, &map->capacity, map->used, more, sizeof(*map->entries));
}

/* The number of an entry that was reserved, and is filled. */
static uint32_t map_take(struct map *map, const struct entry *entry)
{
	uint32_t number = map->free;

	if (number)
		map->free = map->entries[--number].since;
	else
		number = (uint32_t)map->used++;
	map->entries[number] = *entry;
	return number;
}

static void map_release(struct map *map, uint32_t number)
{
	map->entries[number].since = map->free;
	map->free = number + 1;
}

static int map_add(struct map *map, const struct span *span, uint32_t since)
{
	struct entry *last = map->count ? map_at(map, map->count - 1) : NULL;

	if (span->start >= span->end)
		return 0;
	/* What continues the one before it is one with it. */
	if (last && last->span.end == span->start && last->span.place == span->place &&
	    last->span.shift == span->shift && (last->since == since || is_anonymous(span))) {
		last->span.end = span->end;
		last->since = since > last->since ? since : last->since;
		return 0;
	}
	if (map_reserve(map, 1))
		return -ENOMEM;
	map->order[map->count++] = map_take(map, &(struct entry){*span, since});
	return 0;
}

static int map_add_part(struct map *map, const struct entry *entry, uint64_t start, uint64_t end)
{
	struct span part = entry->span;

	if (part.start < start)
		part.start = start;
	if (part.end > end)
		part.end = end;
	return map_add(map, &part, entry->since);
}

static void map_clear(struct map *map)
{
	free(map->order);
	free(map->entries);
	*map = (struct map){0};
}

/* Index of the first entry that ends behind `address`. */
static size_t map_find(const struct map *map, uint64_t address)
{
	size_t low = 0, high = map->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (map_at(map, middle)->span.end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Puts the entries of `with` in the place of those from `first` to `last`, which is excluded. */
static int map_splice(struct map *map, size_t first, size_t last, const struct map *with)
{
	size_t moved = (map->count - last) * sizeof(*map->order);

	if (map_reserve(map, with->count))
		return -ENOMEM;
	for (size_t i = first; i < last; i++)
		map_release(map, map->order[i]);
	if (moved && with->count != last - first) {
		memmove(map->order + first + with->count, map->order + last, moved);
		map->moved += moved;
	}
	for (size_t i = 0; i < with->count; i++)
		map->order[first + i] = map_take(map, map_at(with, i));
	map->count += with->count - (last - first);
	return 0;
}

static bool is_same(const struct span *a, const struct span *b)
{
	return a->place == b->place && a->shift == b->shift;
}

/* What a range holds where nothing later does. */
static int map_fill(struct map *map, const struct span *span, uint64_t start, uint64_t end,
		    uint32_t since)
{
	const struct span part = {start, end, span->shift, span->place};

	return span->place ? map_add(map, &part, since) : 0;
}

/*
 * Adds what is later than `span` in its range. Anonymous memory has become one with its
 * neighbours, and may be older than they: then it is not known which of both it is.
 */
static int map_add_kept(struct map *map, const struct entry *entry, uint64_t start, uint64_t end,
			const struct span *span)
{
	struct entry kept = *entry;

	if (is_anonymous(&kept.span) && !is_same(&kept.span, span))
		kept.span.place = UNKNOWN;
	return map_add_part(map, &kept, start, end);
}

/*
 * Makes a range hold `span` from a generation on, except where something later does. With
 * place 0: makes it hold nothing known.
 */
static int map_put(struct map *map, const struct span *span, uint32_t since)
{
	size_t first = map_find(map, span->start), last;
	uint64_t next = span->start;
	struct map with = {0};
	int err = 0;

	/* A neighbour may become one with it. */
	if (first > 0)
		first--;
	for (last = first; last < map->count && !err; last++) {
		const struct entry *entry = map_at(map, last);
		uint64_t from = entry->span.start > next ? entry->span.start : next;
		uint64_t to = entry->span.end < span->end ? entry->span.end : span->end;

		if (entry->span.start > span->end)
			break;
		err = map_add_part(&with, entry, 0, span->start);
		if (!err && from < to && entry->since >= since) {
			err = map_fill(&with, span, next, from, since);
			if (!err)
				err = map_add_kept(&with, entry, from, to, span);
			next = to;
		}
		if (!err && entry->span.end > span->end) {
			err = map_fill(&with, span, next, span->end, since);
			if (!err)
				err = map_add_part(&with, entry, span->end, UINT64_MAX);
			next = span->end;
		}
	}
	if (!err)
		err = map_fill(&with, span, next, span->end, since);
	if (!err)
		err = map_splice(map, first, last, &with);
	map_clear(&with);
	return err;
}

/*
 * The next part of an entry from *next on and before `end`, which *next is moved behind.
 * False where there is none.
 */
static bool map_part(const struct map *map, uint64_t *next, uint64_t end, struct entry *part)
{
	size_t at = map_find(map, *next);

	if (*next >= end || at == map->count || map_at(map, at)->span.start >= end)
		return false;
	*part = *map_at(map, at);
	if (part->span.start < *next)
		part->span.start = *next;
	if (part->span.end > end)
		part->span.end = end;
	*next = part->span.end;
	return true;
}

static int compare_entries(const void *a, const void *b, void *entries)
{
	const struct entry *left = (const struct entry *)entries + *(const uint32_t *)a;
	const struct entry *right = (const struct entry *)entries + *(const uint32_t *)b;

	if (left->span.start != right->span.start)
		return left->span.start < right->span.start ? -1 : 1;
	return (left->span.end > right->span.end) - (left->span.end < right->span.end);
}

/* Sorts what was read; of what overlaps, the lower one wins. */
static int map_sort(struct map *map)
{
	struct map sorted = {0};
	uint64_t end = 0;
	int err = 0;

	if (map->count)
		qsort_r(map->order, map->count, sizeof(*map->order), compare_entries, map->entries);
	for (size_t i = 0; i < map->count && !err; i++) {
		const struct entry *entry = map_at(map, i);

		err = map_add_part(&sorted, entry, end, UINT64_MAX);
		if (entry->span.end > end)
			end = entry->span.end;
	}
	map_clear(map);
	*map = sorted;
	return err;
}

/* What is the same in both, with the `since` of `map`. */
static int map_intersect(struct map *map, const struct map *other)
{
	struct map common = {0};
	size_t i = 0, j = 0;
	int err = 0;

	while (i < map->count && j < other->count && !err) {
		const struct entry *mine = map_at(map, i);
		const struct span *theirs = &map_at(other, j)->span;

		if (is_same(&mine->span, theirs))
			err = map_add_part(&common, mine, theirs->start, theirs->end);
		if (mine->span.end < theirs->end)
			i++;
		else
			j++;
	}
	map_clear(map);
	*map = common;
	return err;
}

/* Makes neighbouring anonymous entries one. Returns whether that has helped. */
static bool map_bridge(struct map *map)
{
	size_t kept = 0, before = map->count;

	for (size_t i = 1; i < map->count; i++) {
		struct entry *last = map_at(map, kept);
		const struct entry *next = map_at(map, i);

		if (!is_anonymous(&last->span) || !is_anonymous(&next->span)) {
			map->order[++kept] = map->order[i];
			continue;
		}
		last->span.end = next->span.end;
		if (last->since < next->since)
			last->since = next->since;
		map_release(map, map->order[i]);
	}
	if (map->count)
		map->count = kept + 1;
	return map->count < before / 2;
}

/* What is told */

struct mapping_history *mapping_history_new(void)
{
	struct mapping_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->crowded = MAPPING_HISTORY_SPANS_MANY;
	history->earliest = UINT32_MAX;
	history->last = 1;
	return history;
}

static void drop_capture(struct mapping_history *history, size_t index)
{
	map_clear(&history->captures[index].map);
	history->capture_count--;
	memmove(&history->captures[index], &history->captures[index + 1],
		(history->capture_count - index) * sizeof(*history->captures));
}

void mapping_history_free(struct mapping_history *history)
{
	if (!history)
		return;
	while (history->capture_count)
		drop_capture(history, history->capture_count - 1);
	free(history->captures);
	free(history->changes);
	map_clear(&history->map);
	free(history);
}

/* The capture at a generation, which is made if it is not there. NULL when out of memory. */
static struct capture *get_capture(struct mapping_history *history, uint32_t generation)
{
	size_t at = 0;

	while (at < history->capture_count && history->captures[at].generation < generation)
		at++;
	if (at < history->capture_count && history->captures[at].generation == generation)
		return &history->captures[at];
	if (array_reserve(&history->captures, &history->capture_capacity, history->capture_count, 1,
			  sizeof(*history->captures)))
		return NULL;
	memmove(&history->captures[at + 1], &history->captures[at],
		(history->capture_count - at) * sizeof(*history->captures));
	history->capture_count++;
	history->captures[at] = (struct capture){.generation = generation};
	return &history->captures[at];
}

/* What was read before what is in the map already tells nothing more. */
static bool is_past(const struct mapping_history *history, uint32_t generation)
{
	return history->base && generation <= history->base;
}

int mapping_history_read(struct mapping_history *history, uint32_t generation, uint32_t gap,
			 bool left_out)
{
	struct capture *capture;

	if (generation > history->latest)
		history->latest = generation;
	if (is_past(history, generation))
		return 0;
	capture = get_capture(history, generation);
	if (!capture)
		return -ENOMEM;
	if (gap && (!capture->gap || gap < capture->gap))
		capture->gap = gap;
	capture->partial |= left_out;
	return 0;
}

int mapping_history_mapping(struct mapping_history *history, uint32_t generation,
			    const struct span *span, uint64_t *lost)
{
	struct capture *capture;

	if (is_past(history, generation))
		return 0;
	capture = get_capture(history, generation);
	if (!capture)
		return -ENOMEM;
	if (capture->map.count == MAPPING_HISTORY_SPANS_MAX) {
		capture->partial = true;
		++*lost;
		return 0;
	}
	return map_add(&capture->map, span, generation);
}

/* What is there since before a generation is not known to be there before `since`. */
static int doubt(struct map *map, const struct span *range, uint32_t generation, uint32_t since)
{
	uint64_t next = range->start;
	struct entry part;
	int err = 0;

	while (!err && map_part(map, &next, range->end, &part)) {
		if (part.since < generation)
			err = map_put(map, &part.span, since);
	}
	return err;
}

/* Before anything that was read at `at` or before: of what was read later. */
static int forget_initial(struct mapping_history *history, const struct span *range)
{
	struct span nothing = {.start = range->start, .end = range->end};

	/* What a change has put there stays: that has a generation. */
	return map_put(&history->map, &nothing, 1);
}

int mapping_history_event(struct mapping_history *history, uint32_t generation,
			  const struct span *span, uint64_t *lost)
{
	if (generation > history->latest)
		history->latest = generation;
	if (is_past(history, generation))
		return doubt(&history->map, span, generation, history->base);
	if (history->change_count == MAPPING_HISTORY_EVENTS_MAX) {
		++*lost;
		return 0;
	}
	if (array_reserve(&history->changes, &history->change_capacity, history->change_count, 1,
			  sizeof(*history->changes)))
		return -ENOMEM;
	history->changes[history->change_count++] = (struct change){generation, *span};
	history->sorted = false;
	if (generation < history->earliest)
		history->earliest = generation;
	if (history->started && !history->base && history->capture_count &&
	    generation <= history->captures[0].generation)
		return forget_initial(history, span);
	return 0;
}

/* Going forward */

static int compare_changes(const void *a, const void *b)
{
	const struct change *left = a, *right = b;

	if (left->generation != right->generation)
		return left->generation < right->generation ? -1 : 1;
	if (left->span.start != right->span.start)
		return left->span.start < right->span.start ? -1 : 1;
	return 0;
}

static void sort_changes(struct mapping_history *history)
{
	if (!history->sorted && history->change_count)
		qsort(history->changes, history->change_count, sizeof(*history->changes),
		      compare_changes);
	history->sorted = true;
}

static void drop_changes(struct mapping_history *history, size_t count)
{
	if (!count)
		return;
	history->change_count -= count;
	memmove(history->changes, history->changes + count,
		history->change_count * sizeof(*history->changes));
	history->earliest = history->change_count ? history->changes[0].generation : UINT32_MAX;
}

/*
 * The first generation after the last capture and up to the next that may be missing, or
 * UINT32_MAX. The gap of one after the next may begin before it.
 */
static uint32_t next_gap(const struct mapping_history *history)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < history->capture_count; i++) {
		uint32_t gap = history->captures[i].gap;

		if (gap && gap < first)
			first = gap;
	}
	if (!history->capture_count || first > history->captures[0].generation)
		return UINT32_MAX;
	return first > history->base ? first : history->base + 1;
}

/* Whether each generation up to `to` is of a change that was told; they are sorted. */
static bool is_all_told(const struct mapping_history *history, uint32_t to)
{
	uint32_t next = 2;

	for (size_t i = 0; i < history->change_count && next <= to; i++) {
		if (history->changes[i].generation > next)
			return false;
		next = history->changes[i].generation + 1;
	}
	return next > to;
}

/* Before the first capture: what was read then, where no change has led to it. */
static int start(struct mapping_history *history)
{
	struct capture *first = &history->captures[0];
	int err = map_sort(&first->map);

	history->started = true;
	if (next_gap(history) != UINT32_MAX || !is_all_told(history, first->generation))
		return err;
	for (size_t i = 0; i < first->map.count && !err; i++)
		err = map_add(&history->map, &map_at(&first->map, i)->span, 0);
	for (size_t i = 0; i < history->change_count && !err; i++) {
		if (history->changes[i].generation <= first->generation)
			err = forget_initial(history, &history->changes[i].span);
	}
	return err;
}

/* Within a gap only what is the same on both sides is known, and in all that was told of it. */
static int enter_gap(struct mapping_history *history)
{
	const struct capture *next = &history->captures[0];
	int err = map_sort(&history->captures[0].map);

	if (next_gap(history) <= history->missing)
		history->missing = 0;
	if (!err)
		err = map_intersect(&history->map, &next->map);
	for (size_t i = 0; i < history->change_count && !err; i++) {
		const struct change *change = &history->changes[i];
		uint64_t from = change->span.start;
		struct entry part;

		if (change->generation > next->generation)
			break;
		while (!err && map_part(&history->map, &from, change->span.end, &part)) {
			if (is_same(&part.span, &change->span))
				continue;
			part.span.place = 0;
			err = map_put(&history->map, &part.span, UINT32_MAX);
		}
	}
	history->in_gap = true;
	return err;
}

/* The generation since which a mapping that was read is known, if it is in the map as a whole. */
static uint32_t known_since(const struct map *map, const struct entry *entry)
{
	size_t at = map_find(map, entry->span.start);
	uint64_t next = entry->span.start;
	uint32_t since = 0;

	for (; next < entry->span.end; at++) {
		const struct entry *old;

		if (!map->order || at == map->count)
			return entry->since;
		old = map_at(map, at);
		if (old->span.start > next || !is_same(&old->span, &entry->span))
			return entry->since;
		if (old->since > since)
			since = old->since;
		next = old->span.end;
	}
	return since < entry->since ? since : entry->since;
}

/* What is missing up to a capture does not matter any more. */
static void pass_capture(struct mapping_history *history)
{
	if (history->last <= history->base) {
		history->last = history->base;
		history->missing = history->untold = 0;
	} else if (history->missing && history->missing <= history->base) {
		history->missing = history->base + 1; /* perhaps: it came late */
		history->untold = history->last - history->base;
	}
}

static int apply_capture(struct mapping_history *history)
{
	struct capture *capture = &history->captures[0];
	struct map old = history->map, new = {0};
	int err = map_sort(&capture->map);

	for (size_t i = 0; i < capture->map.count && !err; i++) {
		const struct entry *read = map_at(&capture->map, i);

		err = map_add(&new, &read->span, known_since(&old, read));
	}
	/* Changes that were told and made before a capture that came late. */
	for (size_t i = 0; i < old.count && !err; i++) {
		uint32_t since = map_at(&old, i)->since;
		struct span later = map_at(&old, i)->span;

		if (since <= capture->generation)
			continue;
		if (is_anonymous(&later))
			later.place = UNKNOWN; /* as in map_add_kept() */
		err = map_put(&new, &later, since);
	}
	map_clear(&old);
	history->map = new;
	history->base = capture->generation;
	history->partial = capture->partial;
	history->in_gap = false;
	pass_capture(history);
	drop_capture(history, 0);
	return err;
}

/* Each generation is of a change: where that is not told it was lost, or comes late. */
static void note_change(struct mapping_history *history, uint32_t generation)
{
	if (generation > history->last) {
		if (generation > history->last + 1 && !history->missing)
			history->missing = history->last + 1;
		history->untold += generation - history->last - 1;
		history->last = generation;
	} else if (history->untold && !--history->untold) {
		history->missing = 0;
	}
}

static int apply_change(struct mapping_history *history, const struct change *change)
{
	struct map *map = &history->map;
	struct span nothing = {.start = change->span.start, .end = change->span.end};

	note_change(history, change->generation);
	if (map->count >= history->crowded && !history->partial && !map_bridge(map))
		history->crowded = map->count * 2;
	if (map->count >= MAPPING_HISTORY_SPANS_MAX)
		return map_put(map, &nothing, change->generation);
	return map_put(map, &change->span, change->generation);
}

/*
 * The generation of the next capture to apply, or, with *gap, of the gap before it to
 * enter. What lies behind already, as it was told late, is not entered.
 */
static uint32_t next_capture(const struct mapping_history *history, bool *gap)
{
	uint32_t begin = history->in_gap ? UINT32_MAX : next_gap(history);

	*gap = begin != UINT32_MAX && history->captures[0].generation > history->at;
	if (*gap)
		return begin > history->at ? begin : history->at;
	return history->capture_count ? history->captures[0].generation : UINT32_MAX;
}

int mapping_history_advance(struct mapping_history *history, uint32_t generation)
{
	size_t done = 0;
	int err = 0;

	if (!history->started && !history->capture_count)
		return 0;
	sort_changes(history);
	if (!history->started)
		err = start(history);
	while (!err) {
		const struct change *change =
			done < history->change_count ? &history->changes[done] : NULL;
		bool gap;
		uint32_t capture = next_capture(history, &gap);

		if (change && change->generation < capture) {
			if (change->generation > generation)
				break;
			if (!history->in_gap)
				err = apply_change(history, change);
			if (change->generation > history->at)
				history->at = change->generation;
			done++;
			continue;
		}
		if (capture == UINT32_MAX || capture > generation)
			break;
		if (capture > history->at)
			history->at = capture;
		drop_changes(history, done);
		done = 0;
		err = gap ? enter_gap(history) : apply_capture(history);
		while (!gap && done < history->change_count &&
		       history->changes[done].generation <= history->base)
			done++;
	}
	drop_changes(history, done);
	if (generation > history->at)
		history->at = generation;
	if (generation > history->known)
		history->known = generation;
	return err;
}

/* Whether a change up to this generation was lost that is in no gap. */
static bool misses_change(const struct mapping_history *history, uint32_t generation)
{
	return (history->missing && generation >= history->missing) ||
	       (!history->in_gap && generation > history->last);
}

bool mapping_history_ready(const struct mapping_history *history, uint32_t generation, bool settled)
{
	bool gap;

	/* What is missing may still be read again. */
	if (!settled && (generation > history->known || misses_change(history, generation)))
		return false;
	return history->started && history->earliest > generation &&
	       next_capture(history, &gap) > generation;
}

uint64_t mapping_history_moved(const struct mapping_history *history)
{
	return history->map.moved;
}

uint32_t mapping_history_latest(const struct mapping_history *history)
{
	return history->latest;
}

bool mapping_history_is_behind(const struct mapping_history *history)
{
	return history->change_count || history->capture_count;
}

static bool is_in(const struct span *span, uint64_t address)
{
	return address >= span->start && address < span->end;
}

const struct span *mapping_history_find(struct mapping_history *history, uint32_t generation,
					uint64_t address)
{
	const struct map *map = &history->map;
	const struct entry *entry;

	if (!history->started || misses_change(history, generation))
		return NULL;
	if (history->found >= map->count || !is_in(&map_at(map, history->found)->span, address)) {
		history->found = map_find(map, address);
		if (history->found == map->count ||
		    !is_in(&map_at(map, history->found)->span, address))
			return NULL;
	}
	entry = map_at(map, history->found);
	if (entry->since > generation || entry->span.place == UNKNOWN)
		return NULL;
	return &entry->span;
}

bool mapping_history_is_certain(const struct mapping_history *history, uint32_t generation)
{
	return history->base && generation >= history->base && !history->in_gap &&
	       !history->partial && !misses_change(history, generation);
}

static void each_place(const struct map *map, void (*fn)(uint32_t place, void *arg), void *arg)
{
	for (size_t i = 0; i < map->count; i++) {
		if (map_at(map, i)->span.place != UNKNOWN)
			fn(map_at(map, i)->span.place, arg);
	}
}

void mapping_history_each_segment(const struct mapping_history *history,
				  void (*fn)(uint32_t place, void *arg), void *arg)
{
	each_place(&history->map, fn, arg);
	for (size_t i = 0; i < history->capture_count; i++)
		each_place(&history->captures[i].map, fn, arg);
	for (size_t i = 0; i < history->change_count; i++)
		fn(history->changes[i].span.place, arg);
}

// SPDX-License-Identifier: GPL-2.0
#include "record/gone_parts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include <stackbeat.h>

#include "debuginfo/gone_modules.h"
#include "lib/array.h"
#include "lib/clock.h"
#include "lib/upper_bound.h"
#include "source/device.h"
#include "source/generated_code.h"

/* Text of parts that the module keeps, or does no longer. */
#define BYTES_MAX (2 * (size_t)STACKBEAT_MODULE_SYMBOLS_BYTES)
/* Parts that come while they are read would make it endless. */
#define PARTS_MAX (2 * (size_t)STACKBEAT_MODULE_SYMBOLS_MAX)
/* Serials from here on are of generated code, and those below of the module. */
#define GENERATED_SERIAL (GONE_SERIAL_MAX / 2)
/* The first address that aliases keep. */
#define GONE_CODE_START (~GONE_CODE_MASK)
/* Bytes of a name, with its NUL: KSYM_NAME_LEN. */
#define GENERATED_NAME_SIZE 512u

static struct gone_part *find_part(const struct gone_parts *parts, uint64_t serial)
{
	for (size_t i = 0; i < parts->count; i++) {
		if (parts->items[i].serial == serial)
			return &parts->items[i];
	}
	return NULL;
}

/* Returns the text of a part that has one; or NULL. */
static char *read_text(const struct device *device, const struct stackbeat_module_symbols *symbols)
{
	struct stackbeat_module_symbols again = {.serial = symbols->serial, .size = symbols->size};
	char *text = malloc(symbols->size);

	again.buffer = (uintptr_t)text;
	if (text && !device_module_symbols(device, &again) && again.serial == symbols->serial &&
	    again.size == symbols->size)
		return text;
	free(text);
	return NULL;
}

/* Adds a part with its text, which it owns then. */
static void gone_parts_add(struct gone_parts *parts, const struct gone_part *part)
{
	const bool is_full = parts->bytes + part->size > BYTES_MAX ||
			     parts->count - parts->generated == PARTS_MAX;

	if ((is_full && !part->is_generated) ||
	    array_reserve(&parts->items, &parts->capacity, parts->count, 1, sizeof(*part))) {
		free(part->text);
		parts->dropped++;
		return;
	}
	parts->items[parts->count++] = *part;
	parts->bytes += part->size;
	parts->generated += part->is_generated;
}

/* Adds a part that the module has; `old` may have its text. */
static void add_from(struct gone_parts *parts, struct gone_parts *old, const struct device *device,
		     const struct stackbeat_module_symbols *symbols)
{
	struct gone_part *known = find_part(old, symbols->serial);
	struct gone_part part = {
		.serial = symbols->serial,
		.came = symbols->came,
		.gone = symbols->gone,
		.start = symbols->start,
		.end = symbols->end,
		.is_init = symbols->init,
		.size = symbols->size,
	};

	memcpy(part.module, symbols->module, sizeof(part.module));
	part.module[sizeof(part.module) - 1] = '\0';
	if (known) {
		part.text = known->text;
		known->text = NULL;
		known->serial = 0;
	} else {
		part.text = read_text(device, symbols);
	}
	if (part.text)
		gone_parts_add(parts, &part);
}

static bool has_expired(const struct gone_part *part, uint64_t since)
{
	return part->gone && part->gone < since;
}

/* Moves the parts that the module does not have (any more, so when they have gone may be unknown).
 */
static void keep_dropped(struct gone_parts *parts, struct gone_parts *old, uint64_t since)
{
	for (size_t i = 0; i < old->count; i++) {
		struct gone_part *part = &old->items[i];

		if (!part->serial || has_expired(part, since))
			continue;
		if (!part->gone && !part->is_generated)
			part->gone = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC);
		gone_parts_add(parts, part);
		part->text = NULL;
	}
}

/* Of the parts from an index on, when those are in order. */
static void set_reach(struct gone_parts *parts, size_t index)
{
	uint64_t reach = index ? parts->items[index - 1].reach : 0;

	for (size_t i = index; i < parts->count; i++) {
		reach = MAX(reach, parts->items[i].end);
		parts->items[i].reach = reach;
	}
	parts->start = parts->count ? parts->items[0].start : 0;
	parts->end = reach;
}

static int compare_parts(const void *a, const void *b)
{
	const struct gone_part *left = a, *right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return (left->serial > right->serial) - (left->serial < right->serial);
}

static void sort_parts(struct gone_parts *parts)
{
	if (parts->count)
		qsort(parts->items, parts->count, sizeof(*parts->items), compare_parts);
	set_reach(parts, 0);
}

/* Removes parts of generated code, or all that have gone, before a time. Returns their number. */
static size_t remove_gone(struct gone_parts *parts, uint64_t since, bool generated_only)
{
	const size_t before = parts->count;
	size_t kept = 0;

	for (size_t i = 0; i < before; i++) {
		struct gone_part *part = &parts->items[i];

		if (!has_expired(part, since) || (generated_only && !part->is_generated)) {
			parts->items[kept++] = *part;
			continue;
		}
		parts->bytes -= part->size;
		parts->generated -= part->is_generated;
		free(part->text);
	}
	parts->count = kept;
	if (kept < before)
		set_reach(parts, 0);
	return before - kept;
}

/* Removes parts that are of no sample any more. Returns whether there were any. */
static bool gone_parts_expire(struct gone_parts *parts, uint64_t since)
{
	return remove_gone(parts, since, false);
}

/*
 * Counts parts that the module has dropped before they were seen: serials are consecutive, but
 * the first ones may have been of others.
 */
static void note_serial(struct gone_parts *parts, const struct stackbeat_module_symbols *symbols)
{
	if (parts->last && symbols->serial > parts->last)
		parts->dropped += symbols->serial - parts->last - 1;
	else if (!parts->last && parts->has_asked)
		parts->dropped += symbols->dropped - parts->dropped_before;
	parts->last = MAX(parts->last, symbols->serial);
}

bool gone_parts_refresh(struct gone_parts *parts, const struct device *device, uint64_t since)
{
	struct gone_parts next = {
		.first = parts->first,
		.last = parts->last,
		.dropped_before = parts->dropped_before,
		.has_asked = parts->has_asked,
		.dropped = parts->dropped,
		.generated_ever = parts->generated_ever,
	};
	/* No part has this serial: there are `changes` only. */
	struct stackbeat_module_symbols symbols = {.serial = UINT64_MAX};
	int err = parts->is_refused ? -EPERM : device_module_symbols(device, &symbols);

	parts->is_refused = err != -ENOENT;
	if (!parts->has_asked)
		parts->dropped_before = next.dropped_before = symbols.dropped;
	parts->has_asked = true;
	if (parts->is_refused || symbols.changes == parts->changes)
		return gone_parts_expire(parts, since);
	next.changes = symbols.changes;
	symbols.serial = parts->first;
	for (size_t i = 0; i < PARTS_MAX; i++) {
		symbols.size = 0;
		err = device_module_symbols(device, &symbols);
		if ((err && err != -ENOSPC) || symbols.serial >= GENERATED_SERIAL)
			break;
		note_serial(&next, &symbols);
		if (symbols.gone && symbols.gone < since)
			next.first = next.count ? next.first : symbols.serial + 1;
		else if (symbols.size)
			add_from(&next, parts, device, &symbols);
		symbols.serial++;
	}
	keep_dropped(&next, parts, since);
	next.has_asked = true;
	sort_parts(&next);
	gone_parts_clear(parts);
	*parts = next;
	return true;
}

void gone_parts_clear(struct gone_parts *parts)
{
	for (size_t i = 0; i < parts->count; i++)
		free(parts->items[i].text);
	free(parts->items);
	*parts = (struct gone_parts){0};
}

size_t gone_parts_bytes(const struct gone_parts *parts)
{
	return parts->bytes + parts->capacity * sizeof(*parts->items);
}

/* Generated code */

/* The index behind the last part that starts below an address; those before may have it. */
static size_t behind_parts_at(const struct gone_parts *parts, uint64_t address)
{
	return upper_bound(parts->items, parts->count, sizeof(*parts->items), address);
}

/* Of a name: neither control characters nor spaces. */
static char clean_character(char character)
{
	if (character > ' ' && character <= '~')
		return character;
	return '?';
}

/* Returns a clean name, and its bytes; NULL: out of memory. */
static char *clean_name(const char *name, size_t *size)
{
	const size_t length = strnlen(name, GENERATED_NAME_SIZE - 1);
	char *clean = strndup(name, length);

	for (size_t i = 0; clean && i < length; i++)
		clean[i] = clean_character(clean[i]);
	*size = length + 1;
	return clean;
}

static bool is_part_of(const struct gone_part *part, const struct generated_code_change *change)
{
	if (!part->is_generated || part->start != change->start || part->end != change->end)
		return false;
	for (size_t i = 0; i + 1 < part->size; i++) {
		if (!change->name[i] || part->text[i] != clean_character(change->name[i]))
			return false;
	}
	return part->size == GENERATED_NAME_SIZE || !change->name[part->size - 1];
}

/* Returns the last part that has come of the code of a change; or NULL. */
static struct gone_part *find_announced(const struct gone_parts *parts,
					const struct generated_code_change *change)
{
	struct gone_part *found = NULL;

	for (size_t i = behind_parts_at(parts, change->start); i-- > 0;) {
		struct gone_part *part = &parts->items[i];

		if (part->reach <= change->start)
			break;
		if (is_part_of(part, change) && (!found || part->came > found->came))
			found = part;
	}
	return found;
}

/*
 * Ends the generated code that has had the addresses of a change, at its time at the latest.
 * Returns when the last one has gone; 0: there was none.
 */
static uint64_t end_overlapping(struct gone_parts *parts,
				const struct generated_code_change *change)
{
	uint64_t last = 0;

	for (size_t i = behind_parts_at(parts, change->end - 1); i-- > 0;) {
		struct gone_part *part = &parts->items[i];

		if (part->reach <= change->start)
			break;
		if (!part->is_generated || part->end <= change->start || part->came >= change->time)
			continue;
		part->gone = part->gone ? MIN(part->gone, change->time) : change->time;
		last = MAX(last, part->gone);
	}
	return last;
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Drops half of the generated code that is gone: the next time is not soon. */
static void drop_generated(struct gone_parts *parts)
{
	uint64_t *times = calloc(parts->generated, sizeof(*times));
	size_t count = 0;

	for (size_t i = 0; times && i < parts->count; i++) {
		if (parts->items[i].is_generated && parts->items[i].gone)
			times[count++] = parts->items[i].gone;
	}
	if (count) {
		qsort(times, count, sizeof(*times), compare_times);
		parts->dropped += remove_gone(parts, times[count / 2] + 1, true);
	}
	free(times);
}

/* As /proc/kallsyms has it. */
static const char *generated_module(const struct generated_code_change *change)
{
	if (change->is_bpf)
		return "bpf";
	return strncmp(change->name, "ftrace", 6) ? "__builtin__kprobes" : "__builtin__ftrace";
}

static void add_generated(struct gone_parts *parts, const struct generated_code_change *change,
			  uint64_t came, uint64_t gone)
{
	struct gone_part part = {
		.start = change->start,
		.end = change->end,
		.serial = GENERATED_SERIAL + parts->generated_ever,
		.came = came,
		.gone = gone,
		.is_generated = true,
	};
	size_t index;

	if (parts->generated == GONE_PARTS_GENERATED_MAX)
		drop_generated(parts);
	if (parts->generated < GONE_PARTS_GENERATED_MAX && part.serial < GONE_SERIAL_MAX)
		part.text = clean_name(change->name, &part.size);
	if (!part.text || array_reserve(&parts->items, &parts->capacity, parts->count, 1,
					sizeof(*parts->items))) {
		free(part.text);
		parts->dropped++;
		return;
	}
	strcpy(part.module, generated_module(change));
	index = behind_parts_at(parts, part.start);
	memmove(&parts->items[index + 1], &parts->items[index],
		(parts->count - index) * sizeof(*parts->items));
	parts->items[index] = part;
	parts->count++;
	parts->bytes += part.size;
	parts->generated++;
	parts->generated_ever++;
	set_reach(parts, index);
}

static void announce_start(struct gone_parts *parts, const struct generated_code_change *change)
{
	struct gone_part *known = find_announced(parts, change);

	/* Changes on different CPUs may be read in the wrong order. */
	if (known && !known->came && known->gone >= change->time) {
		known->came = change->time;
		return;
	}
	end_overlapping(parts, change);
	add_generated(parts, change, change->time, 0);
}

static void announce_end(struct gone_parts *parts, const struct generated_code_change *change)
{
	struct gone_part *known = find_announced(parts, change);

	if (known && !known->gone)
		known->gone = change->time + GONE_PARTS_END_NS;
	/* What has come since has ended it. */
	else if (!known || known->gone < change->time)
		add_generated(parts, change, end_overlapping(parts, change),
			      change->time + GONE_PARTS_END_NS);
}

void gone_parts_announce(struct gone_parts *parts, const struct generated_code_change *change)
{
	/* Others can't have aliases. */
	if (change->start < GONE_CODE_START || change->end <= change->start)
		return;
	if (change->is_gone)
		announce_end(parts, change);
	else
		announce_start(parts, change);
}

void gone_parts_lose_announcements(struct gone_parts *parts, uint64_t time)
{
	for (size_t i = 0; i < parts->count; i++) {
		struct gone_part *part = &parts->items[i];

		if (part->is_generated && !part->gone)
			part->gone = time;
	}
}

/* Aliases */

static bool part_has_time(const struct gone_part *part, uint64_t time)
{
	return part->came <= time && (!part->gone || time <= part->gone);
}

/* Whether a part is the better one for a time that both have: what came last, and then went first.
 */
static bool is_better(const struct gone_part *part, const struct gone_part *best)
{
	if (!best || part->came != best->came)
		return !best || part->came > best->came;
	return part->gone && (!best->gone || part->gone < best->gone);
}

/*
 * Returns the alias of an address; clears *lasts if it is another one at another time: but no
 * sample that arrives after this one is of a part that was gone long before.
 */
static uint64_t alias_of(const struct gone_parts *parts, uint64_t time, uint64_t address,
			 bool *lasts)
{
	const struct gone_part *best = NULL;
	bool is_known = false;

	for (size_t i = behind_parts_at(parts, address); i-- > 0;) {
		const struct gone_part *part = &parts->items[i];

		if (part->reach <= address)
			break;
		if (address >= part->end)
			continue;
		is_known = true;
		if (part->gone && time > part->gone + GONE_PARTS_SAMPLE_AGE_NS)
			continue;
		*lasts = *lasts && !part->gone && !part->is_init && part->came <= time;
		if (part_has_time(part, time) && is_better(part, best))
			best = part;
	}
	if (best)
		return gone_alias(best->serial, address);
	return is_known ? gone_alias(0, address) : address;
}

bool gone_parts_set_aliases(const struct gone_parts *parts, uint64_t time, uint64_t *addresses,
			    size_t count)
{
	bool lasts = true;

	for (size_t i = 0; i < count && parts->count; i++) {
		if (addresses[i] >= parts->start && addresses[i] < parts->end)
			addresses[i] = alias_of(parts, time, addresses[i], &lasts);
	}
	return lasts;
}

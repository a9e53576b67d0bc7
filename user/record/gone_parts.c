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
#include "source/device.h"

/* Text of parts that the module keeps, or does no longer. */
#define BYTES_MAX (2 * (size_t)STACKBEAT_MODULE_SYMBOLS_BYTES)
/* Parts that come while they are read would make it endless. */
#define PARTS_MAX (2 * (size_t)STACKBEAT_MODULE_SYMBOLS_MAX)

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
	if (part->size > BYTES_MAX - parts->bytes || parts->count == PARTS_MAX ||
	    array_reserve(&parts->items, &parts->capacity, parts->count, 1, sizeof(*part))) {
		free(part->text);
		return;
	}
	parts->items[parts->count++] = *part;
	parts->bytes += part->size;
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

/* Moves parts that the module has no longer. When they have gone may be unknown. */
static void keep_dropped(struct gone_parts *parts, struct gone_parts *old, uint64_t since)
{
	for (size_t i = 0; i < old->count; i++) {
		struct gone_part *part = &old->items[i];

		if (!part->serial || has_expired(part, since))
			continue;
		if (!part->gone)
			part->gone = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC);
		gone_parts_add(parts, part);
		part->text = NULL;
	}
}

/* Of parts that have functions. */
static void gone_parts_set_range(struct gone_parts *parts)
{
	parts->start = parts->count ? UINT64_MAX : 0;
	parts->end = 0;
	for (size_t i = 0; i < parts->count; i++) {
		parts->start = MIN(parts->start, parts->items[i].start);
		parts->end = MAX(parts->end, parts->items[i].end);
	}
}

/* Removes parts that are of no sample any more. Returns whether there were any. */
static bool gone_parts_expire(struct gone_parts *parts, uint64_t since)
{
	size_t kept = 0;

	for (size_t i = 0; i < parts->count; i++) {
		if (!has_expired(&parts->items[i], since)) {
			parts->items[kept++] = parts->items[i];
			continue;
		}
		parts->bytes -= parts->items[i].size;
		free(parts->items[i].text);
	}
	if (kept == parts->count)
		return false;
	parts->count = kept;
	gone_parts_set_range(parts);
	return true;
}

bool gone_parts_refresh(struct gone_parts *parts, const struct device *device, uint64_t since)
{
	struct gone_parts next = {.first = parts->first};
	/* No part has this serial: there are `changes` only. */
	struct stackbeat_module_symbols symbols = {.serial = UINT64_MAX};
	int err = parts->is_refused ? -EPERM : device_module_symbols(device, &symbols);

	parts->is_refused = err != -ENOENT;
	if (parts->is_refused || symbols.changes == parts->changes)
		return gone_parts_expire(parts, since);
	next.changes = symbols.changes;
	symbols.serial = parts->first;
	for (size_t i = 0; i < PARTS_MAX; i++) {
		symbols.size = 0;
		err = device_module_symbols(device, &symbols);
		if ((err && err != -ENOSPC) || symbols.serial >= GONE_SERIAL_MAX)
			break;
		if (symbols.gone && symbols.gone < since)
			next.first = next.count ? next.first : symbols.serial + 1;
		else if (symbols.size)
			add_from(&next, parts, device, &symbols);
		symbols.serial++;
	}
	keep_dropped(&next, parts, since);
	gone_parts_set_range(&next);
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

/*
 * Returns the alias of an address; clears *lasts if it is another one at another time: but no
 * sample that arrives after this one is of a part that was gone long before.
 */
static uint64_t alias_of(const struct gone_parts *parts, uint64_t time, uint64_t address,
			 bool *lasts)
{
	bool is_known = false;

	for (size_t i = 0; i < parts->count; i++) {
		const struct gone_part *part = &parts->items[i];

		if (address < part->start || address >= part->end)
			continue;
		is_known = true;
		if (part->gone && time > part->gone + GONE_PARTS_SAMPLE_AGE_NS)
			continue;
		*lasts = *lasts && !part->gone && !part->is_init && part->came <= time;
		if (part->came <= time && (!part->gone || time <= part->gone))
			return gone_alias(part->serial, address);
	}
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

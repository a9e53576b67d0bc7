// SPDX-License-Identifier: GPL-2.0
#include "pprof/profile.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/error.h"
#include "lib/utf8.h"

#define COMMENT_MAX 1024

/* Reserves room for `more` entries in a table of the profile. Returns whether there is room. */
#define RESERVE(profile, table, more)                                                              \
	reserve_entries(profile, &(profile)->table.items, &(profile)->table.capacity,              \
			(profile)->table.count, more, sizeof(*(profile)->table.items))

static bool reserve_entries(struct profile *profile, void *items, size_t *capacity, size_t count,
			    size_t more, size_t size)
{
	if (!profile->error && more >= HASH_NONE - count)
		profile->error = -ENOMEM;
	if (!profile->error)
		profile->error = array_reserve(items, capacity, count, more, size);
	return !profile->error;
}

/* Adds the entry behind the last one of a table to its index. Returns its number, or 0. */
static uint32_t index_entry(struct profile *profile, struct hash *index, uint32_t hash,
			    size_t *count)
{
	profile->error = hash_add(index, hash, (uint32_t)*count);
	return profile->error ? 0 : (uint32_t)(*count)++;
}

/* Strings */

/* Returns a copy of `text` in valid UTF-8, which the caller frees, or NULL without memory. */
static char *copy_as_utf8(const char *text)
{
	const size_t replacement = strlen(UTF8_REPLACEMENT);
	char *copy = malloc(strlen(text) * replacement + 1), *next = copy;
	size_t length;

	if (!copy)
		return NULL;
	for (; *text; text += length ? length : 1) {
		length = utf8_decode(text, NULL);
		if (length)
			next = mempcpy(next, text, length);
		else
			next = mempcpy(next, UTF8_REPLACEMENT, replacement);
	}
	*next = '\0';
	return copy;
}

static uint32_t intern_string(struct profile *profile, const char *text)
{
	const size_t count = profile->strings.count, length = strlen(text);
	uint32_t index;

	if (count >= HASH_NONE - 1)
		index = STRING_NONE;
	else
		index = string_table_add(&profile->strings, text, length);
	if (index == STRING_NONE) {
		profile->error = -ENOMEM;
		return 0;
	}
	if (profile->strings.count > count)
		profile->string_bytes += length + 1;
	return index;
}

/*
 * The entry of recent_strings that a text may be in: by its length and its ends, without a key, as
 * a program that chooses strings can only make its own ones miss.
 */
static uint32_t *recent_string(struct profile *profile, const char *text)
{
	const size_t length = strlen(text), part = MIN(length, sizeof(uint64_t));
	uint64_t first = 0, last = 0;

	memcpy(&first, text, part);
	memcpy(&last, text + length - part, part);
	first = (first ^ last << 1 ^ length) * UINT64_C(0x9e3779b97f4a7c15);
	return &profile->recent_strings[(first >> 32) % PROFILE_RECENT_STRINGS];
}

uint32_t profile_string(struct profile *profile, const char *text)
{
	uint32_t index, *recent;
	char *copy;

	if (!text || !*text || profile->error)
		return 0;
	/* An unused entry is 0, the empty string. */
	recent = recent_string(profile, text);
	if (!strcmp(profile->strings.items[*recent], text))
		return *recent;
	if (utf8_valid(text)) {
		*recent = intern_string(profile, text);
		return *recent;
	}
	copy = copy_as_utf8(text);
	if (!copy) {
		profile->error = -ENOMEM;
		return 0;
	}
	index = intern_string(profile, copy);
	free(copy);
	return index;
}

/* Profile */

/* Makes the entries 0. Searches for them find other ones: the index has none. */
static void add_first_entries(struct profile *profile)
{
	if (!RESERVE(profile, mappings, 1) || !RESERVE(profile, functions, 1) ||
	    !RESERVE(profile, lines, 1) || !RESERVE(profile, locations, 1) ||
	    !RESERVE(profile, stack_locations, 1) || !RESERVE(profile, stacks, 1) ||
	    !RESERVE(profile, labels, 1) || !RESERVE(profile, set_labels, 1) ||
	    !RESERVE(profile, label_sets, 1) || !RESERVE(profile, values, 1))
		return;
	profile->mappings.items[profile->mappings.count++] = (struct profile_mapping){0};
	profile->functions.items[profile->functions.count++] = (struct profile_function){0};
	profile->locations.items[profile->locations.count++] = (struct profile_location){0};
	profile->stacks.items[profile->stacks.count++] = (struct profile_sequence){0};
	profile->labels.items[profile->labels.count++] = (struct profile_label){0};
	profile->label_sets.items[profile->label_sets.count++] = (struct profile_sequence){0};
	intern_string(profile, "");
}

struct profile *profile_new(void)
{
	struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	add_first_entries(profile);
	if (profile->error) {
		profile_free(profile);
		return NULL;
	}
	return profile;
}

static void profile_clear(struct profile *profile)
{
	free(profile->types.items);
	free(profile->comments.items);
	string_table_clear(&profile->strings);
	free(profile->mappings.items);
	free(profile->functions.items);
	free(profile->lines.items);
	free(profile->locations.items);
	free(profile->stack_locations.items);
	free(profile->stacks.items);
	free(profile->labels.items);
	free(profile->set_labels.items);
	free(profile->label_sets.items);
	free(profile->samples.items);
	free(profile->values.items);
	free(profile->moments.items);
	free(profile->moment_values.items);
	hash_clear(&profile->mapping_index);
	hash_clear(&profile->function_index);
	hash_clear(&profile->location_index);
	hash_clear(&profile->stack_index);
	hash_clear(&profile->label_index);
	hash_clear(&profile->label_set_index);
	hash_clear(&profile->sample_index);
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	profile_clear(profile);
	free(profile);
}

void profile_swap(struct profile *a, struct profile *b)
{
	struct profile other = *a;

	*a = *b;
	*b = other;
}

/* Head */

void profile_add_type(struct profile *profile, const char *type, const char *unit)
{
	const struct profile_value_type added = {
		.type = profile_string(profile, type),
		.unit = profile_string(profile, unit),
	};

	if (RESERVE(profile, types, 1))
		profile->types.items[profile->types.count++] = added;
}

void profile_set_recorded_types(struct profile *profile)
{
	static const struct {
		const char *type, *unit;
	} types[PROFILE_RECORDED_TYPES] = {
		[PROFILE_SAMPLES] = {"samples", "count"},
		[PROFILE_CPU] = {"cpu", "nanoseconds"},
	};

	for (size_t i = 0; i < PROFILE_RECORDED_TYPES; i++)
		profile_add_type(profile, types[i].type, types[i].unit);
	if (profile->error)
		return;
	profile->period_type = profile->types.items[PROFILE_CPU];
	profile->default_type = profile->period_type.type;
}

void profile_add_comment(struct profile *profile, uint32_t string)
{
	if (RESERVE(profile, comments, 1))
		profile->comments.items[profile->comments.count++] = string;
}

void profile_comment(struct profile *profile, const char *format, ...)
{
	char text[COMMENT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	profile_add_comment(profile, profile_string(profile, text));
}

static size_t default_type(const struct profile *profile)
{
	for (size_t i = 0; profile->default_type && i < profile->types.count; i++) {
		if (profile->types.items[i].type == profile->default_type)
			return i;
	}
	return profile->types.count - 1;
}

int profile_find_type(const struct profile *profile, const char *name, size_t *index,
		      struct error *error)
{
	char types[256] = "";
	size_t used = 0;

	if (!name) {
		*index = default_type(profile);
		return 0;
	}
	for (size_t i = 0; i < profile->types.count; i++) {
		const char *type = profile_text(profile, profile->types.items[i].type);

		if (!strcmp(type, name)) {
			*index = i;
			return 0;
		}
		if (used < sizeof(types))
			used += (size_t)snprintf(types + used, sizeof(types) - used, "%s%s",
						 i ? ", " : "", type);
	}
	return error_set(error, EINVAL, "no sample type '%s' in the profile: it has %s", name,
			 types);
}

/* Mappings and functions */

static bool mapping_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile_mapping *a = &((const struct profile *)context)->mappings.items[index];
	const struct profile_mapping *b = key;

	return a->start == b->start && a->limit == b->limit && a->offset == b->offset &&
	       frame_place_equal(a->place, b->place) && a->file == b->file &&
	       a->build_id == b->build_id;
}

static uint32_t hash_mapping(const struct profile_mapping *mapping)
{
	uint32_t hash = hash_number(HASH_START, mapping->start);

	hash = hash_number(hash, mapping->limit);
	hash = hash_number(hash, mapping->offset);
	hash = hash_number(hash, (uint64_t)mapping->place.perf_map << 32 | mapping->place.segment);
	hash = hash_number(hash, mapping->place.part);
	return hash_number(hash, (uint64_t)mapping->file << 32 | mapping->build_id);
}

uint32_t profile_mapping(struct profile *profile, const struct profile_mapping *mapping)
{
	uint32_t hash = hash_mapping(mapping), index;

	index = hash_find(&profile->mapping_index, hash, mapping_equal, profile, mapping);
	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, mappings, 1))
		return 0;
	profile->mappings.items[profile->mappings.count] = *mapping;
	return index_entry(profile, &profile->mapping_index, hash, &profile->mappings.count);
}

void profile_set_mapping(struct profile *profile, uint32_t number,
			 const struct profile_mapping *mapping)
{
	struct profile_mapping *changed = &profile->mappings.items[number];

	if (profile->error)
		return;
	hash_remove(&profile->mapping_index, hash_mapping(changed), number);
	*changed = *mapping;
	/* There is room: an entry was removed. */
	hash_add(&profile->mapping_index, hash_mapping(changed), number);
}

static bool function_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile_function *a =
		&((const struct profile *)context)->functions.items[index];
	const struct profile_function *b = key;

	return a->name == b->name && a->system_name == b->system_name && a->file == b->file &&
	       a->start_line == b->start_line;
}

uint32_t profile_function(struct profile *profile, const struct profile_function *function)
{
	uint32_t hash, index;

	hash = hash_number(HASH_START, (uint64_t)function->name << 32 | function->system_name);
	hash = hash_number(hash_number(hash, function->file), (uint64_t)function->start_line);
	index = hash_find(&profile->function_index, hash, function_equal, profile, function);
	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, functions, 1))
		return 0;
	profile->functions.items[profile->functions.count] = *function;
	return index_entry(profile, &profile->function_index, hash, &profile->functions.count);
}

/* Locations */

struct location_key {
	uint64_t address;
	uint32_t mapping;
	const struct profile_line *lines;
	size_t count;
};

static bool location_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile *profile = context;
	const struct profile_location *location = &profile->locations.items[index];
	const struct profile_line *lines = profile_lines(profile, location);
	const struct location_key *wanted = key;

	if (location->address != wanted->address || location->mapping != wanted->mapping ||
	    location->line_count != wanted->count)
		return false;
	for (size_t i = 0; i < wanted->count; i++) {
		if (lines[i].function != wanted->lines[i].function ||
		    lines[i].line != wanted->lines[i].line ||
		    lines[i].column != wanted->lines[i].column)
			return false;
	}
	return true;
}

static uint32_t hash_location(const struct location_key *key)
{
	uint32_t hash = hash_number(hash_number(HASH_START, key->address), key->mapping);

	for (size_t i = 0; i < key->count; i++) {
		hash = hash_number(hash, key->lines[i].function);
		hash = hash_number(hash, (uint64_t)key->lines[i].line);
		hash = hash_number(hash, (uint64_t)key->lines[i].column);
	}
	return hash;
}

/* Appends lines. Returns the index of the first one. */
static uint32_t add_lines(struct profile *profile, const struct profile_line *lines, size_t count)
{
	uint32_t first = (uint32_t)profile->lines.count;

	if (count)
		memcpy(&profile->lines.items[first], lines, count * sizeof(*lines));
	profile->lines.count += count;
	return first;
}

uint32_t profile_location(struct profile *profile, uint32_t mapping, uint64_t address,
			  const struct profile_line *lines, size_t count)
{
	const struct location_key key = {address, mapping, lines, count};
	uint32_t hash = hash_location(&key);
	uint32_t index = hash_find(&profile->location_index, hash, location_equal, profile, &key);

	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, lines, count) || !RESERVE(profile, locations, 1))
		return 0;
	profile->locations.items[profile->locations.count] = (struct profile_location){
		.address = address,
		.mapping = mapping,
		.first_line = add_lines(profile, lines, count),
		.line_count = (uint32_t)count,
	};
	return index_entry(profile, &profile->location_index, hash, &profile->locations.count);
}

static uint32_t hash_of_location(const struct profile *profile,
				 const struct profile_location *location)
{
	const struct location_key key = {location->address, location->mapping,
					 profile_lines(profile, location), location->line_count};

	return hash_location(&key);
}

void profile_set_lines(struct profile *profile, uint32_t location, const struct profile_line *lines,
		       size_t count)
{
	struct profile_location *changed = &profile->locations.items[location];

	if (!RESERVE(profile, lines, count))
		return;
	hash_remove(&profile->location_index, hash_of_location(profile, changed), location);
	changed->first_line = add_lines(profile, lines, count);
	changed->line_count = (uint32_t)count;
	/* There is room: an entry was removed. */
	hash_add(&profile->location_index, hash_of_location(profile, changed), location);
}

void profile_move_location(struct profile *profile, uint32_t location, uint32_t mapping,
			   uint64_t address)
{
	struct profile_location *changed = &profile->locations.items[location];

	if (profile->error)
		return;
	hash_remove(&profile->location_index, hash_of_location(profile, changed), location);
	changed->mapping = mapping;
	changed->address = address;
	hash_add(&profile->location_index, hash_of_location(profile, changed), location);
}

/* Stacks and label sets */

struct sequence_key {
	const uint32_t *items;
	size_t count;
};

static bool sequence_equal(const struct profile_sequence *sequence, const uint32_t *items,
			   const struct sequence_key *key)
{
	return sequence->count == key->count &&
	       !memcmp(items + sequence->first, key->items, key->count * sizeof(*items));
}

static bool stack_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile *profile = context;

	return sequence_equal(&profile->stacks.items[index], profile->stack_locations.items, key);
}

static bool label_set_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile *profile = context;

	return sequence_equal(&profile->label_sets.items[index], profile->set_labels.items, key);
}

uint32_t profile_stack(struct profile *profile, const uint32_t *locations, size_t depth)
{
	const struct sequence_key key = {locations, depth};
	const size_t first = profile->stack_locations.count;
	uint32_t hash, index;

	if (!depth)
		return 0;
	hash = hash_numbers(HASH_START, locations, depth);
	index = hash_find(&profile->stack_index, hash, stack_equal, profile, &key);
	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, stack_locations, depth) || !RESERVE(profile, stacks, 1))
		return 0;
	memcpy(&profile->stack_locations.items[first], locations, depth * sizeof(*locations));
	profile->stack_locations.count += depth;
	profile->stacks.items[profile->stacks.count] =
		(struct profile_sequence){(uint32_t)first, (uint32_t)depth};
	return index_entry(profile, &profile->stack_index, hash, &profile->stacks.count);
}

static bool label_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile_label *a = &((const struct profile *)context)->labels.items[index];
	const struct profile_label *b = key;

	return a->key == b->key && a->text == b->text && a->number == b->number &&
	       a->unit == b->unit;
}

static uint32_t hash_label(const struct profile_label *label)
{
	uint32_t hash = hash_number(HASH_START, (uint64_t)label->key << 32 | label->text);

	return hash_number(hash_number(hash, (uint64_t)label->number), label->unit);
}

uint32_t profile_label(struct profile *profile, const struct profile_label *label)
{
	uint32_t hash = hash_label(label), index;

	index = hash_find(&profile->label_index, hash, label_equal, profile, label);
	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, labels, 1))
		return 0;
	profile->labels.items[profile->labels.count] = *label;
	return index_entry(profile, &profile->label_index, hash, &profile->labels.count);
}

void profile_set_label(struct profile *profile, uint32_t number, const struct profile_label *label)
{
	struct profile_label *changed = &profile->labels.items[number];

	if (profile->error)
		return;
	hash_remove(&profile->label_index, hash_label(changed), number);
	*changed = *label;
	/* There is room: an entry was removed. */
	hash_add(&profile->label_index, hash_label(changed), number);
}

uint32_t profile_label_set(struct profile *profile, const uint32_t *labels, size_t count)
{
	const struct sequence_key key = {labels, count};
	const size_t first = profile->set_labels.count;
	uint32_t hash, index;

	if (!count)
		return 0;
	hash = hash_bytes(HASH_START, labels, count * sizeof(*labels));
	index = hash_find(&profile->label_set_index, hash, label_set_equal, profile, &key);
	if (index != HASH_NONE)
		return index;
	if (!RESERVE(profile, set_labels, count) || !RESERVE(profile, label_sets, 1))
		return 0;
	memcpy(&profile->set_labels.items[first], labels, count * sizeof(*labels));
	profile->set_labels.count += count;
	profile->label_sets.items[profile->label_sets.count] =
		(struct profile_sequence){(uint32_t)first, (uint32_t)count};
	return index_entry(profile, &profile->label_set_index, hash, &profile->label_sets.count);
}

/* Samples */

struct sample_key {
	uint32_t stack, label_set;
};

static bool sum_overflows(const struct profile *profile, uint32_t sample, const int64_t *more)
{
	const int64_t *values = profile_values(profile, sample);
	int64_t sum;

	for (size_t i = 0; i < profile->types.count; i++) {
		if (__builtin_add_overflow(values[i], more[i], &sum))
			return true;
	}
	return false;
}

static bool sample_equal(const void *context, uint32_t index, const void *key)
{
	const struct profile_sample *sample =
		&((const struct profile *)context)->samples.items[index];
	const struct sample_key *wanted = key;

	return sample->stack == wanted->stack && sample->label_set == wanted->label_set;
}

uint32_t profile_add(struct profile *profile, uint32_t stack, uint32_t label_set,
		     const int64_t *values)
{
	const struct sample_key key = {stack, label_set};
	const size_t types = profile->types.count;
	uint32_t hash = hash_number(HASH_START, (uint64_t)stack << 32 | label_set);
	uint32_t index = hash_find(&profile->sample_index, hash, sample_equal, profile, &key);

	if (profile->error)
		return 0;
	if (index != HASH_NONE && !sum_overflows(profile, index, values)) {
		for (size_t i = 0; i < types; i++)
			profile->values.items[index * types + i] += values[i];
		return index;
	}
	if (!RESERVE(profile, samples, 1) || !RESERVE(profile, values, types))
		return 0;
	memcpy(&profile->values.items[profile->values.count], values, types * sizeof(*values));
	/* Later sums go to the new entry, so that a search meets one entry of a key at most. */
	if (index != HASH_NONE)
		hash_remove(&profile->sample_index, hash, index);
	profile->samples.items[profile->samples.count] = (struct profile_sample){stack, label_set};
	index = index_entry(profile, &profile->sample_index, hash, &profile->samples.count);
	if (!profile->error)
		profile->values.count += types;
	return index;
}

bool profile_reserve_moments(struct profile *profile, size_t count)
{
	if (!profile->moment_key) {
		profile->moment_key = profile_string(profile, PROFILE_MOMENT_KEY);
		profile->moment_unit = profile_string(profile, PROFILE_MOMENT_UNIT);
	}
	return RESERVE(profile, moments, count) &&
	       RESERVE(profile, moment_values, count * profile->types.count);
}

void profile_add_moment(struct profile *profile, uint32_t sample, int64_t time_ns,
			const int64_t *values)
{
	const size_t types = profile->types.count;

	if (!profile_reserve_moments(profile, 1))
		return;
	profile->moments.items[profile->moments.count++] = (struct profile_moment){time_ns, sample};
	memcpy(&profile->moment_values.items[profile->moment_values.count], values,
	       types * sizeof(*values));
	profile->moment_values.count += types;
}

void profile_move_moments(struct profile *profile, int64_t ns)
{
	for (size_t i = 0; i < profile->moments.count; i++)
		profile->moments.items[i].time_ns += ns;
}

size_t profile_longest_sequence(const struct profile *profile)
{
	size_t longest = 1;

	for (size_t i = 0; i < profile->stacks.count; i++)
		longest = MAX(longest, profile->stacks.items[i].count);
	for (size_t i = 0; i < profile->label_sets.count; i++)
		longest = MAX(longest, profile->label_sets.items[i].count);
	return longest;
}

#define TABLE_BYTES(table) ((table).capacity * sizeof(*(table).items))

size_t profile_moment_bytes(const struct profile *profile)
{
	return TABLE_BYTES(profile->moments) + TABLE_BYTES(profile->moment_values);
}

size_t profile_bytes(const struct profile *profile)
{
	size_t slots = profile->strings.index.capacity + profile->mapping_index.capacity +
		       profile->function_index.capacity + profile->location_index.capacity +
		       profile->stack_index.capacity + profile->label_index.capacity +
		       profile->label_set_index.capacity + profile->sample_index.capacity;

	return sizeof(*profile) + slots * HASH_SLOT_SIZE + profile->string_bytes +
	       TABLE_BYTES(profile->strings) + TABLE_BYTES(profile->types) +
	       TABLE_BYTES(profile->comments) + TABLE_BYTES(profile->mappings) +
	       TABLE_BYTES(profile->functions) + TABLE_BYTES(profile->lines) +
	       TABLE_BYTES(profile->locations) + TABLE_BYTES(profile->stack_locations) +
	       TABLE_BYTES(profile->stacks) + TABLE_BYTES(profile->labels) +
	       TABLE_BYTES(profile->set_labels) + TABLE_BYTES(profile->label_sets) +
	       TABLE_BYTES(profile->samples) + TABLE_BYTES(profile->values) +
	       profile_moment_bytes(profile);
}

// SPDX-License-Identifier: GPL-2.0
#include "pprof/profile_merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NO_SAMPLE UINT32_MAX

int profile_translation_init(struct profile_translation *translation, struct profile *into,
			     const struct profile *from)
{
	*translation = (struct profile_translation){.into = into, .from = from};
	translation->strings = calloc(from->strings.count, sizeof(uint32_t));
	translation->mappings = calloc(from->mappings.count, sizeof(uint32_t));
	translation->functions = calloc(from->functions.count, sizeof(uint32_t));
	translation->locations = calloc(from->locations.count, sizeof(uint32_t));
	translation->labels = calloc(from->labels.count, sizeof(uint32_t));
	if (from->moments.count) {
		translation->samples = calloc(from->samples.count, sizeof(uint32_t));
		if (!translation->samples)
			return -ENOMEM;
		memset(translation->samples, 0xff, from->samples.count * sizeof(uint32_t));
	}
	return translation->strings && translation->mappings && translation->functions &&
			       translation->locations && translation->labels
		       ? 0
		       : -ENOMEM;
}

void profile_translation_clear(struct profile_translation *translation)
{
	free(translation->strings);
	free(translation->mappings);
	free(translation->functions);
	free(translation->locations);
	free(translation->labels);
	free(translation->samples);
}

uint32_t profile_translate_string(struct profile_translation *translation, uint32_t string)
{
	uint32_t *number = &translation->strings[string];

	if (string && !*number)
		*number =
			profile_string(translation->into, profile_text(translation->from, string));
	return *number;
}

static uint32_t translate_mapping(struct profile_translation *translation, uint32_t mapping)
{
	uint32_t *number = &translation->mappings[mapping];
	struct profile_mapping copy;

	if (mapping && !*number) {
		copy = translation->from->mappings.items[mapping];
		copy.file = profile_translate_string(translation, copy.file);
		copy.build_id = profile_translate_string(translation, copy.build_id);
		*number = profile_mapping(translation->into, &copy);
	}
	return *number;
}

static uint32_t translate_function(struct profile_translation *translation, uint32_t function)
{
	uint32_t *number = &translation->functions[function];
	struct profile_function copy;

	if (function && !*number) {
		copy = translation->from->functions.items[function];
		copy.name = profile_translate_string(translation, copy.name);
		copy.system_name = profile_translate_string(translation, copy.system_name);
		copy.file = profile_translate_string(translation, copy.file);
		*number = profile_function(translation->into, &copy);
	}
	return *number;
}

static uint32_t copy_location(struct profile_translation *translation,
			      const struct profile_location *location)
{
	struct profile *into = translation->into;
	uint32_t mapping = translate_mapping(translation, location->mapping), number;
	struct profile_line *lines = NULL;

	if (location->line_count) {
		lines = malloc(location->line_count * sizeof(*lines));
		if (!lines) {
			into->error = -ENOMEM;
			return 0;
		}
		memcpy(lines, profile_lines(translation->from, location),
		       location->line_count * sizeof(*lines));
	}
	for (uint32_t i = 0; i < location->line_count; i++)
		lines[i].function = translate_function(translation, lines[i].function);
	number = profile_location(into, mapping, location->address, lines, location->line_count);
	free(lines);
	into->locations.items[number].is_folded |= location->is_folded && number;
	into->locations.items[number].elided |= location->elided && number;
	return number;
}

uint32_t profile_translate_location(struct profile_translation *translation, uint32_t location)
{
	uint32_t *number = &translation->locations[location];

	if (location && !*number)
		*number = copy_location(translation, &translation->from->locations.items[location]);
	return *number;
}

uint32_t profile_translate_label(struct profile_translation *translation, uint32_t label)
{
	uint32_t *number = &translation->labels[label];
	struct profile_label copy;

	if (label && !*number) {
		copy = translation->from->labels.items[label];
		copy.key = profile_translate_string(translation, copy.key);
		copy.text = profile_translate_string(translation, copy.text);
		copy.unit = profile_translate_string(translation, copy.unit);
		*number = profile_label(translation->into, &copy);
	}
	return *number;
}

void profile_translate_sample(struct profile_translation *translation, size_t sample,
			      uint32_t stack, uint32_t label_set)
{
	uint32_t number = profile_add(translation->into, stack, label_set,
				      profile_values(translation->from, sample));

	if (translation->samples)
		translation->samples[sample] = number;
}

void profile_translate_moments(struct profile_translation *translation)
{
	const struct profile *from = translation->from;

	if (!translation->samples)
		return;
	for (size_t i = 0; i < from->moments.count; i++) {
		const struct profile_moment *moment = &from->moments.items[i];

		if (translation->samples[moment->sample] != NO_SAMPLE)
			profile_add_moment(translation->into, translation->samples[moment->sample],
					   moment->time_ns, profile_moment_values(from, i));
	}
}

void profile_translate_first_mapping(struct profile_translation *translation)
{
	const struct profile *from = translation->from;
	uint32_t first = UINT32_MAX;

	for (size_t i = 1; i < from->locations.count; i++) {
		const uint32_t number = from->locations.items[i].mapping;
		const bool is_main = number && from->main_file &&
				     from->mappings.items[number].file == from->main_file;

		if (is_main || (number == 1 && first == UINT32_MAX))
			first = number;
		if (is_main)
			break;
	}
	if (first != UINT32_MAX)
		translate_mapping(translation, first);
}

void profile_translate_head(struct profile_translation *translation)
{
	const struct profile *from = translation->from;
	struct profile *into = translation->into;

	for (size_t i = 0; i < from->types.count; i++)
		profile_add_type(into, profile_text(from, from->types.items[i].type),
				 profile_text(from, from->types.items[i].unit));
	into->time_ns = from->time_ns;
	into->duration_ns = from->duration_ns;
	into->period = from->period;
	into->period_type.type = profile_translate_string(translation, from->period_type.type);
	into->period_type.unit = profile_translate_string(translation, from->period_type.unit);
	into->default_type = profile_translate_string(translation, from->default_type);
	into->drop_frames = profile_translate_string(translation, from->drop_frames);
	into->keep_frames = profile_translate_string(translation, from->keep_frames);
	into->doc_url = profile_translate_string(translation, from->doc_url);
	into->main_file = profile_translate_string(translation, from->main_file);
}

/* The numbers of stacks and label sets: `room` has space for the largest one. */
struct sequences {
	uint32_t *stacks, *label_sets, *room;
};

static uint32_t merge_sequence(struct profile_translation *translation, struct sequences *sequences,
			       const uint32_t *items, size_t count, bool is_stack)
{
	for (size_t i = 0; i < count; i++)
		sequences->room[i] = is_stack ? profile_translate_location(translation, items[i])
					      : profile_translate_label(translation, items[i]);
	return is_stack ? profile_stack(translation->into, sequences->room, count)
			: profile_label_set(translation->into, sequences->room, count);
}

static void merge_samples(struct profile_translation *translation, struct sequences *sequences)
{
	const struct profile *from = translation->from;

	for (size_t i = 0; i < from->samples.count; i++) {
		const struct profile_sample *sample = &from->samples.items[i];
		uint32_t *stack = &sequences->stacks[sample->stack];
		uint32_t *label_set = &sequences->label_sets[sample->label_set];

		if (!*stack)
			*stack = merge_sequence(translation, sequences,
						profile_stack_locations(from, sample->stack),
						from->stacks.items[sample->stack].count, true);
		if (!*label_set)
			*label_set = merge_sequence(
				translation, sequences, profile_set_labels(from, sample->label_set),
				from->label_sets.items[sample->label_set].count, false);
		profile_translate_sample(translation, i, *stack, *label_set);
	}
	profile_translate_moments(translation);
}

bool profile_has_types_of(const struct profile *a, const struct profile *b)
{
	if (a->types.count != b->types.count)
		return false;
	for (size_t i = 0; i < a->types.count; i++) {
		const struct profile_value_type *left = &a->types.items[i];
		const struct profile_value_type *right = &b->types.items[i];

		if (strcmp(profile_text(a, left->type), profile_text(b, right->type)) ||
		    strcmp(profile_text(a, left->unit), profile_text(b, right->unit)))
			return false;
	}
	return true;
}

int profile_merge(struct profile *into, const struct profile *from)
{
	struct sequences sequences = {
		.stacks = calloc(from->stacks.count, sizeof(uint32_t)),
		.label_sets = calloc(from->label_sets.count, sizeof(uint32_t)),
		.room = calloc(profile_longest_sequence(from), sizeof(uint32_t)),
	};
	struct profile_translation translation;
	int err = profile_translation_init(&translation, into, from);

	if (!sequences.stacks || !sequences.label_sets || !sequences.room)
		err = -ENOMEM;
	if (!err && !into->types.count) {
		profile_translate_head(&translation);
		profile_translate_first_mapping(&translation);
	}
	err = err ?: into->error;
	if (!err && !profile_has_types_of(into, from))
		err = -EINVAL;
	if (!err)
		merge_samples(&translation, &sequences);
	profile_translation_clear(&translation);
	free(sequences.stacks);
	free(sequences.label_sets);
	free(sequences.room);
	return err ?: into->error;
}

// SPDX-License-Identifier: GPL-2.0
#include "pprof/profile_reduce.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "pprof/profile.h"
#include "pprof/profile_merge.h"

/* Samples that stay whole, of those that may be left. */
#define WHOLE(max) ((max) - (max) / 8 - 1)

struct rank {
	int64_t value;
	size_t sample;
};

/* What remains of a merged sample. */
enum level {
	KEEP_LEAF,
	KEEP_NOTHING,
};

static int reduce_compare_ranks(const void *left, const void *right)
{
	const struct rank *a = left, *b = right;

	if (a->value != b->value)
		return a->value > b->value ? -1 : 1;
	/* The result does not depend on qsort(). */
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

/* The samples, the heaviest first; NULL without memory. */
static struct rank *rank_samples(const struct profile *profile)
{
	struct rank *ranks = calloc(profile->samples.count, sizeof(*ranks));
	size_t type = 0;

	/* Without a default type, the first one: all have the same order in practice. */
	if (profile_find_type(profile, NULL, &type, NULL))
		type = 0;
	for (size_t i = 0; ranks && i < profile->samples.count; i++)
		ranks[i] = (struct rank){profile_values(profile, i)[type], i};
	if (ranks)
		qsort(ranks, profile->samples.count, sizeof(*ranks), reduce_compare_ranks);
	return ranks;
}

static uint32_t reduce_merged_location(struct profile *into)
{
	const uint32_t name = profile_string(into, REDUCED_NAME);
	const struct profile_function function = {.name = name, .system_name = name};
	const struct profile_line line = {.function = profile_function(into, &function)};

	return profile_location(into, 0, 0, &line, 1);
}

static void add_whole(struct profile_translation *translation, size_t sample, uint32_t *room)
{
	const struct profile *from = translation->from;
	const struct profile_sample *found = &from->samples.items[sample];
	const uint32_t depth = from->stacks.items[found->stack].count;
	const uint32_t *locations = profile_stack_locations(from, found->stack);
	const uint32_t count = from->label_sets.items[found->label_set].count;
	const uint32_t *labels = profile_set_labels(from, found->label_set);
	uint32_t stack;

	for (uint32_t i = 0; i < depth; i++)
		room[i] = profile_translate_location(translation, locations[i]);
	stack = profile_stack(translation->into, room, depth);
	for (uint32_t i = 0; i < count; i++)
		room[i] = profile_translate_label(translation, labels[i]);
	profile_add(translation->into, stack, profile_label_set(translation->into, room, count),
		    profile_values(from, sample));
}

static void add_merged(struct profile_translation *translation, size_t sample, enum level level,
		       uint32_t *room)
{
	const struct profile *from = translation->from;
	const struct profile_sample *found = &from->samples.items[sample];
	uint32_t stack[2], depth = 0, count = 0;
	const uint32_t *labels = profile_set_labels(from, found->label_set);

	if (level == KEEP_LEAF) {
		if (from->stacks.items[found->stack].count)
			stack[depth++] = profile_translate_location(
				translation, *profile_stack_locations(from, found->stack));
		count = from->label_sets.items[found->label_set].count;
		for (uint32_t i = 0; i < count; i++)
			room[i] = profile_translate_label(translation, labels[i]);
	}
	stack[depth++] = reduce_merged_location(translation->into);
	profile_add(translation->into, profile_stack(translation->into, stack, depth),
		    profile_label_set(translation->into, room, count),
		    profile_values(from, sample));
}

static int reduce_fill(struct profile *into, const struct profile *from, const struct rank *ranks,
		       size_t whole, enum level level)
{
	uint32_t *room = calloc(profile_longest_sequence(from), sizeof(*room));
	struct profile_translation translation;
	int err = profile_translation_init(&translation, into, from);

	if (!room)
		err = -ENOMEM;
	if (!err) {
		profile_translate_head(&translation);
		profile_translate_first_mapping(&translation);
		for (size_t i = 0; i < from->samples.count; i++) {
			if (i < whole)
				add_whole(&translation, ranks[i].sample, room);
			else
				add_merged(&translation, ranks[i].sample, level, room);
		}
		profile_comment(into, "merged for the limits of a server: %zu samples",
				from->samples.count - whole);
		err = into->error;
	}
	profile_translation_clear(&translation);
	free(room);
	return err;
}

int profile_reduce(const struct profile *profile, size_t max, struct profile **into)
{
	struct rank *ranks;
	int err = 0;

	*into = NULL;
	if (profile->samples.count <= max)
		return 0;
	ranks = rank_samples(profile);
	if (!ranks)
		return -ENOMEM;
	for (enum level level = KEEP_LEAF; level <= KEEP_NOTHING; level++) {
		*into = profile_new();
		err = *into ? reduce_fill(*into, profile, ranks, WHOLE(max), level) : -ENOMEM;
		if (err || (*into)->samples.count <= max)
			break;
		profile_free(*into);
		*into = NULL;
	}
	free(ranks);
	if (err) {
		profile_free(*into);
		*into = NULL;
	}
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/normalize.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/kernel_image.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "pprof/truncation.h"
#include "symbolize/go_creators.h"
#include "symbolize/stack_roots.h"

#define UNKNOWN UINT32_MAX

/* A stack of the old profile. */
struct stack_state {
	uint32_t stack; /* in the new profile, or UNKNOWN */
	uint32_t user_frames; /* up to the root */
	uint32_t unmapped; /* of those, outside all mappings */
	bool complete; /* it has a root */
};

/* A label set of the old profile. */
struct label_state {
	uint32_t label_set; /* in the new profile, or UNKNOWN */
	uint32_t without; /* as `label_set`, without the label of truncated stacks */
	bool has_label;
	enum truncation cause;
};

struct normalizer {
	struct profile *old, *result;
	struct profile_translation translation;
	struct root_frame *roots; /* of each location */
	bool *kernel; /* each location: in the kernel */
	struct stack_state *stacks;
	struct label_state *label_sets;
	struct root_frame *frames; /* of one stack */
	uint32_t *items; /* locations or labels of one sample */
	struct truncation_counts *counts;
	bool drop_label; /* always remove the label of truncated stacks */
	bool has_label; /* a sample has the label of truncated stacks */
};

/*
 * All generated code is in one mapping, and build IDs distinguish files. Files without build IDs
 * stay distinct: a later symbolization can't know which of them has a path.
 */
static void merge_places(struct profile *profile)
{
	for (size_t i = 1; i < profile->mappings.count; i++) {
		struct profile_mapping *mapping = &profile->mappings.items[i];

		if (mapping->build_id || !strcmp(profile_text(profile, mapping->file), "[anon]"))
			mapping->place = (struct frame_place){0};
	}
}

static void normalizer_describe_locations(struct normalizer *normalizer)
{
	const struct profile *profile = normalizer->old;

	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const uint32_t count = location->line_count;
		struct root_frame *root = &normalizer->roots[i];
		uint32_t function;

		root->path = profile_text(profile, profile->mappings.items[location->mapping].file);
		normalizer->kernel[i] = is_kernel_mapping(root->path, location->address);
		if (!count)
			continue;
		function = profile_lines(profile, location)[count - 1].function;
		root->system_name =
			profile_text(profile, profile->functions.items[function].system_name);
	}
}

/* Stacks */

/* Returns the number of frames up to the root; *complete is set if there is a root. */
static uint32_t stack_depth(struct normalizer *normalizer, const uint32_t *locations,
			    uint32_t depth, bool *complete)
{
	uint32_t kernel = 0;
	size_t own;

	while (kernel < depth && normalizer->kernel[locations[kernel]])
		kernel++;
	for (uint32_t i = kernel; i < depth; i++)
		normalizer->frames[i - kernel] = normalizer->roots[locations[i]];
	own = stack_root_depth(normalizer->frames, depth - kernel);
	*complete = own > 0;
	return own ? kernel + (uint32_t)own : depth;
}

static void normalize_stack(struct normalizer *normalizer, uint32_t stack)
{
	const struct profile *profile = normalizer->old;
	const uint32_t *locations = profile_stack_locations(profile, stack);
	struct stack_state *state = &normalizer->stacks[stack];
	uint32_t depth = stack_depth(normalizer, locations, profile->stacks.items[stack].count,
				     &state->complete);
	size_t kept = 0;

	for (uint32_t i = 0; i < depth; i++) {
		const struct profile_location *location = &profile->locations.items[locations[i]];

		if (!normalizer->kernel[locations[i]]) {
			state->user_frames++;
			state->unmapped += !location->mapping;
		}
		if (!location->elided)
			normalizer->items[kept++] =
				profile_translate_location(&normalizer->translation, locations[i]);
	}
	/* pprof drops samples without locations: show an elided frame instead. */
	if (!kept && depth)
		normalizer->items[kept++] =
			profile_translate_location(&normalizer->translation, locations[0]);
	state->stack = profile_stack(normalizer->result, normalizer->items, kept);
}

/* Labels */

static void find_label(const struct normalizer *normalizer, uint32_t label_set)
{
	const struct profile *profile = normalizer->old;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	struct label_state *state = &normalizer->label_sets[label_set];

	state->cause = TRUNCATED_NOT;
	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (strcmp(profile_text(profile, label->key), LABEL_TRUNCATED_KEY))
			continue;
		state->has_label = true;
		state->cause = truncation_by_name(profile_text(profile, label->text));
		return;
	}
}

static uint32_t normalize_label(struct normalizer *normalizer, uint32_t label)
{
	struct profile_label creator = {0};

	if (!label_is_go_creator_location(normalizer->old, label))
		return profile_translate_label(&normalizer->translation, label);
	creator.key = profile_string(normalizer->result, LABEL_GO_CREATOR_KEY);
	creator.text = go_creators_text(normalizer->result, normalizer->old, label);
	return profile_label(normalizer->result, &creator);
}

static uint32_t normalize_labels(struct normalizer *normalizer, uint32_t label_set,
				 bool with_truncated)
{
	const struct profile *profile = normalizer->old;
	const uint32_t *labels = profile_set_labels(profile, label_set);
	size_t kept = 0;

	for (uint32_t i = 0; i < profile->label_sets.items[label_set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];

		if (with_truncated ||
		    strcmp(profile_text(profile, label->key), LABEL_TRUNCATED_KEY))
			normalizer->items[kept++] = normalize_label(normalizer, labels[i]);
	}
	return profile_label_set(normalizer->result, normalizer->items, kept);
}

/* Returns the new label set of a sample, and counts its `samples` if it is truncated. */
static uint32_t update_labels(struct normalizer *normalizer, uint32_t label_set, bool complete,
			      uint64_t samples)
{
	struct label_state *state = &normalizer->label_sets[label_set];
	bool truncated;
	uint32_t *known;

	if (state->label_set == UNKNOWN && state->without == UNKNOWN)
		find_label(normalizer, label_set);
	normalizer->has_label |= state->has_label;
	truncated = state->has_label && (!complete || state->cause == TRUNCATED_KERNEL);
	if (truncated && state->cause != TRUNCATED_NOT)
		normalizer->counts->samples[state->cause] += samples;
	known = truncated && !normalizer->drop_label ? &state->label_set : &state->without;
	if (*known == UNKNOWN)
		*known = normalize_labels(normalizer, label_set, known == &state->label_set);
	return *known;
}

static void normalize_sample(struct normalizer *normalizer, size_t index)
{
	const struct profile_sample *sample = &normalizer->old->samples.items[index];
	const int64_t *values = profile_values(normalizer->old, index);
	const uint64_t samples = (uint64_t)values[PROFILE_SAMPLES];
	struct stack_state *state = &normalizer->stacks[sample->stack];
	uint32_t label_set;

	if (state->stack == UNKNOWN)
		normalize_stack(normalizer, sample->stack);
	normalizer->counts->user_frames += samples * state->user_frames;
	normalizer->counts->unmapped += samples * state->unmapped;
	label_set = update_labels(normalizer, sample->label_set, state->complete, samples);
	profile_translate_sample(&normalizer->translation, index, state->stack, label_set);
}

/* Comments */

static bool comment_has_prefix(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

static void normalizer_copy_comments(struct normalizer *normalizer)
{
	const struct profile *profile = normalizer->old;
	char truncated[TRUNCATION_COMMENT_SIZE], frames[TRUNCATION_COMMENT_SIZE];

	truncation_comment(normalizer->counts, truncated);
	frames_comment(normalizer->counts, frames);
	for (size_t i = 0; i < profile->comments.count; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);

		/* Without labels, the comment keeps the counts of the kernel. */
		if (normalizer->has_label && comment_has_prefix(text, TRUNCATED_COMMENT))
			text = truncated;
		else if (comment_has_prefix(text, FRAMES_COMMENT))
			text = frames;
		profile_add_comment(normalizer->result, profile_string(normalizer->result, text));
	}
}

static int normalizer_prepare(struct normalizer *normalizer)
{
	const struct profile *profile = normalizer->old;
	size_t longest = profile_longest_sequence(profile);
	int err = -ENOMEM;

	normalizer->result = profile_new();
	if (normalizer->result)
		err = profile_translation_init(&normalizer->translation, normalizer->result,
					       profile);
	normalizer->roots = calloc(profile->locations.count, sizeof(*normalizer->roots));
	normalizer->kernel = calloc(profile->locations.count, sizeof(*normalizer->kernel));
	normalizer->stacks = calloc(profile->stacks.count, sizeof(*normalizer->stacks));
	normalizer->label_sets = calloc(profile->label_sets.count, sizeof(*normalizer->label_sets));
	normalizer->frames = calloc(longest, sizeof(*normalizer->frames));
	normalizer->items = calloc(longest, sizeof(*normalizer->items));
	if (err || !normalizer->roots || !normalizer->kernel || !normalizer->stacks ||
	    !normalizer->label_sets || !normalizer->frames || !normalizer->items)
		return -ENOMEM;
	for (size_t i = 0; i < profile->stacks.count; i++)
		normalizer->stacks[i].stack = UNKNOWN;
	for (size_t i = 0; i < profile->label_sets.count; i++) {
		normalizer->label_sets[i].label_set = UNKNOWN;
		normalizer->label_sets[i].without = UNKNOWN;
	}
	return 0;
}

int normalize_profile(struct profile *profile, bool drop_label, struct truncation_counts *counts)
{
	struct normalizer normalizer = {.old = profile, .drop_label = drop_label, .counts = counts};
	int err = normalizer_prepare(&normalizer);

	*counts = (struct truncation_counts){0};
	if (!err) {
		merge_places(profile);
		normalizer_describe_locations(&normalizer);
		profile_translate_head(&normalizer.translation);
		profile_translate_first_mapping(&normalizer.translation);
		for (size_t i = 0; i < profile->samples.count; i++)
			normalize_sample(&normalizer, i);
		profile_translate_moments(&normalizer.translation);
		normalizer_copy_comments(&normalizer);
		err = normalizer.result->error;
	}
	if (!err)
		profile_swap(profile, normalizer.result);
	profile_translation_clear(&normalizer.translation);
	free(normalizer.roots);
	free(normalizer.kernel);
	free(normalizer.stacks);
	free(normalizer.label_sets);
	free(normalizer.frames);
	free(normalizer.items);
	profile_free(normalizer.result);
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/go_runtime.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/kernel_image.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"

#define HIDDEN_COMMENT "functions of Go's runtime at the leaf end of stacks: left out"

/* A location of the old profile. */
struct hiding_place {
	bool is_callee; /* in the kernel or in the vDSO */
	bool is_runtime; /* its code is the runtime's */
	uint32_t
		without; /* the location without inlined functions of the runtime; 0: it has none */
};

struct hiding {
	struct profile *old, *result;
	struct profile_translation translation;
	struct hiding_place *places; /* of each location */
	uint32_t *items; /* locations or labels of one sample */
};

bool go_runtime_has(const char *system_name)
{
	static const char *const packages[] = {"runtime.", "internal/runtime/",
					       "runtime/internal/"};

	for (size_t i = 0; i < sizeof(packages) / sizeof(packages[0]); i++) {
		if (!strncmp(system_name, packages[i], strlen(packages[i])))
			return true;
	}
	/* Functions of its assembly that have no package. */
	return !strcmp(system_name, "aeshashbody") || !strcmp(system_name, "gcWriteBarrier");
}

/*
 * Returns the number of functions at a location that are the runtime's, or are inlined in one of
 * the runtime: helpers of other packages.
 */
static uint32_t count_runtime(const struct profile *profile,
			      const struct profile_location *location)
{
	const struct profile_line *lines = profile_lines(profile, location);
	uint32_t count = location->line_count;

	while (count) {
		const struct profile_function *function =
			&profile->functions.items[lines[count - 1].function];

		if (go_runtime_has(profile_text(profile, function->system_name)))
			break;
		count--;
	}
	return count;
}

/* Adds a location without its first `count` functions. Returns its number, or 0 without memory. */
static uint32_t add_without(struct profile *profile, uint32_t number, uint32_t count)
{
	const struct profile_location location = profile->locations.items[number];
	const uint32_t left = location.line_count - count;
	struct profile_line *lines = calloc(left, sizeof(*lines));
	uint32_t without;

	if (!lines) {
		profile->error = -ENOMEM;
		return 0;
	}
	memcpy(lines, profile_lines(profile, &location) + count, left * sizeof(*lines));
	without = profile_location(profile, location.mapping, location.address, lines, left);
	free(lines);
	if (without)
		profile->locations.items[without].is_folded |= location.is_folded;
	return without;
}

/* Returns 0 or -ENOMEM. */
static int describe_places(struct hiding *hiding)
{
	struct profile *profile = hiding->old;
	const size_t count = profile->locations.count;

	hiding->places = calloc(count, sizeof(*hiding->places));
	if (!hiding->places)
		return -ENOMEM;
	for (size_t i = 1; i < count; i++) {
		const struct profile_location *location = &profile->locations.items[i];
		const char *path =
			profile_text(profile, profile->mappings.items[location->mapping].file);
		const uint32_t runtime = count_runtime(profile, location);
		struct hiding_place *place = &hiding->places[i];

		place->is_callee =
			is_kernel_mapping(path, location->address) || !strcmp(path, "[vdso]");
		place->is_runtime = runtime && runtime == location->line_count;
		if (runtime && !place->is_runtime)
			place->without = add_without(profile, (uint32_t)i, runtime);
	}
	return profile->error;
}

static uint32_t translate_stack(struct hiding *hiding, uint32_t stack)
{
	const uint32_t *locations = profile_stack_locations(hiding->old, stack);
	const uint32_t count = hiding->old->stacks.items[stack].count;
	uint32_t callees = 0, first, kept = 0;

	while (callees < count && hiding->places[locations[callees]].is_callee)
		callees++;
	first = callees;
	while (first < count && hiding->places[locations[first]].is_runtime)
		first++;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t location = locations[i];

		if (first < count && i >= callees && i < first)
			continue;
		if (i == first && hiding->places[location].without)
			location = hiding->places[location].without;
		hiding->items[kept++] = profile_translate_location(&hiding->translation, location);
	}
	return profile_stack(hiding->result, hiding->items, kept);
}

static uint32_t translate_labels(struct hiding *hiding, uint32_t label_set)
{
	const uint32_t *labels = profile_set_labels(hiding->old, label_set);
	const uint32_t count = hiding->old->label_sets.items[label_set].count;

	for (uint32_t i = 0; i < count; i++)
		hiding->items[i] = profile_translate_label(&hiding->translation, labels[i]);
	return profile_label_set(hiding->result, hiding->items, count);
}

static void hiding_copy_comments(struct hiding *hiding)
{
	const struct profile *profile = hiding->old;
	bool is_said = false;

	for (size_t i = 0; i < profile->comments.count; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);

		is_said |= !strcmp(text, HIDDEN_COMMENT);
		profile_add_comment(hiding->result, profile_string(hiding->result, text));
	}
	if (!is_said)
		profile_comment(hiding->result, "%s", HIDDEN_COMMENT);
}

int go_runtime_hide(struct profile *profile)
{
	struct hiding hiding = {.old = profile, .result = profile_new()};
	int err = hiding.result ? describe_places(&hiding) : -ENOMEM;

	/* Not before, as that has added locations. */
	if (!err)
		err = profile_translation_init(&hiding.translation, hiding.result, profile);
	hiding.items = calloc(profile_longest_sequence(profile), sizeof(*hiding.items));
	if (!hiding.items)
		err = -ENOMEM;
	if (!err) {
		profile_translate_head(&hiding.translation);
		profile_translate_first_mapping(&hiding.translation);
		for (size_t i = 0; i < profile->samples.count; i++) {
			const struct profile_sample *sample = &profile->samples.items[i];
			const uint32_t stack = translate_stack(&hiding, sample->stack);

			profile_translate_sample(&hiding.translation, i, stack,
						 translate_labels(&hiding, sample->label_set));
		}
		profile_translate_moments(&hiding.translation);
		hiding_copy_comments(&hiding);
		err = hiding.result->error;
	}
	if (!err)
		profile_swap(profile, hiding.result);
	profile_translation_clear(&hiding.translation);
	free(hiding.places);
	free(hiding.items);
	profile_free(hiding.result);
	return err;
}

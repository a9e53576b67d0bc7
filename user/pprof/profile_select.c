// SPDX-License-Identifier: GPL-2.0
#include "pprof/profile_select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof/labels.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "pprof/service.h"

static bool cgroup_is_below(const char *path, const char *group)
{
	size_t length = strlen(group);

	while (length && group[length - 1] == '/')
		length--;
	return !strncmp(path, group, length) && (!path[length] || path[length] == '/');
}

static bool matches_label(const struct profile *profile, const struct profile_label *label,
			  enum label kind, const struct profile_selection *selection)
{
	const char *text = profile_text(profile, label->text);

	if (kind == LABEL_CONTAINER)
		return selection->container && !strcmp(text, selection->container);
	if (kind == LABEL_CGROUP)
		return selection->cgroup && cgroup_is_below(text, selection->cgroup);
	return kind == LABEL_PID && selection->pid && label->number == selection->pid;
}

static bool is_selected(const struct profile *profile, size_t sample,
			const struct profile_selection *selection)
{
	uint32_t set = profile->samples.items[sample].label_set, found = 0;
	uint32_t wanted = (selection->container ? LABEL_SET(LABEL_CONTAINER) : 0) |
			  (selection->cgroup ? LABEL_SET(LABEL_CGROUP) : 0) |
			  (selection->pid ? LABEL_SET(LABEL_PID) : 0);
	const uint32_t *labels = profile_set_labels(profile, set);

	for (uint32_t i = 0; wanted && i < profile->label_sets.items[set].count; i++) {
		const struct profile_label *label = &profile->labels.items[labels[i]];
		enum label kind = label_of_key(profile_text(profile, label->key));

		if (matches_label(profile, label, kind, selection))
			found |= LABEL_SET(kind);
	}
	if (found != wanted || !selection->service)
		return found == wanted;
	return !strcmp(selection->services ? selection->services[sample]
					   : service_of(profile, sample),
		       selection->service);
}

static bool keeps_label(const struct profile *profile, uint32_t number, uint32_t chosen)
{
	const struct profile_label *label = &profile->labels.items[number];
	enum label kind = label_choice(profile_text(profile, label->key));

	return kind >= LABEL_COUNT || (chosen & LABEL_SET(kind));
}

/* A location without lines, but with its mapping. */
static uint32_t strip_location(struct profile_translation *translation, uint32_t number)
{
	const struct profile_location *location = &translation->from->locations.items[number];
	struct profile *into = translation->into;
	struct profile_mapping mapping;
	uint32_t mapping_number = 0;

	if (location->mapping) {
		mapping = translation->from->mappings.items[location->mapping];
		mapping.file = profile_translate_string(translation, mapping.file);
		mapping.build_id = profile_translate_string(translation, mapping.build_id);
		mapping_number = profile_mapping(into, &mapping);
	}
	return profile_location(into, mapping_number, location->address, NULL, 0);
}

static void select_add_sample(struct profile_translation *translation, size_t sample,
			      const struct profile_selection *selection, uint32_t *room)
{
	const struct profile *from = translation->from;
	const struct profile_sample *found = &from->samples.items[sample];
	const uint32_t *items = profile_stack_locations(from, found->stack);
	uint32_t depth = from->stacks.items[found->stack].count, stack, count = 0;

	for (uint32_t i = 0; i < depth; i++)
		room[i] = selection->without_symbols
				  ? strip_location(translation, items[i])
				  : profile_translate_location(translation, items[i]);
	stack = profile_stack(translation->into, room, depth);
	items = profile_set_labels(from, found->label_set);
	for (uint32_t i = 0; i < from->label_sets.items[found->label_set].count; i++) {
		if (keeps_label(from, items[i], selection->labels))
			room[count++] = profile_translate_label(translation, items[i]);
	}
	profile_translate_sample(translation, sample, stack,
				 profile_label_set(translation->into, room, count));
}

int profile_select(struct profile *into, const struct profile *from,
		   const struct profile_selection *selection)
{
	uint32_t *room = calloc(profile_longest_sequence(from), sizeof(*room));
	struct profile_translation translation;
	int err = profile_translation_init(&translation, into, from);

	if (!room)
		err = -ENOMEM;
	if (!err && !into->types.count)
		profile_translate_head(&translation);
	err = err ?: into->error;
	if (!err && !profile_has_types_of(into, from))
		err = -EINVAL;
	for (size_t i = 0; i < from->samples.count && !err; i++) {
		if (is_selected(from, i, selection))
			select_add_sample(&translation, i, selection, room);
	}
	if (!err)
		profile_translate_moments(&translation);
	profile_translation_clear(&translation);
	free(room);
	return err ?: into->error;
}

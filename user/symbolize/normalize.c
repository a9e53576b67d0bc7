// SPDX-License-Identifier: GPL-2.0
#include "symbolize/normalize.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/kernel_image.h"
#include "lib/hash.h"
#include "pprof/labels.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/truncation.h"
#include "symbolize/stack_roots.h"
#include "symbolize/symbolizer.h"

#define OWN_PREFIX "stackbeat "

typedef Perftools__Profiles__Profile Message;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Label Label;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Function Function;

struct normalizer {
	const struct pprof_profile *profile;
	Message *message;
	const bool *elided;
	struct frame_name *names; /* of each location; only what stack_root_depth() needs */
	bool *kernel; /* each location: in the kernel */
	const struct frame_name **frames; /* of the current stack */
	size_t depth; /* frames of the deepest stack */
	struct truncation_counts truncated;
	bool has_label; /* a sample has the label of truncated stacks */
	struct hash samples;
};

bool normalize_is_own(const struct pprof_profile *profile)
{
	const Message *message = profile->message;

	return message->n_comment > 0 && !strncmp(pprof_string_at(profile, message->comment[0]),
						  OWN_PREFIX, strlen(OWN_PREFIX));
}

bool normalize_release(const struct pprof_profile *profile, char release[NORMALIZE_RELEASE_SIZE])
{
	/* stackbeat VERSION on Linux RELEASE MACHINE. The release becomes a part of a path. */
	if (normalize_is_own(profile) &&
	    sscanf(pprof_string_at(profile, profile->message->comment[0]),
		   OWN_PREFIX "%*s on %*s %127[^/ ]", release) == 1)
		return true;
	*release = '\0';
	return false;
}

static void describe_locations(struct normalizer *normalizer)
{
	const Message *message = normalizer->message;

	for (size_t i = 0; i < message->n_location; i++) {
		const Location *location = message->location[i];
		struct frame_name *name = &normalizer->names[i];
		const Function *function;

		name->mapping_path = "";
		if (location->mapping_id)
			name->mapping_path = pprof_string_at(
				normalizer->profile,
				message->mapping[location->mapping_id - 1]->filename);
		normalizer->kernel[i] = is_kernel_mapping(name->mapping_path, location->address);
		if (!location->n_line)
			continue;
		function = message->function[location->line[location->n_line - 1]->function_id - 1];
		name->system_name = pprof_string_at(normalizer->profile, function->system_name);
		name->resolved = true;
	}
}

/* Samples */

static size_t kernel_frames(const struct normalizer *normalizer, const Sample *sample)
{
	size_t count = 0;

	while (count < sample->n_location_id && normalizer->kernel[sample->location_id[count] - 1])
		count++;
	return count;
}

/* Returns the number of frames up to the root; *complete is set if there is a root. */
static size_t stack_depth(struct normalizer *normalizer, const Sample *sample, bool *complete)
{
	size_t kernel = kernel_frames(normalizer, sample), user = sample->n_location_id - kernel;
	size_t own;

	for (size_t i = 0; i < user; i++)
		normalizer->frames[i] = &normalizer->names[sample->location_id[kernel + i] - 1];
	/* The profile has the stop at most as a label, so the frames alone decide here. */
	own = stack_root_depth(normalizer->frames, user, STACKBEAT_STOP_BAD_FRAME);
	*complete = own > 0;
	return own ? kernel + own : sample->n_location_id;
}

static void remove_label(Sample *sample, size_t index)
{
	perftools__profiles__label__free_unpacked(sample->label[index], NULL);
	memmove(&sample->label[index], &sample->label[index + 1],
		(--sample->n_label - index) * sizeof(*sample->label));
}

/* Removes the label from a stack that is complete after all, and counts the others. */
static void update_label(struct normalizer *normalizer, Sample *sample, bool complete)
{
	for (size_t i = 0; i < sample->n_label; i++) {
		const Label *label = sample->label[i];
		enum truncation cause;

		if (strcmp(pprof_string_at(normalizer->profile, label->key), LABEL_TRUNCATED_KEY))
			continue;
		normalizer->has_label = true;
		cause = truncation_by_name(pprof_string_at(normalizer->profile, label->str));
		if (complete && cause != TRUNCATED_KERNEL)
			remove_label(sample, i);
		else if (cause != TRUNCATED_NOT)
			normalizer->truncated.samples[cause] += (uint64_t)sample->value[0];
		return;
	}
}

static void normalize_sample(struct normalizer *normalizer, Sample *sample)
{
	bool complete;
	size_t count = stack_depth(normalizer, sample, &complete), kept = 0;

	update_label(normalizer, sample, complete);
	for (size_t i = 0; i < count; i++) {
		uint64_t id = sample->location_id[i];

		if (!normalizer->kernel[id - 1]) {
			normalizer->truncated.user_frames += (uint64_t)sample->value[0];
			if (!normalizer->message->location[id - 1]->mapping_id)
				normalizer->truncated.unmapped += (uint64_t)sample->value[0];
		}
		if (!normalizer->elided[id - 1])
			sample->location_id[kept++] = id;
	}
	/* pprof drops samples without locations: show an elided frame instead. */
	sample->n_location_id = kept || !count ? kept : 1;
}

static uint32_t sample_hash(const Sample *sample)
{
	uint32_t hash = hash_number(HASH_START, sample->n_label);

	if (sample->n_location_id)
		hash = hash_bytes(hash, sample->location_id,
				  sample->n_location_id * sizeof(*sample->location_id));
	for (size_t i = 0; i < sample->n_label; i++) {
		hash = hash_number(hash, (uint64_t)sample->label[i]->key);
		hash = hash_number(hash, (uint64_t)sample->label[i]->str);
		hash = hash_number(hash, (uint64_t)sample->label[i]->num);
	}
	return hash;
}

static bool is_same_sample(const void *context, uint32_t index, const void *key)
{
	const Sample *a = ((const Message *)context)->sample[index], *b = key;

	if (a->n_location_id != b->n_location_id || a->n_label != b->n_label ||
	    (a->n_location_id &&
	     memcmp(a->location_id, b->location_id, a->n_location_id * sizeof(*a->location_id))))
		return false;
	for (size_t i = 0; i < a->n_label; i++) {
		const Label *x = a->label[i], *y = b->label[i];

		if (x->key != y->key || x->str != y->str || x->num != y->num ||
		    x->num_unit != y->num_unit)
			return false;
	}
	return true;
}

/* Returns false, with nothing changed, if a sum overflows. */
static bool add_values(Sample *sample, const Sample *more)
{
	int64_t sum;

	for (size_t i = 0; i < sample->n_value; i++) {
		if (__builtin_add_overflow(sample->value[i], more->value[i], &sum))
			return false;
	}
	for (size_t i = 0; i < sample->n_value; i++)
		sample->value[i] += more->value[i];
	return true;
}

static int merge_samples(struct normalizer *normalizer)
{
	Message *message = normalizer->message;
	size_t count = message->n_sample;
	int err = 0;

	message->n_sample = 0;
	for (size_t i = 0; i < count; i++) {
		Sample *sample = message->sample[i];
		uint32_t hash = sample_hash(sample), index = HASH_NONE;

		if (!err)
			index = hash_find(&normalizer->samples, hash, is_same_sample, message,
					  sample);
		if (index != HASH_NONE && add_values(message->sample[index], sample)) {
			perftools__profiles__sample__free_unpacked(sample, NULL);
			continue;
		}
		if (!err && index == HASH_NONE)
			err = hash_add(&normalizer->samples, hash, message->n_sample);
		message->sample[message->n_sample++] = sample;
	}
	return err;
}

/* Unreferenced entries */

/* Replaces the marks in `ids` by IDs from 1; unmarked entries stay 0. */
static void renumber(uint64_t *ids, size_t count)
{
	uint64_t next = 0;

	for (size_t i = 0; i < count; i++)
		ids[i] = ids[i] ? ++next : 0;
}

static void remove_locations(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_sample; i++) {
		for (size_t j = 0; j < message->sample[i]->n_location_id; j++)
			ids[message->sample[i]->location_id[j] - 1] = 1;
	}
	renumber(ids, message->n_location);
	for (size_t i = 0; i < message->n_sample; i++) {
		for (size_t j = 0; j < message->sample[i]->n_location_id; j++)
			message->sample[i]->location_id[j] =
				ids[message->sample[i]->location_id[j] - 1];
	}
	for (size_t i = 0; i < message->n_location; i++) {
		Location *location = message->location[i];

		if (!ids[i]) {
			perftools__profiles__location__free_unpacked(location, NULL);
			continue;
		}
		location->id = ids[i];
		message->location[kept++] = location;
	}
	message->n_location = kept;
}

static void remove_mappings(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_location; i++) {
		if (message->location[i]->mapping_id)
			ids[message->location[i]->mapping_id - 1] = 1;
	}
	renumber(ids, message->n_mapping);
	for (size_t i = 0; i < message->n_location; i++) {
		if (message->location[i]->mapping_id)
			message->location[i]->mapping_id =
				ids[message->location[i]->mapping_id - 1];
	}
	for (size_t i = 0; i < message->n_mapping; i++) {
		Mapping *mapping = message->mapping[i];

		if (!ids[i]) {
			perftools__profiles__mapping__free_unpacked(mapping, NULL);
			continue;
		}
		mapping->id = ids[i];
		message->mapping[kept++] = mapping;
	}
	message->n_mapping = kept;
}

static void remove_functions(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_location; i++) {
		for (size_t j = 0; j < message->location[i]->n_line; j++)
			ids[message->location[i]->line[j]->function_id - 1] = 1;
	}
	renumber(ids, message->n_function);
	for (size_t i = 0; i < message->n_location; i++) {
		for (size_t j = 0; j < message->location[i]->n_line; j++)
			message->location[i]->line[j]->function_id =
				ids[message->location[i]->line[j]->function_id - 1];
	}
	for (size_t i = 0; i < message->n_function; i++) {
		Function *function = message->function[i];

		if (!ids[i]) {
			perftools__profiles__function__free_unpacked(function, NULL);
			continue;
		}
		function->id = ids[i];
		message->function[kept++] = function;
	}
	message->n_function = kept;
}

static int remove_unreferenced(Message *message)
{
	static void (*const remove_unused[])(Message * message, uint64_t * ids) = {
		remove_locations, remove_mappings, remove_functions};
	const size_t counts[] = {message->n_location, message->n_mapping, message->n_function};

	for (size_t i = 0; i < sizeof(remove_unused) / sizeof(remove_unused[0]); i++) {
		uint64_t *ids = calloc(counts[i] + 1, sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		remove_unused[i](message, ids);
		free(ids);
	}
	return 0;
}

/* Comments */

/* Replaces the comment with a prefix. A comment shares its string with no other entry. */
static int set_comment(Message *message, const char *prefix, const char *text)
{
	for (size_t i = 0; i < message->n_comment; i++) {
		int64_t index = message->comment[i];

		if (strncmp(message->string_table[index], prefix, strlen(prefix)))
			continue;
		free(message->string_table[index]);
		message->string_table[index] = pprof_copy_string(text);
		return message->string_table[index] ? 0 : -ENOMEM;
	}
	return 0;
}

static int update_comments(const struct normalizer *normalizer)
{
	char text[TRUNCATION_COMMENT_SIZE];
	int err = 0;

	/* Without labels, the comment keeps the counts of the kernel. */
	if (normalizer->has_label) {
		truncation_comment(&normalizer->truncated, text);
		err = set_comment(normalizer->message, TRUNCATED_COMMENT, text);
	}
	frames_comment(&normalizer->truncated, text);
	return err ? err : set_comment(normalizer->message, FRAMES_COMMENT, text);
}

int normalize_samples(struct pprof_profile *profile, const bool *elided)
{
	Message *message = profile->message;
	struct normalizer normalizer = {.profile = profile, .message = message, .elided = elided};
	int err = -ENOMEM;

	for (size_t i = 0; i < message->n_sample; i++) {
		if (message->sample[i]->n_location_id > normalizer.depth)
			normalizer.depth = message->sample[i]->n_location_id;
	}
	normalizer.names = calloc(message->n_location + 1, sizeof(*normalizer.names));
	normalizer.kernel = calloc(message->n_location + 1, sizeof(*normalizer.kernel));
	normalizer.frames = calloc(normalizer.depth + 1, sizeof(*normalizer.frames));
	if (!normalizer.names || !normalizer.kernel || !normalizer.frames)
		goto out;
	describe_locations(&normalizer);
	for (size_t i = 0; i < message->n_sample; i++)
		normalize_sample(&normalizer, message->sample[i]);
	err = merge_samples(&normalizer);
	if (!err)
		err = remove_unreferenced(message);
	if (!err)
		err = update_comments(&normalizer);
out:
	hash_clear(&normalizer.samples);
	free(normalizer.names);
	free(normalizer.kernel);
	free(normalizer.frames);
	return err;
}

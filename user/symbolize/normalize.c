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

struct tidy {
	const struct pprof_profile *profile;
	Message *message;
	const bool *hidden;
	struct frame_name *names; /* of each location, as far as roots are concerned */
	bool *kernel; /* each location: of the kernel */
	const struct frame_name **frames; /* of a stack */
	size_t depth; /* the most frames of a stack */
	struct truncation_counts cuts;
	bool tells_cuts; /* a sample had the label */
	struct hash samples;
};

bool normalize_is_own(const struct pprof_profile *profile)
{
	const Message *message = profile->message;

	return message->n_comment > 0 &&
	       !strncmp(pprof_text(profile, message->comment[0]), OWN_PREFIX, strlen(OWN_PREFIX));
}

bool normalize_release(const struct pprof_profile *profile, char release[NORMALIZE_RELEASE_SIZE])
{
	/* stackbeat VERSION on Linux RELEASE MACHINE. It becomes a part of a path. */
	if (normalize_is_own(profile) && sscanf(pprof_text(profile, profile->message->comment[0]),
						OWN_PREFIX "%*s on %*s %127[^/ ]", release) == 1)
		return true;
	*release = '\0';
	return false;
}

static void describe_locations(struct tidy *tidy)
{
	const Message *message = tidy->message;

	for (size_t i = 0; i < message->n_location; i++) {
		const Location *location = message->location[i];
		struct frame_name *name = &tidy->names[i];
		const Function *function;

		name->mapping_path = "";
		if (location->mapping_id)
			name->mapping_path =
				pprof_text(tidy->profile,
					   message->mapping[location->mapping_id - 1]->filename);
		tidy->kernel[i] = kernel_has_mapping(name->mapping_path, location->address);
		if (!location->n_line)
			continue;
		function = message->function[location->line[location->n_line - 1]->function_id - 1];
		name->system_name = pprof_text(tidy->profile, function->system_name);
		name->resolved = true;
	}
}

/* Samples */

static size_t kernel_frames(const struct tidy *tidy, const Sample *sample)
{
	size_t count = 0;

	while (count < sample->n_location_id && tidy->kernel[sample->location_id[count] - 1])
		count++;
	return count;
}

/* How many frames are those of the stack; *whole tells whether its root is among them. */
static size_t true_depth(struct tidy *tidy, const Sample *sample, bool *whole)
{
	size_t kernel = kernel_frames(tidy, sample), user = sample->n_location_id - kernel, own;

	for (size_t i = 0; i < user; i++)
		tidy->frames[i] = &tidy->names[sample->location_id[kernel + i] - 1];
	/* Of another end it is known already, or not at all, whether it is whole. */
	own = stack_root_depth(tidy->frames, user, STACKBEAT_STOP_BAD_FRAME);
	*whole = own > 0;
	return own ? kernel + own : sample->n_location_id;
}

static void remove_label(Sample *sample, size_t index)
{
	perftools__profiles__label__free_unpacked(sample->label[index], NULL);
	memmove(&sample->label[index], &sample->label[index + 1],
		(--sample->n_label - index) * sizeof(*sample->label));
}

/* Takes the label from a stack that is whole after all, and counts the others. */
static void tidy_label(struct tidy *tidy, Sample *sample, bool whole)
{
	for (size_t i = 0; i < sample->n_label; i++) {
		const Label *label = sample->label[i];
		enum truncation cut;

		if (strcmp(pprof_text(tidy->profile, label->key), LABEL_TRUNCATED_KEY) != 0)
			continue;
		tidy->tells_cuts = true;
		cut = truncation_by_name(pprof_text(tidy->profile, label->str));
		if (whole && cut != TRUNCATED_KERNEL)
			remove_label(sample, i);
		else if (cut != TRUNCATED_NOT)
			tidy->cuts.samples[cut] += (uint64_t)sample->value[0];
		return;
	}
}

static void tidy_sample(struct tidy *tidy, Sample *sample)
{
	bool whole;
	size_t count = true_depth(tidy, sample, &whole), kept = 0;

	tidy_label(tidy, sample, whole);
	for (size_t i = 0; i < count; i++) {
		uint64_t id = sample->location_id[i];

		if (!tidy->kernel[id - 1]) {
			tidy->cuts.user_frames += (uint64_t)sample->value[0];
			if (!tidy->message->location[id - 1]->mapping_id)
				tidy->cuts.unmapped += (uint64_t)sample->value[0];
		}
		if (!tidy->hidden[id - 1])
			sample->location_id[kept++] = id;
	}
	/* Other programs pass over samples without any: then what was to be hidden is shown. */
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

static bool is_same(const void *context, uint32_t index, const void *key)
{
	const Sample *a = ((const Message *)context)->sample[index], *b = key;

	if (a->n_location_id != b->n_location_id || a->n_label != b->n_label ||
	    (a->n_location_id && memcmp(a->location_id, b->location_id,
					a->n_location_id * sizeof(*a->location_id)) != 0))
		return false;
	for (size_t i = 0; i < a->n_label; i++) {
		const Label *x = a->label[i], *y = b->label[i];

		if (x->key != y->key || x->str != y->str || x->num != y->num ||
		    x->num_unit != y->num_unit)
			return false;
	}
	return true;
}

/* False, with nothing changed, if a sum is beyond what its type can hold. */
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

static int merge_samples(struct tidy *tidy)
{
	Message *message = tidy->message;
	size_t count = message->n_sample;
	int err = 0;

	message->n_sample = 0;
	for (size_t i = 0; i < count; i++) {
		Sample *sample = message->sample[i];
		uint32_t hash = sample_hash(sample), index = HASH_NONE;

		if (!err)
			index = hash_find(&tidy->samples, hash, is_same, message, sample);
		if (index != HASH_NONE && add_values(message->sample[index], sample)) {
			perftools__profiles__sample__free_unpacked(sample, NULL);
			continue;
		}
		if (!err && index == HASH_NONE)
			err = hash_add(&tidy->samples, hash, message->n_sample);
		message->sample[message->n_sample++] = sample;
	}
	return err;
}

/* What nothing refers to */

/* Numbers what is marked in `ids` from 1; what is not has 0. */
static void number(uint64_t *ids, size_t count)
{
	uint64_t next = 0;

	for (size_t i = 0; i < count; i++)
		ids[i] = ids[i] ? ++next : 0;
}

static void drop_locations(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_sample; i++) {
		for (size_t j = 0; j < message->sample[i]->n_location_id; j++)
			ids[message->sample[i]->location_id[j] - 1] = 1;
	}
	number(ids, message->n_location);
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

static void drop_mappings(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_location; i++) {
		if (message->location[i]->mapping_id)
			ids[message->location[i]->mapping_id - 1] = 1;
	}
	number(ids, message->n_mapping);
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

static void drop_functions(Message *message, uint64_t *ids)
{
	size_t kept = 0;

	for (size_t i = 0; i < message->n_location; i++) {
		for (size_t j = 0; j < message->location[i]->n_line; j++)
			ids[message->location[i]->line[j]->function_id - 1] = 1;
	}
	number(ids, message->n_function);
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

static int drop_unused(Message *message)
{
	static void (*const drop[])(Message * message, uint64_t * ids) = {
		drop_locations, drop_mappings, drop_functions};
	const size_t counts[] = {message->n_location, message->n_mapping, message->n_function};

	for (size_t i = 0; i < sizeof(drop) / sizeof(drop[0]); i++) {
		uint64_t *ids = calloc(counts[i] + 1, sizeof(*ids));

		if (!ids)
			return -ENOMEM;
		drop[i](message, ids);
		free(ids);
	}
	return 0;
}

/* Comments */

/* Comments have strings of their own, as they say what nothing else does. */
static int set_comment(Message *message, const char *prefix, const char *text)
{
	for (size_t i = 0; i < message->n_comment; i++) {
		int64_t index = message->comment[i];

		if (strncmp(message->string_table[index], prefix, strlen(prefix)) != 0)
			continue;
		free(message->string_table[index]);
		message->string_table[index] = pprof_copy_text(text);
		return message->string_table[index] ? 0 : -ENOMEM;
	}
	return 0;
}

static int tidy_comments(const struct tidy *tidy)
{
	char text[TRUNCATION_COMMENT_SIZE];
	int err = 0;

	/* Without the label it stays as the kernel saw it. */
	if (tidy->tells_cuts) {
		truncation_comment(&tidy->cuts, text);
		err = set_comment(tidy->message, TRUNCATED_COMMENT, text);
	}
	frames_comment(&tidy->cuts, text);
	return err ? err : set_comment(tidy->message, FRAMES_COMMENT, text);
}

int normalize_samples(struct pprof_profile *profile, const bool *hidden)
{
	Message *message = profile->message;
	struct tidy tidy = {.profile = profile, .message = message, .hidden = hidden};
	int err = -ENOMEM;

	for (size_t i = 0; i < message->n_sample; i++) {
		if (message->sample[i]->n_location_id > tidy.depth)
			tidy.depth = message->sample[i]->n_location_id;
	}
	tidy.names = calloc(message->n_location + 1, sizeof(*tidy.names));
	tidy.kernel = calloc(message->n_location + 1, sizeof(*tidy.kernel));
	tidy.frames = calloc(tidy.depth + 1, sizeof(*tidy.frames));
	if (!tidy.names || !tidy.kernel || !tidy.frames)
		goto out;
	describe_locations(&tidy);
	for (size_t i = 0; i < message->n_sample; i++)
		tidy_sample(&tidy, message->sample[i]);
	err = merge_samples(&tidy);
	if (!err)
		err = drop_unused(message);
	if (!err)
		err = tidy_comments(&tidy);
out:
	hash_clear(&tidy.samples);
	free(tidy.names);
	free(tidy.kernel);
	free(tidy.frames);
	return err;
}

/* SPDX-License-Identifier: GPL-2.0 */
/* Adds the entries of one profile to another one. */
#ifndef STACKBEAT_PPROF_PROFILE_MERGE_H
#define STACKBEAT_PPROF_PROFILE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "pprof/profile.h"

/*
 * Adds the samples of a profile, and the entries that they refer to, to a profile with the same
 * value types; one without value types takes over the head. Comments are not added. Returns 0,
 * -EINVAL with nothing added if the types differ, or -ENOMEM: `into` may only be freed then.
 */
int profile_merge(struct profile *into, const struct profile *from);

/* Returns whether two profiles have the same value types, in the same order. */
bool profile_has_types_of(const struct profile *a, const struct profile *b);

/* Numbers of entries of `from` in `into`, where they are added when they are needed. */
struct profile_translation {
	struct profile *into;
	const struct profile *from;
	/* Private: by number in `from`; 0: not known yet. */
	uint32_t *strings, *mappings, *functions, *locations, *labels;
	uint32_t *samples; /* by number, if `from` has moments; or NO_SAMPLE */
};

/*
 * Begins a translation between two profiles that outlive it. Returns 0 or -ENOMEM.
 * profile_translation_clear() is to be called in both cases.
 */
int profile_translation_init(struct profile_translation *translation, struct profile *into,
			     const struct profile *from);
void profile_translation_clear(struct profile_translation *translation);

/* Return the number in `into` of an entry of `from`; 0 for 0, and when out of memory. */
uint32_t profile_translate_string(struct profile_translation *translation, uint32_t string);
uint32_t profile_translate_location(struct profile_translation *translation, uint32_t location);
uint32_t profile_translate_label(struct profile_translation *translation, uint32_t label);

/*
 * Adds the values of a sample of `from` to the sample of `into` with this stack and these labels.
 * After the last sample, profile_translate_moments() adds the moments of these samples.
 */
void profile_translate_sample(struct profile_translation *translation, size_t sample,
			      uint32_t stack, uint32_t label_set);
void profile_translate_moments(struct profile_translation *translation);

/*
 * Adds the mapping that is to be the first one of a profile that has none: pprof takes it for the
 * program's. It is a mapping of main_file, if there is one, or else the first one of `from`, if it
 * has locations.
 */
void profile_translate_first_mapping(struct profile_translation *translation);

/* Copies the head, without comments, to a profile that has none. */
void profile_translate_head(struct profile_translation *translation);

#endif

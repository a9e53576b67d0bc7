// SPDX-License-Identifier: GPL-2.0
#include "symbolize/go_creators.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hash.h"
#include "pprof/labels.h"
#include "pprof/profile.h"

/* Mappings by path. */
struct paths {
	const struct profile *profile;
	struct hash index;
	bool *is_ambiguous; /* of each mapping: another one has its path */
};

static bool has_path(const void *context, uint32_t index, const void *path)
{
	const struct profile *profile = ((const struct paths *)context)->profile;

	return !strcmp(profile_text(profile, profile->mappings.items[index].file), path);
}

static int index_paths(struct paths *paths)
{
	const struct profile *profile = paths->profile;

	paths->is_ambiguous = calloc(profile->mappings.count, sizeof(*paths->is_ambiguous));
	if (!paths->is_ambiguous)
		return -ENOMEM;
	for (size_t i = 1; i < profile->mappings.count; i++) {
		const char *path = profile_text(profile, profile->mappings.items[i].file);
		uint32_t hash = hash_string(HASH_START, path);
		uint32_t first = hash_find(&paths->index, hash, has_path, paths, path);

		if (first != HASH_NONE)
			paths->is_ambiguous[first] = true;
		else if (hash_add(&paths->index, hash, (uint32_t)i))
			return -ENOMEM;
	}
	return 0;
}

/* Ends `text` behind the path, and sets *address. Returns false, with `text` as it was, for others.
 */
static bool split_place(char *text, uint64_t *address)
{
	char *plus = strrchr(text, '+'), *end;

	if (!plus || strncmp(plus, "+0x", 3) || !isxdigit((unsigned char)plus[3]))
		return false;
	errno = 0;
	*address = strtoull(plus + 3, &end, 16);
	if (*end || errno)
		return false;
	*plus = '\0';
	return true;
}

static void creator_locate(struct profile *profile, const struct paths *paths, uint32_t number,
			   char *place)
{
	struct profile_label label = profile->labels.items[number];
	const struct profile_mapping *mapping;
	struct label_value value;
	uint64_t address;
	uint32_t index;

	if (!split_place(place, &address))
		return;
	index = hash_find(&paths->index, hash_string(HASH_START, place), has_path, paths, place);
	if (index == HASH_NONE || paths->is_ambiguous[index])
		return;
	mapping = &profile->mappings.items[index];
	if (address < mapping->start || address >= mapping->limit)
		return;
	label_set_go_creator(&value, profile_location(profile, index, address, NULL, 0));
	label.text = 0;
	label.number = value.number;
	label.unit = profile_string(profile, value.unit);
	profile_set_label(profile, number, &label);
}

int go_creators_locate(struct profile *profile)
{
	struct paths paths = {.profile = profile};
	const size_t count = profile->labels.count;
	int err = index_paths(&paths);

	for (size_t i = 1; i < count && !err; i++) {
		const struct profile_label *label = &profile->labels.items[i];
		char *place;

		if (strcmp(profile_text(profile, label->key), LABEL_GO_CREATOR_KEY) || !label->text)
			continue;
		place = strdup(profile_text(profile, label->text));
		if (place)
			creator_locate(profile, &paths, (uint32_t)i, place);
		err = place ? profile->error : -ENOMEM;
		free(place);
	}
	hash_clear(&paths.index);
	free(paths.is_ambiguous);
	return err;
}

uint32_t go_creators_text(struct profile *into, const struct profile *from, uint32_t label)
{
	const int64_t number = from->labels.items[label].number;
	const struct profile_location *location = &from->locations.items[number];
	const char *path = profile_text(from, from->mappings.items[location->mapping].file);
	uint32_t function, string;
	char *text;

	if (location->line_count) {
		function = profile_lines(from, location)[location->line_count - 1].function;
		return profile_string(into,
				      profile_text(from, from->functions.items[function].name));
	}
	if (asprintf(&text, "%s+0x%" PRIx64, path, location->address) < 0) {
		into->error = -ENOMEM;
		return 0;
	}
	string = profile_string(into, text);
	free(text);
	return string;
}

// SPDX-License-Identifier: GPL-2.0
#include "store/merge.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"

#define SOURCE "merged window: "
/* Also the beginning of a comment of record/profile_export.c. */
#define LOST "lost: "
#define SAMPLED_BY "source: "
/* Sources that a profile names: a server that is started again may have another one. */
#define SAMPLED_BY_MAX 8u

int merge_init(struct merge *merge)
{
	*merge = (struct merge){.profile = profile_new(), .start_ns = INT64_MAX};
	return merge->profile ? 0 : -ENOMEM;
}

void merge_clear(struct merge *merge)
{
	profile_free(merge->profile);
	free(merge->sources);
	*merge = (struct merge){0};
}

uint64_t merge_lost(const struct profile *window)
{
	for (size_t i = 0; i < window->comments.count; i++) {
		const char *text = profile_text(window, window->comments.items[i]);

		if (!strncmp(text, LOST, strlen(LOST)))
			return strtoull(text + strlen(LOST), NULL, 10);
	}
	return 0;
}

static bool is_source_comment(const char *text)
{
	return !strncmp(text, SAMPLED_BY, strlen(SAMPLED_BY));
}

/* Returns whether a comment is there, or is one too many. */
static bool merge_has_source(const struct profile *profile, const char *wanted)
{
	unsigned int count = 0;

	for (size_t i = 0; i < profile->comments.count; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);

		if (!strcmp(text, wanted))
			return true;
		count += is_source_comment(text);
	}
	return count >= SAMPLED_BY_MAX;
}

void merge_copy_source(struct profile *to, const struct profile *from)
{
	for (size_t i = 0; i < from->comments.count; i++) {
		const char *text = profile_text(from, from->comments.items[i]);

		if (is_source_comment(text) && !merge_has_source(to, text))
			profile_comment(to, "%s", text);
	}
}

int merge_add(struct merge *merge, const struct profile *window, const struct window_name *name)
{
	int err = name ? array_reserve(&merge->sources, &merge->capacity, merge->count, 1,
				       sizeof(*merge->sources))
		       : 0;

	if (!err)
		err = profile_merge(merge->profile, window);
	if (err)
		return err;
	if (name)
		merge->sources[merge->count++] = *name;
	merge_copy_source(merge->profile, window);
	merge->lost += merge_lost(window);
	merge->start_ns = MIN(merge->start_ns, window->time_ns);
	if (__builtin_add_overflow(merge->duration_ns, MAX(window->duration_ns, 0),
				   &merge->duration_ns))
		merge->duration_ns = INT64_MAX;
	return 0;
}

int merge_finish(struct merge *merge)
{
	struct profile *profile = merge->profile;
	char text[WINDOW_NAME_SIZE];

	profile->time_ns = merge->start_ns;
	profile->duration_ns = merge->duration_ns;
	profile_comment(profile, LOST "%" PRIu64, merge->lost);
	for (size_t i = 0; i < merge->count; i++) {
		window_name_format(&merge->sources[i], text);
		profile_comment(profile, SOURCE "%s", text);
	}
	return profile->error;
}

bool merge_contains(const struct profile *merged, const struct window_name *source)
{
	char wanted[WINDOW_NAME_SIZE];

	window_name_format(source, wanted);
	for (size_t i = 0; i < merged->comments.count; i++) {
		const char *text = profile_text(merged, merged->comments.items[i]);

		if (!strncmp(text, SOURCE, strlen(SOURCE)) &&
		    !strcmp(text + strlen(SOURCE), wanted))
			return true;
	}
	return false;
}

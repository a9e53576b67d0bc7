// SPDX-License-Identifier: GPL-2.0
#include "pprof/blocks.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "pprof/profile.h"

static bool is_block(const struct profile *profile, const struct profile_label *label)
{
	return !label->text && !strcmp(profile_text(profile, label->key), LABEL_BLOCK_KEY);
}

void blocks_join(struct profile *profile)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	uint64_t range;

	for (size_t i = 1; i < profile->labels.count; i++) {
		const struct profile_label *label = &profile->labels.items[i];

		if (!is_block(profile, label))
			continue;
		first = MIN(first, label->number);
		last = MAX(last, label->number);
	}
	if (first > last || first < 0)
		return;
	range = (uint64_t)(last - first) + 1;
	for (uint32_t i = 1; i < profile->labels.count; i++) {
		struct profile_label label = profile->labels.items[i];
		double number;

		if (!is_block(profile, &label))
			continue;
		number = (double)(label.number - first);
		if (range > BLOCKS_KEPT)
			number = number * BLOCKS_KEPT / (double)range;
		label.number = (int64_t)number;
		profile_set_label(profile, i, &label);
	}
	profile_comment(profile, BLOCKS_COMMENT "%" PRIu64, MIN(range, BLOCKS_KEPT));
}

size_t blocks_count(const struct profile *profile)
{
	int64_t blocks = 0;

	for (size_t i = 1; i < profile->labels.count; i++) {
		const struct profile_label *label = &profile->labels.items[i];

		if (!is_block(profile, label))
			continue;
		if (label->number < 0 || label->number >= BLOCKS_KEPT)
			return 0;
		blocks = MAX(blocks, label->number + 1);
	}
	/* A block in which nothing was chosen has no label left. */
	for (size_t i = 0; i < profile->comments.count && blocks; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);
		const size_t head = strlen(BLOCKS_COMMENT);

		if (!strncmp(text, BLOCKS_COMMENT, head))
			blocks = MAX(blocks, MIN(strtol(text + head, NULL, 10), BLOCKS_KEPT));
	}
	return (size_t)blocks;
}

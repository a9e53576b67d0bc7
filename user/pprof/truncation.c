// SPDX-License-Identifier: GPL-2.0
#include "pprof/truncation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[CUT_COUNT] = {
	[CUT_KERNEL] = "kernel part",
	[CUT_DEPTH] = "depth limit",
	[CUT_MEMORY] = "unreadable memory",
	[CUT_FRAME] = "frame pointer",
	[CUT_EXEC] = "exec",
};

enum cut cut_of(enum stackbeat_end kernel_end, enum stackbeat_end user_end, bool user_whole)
{
	if (kernel_end == STACKBEAT_END_DEPTH || kernel_end == STACKBEAT_END_FRAME)
		return CUT_KERNEL;
	if (user_end == STACKBEAT_END_EXEC)
		return CUT_EXEC;
	if (user_whole)
		return CUT_NONE;
	switch (user_end) {
	case STACKBEAT_END_DEPTH:
		return CUT_DEPTH;
	case STACKBEAT_END_MEMORY:
		return CUT_MEMORY;
	case STACKBEAT_END_FRAME:
		return CUT_FRAME;
	default:
		return CUT_NONE;
	}
}

const char *cut_text(enum cut cut)
{
	return cut < CUT_COUNT ? texts[cut] : "";
}

enum cut cut_named(const char *text)
{
	enum cut cut = 0;

	while (cut < CUT_COUNT && strcmp(texts[cut], text) != 0)
		cut++;
	return cut;
}

uint64_t cuts_total(const struct cuts *cuts)
{
	uint64_t total = 0;

	for (enum cut cut = 0; cut < CUT_COUNT; cut++)
		total += cuts->samples[cut];
	return total;
}

void cuts_comment(const struct cuts *cuts, char text[CUTS_COMMENT_SIZE])
{
	int length = snprintf(text, CUTS_COMMENT_SIZE, CUTS_COMMENT "%" PRIu64, cuts_total(cuts));

	for (enum cut cut = 0; cut < CUT_COUNT; cut++)
		length +=
			snprintf(text + length, CUTS_COMMENT_SIZE - (size_t)length, "%s%s %" PRIu64,
				 cut ? ", " : " (", texts[cut], cuts->samples[cut]);
	snprintf(text + length, CUTS_COMMENT_SIZE - (size_t)length, ")");
}

void frames_comment(const struct cuts *cuts, char text[CUTS_COMMENT_SIZE])
{
	snprintf(text, CUTS_COMMENT_SIZE,
		 FRAMES_COMMENT "%" PRIu64 ", in no known mapping %" PRIu64, cuts->user_frames,
		 cuts->unmapped);
}

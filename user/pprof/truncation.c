// SPDX-License-Identifier: GPL-2.0
#include "pprof/truncation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const texts[TRUNCATED_COUNT] = {
	[TRUNCATED_KERNEL] = "kernel part",
	[TRUNCATED_MAX_DEPTH] = "depth limit",
	[TRUNCATED_UNREADABLE_MEMORY] = "unreadable memory",
	[TRUNCATED_BAD_FRAME_POINTER] = "frame pointer",
	[TRUNCATED_EXEC] = "exec",
};

enum truncation truncation_of(enum stackbeat_end kernel_end, enum stackbeat_end user_end,
			      bool user_whole)
{
	if (kernel_end == STACKBEAT_END_DEPTH || kernel_end == STACKBEAT_END_FRAME)
		return TRUNCATED_KERNEL;
	if (user_end == STACKBEAT_END_EXEC)
		return TRUNCATED_EXEC;
	if (user_whole)
		return TRUNCATED_NOT;
	switch (user_end) {
	case STACKBEAT_END_DEPTH:
		return TRUNCATED_MAX_DEPTH;
	case STACKBEAT_END_MEMORY:
		return TRUNCATED_UNREADABLE_MEMORY;
	case STACKBEAT_END_FRAME:
		return TRUNCATED_BAD_FRAME_POINTER;
	default:
		return TRUNCATED_NOT;
	}
}

const char *truncation_name(enum truncation cut)
{
	return cut < TRUNCATED_COUNT ? texts[cut] : "";
}

enum truncation truncation_by_name(const char *text)
{
	enum truncation cut = 0;

	while (cut < TRUNCATED_COUNT && strcmp(texts[cut], text) != 0)
		cut++;
	return cut;
}

uint64_t truncation_total(const struct truncation_counts *cuts)
{
	uint64_t total = 0;

	for (enum truncation cut = 0; cut < TRUNCATED_COUNT; cut++)
		total += cuts->samples[cut];
	return total;
}

void truncation_comment(const struct truncation_counts *cuts, char text[TRUNCATION_COMMENT_SIZE])
{
	int length = snprintf(text, TRUNCATION_COMMENT_SIZE, TRUNCATED_COMMENT "%" PRIu64,
			      truncation_total(cuts));

	for (enum truncation cut = 0; cut < TRUNCATED_COUNT; cut++)
		length += snprintf(text + length, TRUNCATION_COMMENT_SIZE - (size_t)length,
				   "%s%s %" PRIu64, cut ? ", " : " (", texts[cut],
				   cuts->samples[cut]);
	snprintf(text + length, TRUNCATION_COMMENT_SIZE - (size_t)length, ")");
}

void frames_comment(const struct truncation_counts *cuts, char text[TRUNCATION_COMMENT_SIZE])
{
	snprintf(text, TRUNCATION_COMMENT_SIZE,
		 FRAMES_COMMENT "%" PRIu64 ", in no known mapping %" PRIu64, cuts->user_frames,
		 cuts->unmapped);
}

// SPDX-License-Identifier: GPL-2.0
#include "pprof/truncation.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/utf8.h"

/* Between the name of a cause and the name of an object, in a label. */
#define OBJECT_SEPARATOR ": "

static const char *const names[TRUNCATED_COUNT] = {
	[TRUNCATED_KERNEL] = "kernel",
	[TRUNCATED_MAX_DEPTH] = "max-depth",
	[TRUNCATED_UNREADABLE_MEMORY] = "unreadable-memory",
	[TRUNCATED_BAD_FRAME_POINTER] = "bad-frame-pointer",
	[TRUNCATED_EXEC] = "exec",
	[TRUNCATED_NO_RULE] = "no-unwind-rule",
	[TRUNCATED_NO_TABLE] = "no-unwind-table",
	[TRUNCATED_STACK_COPY] = "stack-copy",
	[TRUNCATED_UNKNOWN_MAPPING] = "unknown-mapping",
};

enum truncation truncation_of(enum stackbeat_unwind_stop kernel_stop, unsigned int user_stop,
			      bool user_complete)
{
	if (kernel_stop == STACKBEAT_STOP_MAX_DEPTH || kernel_stop == STACKBEAT_STOP_BAD_FRAME)
		return TRUNCATED_KERNEL;
	if (user_stop == STACKBEAT_STOP_EXEC)
		return TRUNCATED_EXEC;
	if (user_complete)
		return TRUNCATED_NOT;
	switch (user_stop) {
	case STACKBEAT_STOP_MAX_DEPTH:
		return TRUNCATED_MAX_DEPTH;
	case STACKBEAT_STOP_FAULT:
		return TRUNCATED_UNREADABLE_MEMORY;
	case STACKBEAT_STOP_BAD_FRAME:
		return TRUNCATED_BAD_FRAME_POINTER;
	case STACKBEAT_STOP_NO_RULE:
		return TRUNCATED_NO_RULE;
	case STACKBEAT_STOP_NO_TABLE:
		return TRUNCATED_NO_TABLE;
	case TRUNCATION_STOP_COPY_ENDS:
		return TRUNCATED_STACK_COPY;
	case TRUNCATION_STOP_UNKNOWN_MAPPING:
		return TRUNCATED_UNKNOWN_MAPPING;
	default:
		return TRUNCATED_NOT;
	}
}

const char *truncation_name(enum truncation cause)
{
	return cause < TRUNCATED_COUNT ? names[cause] : "";
}

void truncation_label(enum truncation cause, const char *path, char text[TRUNCATION_LABEL_SIZE])
{
	const char *slash = strrchr(path, '/'), *object = slash ? slash + 1 : path;
	bool has_object = cause == TRUNCATED_NO_TABLE && *object;

	snprintf(text, TRUNCATION_LABEL_SIZE, "%s%s%s", truncation_name(cause),
		 has_object ? OBJECT_SEPARATOR : "", has_object ? object : "");
	utf8_sanitize(text);
}

static bool truncation_has_name(enum truncation cause, const char *text)
{
	size_t length = strlen(names[cause]);

	return !strncmp(text, names[cause], length) &&
	       (!text[length] ||
		!strncmp(text + length, OBJECT_SEPARATOR, strlen(OBJECT_SEPARATOR)));
}

enum truncation truncation_by_name(const char *name)
{
	enum truncation cause = 0;

	while (cause < TRUNCATED_COUNT && !truncation_has_name(cause, name))
		cause++;
	return cause;
}

uint64_t truncation_total(const struct truncation_counts *counts)
{
	uint64_t total = 0;

	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++)
		total += counts->samples[cause];
	return total;
}

void truncation_comment(const struct truncation_counts *counts, char text[TRUNCATION_COMMENT_SIZE])
{
	int length = snprintf(text, TRUNCATION_COMMENT_SIZE, TRUNCATED_COMMENT "%" PRIu64,
			      truncation_total(counts));

	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++)
		length += snprintf(text + length, TRUNCATION_COMMENT_SIZE - (size_t)length,
				   "%s%s %" PRIu64, cause ? ", " : " (", names[cause],
				   counts->samples[cause]);
	snprintf(text + length, TRUNCATION_COMMENT_SIZE - (size_t)length, ")");
}

void frames_comment(const struct truncation_counts *counts, char text[TRUNCATION_COMMENT_SIZE])
{
	snprintf(text, TRUNCATION_COMMENT_SIZE,
		 FRAMES_COMMENT "%" PRIu64 ", outside all mappings %" PRIu64, counts->user_frames,
		 counts->unmapped);
}

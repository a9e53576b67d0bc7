/* SPDX-License-Identifier: GPL-2.0 */
/* Samples whose stack is not whole, and why; and frames that are nowhere. */
#ifndef STACKBEAT_PPROF_TRUNCATION_H
#define STACKBEAT_PPROF_TRUNCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

/* A sample counts for the first of these that is true. */
enum truncation {
	TRUNCATED_KERNEL, /* the kernel part was cut */
	TRUNCATED_MAX_DEPTH, /* user part: at the depth limit */
	TRUNCATED_UNREADABLE_MEMORY, /* user part: at memory that could not be read */
	TRUNCATED_BAD_FRAME_POINTER, /* user part: at a frame pointer that can't be right */
	TRUNCATED_EXEC, /* no user part: execve() was replacing the program */
	TRUNCATED_COUNT,
	TRUNCATED_NOT = TRUNCATED_COUNT, /* the stack is whole */
};

struct truncation_counts {
	uint64_t samples[TRUNCATED_COUNT];
	uint64_t user_frames; /* of all samples */
	uint64_t unmapped; /* of these, in no known mapping */
};

/*
 * Why a stack is not whole whose parts ended so. `user_whole`: the user part is, whatever
 * its end, or there is none.
 */
enum truncation truncation_of(enum stackbeat_end kernel_end, enum stackbeat_end user_end,
			      bool user_whole);

/* What people read; "" for TRUNCATED_NOT. */
const char *truncation_name(enum truncation cut);

/* The cut of a text; TRUNCATED_NOT where there is no such one. */
enum truncation truncation_by_name(const char *text);

uint64_t truncation_total(const struct truncation_counts *cuts);

/* What a profile's comments say of it begins with these. */
#define TRUNCATED_COMMENT "cut: "
#define FRAMES_COMMENT "user frames: "
#define TRUNCATION_COMMENT_SIZE 256

/* Write these comments. */
void truncation_comment(const struct truncation_counts *cuts, char text[TRUNCATION_COMMENT_SIZE]);
void frames_comment(const struct truncation_counts *cuts, char text[TRUNCATION_COMMENT_SIZE]);

#endif

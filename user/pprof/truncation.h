/* SPDX-License-Identifier: GPL-2.0 */
/* Samples whose stack is not whole, and why; and frames that are nowhere. */
#ifndef STACKBEAT_PPROF_TRUNCATION_H
#define STACKBEAT_PPROF_TRUNCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

/* A sample counts for the first of these that is true. */
enum cut {
	CUT_KERNEL, /* the kernel part was cut */
	CUT_DEPTH, /* user part: at the depth limit */
	CUT_MEMORY, /* user part: at memory that could not be read */
	CUT_FRAME, /* user part: at a frame pointer that can't be right */
	CUT_EXEC, /* no user part: execve() was replacing the program */
	CUT_COUNT,
	CUT_NONE = CUT_COUNT, /* the stack is whole */
};

struct cuts {
	uint64_t samples[CUT_COUNT];
	uint64_t user_frames; /* of all samples */
	uint64_t unmapped; /* of these, in no known mapping */
};

/*
 * Why a stack is not whole whose parts ended so. `user_whole`: the user part is, whatever
 * its end, or there is none.
 */
enum cut cut_of(enum stackbeat_end kernel_end, enum stackbeat_end user_end, bool user_whole);

/* What people read; "" for CUT_NONE. */
const char *cut_text(enum cut cut);

/* The cut of a text; CUT_NONE where there is no such one. */
enum cut cut_named(const char *text);

uint64_t cuts_total(const struct cuts *cuts);

/* What a profile's comments say of it begins with these. */
#define CUTS_COMMENT "cut: "
#define FRAMES_COMMENT "user frames: "
#define CUTS_COMMENT_SIZE 256

/* Write these comments. */
void cuts_comment(const struct cuts *cuts, char text[CUTS_COMMENT_SIZE]);
void frames_comment(const struct cuts *cuts, char text[CUTS_COMMENT_SIZE]);

#endif

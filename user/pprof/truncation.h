/* SPDX-License-Identifier: GPL-2.0 */
/* Counts truncated stacks by cause, and user frames outside every known mapping. */
#ifndef STACKBEAT_PPROF_TRUNCATION_H
#define STACKBEAT_PPROF_TRUNCATION_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

/* Why a stack is truncated. A sample counts for the first cause that applies. */
enum truncation {
	TRUNCATED_KERNEL, /* the kernel part is truncated */
	TRUNCATED_MAX_DEPTH, /* the user part is deeper than the limit */
	TRUNCATED_UNREADABLE_MEMORY, /* the user part ends at memory that can't be read */
	TRUNCATED_BAD_FRAME_POINTER, /* the user part ends at an impossible frame pointer */
	TRUNCATED_EXEC, /* no user part: execve() was replacing the program */
	TRUNCATED_NO_RULE, /* the user part ends at code without call frame information */
	TRUNCATED_NO_TABLE, /* the user part ends in an object without an unwind table */
	TRUNCATED_STACK_COPY, /* the user part ends where the copy of the stack ends */
	TRUNCATED_UNKNOWN_MAPPING, /* the user part ends at code whose mapping is not known */
	TRUNCATED_COUNT,
	TRUNCATED_NOT = TRUNCATED_COUNT, /* the stack is complete */
};

struct truncation_counts {
	uint64_t samples[TRUNCATED_COUNT];
	uint64_t user_frames; /* in all samples */
	uint64_t unmapped; /* user frames outside every known mapping */
};

/*
 * Further reasons why unwinding of a user part stopped: its copy is shorter than the stack; the
 * mapping of its last frame is not known.
 */
#define TRUNCATION_STOP_COPY_ENDS STACKBEAT_STOP_COUNT
#define TRUNCATION_STOP_UNKNOWN_MAPPING (STACKBEAT_STOP_COUNT + 1)

/*
 * Returns why a stack whose parts ended like this is truncated. `user_stop` is an enum
 * stackbeat_unwind_stop or a TRUNCATION_STOP_*. `user_complete`: the user part is complete
 * whatever its end, or there is none.
 */
enum truncation truncation_of(enum stackbeat_unwind_stop kernel_stop, unsigned int user_stop,
			      bool user_complete);

/* Returns the name of a cause; "" for TRUNCATED_NOT. */
const char *truncation_name(enum truncation cause);

/*
 * Writes the value of the label for a cause: its name, and for TRUNCATED_NO_TABLE the last part of
 * `path` of the object, as in "no-unwind-table: libx.so"; "": it is unknown. A name that is too
 * long is cut.
 */
#define TRUNCATION_LABEL_SIZE 280
void truncation_label(enum truncation cause, const char *path, char text[TRUNCATION_LABEL_SIZE]);

/* Returns the cause with this name or label; TRUNCATED_NOT if there is none. */
enum truncation truncation_by_name(const char *name);

/* Returns the number of truncated samples of all causes. */
uint64_t truncation_total(const struct truncation_counts *counts);

/* Prefixes of the profile comments with these counts. */
#define TRUNCATED_COMMENT "truncated: "
#define FRAMES_COMMENT "user frames: "
#define TRUNCATION_COMMENT_SIZE 512

/* Format these comments. */
void truncation_comment(const struct truncation_counts *counts, char text[TRUNCATION_COMMENT_SIZE]);
void frames_comment(const struct truncation_counts *counts, char text[TRUNCATION_COMMENT_SIZE]);

#endif

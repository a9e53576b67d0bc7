/* SPDX-License-Identifier: GPL-2.0 */
/* The files that `stackbeat record` writes: their names, and room for them. */
#ifndef STACKBEAT_CLI_RECORD_OUTPUT_H
#define STACKBEAT_CLI_RECORD_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/atomic_file.h"

struct error;
struct profile;

/* Bytes that must be free for a profile before the recording begins. */
#define OUTPUT_ROOM (UINT64_C(1) << 20)

/* Room for a profile. All zero: none is held. */
struct output_room {
	struct atomic_file file; /* without a name */
	bool held;
};

/* Returns whether a profile that is written to `path` goes to standard output. */
bool output_is_stdout(const char *path);

/*
 * Checks that a profile can be written to `path`, and holds OUTPUT_ROOM bytes for it, if the file
 * system can do that without a visible file. With `rotates`, files beside `path` are written: a
 * device is refused. Returns 0, or a negative errno value.
 */
int output_hold_room(struct output_room *room, const char *path, bool rotates, struct error *error);

/* Gives the room back, so that a profile can be written. */
void output_release_room(struct output_room *room);

/*
 * Writes the name of the file of --rotate that begins at `start_ns` (since 1970): the time in UTC
 * is inserted before the suffix of `path`, as in "profile.20260131T235959Z.pb.gz"; also a number
 * from 2, if that file exists.
 */
void output_rotated_path(const char *path, int64_t start_ns, char rotated[PATH_MAX]);

/*
 * Writes a profile that could not be written to its output file to one in TMPDIR or, without that
 * or if it fails, in /var/tmp: with a name that other users can't predict, and readable by its
 * owner only. Returns 0 or a negative errno value.
 */
int output_write_elsewhere(const struct profile *profile, char path[PATH_MAX], uint64_t *size,
			   struct error *error);

#endif

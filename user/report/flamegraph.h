/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A profile as a flame graph in one SVG file. The file has the call tree as
 * data for its script (flamegraph.js), and a picture of the widest frames for viewers that run no
 * scripts.
 */
#ifndef STACKBEAT_REPORT_FLAMEGRAPH_H
#define STACKBEAT_REPORT_FLAMEGRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/error.h"

struct profile;

struct flamegraph_options {
	const char *title; /* UTF-8 */
	const char *sample_type; /* NULL: the default of the profile */
	const char *group; /* label whose values are the second row; NULL: none */
	const struct profile *base; /* to compare the profile with; NULL: none */
	bool absolute; /* do not scale the profile to the total of the base */
	bool inverted; /* leaves are the first row, their callers follow: the file says to begin so
			*/
	bool draws_profiler; /* the frames of the profiler's own processes, which are one otherwise
			      */
	bool upward; /* the root is at the bottom, as in flamegraph.pl, not on top */
};

/*
 * Writes the SVG to `out`, which the caller checks for write errors, and the number of its frames
 * to *frames (may be NULL). Returns 0, -EINVAL (no such sample type), -ENODATA (all values are 0)
 * or -ENOMEM.
 */
int flamegraph_write(const struct profile *profile, const struct flamegraph_options *options,
		     FILE *out, size_t *frames, struct error *error);

#endif

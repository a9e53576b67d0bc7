/* SPDX-License-Identifier: GPL-2.0 */
/* The slices of the last seconds, and their sum. */
#ifndef STACKBEAT_TOP_TOP_WINDOW_H
#define STACKBEAT_TOP_TOP_WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct profile;

/* The counters of a slice, or of several. */
struct top_counts {
	int64_t start_ns; /* since 1970 */
	int64_t duration_ns;
	uint64_t samples;
	uint64_t lost;
	uint64_t truncated; /* samples with an incomplete stack */
	int64_t overhead_ns; /* CPU time of sampling, reading and symbolizing */
	uint32_t rate; /* Hz asked for */
	uint32_t cpus; /* as in struct recording */
};

/* All zero, but for `span_ns`: no slices. */
struct top_window {
	int64_t span_ns; /* slices are dropped when the others cover this time */
	/* Private. */
	struct top_slice *slices; /* oldest first */
	size_t count, capacity;
};

/*
 * Adds a slice, and drops old ones. Owns `profile` (NULL: no samples) from now on, also after an
 * error. Returns 0 or -ENOMEM.
 */
int top_window_add(struct top_window *window, struct profile *profile,
		   const struct top_counts *counts);

/*
 * Sets *sum to a new profile with all samples, its start and its duration, and `counts` to the sums
 * of the counters. Returns 0 or -ENOMEM.
 */
int top_window_sum(const struct top_window *window, struct profile **sum,
		   struct top_counts *counts);

void top_window_clear(struct top_window *window);

#endif

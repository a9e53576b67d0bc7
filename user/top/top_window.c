// SPDX-License-Identifier: GPL-2.0
#include "top/top_window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"

struct top_slice {
	struct profile *profile; /* NULL: no samples */
	struct top_counts counts;
};

/* Drops the oldest slices that are not needed to cover the span. */
static void top_window_drop_old(struct top_window *window)
{
	int64_t covered = 0;
	size_t first = window->count;

	while (first > 0 && (first == window->count || covered < window->span_ns))
		covered += window->slices[--first].counts.duration_ns;
	for (size_t i = 0; i < first; i++)
		profile_free(window->slices[i].profile);
	window->count -= first;
	memmove(window->slices, window->slices + first, window->count * sizeof(*window->slices));
}

int top_window_add(struct top_window *window, struct profile *profile,
		   const struct top_counts *counts)
{
	if (array_reserve(&window->slices, &window->capacity, window->count, 1,
			  sizeof(*window->slices))) {
		profile_free(profile);
		return -ENOMEM;
	}
	window->slices[window->count++] = (struct top_slice){profile, *counts};
	top_window_drop_old(window);
	return 0;
}

int top_window_sum(const struct top_window *window, struct profile **sum, struct top_counts *counts)
{
	struct profile *profile = profile_new();
	int err = profile ? 0 : -ENOMEM;

	*counts = (struct top_counts){0};
	if (profile)
		profile_set_recorded_types(profile);
	for (size_t i = 0; i < window->count && !err; i++) {
		const struct top_slice *slice = &window->slices[i];

		if (slice->profile)
			err = profile_merge(profile, slice->profile);
		if (!i)
			counts->start_ns = slice->counts.start_ns;
		counts->duration_ns += slice->counts.duration_ns;
		counts->samples += slice->counts.samples;
		counts->lost += slice->counts.lost;
		counts->truncated += slice->counts.truncated;
		counts->overhead_ns += slice->counts.overhead_ns;
		counts->rate = slice->counts.rate;
		counts->cpus = slice->counts.cpus;
	}
	if (err) {
		profile_free(profile);
		return -ENOMEM;
	}
	profile->time_ns = counts->start_ns;
	profile->duration_ns = counts->duration_ns;
	profile->period = counts->rate ? 1000000000 / counts->rate : 0;
	*sum = profile;
	return 0;
}

void top_window_clear(struct top_window *window)
{
	for (size_t i = 0; i < window->count; i++)
		profile_free(window->slices[i].profile);
	free(window->slices);
	*window = (struct top_window){.span_ns = window->span_ns};
}

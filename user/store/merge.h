/* SPDX-License-Identifier: GPL-2.0 */
/* Merges windows into one, which lists its sources. */
#ifndef STACKBEAT_STORE_MERGE_H
#define STACKBEAT_STORE_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/window_name.h"

struct profile;

struct merge {
	struct profile *profile;
	struct window_name *sources;
	size_t count, capacity;
	uint64_t lost; /* samples lost in all windows */
	int64_t start_ns, duration_ns; /* the first start; the sum */
};

/* Begins a merge. Returns 0 or -ENOMEM; merge_clear() is to be called in both cases. */
int merge_init(struct merge *merge);
void merge_clear(struct merge *merge);

/*
 * Adds the samples of a window; with a `name`, the merged window lists it as a source. Returns 0,
 * -EINVAL with nothing added if its values are of other types, or -ENOMEM.
 */
int merge_add(struct merge *merge, const struct profile *window, const struct window_name *name);

/* Completes merge->profile: its times and comments. Returns 0 or -ENOMEM. */
int merge_finish(struct merge *merge);

/* Returns whether a merged window lists a source. */
bool merge_contains(const struct profile *merged, const struct window_name *source);

/*
 * Adds the comments of `from` that name its source of samples to `to`, each once. An error stays in
 * to->error.
 */
void merge_copy_source(struct profile *to, const struct profile *from);

/* Returns the number of lost samples that the comments of a window give; 0 if they give none. */
uint64_t merge_lost(const struct profile *window);

#endif

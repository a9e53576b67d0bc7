/* SPDX-License-Identifier: GPL-2.0 */
/* Puts profiles of successive times together: for an answer, or a window of the store. */
#ifndef STACKBEAT_SERVE_SUM_H
#define STACKBEAT_SERVE_SUM_H

#include <stdint.h>

struct profile;
struct profile_selection;

struct sum {
	struct profile *profile;
	const struct profile_selection *selection;
	uint64_t lost;
	int64_t start_ns, duration_ns;
};

/*
 * Begins a sum of what `selection` selects. Returns 0 or -ENOMEM. The caller frees sum->profile in
 * both cases.
 */
int sum_init(struct sum *sum, const struct profile_selection *selection);

/* Adds the samples of a profile. Returns 0, -EINVAL for one with other value types, or -ENOMEM. */
int sum_add(struct sum *sum, const struct profile *part);

/* Adds a time: of a profile, or without samples. */
void sum_add_time(struct sum *sum, int64_t start_ns, int64_t duration_ns);

/*
 * Sets times and comments; a profile without samples is a valid one, too. Returns 0 or a negative
 * errno value of the profile.
 */
int sum_finish(struct sum *sum);

#endif

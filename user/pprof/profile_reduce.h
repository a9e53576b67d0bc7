/* SPDX-License-Identifier: GPL-2.0 */
/* Merges the lightest samples of a profile, so that it has few samples. */
#ifndef STACKBEAT_PPROF_PROFILE_REDUCE_H
#define STACKBEAT_PPROF_PROFILE_REDUCE_H

#include <stddef.h>

struct profile;

/* Name of the function that stands for the callers, or for the stacks, that were merged. */
#define REDUCED_NAME "[merged]"

/*
 * Sets *into to a new profile with at most `max` samples (at least 2), and the same sums of all
 * values. The lightest samples, by the default value type, keep their labels and their leaf if that
 * is enough, and else nothing. Comments are not kept, but for one with the number of samples that
 * were merged. A profile with at most `max` samples is not copied: *into is NULL. Returns 0 or
 * -ENOMEM.
 */
int profile_reduce(const struct profile *profile, size_t max, struct profile **into);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finishes an offline-symbolized stackbeat profile: the result equals a profile symbolized while
 * recording.
 */
#ifndef STACKBEAT_SYMBOLIZE_NORMALIZE_H
#define STACKBEAT_SYMBOLIZE_NORMALIZE_H

#include <stdbool.h>

struct pprof_profile;

/* Whether stackbeat wrote the profile. */
bool normalize_is_own(const struct pprof_profile *profile);

/*
 * Writes the release of the kernel that the profile was recorded on, from the first comment.
 * Returns false, with "" in `release`, if the comment has none.
 */
#define NORMALIZE_RELEASE_SIZE 128u
bool normalize_release(const struct pprof_profile *profile, char release[NORMALIZE_RELEASE_SIZE]);

/*
 * Removes from the samples the frames above the root of the user stack, and the locations marked
 * in `elided` (by ID - 1). Equal samples are merged, unreferenced locations, mappings and functions
 * removed, and the labels and comments on truncated stacks updated. Returns 0, or -ENOMEM; the
 * profile may only be freed then.
 */
int normalize_samples(struct pprof_profile *profile, const bool *elided);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Makes a profile of stackbeat's that was named later what it would be if it had been named at
 * once. */
#ifndef STACKBEAT_SYMBOLIZE_NORMALIZE_H
#define STACKBEAT_SYMBOLIZE_NORMALIZE_H

#include <stdbool.h>

struct pprof_profile;

/* Whether stackbeat wrote it. */
bool normalize_is_own(const struct pprof_profile *profile);

/*
 * The release of the kernel that it was taken on, as the first comment has it. False, with
 * `release` "", where that does not say.
 */
#define NORMALIZE_RELEASE_SIZE 128u
bool normalize_release(const struct pprof_profile *profile, char release[NORMALIZE_RELEASE_SIZE]);

/*
 * Leaves out of the samples what lies above the root of their user part, and the locations
 * whose number - 1 is marked in `hidden`; samples that are equal then become one, and what
 * nothing refers to goes. The comments and labels on cut stacks follow. Returns 0, or
 * -ENOMEM, and then the profile may only be freed.
 */
int normalize_samples(struct pprof_profile *profile, const bool *hidden);

#endif

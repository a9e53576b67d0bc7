/* SPDX-License-Identifier: GPL-2.0 */
/* The first comment of a profile: the program and the kernel that it was recorded with. */
#ifndef STACKBEAT_PPROF_ORIGIN_H
#define STACKBEAT_PPROF_ORIGIN_H

#include <stdbool.h>

struct profile;
struct utsname;

#define ORIGIN_RELEASE_SIZE 128u

/* Adds the comment to a profile without comments. */
void origin_add(struct profile *profile, const struct utsname *kernel);

/* Whether stackbeat recorded the profile. */
bool origin_is_own(const struct profile *profile);

/*
 * Writes the release of the kernel that the profile was recorded on, which is no path. Returns
 * false, with "" in `release`, if the profile does not have it.
 */
bool origin_release(const struct profile *profile, char release[ORIGIN_RELEASE_SIZE]);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The comments of a profile, for people. */
#ifndef STACKBEAT_REPORT_PROFILE_NOTES_H
#define STACKBEAT_REPORT_PROFILE_NOTES_H

#include <stdbool.h>
#include <stdio.h>

struct profile;

/*
 * Prints what is missing in a recording: the comments on losses, truncated stacks and throttling,
 * without the counters that are zero, a line each; nothing if all are. `all`: all comments as they
 * are, of any profile.
 */
void profile_notes_print(const struct profile *profile, bool all, FILE *out);

#endif

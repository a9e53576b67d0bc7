/* SPDX-License-Identifier: GPL-2.0 */
/* Finishes a profile of stackbeat whose locations were symbolized. */
#ifndef STACKBEAT_SYMBOLIZE_NORMALIZE_H
#define STACKBEAT_SYMBOLIZE_NORMALIZE_H

#include <stdbool.h>

struct profile;
struct truncation_counts;

/*
 * Removes from the stacks the frames above the root of the user part, and elided locations. A
 * complete stack loses the label of truncated ones, as do all with `drop_label`. Mappings that
 * differ only in their place are one then, unless they are of files without build IDs; so are
 * equal locations and samples. Creators of goroutines get their text (go_creators.h). Entries that
 * no sample refers to are removed. Sets `counts` for all samples, and writes them to the comments
 * that have them.
 *
 * Returns 0, or -ENOMEM; then the samples are as before (see profile->error).
 */
int normalize_profile(struct profile *profile, bool drop_label, struct truncation_counts *counts);

#endif

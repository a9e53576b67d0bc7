/* SPDX-License-Identifier: GPL-2.0 */
/* A profile as folded stacks: a line "root;...;leaf VALUE" for each stack, as flamegraph.pl reads.
 */
#ifndef STACKBEAT_REPORT_FOLDED_H
#define STACKBEAT_REPORT_FOLDED_H

#include <stddef.h>
#include <stdio.h>

struct error;
struct profile;

/*
 * Prints the values of `type` (index) of the profile, the sum of the samples of each stack, in the
 * order of the call tree. The values add up to the total of the profile: samples without frames
 * have a line, too. Names have no effects on a terminal. Returns 0, or an error of calltree_new().
 * The caller checks `out` for write errors.
 */
int print_folded(const struct profile *profile, size_t type, FILE *out, struct error *error);

#endif

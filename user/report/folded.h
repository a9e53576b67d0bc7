/* SPDX-License-Identifier: GPL-2.0 */
/* A profile as folded stacks: a line "root;...;leaf VALUE" for each stack, as flamegraph.pl reads.
 */
#ifndef STACKBEAT_REPORT_FOLDED_H
#define STACKBEAT_REPORT_FOLDED_H

#include <stddef.h>
#include <stdio.h>

struct profile;

/*
 * Prints the value of `type` (index) of each sample of the profile. Stacks with different labels
 * have lines of their own. Names have no effects on a terminal. Returns 0 or -ENOMEM. The caller
 * checks `out` for write errors.
 */
int print_folded(const struct profile *profile, size_t type, FILE *out);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A profile for the viewer speedscope. Source:
 * https://github.com/jlfwong/speedscope/blob/main/src/lib/file-format-spec.ts
 */
#ifndef STACKBEAT_REPORT_SPEEDSCOPE_H
#define STACKBEAT_REPORT_SPEEDSCOPE_H

#include <stddef.h>
#include <stdio.h>

struct profile;

/*
 * Prints a document with one "sampled" profile: the value of `type` (index) of each sample, without
 * labels. A value that is not positive has no width, and is left out. Returns 0 or -ENOMEM. The
 * caller checks `out` for write errors.
 */
int print_speedscope(const struct profile *profile, size_t type, FILE *out);

#endif

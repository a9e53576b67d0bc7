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
struct trace;

/*
 * Prints a document with one "sampled" profile: the value of `type` (index) of each sample, without
 * labels. A value that is not positive has no width, and is left out. Returns 0 or -ENOMEM. The
 * caller checks `out` for write errors.
 */
int print_speedscope(const struct profile *profile, size_t type, FILE *out);

/*
 * Prints a document with a profile for each thread, and one for each CPU, in order of time: a
 * sample is as wide as the time that it stands for (trace_begin()), and a sample without frames is
 * a time in which the thread did not run. `name`: of the document. Returns 0 or -ENOMEM.
 */
int print_speedscope_trace(const struct trace *trace, const char *name, FILE *out);

#endif

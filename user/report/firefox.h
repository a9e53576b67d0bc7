/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A trace for the Firefox Profiler, in version 56 of its processed format. Source:
 * https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md and
 * src/types/profile.ts there.
 */
#ifndef STACKBEAT_REPORT_FIREFOX_H
#define STACKBEAT_REPORT_FIREFOX_H

#include <stdio.h>

struct trace;

/*
 * Prints a document with the threads of each process, and with the CPUs as threads of a process of
 * their own. Where a thread did not run, it has a sample without a stack. `name`: of the document.
 * Returns 0 or -ENOMEM. The caller checks `out` for write errors.
 */
int print_firefox(const struct trace *trace, const char *name, FILE *out);

#endif

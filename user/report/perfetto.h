/* SPDX-License-Identifier: GPL-2.0 */
/* A trace for Perfetto: a protobuf trace of perf samples; perfetto.proto has the format. */
#ifndef STACKBEAT_REPORT_PERFETTO_H
#define STACKBEAT_REPORT_PERFETTO_H

#include <stdio.h>

struct trace;

/*
 * Writes a trace with the samples of the threads, each with its CPU and call stack. Returns 0 or
 * -ENOMEM. The caller checks `out` for write errors.
 */
int write_perfetto(const struct trace *trace, FILE *out);

#endif

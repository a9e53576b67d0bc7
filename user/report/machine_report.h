/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tables of text_report.h for programs, as JSON or as CSV (RFC 4180). Both have the same
 * columns, which the man page describes: a change of a known column needs another number in
 * MACHINE_REPORT_SCHEMA.
 */
#ifndef STACKBEAT_REPORT_MACHINE_REPORT_H
#define STACKBEAT_REPORT_MACHINE_REPORT_H

#include <stdio.h>

#include "lib/error.h"

struct profile;
struct report_options;

#define MACHINE_REPORT_SCHEMA "stackbeat-report/1"

enum machine_format { MACHINE_JSON, MACHINE_CSV };

/*
 * Returns the name of the first of the keys, which have commas between them, that is another column
 * of the table of functions; NULL: none is.
 */
const char *machine_report_column_among(const char *keys);

/*
 * Print what report_top(), report_diff(), report_calls() and report_tree() show, with all rows
 * unless the options limit them. Return as these do. The caller checks `out` for write errors.
 */
int machine_report_top(const struct profile *profile, const struct report_options *options,
		       enum machine_format format, FILE *out, struct error *error);
int machine_report_diff(const struct profile *profile, const struct report_options *options,
			enum machine_format format, FILE *out, struct error *error);
int machine_report_calls(const struct profile *profile, const struct report_options *options,
			 enum machine_format format, FILE *out, struct error *error);
int machine_report_tree(const struct profile *profile, const struct report_options *options,
			enum machine_format format, FILE *out, struct error *error);

#endif

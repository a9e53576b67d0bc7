/* SPDX-License-Identifier: GPL-2.0 */
/* A profile as text: its functions as a table, or its calls as a tree. */
#ifndef STACKBEAT_REPORT_TEXT_REPORT_H
#define STACKBEAT_REPORT_TEXT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/error.h"
#include "pprof/pprof_reader.h"

struct report_options {
	const char *sample_type; /* NULL: the one that the profile wants to be shown */
	const char *group; /* of the tree: label that divides the root; NULL: none */
	size_t rows; /* the most there may be; 0: all */
	double min_percent; /* of the tree: what has less of the total is left out */
	bool raw_values; /* integers in the unit of the profile, for programs */
};

/*
 * Prints the functions in which most is spent, in the manner of `pprof -top`, to `out`.
 * The caller checks `out` for write errors. Returns 0, -EINVAL (no such sample type)
 * or -ENOMEM.
 */
int report_top(const struct pprof_profile *profile, const struct report_options *options, FILE *out,
	       struct error *error);

/*
 * Prints the calls as a tree from the root to the leaves. What has one successor only is
 * followed by it in the next line, without an indent. Returns as report_top().
 */
int report_tree(const struct pprof_profile *profile, const struct report_options *options,
		FILE *out, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* A profile as text: a table of functions, or a call tree. */
#ifndef STACKBEAT_REPORT_TEXT_REPORT_H
#define STACKBEAT_REPORT_TEXT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/error.h"

struct profile;

struct report_options {
	const char *sample_type; /* NULL: the default of the profile */
	const char *group; /* of the tree: label that divides the root; NULL: none */
	size_t rows; /* maximum number; 0: all */
	double min_percent; /* of the tree: calls below this part of the total are omitted */
	bool raw_values; /* integers in the unit of the profile, for programs */
};

/*
 * Prints the functions with the largest values to `out`, as `pprof -top` does. The caller checks
 * `out` for write errors. Returns 0, -EINVAL (no such sample type)
 * or -ENOMEM.
 */
int report_top(const struct profile *profile, const struct report_options *options, FILE *out,
	       struct error *error);

/*
 * Prints the call tree from the root to the leaves. An only child is printed in the next line
 * without indentation. Returns as report_top().
 */
int report_tree(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error);

#endif

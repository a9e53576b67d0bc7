/* SPDX-License-Identifier: GPL-2.0 */
/* A profile, or its difference from another one, as text: a table of functions, or a call tree. */
#ifndef STACKBEAT_REPORT_TEXT_REPORT_H
#define STACKBEAT_REPORT_TEXT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/error.h"

struct profile;
struct profile_diff;
struct profile_diff_limit;

struct report_options {
	const char *sample_type; /* NULL: the default of the profile */
	const struct profile *base; /* to compare the profile with; NULL: none */
	bool absolute; /* do not scale the profile to the total of the base */
	/*
	 * Keys, with commas in between, of which the names of functions are made, with
	 * KEY_SEPARATOR in between: machine_report_top() gives each a column. NULL: functions.
	 */
	const char *keys;
	const char *group; /* label that divides the root, or the table; NULL: none */
	const char *function; /* of which callers or callees are shown; NULL: none */
	bool callers; /* of this function, not callees */
	/*
	 * The totals of the profile and of the base before samples were chosen, to which
	 * percentages refer; 0: what is left.
	 */
	int64_t whole, base_whole;
	bool all; /* differences that are noise, too */
	const struct profile_diff_limit *limits; /* of differences */
	size_t limit_count;
	size_t *exceeded; /* increased for each row that is beyond a limit; NULL: no limits */
	size_t rows; /* maximum number; 0: all */
	double min_percent; /* of the tree: calls below this part of the total are omitted */
	bool limits_top; /* min_percent is for functions, too: their cum */
	bool raw_values; /* integers in the unit of the profile, for programs */
	bool verbose; /* all comments of the profile, not only what it lacks */
	bool ascii; /* branches of the tree and ellipses without UTF-8 */
	bool colors; /* escape sequences for the colors of a terminal */
	size_t columns; /* names are shortened to these; 0: they are whole */
};

/*
 * Prints a line about the profile, the functions with the largest values as `pprof -top` does, in a
 * table for each group, and
 * what the profile lacks to `out`. The caller checks
 * `out` for write errors. Returns 0, -EINVAL (no such sample type), -ENODATA (nothing
 * to compare) or -ENOMEM.
 */
int report_top(const struct profile *profile, const struct report_options *options, FILE *out,
	       struct error *error);

/*
 * Prints the functions that differ from the base by more than noise (profile_diff.h), with the
 * interval of each difference. Returns as report_top().
 */
int report_diff(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error);

/*
 * Prints the callers or callees of options->function, without a base or groups. Returns as
 * report_top(), and -ENOENT if there is no such function.
 */
int report_calls(const struct profile *profile, const struct report_options *options, FILE *out,
		 struct error *error);

/*
 * Prints the call tree from the root to the leaves, or from options->function to the leaves or to
 * the root. An only child is printed in the next line
 * without indentation. With a base, a line has the percentages of the base and of the profile, and
 * the difference. Returns as report_calls().
 */
int report_tree(const struct profile *profile, const struct report_options *options, FILE *out,
		struct error *error);

#endif

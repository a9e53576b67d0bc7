/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of two profiles with their differences, and which of these are noise. */
#ifndef STACKBEAT_REPORT_PROFILE_DIFF_H
#define STACKBEAT_REPORT_PROFILE_DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/call_tree.h"
#include "report/noise.h"

struct profile_diff_row {
	struct calltree_function function;
	struct noise_difference flat, cum; /* as parts of the total of the base */
	bool flat_is_real, cum_is_real; /* no noise */
};

/* Of one of the profiles. */
struct profile_diff_side {
	double samples;
	size_t blocks; /* of time; 0: not known */
};

struct profile_diff {
	struct profile_diff_row *rows; /* that differ; sorted as by calltree_functions() */
	size_t count;
	size_t real; /* rows that are no noise */
	double whole; /* of the base, to which changes refer */
	struct profile_diff_side now, base;
};

/*
 * Compares the functions of the tree of a profile and its base, which was made with these options
 * and the group LABEL_BLOCK_KEY. Returns 0, and profile_diff_clear() must follow, or -ENOMEM.
 */
int profile_diff_make(const struct profile *profile, const struct calltree_options *options,
		      const struct calltree *tree, struct profile_diff *diff);
void profile_diff_clear(struct profile_diff *diff);

/* A change of a function's cum that fails a check. */
struct profile_diff_limit {
	const char *text; /* as it was given: "REGEX>+P%" or "REGEX<-P%" */
	const void *regex; /* regex_t */
	double percent; /* of the total of the base; with a minus sign, also -0: a decrease */
};

/*
 * Prints a line to standard error for each row that is no noise and beyond a limit, and increases
 * *exceeded, which may be NULL without limits.
 */
void profile_diff_check(const struct profile_diff *diff, const struct calltree *tree,
			const struct profile_diff_limit *limits, size_t count, size_t *exceeded);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether a function's share differs between two profiles by more than noise.
 *
 * Samples of a thread are correlated: a loop that runs for a second gives a hundred equal samples,
 * which are no hundred independent ones. So the variance of a share comes from blocks of time,
 * which are long enough to be nearly independent, as a ratio of sums over clusters (Cochran,
 * Sampling Techniques, 3rd ed., 6.3 and 9A.4), and is at least as large as if samples were
 * independent. Without blocks, the variance of independent samples is multiplied by
 * NOISE_DESIGN_EFFECT.
 *
 * The difference of two shares is compared with its standard error by Welch's t-test. Among many
 * functions, some differ by chance: Holm's method (Scand. J. Statist. 6, 1979) bounds the
 * probability that any of the equal ones is reported.
 */
#ifndef STACKBEAT_REPORT_NOISE_H
#define STACKBEAT_REPORT_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fewer blocks have no variance that is worth anything. */
#define NOISE_BLOCKS_MIN 8u
#define NOISE_DESIGN_EFFECT 10.0
/* The probability that any row of a comparison of equal programs is no noise. */
#define NOISE_FALSE_ALARMS 0.01
/* Of the interval of each row. */
#define NOISE_CONFIDENCE 0.95

/* A function in one profile. */
struct noise_share {
	const int64_t *values; /* of the function in each block */
	const int64_t *totals; /* of all functions in each block */
	size_t blocks;
	double value, total; /* sums over the blocks */
	double samples; /* number, of all functions */
};

/* The difference of two shares. */
struct noise_difference {
	double change; /* of the share: the new one minus the old one */
	double error; /* standard error of the change */
	double freedom; /* degrees of freedom of the error */
	double p; /* probability of such a difference, or a larger one, between equal programs */
};

/* Compares the share of a function in two profiles with samples. */
void noise_compare(const struct noise_share *old, const struct noise_share *now,
		   struct noise_difference *difference);

/* Returns the half of the interval around the change, with NOISE_CONFIDENCE. */
double noise_interval(const struct noise_difference *difference);

/*
 * Sets is_real[i] if the difference with p[i] is no noise, among `tests` differences; those that
 * are not in the array have a p of 1. Returns 0 or -ENOMEM.
 */
int noise_select(const double *p, size_t count, size_t tests, bool *is_real);

/*
 * The probability that a value with Student's t-distribution is outside of +-t. `freedom`: degrees
 * of freedom.
 */
double noise_student(double t, double freedom);

#endif

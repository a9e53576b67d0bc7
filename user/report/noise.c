// SPDX-License-Identifier: GPL-2.0
#include "report/noise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Above it, Student's distribution is the normal one. */
#define FREEDOM_MAX 1e6

/*
 * The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method in the
 * form of Thompson and Barnett (J. Comput. Phys. 64, 1986).
 */
static double beta_fraction(double x, double a, double b)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), result;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	result = d;
	for (int m = 1; m < 1000; m++) {
		for (int odd = 0; odd < 2; odd++) {
			const double term =
				odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
				    : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));

			d = 1 + term * d;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = 1 + term / c;
			c = fabs(c) < tiny ? tiny : c;
			result *= c * d;
		}
		if (fabs(c * d - 1) < 1e-14)
			break;
	}
	return result;
}

/* The regularized incomplete beta function I_x(a, b). */
static double incomplete_beta(double x, double a, double b)
{
	double factor;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return factor * beta_fraction(x, a, b) / a;
	return 1 - factor * beta_fraction(1 - x, b, a) / b;
}

double noise_student(double t, double freedom)
{
	if (freedom >= FREEDOM_MAX)
		return erfc(fabs(t) / M_SQRT2);
	return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

/* The t outside of which the probability is `p`, by bisection. */
static double student_limit(double p, double freedom)
{
	double low = 0, high = 1;

	while (noise_student(high, freedom) > p && high < 1e6)
		high *= 2;
	for (int i = 0; i < 60; i++) {
		const double middle = (low + high) / 2;

		if (noise_student(middle, freedom) > p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* The variance of a share, and its degrees of freedom. `pooled` is the share in both profiles. */
static double share_variance(const struct noise_share *share, double pooled, double *freedom)
{
	const double independent = pooled * (1 - pooled) / share->samples;
	const double blocks = (double)share->blocks;
	double sum = 0;

	if (share->blocks < NOISE_BLOCKS_MIN) {
		*freedom = FREEDOM_MAX;
		return independent * NOISE_DESIGN_EFFECT;
	}
	for (size_t i = 0; i < share->blocks; i++) {
		const double rest = (double)share->values[i] -
				    share->value / share->total * (double)share->totals[i];

		sum += rest * rest;
	}
	sum *= blocks / (blocks - 1) / (share->total * share->total);
	*freedom = blocks - 1;
	return fmax(sum, independent);
}

void noise_compare(const struct noise_share *old, const struct noise_share *now,
		   struct noise_difference *difference)
{
	const double samples = old->samples + now->samples;
	const double before = old->value / old->total, after = now->value / now->total;
	const double pooled =
		fmin(fmax((before * old->samples + after * now->samples) / samples, 0), 1);
	double old_freedom, now_freedom;
	const double old_variance = share_variance(old, pooled, &old_freedom);
	const double now_variance = share_variance(now, pooled, &now_freedom);
	const double variance = old_variance + now_variance;

	difference->change = after - before;
	difference->error = 0;
	difference->freedom = FREEDOM_MAX;
	difference->p = 1;
	if (variance <= 0)
		return;
	/* Welch and Satterthwaite. */
	if (fmin(old_freedom, now_freedom) < FREEDOM_MAX)
		difference->freedom = variance * variance /
				      (old_variance * old_variance / old_freedom +
				       now_variance * now_variance / now_freedom);
	difference->error = sqrt(variance);
	difference->p = noise_student(difference->change / difference->error, difference->freedom);
}

double noise_interval(const struct noise_difference *difference)
{
	return difference->error * student_limit(1 - NOISE_CONFIDENCE, difference->freedom);
}

static int compare_probabilities(const void *left, const void *right)
{
	const double a = **(const double *const *)left, b = **(const double *const *)right;

	return (a > b) - (a < b);
}

int noise_select(const double *p, size_t count, size_t tests, bool *is_real)
{
	const double **order = calloc(count + 1, sizeof(*order));
	size_t i;

	if (!order)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		order[i] = &p[i];
		is_real[i] = false;
	}
	qsort(order, count, sizeof(*order), compare_probabilities);
	/* The smallest is compared with a part of all tests, the next one with a part of the rest.
	 */
	for (i = 0; i < count && *order[i] * (double)(tests - i) <= NOISE_FALSE_ALARMS; i++)
		is_real[order[i] - p] = true;
	free(order);
	return 0;
}

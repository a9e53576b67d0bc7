// SPDX-License-Identifier: GPL-2.0
/* Differences of profiles: equal programs raise no alarm, a changed one is found. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/noise.h"

#define FUNCTIONS 10000
#define BLOCKS 32
#define SAMPLES 100000
/* Functions keep running for this many samples, on average. */
#define STAY 8

static uint64_t state_of_random;

/* SplitMix64: from 0 up to 1. */
static double random_number(void)
{
	uint64_t x = (state_of_random += UINT64_C(0x9e3779b97f4a7c15));

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (double)((x ^ x >> 31) >> 11) / 0x1p53;
}

/* Rank r has a share of nearly 1/r: the inverse of the distribution's integral. */
static size_t random_function(void)
{
	return (size_t)pow(FUNCTIONS, random_number()) - 1;
}

struct recording {
	int64_t values[FUNCTIONS][BLOCKS];
	int64_t totals[BLOCKS];
};

static struct recording recordings[2];

/* Samples a program in which functions stay; function 50 has `more` of the time. */
static void record(struct recording *recording, double more)
{
	size_t function = 0;

	memset(recording, 0, sizeof(*recording));
	for (size_t i = 0; i < SAMPLES; i++) {
		if (random_number() * STAY < 1)
			function = random_number() < more ? 50 : random_function();
		recording->values[function][i * BLOCKS / SAMPLES]++;
		recording->totals[i * BLOCKS / SAMPLES]++;
	}
}

static struct noise_share share_of(const struct recording *recording, size_t function,
				   size_t blocks)
{
	struct noise_share share = {
		.values = recording->values[function],
		.totals = recording->totals,
		.blocks = blocks,
		.total = SAMPLES,
		.samples = SAMPLES,
	};

	for (size_t i = 0; i < BLOCKS; i++)
		share.value += (double)recording->values[function][i];
	return share;
}

/* Compares both recordings. Returns the number of alarms; *found: one of them is function 50. */
static size_t count_alarms(size_t blocks, bool *found)
{
	static double p[FUNCTIONS];
	static bool is_real[FUNCTIONS];
	static size_t functions[FUNCTIONS];
	size_t count = 0, alarms = 0;

	*found = false;
	for (size_t i = 0; i < FUNCTIONS; i++) {
		const struct noise_share old = share_of(&recordings[0], i, blocks);
		const struct noise_share now = share_of(&recordings[1], i, blocks);
		struct noise_difference difference;

		if (!old.value && !now.value)
			continue;
		noise_compare(&old, &now, &difference);
		functions[count] = i;
		p[count++] = difference.p;
	}
	assert_int_equal(noise_select(p, count, FUNCTIONS, is_real), 0);
	for (size_t i = 0; i < count; i++) {
		alarms += is_real[i];
		*found |= is_real[i] && functions[i] == 50;
	}
	return alarms;
}

/* In 100 comparisons of a program with itself, with 10,000 functions each, at most one. */
static void equal_programs_raise_no_alarm(void **state)
{
	size_t with_blocks = 0, without_blocks = 0;
	bool found;

	(void)state;
	state_of_random = 1;
	for (int i = 0; i < 100; i++) {
		record(&recordings[0], 0);
		record(&recordings[1], 0);
		with_blocks += count_alarms(BLOCKS, &found) > 0;
		without_blocks += i < 10 && count_alarms(0, &found) > 0;
	}
	assert_in_range(with_blocks, 0, 1);
	assert_int_equal(without_blocks, 0);
}

/* Two percent of all samples, and not by chance: in each of 20 comparisons. */
static void two_percent_are_found(void **state)
{
	bool found;

	(void)state;
	state_of_random = 2;
	for (int i = 0; i < 20; i++) {
		record(&recordings[0], 0);
		record(&recordings[1], 0.02);
		count_alarms(BLOCKS, &found);
		assert_true(found);
	}
}

/* A block in which a function happens to run all the time is one event, not many. */
static void correlated_samples_are_noise(void **state)
{
	int64_t never[BLOCKS] = {0}, once[BLOCKS] = {0}, always[BLOCKS], totals[BLOCKS];
	struct noise_share old = {never, totals, BLOCKS, 0, 3200, 3200};
	struct noise_share now = {once, totals, BLOCKS, 100, 3200, 3200};
	struct noise_difference difference;

	(void)state;
	once[7] = 100;
	for (size_t i = 0; i < BLOCKS; i++) {
		totals[i] = 100;
		always[i] = i % 2 ? 3 : 4;
	}
	noise_compare(&old, &now, &difference);
	assert_true(difference.p > 0.2);
	assert_true(fabs(difference.change - 100.0 / 3200) < 1e-12);
	assert_true(noise_interval(&difference) > difference.change);
	now.values = always;
	now.value = 112;
	noise_compare(&old, &now, &difference);
	assert_true(difference.p < 1e-6);
	assert_true(noise_interval(&difference) < difference.change);
	/* Without blocks, the difference has to be larger. */
	old.blocks = now.blocks = 0;
	noise_compare(&old, &now, &difference);
	assert_true(difference.p > 1e-6);
	/* Nothing differs from itself, and a function with all samples neither. */
	noise_compare(&now, &now, &difference);
	assert_true(difference.p == 1 && difference.change == 0);
	now.value = now.total;
	noise_compare(&now, &now, &difference);
	assert_true(difference.p == 1 && noise_interval(&difference) == 0);
}

/* Values of tables of the t-distribution. */
static void probabilities_are_students(void **state)
{
	static const struct {
		double t, freedom, p;
	} values[] = {
		{12.706, 1, 0.05},  {2.228, 10, 0.05},  {4.587, 10, 0.001}, {2.750, 30, 0.01},
		{1.960, 2e6, 0.05}, {-2.228, 10, 0.05}, {0, 7, 1},          {3.551, 60, 0.00075},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_true(fabs(noise_student(values[i].t, values[i].freedom) - values[i].p) <
			    values[i].p / 100);
}

static void many_tests_need_smaller_probabilities(void **state)
{
	const double p[] = {0.9, 0.0049, 0.0001, 0.006, 0.5};
	bool is_real[5];

	(void)state;
	assert_int_equal(noise_select(p, 5, 5, is_real), 0);
	assert_true(is_real[2] && !is_real[1] && !is_real[3]);
	assert_int_equal(noise_select(p, 3, 3, is_real), 0);
	assert_true(is_real[2] && is_real[1] && !is_real[0]);
	assert_int_equal(noise_select(p, 3, 1000, is_real), 0);
	assert_false(is_real[2]);
	assert_int_equal(noise_select(p, 0, 0, is_real), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probabilities_are_students),
		cmocka_unit_test(many_tests_need_smaller_probabilities),
		cmocka_unit_test(correlated_samples_are_noise),
		cmocka_unit_test(equal_programs_raise_no_alarm),
		cmocka_unit_test(two_percent_are_found),
	};

	return cmocka_run_group_tests_name("noise", tests, NULL, NULL);
}

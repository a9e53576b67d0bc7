// SPDX-License-Identifier: GPL-2.0
/* Sums stay exact, the heaviest samples stay whole, and the number of samples is bounded. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pprof/profile.h"
#include "pprof/profile_reduce.h"
#include "sample_profile.h"

#define SAMPLES 64u

/* Stacks of `leaf`, a caller of its own and main, with values that fall from SAMPLES to 1. */
static struct profile *make_profile(unsigned int leaves)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/app", "aabb");
	uint32_t main = example_location(profile, app, 0x400100, NULL, "main");
	const uint32_t label = example_label(profile, "comm", "app");

	profile->time_ns = 7;
	for (unsigned int i = 0; i < SAMPLES; i++) {
		char name[32];
		uint32_t stack[3];

		snprintf(name, sizeof(name), "leaf%u", i % leaves);
		stack[0] = example_location(profile, app, 0x401000 + i % leaves, NULL, name);
		snprintf(name, sizeof(name), "caller%u", i);
		stack[1] = example_location(profile, app, 0x402000 + i, NULL, name);
		stack[2] = main;
		example_add(profile, stack, 3, SAMPLES - i, (SAMPLES - i) * 10, &label, 1);
	}
	return profile;
}

static int64_t sum_of(const struct profile *profile, size_t type)
{
	int64_t sum = 0;

	for (size_t i = 0; i < profile->samples.count; i++)
		sum += profile_values(profile, i)[type];
	return sum;
}

static const char *name_of(const struct profile *profile, size_t sample, uint32_t frame)
{
	const uint32_t *locations =
		profile_stack_locations(profile, profile->samples.items[sample].stack);
	const struct profile_location *location = &profile->locations.items[locations[frame]];

	return profile_text(
		profile, profile->functions.items[profile_lines(profile, location)->function].name);
}

/* What stands for the merged frames is no code: it has a name, but neither address nor mapping. */
static void assert_merged(const struct profile *profile, size_t sample, uint32_t frame)
{
	const uint32_t *locations =
		profile_stack_locations(profile, profile->samples.items[sample].stack);
	const struct profile_location *location = &profile->locations.items[locations[frame]];

	assert_int_equal(location->mapping, 0);
	assert_int_equal(location->address, 0);
	assert_int_equal(location->line_count, 1);
	assert_string_equal(name_of(profile, sample, frame), REDUCED_NAME);
}

static uint32_t depth_of(const struct profile *profile, size_t sample)
{
	return profile->stacks.items[profile->samples.items[sample].stack].count;
}

/* Reduces, and checks what holds for all. Returns the number of whole samples. */
static unsigned int reduce(unsigned int leaves, size_t max, struct profile **reduced)
{
	struct profile *profile = make_profile(leaves);
	unsigned int whole = 0;
	char comment[64];

	assert_int_equal(profile_reduce(profile, max, reduced), 0);
	assert_non_null(*reduced);
	assert_in_range((*reduced)->samples.count, 1, max);
	assert_int_equal((*reduced)->time_ns, 7);
	for (size_t type = 0; type < PROFILE_RECORDED_TYPES; type++)
		assert_int_equal(sum_of(*reduced, type), sum_of(profile, type));
	for (size_t i = 0; i < (*reduced)->samples.count; i++) {
		if (depth_of(*reduced, i) != 3)
			continue;
		/* The heaviest, in their order. */
		assert_int_equal(profile_values(*reduced, i)[PROFILE_SAMPLES], SAMPLES - whole);
		assert_string_equal(name_of(*reduced, i, 2), "main");
		whole++;
	}
	snprintf(comment, sizeof(comment), "merged for the limits of a server: %u samples",
		 SAMPLES - whole);
	assert_string_equal(profile_text(*reduced, (*reduced)->comments.items[0]), comment);
	profile_free(profile);
	return whole;
}

static void leaves_stay(void **state)
{
	struct profile *reduced;
	const unsigned int whole = reduce(2, 16, &reduced);

	(void)state;
	assert_int_equal(whole, 16 - 16 / 8 - 1);
	assert_int_equal(reduced->samples.count, whole + 2);
	for (size_t i = whole; i < reduced->samples.count; i++) {
		const uint32_t set = reduced->samples.items[i].label_set;

		assert_int_equal(depth_of(reduced, i), 2);
		assert_memory_equal(name_of(reduced, i, 0), "leaf", 4);
		assert_merged(reduced, i, 1);
		assert_int_equal(reduced->label_sets.items[set].count, 1);
	}
	profile_free(reduced);
}

static void too_many_leaves_become_one(void **state)
{
	struct profile *reduced;
	const unsigned int whole = reduce(SAMPLES, 16, &reduced);
	const size_t last = reduced->samples.count - 1;

	(void)state;
	assert_int_equal(reduced->samples.count, whole + 1);
	assert_int_equal(depth_of(reduced, last), 1);
	assert_merged(reduced, last, 0);
	assert_int_equal(reduced->label_sets.items[reduced->samples.items[last].label_set].count,
			 0);
	profile_free(reduced);
}

static void small_limits_hold(void **state)
{
	struct profile *reduced;

	(void)state;
	for (size_t max = 2; max < SAMPLES; max++) {
		reduce(SAMPLES, max, &reduced);
		profile_free(reduced);
		reduce(3, max, &reduced);
		profile_free(reduced);
	}
}

static void small_profiles_are_not_copied(void **state)
{
	struct profile *profile = make_profile(2), *reduced = profile;

	(void)state;
	assert_int_equal(profile_reduce(profile, SAMPLES, &reduced), 0);
	assert_null(reduced);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_stay),
		cmocka_unit_test(too_many_leaves_become_one),
		cmocka_unit_test(small_limits_hold),
		cmocka_unit_test(small_profiles_are_not_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Blocks of time: their numbers in files, and the number of blocks. */
#include "unit.h"

#include <stdlib.h>

#include "pprof/blocks.h"
#include "sample_profile.h"

static struct profile *profile_of(const int64_t *numbers, size_t count)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 1, NULL, "f");

	for (size_t i = 0; i < count; i++) {
		uint32_t label = example_number(profile, LABEL_BLOCK_KEY, numbers[i], "block");

		example_add(profile, &location, 1, 1, 1, &label, 1);
	}
	return profile;
}

static int64_t block_number(const struct profile *profile, size_t sample)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	return profile->labels.items[*profile_set_labels(profile, set)].number;
}

static void blocks_have_numbers_from_zero(void **state)
{
	struct profile *profile = profile_of((int64_t[]){1000, 1003, 1002}, 3);

	(void)state;
	blocks_join(profile);
	assert_int_equal(block_number(profile, 0), 0);
	assert_int_equal(block_number(profile, 1), 3);
	assert_int_equal(block_number(profile, 2), 2);
	assert_int_equal(blocks_count(profile), 4);
	assert_string_equal(profile_text(profile, profile->comments.items[0]), "blocks of time: 4");
	profile_free(profile);
}

/* A long recording has the same number of blocks, which are longer. */
static void many_blocks_are_joined(void **state)
{
	struct profile *profile = profile_of((int64_t[]){5, 5 + 6399, 5 + 199, 5 + 200}, 4);

	(void)state;
	blocks_join(profile);
	assert_int_equal(block_number(profile, 0), 0);
	assert_int_equal(block_number(profile, 1), BLOCKS_KEPT - 1);
	assert_int_equal(block_number(profile, 2), 0);
	assert_int_equal(block_number(profile, 3), 1);
	assert_int_equal(blocks_count(profile), BLOCKS_KEPT);
	profile_free(profile);
}

static void other_profiles_have_no_blocks(void **state)
{
	static const int64_t hostile[][2] = {{-1, 3}, {INT64_MIN, INT64_MAX}, {0, 32}};
	struct profile *profile = example_profile();
	size_t comments = profile->comments.count;

	(void)state;
	blocks_join(profile);
	assert_int_equal(profile->comments.count, comments);
	assert_int_equal(blocks_count(profile), 0);
	profile_free(profile);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		profile = profile_of(hostile[i], 2);
		assert_int_equal(blocks_count(profile), 0);
		profile_free(profile);
	}
	/* A comment counts blocks that have lost all samples, but makes none. */
	profile = profile_of((int64_t[]){0, 5}, 2);
	profile_comment(profile, "blocks of time: 16");
	assert_int_equal(blocks_count(profile), 16);
	profile_comment(profile, "blocks of time: 99999999999999999999");
	assert_int_equal(blocks_count(profile), BLOCKS_KEPT);
	profile_free(profile);
	profile = example_profile();
	profile_comment(profile, "blocks of time: 16");
	assert_int_equal(blocks_count(profile), 0);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_have_numbers_from_zero),
		cmocka_unit_test(many_blocks_are_joined),
		cmocka_unit_test(other_profiles_have_no_blocks),
	};

	return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}

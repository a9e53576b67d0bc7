// SPDX-License-Identifier: GPL-2.0
/* Samples that are kept apart by their time: in memory, in files, and through what changes
 * profiles. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile_merge.h"
#include "pprof/profile_select.h"
#include "profile_file.h"
#include "sample_profile.h"
#include "scratch.h"

#define START INT64_C(1700000000123456789)
#define BYTES_MAX 40 /* of a moment in a file */

/* The example, with times of the samples of its first stack, but of one. */
static struct profile *timed_example(void)
{
	struct profile *profile = example_profile();

	profile_add_moment(profile, 0, START + 5, (int64_t[]){1, 12 * MS});
	profile_add_moment(profile, 2, START + 1, (int64_t[]){1, 8 * MS});
	profile_add_moment(profile, 0, START + 9, (int64_t[]){1, 10 * MS});
	profile_add_moment(profile, 2, START + 3, (int64_t[]){1, 12 * MS});
	assert_int_equal(profile->error, 0);
	return profile;
}

static const char *leaf_name(const struct profile *profile, uint32_t sample)
{
	const uint32_t location =
		*profile_stack_locations(profile, profile->samples.items[sample].stack);
	const struct profile_location *leaf = &profile->locations.items[location];

	return profile_text(profile,
			    profile->functions.items[profile_lines(profile, leaf)->function].name);
}

static void expect_moments(const struct profile *profile)
{
	static const struct {
		const char *leaf;
		int64_t time, cpu;
	} expected[] = {
		{"fib", START + 5, 12 * MS},
		{"fib", START + 9, 10 * MS},
		{"inner", START + 1, 8 * MS},
		{"inner", START + 3, 12 * MS},
	};
	size_t found = 0;

	assert_int_equal(profile->moments.count, 4);
	for (size_t i = 0; i < 4; i++) {
		for (size_t j = 0; j < 4; j++) {
			const struct profile_moment *moment = &profile->moments.items[j];
			const int64_t *values = profile_moment_values(profile, j);

			found += moment->time_ns == expected[i].time &&
				 !strcmp(leaf_name(profile, moment->sample), expected[i].leaf) &&
				 values[0] == 1 && values[1] == expected[i].cpu;
		}
	}
	assert_int_equal(found, 4);
}

static void expect_example(const struct profile *profile)
{
	int64_t samples = 0, cpu = 0;

	assert_int_equal(profile->samples.count, 5);
	for (size_t i = 0; i < profile->samples.count; i++) {
		samples += profile_values(profile, i)[0];
		cpu += profile_values(profile, i)[1];
		assert_int_equal(
			profile->label_sets.items[profile->samples.items[i].label_set].count, 2);
	}
	assert_int_equal(samples, EXAMPLE_SAMPLES);
	assert_int_equal(cpu, EXAMPLE_CPU);
}

/* A reader that does not ask for moments has samples with equal stacks as one. */
static void files_have_moments(void **state)
{
	char *path = scratch_file(state, "profile");
	struct profile *profile = timed_example(), *read;
	struct error error;

	write_profile(profile, path);
	read = read_timed_profile(path);
	expect_example(read);
	expect_moments(read);
	profile_free(read);
	read = pprof_read(path, &error);
	expect_example(read);
	assert_int_equal(read->moments.count, 0);
	profile_free(read);
	profile_free(profile);
	free(path);
}

/* Written and read again, and what is left of the sums has no time. */
static void parts_without_a_time_stay(void **state)
{
	char *path = scratch_file(state, "profile"), *again = scratch_file(state, "again");
	struct profile *profile = timed_example(), *read, *twice;

	write_profile(profile, path);
	read = read_timed_profile(path);
	assert_int_equal(profile_values(read, 0)[0], 3);
	assert_int_equal(profile_values(read, 0)[1], 30 * MS);
	write_profile(read, again);
	twice = read_timed_profile(again);
	expect_example(twice);
	expect_moments(twice);
	profile_free(twice);
	profile_free(read);
	profile_free(profile);
	free(path);
	free(again);
}

static void merged_profiles_have_the_moments_of_both(void **state)
{
	struct profile *into = profile_new(), *from = timed_example();

	(void)state;
	assert_int_equal(profile_merge(into, from), 0);
	expect_moments(into);
	assert_int_equal(profile_merge(into, from), 0);
	assert_int_equal(into->samples.count, 5);
	assert_int_equal(into->moments.count, 8);
	assert_int_equal(profile_values(into, 0)[0], 6);
	profile_free(into);
	profile_free(from);
}

/* The moments of samples that are left out are left out, too. */
static void selected_samples_keep_their_moments(void **state)
{
	const struct profile_selection all = {0};
	struct profile *into = profile_new(), *from = timed_example();
	struct profile_translation translation;

	(void)state;
	assert_int_equal(profile_select(into, from, &all), 0);
	assert_int_equal(into->moments.count, 4);
	profile_free(into);

	into = profile_new();
	assert_int_equal(profile_translation_init(&translation, into, from), 0);
	profile_translate_head(&translation);
	profile_translate_sample(&translation, 2, 0, 0);
	profile_translate_moments(&translation);
	profile_translation_clear(&translation);
	assert_int_equal(into->samples.count, 1);
	assert_int_equal(into->moments.count, 2);
	assert_int_equal(into->moments.items[0].sample, 0);
	assert_int_equal(into->moments.items[1].time_ns, START + 3);
	profile_free(into);
	profile_free(from);
}

/* Of others: a text, another unit, a second time, and sums that wrap around on the way. */
static void labels_of_others_are_read(void **state)
{
	char *path = scratch_file(state, "profile");
	struct profile *profile = empty_profile(), *read;
	uint32_t location = example_location(profile, 0, 1, NULL, "f");
	uint32_t text = example_label(profile, "timestamp", "noon");
	uint32_t seconds = example_number(profile, "timestamp", 7, "seconds");
	uint32_t time = example_number(profile, "timestamp", -5, "nanoseconds");
	uint32_t second = example_number(profile, "timestamp", 6, "nanoseconds");

	example_add(profile, &location, 1, 1, 1, &text, 1);
	example_add(profile, &location, 1, 1, 1, &seconds, 1);
	example_add(profile, &location, 1, 1, INT64_MAX, (uint32_t[]){time, second}, 2);
	example_add(profile, &location, 1, 1, INT64_MIN, (uint32_t[]){second, time}, 2);
	example_add(profile, &location, 1, 1, INT64_MIN, &time, 1);
	example_add(profile, &location, 1, 1, INT64_MAX, &second, 1);
	write_profile(profile, path);
	read = read_timed_profile(path);
	assert_int_equal(read->moments.count, 4);
	assert_int_equal(read->moments.items[0].time_ns, -5);
	assert_int_equal(read->moments.items[1].time_ns, 6);
	assert_int_equal(read->samples.count, 5);
	write_profile(read, path);
	profile_free(profile);
	profile = read_timed_profile(path);
	assert_int_equal(profile->moments.count, 4);
	assert_int_equal(profile->samples.count, 5);
	profile_free(profile);
	profile_free(read);
	free(path);
}

/* In files of a recording with stacks of 40 frames and all labels, and 32 bytes in memory. */
static void moments_take_few_bytes(void **state)
{
	char *path = scratch_file(state, "profile");
	struct profile *profile = empty_profile();
	const size_t stacks = 200, moments = 20000;
	uint64_t random = 1, without, size;
	struct error error;
	size_t bytes;

	for (size_t i = 0; i < stacks; i++) {
		uint32_t locations[40],
			labels[] = {
				example_label(profile, "comm", "program"),
				example_label(profile, "thread", i % 3 ? "worker" : "program"),
				example_number(profile, "pid", 123456, "pid"),
				example_number(profile, "tid", 123456 + (int64_t)i % 7, "tid"),
				example_number(profile, "cpu", (int64_t)i % 4, "cpu"),
				example_label(profile, "cgroup", "/system.slice/program.service"),
			};

		for (size_t j = 0; j < 40; j++)
			locations[j] = example_location(profile, 0, 1000 * (i + j * j % 97) + j,
							NULL, j % 2 ? "f" : "g");
		example_add(profile, locations, 40, (int64_t)(moments / stacks),
			    (int64_t)moments * MS, labels, 6);
	}
	assert_int_equal(pprof_write(profile, path, &without, &error), 0);
	bytes = profile_bytes(profile);
	for (size_t i = 0; i < moments; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		profile_add_moment(profile, (uint32_t)((random >> 33) % stacks),
				   START + (int64_t)(i * MS + random % MS),
				   (int64_t[]){1, MS + (int64_t)(random >> 45)});
	}
	assert_in_range((profile_bytes(profile) - bytes) / moments, 24, 48);
	assert_int_equal(pprof_write(profile, path, &size, &error), 0);
	print_message("bytes of a moment in a file: %.1f\n",
		      (double)(size - without) / (double)moments);
	assert_true(size - without < BYTES_MAX * moments);
	profile_free(profile);
	free(path);
}

struct shares {
	double last;
	unsigned int count;
};

static void note_share(void *arg, double share)
{
	struct shares *shares = arg;

	assert_true(share >= shares->last && share <= 1);
	shares->last = share;
	shares->count++;
}

/* Each pass over the file is a part of the work. */
static void progress_goes_from_begin_to_end(void **state)
{
	char *path = scratch_file(state, "profile");
	struct shares shares = {0, 0};
	const struct pprof_read_options options = {.progress = note_share, .arg = &shares};
	struct error error = {""};
	struct profile *profile;

	move_profile(timed_example(), path);
	profile = pprof_read_with(path, &options, &error);
	assert_non_null(profile);
	profile_free(profile);
	assert_true(shares.count >= 4);
	assert_true(shares.last == 1);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(files_have_moments),
		SCRATCH_TEST(parts_without_a_time_stay),
		cmocka_unit_test(merged_profiles_have_the_moments_of_both),
		cmocka_unit_test(selected_samples_keep_their_moments),
		SCRATCH_TEST(labels_of_others_are_read),
		SCRATCH_TEST(moments_take_few_bytes),
		SCRATCH_TEST(progress_goes_from_begin_to_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

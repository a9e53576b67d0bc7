// SPDX-License-Identifier: GPL-2.0
/* Roots, wrappers, merging and the label of truncated stacks, in profiles and in windows of them.
 */
#include "symbolize/normalize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "failing_malloc.h"
#include "pprof/profile_merge.h"
#include "pprof/truncation.h"
#include "sample_profile.h"
#include "unit.h"

#define KERNEL UINT64_C(0xffffffff81000000)

/* A mapping of a place. */
static uint32_t mapping_of(struct profile *profile, const char *file, const char *build_id,
			   uint32_t segment)
{
	return profile_mapping(profile, &(struct profile_mapping){
						.limit = UINT64_MAX,
						.place.segment = segment,
						.file = profile_string(profile, file),
						.build_id = profile_string(profile, build_id),
					});
}

static void add(struct profile *profile, const uint32_t *locations, size_t depth, int64_t samples,
		const char *truncated)
{
	const uint32_t labels[] = {
		example_label(profile, "comm", "app"),
		truncated ? example_label(profile, "truncated", truncated) : 0,
	};

	example_add(profile, locations, depth, samples, samples, labels, truncated ? 2 : 1);
}

static size_t depth_of(const struct profile *profile, size_t sample)
{
	return profile->stacks.items[profile->samples.items[sample].stack].count;
}

static size_t label_count(const struct profile *profile, size_t sample)
{
	return profile->label_sets.items[profile->samples.items[sample].label_set].count;
}

/* Stacks whose parts above the root differ, with and without a kernel part; `round` varies them. */
static void add_stacks(struct profile *profile, uint64_t round)
{
	uint32_t app = mapping_of(profile, "/bin/app", "aabb", 1 + round);
	uint32_t kernel =
		example_mapping(profile, KERNEL, UINT64_MAX, 0, "[kernel.kallsyms]", "cc");
	uint32_t vfs = example_location(profile, kernel, KERNEL + 1, NULL, "vfs_read");
	uint32_t wrapper = example_location(profile, app, 5, NULL, NULL);
	uint32_t main = example_location(profile, app, 10, NULL, "main");
	uint32_t start = example_location(profile, app, 20, NULL, "_start");
	uint32_t garbage = profile_location(profile, 0, 1000 + round, NULL, 0);

	profile->locations.items[wrapper].elided = true;
	add(profile, (uint32_t[]){main, start, garbage}, 3, 1, "bad-frame-pointer");
	add(profile, (uint32_t[]){main, wrapper, start}, 3, 10, NULL);
	add(profile, (uint32_t[]){vfs, main, start, garbage}, 4, 100, "kernel");
	add(profile, (uint32_t[]){main, garbage}, 2, 1000, "max-depth");
	add(profile, &wrapper, 1, 10000, "unreadable-memory");
}

static void stacks_end_at_their_root(void **state)
{
	struct profile *profile = empty_profile();
	struct truncation_counts counts;

	(void)state;
	add_stacks(profile, 0);
	assert_int_equal(normalize_profile(profile, false, &counts), 0);
	assert_int_equal(profile->samples.count, 4);
	/* Complete, and without the wrapper: one sample. */
	assert_int_equal(depth_of(profile, 0), 2);
	assert_int_equal(profile_values(profile, 0)[0], 11);
	assert_int_equal(label_count(profile, 0), 1);
	/* The user part is complete, the kernel part is not. */
	assert_int_equal(depth_of(profile, 1), 3);
	assert_int_equal(label_count(profile, 1), 2);
	assert_int_equal(depth_of(profile, 2), 2);
	/* pprof drops samples without locations. */
	assert_int_equal(depth_of(profile, 3), 1);
	assert_int_equal(counts.samples[TRUNCATED_BAD_FRAME_POINTER], 0);
	assert_int_equal(counts.samples[TRUNCATED_KERNEL], 100);
	assert_int_equal(counts.samples[TRUNCATED_MAX_DEPTH], 1000);
	assert_int_equal(counts.samples[TRUNCATED_UNREADABLE_MEMORY], 10000);
	assert_int_equal(counts.user_frames, 2 * 1 + 3 * 10 + 2 * 100 + 2 * 1000 + 10000);
	assert_int_equal(counts.unmapped, 1000);
	assert_int_equal(profile->time_ns, 0);
	assert_string_equal(profile_text(profile, profile->default_type), "cpu");
	profile_free(profile);
}

/* pprof takes the first mapping for the program's. */
static void first_mapping_is_of_the_program(void **state)
{
	struct profile *profile = empty_profile(), *merged = profile_new(), *again = profile_new();
	struct truncation_counts counts;
	uint32_t kernel = example_mapping(profile, 0xffff0000, 0xffffffff, 0, "[kernel.kallsyms]",
					  ""),
		 lib = example_mapping(profile, 0, 0x100, 0, "/lib/x.so", ""),
		 app = example_mapping(profile, 0, 0x200, 0, "/bin/app", "");
	uint32_t stack[] = {example_location(profile, kernel, 0xffff0001, NULL, "vfs_read"),
			    example_location(profile, lib, 1, NULL, "read"),
			    example_location(profile, app, 2, NULL, "_start")};

	(void)state;
	profile->main_file = profile_string(profile, "/bin/app");
	add(profile, stack, 3, 1, NULL);
	assert_int_equal(normalize_profile(profile, false, &counts), 0);
	assert_string_equal(profile_text(profile, profile->mappings.items[1].file), "/bin/app");
	/* It stays the first one: of windows that are added up, and when nothing says so any more.
	 */
	assert_int_equal(profile_merge(merged, profile), 0);
	merged->main_file = 0;
	assert_int_equal(profile_merge(again, merged), 0);
	assert_string_equal(profile_text(again, again->mappings.items[1].file), "/bin/app");
	assert_int_equal(normalize_profile(again, false, &counts), 0);
	assert_string_equal(profile_text(again, again->mappings.items[1].file), "/bin/app");
	assert_int_equal(again->mappings.count, 4);
	profile_free(profile);
	profile_free(merged);
	profile_free(again);
}

static void label_is_dropped_unless_chosen(void **state)
{
	struct profile *profile = empty_profile();
	struct truncation_counts counts;

	(void)state;
	add_stacks(profile, 0);
	assert_int_equal(normalize_profile(profile, true, &counts), 0);
	for (size_t i = 0; i < profile->samples.count; i++)
		assert_int_equal(label_count(profile, i), 1);
	for (size_t i = 1; i < profile->labels.count; i++)
		assert_string_equal(profile_text(profile, profile->labels.items[i].key), "comm");
	/* The counts do not depend on it. */
	assert_int_equal(truncation_total(&counts), 11100);
	profile_free(profile);
}

static void comments_follow_the_counts(void **state)
{
	struct profile *profile = empty_profile();
	struct truncation_counts counts = {0};
	char text[TRUNCATION_COMMENT_SIZE];

	(void)state;
	profile_comment(profile, "first");
	truncation_comment(&counts, text);
	profile_comment(profile, "%s", text);
	frames_comment(&counts, text);
	profile_comment(profile, "%s", text);
	add_stacks(profile, 0);
	assert_int_equal(normalize_profile(profile, false, &counts), 0);
	assert_int_equal(profile->comments.count, 3);
	assert_string_equal(profile_text(profile, profile->comments.items[0]), "first");
	truncation_comment(&counts, text);
	assert_string_equal(profile_text(profile, profile->comments.items[1]), text);
	frames_comment(&counts, text);
	assert_string_equal(profile_text(profile, profile->comments.items[2]), text);
	profile_free(profile);
}

/* Files without a build ID stay distinct, as the one at their path may be any of them. */
static void sources_are_merged_where_they_do_not_matter(void **state)
{
	static const struct {
		const char *file, *build_id;
		size_t kept; /* of two sources */
	} mappings[] = {
		{"/bin/app", "aabb", 1},
		{"/bin/app", NULL, 2},
		{"[file]", NULL, 2},
		{"[anon]", NULL, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(mappings) / sizeof(mappings[0]); i++) {
		struct profile *profile = empty_profile();
		struct truncation_counts counts;

		for (uint64_t source = 0; source < 2; source++) {
			uint32_t mapping =
				mapping_of(profile, mappings[i].file, mappings[i].build_id, source);
			uint32_t location = example_location(profile, mapping, 1, NULL, "f");

			add(profile, &location, 1, 1, NULL);
		}
		/* No sample refers to it. */
		mapping_of(profile, "unused", NULL, 0);
		assert_int_equal(profile->samples.count, 2);
		assert_int_equal(normalize_profile(profile, false, &counts), 0);
		assert_int_equal(profile->mappings.count, 1 + mappings[i].kept);
		assert_int_equal(profile->locations.count, 1 + mappings[i].kept);
		assert_int_equal(profile->samples.count, mappings[i].kept);
		profile_free(profile);
	}
}

/* The same code at one address of two processes is one location only if it has the same name. */
static void generated_code_keeps_its_names(void **state)
{
	static const char *const names[] = {"f", "g", "f"};
	struct profile *profile = empty_profile();
	struct truncation_counts counts;

	(void)state;
	for (uint64_t source = 0; source < 3; source++) {
		uint32_t mapping = mapping_of(profile, "[anon]", NULL, source);
		uint32_t location = example_location(profile, mapping, 1, NULL, names[source]);

		add(profile, &location, 1, 1, NULL);
	}
	assert_int_equal(normalize_profile(profile, false, &counts), 0);
	assert_int_equal(profile->mappings.count, 1 + 1);
	assert_int_equal(profile->locations.count, 1 + 2);
	assert_int_equal(profile_values(profile, 0)[0], 2);
	assert_int_equal(profile_values(profile, 1)[0], 1);
	profile_free(profile);
}

/* Windows that are normalized one by one add up to the profile that is normalized as a whole. */
static void windows_add_up(void **state)
{
	struct profile *whole = empty_profile(), *sum = profile_new();
	struct truncation_counts of_whole, of_window, total = {0};

	(void)state;
	for (uint64_t round = 0; round < 3; round++) {
		struct profile *window = empty_profile();

		add_stacks(whole, round);
		add_stacks(window, round);
		assert_int_equal(normalize_profile(window, true, &of_window), 0);
		assert_int_equal(profile_merge(sum, window), 0);
		for (size_t i = 0; i < TRUNCATED_COUNT; i++)
			total.samples[i] += of_window.samples[i];
		profile_free(window);
	}
	assert_int_equal(normalize_profile(whole, true, &of_whole), 0);
	assert_memory_equal(total.samples, of_whole.samples, sizeof(total.samples));
	assert_int_equal(sum->samples.count, whole->samples.count);
	assert_int_equal(sum->locations.count, whole->locations.count);
	assert_int_equal(sum->mappings.count, whole->mappings.count);
	for (size_t i = 0; i < sum->samples.count; i++) {
		assert_int_equal(profile_values(sum, i)[0], profile_values(whole, i)[0]);
		assert_int_equal(depth_of(sum, i), depth_of(whole, i));
	}
	profile_free(whole);
	profile_free(sum);
}

/* Fails each allocation in turn. */
static void samples_stay_without_memory(void **state)
{
	struct truncation_counts counts;
	unsigned long number = 1, failed = 0;
	bool has_failed = true;

	(void)state;
	for (; has_failed; number++) {
		struct profile *profile = empty_profile();
		int err;

		add_stacks(profile, 0);
		fail_malloc(number, false);
		err = normalize_profile(profile, false, &counts);
		has_failed = malloc_has_failed();
		fail_malloc(0, false);
		/* Hash tables can do without more memory for a while. */
		if (err) {
			assert_int_equal(err, -ENOMEM);
			assert_int_equal(profile->samples.count, 5);
			assert_int_equal(profile_values(profile, 1)[0], 10);
			assert_int_equal(depth_of(profile, 1), 3);
		} else {
			assert_int_equal(profile->samples.count, 4);
		}
		failed += err != 0;
		profile_free(profile);
	}
	assert_true(failed >= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_end_at_their_root),
		cmocka_unit_test(first_mapping_is_of_the_program),
		cmocka_unit_test(label_is_dropped_unless_chosen),
		cmocka_unit_test(comments_follow_the_counts),
		cmocka_unit_test(sources_are_merged_where_they_do_not_matter),
		cmocka_unit_test(generated_code_keeps_its_names),
		cmocka_unit_test(windows_add_up),
		cmocka_unit_test(samples_stay_without_memory),
	};

	return cmocka_run_group_tests_name("normalize", tests, NULL, NULL);
}

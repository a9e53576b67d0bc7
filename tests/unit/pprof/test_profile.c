// SPDX-License-Identifier: GPL-2.0
/* Entries exist once, samples sum up, and profiles merge without loss. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "lib/error.h"
#include "pprof/origin.h"
#include "pprof/profile.h"
#include "pprof/profile_merge.h"
#include "sample_profile.h"
#include "steps.h"

#define MIB ((size_t)1 << 20)

static void equal_entries_are_merged(void **state)
{
	struct profile *profile = profile_new();
	struct profile_mapping mapping = {.start = 1, .limit = 2, .offset = 3};
	struct profile_line line = {.line = 1};
	uint32_t text, function;

	(void)state;
	text = profile_string(profile, "text");
	assert_int_not_equal(text, 0);
	assert_int_equal(profile_string(profile, "text"), text);
	assert_int_not_equal(profile_string(profile, "other"), text);
	assert_int_equal(profile_string(profile, ""), 0);
	assert_int_equal(profile_string(profile, NULL), 0);

	mapping.file = profile_string(profile, "file");
	mapping.build_id = profile_string(profile, "id");
	assert_int_equal(profile_mapping(profile, &mapping), 1);
	assert_int_equal(profile_mapping(profile, &mapping), 1);
	mapping.build_id = 0;
	assert_int_equal(profile_mapping(profile, &mapping), 2);
	mapping.offset++;
	assert_int_equal(profile_mapping(profile, &mapping), 3);
	mapping.place.segment++;
	assert_int_equal(profile_mapping(profile, &mapping), 4);
	mapping.place.perf_map++;
	assert_int_equal(profile_mapping(profile, &mapping), 5);
	mapping.place.part++;
	assert_int_equal(profile_mapping(profile, &mapping), 6);

	function = example_function(profile, "f", "f.c");
	assert_int_equal(function, 1);
	assert_int_equal(example_function(profile, "f", "f.c"), 1);
	assert_int_equal(example_function(profile, "f", "g.c"), 2);

	line.function = function;
	assert_int_equal(profile_location(profile, 1, 100, &line, 1), 1);
	assert_int_equal(profile_location(profile, 1, 100, &line, 1), 1);
	assert_int_equal(profile_location(profile, 2, 100, &line, 1), 2);
	assert_int_equal(profile_location(profile, 0, 100, NULL, 0), 3);
	/* The same address in another program. */
	line.function = 2;
	assert_int_equal(profile_location(profile, 1, 100, &line, 1), 4);
	assert_int_equal(profile_location(profile, 1, 100, NULL, 0), 5);
	line.line++;
	assert_int_equal(profile_location(profile, 1, 100, &line, 1), 6);
	line.column++;
	assert_int_equal(profile_location(profile, 1, 100, &line, 1), 7);

	assert_int_equal(profile_stack(profile, NULL, 0), 0);
	assert_int_equal(profile_stack(profile, (uint32_t[]){1, 2}, 2), 1);
	assert_int_equal(profile_stack(profile, (uint32_t[]){2, 1}, 2), 2);
	assert_int_equal(profile_stack(profile, (uint32_t[]){1, 2}, 2), 1);
	assert_int_equal(profile_stack(profile, (uint32_t[]){1}, 1), 3);
	assert_int_equal(profile_longest_sequence(profile), 2);
	assert_int_equal(profile->error, 0);
	profile_free(profile);
}

/* The labels of a process that ends are mostly strings of the last ones. */
static void recent_strings_are_found_at_once(void **state)
{
	struct profile *profile = profile_new();
	char first[200], second[200];
	uint32_t texts[2];
	uint64_t before, added;

	(void)state;
	memset(first, 'x', sizeof(first));
	first[sizeof(first) - 1] = '\0';
	memcpy(second, first, sizeof(first));
	second[100] = 'y';
	before = steps;
	texts[0] = profile_string(profile, first);
	added = steps - before;
	before = steps;
	assert_int_equal(profile_string(profile, first), texts[0]);
	assert_true(10 * (steps - before) < added);
	/* Those with the same length and the same ends replace each other. */
	texts[1] = profile_string(profile, second);
	assert_int_not_equal(texts[1], texts[0]);
	assert_int_equal(profile_string(profile, first), texts[0]);
	assert_int_equal(profile_string(profile, second), texts[1]);
	/* What was replaced in a string is no part of it. */
	assert_int_equal(profile_string(profile, "\xff"), profile_string(profile, "\xef\xbf\xbd"));
	assert_int_equal(profile_string(profile, "\xff"), profile_string(profile, "\xef\xbf\xbd"));
	assert_int_equal(profile->error, 0);
	profile_free(profile);
}

static void lines_can_be_set_later(void **state)
{
	struct profile *profile = profile_new();
	struct profile_line lines[] = {{.line = 1}, {.line = 2}};
	uint32_t a = profile_location(profile, 0, 100, NULL, 0);
	uint32_t b = profile_location(profile, 0, 200, NULL, 0);

	(void)state;
	lines[0].function = example_function(profile, "inlined", "f.h");
	lines[1].function = example_function(profile, "f", "f.c");
	profile_set_lines(profile, a, &lines[1], 1);
	profile_set_lines(profile, a, lines, 2);
	assert_int_equal(profile->locations.items[a].line_count, 2);
	assert_int_equal(profile_lines(profile, &profile->locations.items[a])[1].line, 2);
	/* It is found by its lines now, and only by them. */
	assert_int_equal(profile_location(profile, 0, 100, lines, 2), a);
	assert_int_equal(profile_location(profile, 0, 200, NULL, 0), b);
	assert_int_not_equal(profile_location(profile, 0, 100, NULL, 0), a);
	assert_int_not_equal(profile_location(profile, 0, 100, &lines[1], 1), a);
	profile_free(profile);
}

/* Samples are merged only if all locations and labels are equal. */
static void equal_samples_are_merged(void **state)
{
	struct profile *profile = empty_profile();
	const uint32_t a = example_location(profile, 0, 1, NULL, "a");
	const uint32_t b = example_location(profile, 0, 2, NULL, "b");
	const uint32_t labels[] = {
		example_label(profile, "k", "v"),      example_label(profile, "k", "w"),
		example_label(profile, "l", "v"),      example_number(profile, "k", 1, NULL),
		example_number(profile, "k", 2, NULL), example_number(profile, "k", 1, "v"),
	};
	enum { LABELS = sizeof(labels) / sizeof(labels[0]), SAMPLES = 5 + LABELS };

	(void)state;
	for (int64_t round = 0; round < 3; round++) {
		example_add(profile, NULL, 0, 1, 1, NULL, 0);
		example_add(profile, (uint32_t[]){a, b}, 2, 1, 10, NULL, 0);
		example_add(profile, (uint32_t[]){b, a}, 2, 1, 100, NULL, 0);
		example_add(profile, &a, 1, 1, 1000, NULL, 0);
		for (size_t i = 0; i < LABELS; i++)
			example_add(profile, &a, 1, 1, 10000 * (int64_t)(i + 1), &labels[i], 1);
		example_add(profile, &a, 1, 1, 7, labels, 2);
	}
	assert_int_equal(profile->samples.count, SAMPLES);
	for (size_t i = 0; i < SAMPLES; i++)
		assert_int_equal(profile_values(profile, i)[0], 3);
	assert_int_equal(profile_values(profile, 0)[1], 3);
	assert_int_equal(profile_values(profile, 2)[1], 300);
	assert_int_equal(profile_values(profile, 4)[1], 30000);
	assert_int_equal(profile->samples.items[0].stack, 0);
	assert_int_equal(profile_stack_locations(profile, profile->samples.items[2].stack)[0], b);
	profile_free(profile);
}

static void overflowing_sums_are_not_merged(void **state)
{
	struct profile *profile = empty_profile();

	(void)state;
	example_add(profile, NULL, 0, 1, INT64_MAX - 1, NULL, 0);
	for (int i = 0; i < 4; i++)
		example_add(profile, NULL, 0, 1, 1, NULL, 0);
	assert_int_equal(profile->samples.count, 2);
	assert_int_equal(profile_values(profile, 0)[0], 2);
	assert_true(profile_values(profile, 0)[1] == INT64_MAX);
	assert_int_equal(profile_values(profile, 1)[0], 3);
	assert_int_equal(profile_values(profile, 1)[1], 3);
	profile_free(profile);
}

/* A file may have any number of samples of one stack that can't be added up. */
static void steps_are_linear_in_overflows(void **state)
{
	const uint32_t count = 10000;
	struct profile *profile = empty_profile();
	const int64_t values[] = {1, INT64_MAX};
	uint64_t before = steps;

	(void)state;
	for (uint32_t i = 0; i < count; i++)
		profile_add(profile, 0, 0, values);
	assert_int_equal(profile->samples.count, count);
	assert_in_range(steps - before, count, 200 * count);
	profile_free(profile);
}

static void merging_adds_samples_once(void **state)
{
	struct profile *into = profile_new(), *from = example_profile();
	struct profile *other = profile_new();

	(void)state;
	/* An entry without samples stays behind. */
	example_location(from, 0, 12345, NULL, "unused");
	assert_int_equal(profile_merge(into, from), 0);
	assert_int_equal(into->samples.count, from->samples.count);
	assert_int_equal(into->locations.count, from->locations.count - 1);
	assert_int_equal(into->functions.count, from->functions.count - 1);
	assert_int_equal(into->time_ns, from->time_ns);
	assert_int_equal(into->period, from->period);
	assert_string_equal(profile_text(into, into->default_type), "cpu");
	assert_int_equal(into->comments.count, 0);

	/* Numbers of entries differ between the profiles. */
	example_sample(into, (uint32_t[]){example_location(into, 0, 7, NULL, "own")}, 1, 5, "own");
	for (int i = 0; i < 2; i++)
		assert_int_equal(profile_merge(into, from), 0);
	assert_int_equal(into->samples.count, from->samples.count + 1);
	for (size_t i = 0; i < from->samples.count; i++) {
		assert_int_equal(profile_values(into, i)[0], 3 * profile_values(from, i)[0]);
		assert_int_equal(profile_values(into, i)[1], 3 * profile_values(from, i)[1]);
	}
	assert_int_equal(profile_values(into, from->samples.count)[0], 5);

	profile_add_type(other, "heap", "bytes");
	assert_int_equal(profile_merge(into, other), -EINVAL);
	profile_free(other);
	/* The second type differs: in its name, in its unit. */
	for (int i = 0; i < 2; i++) {
		other = profile_new();
		profile_add_type(other, "samples", "count");
		profile_add_type(other, i ? "cpu" : "wall", i ? "microseconds" : "nanoseconds");
		assert_int_equal(profile_merge(into, other), -EINVAL);
		profile_free(other);
	}
	assert_int_equal(into->samples.count, from->samples.count + 1);
	profile_free(into);
	profile_free(from);
}

/* What 200,000 processes leave behind: a stack or two each, with a label of their own. */
static void many_processes_fit(void **state)
{
	enum { PROCESSES = 200000, DEPTH = 20 };
	struct profile *profile = empty_profile();
	uint32_t mapping = example_mapping(profile, 0, UINT64_MAX, 0, "/usr/bin/app", "aabb");
	uint32_t stack[DEPTH];

	(void)state;
	for (int64_t i = 0; i < PROCESSES; i++) {
		const uint32_t labels[] = {
			example_label(profile, "comm", "app"),
			example_label(profile, "thread", "app"),
			example_number(profile, "pid", i, "pid"),
			example_label(profile, "cgroup", "/system.slice/app.service"),
			example_label(profile, "container", "app.service"),
		};

		for (uint64_t j = 0; j < DEPTH; j++)
			stack[j] = profile_location(profile, mapping,
						    0x1000 + j + 100 * (uint64_t)(i % 50), NULL, 0);
		example_add(profile, stack, DEPTH, 1, 1000, labels, 5);
		example_add(profile, stack + 1, DEPTH - 1, 1, 1000, labels, 5);
	}
	assert_int_equal(profile->error, 0);
	assert_int_equal(profile->samples.count, 2 * PROCESSES);
	assert_true(profile_bytes(profile) > 400000 * sizeof(struct profile_sample));
	assert_in_range(profile_bytes(profile) / MIB, 1, 40);
	profile_free(profile);
}

/* Hashes have 32 bits: 300,000 entries of a table contain about ten pairs with the same hash. */
static void entries_with_the_same_hash_are_different(void **state)
{
	enum { COUNT = 300000 };
	struct profile *profile = empty_profile();
	const int64_t values[] = {1, 1};

	(void)state;
	for (uint32_t i = 1; i <= COUNT; i++) {
		const struct profile_mapping mapping = {.start = i};
		const struct profile_function function = {.name = i};
		const struct profile_label label = {.key = 1, .number = i};

		assert_int_equal(profile_mapping(profile, &mapping), i);
		assert_int_equal(profile_function(profile, &function), i);
		assert_int_equal(profile_location(profile, 1, i, NULL, 0), i);
		assert_int_equal(profile_stack(profile, &i, 1), i);
		assert_int_equal(profile_label(profile, &label), i);
		assert_int_equal(profile_label_set(profile, &i, 1), i);
		profile_add(profile, i, 1, values);
		assert_int_equal(profile->samples.count, i);
	}
	profile_free(profile);
}

/* The same for the lines of locations: they differ in one field. */
static void lines_with_the_same_hash_are_different(void **state)
{
	enum { COUNT = 300000 };
	struct profile *profile = empty_profile();

	(void)state;
	for (uint32_t i = 1; i <= COUNT; i++) {
		const struct profile_line lines[] = {{.function = i}, {.line = i}, {.column = i}};

		for (uint32_t j = 0; j < 3; j++)
			assert_int_equal(profile_location(profile, 0, 0, &lines[j], 1),
					 3 * (i - 1) + j + 1);
	}
	profile_free(profile);
}

/* The bytes grow by each string, with its NUL, once. */
static void bytes_include_strings(void **state)
{
	enum { COUNT = 1000, LENGTH = 1000 };
	struct profile *profile = profile_new();
	size_t tables, strings;
	char text[LENGTH + 1];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		snprintf(text, sizeof(text), "%d", i);
		profile_string(profile, text);
	}
	tables = profile->strings.capacity * sizeof(char *) +
		 profile->strings.index.capacity * HASH_SLOT_SIZE;
	strings = profile_bytes(profile) - tables;
	profile_free(profile);

	profile = profile_new();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COUNT; i++) {
			snprintf(text, sizeof(text), "%0*d", LENGTH, i);
			profile_string(profile, text);
		}
	}
	tables = profile->strings.capacity * sizeof(char *) +
		 profile->strings.index.capacity * HASH_SLOT_SIZE;
	/* The short texts have 10 * 1 + 90 * 2 + 900 * 3 characters. */
	assert_int_equal(profile_bytes(profile) - tables - strings, COUNT * LENGTH - 2890);
	assert_in_range(profile_bytes(profile) - tables, COUNT * (LENGTH + 1),
			COUNT * (LENGTH + 1) + 4096);
	profile_free(profile);
}

/* The comment is parsed as it is written. */
static void origin_is_found_again(void **state)
{
	struct profile *profile = profile_new();
	struct utsname kernel = {.sysname = "Linux", .release = "6.1.0-9-amd64", .machine = "x86"};
	char release[ORIGIN_RELEASE_SIZE];

	(void)state;
	assert_false(origin_is_own(profile));
	assert_false(origin_release(profile, release));
	assert_string_equal(release, "");
	origin_add(profile, &kernel);
	profile_comment(profile, "stackbeat 1 on Linux 9.9 x86");
	assert_true(origin_is_own(profile));
	assert_true(origin_release(profile, release));
	assert_string_equal(release, "6.1.0-9-amd64");
	profile_free(profile);

	profile = profile_new();
	profile_comment(profile, "perf on Linux 9.9 x86");
	origin_add(profile, &kernel);
	assert_false(origin_is_own(profile));
	assert_false(origin_release(profile, release));
	profile_free(profile);

	/* The release becomes a part of a path. */
	profile = profile_new();
	profile_comment(profile, "stackbeat 1 on Linux ../../etc x86");
	assert_true(origin_release(profile, release));
	assert_string_equal(release, "..");
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_entries_are_merged),
		cmocka_unit_test(recent_strings_are_found_at_once),
		cmocka_unit_test(lines_can_be_set_later),
		cmocka_unit_test(equal_samples_are_merged),
		cmocka_unit_test(overflowing_sums_are_not_merged),
		cmocka_unit_test(steps_are_linear_in_overflows),
		cmocka_unit_test(merging_adds_samples_once),
		cmocka_unit_test(many_processes_fit),
		cmocka_unit_test(entries_with_the_same_hash_are_different),
		cmocka_unit_test(lines_with_the_same_hash_are_different),
		cmocka_unit_test(bytes_include_strings),
		cmocka_unit_test(origin_is_found_again),
	};

	return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}

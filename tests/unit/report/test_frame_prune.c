// SPDX-License-Identifier: GPL-2.0
/* Frames that the writer of a profile wants to be left out. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/profile_merge.h"
#include "report/folded.h"
#include "report/frame_prune.h"
#include "sample_profile.h"

/* CPU time of each look at the clock, ns. */
static int64_t cpu_ns;

/* The clock of CPU time is the test's; cmocka reads another one. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	static int64_t now;

	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return (int)syscall(SYS_clock_gettime, clock, time);
	now += cpu_ns;
	*time = (struct timespec){.tv_sec = now / NS_PER_SECOND, .tv_nsec = now % NS_PER_SECOND};
	return 0;
}

static struct profile *with_patterns(struct profile *profile, const char *drop, const char *keep)
{
	profile->drop_frames = profile_string(profile, drop);
	profile->keep_frames = profile_string(profile, keep);
	return profile;
}

/* Compares the profile without its dropped frames, which is freed. */
static void expect_pruned(struct profile *profile, const char *expected)
{
	struct profile *pruned;
	struct error warning, error;
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(frame_prune(profile, &pruned, &warning), 0);
	assert_string_equal(warning.text, "");
	assert_non_null(pruned);
	assert_int_equal(print_folded(pruned, 0, out, &error), 0);
	fclose(out);
	assert_string_equal(text, expected);
	assert_int_equal(pruned->duration_ns, profile->duration_ns);
	assert_int_equal(pruned->comments.count, profile->comments.count);
	free(text);
	profile_free(profile);
	profile_free(pruned);
}

/* Stacks of example_profile(). */
#define READ "main;read;entry;vfs_read 4\n"
#define FIB "main;fib;fib;fib 3\n"
#define OUTER "main;outer 1\nmain;outer;inner 2\n"
#define LIBX "main;libx.so+0x1234 1\n"

static void dropped_frames_take_their_callees_along(void **state)
{
	(void)state;
	expect_pruned(with_patterns(example_profile(), "r.?ad", ""), "main 4\n" FIB OUTER LIBX);
	/* The frame nearest to the root counts. */
	expect_pruned(with_patterns(example_profile(), "fib|nothing", ""),
		      "main 3\n" READ OUTER LIBX);
	/* An inlined function is dropped without its caller at the same address. */
	expect_pruned(with_patterns(example_profile(), "(?:inn)\\w+?", ""),
		      READ FIB "main;outer 3\n" LIBX);
	/* A part of a name does not match, and frames to keep stay. */
	expect_pruned(with_patterns(example_profile(), "fi|inner|read", "inn.*|re[a-d]*"),
		      READ FIB OUTER LIBX);
}

static void frames_at_the_root_stay(void **state)
{
	(void)state;
	/* Nothing of a stack would be left without its root, so pprof keeps it. */
	expect_pruned(with_patterns(example_profile(), "main|nothing", ""), READ FIB OUTER LIBX);
}

/* A profile with one stack: main, the function, leaf. */
static struct profile *profile_of(const char *function)
{
	struct profile *profile = profile_new();
	uint32_t stack[3];

	profile_set_recorded_types(profile);
	stack[0] = example_location(profile, 0, 1, NULL, "leaf");
	stack[1] = example_location(profile, 0, 2, NULL, function);
	stack[2] = example_location(profile, 0, 3, NULL, "main");
	profile_add(profile, profile_stack(profile, stack, 3), 0, (const int64_t[]){1, 10});
	return profile;
}

static void names_are_compared_without_arguments(void **state)
{
	(void)state;
	expect_pruned(with_patterns(profile_of("heap::alloc(unsigned long)"), "heap::alloc", ""),
		      "main 1\n");
	expect_pruned(with_patterns(profile_of("(anonymous namespace)::grow(int)"),
				    "\\(anonymous namespace\\)::grow", ""),
		      "main 1\n");
	expect_pruned(with_patterns(profile_of("Less::operator()(int) const"),
				    "Less::operator\\(\\)", ""),
		      "main 1\n");
	expect_pruned(with_patterns(profile_of("._start42"), "_start\\d+", ""), "main 1\n");
}

static void expect_refused(const char *drop, const char *keep, const char *named)
{
	struct profile *profile = with_patterns(profile_of("f"), drop, keep), *pruned;
	struct error warning;

	assert_int_equal(frame_prune(profile, &pruned, &warning), 0);
	assert_null(pruned);
	assert_non_null(strstr(warning.text, named));
	assert_null(strchr(warning.text, '\n'));
	profile_free(profile);
}

static void other_patterns_are_refused(void **state)
{
	static const char *const refused[] = {"(",     "a)",   "[a",    "(a)\\1", "\\pL",
					      "(?i)a", "a{9}", "[\\w]", "a\\",    "[[:alpha:]]"};
	char deep[2 * 101 + 1], nested[3 * 40 + 2] = "", repeated[42] = "a";
	char options[2 * 513 + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		expect_refused(refused[i], "", "drop_frames");
	expect_refused("f", "((a{255}){255}){255}", "keep_frames");
	memset(deep, '(', 101);
	memset(deep + 101, ')', 101);
	deep[2 * 101] = '\0';
	expect_refused(deep, "", "drop_frames");
	/* Each "+" doubles what it repeats. */
	memset(nested, '(', 40);
	nested[40] = 'a';
	for (size_t i = 0; i < 40; i++)
		memcpy(nested + 41 + 2 * i, ")+", 2);
	expect_refused(nested, "", "drop_frames");
	memset(repeated + 1, '+', 40);
	expect_refused(repeated, "", "drop_frames");
	for (size_t i = 0; i < 513; i++)
		memcpy(options + 2 * i, ".?", 3);
	expect_refused(options, "", "drop_frames");
	expect_refused("f", options, "keep_frames");
}

static void names_have_a_limit_of_cpu_time(void **state)
{
	(void)state;
	cpu_ns = 6 * NS_PER_SECOND;
	expect_refused("f", "", "drop_frames of the profile takes more than 10 s");
	cpu_ns = 0;
}

/* Their expression is compiled again after some of them. */
static void many_names_are_matched(void **state)
{
	struct profile *profile = profile_new(), *pruned;
	struct error warning;
	char name[32];

	(void)state;
	assert_non_null(profile);
	profile_set_recorded_types(profile);
	for (uint64_t i = 0; i < 3000; i++) {
		uint32_t stack[2];

		snprintf(name, sizeof(name), "%s_%u", i % 3 ? "other" : "dropped", (unsigned int)i);
		stack[0] = example_location(profile, 0, i + 1, NULL, name);
		stack[1] = example_location(profile, 0, 4000, NULL, "main");
		profile_add(profile, profile_stack(profile, stack, 2), 0, (const int64_t[]){1, 10});
	}
	with_patterns(profile, "(dropped|other)_[0-9]+", "other.*");
	assert_int_equal(frame_prune(profile, &pruned, &warning), 0);
	assert_string_equal(warning.text, "");
	assert_non_null(pruned);
	/* 2000 stacks that are kept, and one of all that lost their leaf. */
	assert_int_equal(pruned->samples.count, 2001);
	profile_free(pruned);
	profile_free(profile);
}

static void repetitions_of_repetitions_are_allowed(void **state)
{
	char many[2 * 500 + 1];

	(void)state;
	expect_pruned(with_patterns(example_profile(), "((r+e*)+a?d)+", ""),
		      "main 4\n" FIB OUTER LIBX);
	for (size_t i = 0; i < 500; i++)
		memcpy(many + 2 * i, "x+", 3);
	expect_pruned(with_patterns(example_profile(), many, ""), READ FIB OUTER LIBX);
}

static void others_stay_as_they_are(void **state)
{
	struct profile *profile = with_patterns(example_profile(), "", "main"), *pruned;
	struct error warning;

	(void)state;
	assert_int_equal(frame_prune(profile, &pruned, &warning), 0);
	assert_null(pruned);
	assert_string_equal(warning.text, "");
	profile_free(profile);
}

static void merged_profiles_keep_the_patterns(void **state)
{
	struct profile *profile = with_patterns(example_profile(), "read", "inner");
	struct profile *merged = profile_new();

	(void)state;
	assert_int_equal(profile_merge(merged, profile), 0);
	assert_int_equal(profile_merge(merged, profile), 0);
	assert_string_equal(profile_text(merged, merged->drop_frames), "read");
	assert_string_equal(profile_text(merged, merged->keep_frames), "inner");
	profile_free(profile);
	expect_pruned(merged, "main 8\nmain;fib;fib;fib 6\nmain;outer 2\nmain;outer;inner 4\n"
			      "main;libx.so+0x1234 2\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dropped_frames_take_their_callees_along),
		cmocka_unit_test(frames_at_the_root_stay),
		cmocka_unit_test(names_are_compared_without_arguments),
		cmocka_unit_test(other_patterns_are_refused),
		cmocka_unit_test(names_have_a_limit_of_cpu_time),
		cmocka_unit_test(many_names_are_matched),
		cmocka_unit_test(repetitions_of_repetitions_are_allowed),
		cmocka_unit_test(others_stay_as_they_are),
		cmocka_unit_test(merged_profiles_keep_the_patterns),
	};

	return cmocka_run_group_tests_name("frame_prune", tests, NULL, NULL);
}

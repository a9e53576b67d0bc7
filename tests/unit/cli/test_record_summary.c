// SPDX-License-Identifier: GPL-2.0
/* What `stackbeat record` prints at its end. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/record_summary.h"
#include "lib/error.h"
#include "pprof/truncation.h"
#include "record/profile_export.h"
#include "record/verification.h"
#include "record/window.h"
#include "sample_profile.h"

static struct window window;
static struct recording recording;
static struct truncation_counts counts;

static int set_up(void **state)
{
	(void)state;
	counts = (struct truncation_counts){.user_frames = 5000};
	recording = (struct recording){
		.duration_ns = 2500000000,
		.cpus = 4,
		.counts[STACKBEAT_S_OVERHEAD_NS] = 20000000,
		.counts[COUNTER_READER_OVERHEAD_NS] = 30000000,
	};
	if (window_init(&window, NULL))
		return -1;
	window.samples = 1000;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	window_clear(&window);
	return 0;
}

static void expect_summary_in(size_t columns, const char *expected)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	print_record_summary(&window, &recording, &counts, "a.pb.gz", 12345, columns, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void expect_summary(const char *expected)
{
	expect_summary_in(0, expected);
}

static void rate_is_that_reached(void **state)
{
	(void)state;
	recording.rate = 999;
	recording.counts[STACKBEAT_S_TICKS] = 2675;
	recording.counts[STACKBEAT_S_TICK_TIME_NS] = 10000000000;
	expect_summary("stackbeat: 1000 samples in 2.5 s at 268 of 999 Hz; a.pb.gz, 12.3 kB\n"
		       "stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 "
		       "CPUs\n");
}

static void unknown_rate_is_the_requested_one(void **state)
{
	(void)state;
	recording.rate = 999;
	recording.counts[STACKBEAT_S_TICKS] = 2675;
	expect_summary("stackbeat: 1000 samples in 2.5 s at 999 Hz; a.pb.gz, 12.3 kB\n"
		       "stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 "
		       "CPUs\n");
}

static void one_cpu_is_no_plural(void **state)
{
	(void)state;
	recording.cpus = 1;
	expect_summary("stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		       "stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 2.00 % of 1 "
		       "CPU\n");
}

/* On a terminal the third line ends after an entry. */
static void causes_fit_a_terminal(void **state)
{
	const char *head =
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 70.0 % complete, 300 truncated, 4 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: lost: ring full 4; truncated: ";
	char expected[512];

	(void)state;
	recording.counts[STACKBEAT_S_LOST_FULL] = 4;
	counts.samples[TRUNCATED_MAX_DEPTH] = 100;
	counts.samples[TRUNCATED_EXEC] = 100;
	counts.samples[TRUNCATED_NO_TABLE] = 100;
	snprintf(expected, sizeof(expected), "%smax-depth 100, exec 100, no-unwind-table 100\n",
		 head);
	expect_summary_in(0, expected);
	expect_summary_in(85, expected);
	snprintf(expected, sizeof(expected), "%smax-depth 100, exec 100; more: report -v\n", head);
	expect_summary_in(84, expected);
	snprintf(expected, sizeof(expected), "%smax-depth 100; more: report -v\n", head);
	expect_summary_in(80, expected);
}

static void next_command_names_the_file(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_non_null(out);
	print_next_command("stackbeat.pb.gz", out);
	print_next_command("/tmp/a.pb.gz", out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "next: stackbeat report\nnext: stackbeat report /tmp/a.pb.gz\n");
	free(text);
}

static void summary_names_only_what_happened(void **state)
{
	(void)state;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n");
	window.samples = 0;
	recording.duration_ns = 0;
	expect_summary(
		"stackbeat: 0 samples in 0.0 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 0.0 % complete, 0 truncated, 0 lost; overhead 0.050 s of CPU time\n");
	recording.duration_ns = 999999999;
	expect_summary(
		"stackbeat: 0 samples in 1.0 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 0.0 % complete, 0 truncated, 0 lost; overhead 0.050 s of CPU time\n");
}

static void parts_add_up_to_all_cpu_time(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_non_null(out);
	recording.counts[STACKBEAT_S_PROBE_OVERHEAD_NS] = 1000000;
	recording.counts[COUNTER_TABLES_CPU_NS] = 4000000;
	recording.counts[COUNTER_SYMBOLS_CPU_NS] = 5000000;
	recording.counts[COUNTER_WRITING_CPU_NS] = 6000000;
	print_record_cpu(&recording, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "stackbeat: overhead 0.051 s of CPU time: sampling 0.020 s, "
				  "mappings 0.001 s, unwind tables 0.004 s, reading 0.015 s, "
				  "symbols 0.005 s, writing 0.006 s\n");
	free(text);
}

static void losses_and_truncations_have_their_causes(void **state)
{
	(void)state;
	recording.counts[STACKBEAT_S_LOST_BAD_TAIL] = 3;
	recording.counts[STACKBEAT_S_THROTTLED] = 2;
	counts.samples[TRUNCATED_MAX_DEPTH] = 30;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 97.0 % complete, 30 truncated, 3 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: lost: bad reader position 3; truncated: max-depth 30; throttled 2 "
		"times\n");
	recording.counts[STACKBEAT_S_LOST_FULL] = 4;
	counts.samples[TRUNCATED_EXEC] = 971;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 0.0 % complete, 1001 truncated, 7 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: lost: ring full 4, bad reader position 3; truncated: max-depth 30, "
		"exec 971; throttled 2 times\n");
}

static void callers_have_shares(void **state)
{
	(void)state;
	window.callers = (struct window_callers){60, 30, 10};
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n");
	recording.unwinds_by_tables = true;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: callers by unwind tables 60.0 %, frame pointers 30.0 %, copies 10.0 "
		"%\n");
	window.callers = (struct window_callers){0};
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n");
}

static void everything_incomplete_is_named(void **state)
{
	const unsigned int all[] = {
		STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE,
		STACKBEAT_S_ADDRESS_SPACES_UNREAD,
		STACKBEAT_S_MMAP_EVENTS_LOST,
		STACKBEAT_S_MAPPINGS_DROPPED,
		STACKBEAT_S_MAPPINGS_WITHOUT_FILE,
		STACKBEAT_S_STACK_COPIES_LOST,
		STACKBEAT_S_KERNEL_STACKS_DIFFERENT,
		STACKBEAT_S_MMAP_EVENTS_OFF,
		COUNTER_PERF_MAPS_DROPPED,
		COUNTER_KERNEL_NAMES_DROPPED,
		COUNTER_SAMPLES_EARLY,
		COUNTER_TABLES_FAILED,
		COUNTER_TABLES_REFUSED,
		COUNTER_STACK_COPIES_GIVEN_UP,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		recording.counts[all[i]] = i + 1;
	recording.table_refusal = "no memory";
	counts.unmapped = 12;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: incomplete: samples without an address space 1, address spaces not "
		"read 2, mapping events lost 3, mappings dropped 4, mappings without a file 5, "
		"copies of stacks lost 6, kernel stacks that differed 7, times without mapping "
		"events 8, perf maps dropped 9, parts of kernel code dropped 10, samples resolved "
		"before their mappings arrived 11, files without an unwind table 12, unwind tables "
		"refused 13 (no memory), copies of stacks not used 14, user frames outside all "
		"mappings 12 of 5000\n");
}

/* What was merged is not among what is incomplete. */
static void merged_stacks_come_last(void **state)
{
	struct profile *profile = window.profile;
	const uint32_t labels = example_label(profile, "merged", "labels"),
		       callers = example_label(profile, "merged", "callers");

	(void)state;
	example_add(profile, NULL, 0, 7, 70, &labels, 1);
	example_add(profile, NULL, 0, 5, 50, &callers, 1);
	counts.unmapped = 12;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: incomplete: user frames outside all mappings 12 of 5000\n");
	window.merged_stacks = 2;
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: incomplete: user frames outside all mappings 12 of 5000; merged for "
		"lack of memory: 2 stacks, 7 samples without labels, 5 without callers\n");
}

static void missing_timestamps_have_a_remedy(void **state)
{
	const int64_t values[] = {400, 4000};
	struct profile *profile = window.profile;
	uint32_t sample = profile_add(profile, 0, 0, values);

	(void)state;
	profile_add_moment(profile, sample, 1, (int64_t[]){1, 10});
	expect_summary(
		"stackbeat: 1000 samples in 2.5 s; a.pb.gz, 12.3 kB\n"
		"stackbeat: 100.0 % complete, 0 truncated, 0 lost; overhead 0.50 % of 4 CPUs\n"
		"stackbeat: the last 999 samples have no timestamps: --memory and --rotate make "
		"room for more\n");
}

static void expect_verification(const struct verification_result *result, const char *expected)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	print_verification(result, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, expected);
	free(text);
}

static void verification_names_differences(void **state)
{
	const struct verified_object objects[] = {
		{.path = "/bin/a", .callers = 8, .results = {[COMPARED_EQUAL] = 6, 0, 2}},
		{.path = "", .callers = 3, .results = {[COMPARED_EQUAL] = 3}},
	};
	struct verification_result result = {.results = {[COMPARED_EQUAL] = 4}};

	(void)state;
	expect_verification(&result, "stackbeat: unwound again by elfutils: 4 user stacks: 4 equal "
				     "(100.00 %)\n");
	result = (struct verification_result){
		.results = {5, 1, 0, 2},
		.longer_outermost = 1,
		.objects = objects,
		.object_count = 2,
		.dropped = 3,
		.late = 2,
		.failed = 1,
	};
	expect_verification(
		&result,
		"stackbeat: unwound again by elfutils: 8 user stacks: 5 equal (62.50 %), 1 longer "
		"(12.50 %), 2 different (25.00 %)\n"
		"stackbeat:   1 of the longer ones end at the outermost caller\n"
		"stackbeat:   /bin/a: 8 callers: 6 equal (75.00 %), 2 shorter (25.00 %)\n"
		"stackbeat:   other code: 3 callers: 3 equal (100.00 %)\n"
		"stackbeat:   not unwound again: 3 for lack of memory, 2 for lack of time, 1 by "
		"failures\n");
	result = (struct verification_result){.results = {4}, .dropped = 1, .late = 1};
	expect_verification(&result, "stackbeat: unwound again by elfutils: 4 user stacks: 4 equal "
				     "(100.00 %)\nstackbeat:   not unwound again: 1 for lack of "
				     "memory, 1 for lack of time, 0 by failures\n");
	result = (struct verification_result){.results = {4}, .late = 1, .failed = 1};
	expect_verification(&result, "stackbeat: unwound again by elfutils: 4 user stacks: 4 equal "
				     "(100.00 %)\nstackbeat:   not unwound again: 0 for lack of "
				     "memory, 1 for lack of time, 1 by failures\n");
}

static void objects_of_a_verification_are_limited(void **state)
{
	struct verified_object objects[17];
	const struct verification_result result = {.objects = objects, .object_count = 17};
	char *text = NULL;
	size_t size = 0, lines = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	for (size_t i = 0; i < 17; i++)
		objects[i] = (struct verified_object){.path = "/bin/a"};
	assert_non_null(out);
	print_verification(&result, out);
	assert_int_equal(fclose(out), 0);
	for (const char *at = text; *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 1 + 16);
	free(text);
}

static void expect_reason(const char *reason)
{
	struct error error = {""};

	assert_int_equal(explain_no_samples(&recording, &error), -ENODATA);
	assert_string_equal(error.text, reason);
}

static void lack_of_samples_has_a_reason(void **state)
{
	(void)state;
	recording.rate = 99;
	expect_reason("no samples: the recording ended before the first tick, which comes after "
		      "1/99 s; a higher -F gives more");
	recording.is_perf = true;
	expect_reason("no samples: nothing that is selected took 1/99 s of CPU time, after which "
		      "perf events sample; a longer recording or a higher -F gives more");
	recording.is_perf = false;
	recording.counts[STACKBEAT_S_IDLE] = 5;
	expect_reason("no samples: the CPUs were idle at all 5 ticks");
	recording.counts[STACKBEAT_S_FILTERED] = 2;
	expect_reason("no samples: nothing that the filter selects was running at any of the 7 "
		      "ticks");
	recording.counts[STACKBEAT_S_LOST_FULL] = 3;
	expect_reason("no samples: all 3 were lost");
	recording.counts[STACKBEAT_S_LOST_BAD_TAIL] = 1;
	expect_reason("no samples: all 4 were lost");
}

static void losses_after_the_last_file_are_printed(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_non_null(out);
	print_lost_at_end(&recording, out);
	recording.counts[STACKBEAT_S_LOST_FULL] = 3;
	recording.counts[STACKBEAT_S_LOST_BAD_TAIL] = 2;
	print_lost_at_end(&recording, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "stackbeat: all 5 samples after the last file were lost\n");
	free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rate_is_that_reached),
		TEST(unknown_rate_is_the_requested_one),
		TEST(one_cpu_is_no_plural),
		TEST(causes_fit_a_terminal),
		TEST(next_command_names_the_file),
		TEST(summary_names_only_what_happened),
		TEST(parts_add_up_to_all_cpu_time),
		TEST(losses_and_truncations_have_their_causes),
		TEST(callers_have_shares),
		TEST(everything_incomplete_is_named),
		TEST(merged_stacks_come_last),
		TEST(missing_timestamps_have_a_remedy),
		TEST(verification_names_differences),
		TEST(objects_of_a_verification_are_limited),
		TEST(lack_of_samples_has_a_reason),
		TEST(losses_after_the_last_file_are_printed),
	};

	return cmocka_run_group_tests_name("record_summary", tests, NULL, NULL);
}

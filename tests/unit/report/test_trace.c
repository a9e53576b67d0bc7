// SPDX-License-Identifier: GPL-2.0
/* Traces: threads, CPUs and times of samples; and exports without memory. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"
#include "report/firefox.h"
#include "report/perfetto.h"
#include "report/speedscope.h"
#include "report/trace.h"
#include "sample_profile.h"

#define START (1700000000LL * 1000 * MS)

/* Adds a sample of 10 ms that ends at a time (ms) of a thread: 0: it has no ID. */
static void add_timed(struct profile *profile, int64_t tid, const char *name, int64_t cpu,
		      int64_t time_ms)
{
	const int64_t values[] = {1, 10 * MS};
	uint32_t location = example_location(profile, 0, 1000 + (uint64_t)cpu, "inner", name);
	uint32_t labels[5], count = 0;

	labels[count++] = example_label(profile, "comm", "app");
	labels[count++] = example_label(profile, "thread", name);
	labels[count++] = example_number(profile, "pid", 7, "pid");
	if (tid)
		labels[count++] = example_number(profile, "tid", tid, "tid");
	if (cpu >= 0)
		labels[count++] = example_number(profile, "cpu", cpu, "cpu");
	profile_add_moment(profile,
			   profile_add(profile, profile_stack(profile, &location, 1),
				       profile_label_set(profile, labels, count), values),
			   START + time_ms * MS, values);
	assert_int_equal(profile->error, 0);
}

static struct profile *timed_profile(void)
{
	struct profile *profile = empty_profile();

	add_timed(profile, 9, "second", 3, 40);
	add_timed(profile, 8, "first", 1, 30);
	add_timed(profile, 8, "first", 1, 20);
	add_timed(profile, 7, "app", 3, 31);
	add_timed(profile, 8, "renamed", 3, 61);
	profile->time_ns = START;
	profile->duration_ns = 100 * MS;
	return profile;
}

static void expect_track(const struct trace_track *track, int64_t tid, size_t first, size_t count)
{
	assert_int_equal(track->tid, tid);
	assert_int_equal(track->first, first);
	assert_int_equal(track->count, count);
}

static void samples_are_in_order_of_time(void **state)
{
	struct profile *profile = timed_profile();
	struct trace trace;
	char *name;

	(void)state;
	assert_int_equal(trace_make(&trace, profile, PROFILE_CPU), 0);
	assert_int_equal(trace.thread_count, 3);
	assert_int_equal(trace.sample_count, 5);
	/* The first thread of a process is the first one. */
	expect_track(&trace.threads[0], 7, 0, 1);
	expect_track(&trace.threads[1], 8, 1, 3);
	expect_track(&trace.threads[2], 9, 4, 1);
	for (size_t i = 2; i < 4; i++)
		assert_true(trace.samples[i - 1].time_ns < trace.samples[i].time_ns);
	assert_int_equal(trace_thread_name(&trace.threads[1], &name), 0);
	assert_string_equal(name, "first of app (pid 7, tid 8)");
	free(name);
	assert_int_equal(trace.cpu_count, 2);
	assert_int_equal(trace.cpus[0].cpu, 1);
	assert_int_equal(trace.cpus[0].count, 2);
	assert_int_equal(trace.cpus[1].cpu, 3);
	assert_int_equal(trace.cpus[1].count, 3);
	assert_int_equal(trace.samples[trace.by_cpu[2]].time_ns, START + 31 * MS);
	assert_int_equal(trace.samples[trace.by_cpu[4]].time_ns, START + 61 * MS);
	assert_int_equal(trace.start_ns, START);
	assert_int_equal(trace.end_ns, START + 100 * MS);
	assert_int_equal(trace.left_out, 0);
	trace_clear(&trace);
	profile_free(profile);
}

/* Up to two periods apart, a thread has run since the sample before. */
static void gaps_are_where_a_thread_did_not_run(void **state)
{
	struct profile *profile = timed_profile();
	struct trace trace;

	(void)state;
	assert_int_equal(trace_make(&trace, profile, PROFILE_CPU), 0);
	assert_int_equal(trace_begin(&trace, INT64_MIN, &trace.samples[1]), START + 10 * MS);
	assert_int_equal(trace_begin(&trace, START + 20 * MS, &trace.samples[2]), START + 20 * MS);
	assert_int_equal(trace_begin(&trace, START + 10 * MS, &trace.samples[2]), START + 10 * MS);
	assert_int_equal(trace_begin(&trace, START + 30 * MS, &trace.samples[3]), START + 51 * MS);
	trace_clear(&trace);
	/* Counts: a sample has the period of the profile. */
	profile->period = 5 * MS;
	assert_int_equal(trace_make(&trace, profile, PROFILE_SAMPLES), 0);
	assert_int_equal(trace_begin(&trace, INT64_MIN, &trace.samples[1]), START + 15 * MS);
	trace_clear(&trace);
	profile_free(profile);
}

/* Names distinguish threads without IDs, and a sample without a CPU is on none. */
static void labels_may_be_missing(void **state)
{
	struct profile *profile = empty_profile();
	struct trace trace;
	char *name;

	(void)state;
	add_timed(profile, 0, "one", -1, 20);
	add_timed(profile, 0, "two", -1, 20);
	add_timed(profile, 0, "one", 0, 30);
	assert_int_equal(trace_make(&trace, profile, PROFILE_CPU), 0);
	assert_int_equal(trace.thread_count, 2);
	assert_int_equal(trace.threads[0].count, 2);
	assert_int_equal(trace.cpu_count, 1);
	assert_int_equal(trace.cpus[0].count, 1);
	assert_int_equal(trace_thread_name(&trace.threads[1], &name), 0);
	assert_string_equal(name, "two of app (pid 7)");
	free(name);
	trace_clear(&trace);
	profile_free(profile);
}

static void frames_have_numbers(void **state)
{
	struct profile *profile = timed_profile();
	struct trace trace;
	uint32_t frames[2];

	(void)state;
	assert_int_equal(trace_make(&trace, profile, PROFILE_CPU), 0);
	assert_int_equal(trace.deepest, 2);
	for (uint32_t i = 0; i < trace_frame_count(&trace); i++) {
		const uint32_t location = trace_frame_location(&trace, i);

		assert_true(trace.first_frames[location] <= i &&
			    i < trace.first_frames[location + 1]);
	}
	assert_int_equal(trace_stack_frames(&trace, 1, frames), 2);
	assert_int_equal(frames[0], frames[1] + 1);
	trace_clear(&trace);
	profile_free(profile);
}

typedef int print_fn(const struct trace *trace, const char *name, FILE *out);

static int export(const struct profile *profile, print_fn *print, FILE *out)
{
	struct trace trace;
	int err = trace_make(&trace, profile, PROFILE_CPU);

	if (!err)
		err = print(&trace, "name", out);
	trace_clear(&trace);
	return err;
}

static int print_perfetto(const struct trace *trace, const char *name, FILE *out)
{
	(void)name;
	return write_perfetto(trace, out);
}

/* Each allocation fails in turn: there is an error, or the same document. */
static void exports_without_memory_are_an_error(void **state)
{
	print_fn *const formats[] = {print_firefox, print_perfetto, print_speedscope_trace};
	struct profile *profile = timed_profile();
	char expected[16384] = "", printed[16384] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		FILE *out = fmemopen(expected, sizeof(expected), "w");
		bool has_failed = true;

		assert_int_equal(export(profile, formats[i], out), 0);
		fclose(out);
		for (unsigned long number = 1; has_failed; number++) {
			int err;

			out = fmemopen(printed, sizeof(printed), "w");
			fail_malloc(number, false);
			err = export(profile, formats[i], out);
			has_failed = malloc_has_failed();
			fail_malloc(0, false);
			fclose(out);
			assert_true(err == -ENOMEM || !memcmp(printed, expected, sizeof(expected)));
			assert_true(has_failed || !err);
		}
	}
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_in_order_of_time),
		cmocka_unit_test(gaps_are_where_a_thread_did_not_run),
		cmocka_unit_test(labels_may_be_missing),
		cmocka_unit_test(frames_have_numbers),
		cmocka_unit_test(exports_without_memory_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

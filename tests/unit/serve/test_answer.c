// SPDX-License-Identifier: GPL-2.0
/* The contents of answers, from slices and from the store. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "serve/answer.h"
#include "serve/request.h"

#define SECOND INT64_C(1000000000)
#define MINUTE_US INT64_C(60000000)

static struct request request;
static struct error error;
static struct store_config config;
static struct store_result result;
static int64_t start_ns; /* of the first slice: a full minute, so recent that it is kept */

static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	config = (struct store_config){
		.path = sandbox,
		.limits = {.bytes = UINT64_MAX, .age_s = 86400, .merge_age_s = {7200, 86400}},
		.window_s = 60,
		.labels = UINT32_MAX,
	};
	result = (struct store_result){0};
	start_ns = now_ns(CLOCK_REALTIME) / (60 * SECOND) * 60 * SECOND - 600 * SECOND;
	request_init(&request, now_ns(CLOCK_REALTIME) / 1000);
	error.text[0] = '\0';
	return 0;
}

static int new_file(void)
{
	int file = memfd_create("test", MFD_CLOEXEC);

	assert_true(file >= 0);
	return file;
}

/* A slice of 10 seconds with the samples of example_profile(). */
static struct slice_file make_slice(unsigned int number, unsigned int lost)
{
	struct slice_file slice = {new_file(), start_ns + number * 10 * SECOND, 10 * SECOND, false};
	struct profile *profile = example_profile();

	profile_comment(profile, "lost: %u (ring full 1)", lost);
	profile_comment(profile, "source: perf events");
	if (lost == 3)
		profile_comment(profile, "source: kernel module");
	profile->time_ns = slice.start_ns;
	profile->duration_ns = slice.duration_ns;
	assert_int_equal(pprof_write_fd(profile, slice.file, "slice", &error), 0);
	profile_free(profile);
	return slice;
}

/* Returns what was written to a file, with a NUL, which the caller frees; closes it. */
static char *content_of(int file, size_t *size)
{
	off_t length = lseek(file, 0, SEEK_END);
	char *text = calloc(1, (size_t)length + 1);

	assert_non_null(text);
	assert_int_equal(pread(file, text, (size_t)length, 0), length);
	close(file);
	if (size)
		*size = (size_t)length;
	return text;
}

static struct profile *profile_of(int file)
{
	size_t size;
	char *bytes = content_of(file, &size);
	struct profile *profile = pprof_decode(bytes, size, "answer", &error);

	if (!profile)
		fail_msg("%s", error.text);
	free(bytes);
	return profile;
}

static int64_t sum_of(const struct profile *profile, size_t type)
{
	int64_t sum = 0;

	for (size_t i = 0; i < profile->samples.count; i++)
		sum += profile_values(profile, i)[type];
	return sum;
}

static bool has_comment(const struct profile *profile, const char *text)
{
	for (size_t i = 0; i < profile->comments.count; i++) {
		if (!strcmp(profile_text(profile, profile->comments.items[i]), text))
			return true;
	}
	return false;
}

static void slices_are_summed_up(void **state)
{
	const struct slice_file slices[] = {
		make_slice(1, 2),
		make_slice(0, 3),
		{-1, start_ns + 20 * SECOND, 10 * SECOND, false},
	};
	struct profile *profile;
	int out = new_file();

	(void)state;
	assert_int_equal(answer_slices(slices, 3, &request, out, &error), 0);
	profile = profile_of(out);
	assert_int_equal(sum_of(profile, PROFILE_SAMPLES), 2 * EXAMPLE_SAMPLES);
	assert_int_equal(sum_of(profile, PROFILE_CPU), 2 * (int64_t)EXAMPLE_CPU);
	assert_int_equal(profile->time_ns, start_ns);
	assert_int_equal(profile->duration_ns, 30 * SECOND);
	assert_true(has_comment(profile, "lost: 5"));
	/* Each source once. */
	assert_int_equal(profile->comments.count, 3);
	assert_true(has_comment(profile, "source: perf events"));
	assert_true(has_comment(profile, "source: kernel module"));
	profile_free(profile);
	/* They are read again by others. */
	out = new_file();
	assert_int_equal(answer_slices(slices, 1, &request, out, &error), 0);
	profile = profile_of(out);
	assert_int_equal(sum_of(profile, PROFILE_SAMPLES), EXAMPLE_SAMPLES);
	profile_free(profile);
	close(slices[0].file);
	close(slices[1].file);
}

/* A valid profile, too. */
static void slices_may_have_no_samples(void **state)
{
	const struct slice_file slice = {-1, start_ns, 10 * SECOND, false};
	struct profile *profile;
	int out = new_file();

	(void)state;
	assert_int_equal(answer_slices(&slice, 1, &request, out, &error), 0);
	profile = profile_of(out);
	assert_int_equal(profile->samples.count, 0);
	assert_int_equal(profile->types.count, PROFILE_RECORDED_TYPES);
	assert_int_equal(profile->time_ns, start_ns);
	profile_free(profile);
	out = new_file();
	assert_int_equal(answer_slices(NULL, 0, &request, out, &error), 0);
	profile = profile_of(out);
	assert_int_equal(profile->time_ns, 0);
	assert_int_equal(profile->duration_ns, 0);
	profile_free(profile);
}

static void assert_answer_has(enum request_format format, const char *expected)
{
	const struct slice_file slice = make_slice(0, 0);
	char *text;
	int out = new_file();

	request.format = format;
	assert_int_equal(answer_slices(&slice, 1, &request, out, &error), 0);
	text = content_of(out, NULL);
	assert_non_null(strstr(text, expected));
	free(text);
	close(slice.file);
}

static void stacks_have_formats_of_other_tools(void **state)
{
	(void)state;
	assert_answer_has(REQUEST_FOLDED, "main;fib;fib;fib 30000000\n");
	assert_answer_has(REQUEST_SPEEDSCOPE, "\"startValue\":0,\"endValue\":110000000}]}\n");
	assert_answer_has(REQUEST_FLAMEGRAPH, "<title>all services</title>");
	request.selection.service = "app";
	assert_answer_has(REQUEST_FLAMEGRAPH, "<title>app</title>");
	request.selection.service = NULL;
	request.group = "comm";
	request.selection.labels |= LABEL_SET(LABEL_COMM);
	assert_answer_has(REQUEST_FLAMEGRAPH, "\"\\u003cio\\u003e");
}

static void selected_samples_are_answered(void **state)
{
	const struct slice_file slice = make_slice(0, 0);
	struct profile *profile;
	int out = new_file();

	(void)state;
	request.selection.service = "app";
	assert_int_equal(answer_slices(&slice, 1, &request, out, &error), 0);
	profile = profile_of(out);
	assert_int_equal(sum_of(profile, PROFILE_SAMPLES), 6);
	profile_free(profile);
	close(slice.file);
}

static void damaged_slices_are_errors(void **state)
{
	const struct slice_file damaged = {new_file(), start_ns, SECOND, false},
				empty = {new_file(), start_ns, SECOND, false};
	int out = new_file();

	(void)state;
	assert_int_equal(write(damaged.file, "no profile", 10), 10);
	assert_int_equal(answer_slices(&damaged, 1, &request, out, &error), -EBADMSG);
	assert_non_null(strstr(error.text, "a slice: "));
	assert_int_equal(answer_slices(&empty, 1, &request, out, &error), -EINVAL);
	assert_non_null(strstr(error.text, "can't read a slice"));
	assert_int_equal(store_slices(&config, &damaged, 1, false, &result, &error), -EBADMSG);
	assert_int_equal(result.windows, 0);
	close(damaged.file);
	close(empty.file);
	close(out);
}

static void full_answers_are_errors(void **state)
{
	const struct slice_file slice = make_slice(0, 0);
	int out = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(out >= 0);
	assert_int_equal(answer_slices(&slice, 1, &request, out, &error), -ENOSPC);
	request.format = REQUEST_FOLDED;
	assert_int_equal(answer_slices(&slice, 1, &request, out, &error), -ENOSPC);
	assert_non_null(strstr(error.text, "can't write the answer"));
	assert_int_equal(answer_windows(sandbox, &request, out, &error), -ENOSPC);
	close(out);
	assert_int_equal(answer_windows(sandbox, &request, out, &error), -EBADF);
	close(slice.file);
}

/* The store */

static void store(unsigned int first, unsigned int count, bool again)
{
	struct slice_file slices[8] = {{0}};

	for (unsigned int i = 0; i < count; i++)
		slices[i] = make_slice(first + i, 1);
	if (store_slices(&config, slices, count, again, &result, &error))
		fail_msg("%s", error.text);
	for (unsigned int i = 0; i < count; i++)
		close(slices[i].file);
}

static struct profile *range(int64_t from_us, int64_t until_us)
{
	int out = new_file();

	request.from_us = start_ns / 1000 + from_us;
	request.until_us = start_ns / 1000 + until_us;
	if (answer_range(sandbox, &request, out, &error))
		fail_msg("%s", error.text);
	return profile_of(out);
}

static void slices_become_a_window(void **state)
{
	struct profile *profile;

	(void)state;
	store(0, 6, false);
	assert_int_equal(result.counts.written, 1);
	assert_int_equal(result.windows, 1);
	assert_true(result.window_bytes > 0);
	assert_true(result.newest_us == start_ns / 1000 + MINUTE_US);
	store(6, 3, false);
	assert_int_equal(result.counts.written, 1);
	assert_int_equal(result.windows, 2);
	assert_true(result.newest_us == start_ns / 1000 + 2 * MINUTE_US);
	profile = range(0, MINUTE_US);
	assert_int_equal(sum_of(profile, PROFILE_SAMPLES), 6 * EXAMPLE_SAMPLES);
	assert_int_equal(profile->time_ns, start_ns);
	assert_int_equal(profile->duration_ns, 60 * SECOND);
	assert_true(has_comment(profile, "lost: 6"));
	profile_free(profile);
	profile = range(0, 10 * MINUTE_US);
	assert_int_equal(sum_of(profile, PROFILE_CPU), 9 * (int64_t)EXAMPLE_CPU);
	profile_free(profile);
	profile = range(-MINUTE_US, 0);
	assert_int_equal(profile->samples.count, 0);
	profile_free(profile);
}

static bool has_file(const char *name, const void *bytes, size_t size)
{
	int file = open(in_sandbox("%s", name), O_RDONLY | O_CLOEXEC);
	size_t found_size = 0;
	bool is_equal;
	char *found;

	if (file < 0)
		return false;
	found = content_of(file, &found_size);
	is_equal = found_size == size && !memcmp(found, bytes, size);
	free(found);
	return is_equal;
}

/* As it is, but not with others, or by a sampler that does not say so. */
static void window_of_the_sampler_is_stored(void **state)
{
	struct slice_file slices[] = {make_slice(0, 1), make_slice(1, 1)};
	struct window_name name = {.start_us = start_ns / 1000, .seconds = 60};
	char text[WINDOW_NAME_SIZE];
	size_t size;
	char *bytes;

	(void)state;
	window_name_format(&name, text);
	assert_int_equal(store_slices(&config, slices, 1, false, &result, &error), 0);
	bytes = content_of(dup(slices[0].file), &size);
	assert_false(has_file(text, bytes, size));
	slices[0].is_window = slices[1].is_window = true;
	assert_int_equal(store_slices(&config, slices, 1, true, &result, &error), 0);
	assert_true(has_file(text, bytes, size));
	assert_int_equal(result.counts.written, 1);
	assert_int_equal(result.windows, 1);
	assert_true(result.window_bytes == size);
	assert_int_equal(store_slices(&config, slices, 2, true, &result, &error), 0);
	assert_false(has_file(text, bytes, size));
	assert_int_equal(result.windows, 1);
	free(bytes);
	close(slices[0].file);
	close(slices[1].file);
}

/* By a server that replaces a server that has crashed after it had stored some. */
static void slices_stored_again_are_counted_once(void **state)
{
	struct profile *profile;

	(void)state;
	store(0, 2, false);
	store(0, 3, true);
	assert_int_equal(result.windows, 1);
	profile = range(0, MINUTE_US);
	assert_int_equal(sum_of(profile, PROFILE_SAMPLES), 3 * EXAMPLE_SAMPLES);
	profile_free(profile);
}

static void slices_without_samples_make_no_window(void **state)
{
	const struct slice_file slice = {-1, start_ns, 60 * SECOND, false};

	(void)state;
	assert_int_equal(store_slices(&config, &slice, 1, false, &result, &error), 0);
	assert_int_equal(result.windows, 0);
	config.path = in_sandbox("missing");
	assert_int_equal(store_slices(&config, &slice, 1, false, &result, &error), -ENOENT);
}

static char *text_of(int (*answer)(const char *store, const struct request *request, int out,
				   struct error *error))
{
	int out = new_file();

	if (answer(sandbox, &request, out, &error))
		fail_msg("%s", error.text);
	return content_of(out, NULL);
}

static void windows_have_times_and_sizes(void **state)
{
	const int64_t from_s = start_ns / SECOND;
	char expected[200];
	char *text;

	(void)state;
	store(0, 6, false);
	snprintf(expected, sizeof(expected),
		 "[{\"from\":%" PRId64 ".0,\"until\":%" PRId64 ".0,\"bytes\":%" PRIu64 "}]\n",
		 from_s, from_s + 60, result.window_bytes);
	text = text_of(answer_windows);
	assert_string_equal(text, expected);
	free(text);
	/* Neither a window that ends where the range begins, nor a window that begins where it
	 * ends. */
	request.from_us = start_ns / 1000 + MINUTE_US;
	text = text_of(answer_windows);
	assert_string_equal(text, "[]\n");
	free(text);
	request.from_us--;
	text = text_of(answer_windows);
	assert_string_equal(text, expected);
	free(text);
	request.until_us = start_ns / 1000;
	request.from_us = request.until_us - 1;
	text = text_of(answer_windows);
	assert_string_equal(text, "[]\n");
	free(text);
	request.until_us++;
	text = text_of(answer_windows);
	assert_string_equal(text, expected);
	free(text);
}

static void services_have_their_time(void **state)
{
	char *text;
	int out;

	(void)state;
	store(0, 6, false);
	request.from_us = start_ns / 1000;
	text = text_of(answer_services);
	assert_string_equal(text, "[{\"service\":\"app\",\"samples\":36,\"cpu_ns\":360000000},"
				  "{\"service\":\"<io> & \\\"co\\\"\",\"samples\":30,"
				  "\"cpu_ns\":300000000}]\n");
	free(text);
	out = new_file();
	assert_int_equal(answer_targets(sandbox, &request, "host:7079", out, &error), 0);
	text = content_of(out, NULL);
	assert_string_equal(text,
			    "[{\"targets\":[\"host:7079\"],\"labels\":{\"service_name\":\"app\","
			    "\"__param_service\":\"app\"}},"
			    "{\"targets\":[\"host:7079\"],\"labels\":{\"service_name\":"
			    "\"<io> & \\\"co\\\"\",\"__param_service\":\"<io> & \\\"co\\\"\"}}]\n");
	free(text);
}

/* Users can make any number of services. */
static void targets_are_the_largest_services(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x10, NULL, "f");
	struct slice_file slice = {.file = new_file(), .start_ns = start_ns, .duration_ns = SECOND};
	int out = new_file();
	size_t count = 0;
	char name[16], *text;

	(void)state;
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "p%03d", i);
		example_sample(profile, &location, 1, 300 - i, name);
	}
	assert_int_equal(pprof_write_fd(profile, slice.file, "slice", &error), 0);
	profile_free(profile);
	assert_int_equal(store_slices(&config, &slice, 1, false, &result, &error), 0);
	close(slice.file);
	request.from_us = start_ns / 1000;
	assert_int_equal(answer_targets(sandbox, &request, "h", out, &error), 0);
	text = content_of(out, NULL);
	for (const char *at = text; (at = strstr(at, "service_name")); at++)
		count++;
	assert_int_equal(count, 256);
	assert_non_null(strstr(text, "\"p255\""));
	assert_null(strstr(text, "\"p256\""));
	free(text);
}

static void answers_have_no_characters_for_terminals(void **state)
{
	int out = new_file();
	char *text;

	(void)state;
	store(0, 1, false);
	request.from_us = start_ns / 1000;
	assert_int_equal(answer_targets(sandbox, &request, "\xc2\x9b\xe2\x80\xae", out, &error), 0);
	text = content_of(out, NULL);
	assert_non_null(strstr(text, "\"targets\":[\"\\u009b\\u202e\"]"));
	free(text);
}

static void flame_graphs_are_compared_with_a_base(void **state)
{
	char *text;

	(void)state;
	store(0, 6, false);
	store(12, 6, false);
	request.format = REQUEST_FLAMEGRAPH;
	request.from_us = start_ns / 1000 + 2 * MINUTE_US;
	request.until_us = request.from_us + MINUTE_US;
	text = text_of(answer_range);
	assert_null(strstr(text, "compared with"));
	free(text);
	request.has_base = true;
	request.base_from_us = start_ns / 1000;
	request.base_until_us = request.base_from_us + 3 * MINUTE_US;
	text = text_of(answer_range);
	assert_non_null(strstr(text, "<title>all services</title>"));
	assert_non_null(strstr(text, "cpu: 660ms"));
	assert_non_null(strstr(text, "compared with 1.32s"));
	free(text);
	request.selection.service = "app";
	request.base_service = EXAMPLE_COMM;
	text = text_of(answer_range);
	assert_non_null(strstr(text, "<title>app, compared with &lt;io&gt; &amp; \"co\"</title>"));
	assert_non_null(strstr(text, "cpu: 360ms"));
	assert_non_null(strstr(text, "compared with 600ms"));
	free(text);
}

static void flame_graph_needs_samples(void **state)
{
	int out = new_file();

	(void)state;
	store(0, 6, false);
	request.format = REQUEST_FLAMEGRAPH;
	request.selection.service = "none";
	request.from_us = start_ns / 1000;
	assert_int_equal(answer_range(sandbox, &request, out, &error), -ENODATA);
	assert_non_null(strstr(error.text, "no samples"));
	close(out);
}

static void timeline_has_the_services(void **state)
{
	char expected[400], *text;

	(void)state;
	store(0, 6, false);
	store(6, 6, false);
	request.from_us = start_ns / 1000 + MINUTE_US / 2;
	request.until_us = request.from_us + 2 * MINUTE_US;
	request.steps = 4;
	text = text_of(answer_timeline);
	snprintf(expected, sizeof(expected),
		 "{\"from\":%" PRId64 ".0,\"until\":%" PRId64 ".0,\"windows\":2,\"unreadable\":0,"
		 "\"services\":[{\"service\":\"app\",\"cpu_ns\":540000000,"
		 "\"steps\":[180000000,180000000,180000000,0]},"
		 "{\"service\":\"<io> & \\\"co\\\"\",\"cpu_ns\":450000000,"
		 "\"steps\":[150000000,150000000,150000000,0]}]}\n",
		 request.from_us / 1000000, request.until_us / 1000000);
	assert_string_equal(text, expected);
	free(text);
	run("for file in %s/*.pb.gz; do echo damaged >$file; done", sandbox);
	text = text_of(answer_timeline);
	assert_non_null(strstr(text, "\"windows\":0,\"unreadable\":2,\"services\":[]}"));
	free(text);
}

/* Without a process that reads code, by the samples of the selected time and service. */
static void functions_are_annotated(void **state)
{
	int out = new_file();
	char *text;

	(void)state;
	store(0, 6, false);
	request.from_us = start_ns / 1000;
	request.function = "fib";
	request.selection.service = "app";
	assert_int_equal(answer_annotation(sandbox, &request, NULL, out, &error), 0);
	text = content_of(out, NULL);
	assert_non_null(strstr(text, "\"total\":360000000,\"problem\":\"no code is read here\","));
	assert_non_null(strstr(text, "\"file\":\"/src/app.c\",\"line\":42}]"));
	free(text);
	out = new_file();
	request.file = "libx.so";
	assert_int_equal(answer_annotation(sandbox, &request, NULL, out, &error), -ENODATA);
	assert_non_null(strstr(error.text, "no function 'fib' in libx.so"));
	request.file = NULL;
	request.selection.service = "none";
	assert_int_equal(answer_annotation(sandbox, &request, NULL, out, &error), -ENODATA);
	assert_int_equal(answer_annotation(in_sandbox("no"), &request, NULL, out, &error), -ENOENT);
	assert_int_equal(lseek(out, 0, SEEK_END), 0);
	close(out);
}

static void missing_store_is_an_error(void **state)
{
	const char *missing = in_sandbox("missing");
	int out = new_file();

	(void)state;
	assert_int_equal(answer_range(missing, &request, out, &error), -ENOENT);
	assert_int_equal(answer_windows(missing, &request, out, &error), -ENOENT);
	assert_int_equal(answer_services(missing, &request, out, &error), -ENOENT);
	assert_int_equal(answer_targets(missing, &request, "host", out, &error), -ENOENT);
	assert_int_equal(answer_timeline(missing, &request, out, &error), -ENOENT);
	assert_non_null(strstr(error.text, "missing: No such file"));
	assert_int_equal(lseek(out, 0, SEEK_END), 0);
	close(out);
}

static void unreadable_windows_are_named(void **state)
{
	struct profile *profile;

	(void)state;
	store(0, 6, false);
	run("for file in %s/*.pb.gz; do echo damaged >$file; done", sandbox);
	profile = range(0, MINUTE_US);
	assert_int_equal(profile->samples.count, 0);
	assert_true(has_comment(profile, "windows that could not be read: 1"));
	profile_free(profile);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slices_are_summed_up),
		TEST(slices_may_have_no_samples),
		TEST(stacks_have_formats_of_other_tools),
		TEST(selected_samples_are_answered),
		TEST(damaged_slices_are_errors),
		TEST(full_answers_are_errors),
		TEST(slices_become_a_window),
		TEST(window_of_the_sampler_is_stored),
		TEST(slices_stored_again_are_counted_once),
		TEST(slices_without_samples_make_no_window),
		TEST(windows_have_times_and_sizes),
		TEST(services_have_their_time),
		TEST(targets_are_the_largest_services),
		TEST(answers_have_no_characters_for_terminals),
		TEST(flame_graphs_are_compared_with_a_base),
		TEST(flame_graph_needs_samples),
		TEST(timeline_has_the_services),
		TEST(functions_are_annotated),
		TEST(missing_store_is_an_error),
		TEST(unreadable_windows_are_named),
	};

	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}

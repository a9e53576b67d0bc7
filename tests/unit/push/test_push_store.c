// SPDX-License-Identifier: GPL-2.0
/* Which windows of a store are pushed, and the state after that. This test is the server. */
#include "push/push_store.h"

#include "sandbox.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "lib/error.h"
#include "sample_profile.h"
#include "store/store.h"

#define START INT64_C(1800000000) /* a full hour, in seconds */
#define START_US (START * 1000000)
#define MINUTE_US INT64_C(60000000)
#define WINDOWS 3
#define SERVICES 2u

static struct push_options options;
static struct http_client *const client = (struct http_client *)"client";
static const char *store_path, *state_path;
static struct push_state push;
static struct push_store_counts counts;
static struct error error;

/* The answers of the server, in turn, and what it got. */
static enum http_result answers[WINDOWS];
static size_t done_before[WINDOWS], calls;
static int64_t pushed_us[WINDOWS];

static int64_t clock_us; /* of all clocks */

int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){clock_us / 1000000, clock_us % 1000000 * 1000};
	return 0;
}

enum http_result push_profile(struct http_client *got_client, const struct push_options *got,
			      const struct profile *profile, size_t *done, struct push_counts *sum,
			      struct error *reason)
{
	enum http_result result;

	assert_true(calls < WINDOWS);
	assert_ptr_equal(got_client, client);
	assert_ptr_equal(got, &options);
	assert_int_equal(got->form, PUSH_PPROF);
	done_before[calls] = *done;
	pushed_us[calls] = profile->time_ns / 1000;
	result = answers[calls++];
	sum->requests++;
	/* It is unavailable for the second service. */
	*done = result == HTTP_UNAVAILABLE ? 1 : SERVICES;
	if (result != HTTP_ACCEPTED)
		error_set(reason, EIO, "answer %zu", calls);
	return result;
}

/* Whether the server has failed for long, and what it answers for a window behind. */
static bool fails_long;
static enum http_result answer_behind;
static size_t calls_behind;

bool push_profile_fails_long(const struct push_counts *sum)
{
	assert_ptr_equal(sum, &counts.pushed);
	return fails_long;
}

enum http_result push_profile_behind(struct http_client *got_client, const struct push_options *got,
				     const struct profile *profile, size_t *done,
				     struct push_counts *sum)
{
	assert_ptr_equal(got_client, client);
	assert_ptr_equal(got, &options);
	assert_ptr_equal(sum, &counts.pushed);
	assert_true(profile->time_ns / 1000 == START_US + MINUTE_US);
	calls_behind++;
	if (answer_behind != HTTP_UNAVAILABLE)
		*done = 1;
	return answer_behind;
}

static int set_up(void **state)
{
	static const struct store_limits limits = {UINT64_MAX, INT64_MAX / 4000000, {86400, 86400}};
	struct profile *profile = example_profile();
	struct store store;
	int err;

	if (make_sandbox(state))
		return -1;
	store_path = in_sandbox("store");
	state_path = in_sandbox("state");
	err = mkdir(store_path, 0700) || store_open(&store, store_path, &limits, &error);
	for (int i = 0; i < WINDOWS && !err; i++) {
		profile->time_ns = (START + 60 * i) * 1000000000;
		err = store_add(&store, profile, 60, &error);
	}
	store_close(&store);
	profile_free(profile);
	push = (struct push_state){.path = state_path, .lock = -1, .next_us = START_US};
	memset(&counts, 0, sizeof(counts));
	memset(&error, 0, sizeof(error));
	memset(answers, HTTP_ACCEPTED, sizeof(answers));
	options = (struct push_options){.form = PUSH_PPROF};
	clock_us = START_US + 60 * MINUTE_US;
	calls = calls_behind = 0;
	fails_long = false;
	return err;
}

static int tear_down(void **state)
{
	push_state_close(&push);
	return remove_sandbox(state);
}

static enum http_result push_all(void)
{
	return push_store(client, &options, store_path, &push, &counts, &error);
}

static void expect_state(int64_t next_us, size_t done)
{
	struct push_state read;

	assert_true(push.next_us == next_us);
	assert_int_equal(push.done, done);
	assert_int_equal(push_state_open(&read, state_path, -1, &error), 0);
	push_state_close(&read);
	assert_true(read.next_us == next_us);
	assert_int_equal(read.done, done);
}

static void expect_counts(uint64_t requests, uint64_t windows)
{
	assert_int_equal(counts.pushed.requests, requests);
	assert_int_equal(counts.windows, windows);
}

static void all_windows_are_pushed_once(void **state)
{
	(void)state;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
	for (int i = 0; i < WINDOWS; i++) {
		assert_true(pushed_us[i] == START_US + i * MINUTE_US);
		assert_int_equal(done_before[i], 0);
	}
	expect_counts(3, 3);
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
	assert_string_equal(error.text, "");
	/* There is nothing new: the state is not written. */
	assert_int_equal(unlink(state_path), 0);
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
	assert_int_equal(access(state_path, F_OK), -1);
}

/* As a window does that was merged with older ones, which were pushed. */
static void window_that_began_before_is_left_out(void **state)
{
	(void)state;
	push.next_us = START_US + MINUTE_US + 1;
	push.done = 1;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, 1);
	assert_true(pushed_us[0] == START_US + 2 * MINUTE_US);
	/* Another window had these services. */
	assert_int_equal(done_before[0], 0);
	expect_counts(1, 1);
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
}

static void unavailable_server_gets_the_rest_later(void **state)
{
	(void)state;
	answers[1] = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls, 2);
	assert_string_equal(error.text, "answer 2");
	expect_counts(2, 1);
	expect_state(START_US + MINUTE_US, 1);
	calls = 0;
	answers[1] = HTTP_ACCEPTED;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, 2);
	assert_true(pushed_us[0] == START_US + MINUTE_US);
	assert_int_equal(done_before[0], 1);
	assert_int_equal(done_before[1], 0);
	expect_counts(4, 3);
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
}

/* Of the window where the state is, one service more. */
/* One window must not hold up those behind it, if the server takes these. */
static void window_that_fails_is_given_up_for_the_next(void **state)
{
	(void)state;
	answers[0] = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls_behind, 0);
	/* The server may be away. */
	fails_long = true;
	answers[1] = answer_behind = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls_behind, 1);
	assert_int_equal(calls, 2);
	expect_state(START_US, 1);
	/* The next window is not complete: the first one does not wait for it. */
	options.delay_us = 10 * MINUTE_US;
	clock_us = START_US + 11 * MINUTE_US;
	calls = 1;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls_behind, 1);
	assert_int_equal(calls, 2);
	options.delay_us = 0;
	calls = 1;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls_behind, 2);
	expect_state(START_US, 1);
	/* It takes the next one. */
	answer_behind = HTTP_REFUSED;
	answers[0] = HTTP_UNAVAILABLE;
	answers[1] = HTTP_ACCEPTED;
	calls = 0;
	assert_int_equal(push_all(), HTTP_REFUSED);
	assert_int_equal(calls_behind, 3);
	assert_int_equal(calls, 3);
	assert_int_equal(done_before[1], 1);
	assert_true(pushed_us[1] == START_US + MINUTE_US);
	assert_int_equal(counts.windows, 3);
	assert_string_equal(error.text, "answer 1");
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
}

static void services_alone_are_written(void **state)
{
	(void)state;
	answers[0] = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	expect_counts(1, 0);
	expect_state(START_US, 1);
	/* No other one. */
	assert_int_equal(unlink(state_path), 0);
	calls = 0;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls, 1);
	assert_int_equal(access(state_path, F_OK), -1);
}

static void refused_window_is_not_pushed_again(void **state)
{
	(void)state;
	answers[1] = HTTP_REFUSED;
	assert_int_equal(push_all(), HTTP_REFUSED);
	assert_int_equal(calls, WINDOWS);
	assert_string_equal(error.text, "answer 2");
	expect_counts(3, 3);
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
}

static void unreadable_windows_are_reported(void **state)
{
	(void)state;
	write_text(in_sandbox("store/20270115T090000.000000Z-60s.pb.gz"), "x");
	assert_int_equal(push_all(), HTTP_REFUSED);
	assert_int_equal(calls, WINDOWS);
	assert_non_null(strstr(error.text, store_path));
	assert_non_null(strstr(error.text, "could not be read: 1"));
	/* What a server says comes first. */
	push.next_us = START_US;
	calls = 0;
	answers[0] = HTTP_REFUSED;
	assert_int_equal(push_all(), HTTP_REFUSED);
	assert_string_equal(error.text, "answer 1");
	push.next_us = START_US;
	calls = 0;
	answers[2] = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, "answer 3");
}

static void missing_store_is_tried_again(void **state)
{
	(void)state;
	assert_int_equal(push_store(client, &options, in_sandbox("none"), &push, &counts, &error),
			 HTTP_UNAVAILABLE);
	assert_non_null(strstr(error.text, "none"));
	assert_int_equal(calls, 0);
	assert_int_equal(access(state_path, F_OK), -1);
}

static void state_that_is_not_written_is_an_error(void **state)
{
	(void)state;
	push.path = in_sandbox("none/state");
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls, WINDOWS);
	assert_non_null(strstr(error.text, "none/state"));
}

/* Each window is pushed when the delay after its end is over, and is read once until then. */
static void windows_wait_for_their_delay(void **state)
{
	(void)state;
	options.delay_us = 10 * 1000000;
	clock_us = START_US + 2 * MINUTE_US + options.delay_us - 1;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, 1);
	expect_state(START_US + 1, 0);
	/* As if somebody removed the store meanwhile. */
	assert_int_equal(push_store(client, &options, in_sandbox("none"), &push, &counts, &error),
			 HTTP_NONE);
	/* The last one is of the future: the clock was set back. */
	clock_us++;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
	expect_state(START_US + 2 * MINUTE_US + 1, 0);
}

/* A clock that is set back while a window waits does not make it wait longer. */
static void windows_do_not_wait_for_a_clock_set_back(void **state)
{
	(void)state;
	options.delay_us = 10 * 1000000;
	clock_us = START_US + MINUTE_US;
	assert_int_equal(push_all(), HTTP_NONE);
	assert_int_equal(calls, 0);
	clock_us = START_US - 1000 * MINUTE_US;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
}

static void add_window_of(int64_t start_us, uint32_t seconds)
{
	static const struct store_limits limits = {UINT64_MAX, INT64_MAX / 4000000, {86400, 86400}};
	struct profile *profile = example_profile();
	struct store store;

	assert_int_equal(store_open(&store, store_path, &limits, &error), 0);
	profile->time_ns = start_us * 1000;
	assert_int_equal(store_add(&store, profile, seconds, &error), 0);
	store_close(&store);
	profile_free(profile);
}

static void add_window(int64_t start_us)
{
	add_window_of(start_us, 60);
}

static void remove_window(int64_t start_us)
{
	const struct window_name name = {start_us, 60};
	char path[WINDOW_NAME_SIZE + 8] = "store/";

	assert_true(window_name_format(&name, path + strlen(path)));
	assert_int_equal(unlink(in_sandbox("%s", path)), 0);
}

/* Pushes one window, from then on. */
static void expect_pushed(int64_t start_us)
{
	calls = 0;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, 1);
	assert_true(pushed_us[0] == start_us);
}

static void expect_nothing(void)
{
	calls = 0;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, 0);
}

static void open_again(void)
{
	push_state_close(&push);
	assert_int_equal(push_state_open(&push, state_path, -1, &error), 0);
}

/* Windows go on when the clock is set right, and each one is pushed once. */
static void clock_that_was_ahead_does_not_stop_it(void **state)
{
	const int64_t now_us = START_US - 20 * 1440 * MINUTE_US;
	const int64_t ahead_us = START_US + 2 * MINUTE_US + 1;

	(void)state;
	add_window(now_us - 5 * MINUTE_US);
	push.next_us = now_us - 5 * MINUTE_US + 1;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
	/* By less than a minute, it goes on by itself. */
	clock_us = ahead_us - MINUTE_US;
	expect_nothing();
	assert_int_equal(counts.went_back, 0);
	clock_us = now_us;
	expect_nothing();
	assert_int_equal(counts.went_back, 1);
	expect_state(now_us - 5 * MINUTE_US + 1, 0);
	assert_true(push.ahead_us == ahead_us);
	add_window(now_us);
	expect_pushed(now_us);
	expect_nothing();
	open_again();
	expect_nothing();
	assert_int_equal(counts.went_back, 1);
	/* Their time comes. */
	clock_us = START_US + MINUTE_US;
	add_window(START_US - MINUTE_US);
	expect_pushed(START_US - MINUTE_US);
	add_window(START_US + 10 * 1000000);
	expect_pushed(START_US + 10 * 1000000);
	add_window(START_US + 3 * MINUTE_US);
	clock_us = START_US + 4 * MINUTE_US;
	expect_pushed(START_US + 3 * MINUTE_US);
	assert_int_equal(counts.went_back, 1);
	expect_nothing();
	assert_int_equal(push.ahead_us, 0);
	open_again();
	assert_int_equal(push.ahead_us, 0);
}

/* Windows of the future that were not pushed are pushed at once, too. */
static void clock_that_was_far_ahead_does_not_stop_it(void **state)
{
	(void)state;
	push.next_us = START_US + MINUTE_US + 1;
	clock_us = START_US - 365 * 1440 * MINUTE_US;
	expect_pushed(START_US + 2 * MINUTE_US);
	assert_int_equal(counts.went_back, 1);
	expect_nothing();
	/* It has left the future by itself. */
	assert_int_equal(counts.went_back, 1);
	expect_state(0, 0);
	add_window(clock_us);
	expect_pushed(clock_us);
	expect_nothing();
	assert_int_equal(counts.went_back, 1);
}

/* By the time that the early windows have come to, they may be parts of longer ones. */
static void early_windows_that_were_merged_are_left_out(void **state)
{
	(void)state;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	assert_int_equal(calls, WINDOWS);
	clock_us = START_US - 1440 * MINUTE_US;
	expect_nothing();
	assert_int_equal(counts.went_back, 1);
	for (int i = 0; i < WINDOWS; i++)
		remove_window(START_US + i * MINUTE_US);
	/* With a window that came between them. */
	add_window_of(START_US + 30 * 1000000, 600);
	clock_us = START_US + 60 * MINUTE_US;
	expect_nothing();
	assert_int_equal(counts.went_back, 1);
}

/* The server is away while there are windows of the future that were not pushed. */
static void windows_after_a_step_back_wait_for_the_server(void **state)
{
	int64_t start_us;

	(void)state;
	push.next_us = START_US + MINUTE_US + 1;
	clock_us = START_US - 365 * 1440 * MINUTE_US;
	start_us = clock_us;
	answers[0] = HTTP_UNAVAILABLE;
	assert_int_equal(push_all(), HTTP_UNAVAILABLE);
	assert_int_equal(calls, 1);
	assert_true(pushed_us[0] == START_US + 2 * MINUTE_US);
	add_window(start_us);
	clock_us += MINUTE_US;
	answers[0] = HTTP_ACCEPTED;
	expect_pushed(start_us);
	assert_int_equal(counts.went_back, 1);
	clock_us = START_US + 60 * MINUTE_US;
	expect_pushed(START_US + 2 * MINUTE_US);
	expect_nothing();
}

/* A process that starts when their time has come knows the early windows from the state. */
static void early_windows_outlive_the_process(void **state)
{
	(void)state;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	clock_us = START_US - 1440 * MINUTE_US;
	expect_nothing();
	open_again();
	clock_us = START_US + 60 * MINUTE_US;
	expect_nothing();
	add_window(START_US + MINUTE_US + 10 * 1000000);
	expect_pushed(START_US + MINUTE_US + 10 * 1000000);
}

/* They end where the early ones begin. */
static void merged_windows_before_early_ones_are_pushed(void **state)
{
	(void)state;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	clock_us = START_US - 1440 * MINUTE_US;
	expect_nothing();
	add_window_of(START_US - 10 * MINUTE_US, 600);
	clock_us = START_US + MINUTE_US;
	expect_pushed(START_US - 10 * MINUTE_US);
	expect_nothing();
}

/* What was recorded, and not pushed, between two steps of the clock is no early window. */
static void second_step_back_keeps_what_was_not_pushed(void **state)
{
	const int64_t day_us = 1440 * MINUTE_US;

	(void)state;
	assert_int_equal(push_all(), HTTP_ACCEPTED);
	clock_us = START_US - 20 * day_us;
	expect_nothing();
	clock_us = START_US - 10 * day_us;
	add_window(clock_us);
	expect_pushed(clock_us);
	add_window(START_US - 9 * day_us);
	/* Before that is pushed. */
	clock_us = START_US - 15 * day_us;
	expect_pushed(START_US - 9 * day_us);
	assert_int_equal(counts.went_back, 2);
	expect_nothing();
	add_window(clock_us);
	expect_pushed(clock_us);
	/* All of them have been pushed. */
	clock_us = START_US + 60 * MINUTE_US;
	expect_nothing();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_windows_are_pushed_once),
		TEST(window_that_began_before_is_left_out),
		TEST(windows_wait_for_their_delay),
		TEST(windows_do_not_wait_for_a_clock_set_back),
		TEST(clock_that_was_ahead_does_not_stop_it),
		TEST(clock_that_was_far_ahead_does_not_stop_it),
		TEST(early_windows_that_were_merged_are_left_out),
		TEST(early_windows_outlive_the_process),
		TEST(windows_after_a_step_back_wait_for_the_server),
		TEST(merged_windows_before_early_ones_are_pushed),
		TEST(second_step_back_keeps_what_was_not_pushed),
		TEST(unavailable_server_gets_the_rest_later),
		TEST(window_that_fails_is_given_up_for_the_next),
		TEST(services_alone_are_written),
		TEST(refused_window_is_not_pushed_again),
		TEST(unreadable_windows_are_reported),
		TEST(missing_store_is_tried_again),
		TEST(state_that_is_not_written_is_an_error),
	};

	return cmocka_run_group_tests_name("push_store", tests, NULL, NULL);
}

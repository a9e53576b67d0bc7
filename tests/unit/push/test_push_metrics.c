// SPDX-License-Identifier: GPL-2.0
/* The file with what was pushed. */
#include "push/push_metrics.h"

#include "sandbox.h"

#include <errno.h>

#include "failing_malloc.h"
#include "lib/error.h"
#include "push/push_store.h"

static struct push_metrics metrics;
static struct push_state state_of_push;
static struct push_store_counts counts;
static struct error error;

static int set_up(void **state)
{
	int err = make_sandbox(state);

	metrics = (struct push_metrics){.path = in_sandbox("push.prom")};
	state_of_push = (struct push_state){.next_us = INT64_C(1800000000999999)};
	counts = (struct push_store_counts){
		.windows = 7,
		.went_back = 9,
		.pushed = {.requests = 6,
			   .samples = 5,
			   .merged = 4,
			   .services_merged = 3,
			   .refused = 2},
	};
	return err;
}

static int tear_down(void **state)
{
	push_metrics_clear(&metrics);
	return remove_sandbox(state);
}

static void expect_metric(const char *name, const char *value)
{
	char line[128];
	size_t size;
	char *text = (char *)read_bytes(metrics.path, &size);

	text[size] = '\0';
	snprintf(line, sizeof(line), "\nstackbeat_push_%s %s\n", name, value);
	if (!strstr(text, line))
		fail_msg("'%s' is missing in:\n%s", line + 1, text);
	snprintf(line, sizeof(line), "# TYPE stackbeat_push_%s %s\n", name,
		 strstr(name, "_total") ? "counter" : "gauge");
	assert_non_null(strstr(text, line));
	free(text);
}

static void values_are_those_of_the_counts(void **state)
{
	(void)state;
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, false, &error), 0);
	expect_metric("windows_total", "7");
	expect_metric("requests_total", "6");
	expect_metric("samples_total", "5");
	expect_metric("stacks_merged_total", "4");
	expect_metric("services_merged_total", "3");
	expect_metric("refused_total", "2");
	expect_metric("clock_steps_total", "9");
	expect_metric("waiting", "0");
	expect_metric("next_timestamp_seconds", "1800000000");
	counts.windows = 8;
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, true, &error), 0);
	expect_metric("windows_total", "8");
	expect_metric("waiting", "1");
}

/* It is looked at every two seconds. */
static void same_contents_are_not_written_again(void **state)
{
	(void)state;
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, false, &error), 0);
	assert_int_equal(unlink(metrics.path), 0);
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, false, &error), 0);
	assert_int_equal(access(metrics.path, F_OK), -1);
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, true, &error), 0);
	assert_int_equal(access(metrics.path, F_OK), 0);
}

static void failures_are_errors(void **state)
{
	const char *path = metrics.path;

	(void)state;
	metrics.path = in_sandbox("none/push.prom");
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, false, &error),
			 -ENOENT);
	/* It is tried again. */
	metrics.path = path;
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, false, &error), 0);
	expect_metric("windows_total", "7");
	metrics.path = "/dev/full";
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, true, &error),
			 -ENOSPC);
	fail_malloc(1, true);
	assert_int_equal(push_metrics_write(&metrics, &counts, &state_of_push, true, &error),
			 -ENOMEM);
	fail_malloc(0, false);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(values_are_those_of_the_counts),
		TEST(same_contents_are_not_written_again),
		TEST(failures_are_errors),
	};

	return cmocka_run_group_tests_name("push_metrics", tests, NULL, NULL);
}

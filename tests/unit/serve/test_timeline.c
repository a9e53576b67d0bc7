// SPDX-License-Identifier: GPL-2.0
/* The CPU time of services over the steps of a time range. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <sys/param.h>

#include "failing_malloc.h"
#include "pprof/service.h"
#include "serve/timeline.h"

static struct timeline timeline;
static struct services services;

static int tear_down(void **state)
{
	(void)state;
	timeline_clear(&timeline);
	services_clear(&services);
	return 0;
}

/* Adds a service, and the window that has it alone. */
static void add(const char *name, int64_t cpu_ns, int64_t start_us, int64_t end_us)
{
	services_clear(&services);
	assert_int_equal(services_add_sum(&services, name, 1, cpu_ns), 0);
	assert_int_equal(timeline_add(&timeline, &services, start_us, end_us), 0);
}

static void expect_steps(size_t service, const char *name, const int64_t *cpu_ns)
{
	int64_t sum = 0;

	assert_true(service < timeline.count);
	if (name)
		assert_string_equal(timeline.items[service].name, name);
	else
		assert_null(timeline.items[service].name);
	for (size_t i = 0; i < timeline.steps; i++) {
		assert_int_equal(timeline.items[service].cpu_ns[i], cpu_ns[i]);
		sum += cpu_ns[i];
	}
	assert_int_equal(timeline.items[service].sum_ns, sum);
}

static void window_is_spread_over_its_steps(void **state)
{
	(void)state;
	timeline_init(&timeline, 1000, 1400, 4);
	add("a", 200, 1050, 1250);
	/* A second window of the same service. */
	add("a", 200, 1300, 1400);
	assert_int_equal(timeline_finish(&timeline, 5), 0);
	assert_int_equal(timeline.count, 1);
	expect_steps(0, "a", (int64_t[]){50, 100, 50, 200});
}

static void parts_outside_the_range_do_not_count(void **state)
{
	(void)state;
	timeline_init(&timeline, 1000, 1200, 2);
	add("a", 400, 900, 1300);
	add("a", 400, 800, 1000);
	add("b", 400, 1200, 1300);
	/* A damaged name of a window. */
	add("c", 400, 1100, 1100);
	assert_int_equal(timeline_finish(&timeline, 5), 0);
	assert_int_equal(timeline.count, 1);
	expect_steps(0, "a", (int64_t[]){100, 100});
}

/* Neither time nor steps are multiples of each other. */
static void sums_are_exact(void **state)
{
	int64_t sum = 0;

	(void)state;
	timeline_init(&timeline, 0, 1000, 7);
	add("a", 1000003, 0, 1000);
	assert_int_equal(timeline_finish(&timeline, 1), 0);
	for (size_t i = 0; i < timeline.steps; i++) {
		assert_in_range(timeline.items[0].cpu_ns[i], 142000, 143001);
		sum += timeline.items[0].cpu_ns[i];
	}
	assert_int_equal(sum, 1000003);
	/* Windows that follow each other, and steps of no time. */
	timeline_clear(&timeline);
	timeline_init(&timeline, 10, 13, 7);
	for (int64_t start = 5; start < 20; start++)
		add("a", 1000003, start, start + 1);
	assert_int_equal(timeline.items[0].sum_ns, 3 * 1000003);
	/* The sum of a damaged file. */
	add("a", INT64_MAX, 10, 13);
	assert_int_equal(timeline.items[0].sum_ns, INT64_MAX);
	assert_int_equal(timeline_finish(&timeline, 1), 0);
}

static void smaller_services_are_merged(void **state)
{
	static const struct {
		const char *name;
		int64_t cpu_ns;
	} input[] = {{"c", 30}, {"e", 10}, {"a", 50}, {"d", 20}, {"b", 40}, {"b2", 40}};

	(void)state;
	for (size_t max = 3; max <= 6; max++) {
		timeline_init(&timeline, 0, 100, 2);
		for (size_t i = 0; i < sizeof(input) / sizeof(input[0]); i++)
			add(input[i].name, input[i].cpu_ns, 50, 100);
		assert_int_equal(timeline_finish(&timeline, max), 0);
		assert_int_equal(timeline.count, MIN(max + 1, 6));
		assert_int_equal(timeline.others, 6 - max);
		expect_steps(0, "a", (int64_t[]){0, 50});
		expect_steps(1, "b", (int64_t[]){0, 40});
		expect_steps(2, "b2", (int64_t[]){0, 40});
		if (max == 3)
			expect_steps(3, NULL, (int64_t[]){0, 60});
		if (max == 5)
			expect_steps(5, NULL, (int64_t[]){0, 10});
		if (max == 6)
			expect_steps(5, "e", (int64_t[]){0, 10});
		timeline_clear(&timeline);
	}
	timeline_init(&timeline, 0, 100, 1);
	assert_int_equal(timeline_finish(&timeline, 1), 0);
	assert_int_equal(timeline.count, 0);
}

/* As on a machine that starts a container for each job: neither memory nor time is their square. */
static void many_services_may_have_short_lives(void **state)
{
	enum { SERVICES = 100000, STEPS = 1000 };
	char name[32];

	(void)state;
	timeline_init(&timeline, 0, SERVICES, STEPS);
	for (int i = 0; i < SERVICES; i++) {
		snprintf(name, sizeof(name), "job%d", i);
		add(name, i < 2 ? 1000 : 7, i, i + 1);
	}
	assert_int_equal(timeline_finish(&timeline, 2), 0);
	assert_int_equal(timeline.count, 3);
	assert_int_equal(timeline.others, SERVICES - 2);
	assert_string_equal(timeline.items[1].name, "job1");
	assert_int_equal(timeline.items[1].cpu_ns[0], 1000);
	assert_int_equal(timeline.items[2].sum_ns, 7 * (SERVICES - 2));
	assert_int_equal(timeline.items[2].cpu_ns[0], 7 * (SERVICES / STEPS - 2));
	assert_int_equal(timeline.items[2].cpu_ns[STEPS - 1], 7 * (SERVICES / STEPS));
}

static void memory_may_run_out(void **state)
{
	bool failed = true;
	int err;

	(void)state;
	assert_int_equal(services_add_sum(&services, "a", 1, 1), 0);
	for (unsigned int i = 1; failed; i++) {
		timeline_init(&timeline, 0, 100, 10);
		fail_malloc(i, false);
		err = timeline_add(&timeline, &services, 0, 100);
		if (!err)
			err = timeline_finish(&timeline, 1);
		failed = malloc_has_failed();
		fail_malloc(0, false);
		assert_int_equal(err, failed ? -ENOMEM : 0);
		timeline_clear(&timeline);
	}
}

#define TEST(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(window_is_spread_over_its_steps),
		TEST(parts_outside_the_range_do_not_count),
		TEST(sums_are_exact),
		TEST(smaller_services_are_merged),
		TEST(many_services_may_have_short_lives),
		TEST(memory_may_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* The CPU time of services over the steps of a time range. */
#include "unit.h"

#include <errno.h>

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

static void set_service(const char *name, int64_t cpu_ns)
{
	services_clear(&services);
	assert_int_equal(services_add_sum(&services, name, 1, cpu_ns), 0);
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
	set_service("a", 200);
	assert_int_equal(timeline_add(&timeline, &services, 1050, 1250), 0);
	expect_steps(0, "a", (int64_t[]){50, 100, 50, 0});
	/* A second window of the same service. */
	assert_int_equal(timeline_add(&timeline, &services, 1300, 1400), 0);
	expect_steps(0, "a", (int64_t[]){50, 100, 50, 200});
	assert_int_equal(timeline.count, 1);
}

static void parts_outside_the_range_do_not_count(void **state)
{
	(void)state;
	timeline_init(&timeline, 1000, 1200, 2);
	set_service("a", 400);
	assert_int_equal(timeline_add(&timeline, &services, 900, 1300), 0);
	expect_steps(0, "a", (int64_t[]){100, 100});
	assert_int_equal(timeline_add(&timeline, &services, 800, 1000), 0);
	assert_int_equal(timeline_add(&timeline, &services, 1200, 1300), 0);
	/* A damaged name of a window. */
	assert_int_equal(timeline_add(&timeline, &services, 1100, 1100), 0);
	expect_steps(0, "a", (int64_t[]){100, 100});
}

/* Neither time nor steps are multiples of each other. */
static void sums_are_exact(void **state)
{
	int64_t sum = 0;

	(void)state;
	timeline_init(&timeline, 0, 1000, 7);
	set_service("a", 1000003);
	assert_int_equal(timeline_add(&timeline, &services, 0, 1000), 0);
	for (size_t i = 0; i < timeline.steps; i++) {
		assert_in_range(timeline.items[0].cpu_ns[i], 142000, 143001);
		sum += timeline.items[0].cpu_ns[i];
	}
	assert_int_equal(sum, 1000003);
	/* Windows that follow each other, and steps of no time. */
	timeline_clear(&timeline);
	timeline_init(&timeline, 10, 13, 7);
	for (int64_t start = 5; start < 20; start++)
		assert_int_equal(timeline_add(&timeline, &services, start, start + 1), 0);
	assert_int_equal(timeline.items[0].sum_ns, 3 * 1000003);
	/* The sum of a damaged file. */
	set_service("a", INT64_MAX);
	assert_int_equal(timeline_add(&timeline, &services, 10, 13), 0);
	assert_int_equal(timeline.items[0].sum_ns, INT64_MAX);
}

static void smaller_services_are_merged(void **state)
{
	static const struct {
		const char *name;
		int64_t cpu_ns;
	} input[] = {{"c", 30}, {"e", 10}, {"a", 50}, {"d", 20}, {"b", 40}, {"b2", 40}};

	(void)state;
	timeline_init(&timeline, 0, 100, 1);
	for (size_t i = 0; i < sizeof(input) / sizeof(input[0]); i++) {
		set_service(input[i].name, input[i].cpu_ns);
		assert_int_equal(timeline_add(&timeline, &services, 0, 100), 0);
	}
	timeline_reduce(&timeline, 6);
	assert_int_equal(timeline.count, 6);
	assert_int_equal(timeline.others, 0);
	timeline_reduce(&timeline, 3);
	assert_int_equal(timeline.count, 4);
	assert_int_equal(timeline.others, 3);
	expect_steps(0, "a", (int64_t[]){50});
	expect_steps(1, "b", (int64_t[]){40});
	expect_steps(2, "b2", (int64_t[]){40});
	expect_steps(3, NULL, (int64_t[]){60});
	timeline_clear(&timeline);
	timeline_reduce(&timeline, 1);
	assert_int_equal(timeline.count, 0);
}

/* Windows list their services in their own order. */
static void order_of_services_may_change(void **state)
{
	(void)state;
	timeline_init(&timeline, 0, 100, 1);
	set_service("a", 1);
	assert_int_equal(services_add_sum(&services, "b", 1, 10), 0);
	assert_int_equal(timeline_add(&timeline, &services, 0, 100), 0);
	set_service("b", 100);
	assert_int_equal(services_add_sum(&services, "c", 1, 1000), 0);
	assert_int_equal(services_add_sum(&services, "a", 1, 10000), 0);
	assert_int_equal(timeline_add(&timeline, &services, 0, 100), 0);
	expect_steps(0, "a", (int64_t[]){10001});
	expect_steps(1, "b", (int64_t[]){110});
	expect_steps(2, "c", (int64_t[]){1000});
}

static void memory_may_run_out(void **state)
{
	bool failed = true;
	int err;

	(void)state;
	set_service("a", 1);
	for (unsigned int i = 1; failed; i++) {
		timeline_init(&timeline, 0, 100, 10);
		fail_malloc(i, false);
		err = timeline_add(&timeline, &services, 0, 100);

		failed = malloc_has_failed();
		fail_malloc(0, false);
		assert_int_equal(err, failed ? -ENOMEM : 0);
		assert_int_equal(timeline.count, failed ? 0 : 1);
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
		TEST(order_of_services_may_change),
		TEST(memory_may_run_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

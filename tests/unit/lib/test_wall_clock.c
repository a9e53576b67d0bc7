// SPDX-License-Identifier: GPL-2.0
/* Steps of the wall clock, suspends, and waits between two readings. The clocks are this test. */
#include "lib/wall_clock.h"

#include "unit.h"

#include <time.h>

#include "lib/clock.h"

#define HOUR (3600 * NS_PER_SECOND)

static int64_t passed, suspended, set; /* ns: CLOCK_MONOTONIC, and what the others have more */
static int64_t waits; /* ns, of this process before each reading */

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = passed += waits;

	if (clock != CLOCK_MONOTONIC)
		ns += suspended;
	if (clock == CLOCK_REALTIME)
		ns += set;
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	passed = 1000 * NS_PER_SECOND;
	suspended = 50 * NS_PER_SECOND;
	set = 1700000000 * NS_PER_SECOND;
	waits = 0;
	return 0;
}

/* The wall clock at the time of CLOCK_MONOTONIC. */
static int64_t wall(const struct wall_clock *clock, int64_t monotonic)
{
	return wall_clock_ns(clock, monotonic, clock->suspended_ns);
}

static void steps_are_noticed(void **state)
{
	static const int64_t steps[] = {HOUR, -HOUR, 20 * 24 * HOUR, NS_PER_SECOND, -NS_PER_SECOND};
	struct wall_clock clock;

	(void)state;
	wall_clock_start(&clock);
	assert_int_equal(wall(&clock, passed), set + suspended + passed);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		passed += NS_PER_SECOND;
		wall_clock_update(&clock);
		assert_int_equal(wall_clock_take_step(&clock), 0);
		set += steps[i];
		wall_clock_update(&clock);
		assert_int_equal(wall(&clock, passed), set + suspended + passed);
		assert_int_equal(wall_clock_take_step(&clock), steps[i]);
		assert_int_equal(wall_clock_take_step(&clock), 0);
	}
}

static void small_steps_add_up(void **state)
{
	struct wall_clock clock;

	(void)state;
	wall_clock_start(&clock);
	set += NS_PER_SECOND - 1;
	wall_clock_update(&clock);
	assert_int_equal(wall(&clock, passed), set + suspended + passed);
	assert_int_equal(wall_clock_take_step(&clock), 0);
	set++;
	wall_clock_update(&clock);
	assert_int_equal(wall_clock_take_step(&clock), NS_PER_SECOND);
	set += NS_PER_SECOND;
	set -= NS_PER_SECOND;
	wall_clock_update(&clock);
	assert_int_equal(wall_clock_take_step(&clock), 0);
}

/* The times before a suspend stay what they were. */
static void suspend_is_no_step(void **state)
{
	const int64_t before = passed, real = set + suspended + passed, then = suspended;
	struct wall_clock clock;

	(void)state;
	wall_clock_start(&clock);
	passed += NS_PER_SECOND;
	suspended += 5 * HOUR;
	wall_clock_update(&clock);
	assert_int_equal(wall_clock_take_step(&clock), 0);
	assert_int_equal(clock.suspended_ns, suspended);
	assert_int_equal(wall_clock_ns(&clock, before, then), real);
	assert_int_equal(wall(&clock, passed), real + NS_PER_SECOND + 5 * HOUR);
}

static void waits_change_nothing(void **state)
{
	struct wall_clock clock, before;

	(void)state;
	waits = 7000;
	wall_clock_start(&clock);
	before = clock;
	for (waits = 0; waits < NS_PER_SECOND; waits = 3 * waits + 1) {
		wall_clock_update(&clock);
		assert_memory_equal(&clock, &before, sizeof(clock));
	}
	/* A step is noticed nevertheless, as exactly as the clocks could be read. */
	set += HOUR;
	waits = 1000000;
	wall_clock_update(&clock);
	assert_in_range(wall_clock_take_step(&clock), HOUR - 5000000, HOUR + 5000000);
	assert_in_range(wall(&clock, passed) - set - suspended - passed + 5000000, 0, 10000000);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(steps_are_noticed),
		TEST(small_steps_add_up),
		TEST(suspend_is_no_step),
		TEST(waits_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

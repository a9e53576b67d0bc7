// SPDX-License-Identifier: GPL-2.0
/* The perf maps that are kept open: those that are there, up to a bound, and told beyond. */
#include "unit.h"

#include "runtime/perf_map_watcher.h"

#include "lib/clock.h"
#include "sandbox.h"

#define PROCESSES (PERF_MAP_WATCHER_OPEN_MAX + 3)

static struct perf_map_watcher *maps;

/* Makes processes 1 to PROCESSES without a map, and PROCESSES + 1 and so on with one. */
static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	run("mkdir -p %s %s %s", in_sandbox("without"), in_sandbox("with/root/tmp"),
	    in_sandbox("proc"));
	write_text(in_sandbox("with/root/tmp/perf-1.map"), "1000 10 f\n");
	for (unsigned int pid = 1; pid <= 2 * PROCESSES; pid++) {
		if (symlink(pid <= PROCESSES ? "../without" : "../with",
			    in_sandbox("proc/%u", pid)))
			return -1;
	}
	maps = perf_map_watcher_new(sandbox);
	return maps ? 0 : -1;
}

static int tear_down(void **state)
{
	perf_map_watcher_free(maps);
	return remove_sandbox(state);
}

static uint32_t add(uint32_t pid)
{
	uint32_t number = perf_map_watcher_add(maps, pid, 1, 0);

	assert_int_not_equal(number, UINT32_MAX);
	return number;
}

static void those_without_a_map_take_no_place(void **state)
{
	uint32_t without = 0, with;

	(void)state;
	for (uint32_t pid = 1; pid <= PROCESSES; pid++)
		without = add(pid);
	with = add(PROCESSES + 1);
	perf_map_watcher_poll(maps, without);
	perf_map_watcher_poll(maps, with);
	perf_map_watcher_finish(maps);
	assert_int_equal(perf_map_watcher_fd(maps, without), -1);
	assert_true(perf_map_watcher_fd(maps, with) >= 0);
	assert_int_equal(perf_maps_dropped(maps), 0);
}

static void what_is_left_out_is_counted_once(void **state)
{
	uint32_t numbers[PROCESSES], open = 0;

	(void)state;
	for (uint32_t i = 0; i < PROCESSES; i++)
		numbers[i] = add(PROCESSES + 1 + i);
	for (uint32_t i = 0; i < PROCESSES; i++)
		perf_map_watcher_poll(maps, numbers[i]);
	perf_map_watcher_finish(maps);
	for (uint32_t i = 0; i < PROCESSES; i++)
		open += perf_map_watcher_fd(maps, numbers[i]) >= 0;
	assert_int_equal(open, PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(perf_maps_dropped(maps), PROCESSES - PERF_MAP_WATCHER_OPEN_MAX);
}

/* An earlier process of the same id has left it. It counts, also when it is gone later. */
static void maps_of_others_are_counted(void **state)
{
	uint64_t later = (uint64_t)now_ns(CLOCK_BOOTTIME) + UINT64_C(3600000000000);
	uint32_t number;

	(void)state;
	number = perf_map_watcher_add(maps, PROCESSES + 1, 1, later);
	add(1);
	for (int tries = 0; perf_maps_dropped(maps) == 0 && tries < 10000; tries++)
		usleep(1000);
	run("rm %s", in_sandbox("with/root/tmp/perf-1.map"));
	perf_map_watcher_poll(maps, number);
	perf_map_watcher_finish(maps);
	assert_int_equal(perf_map_watcher_fd(maps, number), -1);
	assert_int_equal(perf_maps_dropped(maps), 1);
}

static void what_is_no_file_is_counted(void **state)
{
	uint32_t number;

	(void)state;
	run("ln -sf perf-2.map %s", in_sandbox("with/root/tmp/perf-1.map"));
	number = add(PROCESSES + 1);
	perf_map_watcher_finish(maps);
	assert_int_equal(perf_map_watcher_fd(maps, number), -1);
	assert_int_equal(perf_maps_dropped(maps), 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(those_without_a_map_take_no_place),
		TEST(what_is_left_out_is_counted_once),
		TEST(maps_of_others_are_counted),
		TEST(what_is_no_file_is_counted),
	};

	return cmocka_run_group_tests_name("jitmaps", tests, NULL, NULL);
}

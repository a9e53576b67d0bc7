// SPDX-License-Identifier: GPL-2.0
/* Perf maps that are kept open, up to a limit, and the count of those dropped. */
#include "runtime/perf_map_watcher.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/clock.h"
#include "sandbox.h"
#include "unit.h"

#define PROCESSES (PERF_MAP_WATCHER_OPEN_MAX + 3)

static struct perf_map_watcher *watcher;

/* Seconds by which CLOCK_REALTIME is wrong: as a clock that is set while the program reads it. */
static time_t realtime_error;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	if (clock == CLOCK_REALTIME)
		time->tv_sec += realtime_error;
	return result;
}

/* Makes processes 1 to PROCESSES without a map, and PROCESSES + 1 to 2 * PROCESSES with one. */
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
	watcher = perf_map_watcher_new(sandbox);
	return watcher ? 0 : -1;
}

static int tear_down(void **state)
{
	perf_map_watcher_free(watcher);
	return remove_sandbox(state);
}

static uint32_t add_process(uint32_t pid)
{
	uint32_t index = perf_map_watcher_add(watcher, pid, 1, 0);

	assert_int_not_equal(index, UINT32_MAX);
	return index;
}

static void process_without_map_does_not_count(void **state)
{
	uint32_t without = 0, with;

	(void)state;
	for (uint32_t pid = 1; pid <= PROCESSES; pid++)
		without = add_process(pid);
	with = add_process(PROCESSES + 1);
	perf_map_watcher_poll(watcher, without);
	perf_map_watcher_poll(watcher, with);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_id(watcher, without, false), 0);
	assert_int_not_equal(perf_map_watcher_id(watcher, with, false), 0);
	assert_int_equal(perf_maps_dropped(watcher), 0);
}

static void map_beyond_limit_is_counted_once(void **state)
{
	uint32_t indices[PROCESSES], open = 0;

	(void)state;
	for (uint32_t i = 0; i < PROCESSES; i++)
		indices[i] = add_process(PROCESSES + 1 + i);
	for (uint32_t i = 0; i < PROCESSES; i++)
		perf_map_watcher_poll(watcher, indices[i]);
	perf_map_watcher_finish(watcher);
	for (uint32_t i = 0; i < PROCESSES; i++)
		open += perf_map_watcher_id(watcher, indices[i], false) != 0;
	assert_int_equal(open, PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(perf_maps_dropped(watcher), PROCESSES - PERF_MAP_WATCHER_OPEN_MAX);
}

/* A map of an earlier process with the same id counts, even if it is removed later. */
static void map_of_earlier_process_is_counted(void **state)
{
	uint64_t later = (uint64_t)now_ns(CLOCK_BOOTTIME) + UINT64_C(3600000000000);
	uint32_t index;

	(void)state;
	index = perf_map_watcher_add(watcher, PROCESSES + 1, 1, later);
	add_process(1);
	for (int tries = 0; perf_maps_dropped(watcher) == 0 && tries < 10000; tries++)
		usleep(1000);
	run("rm %s", in_sandbox("with/root/tmp/perf-1.map"));
	perf_map_watcher_poll(watcher, index);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_id(watcher, index, false), 0);
	assert_int_equal(perf_maps_dropped(watcher), 1);
}

static void symlink_is_counted(void **state)
{
	uint32_t index;

	(void)state;
	run("ln -sf perf-2.map %s", in_sandbox("with/root/tmp/perf-1.map"));
	index = add_process(PROCESSES + 1);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_id(watcher, index, false), 0);
	assert_int_equal(perf_maps_dropped(watcher), 1);
}

/* Takes all maps, and returns their number. */
static size_t take(bool forget, uint32_t *first_id)
{
	struct perf_map_fd *maps;
	size_t count;

	assert_int_equal(perf_map_watcher_take(watcher, forget, &maps, &count), 0);
	*first_id = count ? maps[0].id : 0;
	for (size_t i = 0; i < count; i++) {
		assert_true(maps[i].fd >= 0);
		close(maps[i].fd);
	}
	free(maps);
	return count;
}

static void wait_for_map(uint32_t index)
{
	uint32_t id;

	for (int tries = 0; !take(false, &id) && tries < 10000; tries++)
		usleep(1000);
	assert_int_not_equal(perf_map_watcher_id(watcher, index, false), 0);
}

/* The map of an ended process can be read until it is taken; its id is not used again. */
static void retired_map_is_forgotten_when_it_was_taken(void **state)
{
	uint32_t index = add_process(PROCESSES + 1), id, taken;

	(void)state;
	wait_for_map(index);
	id = perf_map_watcher_id(watcher, index, false);
	perf_map_watcher_retire(watcher, index);
	assert_int_equal(take(false, &taken), 1);
	assert_int_equal(taken, id);
	assert_int_equal(take(true, &taken), 1);
	assert_int_equal(take(true, &taken), 0);
	assert_int_equal(add_process(PROCESSES + 1), index);
	wait_for_map(index);
	assert_int_not_equal(perf_map_watcher_id(watcher, index, false), id);
	/* A map of a live process stays. */
	assert_int_equal(take(true, &taken), 1);
	assert_int_equal(take(true, &taken), 1);
}

/* A window may be taken before a process writes its map: its stacks have the id already. */
static void map_that_appears_later_has_the_id_of_before(void **state)
{
	const char *path = in_sandbox("with/root/tmp/perf-1.map");
	uint32_t index, id, taken;

	(void)state;
	run("rm %s", path);
	index = add_process(PROCESSES + 1);
	for (int tries = 0; perf_map_watcher_id(watcher, index, false) && tries < 10000; tries++)
		usleep(1000);
	id = perf_map_watcher_id(watcher, index, true);
	assert_int_not_equal(id, 0);
	assert_int_equal(take(false, &taken), 0);
	write_text(path, "1000 10 f\n");
	perf_map_watcher_poll(watcher, index);
	wait_for_map(index);
	assert_int_equal(take(false, &taken), 1);
	assert_int_equal(taken, id);
	assert_int_equal(perf_map_watcher_id(watcher, index, true), id);
}

/* After the end of the recording, no map appears. */
static void process_without_map_has_no_id_at_the_end(void **state)
{
	uint32_t index = add_process(1);

	(void)state;
	assert_int_not_equal(perf_map_watcher_id(watcher, index, true), 0);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_id(watcher, index, true), 0);
}

/* Without descriptors, maps can't be taken: that costs their names only, and this time only. */
static void lack_of_descriptors_costs_names_only(void **state)
{
	uint32_t index = add_process(PROCESSES + 1), id;
	struct rlimit limit, lower;

	(void)state;
	wait_for_map(index);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	lower = limit;
	lower.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	assert_int_equal(take(false, &id), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(take(false, &id), 1);
}

/* Many short processes without a map: their places are used again. */
static void processes_without_map_leave_nothing(void **state)
{
	uint32_t last = 0, id;

	(void)state;
	for (int i = 0; i < 20 * (int)PROCESSES; i++) {
		uint32_t index = add_process(1);

		if (index > last)
			last = index;
		for (int tries = 0; perf_map_watcher_id(watcher, index, false) && tries < 10000;
		     tries++)
			usleep(100);
		perf_map_watcher_retire(watcher, index);
	}
	assert_int_equal(last, 0);
	assert_int_equal(take(true, &id), 0);
}

/* The time to finish does not depend on the time of day. */
static void clock_that_is_set_drops_no_map(void **state)
{
	uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX];

	(void)state;
	for (uint32_t i = 0; i < PERF_MAP_WATCHER_OPEN_MAX; i++)
		indices[i] = add_process(PROCESSES + 1 + i);
	realtime_error = -3600;
	perf_map_watcher_finish(watcher);
	realtime_error = 0;
	for (uint32_t i = 0; i < PERF_MAP_WATCHER_OPEN_MAX; i++)
		assert_true(perf_map_watcher_id(watcher, indices[i], false) != 0);
	assert_int_equal(perf_maps_dropped(watcher), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(process_without_map_does_not_count),
		TEST(map_beyond_limit_is_counted_once),
		TEST(map_of_earlier_process_is_counted),
		TEST(symlink_is_counted),
		TEST(retired_map_is_forgotten_when_it_was_taken),
		TEST(map_that_appears_later_has_the_id_of_before),
		TEST(process_without_map_has_no_id_at_the_end),
		TEST(lack_of_descriptors_costs_names_only),
		TEST(processes_without_map_leave_nothing),
		TEST(clock_that_is_set_drops_no_map),
	};

	return cmocka_run_group_tests_name("perf_map_watcher", tests, NULL, NULL);
}

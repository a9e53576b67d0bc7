// SPDX-License-Identifier: GPL-2.0
/* Perf maps that are kept open, up to a limit, and the count of those dropped. */
#include "runtime/perf_map_watcher.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/thread_state.h"
#include "patience.h"
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

/* The file system of process 1 hangs. */
static bool process_hangs;
static sem_t hangs, never;

/* A process is looked for until the thread was looked at so often; 0: at once. Atomic. */
static unsigned int looks_left;
static bool has_begun; /* that; atomic */
static unsigned int joins;

/* Replaces libc's function: as patience.c does, but the end of a thread that computes is not
 * awaited. */
int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock,
			 const struct timespec *deadline)
{
	struct timespec end = {0};
	int (*real)(pthread_t, void **, clockid_t, const struct timespec *);

	joins++;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_clockjoin_np");
	if (__atomic_load_n(&looks_left, __ATOMIC_RELAXED))
		wait_until(__atomic_load_n(&has_begun, __ATOMIC_ACQUIRE));
	else if (!limits_pass)
		end = (struct timespec){deadline->tv_sec + hang_s(), deadline->tv_nsec};
	return real(thread, result, clock, &end);
}

bool thread_awaits_cpu(pid_t tid, int64_t *sleeps)
{
	assert_true(tid > 0);
	assert_int_equal(*sleeps, joins == 1 ? THREAD_SLEEPS_UNKNOWN : (int64_t)joins - 1);
	*sleeps = joins;
	if (!looks_left)
		return false;
	__atomic_sub_fetch(&looks_left, 1, __ATOMIC_RELAXED);
	return true;
}

/* Processes above 2 * PROCESSES belong to another user. All maps belong to root then. */
static bool two_users;
static bool of_another_user; /* all maps are */

int stat(const char *path, struct stat *st)
{
	int result;

	if (process_hangs && !strcmp(strrchr(path, '/'), "/1")) {
		sem_post(&hangs);
		sem_wait(&never);
	}
	__atomic_store_n(&has_begun, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&looks_left, __ATOMIC_RELAXED))
		;
	result = fstatat(AT_FDCWD, path, st, 0);
	if (two_users && atoi(strrchr(path, '/') + 1) > (int)(2 * PROCESSES))
		st->st_uid = 1234;
	return result;
}

int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (two_users)
		st->st_uid = 0;
	if (of_another_user)
		st->st_uid = 1234;
	return result;
}

/* Threads can't be started. */
static bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *arg)
{
	int (*real)(pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *),
		    void *arg);

	if (no_threads)
		return EAGAIN;
	*(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
	return real(thread, attributes, run, arg);
}

/* Makes processes 1 to PROCESSES without a map, and PROCESSES + 1 to 3 * PROCESSES with one. */
static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	run("mkdir -p %s %s %s", in_sandbox("without"), in_sandbox("with/root/tmp"),
	    in_sandbox("proc"));
	write_text(in_sandbox("with/root/tmp/perf-1.map"), "1000 10 f\n");
	for (unsigned int pid = 1; pid <= 3 * PROCESSES; pid++) {
		if (symlink(pid <= PROCESSES ? "../without" : "../with",
			    in_sandbox("proc/%u", pid)))
			return -1;
	}
	watcher = perf_map_watcher_new(sandbox);
	return watcher ? 0 : -1;
}

static int tear_down(void **state)
{
	two_users = of_another_user = no_threads = false;
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
	perf_map_watcher_poll(watcher, without, true);
	perf_map_watcher_poll(watcher, with, true);
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
		perf_map_watcher_poll(watcher, indices[i], true);
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
	wait_until(perf_maps_dropped(watcher) != 0);
	run("rm %s", in_sandbox("with/root/tmp/perf-1.map"));
	perf_map_watcher_poll(watcher, index, true);
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

	wait_until(take(false, &id));
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
	wait_until(!perf_map_watcher_id(watcher, index, false));
	id = perf_map_watcher_id(watcher, index, true);
	assert_int_not_equal(id, 0);
	assert_int_equal(take(false, &taken), 0);
	write_text(path, "1000 10 f\n");
	perf_map_watcher_poll(watcher, index, true);
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
		wait_until(!perf_map_watcher_id(watcher, index, false));
		perf_map_watcher_retire(watcher, index);
	}
	assert_int_equal(last, 0);
	assert_int_equal(take(true, &id), 0);
}

/* Returns whether the map of `path` is the only one, and its id. */
static bool has_file(const char *path, uint32_t *id)
{
	struct perf_map_fd *maps;
	struct stat wanted, st;
	size_t count;

	assert_int_equal(fstatat(AT_FDCWD, path, &wanted, 0), 0);
	assert_int_equal(perf_map_watcher_take(watcher, false, &maps, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(fstat(maps[0].fd, &st), 0);
	*id = maps[0].id;
	close(maps[0].fd);
	free(maps);
	return st.st_ino == wanted.st_ino;
}

/* Waits until the map of `path` is the only one, and returns its id. */
static uint32_t wait_for_file(const char *path)
{
	uint32_t id;

	wait_until(has_file(path, &id));
	return id;
}

/* Ends the process `pid`: its root can't be reached any more. */
static void end_process(uint32_t pid)
{
	assert_int_equal(unlink(in_sandbox("proc/%u", pid)), 0);
}

static void replace_map(void)
{
	write_text(in_sandbox("new"), "2000 10 g\n");
	assert_int_equal(rename(in_sandbox("new"), in_sandbox("with/root/tmp/perf-1.map")), 0);
}

static unsigned int open_files(void)
{
	unsigned int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* A program may write another file to the place of its map, any number of times. */
static void replaced_map_is_the_newer_one(void **state)
{
	uint32_t index = add_process(PROCESSES + 1), id;
	unsigned int files;

	(void)state;
	wait_for_map(index);
	files = open_files();
	id = perf_map_watcher_id(watcher, index, true);
	for (int i = 0; i < 5; i++) {
		replace_map();
		perf_map_watcher_poll(watcher, index, true);
		assert_int_equal(wait_for_file(in_sandbox("with/root/tmp/perf-1.map")), id);
	}
	/* The same file is not opened again; earlier files are closed. */
	perf_map_watcher_poll(watcher, index, true);
	for (uint32_t i = 1; i < PERF_MAP_WATCHER_OPEN_MAX; i++)
		add_process(PROCESSES + 1 + i);
	perf_map_watcher_finish(watcher);
	assert_int_equal(open_files(), files + PERF_MAP_WATCHER_OPEN_MAX - 1);
	/* It is one map of the limit. */
	assert_int_equal(perf_maps_dropped(watcher), 0);
	assert_int_equal(take(false, &id), PERF_MAP_WATCHER_OPEN_MAX);
}

/* Some runtimes write their map when they exit, and the process is gone when it is looked for. */
static void map_that_is_written_at_exit_is_found(void **state)
{
	const char *path = in_sandbox("with/root/tmp/perf-1.map");
	uint32_t index, id;

	(void)state;
	run("rm %s", path);
	index = add_process(PROCESSES + 1);
	wait_until(!perf_map_watcher_id(watcher, index, false));
	write_text(path, "1000 10 f\n");
	end_process(PROCESSES + 1);
	perf_map_watcher_poll(watcher, index, false);
	perf_map_watcher_retire(watcher, index);
	assert_int_not_equal(perf_map_watcher_id(watcher, index, false), 0);
	wait_for_map(index);
	assert_int_equal(take(true, &id), 1);
	assert_int_equal(take(true, &id), 0);
}

/* Its own directory was never looked for: it may be ours, if its PID namespace is ours, too. */
static void map_of_a_process_that_ended_at_once_is_found(void **state)
{
	static const uint32_t pid = PROCESSES + 1;
	char *path = strdup(in_sandbox("ours/root/tmp/perf-%u.map", pid));
	uint32_t index, elsewhere, unknown, with_another, id;

	(void)state;
	end_process(pid);
	run("mkdir -p %s && ln -s ../ours %s", in_sandbox("ours/root/tmp"),
	    in_sandbox("proc/self"));
	write_text(path, "1000 10 f\n");
	write_text(in_sandbox("ours/root/tmp/perf-1.map"), "1000 10 f\n");
	index = perf_map_watcher_add(watcher, pid, pid, 1);
	elsewhere = perf_map_watcher_add(watcher, pid, 1, 1);
	with_another = perf_map_watcher_add(watcher, 1, 1, 1);
	wait_for_map(index);
	assert_int_equal(wait_for_file(path), perf_map_watcher_id(watcher, index, false));
	free(path);
	/* Without a start time, an earlier process with this PID may have written the map. */
	unknown = perf_map_watcher_add(watcher, pid, pid, 0);
	wait_until(!perf_map_watcher_id(watcher, with_another, false));
	wait_until(!perf_map_watcher_id(watcher, unknown, false));
	assert_int_equal(perf_map_watcher_id(watcher, elsewhere, false), 0);
	/* It ends between two looks. */
	end_process(1);
	perf_map_watcher_poll(watcher, with_another, false);
	perf_map_watcher_finish(watcher);
	assert_int_equal(take(false, &id), 2);
}

/* Anybody may write to our directory. */
static void map_of_another_user_in_our_directory_is_rejected(void **state)
{
	static const uint32_t pid = PROCESSES + 1;
	uint32_t index;

	(void)state;
	end_process(pid);
	run("mkdir -p %s && ln -s ../ours %s", in_sandbox("ours/root/tmp"),
	    in_sandbox("proc/self"));
	write_text(in_sandbox("ours/root/tmp/perf-%u.map", pid), "1000 10 f\n");
	of_another_user = true;
	index = perf_map_watcher_add(watcher, pid, pid, 1);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_id(watcher, index, false), 0);
	assert_int_equal(perf_maps_dropped(watcher), 1);
}

/* Its process has been replaced by another one of its number, which has a map, too. */
static void map_at_exit_is_of_the_ended_process(void **state)
{
	uint32_t index, id;

	(void)state;
	write_text(in_sandbox("with/root/tmp/perf-1.map"), "1000 10 f\n");
	run("mkdir -p %s && cp %s %s", in_sandbox("other/root/tmp"),
	    in_sandbox("with/root/tmp/perf-1.map"), in_sandbox("other/root/tmp"));
	index = add_process(PROCESSES + 1);
	wait_for_map(index);
	end_process(PROCESSES + 1);
	assert_int_equal(symlink("../other", in_sandbox("proc/%u", PROCESSES + 1)), 0);
	replace_map();
	perf_map_watcher_poll(watcher, index, false);
	id = wait_for_file(in_sandbox("with/root/tmp/perf-1.map"));
	assert_int_equal(id, perf_map_watcher_id(watcher, index, false));
}

/* The process has left its root: the map at its exit is in the latest one. */
static void directory_is_the_latest_one(void **state)
{
	const char *path = in_sandbox("other/root/tmp/perf-1.map");
	uint32_t index, id;

	(void)state;
	run("mkdir -p %s", in_sandbox("other/root/tmp"));
	run("rm %s", in_sandbox("with/root/tmp/perf-1.map"));
	index = add_process(PROCESSES + 1);
	wait_until(!perf_map_watcher_id(watcher, index, false));
	end_process(PROCESSES + 1);
	assert_int_equal(symlink("../other", in_sandbox("proc/%u", PROCESSES + 1)), 0);
	perf_map_watcher_poll(watcher, index, true);
	wait_until(!perf_map_watcher_id(watcher, index, false));
	end_process(PROCESSES + 1);
	write_text(path, "1000 10 f\n");
	perf_map_watcher_poll(watcher, index, false);
	wait_for_map(index);
	assert_int_equal(wait_for_file(path), perf_map_watcher_id(watcher, index, false));
	perf_map_watcher_retire(watcher, index);
	assert_int_equal(take(true, &id), 1);
}

/*
 * Directories are kept once, and a user can't take all: a process without a place for its directory
 * has its map as long as it lives.
 */
static void directories_are_limited(void **state)
{
	const uint32_t count = PERF_MAP_WATCHER_DIRECTORIES_OF_USER;
	unsigned int files = open_files();
	uint32_t indices[PERF_MAP_WATCHER_DIRECTORIES_OF_USER + 1], other, id;

	(void)state;
	for (uint32_t i = 0; i < PROCESSES; i++)
		add_process(1 + i);
	wait_until(!perf_map_watcher_id(watcher, PROCESSES - 1, false));
	assert_int_equal(open_files(), files);
	run("rm %s", in_sandbox("with/root/tmp/perf-1.map"));
	for (uint32_t i = 0; i <= count; i++) {
		/* The first two share theirs. */
		if (i > 1) {
			run("mkdir -p %s", in_sandbox("d%u/root/tmp", i));
			end_process(PROCESSES + 1 + i);
			run("ln -s ../d%u %s", i, in_sandbox("proc/%u", PROCESSES + 1 + i));
		}
		indices[i] = add_process(PROCESSES + 1 + i);
	}
	wait_until(!perf_map_watcher_id(watcher, indices[count], false));
	assert_int_equal(open_files(), files + count);
	run("mkdir -p %s", in_sandbox("more/root/tmp"));
	end_process(3 * PROCESSES - 1);
	run("ln -s ../more %s", in_sandbox("proc/%u", 3 * PROCESSES - 1));
	two_users = true;
	other = add_process(3 * PROCESSES - 1);
	wait_until(!perf_map_watcher_id(watcher, other, false));
	assert_int_equal(open_files(), files + count + 1);
	for (uint32_t i = 0; i <= count; i++)
		perf_map_watcher_retire(watcher, indices[i]);
	assert_int_equal(take(true, &id), 0);
	assert_int_equal(open_files(), files + 1);
}

/* Waits until as many maps are open. */
static void wait_for_maps(size_t count)
{
	uint32_t id;

	wait_until(take(false, &id) == count);
}

static void wait_for_drops(uint64_t count)
{
	wait_until(perf_maps_dropped(watcher) == count);
}

/* Opens as many maps as may be open. */
static void fill(uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX])
{
	for (uint32_t i = 0; i < PERF_MAP_WATCHER_OPEN_MAX; i++)
		indices[i] = add_process(PROCESSES + 1 + i);
	wait_for_maps(PERF_MAP_WATCHER_OPEN_MAX);
}

/* At the limit, open maps are still replaced, and the place of a forgotten one is used again. */
static void limit_is_of_open_maps(void **state)
{
	uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX], last, id;

	(void)state;
	fill(indices);
	last = add_process(2 * PROCESSES);
	wait_for_drops(1);
	perf_map_watcher_retire(watcher, last);
	assert_int_equal(perf_maps_dropped(watcher), 1);
	perf_map_watcher_retire(watcher, indices[7]);
	perf_map_watcher_retire(watcher, indices[9]);
	assert_int_equal(take(true, &id), PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(take(true, &id), PERF_MAP_WATCHER_OPEN_MAX - 2);
	add_process(1);
	replace_map();
	perf_map_watcher_poll(watcher, indices[0], true);
	add_process(PROCESSES + 1);
	add_process(PROCESSES + 2);
	wait_for_maps(PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(perf_maps_dropped(watcher), 1);
}

/* It has the id of its stacks from before. */
static void dropped_map_is_opened_when_there_is_room(void **state)
{
	uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX], last, id, taken;

	(void)state;
	fill(indices);
	last = add_process(2 * PROCESSES);
	wait_for_drops(1);
	id = perf_map_watcher_id(watcher, last, true);
	assert_int_not_equal(id, 0);
	/* Without room, there is nothing to wait for. */
	perf_map_watcher_poll(watcher, last, true);
	assert_int_equal(perf_map_watcher_id(watcher, last, false), 0);
	perf_map_watcher_retire(watcher, indices[7]);
	assert_int_equal(take(true, &taken), PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(take(true, &taken), PERF_MAP_WATCHER_OPEN_MAX - 1);
	perf_map_watcher_poll(watcher, last, true);
	wait_for_maps(PERF_MAP_WATCHER_OPEN_MAX);
	assert_int_equal(perf_map_watcher_id(watcher, last, false), id);
	assert_int_equal(perf_maps_dropped(watcher), 0);
	/* The place is taken. */
	add_process(2 * PROCESSES - 1);
	wait_for_drops(1);
}

static uint32_t count_open(const uint32_t *indices, uint32_t count)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < count; i++)
		open += perf_map_watcher_id(watcher, indices[i], false) != 0;
	return open;
}

/* A user who has all places loses the newest to another one, until both have as many. */
static void users_share_the_limit(void **state)
{
	const uint32_t half = PERF_MAP_WATCHER_OPEN_MAX / 2;
	uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX], others[PROCESSES], id;

	(void)state;
	two_users = true;
	fill(indices);
	id = perf_map_watcher_id(watcher, indices[PERF_MAP_WATCHER_OPEN_MAX - 1], true);
	others[0] = add_process(2 * PROCESSES + 1);
	wait_for_drops(1);
	assert_int_not_equal(perf_map_watcher_id(watcher, others[0], false), 0);
	assert_int_equal(count_open(indices, PERF_MAP_WATCHER_OPEN_MAX - 1),
			 PERF_MAP_WATCHER_OPEN_MAX - 1);
	assert_int_equal(perf_map_watcher_id(watcher, indices[PERF_MAP_WATCHER_OPEN_MAX - 1], true),
			 id);
	for (uint32_t i = 1; i < PROCESSES; i++)
		others[i] = add_process(2 * PROCESSES + 1 + i);
	wait_for_drops(PROCESSES);
	assert_int_equal(count_open(indices, PERF_MAP_WATCHER_OPEN_MAX), half);
	assert_int_equal(count_open(others, PROCESSES), half);
	assert_int_equal(count_open(indices, half), half);
	assert_int_equal(count_open(others, half), half);
	/* No user takes the maps of the other then. */
	perf_map_watcher_poll(watcher, indices[half], true);
	perf_map_watcher_poll(watcher, others[half], true);
	perf_map_watcher_finish(watcher);
	assert_int_equal(count_open(indices, half), half);
	assert_int_equal(count_open(others, half), half);
	assert_int_equal(perf_maps_dropped(watcher), PROCESSES);
	assert_int_equal(take(true, &id), PERF_MAP_WATCHER_OPEN_MAX);
}

/* The place of a map that was closed is used again if its process has ended. */
static void closed_map_of_ended_process_is_forgotten(void **state)
{
	uint32_t indices[PERF_MAP_WATCHER_OPEN_MAX], other, last;

	(void)state;
	two_users = true;
	fill(indices);
	last = indices[PERF_MAP_WATCHER_OPEN_MAX - 1];
	perf_map_watcher_retire(watcher, last);
	other = add_process(2 * PROCESSES + 1);
	wait_for_drops(1);
	assert_int_not_equal(perf_map_watcher_id(watcher, other, false), 0);
	assert_int_equal(add_process(1), last);
	assert_int_equal(perf_maps_dropped(watcher), 1);
}

/* A thread may be started later. */
static void map_without_a_thread_is_opened_later(void **state)
{
	uint32_t index;

	(void)state;
	no_threads = true;
	index = add_process(PROCESSES + 1);
	assert_int_equal(perf_maps_dropped(watcher), 1);
	perf_map_watcher_poll(watcher, index, true);
	assert_int_equal(perf_map_watcher_id(watcher, index, false), 0);
	no_threads = false;
	perf_map_watcher_poll(watcher, index, true);
	wait_for_map(index);
	assert_int_equal(perf_maps_dropped(watcher), 0);
}

/* A file that is not the map of a process counts, also when the process has ended. */
static void rejected_files_are_counted(void **state)
{
	const char *map = in_sandbox("with/root/tmp/perf-1.map");
	uint32_t index;

	(void)state;
	run("rm %s && mkfifo %s", map, map);
	index = add_process(PROCESSES + 1);
	wait_until(perf_maps_dropped(watcher));
	assert_int_equal(perf_maps_dropped(watcher), 1);
	perf_map_watcher_retire(watcher, index);
	assert_int_equal(perf_maps_dropped(watcher), 1);
	assert_int_equal(add_process(1), index);
	assert_int_equal(perf_maps_dropped(watcher), 1);
	if (geteuid() != 0)
		return;
	run("rm %s && touch %s && chown 1234 %s", map, map, map);
	add_process(PROCESSES + 1);
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_maps_dropped(watcher), 2);
}

/* A map that appears at the place of a rejected file is one. */
static void rejected_file_may_be_replaced(void **state)
{
	const char *map = in_sandbox("with/root/tmp/perf-1.map");
	uint32_t index;

	(void)state;
	run("rm %s && mkfifo %s", map, map);
	index = add_process(PROCESSES + 1);
	wait_until(perf_maps_dropped(watcher));
	replace_map();
	perf_map_watcher_poll(watcher, index, true);
	wait_for_map(index);
	assert_int_equal(perf_maps_dropped(watcher), 0);
	perf_map_watcher_retire(watcher, index);
	assert_int_equal(take(true, &index), 1);
	assert_int_equal(perf_maps_dropped(watcher), 0);
}

static void nothing_is_added_at_the_end(void **state)
{
	uint32_t index = add_process(PROCESSES + 1), id;

	(void)state;
	perf_map_watcher_finish(watcher);
	assert_int_equal(perf_map_watcher_add(watcher, PROCESSES + 2, 1, 0), UINT32_MAX);
	replace_map();
	perf_map_watcher_poll(watcher, index, true);
	assert_int_equal(take(false, &id), 1);
	assert_int_equal(perf_maps_dropped(watcher), 0);
}

/* Maps that can't be opened, as a file system hangs, count. */
static void hung_file_system_drops_maps(void **state)
{
	uint32_t open = add_process(PROCESSES + 1), id;

	(void)state;
	wait_for_map(open);
	sem_init(&hangs, 0, 0);
	sem_init(&never, 0, 0);
	process_hangs = true;
	add_process(1);
	sem_wait(&hangs);
	add_process(PROCESSES + 2);
	add_process(PROCESSES + 3);
	perf_map_watcher_poll(watcher, open, true);
	limits_pass = true;
	joins = 0;
	perf_map_watcher_finish(watcher);
	limits_pass = false;
	assert_int_equal(joins, 1);
	process_hangs = false;
	assert_int_equal(perf_maps_dropped(watcher), 2);
	assert_int_not_equal(perf_map_watcher_id(watcher, open, false), 0);
	assert_int_equal(take(false, &id), 1);
}

static void thread_without_a_cpu_is_waited_for(void **state)
{
	uint32_t index;

	(void)state;
	has_begun = false;
	looks_left = 3;
	joins = 0;
	index = add_process(PROCESSES + 1);
	perf_map_watcher_finish(watcher);
	assert_int_equal(joins, 4);
	assert_int_equal(perf_maps_dropped(watcher), 0);
	assert_int_not_equal(perf_map_watcher_id(watcher, index, false), 0);
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
		TEST(replaced_map_is_the_newer_one),
		TEST(map_that_is_written_at_exit_is_found),
		TEST(map_of_a_process_that_ended_at_once_is_found),
		TEST(map_of_another_user_in_our_directory_is_rejected),
		TEST(map_at_exit_is_of_the_ended_process),
		TEST(directory_is_the_latest_one),
		TEST(directories_are_limited),
		TEST(limit_is_of_open_maps),
		TEST(dropped_map_is_opened_when_there_is_room),
		TEST(users_share_the_limit),
		TEST(closed_map_of_ended_process_is_forgotten),
		TEST(map_without_a_thread_is_opened_later),
		TEST(rejected_files_are_counted),
		TEST(rejected_file_may_be_replaced),
		TEST(nothing_is_added_at_the_end),
		TEST(hung_file_system_drops_maps),
		TEST(thread_without_a_cpu_is_waited_for),
	};

	return cmocka_run_group_tests_name("perf_map_watcher", tests, NULL, NULL);
}

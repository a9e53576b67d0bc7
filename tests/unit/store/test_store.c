// SPDX-License-Identifier: GPL-2.0
/*
 * No window is torn, lost or counted twice: with a process that ends before any system call, with a
 * full disk, and while windows are merged.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/service.h"
#include "sample_profile.h"
#include "scratch.h"
#include "steps.h"
#include "store/merge.h"
#include "store/store.h"

#define START INT64_C(1800000000) /* a full hour, in seconds */
#define MINUTE 60
#define FIVE_MINUTES 300
#define TEN_MINUTES 600
#define HOUR 3600
#define DAY (24 * HOUR)
#define WINDOWS_MAX 32768u
#define NO_LIMIT UINT64_MAX
#define CRASHED 42

/* The calls that change files, until the process ends (0: it does not), or the disk is full. */
static unsigned long crash_at, calls;
static int64_t room = -1; /* bytes; -1: no limit */
static bool is_taken; /* others use what is freed */

static void step(void)
{
	if (crash_at && ++calls == crash_at)
		_exit(CRASHED);
}

static bool has_room(int fd, size_t size)
{
	step();
	if (fd <= STDERR_FILENO || room < 0)
		return true;
	if ((int64_t)size > room) {
		errno = ENOSPC;
		return false;
	}
	room -= (int64_t)size;
	return true;
}

const char *__asan_default_options(void);

/*
 * Freed memory is used again after 4 MiB, not 256: each process that crashes is a fork, which
 * copies the page tables of what is waiting to be used again.
 */
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=4";
}

ssize_t write(int fd, const void *data, size_t size)
{
	return has_room(fd, size) ? syscall(SYS_write, fd, data, size) : -1;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
	return has_room(fd, size) ? syscall(SYS_pwrite64, fd, data, size, offset) : -1;
}

int ftruncate(int fd, off_t size)
{
	step();
	return (int)syscall(SYS_ftruncate, fd, size);
}

int fsync(int fd)
{
	(void)fd;
	step();
	return 0;
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	step();
	return (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
}

int rename(const char *from, const char *to)
{
	step();
	return (int)syscall(SYS_rename, from, to);
}

int unlinkat(int fd, const char *path, int flags)
{
	struct stat status;

	step();
	if (room >= 0 && !is_taken && !fstatat(fd, path, &status, 0))
		room += status.st_size;
	return (int)syscall(SYS_unlinkat, fd, path, flags);
}

/* What the owner of the parent puts in the place of a directory that was created. */
static const char *link_target;
static unsigned int owner_changes;

int mkdir(const char *path, mode_t mode)
{
	int ret = (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);

	if (!ret && link_target) {
		assert_int_equal(rmdir(path), 0);
		assert_int_equal(symlink(link_target, path), 0);
	}
	return ret;
}

int fchown(int fd, uid_t owner, gid_t group)
{
	(void)group;
	owner_changes++;
	return (int)syscall(SYS_fchown, fd, owner, -1);
}

int chown(const char *path, uid_t owner, gid_t group)
{
	(void)group;
	owner_changes++;
	return (int)syscall(SYS_fchownat, AT_FDCWD, path, owner, -1, 0);
}

/* The owner that a new directory has, as others see it. */
static uid_t effective_user;

uid_t geteuid(void)
{
	return effective_user ? effective_user : (uid_t)syscall(SYS_geteuid);
}

static const struct store_limits limits = {
	.bytes = NO_LIMIT,
	.age_s = 14 * DAY,
	.merge_age_s = {2 * HOUR, 2 * DAY},
};

static const char *directory(void **state)
{
	return ((struct scratch *)*state)->path;
}

static struct store open_store(void **state, const struct store_limits *chosen)
{
	struct store store;
	struct error error = {""};

	if (store_open(&store, directory(state), chosen, &error))
		fail_msg("%s", error.text);
	return store;
}

/* A profile of the window with this number: one sample of a function of its own. */
static struct profile *make_window(unsigned int number, int64_t start_s)
{
	struct profile *profile = empty_profile();
	uint32_t mapping = example_mapping(profile, 0x1000, 0x900000, 0, "/bin/app", "aa");
	uint32_t location;
	char name[32];

	snprintf(name, sizeof(name), "window%u", number);
	location = example_location(profile, mapping, 0x1000 + number, NULL, name);
	example_add(profile, &location, 1, 1, 1000 + number, NULL, 0);
	profile_comment(profile, "lost: %u (ring full 1)", number % 3);
	profile_comment(profile, "source: %s", number % 2 ? "perf events" : "kernel module");
	profile->time_ns = start_s * 1000000000;
	profile->duration_ns = 60 * INT64_C(1000000000);
	profile->period = 10;
	return profile;
}

static int add_long_window(struct store *store, unsigned int number, int64_t start_s,
			   uint32_t seconds)
{
	struct profile *profile = make_window(number, start_s);
	int err = store_add(store, profile, seconds, NULL);

	profile_free(profile);
	return err;
}

/* As a file that is complete. The disk of the store is full. */
static int add_file(struct store *store, const struct profile *profile, bool again)
{
	const unsigned long crash_later = crash_at;
	const int64_t room_of_store = room;
	int file = memfd_create("window", MFD_CLOEXEC), err;

	crash_at = 0;
	room = -1;
	assert_int_equal(pprof_write_fd_fast(profile, file, "window", NULL), 0);
	crash_at = crash_later;
	room = room_of_store;
	err = store_add_file(store, file, profile->time_ns, MINUTE, again, NULL);
	close(file);
	return err;
}

/* By turns as a profile and as a file. */
static int add_window(struct store *store, unsigned int number, int64_t start_s)
{
	struct profile *profile;
	int err;

	if (number % 2 == 0)
		return add_long_window(store, number, start_s, MINUTE);
	profile = make_window(number, start_s);
	err = add_file(store, profile, false);
	profile_free(profile);
	return err;
}

struct sum {
	unsigned int *seen; /* by number of the window */
	unsigned int windows, longest;
	uint64_t lost;
	int64_t cpu, duration_ns;
};

/* Each profile names each source of its samples once. */
static void assert_sources(const struct profile *profile)
{
	unsigned int perf = 0, module = 0;

	for (size_t i = 0; i < profile->comments.count; i++) {
		const char *text = profile_text(profile, profile->comments.items[i]);

		perf += !strcmp(text, "source: perf events");
		module += !strcmp(text, "source: kernel module");
	}
	assert_true(perf <= 1 && module <= 1 && perf + module);
}

static int count_profile(const struct profile *profile, const struct window_name *name, void *arg)
{
	struct sum *sum = arg;

	sum->windows++;
	assert_sources(profile);
	sum->longest = name->seconds > sum->longest ? name->seconds : sum->longest;
	sum->lost += merge_lost(profile);
	sum->duration_ns += profile->duration_ns;
	for (size_t i = 0; i < profile->samples.count; i++) {
		const struct profile_sample *sample = &profile->samples.items[i];
		uint32_t location = *profile_stack_locations(profile, sample->stack);
		unsigned int number =
			(unsigned int)(profile->locations.items[location].address - 0x1000);

		assert_true(number < WINDOWS_MAX);
		sum->seen[number] += (unsigned int)profile_values(profile, i)[PROFILE_SAMPLES];
		sum->cpu += profile_values(profile, i)[PROFILE_CPU];
	}
	return 0;
}

static struct sum query_service(void **state, const char *service, int64_t from_s, int64_t until_s)
{
	struct sum sum = {.seen = calloc(WINDOWS_MAX, sizeof(*sum.seen))};
	struct store_query result;

	assert_int_equal(store_query(directory(state), from_s * US_PER_SECOND,
				     until_s * US_PER_SECOND, service, count_profile, &sum, &result,
				     NULL),
			 0);
	assert_int_equal(result.unreadable, 0);
	assert_int_equal(result.windows, sum.windows);
	return sum;
}

static struct sum query(void **state, int64_t from_s, int64_t until_s)
{
	return query_service(state, NULL, from_s, until_s);
}

/* Asserts that exactly the windows `first` to before `end` are there, each once. */
static void assert_whole(void **state, unsigned int first, unsigned int end)
{
	struct sum sum = query(state, 0, 4000000000);
	uint64_t lost = 0;
	int64_t cpu = 0;

	for (unsigned int i = 0; i < WINDOWS_MAX; i++)
		assert_int_equal(sum.seen[i], i >= first && i < end);
	for (unsigned int i = first; i < end; i++) {
		cpu += 1000 + i;
		lost += i % 3;
	}
	assert_int_equal(sum.cpu, cpu);
	assert_int_equal(sum.lost, lost);
	assert_int_equal(sum.duration_ns, (int64_t)(end - first) * 60 * 1000000000);
	free(sum.seen);
}

static void maintain_all(struct store *store, int64_t now_s)
{
	int err;

	do
		err = store_maintain(store, now_s * US_PER_SECOND, NULL);
	while (err > 0);
	assert_int_equal(err, 0);
}

static void names_are_exact(void **state)
{
	static const char *const bad[] = {
		"",
		"20260131T235900.000000Z-60s.pb",
		"20260131T235900.000000Z-060s.pb.gz",
		"20260131T235900.000000Z-0s.pb.gz",
		"20260131T235900.000000Z-3601s.pb.gz",
		"20260231T235900.000000Z-60s.pb.gz",
		"20260131T245900.000000Z-60s.pb.gz",
		"20260131T236000.000000Z-60s.pb.gz",
		"20260131T235960.000000Z-60s.pb.gz",
		"20261331T235900.000000Z-60s.pb.gz",
		"20260131T235900.000000Z-0000060s.pb.gz",
		"20260131T235900.00000Z-60s.pb.gz",
		"+0260131T235900.000000Z-60s.pb.gz",
		"20260131T235900.000000Z-+60s.pb.gz",
		".stackbeat-0123456789abcdef.tmp",
		"20260131T235900.000000Z-60s.pb.gz ",
		"19691231T235959.000000Z-60s.pb.gz",
	};
	struct window_name name;
	char text[WINDOW_NAME_SIZE];

	(void)state;
	assert_true(window_name_parse("20260131T235900.000012Z-60s.pb.gz", &name));
	assert_int_equal(name.start_us, 1769903940000012);
	assert_int_equal(name.seconds, 60);
	assert_int_equal(window_end(&name), 1769904000000000);
	assert_true(window_name_format(&name, text));
	assert_string_equal(text, "20260131T235900.000012Z-60s.pb.gz");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(window_name_parse(bad[i], &name));
	assert_false(window_name_format(&(struct window_name){WINDOW_START_MAX + 1, 60}, text));
	assert_false(window_name_format(&(struct window_name){-1, 60}, text));
	assert_true(window_name_format(&(struct window_name){WINDOW_START_MAX, 3600}, text));
	assert_true(window_name_parse(text, &name));
}

static void windows_become_longer(void **state)
{
	struct store store = open_store(state, &limits);

	for (unsigned int i = 0; i < 150; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	assert_int_equal(store.count, 150);
	/* Only whole slots are merged: the slot that ends at the age, and the slots before it. */
	maintain_all(&store, START + 2 * HOUR + 30 * MINUTE);
	assert_int_equal(store.count, 3 + 120);
	assert_int_equal(store.windows[0].name.seconds, 600);
	assert_int_equal(store.windows[3].name.seconds, MINUTE);
	assert_whole(state, 0, 150);
	maintain_all(&store, START + 2 * DAY + HOUR);
	assert_int_equal(store.count, 1 + 9);
	assert_int_equal(store.windows[0].name.seconds, 3600);
	assert_int_equal(store.windows[0].name.start_us, START * US_PER_SECOND);
	assert_whole(state, 0, 150);
	assert_int_equal(store.counts.written, 150);
	store_close(&store);
	/* The sizes in memory equal the sizes of the files. */
	store = open_store(state, &limits);
	assert_int_equal(store.count, 1 + 9);
	store_close(&store);
}

static void windows_have_limits(void **state)
{
	struct store store = open_store(state, &limits);

	assert_int_equal(add_long_window(&store, 0, START, WINDOW_SECONDS_MAX), 0);
	assert_int_equal(add_long_window(&store, 1, START, WINDOW_SECONDS_MAX + 1), -EINVAL);
	assert_int_equal(add_long_window(&store, 1, START, 0), -EINVAL);
	assert_int_equal(add_window(&store, 1, -1), -EINVAL);
	assert_int_equal(store.count, 1);
	store_close(&store);
}

static void late_window_joins_a_merged_one(void **state)
{
	struct store store = open_store(state, &limits);

	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	maintain_all(&store, START + 3 * HOUR);
	assert_int_equal(store.count, 1);
	/* The clock was set back: with the name of a window that was merged. */
	assert_int_equal(add_window(&store, 9, START), 0);
	assert_int_equal(add_window(&store, 10, START), 0);
	store_close(&store);
	store = open_store(state, &limits);
	assert_whole(state, 0, 11);
	assert_int_equal(store.count, 3);
	maintain_all(&store, START + 3 * HOUR);
	assert_int_equal(store.count, 1);
	assert_whole(state, 0, 11);
	store_close(&store);
}

static int64_t merged_duration(const int64_t *durations, size_t count)
{
	struct merge merge;
	int64_t duration;

	assert_int_equal(merge_init(&merge), 0);
	for (size_t i = 0; i < count; i++) {
		struct profile *window = make_window((unsigned int)i, START + (int64_t)i * MINUTE);

		window->duration_ns = durations[i];
		assert_int_equal(merge_add(&merge, window, NULL), 0);
		profile_free(window);
	}
	assert_int_equal(merge_finish(&merge), 0);
	assert_int_equal(merge.profile->time_ns, START * 1000000000);
	duration = merge.profile->duration_ns;
	merge_clear(&merge);
	return duration;
}

/* A damaged file has any duration. */
static void duration_of_a_merge_is_the_sum(void **state)
{
	(void)state;
	assert_int_equal(merged_duration((int64_t[]){7, 3}, 2), 10);
	assert_int_equal(merged_duration((int64_t[]){0, 0}, 2), 0);
	assert_int_equal(merged_duration((int64_t[]){7, -5, 3}, 3), 10);
	assert_int_equal(merged_duration((int64_t[]){7, INT64_MAX - 8, 1}, 3), INT64_MAX);
	assert_int_equal(merged_duration((int64_t[]){7, INT64_MAX - 6}, 2), INT64_MAX);
}

/* A writer stores the first samples and crashes; the next one stores all. */
static void samples_stored_again_replace_the_first(void **state)
{
	struct store store = open_store(state, &limits);
	struct profile *first = make_window(0, START), *second = make_window(1, START);
	struct merge all;

	assert_int_equal(store_add(&store, first, MINUTE, NULL), 0);
	assert_int_equal(merge_init(&all), 0);
	assert_int_equal(merge_add(&all, first, NULL), 0);
	assert_int_equal(merge_add(&all, second, NULL), 0);
	assert_int_equal(merge_finish(&all), 0);
	assert_int_equal(store_add_again(&store, all.profile, MINUTE, NULL), 0);
	assert_int_equal(store.count, 1);
	assert_whole(state, 0, 2);
	merge_clear(&all);
	profile_free(first);
	profile_free(second);
	/* Without a window of this start, it is a new one. */
	first = make_window(2, START + MINUTE);
	assert_int_equal(store_add_again(&store, first, MINUTE, NULL), 0);
	assert_int_equal(store.count, 2);
	assert_whole(state, 0, 3);
	profile_free(first);
	store_close(&store);
}

/* Another window may have the name that the first one would have had. */
static void samples_stored_again_replace_no_others(void **state)
{
	struct store store = open_store(state, &limits);
	struct profile *others = make_window(0, START), *profile = make_window(1, START);

	/* In the same microsecond. */
	profile->time_ns++;
	assert_int_equal(store_add(&store, others, MINUTE, NULL), 0);
	assert_int_equal(store_add(&store, profile, MINUTE, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_add_again(&store, profile, MINUTE, NULL), 0);
		assert_int_equal(store.count, 2);
		assert_whole(state, 0, 2);
	}
	profile_free(others);
	profile_free(profile);
	store_close(&store);
}

/* Until its writer knows that it is stored. */
static void last_window_is_not_merged(void **state)
{
	struct store store = open_store(state, &limits);
	struct profile *profile = make_window(9, START + 9 * MINUTE);

	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	assert_int_equal(store_add(&store, profile, MINUTE, NULL), 0);
	store_leave_last(&store);
	maintain_all(&store, START + 3 * HOUR);
	assert_int_equal(store.count, 2);
	maintain_all(&store, START + 3 * DAY);
	assert_int_equal(store.count, 2);
	assert_whole(state, 0, 10);
	store_close(&store);
	store = open_store(state, &limits);
	assert_int_equal(store_add_again(&store, profile, MINUTE, NULL), 0);
	assert_whole(state, 0, 10);
	store_close(&store);
	store = open_store(state, &limits);
	maintain_all(&store, START + 3 * DAY);
	assert_int_equal(store.count, 1);
	assert_whole(state, 0, 10);
	profile_free(profile);
	store_close(&store);
}

/* A stopped query, or somebody who means harm: merges wait, new windows and queries do not. */
static void held_lock_delays_a_merge_only(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char *path = scratch_file(state, ".lock");
	struct store store = open_store(state, &limits);
	int reader = open(path, O_RDONLY | O_CLOEXEC);

	for (unsigned int i = 0; i < 9; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	assert_int_equal(fcntl(reader, F_OFD_SETLK, &lock), -1);
	assert_int_equal(errno, EBADF);
	lock.l_type = F_RDLCK;
	assert_int_equal(fcntl(reader, F_OFD_SETLK, &lock), 0);
	assert_int_equal(flock(reader, LOCK_EX), 0);
	maintain_all(&store, START + 3 * HOUR);
	assert_int_equal(store.count, 9);
	assert_int_equal(store.counts.merged, 0);
	assert_int_equal(add_window(&store, 9, START + 9 * MINUTE), 0);
	assert_whole(state, 0, 10);
	close(reader);
	maintain_all(&store, START + 3 * HOUR);
	assert_int_equal(store.count, 1);
	assert_whole(state, 0, 10);
	store_close(&store);
	free(path);
}

static void query_selects_by_time(void **state)
{
	struct store store = open_store(state, &limits);
	struct sum sum;

	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	sum = query(state, START + 2 * MINUTE, START + 4 * MINUTE);
	assert_int_equal(sum.windows, 2);
	assert_int_equal(sum.seen[2] + sum.seen[3], 2);
	free(sum.seen);
	/* A part of a window counts as the window. */
	sum = query(state, START + 2 * MINUTE + 59, START + 3 * MINUTE + 1);
	assert_int_equal(sum.windows, 2);
	free(sum.seen);
	sum = query(state, START + 10 * MINUTE, START + 20 * MINUTE);
	assert_int_equal(sum.windows, 0);
	free(sum.seen);
	store_close(&store);
}

static void limits_remove_the_oldest(void **state)
{
	struct store_limits small = limits;
	struct store store = open_store(state, &limits);

	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	small.bytes = store.bytes - 1;
	store_close(&store);
	store = open_store(state, &small);
	maintain_all(&store, START + 10 * MINUTE);
	assert_whole(state, 1, 10);
	assert_int_equal(store.counts.removed_size, 1);
	assert_int_equal(store.counts.removed_old, 0);
	store.limits.age_s = 5 * MINUTE;
	/* The window that ends at the age stays. */
	maintain_all(&store, START + 8 * MINUTE);
	assert_whole(state, 2, 10);
	assert_int_equal(store.counts.removed_old, 1);
	store.limits.bytes = 0;
	maintain_all(&store, START + 8 * MINUTE);
	assert_whole(state, 9, 10);
	store_close(&store);
}

/* As a server opens the store for each new window. */
static void wrong_clock_costs_few(void **state)
{
	struct store store = open_store(state, &limits);

	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(add_window(&store, i, START + (int64_t)i * 12 * HOUR), 0);
	store_close(&store);
	for (unsigned int opened = 1; opened <= 3; opened++) {
		store = open_store(state, &limits);
		maintain_all(&store, START + 365 * DAY);
		assert_int_equal(store.counts.removed_old, 2);
		assert_whole(state, 2 * opened, 20);
		store_close(&store);
	}
	/* The clock is set right. */
	store = open_store(state, &limits);
	maintain_all(&store, START + 10 * DAY);
	assert_whole(state, 6, 20);
	store_close(&store);
}

/* A clock that stays wrong leaves a quarter of the days, of which the pause counts as one. */
static void wrong_clock_does_not_empty_the_store(void **state)
{
	const int64_t wrong = START + 34 * DAY;
	struct store store = open_store(state, &limits);
	unsigned int count = 28, left = 28 - 5;

	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(add_window(&store, i, START + (int64_t)i * 12 * HOUR), 0);
	store_close(&store);
	for (unsigned int opened = 0; opened < 20; opened++) {
		store = open_store(state, &limits);
		maintain_all(&store, wrong);
		store_close(&store);
	}
	assert_whole(state, left, count);
	/* New windows take the place of the old ones, as time passes. */
	for (unsigned int opened = 0; opened < 8; opened++) {
		const int64_t now = wrong + (int64_t)opened * 12 * HOUR;

		store = open_store(state, &limits);
		assert_int_equal(add_window(&store, count++, now), 0);
		maintain_all(&store, now);
		left += store.counts.removed_old;
		assert_whole(state, left, count);
		store_close(&store);
	}
	assert_in_range(left, 28, 29);
}

/* With the clock behind, the newest window has the oldest name. */
static void clock_that_is_behind_costs_the_oldest(void **state)
{
	const int64_t wrong = START - 365 * DAY;
	struct store_limits small = limits;
	struct store store = open_store(state, &limits);

	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	/* Not all of them have the same size. */
	small.bytes = store.bytes + 60;
	store_close(&store);
	for (unsigned int i = 0; i < 5; i++) {
		const int64_t now = wrong + i * MINUTE;

		store = open_store(state, &small);
		assert_int_equal(add_window(&store, 10 + i, now), 0);
		maintain_all(&store, now + MINUTE);
		assert_int_equal(store.counts.removed_size, 1);
		assert_whole(state, i + 1, 11 + i);
		store_close(&store);
	}
	/* Likewise on a full disk. */
	room = 100;
	store = open_store(state, &limits);
	assert_int_equal(add_window(&store, 15, wrong + 5 * MINUTE), 0);
	assert_in_range(store.counts.removed_full, 1, 4);
	assert_whole(state, 5 + (unsigned int)store.counts.removed_full, 16);
	store_close(&store);
	room = -1;
	/* A window alone is kept, also as the last one by name. */
	small.bytes = 0;
	store = open_store(state, &small);
	assert_int_equal(add_window(&store, 16, START + DAY), 0);
	maintain_all(&store, START + DAY + MINUTE);
	assert_whole(state, 16, 17);
	store_close(&store);
}

static void files_stored_again_replace_the_first(void **state)
{
	struct store store = open_store(state, &limits);
	struct profile *profiles[] = {make_window(0, START), make_window(1, START),
				      make_window(2, START)};
	struct error error;

	assert_int_equal(add_file(&store, profiles[0], false), 0);
	assert_int_equal(add_file(&store, profiles[1], true), 0);
	assert_int_equal(store.count, 1);
	assert_whole(state, 1, 2);
	assert_int_equal(add_file(&store, profiles[2], false), 0);
	assert_int_equal(store.count, 2);
	assert_whole(state, 1, 3);
	assert_int_equal(store_add_file(&store, -1, 0, MINUTE, false, &error), -EBADF);
	assert_int_equal(store.count, 2);
	for (size_t i = 0; i < 3; i++)
		profile_free(profiles[i]);
	store_close(&store);
}

static void full_disk_costs_the_oldest(void **state)
{
	struct store store = open_store(state, &limits);
	unsigned int added = 0;

	room = 20000;
	while (!store.counts.removed_full) {
		assert_int_equal(add_window(&store, added, START + added * MINUTE), 0);
		added++;
	}
	assert_true(store.counts.removed_full >= 1);
	assert_whole(state, (unsigned int)store.counts.removed_full, added);
	assert_int_equal(store.count, added - store.counts.removed_full);
	/* A merge needs room for the new window: without it, all windows stay. */
	room = 0;
	maintain_all(&store, START + DAY);
	assert_whole(state, (unsigned int)store.counts.removed_full, added);
	store_close(&store);
	room = -1;
}

static void full_disk_of_others_does_not_cost_all(void **state)
{
	struct store store = open_store(state, &limits);
	unsigned int count = 200;

	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	/* What is removed makes no room: others take it at once. */
	room = 0;
	is_taken = true;
	assert_int_equal(add_window(&store, count, START + count * MINUTE), -ENOSPC);
	is_taken = false;
	assert_true(store.counts.removed_full > 0);
	assert_true(store.counts.removed_full < count / 4);
	assert_int_equal(store.counts.dropped, 1);
	assert_whole(state, (unsigned int)store.counts.removed_full, count);
	store_close(&store);
	room = -1;
}

static void overwrite(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(syscall(SYS_write, fd, bytes, size), size);
	close(fd);
}

/* Not by each job, until it is too old. */
static void damaged_window_is_read_once(void **state)
{
	struct store store = open_store(state, &limits);
	char *path = scratch_file(state, "20270115T080300.000000Z-60s.pb.gz");
	static unsigned char bytes[65536];
	struct store_damaged damaged;
	ssize_t size;
	int fd;

	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	fd = open(path, O_RDONLY);
	size = read(fd, bytes, sizeof(bytes));
	assert_true(size > 0 && size < (ssize_t)sizeof(bytes));
	close(fd);
	overwrite(path, "damaged", 7);
	maintain_all(&store, START + DAY);
	assert_int_equal(store.count, 2);
	assert_int_equal(store.counts.unreadable, 1);
	damaged = store.damaged;
	assert_int_equal(damaged.count, 1);
	store_close(&store);

	/* Though it could be read now, it is not tried. */
	overwrite(path, bytes, (size_t)size);
	assert_int_equal(store_open_knowing(&store, directory(state), &limits, &damaged, NULL), 0);
	maintain_all(&store, START + DAY);
	assert_int_equal(store.count, 2);
	assert_int_equal(store.counts.unreadable, 0);
	assert_int_equal(store.damaged.count, 1);
	store_close(&store);

	/* By a process that does not know it. */
	store = open_store(state, &limits);
	maintain_all(&store, START + DAY);
	assert_int_equal(store.count, 1);
	store_close(&store);

	/* What was removed is forgotten. */
	assert_int_equal(store_open_knowing(&store, directory(state), &limits, &damaged, NULL), 0);
	assert_int_equal(store.damaged.count, 0);
	store_close(&store);
	free(path);
}

/* Ends the process in its first merge, and leaves what it knew. */
static void end_in_merge(const struct store *store, void *arg)
{
	*(struct store_damaged *)arg = store->damaged;
	_exit(CRASHED);
}

/* As the limits of a job end it, by each job again. */
static void merge_that_ends_the_process_is_tried_once(void **state)
{
	struct store store = open_store(state, &limits);
	struct store_damaged *known = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	assert_true(known != MAP_FAILED);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	store_note_merges(&store, end_in_merge, known);
	child = fork();
	if (!child) {
		maintain_all(&store, START + 2 * HOUR + 20 * MINUTE);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), CRASHED);
	assert_int_equal(known->merging.seconds, 600);
	store_close(&store);

	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open_knowing(&store, directory(state), &limits, known, NULL),
				 0);
		assert_int_equal(store.damaged.count, 1);
		assert_int_equal(store.damaged.merging.seconds, 0);
		maintain_all(&store, START + 2 * HOUR + 20 * MINUTE);
		assert_int_equal(store.count, 10);
		*known = store.damaged;
		store_close(&store);
	}
	/* Windows of another slot are merged, and these, too, to an hour. */
	assert_int_equal(store_open_knowing(&store, directory(state), &limits, known, NULL), 0);
	for (unsigned int i = 10; i < 12; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	maintain_all(&store, START + 2 * HOUR + 20 * MINUTE);
	assert_int_equal(store.count, 11);
	maintain_all(&store, START + 3 * DAY);
	assert_int_equal(store.count, 1);
	*known = store.damaged;
	store_close(&store);
	assert_whole(state, 0, 12);
	/* A slot without windows is forgotten. */
	assert_int_equal(store_open_knowing(&store, directory(state), &limits, known, NULL), 0);
	assert_int_equal(store.damaged.count, 0);
	store_close(&store);
	munmap(known, sizeof(*known));
}

static void damaged_window_stays_apart(void **state)
{
	struct store store = open_store(state, &limits);
	char *path = scratch_file(state, "20270115T080300.000000Z-60s.pb.gz");
	struct sum sum = {.seen = calloc(WINDOWS_MAX, sizeof(*sum.seen))};
	struct store_query result;
	int fd;

	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	assert_int_equal(syscall(SYS_write, fd, "damaged", 7), 7);
	close(fd);
	maintain_all(&store, START + DAY);
	assert_int_equal(store.count, 2);
	assert_true(store.counts.unreadable > 0);
	assert_int_equal(store_query(directory(state), 0, INT64_MAX, NULL, count_profile, &sum,
				     &result, NULL),
			 0);
	assert_int_equal(result.windows, 1);
	assert_int_equal(result.unreadable, 1);
	assert_int_equal(sum.cpu, 9 * 1000 + 45 - 3);
	/* A damaged merged window is not replaced. */
	free(sum.seen);
	free(path);
	store_close(&store);
}

/* Byte 8 of a gzip file names its compression: 4 is the fastest, 0 the default (RFC 1952, zlib). */
static void assert_compression(void **state, const char *name, unsigned char expected)
{
	char *path = scratch_file(state, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char byte = 0xff;

	assert_int_equal(pread(fd, &byte, 1, 8), 1);
	assert_int_equal(byte, expected);
	close(fd);
	free(path);
}

static void new_windows_are_compressed_fast(void **state)
{
	struct store store = open_store(state, &limits);

	assert_int_equal(add_window(&store, 0, START), 0);
	assert_compression(state, "20270115T080000.000000Z-60s.pb.gz", 4);
	maintain_all(&store, START + 3 * HOUR);
	assert_compression(state, "20270115T080000.000000Z-600s.pb.gz", 0);
	store_close(&store);
}

#define PARTS "20270115T080000.000000Z-3600s.pb.gz.parts"

/* Adds windows of a minute, by turns of two services, and merges them to an hour. */
static void merge_services(void **state, unsigned int first)
{
	struct store store = open_store(state, &limits);

	for (unsigned int i = first; i < first + 6; i++) {
		struct profile *profile = make_window(i, START + i * MINUTE);
		const uint32_t location = 1;

		example_sample(profile, &location, 1, 1, i % 2 ? "odd" : "even");
		/* Only the samples of services count below. */
		assert_int_equal(store_add(&store, profile, MINUTE, NULL), 0);
		profile_free(profile);
	}
	maintain_all(&store, START + 3 * DAY);
	assert_int_equal(store.count, 1);
	store_close(&store);
}

/* Asserts the samples that a query for a service reads. */
static void assert_read(void **state, const char *service, unsigned int odd, unsigned int even,
			unsigned int unknown)
{
	struct sum sum = query_service(state, service, START, START + HOUR);
	unsigned int samples[2] = {0};

	for (unsigned int i = 0; i < 100; i++)
		samples[i % 2] += sum.seen[i];
	assert_int_equal(samples[0] + samples[1], odd + even + unknown);
	assert_int_equal(samples[1], odd + unknown / 2);
	/* The counts belong to the window. */
	assert_int_equal(sum.windows, 1);
	free(sum.seen);
}

struct sums {
	unsigned int windows;
	int64_t start_us, end_us, services, fail_at;
};

static int add_sums(const struct services *services, int64_t start_us, int64_t end_us, void *arg)
{
	struct sums *sums = arg;

	if (++sums->windows == sums->fail_at)
		return -E2BIG;
	assert_true(start_us > sums->start_us);
	sums->start_us = start_us;
	sums->end_us = end_us;
	sums->services += (int64_t)services->count;
	return 0;
}

/* Each window by itself, whether its parts or the window are read. */
static void sums_are_those_of_each_window(void **state)
{
	struct store_query result;
	struct sums sums = {0};
	struct store store;

	merge_services(state, 0);
	store = open_store(state, &limits);
	for (unsigned int i = 0; i < 2; i++) {
		struct profile *profile = make_window(i, START + HOUR + i * MINUTE);

		assert_int_equal(store_add(&store, profile, MINUTE, NULL), 0);
		profile_free(profile);
	}
	store_close(&store);
	assert_int_equal(
		store_query_sums(directory(state), 0, INT64_MAX, add_sums, &sums, &result, NULL),
		0);
	assert_int_equal(sums.windows, 3);
	assert_int_equal(result.windows, 3);
	assert_int_equal(sums.services, 3 + 1 + 1);
	assert_int_equal(sums.start_us, (START + HOUR + MINUTE) * US_PER_SECOND);
	assert_int_equal(sums.end_us, (START + HOUR + 2 * MINUTE) * US_PER_SECOND);
	sums = (struct sums){.fail_at = 2};
	assert_int_equal(
		store_query_sums(directory(state), 0, INT64_MAX, add_sums, &sums, &result, NULL),
		-E2BIG);
	assert_int_equal(sums.windows, 2);

	/* Windows before it could not be written. */
	store = open_store(state, &limits);
	{
		struct profile *profile = make_window(0, START + 2 * HOUR + 30);

		profile->duration_ns = 300 * INT64_C(1000000000);
		assert_int_equal(store_add(&store, profile, MINUTE, NULL), 0);
		profile_free(profile);
	}
	store_close(&store);
	sums = (struct sums){0};
	assert_int_equal(
		store_query_sums(directory(state), 0, INT64_MAX, add_sums, &sums, &result, NULL),
		0);
	assert_int_equal(sums.start_us, (START + 2 * HOUR + 30) * US_PER_SECOND);
	assert_int_equal(sums.end_us, (START + 2 * HOUR + 330) * US_PER_SECOND);
}

static void query_for_a_service_reads_its_part(void **state)
{
	struct services services = {0};
	struct store_query result;
	char *path = scratch_file(state, PARTS), *kept = scratch_file(state, "kept");
	struct store store;
	struct sum sum;

	merge_services(state, 0);
	assert_read(state, "odd", 3, 0, 0);
	assert_read(state, "even", 0, 3, 0);
	assert_read(state, "unknown", 0, 0, 6);
	assert_read(state, "none", 0, 0, 0);
	assert_read(state, "", 0, 0, 0);
	sum = query_service(state, "none", START, START + HOUR);
	assert_int_equal(sum.duration_ns, 6 * 60 * INT64_C(1000000000));
	assert_int_equal(sum.lost, 6);
	free(sum.seen);
	assert_int_equal(
		store_query_services(directory(state), 0, INT64_MAX, &services, &result, NULL), 0);
	services_sort(&services);
	assert_int_equal(services.count, 3);
	assert_int_equal(services.items[0].samples, 3);
	assert_string_equal(services.items[2].name, "unknown");
	assert_int_equal(services.items[2].samples, 6);
	services_clear(&services);

	/* Counts of an earlier version of the window are not believed. */
	assert_int_equal(link(path, kept), 0);
	merge_services(state, 6);
	assert_read(state, "odd", 6, 0, 0);
	assert_int_equal(syscall(SYS_rename, kept, path), 0);
	assert_read(state, "odd", 6, 6, 12);
	/* Damaged ones neither, and links to other files are not followed. */
	assert_int_equal(truncate(path, 100), 0);
	assert_read(state, "odd", 6, 6, 12);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_read(state, "odd", 6, 6, 12);
	assert_int_equal(
		store_query_services(directory(state), 0, INT64_MAX, &services, &result, NULL), 0);
	assert_int_equal(services.count, 3);
	services_clear(&services);

	/* They go with their window, and those that a crash has left. */
	store = open_store(state, &limits);
	for (unsigned int i = 0; i < 8; i++)
		assert_int_equal(add_window(&store, 100 + i, START + DAY + (int64_t)i * 12 * HOUR),
				 0);
	maintain_all(&store, START + 30 * DAY);
	assert_true(store.counts.removed_old > 0);
	assert_true(store.windows[0].name.start_us > START * US_PER_SECOND);
	assert_int_not_equal(faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW), 0);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	store_close(&store);
	store = open_store(state, &limits);
	assert_int_not_equal(access(path, F_OK), 0);
	store_close(&store);
	free(path);
	free(kept);
}

/* In a directory to which others write. */
static void links_and_pipes_are_not_followed(void **state)
{
	static const char *const names[] = {"20270115T080000.000000Z-3600s.pb.gz", PARTS,
					    "20270115T080100.000000Z-60s.pb.gz"};
	char *victim = scratch_file(state, "victim"), *lock = scratch_file(state, ".lock");
	struct store store;
	struct stat status;
	char *pipe;

	close(open(victim, O_CREAT | O_WRONLY, 0600));
	for (size_t i = 0; i < 2; i++) {
		char *path = scratch_file(state, names[i]);

		assert_int_equal(symlink(victim, path), 0);
		free(path);
	}
	pipe = scratch_file(state, names[2]);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	free(pipe);
	/* Writing the window of the second minute would wait for a reader of the pipe. */
	merge_services(state, 0);
	assert_read(state, "odd", 3, 0, 0);
	assert_int_equal(stat(victim, &status), 0);
	assert_int_equal(status.st_size, 0);

	assert_int_equal(unlink(lock), 0);
	assert_int_equal(unlink(victim), 0);
	assert_int_equal(symlink(victim, lock), 0);
	assert_int_equal(store_open(&store, directory(state), &limits, NULL), -ELOOP);
	store_close(&store);
	assert_int_not_equal(access(victim, F_OK), 0);
	free(victim);
	free(lock);
}

static void other_files_are_left_alone(void **state)
{
	char *other = scratch_file(state, "README"),
	     *left = scratch_file(state, ".stackbeat-0123456789abcdef.tmp"),
	     *written = scratch_file(state, ".stackbeat-fedcba9876543210.tmp");
	const struct timespec long_ago[2] = {{.tv_sec = time(NULL) - 7200},
					     {.tv_sec = time(NULL) - 7200}};
	struct store store;

	close(open(other, O_CREAT | O_WRONLY, 0600));
	close(open(left, O_CREAT | O_WRONLY, 0600));
	close(open(written, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(utimensat(AT_FDCWD, other, long_ago, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, left, long_ago, 0), 0);
	store = open_store(state, &limits);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_not_equal(access(left, F_OK), 0);
	/* Another process writes it. */
	assert_int_equal(access(written, F_OK), 0);
	assert_int_equal(store.count, 0);
	store_close(&store);
	free(other);
	free(left);
	free(written);
}

static void store_is_a_directory_of_its_process(void **state)
{
	char *file = scratch_file(state, "file");
	struct store store = open_store(state, &limits);
	struct error error;

	/* Jobs do not pass them on. */
	assert_int_equal(fcntl(store.directory, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(store.lock, F_GETFD), FD_CLOEXEC);
	store_close(&store);
	close(open(file, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(store_open(&store, file, &limits, &error), -ENOTDIR);
	assert_non_null(strstr(error.text, "/file: Not a directory"));
	store_close(&store);
	free(file);
}

static void directory_is_created(void **state)
{
	char *path = scratch_file(state, "store"), *missing = scratch_file(state, "a/b");
	struct error error;
	struct stat status;

	owner_changes = 0;
	assert_int_equal(store_create(path, (uid_t)-1, NULL), 0);
	assert_int_equal(owner_changes, 0);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(store_create(path, getuid(), NULL), 0);
	assert_int_equal(owner_changes, 1);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07027, 0);
	/* A directory that is there keeps its owner. */
	assert_int_equal(store_create(path, getuid(), NULL), 0);
	assert_int_equal(owner_changes, 1);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(store_create(missing, getuid(), &error), -ENOENT);
	assert_non_null(strstr(error.text, "/a/b: No such file"));
	free(path);
	free(missing);
}

/* By the owner of the directory that the store is in. */
static void replaced_directory_keeps_its_owner(void **state)
{
	char *path = scratch_file(state, "store");
	struct error error;

	owner_changes = 0;
	link_target = directory(state);
	assert_int_equal(store_create(path, getuid(), &error), -ENOTDIR);
	assert_non_null(strstr(error.text, "/store: Not a directory"));
	link_target = NULL;
	assert_int_equal(unlink(path), 0);
	/* Another user's directory. */
	effective_user = (uid_t)syscall(SYS_geteuid) + 1;
	assert_int_equal(store_create(path, getuid(), &error), -EPERM);
	effective_user = 0;
	assert_int_equal(owner_changes, 0);
	assert_int_equal(rmdir(path), 0);
	free(path);
}

static void one_process_writes(void **state)
{
	struct error error;
	int lock = store_lock(directory(state), NULL);

	assert_true(lock >= 0);
	assert_int_equal(store_lock(directory(state), &error), -EBUSY);
	assert_non_null(strstr(error.text, ": another process writes to this store"));
	/* Jobs do not pass it on. */
	assert_int_equal(fcntl(lock, F_GETFD), FD_CLOEXEC);
	close(lock);
	lock = store_lock(directory(state), NULL);
	assert_true(lock >= 0);
	close(lock);
	assert_int_equal(store_lock("/nonexistent", &error), -ENOENT);
}

static mode_t mode_of(const char *path)
{
	struct stat status;

	assert_int_equal(lstat(path, &status), 0);
	return status.st_mode & 07777;
}

/* What a process can open, it can lock. A reader of the store keeps no other from writing. */
static void lock_of_the_writer_is_private(void **state)
{
	char *path = scratch_file(state, ".writer");
	int reader = open(directory(state), O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock;
	mode_t mask = umask(0);
	struct store store;

	assert_int_equal(flock(reader, LOCK_EX), 0);
	lock = store_lock(directory(state), NULL);
	assert_true(lock >= 0);
	umask(mask);
	assert_int_equal(mode_of(path), 0600);
	close(lock);
	/* With the rights of all files of the store, or a copy of it. */
	assert_int_equal(chmod(path, 0664), 0);
	lock = store_lock(directory(state), NULL);
	assert_true(lock >= 0);
	assert_int_equal(mode_of(path), 0600);
	/* It is no window. */
	store = open_store(state, &limits);
	assert_int_equal(store.count, 0);
	assert_int_equal(store.damaged.count, 0);
	assert_int_equal(store.bytes, 0);
	assert_int_equal(access(path, F_OK), 0);
	store_close(&store);
	close(lock);
	close(reader);
	free(path);
}

/* In a directory to which others write. */
static void lock_of_another_is_none(void **state)
{
	char *path = scratch_file(state, ".writer"), *victim = scratch_file(state, "victim");
	struct error error;

	close(store_lock(directory(state), NULL));
	effective_user = (uid_t)syscall(SYS_geteuid) + 1;
	assert_int_equal(store_lock(directory(state), &error), -EPERM);
	effective_user = 0;
	assert_non_null(strstr(error.text, "/.writer: Operation not permitted"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink(victim, path), 0);
	assert_int_equal(store_lock(directory(state), &error), -ELOOP);
	assert_int_not_equal(access(victim, F_OK), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(store_lock(directory(state), &error), -EPERM);
	free(victim);
	free(path);
}

/* Runs a random operation in a process that ends before a random system call. */
struct crash {
	unsigned int added;
	int64_t now_s;
	bool adds;
};

static bool run_and_crash(void **state, const struct crash *crash, unsigned long at)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		struct store store;

		crash_at = at;
		if (store_open(&store, directory(state), &limits, NULL))
			_exit(1);
		if (crash->adds && add_window(&store, crash->added, crash->now_s))
			_exit(1);
		while (!crash->adds &&
		       store_maintain(&store, crash->now_s * US_PER_SECOND, NULL) > 0)
			;
		/* No report of leaks. */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == CRASHED);
	return WEXITSTATUS(status) == CRASHED;
}

static bool has_window(void **state, unsigned int number)
{
	struct sum sum = query(state, 0, 4000000000);
	bool has = sum.seen[number];

	free(sum.seen);
	return has;
}

static void crash_tears_nothing(void **state)
{
	struct crash crash = {.now_s = START};
	unsigned int crashes = 0;

	srandom(24);
	while (crashes < 200) {
		bool crashed;

		crash.adds = random() % 4 != 0;
		crashed = run_and_crash(state, &crash, 1 + (unsigned long)random() % 12);
		crashes += crashed;
		/* Readers see the same before the store is opened to write. */
		if (crash.adds && (!crashed || has_window(state, crash.added)))
			crash.added++;
		assert_whole(state, 0, crash.added);
		crash.now_s += random() % 20 * MINUTE;
	}
	assert_true(crash.added > 50);
}

/* Each prefix of the system calls of a merge. */
static void each_step_of_a_merge_is_safe(void **state)
{
	struct crash crash = {.now_s = START + DAY};
	unsigned long at = 0;
	bool crashed;

	do {
		struct store store;

		scratch_count(state, 1);
		store = open_store(state, &limits);
		for (unsigned int i = 0; i < 10; i++)
			assert_int_equal(add_window(&store, i, START + i * MINUTE), 0);
		store_close(&store);
		crashed = run_and_crash(state, &crash, ++at);
		assert_whole(state, 0, 10);
		store = open_store(state, &limits);
		assert_whole(state, 0, 10);
		maintain_all(&store, crash.now_s);
		assert_int_equal(store.count, 1);
		store_close(&store);
		assert_whole(state, 0, 10);
	} while (crashed);
	/* write, fsync, link, rename, fsync, 10 times unlink */
	assert_true(at > 14);
}

static void two_weeks_stay_few(void **state)
{
	const unsigned int count = 14 * DAY / FIVE_MINUTES;
	struct store store = open_store(state, &limits);
	uint64_t before = steps;
	size_t most = 0;

	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(add_window(&store, i, START + (int64_t)i * FIVE_MINUTES), 0);
		maintain_all(&store, START + (int64_t)(i + 1) * FIVE_MINUTES);
		most = store.count > most ? store.count : most;
	}
	/* 2 hours of windows and 10 minutes, 2 days of 10 minutes and an hour, 12 days of hours. */
	assert_true(most <= 24 + 2 + 288 - 12 + 6 + 288);
	assert_true(store.count >= 24 + 288 - 12 + 287);
	assert_whole(state, 0, count);
	assert_true((steps - before) / count < 200000);
	store_close(&store);
}

static void write_merged_windows(void **state, unsigned int first, unsigned int end)
{
	char text[WINDOW_NAME_SIZE];

	for (unsigned int i = first; i < end; i++) {
		const struct window_name name = {(START + i * TEN_MINUTES) * US_PER_SECOND,
						 TEN_MINUTES};
		char *path;
		int file;

		assert_true(window_name_format(&name, text));
		path = scratch_file(state, text);
		file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert_true(file >= 0);
		close(file);
		free(path);
	}
}

static uint64_t steps_to_open(void **state, unsigned int windows)
{
	uint64_t before = steps;
	struct store store = open_store(state, &limits);

	assert_int_equal(store.count, windows);
	store_close(&store);
	return steps - before;
}

/* Each new window opens the store. */
static void opening_is_linear(void **state)
{
	uint64_t few, many;

	write_merged_windows(state, 0, 300);
	few = steps_to_open(state, 300);
	write_merged_windows(state, 300, 600);
	many = steps_to_open(state, 600);
	assert_in_range(many, few, few * 5 / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_exact),
		SCRATCH_TEST(sums_are_those_of_each_window),
		SCRATCH_TEST(query_for_a_service_reads_its_part),
		SCRATCH_TEST(links_and_pipes_are_not_followed),
		SCRATCH_TEST(windows_become_longer),
		SCRATCH_TEST(windows_have_limits),
		SCRATCH_TEST(new_windows_are_compressed_fast),
		SCRATCH_TEST(late_window_joins_a_merged_one),
		cmocka_unit_test(duration_of_a_merge_is_the_sum),
		SCRATCH_TEST(samples_stored_again_replace_the_first),
		SCRATCH_TEST(samples_stored_again_replace_no_others),
		SCRATCH_TEST(last_window_is_not_merged),
		SCRATCH_TEST(held_lock_delays_a_merge_only),
		SCRATCH_TEST(files_stored_again_replace_the_first),
		SCRATCH_TEST(query_selects_by_time),
		SCRATCH_TEST(limits_remove_the_oldest),
		SCRATCH_TEST(wrong_clock_costs_few),
		SCRATCH_TEST(wrong_clock_does_not_empty_the_store),
		SCRATCH_TEST(clock_that_is_behind_costs_the_oldest),
		SCRATCH_TEST(full_disk_costs_the_oldest),
		SCRATCH_TEST(full_disk_of_others_does_not_cost_all),
		SCRATCH_TEST(damaged_window_is_read_once),
		SCRATCH_TEST(merge_that_ends_the_process_is_tried_once),
		SCRATCH_TEST(damaged_window_stays_apart),
		SCRATCH_TEST(other_files_are_left_alone),
		SCRATCH_TEST(store_is_a_directory_of_its_process),
		SCRATCH_TEST(directory_is_created),
		SCRATCH_TEST(replaced_directory_keeps_its_owner),
		SCRATCH_TEST(one_process_writes),
		SCRATCH_TEST(lock_of_the_writer_is_private),
		SCRATCH_TEST(lock_of_another_is_none),
		SCRATCH_TEST(crash_tears_nothing),
		SCRATCH_TEST(each_step_of_a_merge_is_safe),
		SCRATCH_TEST(two_weeks_stay_few),
		SCRATCH_TEST(opening_is_linear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

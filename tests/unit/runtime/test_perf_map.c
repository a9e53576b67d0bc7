// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "lib/clock.h"
#include "sandbox.h"

/* Returns an fd of a map with a text. */
static int make_map(const char *text, size_t size)
{
	int fd;

	write_file(in_sandbox("map"), text, size);
	fd = open(in_sandbox("map"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static uint64_t charged; /* bytes of the last map */

static void note_charge(void *arg, uint64_t bytes)
{
	(void)arg;
	assert_true(bytes > 0);
	charged += bytes;
}

static struct perf_map *read_some(int fd, const uint64_t *addresses, size_t count, uint64_t bytes)
{
	const struct perf_map_quota quota = {bytes, note_charge, NULL};
	struct perf_map *map;

	charged = 0;
	assert_int_equal(perf_map_read(fd, addresses, count, &quota, &map), 0);
	return map;
}

static struct perf_map *read_names(int fd, const uint64_t *addresses, size_t count)
{
	return read_some(fd, addresses, count, UINT64_MAX);
}

static void assert_named(const struct perf_map *map, uint64_t address, const char *name)
{
	const char *found = perf_map_lookup(map, address);

	if (!name)
		assert_null(found);
	else if (!found || strcmp(found, name))
		fail_msg("%#" PRIx64 " is %s, not %s", address, found ? found : "nothing", name);
}

static void assert_name(int fd, uint64_t address, const char *name)
{
	struct perf_map *map = read_names(fd, &address, 1);

	assert_named(map, address, name);
	perf_map_free(map);
}

static bool is_truncated(int fd, uint64_t bytes)
{
	struct perf_map *map = read_some(fd, NULL, 0, bytes);
	bool truncated = perf_map_is_truncated(map);

	perf_map_free(map);
	return truncated;
}

/* A map that is rewritten after each look at its end: see lseek(). */
static const char *rewritten;

off_t lseek(int fd, off_t offset, int whence)
{
	off_t result = syscall(SYS_lseek, fd, offset, whence);

	if (result < 0 && rewritten) {
		write_text(rewritten, "2000 10 h\n");
		errno = ENXIO;
	}
	return result;
}

#define MAP(text) make_map(text, strlen(text))

static void test_lookup(void **state)
{
	int map = MAP("2000 10 second\n"
		      "1000 20 LazyCompile:~a b /x y.js:12\n"
		      "7fFFffff0000 1 high\n");

	(void)state;
	assert_name(map, 0xfff, NULL);
	assert_name(map, 0x1000, "LazyCompile:~a b /x y.js:12");
	assert_name(map, 0x101f, "LazyCompile:~a b /x y.js:12");
	assert_name(map, 0x1020, NULL);
	assert_name(map, 0x200f, "second");
	assert_name(map, 0x2010, NULL);
	assert_name(map, 0x7fffffff0000, "high");
	close(map);
}

static void test_later_line_wins(void **state)
{
	int map = MAP("1000 100 old\n"
		      "1040 10 new\n"
		      "1080 100 tail\n"
		      "1000 8 first\n"
		      "1044 4 old inside\n"
		      "1040 10 newest\n");

	(void)state;
	assert_name(map, 0x1000, "first");
	assert_name(map, 0x1007, "first");
	assert_name(map, 0x1008, "old");
	assert_name(map, 0x103f, "old");
	assert_name(map, 0x1040, "newest");
	assert_name(map, 0x1044, "newest");
	assert_name(map, 0x1050, "old");
	assert_name(map, 0x107f, "old");
	assert_name(map, 0x1080, "tail");
	assert_name(map, 0x117f, "tail");
	assert_name(map, 0x1180, NULL);
	close(map);
}

static void test_overlaps_match_line_by_line_result(void **state)
{
	uint32_t owner[256] = {0}, at, size;
	char *text = malloc(1u << 16), name[16];
	uint64_t addresses[256];
	struct perf_map *map;
	size_t used = 0;
	int fd;

	(void)state;
	assert_non_null(text);
	srandom(7);
	for (uint32_t i = 1; i <= 500; i++) {
		at = (uint32_t)random() % 200;
		size = 1 + (uint32_t)random() % 40;
		used += (size_t)sprintf(text + used, "%x %x f%u\n", 0x1000 + at, size, i);
		for (uint32_t k = at; k < at + size; k++)
			owner[k] = i;
	}
	fd = make_map(text, used);
	/* For all numbers of addresses, in the other order. */
	for (uint32_t count = 1; count <= 256; count++) {
		for (uint32_t k = 0; k < count; k++)
			addresses[count - 1 - k] = 0x1000 + k;
		map = read_names(fd, addresses, count);
		for (uint32_t k = 0; k < count; k++) {
			sprintf(name, "f%u", owner[k]);
			assert_named(map, 0x1000 + k, owner[k] ? name : NULL);
		}
		assert_named(map, 0x1000 + count, NULL);
		perf_map_free(map);
	}
	close(fd);
	free(text);
}

static void test_malformed_lines_are_skipped(void **state)
{
	int map = MAP("\n"
		      "1000\n"
		      "1000 10\n"
		      "1000 10 \n"
		      "1000 0 empty\n"
		      "-1000 10 sign\n"
		      "1000 -10 sign\n"
		      "1000 +10 sign\n"
		      "1000  10 two blanks\n"
		      "10000000000000000 10 long\n"
		      "ffffffffffffffff 10 wraps\n"
		      "1000 zz text\n"
		      "5000,10 comma\n"
		      "5000 10,comma\n"
		      "0x2000 0x10 good\n"
		      "fffffffffffffff0 f edge\n"
		      "3000 10 unfinished");

	(void)state;
	assert_name(map, 0x1000, NULL);
	assert_name(map, 0, NULL);
	assert_name(map, UINT64_MAX, NULL);
	assert_name(map, 0x2000, "good");
	assert_name(map, UINT64_MAX - 1, "edge");
	assert_name(map, 0x3000, NULL);
	assert_name(map, 0x5000, NULL);
	close(map);
	map = MAP("");
	assert_name(map, 0, NULL);
	close(map);
}

static void test_long_names_and_nul_bytes(void **state)
{
	static char text[1 << 17];
	uint64_t address = 0x1000;
	struct perf_map *names;
	size_t length;
	int map;

	(void)state;
	for (size_t size = 3 * (size_t)PERF_MAP_LINE_MAX; size <= sizeof(text);
	     size = size * 2 + 1) {
		memset(text, 'x', size);
		memcpy(text, "1000 10 ", 8);
		memcpy(text + size - 14, "\n2000 10 next\n", 14);
		map = make_map(text, size);
		names = read_names(map, &address, 1);
		length = strlen(perf_map_lookup(names, address));
		assert_true(length > PERF_MAP_LINE_MAX / 2 && length < PERF_MAP_LINE_MAX);
		perf_map_free(names);
		assert_name(map, 0x2000, "next");
		close(map);
	}
	map = make_map("1000 10 a\0b\n\0\0\n3000 10 \0\n2000 10 next\n", 39);
	assert_name(map, 0x1000, "a");
	assert_name(map, 0x2000, "next");
	assert_name(map, 0x3000, NULL);
	close(map);
}

/* The names of a runtime with very much code: neither lines nor names are kept. */
static void test_large_maps_are_read_to_their_end(void **state)
{
	const unsigned int count = 1500000;
	FILE *stream = fopen(in_sandbox("map"), "w");
	int map;

	(void)state;
	assert_non_null(stream);
	for (unsigned int i = 0; i < count; i++)
		fprintf(stream, "%x 10 f%x\n", 0x1000 + i * 0x10, i);
	fclose(stream);
	map = open(in_sandbox("map"), O_RDWR | O_CLOEXEC);
	assert_name(map, 0x1000, "f0");
	assert_name(map, 0x1000 + 0x10 * 1234567, "f12d687");
	assert_name(map, 0x1000 + 0x10 * (count - 1) + 0xf, "f16e35f");
	assert_int_equal(pwrite(map, "\n1 1 far\n", 9, (off_t)300 << 20), 9);
	assert_name(map, 0x1000, "f0");
	assert_name(map, 1, "far");
	assert_false(is_truncated(map, UINT64_MAX));
	close(map);
}

static void test_bytes_beyond_quota_are_dropped(void **state)
{
	const uint64_t addresses[] = {0x1000, 0x2000};
	int map = MAP("1000 10 f\n2000 10 g\n");
	struct perf_map *names;

	(void)state;
	assert_false(is_truncated(map, 20));
	assert_int_equal(charged, 20);
	assert_true(is_truncated(map, 19));
	assert_int_equal(charged, 19);
	assert_true(is_truncated(map, 0));
	assert_int_equal(charged, 0);
	names = read_some(map, addresses, 2, 19);
	assert_named(names, 0x1000, "f");
	assert_named(names, 0x2000, NULL);
	perf_map_free(names);
	/* A hole is nothing that is left out. */
	assert_int_equal(truncate(in_sandbox("map"), (off_t)1 << 40), 0);
	names = read_some(map, addresses, 2, 1 << 20);
	assert_named(names, 0x2000, "g");
	assert_false(perf_map_is_truncated(names));
	perf_map_free(names);
	close(map);
}

/* Anybody can make a file of any size that has no blocks. */
static void test_holes_cost_nothing(void **state)
{
	const off_t far = (off_t)1 << 42;
	int map = open(in_sandbox("map"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	(void)state;
	assert_int_equal(ftruncate(map, far), 0);
	assert_name(map, 0x1000, NULL);
	assert_int_equal(charged, 0);
	/* The line that a hole interrupts has zeros. */
	assert_int_equal(pwrite(map, "1000 10 f\n2000 10 g", 19, 0), 19);
	assert_int_equal(pwrite(map, "3000 10 h\n4000 10 i\n", 20, far), 20);
	assert_name(map, 0x1000, "f");
	assert_name(map, 0x2000, NULL);
	assert_name(map, 0x3000, NULL);
	assert_name(map, 0x4000, "i");
	assert_true(charged < 1 << 20);
	close(map);
}

/* The program that writes a map may do so at any time. */
static void test_line_that_goes_away_names_nothing(void **state)
{
	int map = MAP("1000 10 f\n2000 10 g\n");

	(void)state;
	rewritten = in_sandbox("map");
	assert_name(map, 0x2000, NULL);
	rewritten = NULL;
	assert_name(map, 0x2000, "h");
	close(map);
}

/* Random bytes must neither crash the parser nor fail. */
static void test_survives_any_bytes(void **state)
{
	static const char alphabet[] = "0123456789abcdef  \n\nxyz\0";
	const uint64_t addresses[] = {0x1000, 1, 0xabcdef};
	char text[512];
	int map;

	(void)state;
	srandom(3);
	for (uint32_t i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = alphabet[(size_t)random() % sizeof(alphabet)];
		map = make_map(text, sizeof(text));
		perf_map_free(read_names(map, addresses, 3));
		close(map);
	}
}

/* Of the process whose map was opened last. */
static uint32_t user;

static int open_map(const char *root, uint32_t pid, uint32_t ns_pid, uint64_t start_time)
{
	int directory = perf_map_directory(root, pid, &user), fd;

	if (directory < 0)
		return directory;
	fd = perf_map_open(directory, ns_pid, start_time, user);
	close(directory);
	return fd;
}

static void test_only_regular_files_are_opened(void **state)
{
	const char *map;
	int fd;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/12/root/tmp"));
	map = in_sandbox("proc/12/root/tmp/perf-3.map");
	assert_int_equal(open_map(sandbox, 13, 3, 0), -ESRCH);
	assert_int_equal(open_map(sandbox, 12, 3, 0), -ENOENT);
	write_text(map, "1000 10 a\n");
	fd = open_map(sandbox, 12, 3, 0);
	assert_true(fd >= 0);
	assert_int_equal(user, geteuid());
	close(fd);
	run("rm %s && mkfifo %s", map, map);
	assert_int_equal(open_map(sandbox, 12, 3, 0), -EINVAL);
	run("rm %s && ln -s /etc/passwd %s", map, map);
	assert_true(open_map(sandbox, 12, 3, 0) < 0);
}

/* Symlinks in a container resolve within the container. */
static void test_symlinks_stay_in_container(void **state)
{
	int fd;

	(void)state;
	run("mkdir -p %s %s", in_sandbox("proc/15/root/var"), in_sandbox("outside"));
	write_text(in_sandbox("outside/perf-3.map"), "1000 10 a\n");
	run("ln -s %s %s", in_sandbox("outside"), in_sandbox("proc/15/root/tmp"));
	assert_true(open_map(sandbox, 15, 3, 0) < 0);
	run("rm %s && ln -s /var %s", in_sandbox("proc/15/root/tmp"),
	    in_sandbox("proc/15/root/tmp"));
	write_text(in_sandbox("proc/15/root/var/perf-3.map"), "1000 10 a\n");
	fd = open_map(sandbox, 15, 3, 0);
	assert_true(fd >= 0);
	close(fd);
}

/* A map older than the process belongs to an earlier process with the same id. */
static void test_map_of_earlier_process_is_stale(void **state)
{
	const char *map;
	uint64_t start = (uint64_t)now_ns(CLOCK_BOOTTIME);
	int fd;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/16/root/tmp"));
	map = in_sandbox("proc/16/root/tmp/perf-3.map");
	write_text(map, "1000 10 a\n");
	fd = open_map(sandbox, 16, 3, start);
	assert_true(fd >= 0);
	close(fd);
	run("touch -d '-1 hour' %s", map);
	assert_int_equal(open_map(sandbox, 16, 3, start), -ESTALE);
	fd = open_map(sandbox, 16, 3, start - UINT64_C(3600000000000));
	assert_true(fd >= 0);
	close(fd);
}

/* Sets the time of a file: nanoseconds since 1970. */
static void set_time(const char *path, int64_t time)
{
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT},
		{.tv_sec = time / NS_PER_SECOND, .tv_nsec = time % NS_PER_SECOND},
	};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* Returns CLOCK_REALTIME of CLOCK_BOOTTIME 0, from readings of both with no long pause between
 * them. */
static int64_t boot_time(void)
{
	int64_t boot, realtime, later;

	do {
		boot = now_ns(CLOCK_BOOTTIME);
		realtime = now_ns(CLOCK_REALTIME);
		later = now_ns(CLOCK_BOOTTIME);
	} while (later - boot > NS_PER_SECOND / 1000);
	return realtime - boot;
}

/* Returns whether the map of a process is opened that started `after` the map's time (ns since
 * 1970). */
static bool is_opened_after(const char *map, int64_t time, int64_t after)
{
	int64_t boot = boot_time();
	int fd;

	set_time(map, time);
	fd = open_map(sandbox, 17, 3, (uint64_t)(time + after - boot));
	if (fd < 0)
		assert_int_equal(fd, -ESTALE);
	else
		close(fd);
	return fd >= 0;
}

/* The clock of a file system lags some ticks, or, without fractions, a second. */
static void test_time_of_a_map_may_lag(void **state)
{
	const int64_t now = now_ns(CLOCK_REALTIME), second = now / NS_PER_SECOND * NS_PER_SECOND;
	const char *map;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/17/root/tmp"));
	map = in_sandbox("proc/17/root/tmp/perf-3.map");
	write_text(map, "1000 10 a\n");
	assert_true(is_opened_after(map, second + 1, 1000000));
	assert_false(is_opened_after(map, second + 1, 500000000));
	assert_true(is_opened_after(map, second, 300000000));
	assert_false(is_opened_after(map, second, 2000000000));
}

/* Only the user of the process and root may own the map. */
static void test_map_of_other_user_is_refused(void **state)
{
	const char *map;
	int fd;

	(void)state;
	if (geteuid() != 0)
		skip();
	run("mkdir -p %s", in_sandbox("proc/14/root/tmp"));
	map = in_sandbox("proc/14/root/tmp/perf-3.map");
	write_text(map, "1000 10 a\n");
	assert_int_equal(chown(map, 1234, 1234), 0);
	assert_int_equal(open_map(sandbox, 14, 3, 0), -EPERM);
	assert_int_equal(chown(in_sandbox("proc/14"), 1234, 1234), 0);
	fd = open_map(sandbox, 14, 3, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chown(map, 0, 0), 0);
	user = 0;
	fd = open_map(sandbox, 14, 3, 0);
	assert_true(fd >= 0);
	/* Not the owner of the file: a process can have files of root mounted at its place. */
	assert_int_equal(user, 1234);
	close(fd);
	assert_int_equal(chmod(map, 0640), 0);
	assert_int_equal(open_map(sandbox, 14, 3, 0), -EPERM);
}

/* A user may mount files that the user may not read, in a namespace of mounts. */
static void test_mount_is_refused(void **state)
{
	const char *map, *other;
	int status, fd;
	pid_t child;

	(void)state;
	if (geteuid() != 0)
		skip();
	run("mkdir -p %s", in_sandbox("proc/16/root/tmp"));
	map = in_sandbox("proc/16/root/tmp/perf-3.map");
	other = in_sandbox("other");
	write_text(map, "1000 10 a\n");
	write_text(other, "1000 10 b\n");
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount(other, map, NULL, MS_BIND, NULL))
			_exit(1);
		if (open_map(sandbox, 16, 3, 0) != -EXDEV)
			_exit(2);
		/* Other mounts lead to the directory of the map. */
		if (umount(map) || mount(in_sandbox("proc/16/root/tmp"),
					 in_sandbox("proc/16/root/tmp"), NULL, MS_BIND, NULL))
			_exit(3);
		fd = open_map(sandbox, 16, 3, 0);
		_exit(fd < 0 ? 4 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* The path of a process has room for "/root": the system reads "//" like "/". */
static void test_length_of_the_root_is_limited(void **state)
{
	enum { ROOM = PATH_MAX - sizeof("/root") - 1 };
	char root[PATH_MAX], process[64];
	int length;

	(void)state;
	length = snprintf(process, sizeof(process), "/proc/%d", (int)getpid());
	memset(root, '/', sizeof(root));
	root[ROOM - length] = '\0';
	assert_int_equal(open_map(root, (uint32_t)getpid(), UINT32_MAX, 0), -ENOENT);
	root[ROOM - length] = '/';
	root[ROOM - length + 1] = '\0';
	assert_int_equal(open_map(root, (uint32_t)getpid(), UINT32_MAX, 0), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_later_line_wins),
		cmocka_unit_test(test_overlaps_match_line_by_line_result),
		cmocka_unit_test(test_malformed_lines_are_skipped),
		cmocka_unit_test(test_long_names_and_nul_bytes),
		cmocka_unit_test(test_large_maps_are_read_to_their_end),
		cmocka_unit_test(test_bytes_beyond_quota_are_dropped),
		cmocka_unit_test(test_holes_cost_nothing),
		cmocka_unit_test(test_line_that_goes_away_names_nothing),
		cmocka_unit_test(test_survives_any_bytes),
		cmocka_unit_test(test_only_regular_files_are_opened),
		cmocka_unit_test(test_symlinks_stay_in_container),
		cmocka_unit_test(test_map_of_earlier_process_is_stale),
		cmocka_unit_test(test_time_of_a_map_may_lag),
		cmocka_unit_test(test_map_of_other_user_is_refused),
		cmocka_unit_test(test_mount_is_refused),
		cmocka_unit_test(test_length_of_the_root_is_limited),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

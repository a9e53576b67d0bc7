// SPDX-License-Identifier: GPL-2.0
#include "runtime/perf_map.h"

#include "lib/clock.h"
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/types.h>

static struct perf_map *read_map(const char *text, size_t size)
{
	struct perf_map *map;
	int fd;

	write_file(in_sandbox("map"), text, size);
	fd = open(in_sandbox("map"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(perf_map_read(fd, &map), 0);
	close(fd);
	return map;
}

static void expect(const struct perf_map *map, uint64_t address, const char *name)
{
	const char *found = perf_map_lookup(map, address);

	if (!name)
		assert_null(found);
	else if (!found || strcmp(found, name) != 0)
		fail_msg("%#" PRIx64 " is %s, not %s", address, found ? found : "nothing", name);
}

#define READ(text) read_map(text, strlen(text))

static void test_names(void **state)
{
	struct perf_map *map = READ("2000 10 second\n"
				    "1000 20 LazyCompile:~a b /x y.js:12\n"
				    "7fFFffff0000 1 high\n");

	(void)state;
	expect(map, 0xfff, NULL);
	expect(map, 0x1000, "LazyCompile:~a b /x y.js:12");
	expect(map, 0x101f, "LazyCompile:~a b /x y.js:12");
	expect(map, 0x1020, NULL);
	expect(map, 0x200f, "second");
	expect(map, 0x2010, NULL);
	expect(map, 0x7fffffff0000, "high");
	perf_map_free(map);
}

static void test_later_ones_win(void **state)
{
	struct perf_map *map = READ("1000 100 old\n"
				    "1040 10 new\n"
				    "1080 100 tail\n"
				    "1000 8 first\n"
				    "1044 4 old inside\n"
				    "1040 10 newest\n");

	(void)state;
	expect(map, 0x1000, "first");
	expect(map, 0x1007, "first");
	expect(map, 0x1008, "old");
	expect(map, 0x103f, "old");
	expect(map, 0x1040, "newest");
	expect(map, 0x1044, "newest");
	expect(map, 0x1050, "old");
	expect(map, 0x107f, "old");
	expect(map, 0x1080, "tail");
	expect(map, 0x117f, "tail");
	expect(map, 0x1180, NULL);
	perf_map_free(map);
}

static void test_overlaps_as_told_one_by_one(void **state)
{
	uint32_t owner[256] = {0}, at, size;
	char *text = malloc(1u << 16), name[16];
	struct perf_map *map;
	size_t used = 0;

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
	map = read_map(text, used);
	for (uint32_t k = 0; k < 256; k++) {
		sprintf(name, "f%u", owner[k]);
		expect(map, 0x1000 + k, owner[k] ? name : NULL);
	}
	perf_map_free(map);
	free(text);
}

static void test_lines_that_make_no_sense(void **state)
{
	struct perf_map *map = READ("\n"
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
				    "0x2000 0x10 good\n"
				    "3000 10 unfinished");

	(void)state;
	expect(map, 0x1000, NULL);
	expect(map, 0, NULL);
	expect(map, UINT64_MAX, NULL);
	expect(map, 0x2000, "good");
	expect(map, 0x3000, NULL);
	perf_map_free(map);
	map = READ("");
	expect(map, 0, NULL);
	perf_map_free(map);
}

static void test_long_lines_and_zeros(void **state)
{
	static char text[3 * PERF_MAP_LINE_MAX];
	struct perf_map *map;
	size_t length;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "1000 10 ", 8);
	memcpy(text + sizeof(text) - 14, "\n2000 10 next\n", 14);
	map = read_map(text, sizeof(text));
	length = strlen(perf_map_lookup(map, 0x1000));
	assert_true(length > PERF_MAP_LINE_MAX / 2 && length < PERF_MAP_LINE_MAX);
	expect(map, 0x2000, "next");
	perf_map_free(map);
	map = read_map("1000 10 a\0b\n\0\0\n2000 10 next\n", 28);
	expect(map, 0x2000, "next");
	perf_map_free(map);
}

static void test_too_many(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);
	struct perf_map *map;

	(void)state;
	for (unsigned int i = 0; i < PERF_MAP_ENTRIES_MAX; i++)
		fprintf(stream, "%x 10 f%x\n", 0x1000 + i * 0x10, i);
	fflush(stream);
	map = read_map(text, size);
	assert_false(perf_map_is_truncated(map));
	perf_map_free(map);
	fputs("1 10 last\n", stream);
	fclose(stream);
	map = read_map(text, size);
	assert_true(perf_map_is_truncated(map));
	expect(map, 0x1000, "f0");
	expect(map, 1, NULL);
	perf_map_free(map);
	free(text);
}

static void test_too_long(void **state)
{
	struct perf_map *map;
	int fd;

	(void)state;
	write_text(in_sandbox("map"), "1000 10 f\n");
	fd = open(in_sandbox("map"), O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, PERF_MAP_BYTES_MAX + 1), 0);
	assert_int_equal(perf_map_read(fd, &map), 0);
	assert_true(perf_map_is_truncated(map));
	expect(map, 0x1000, "f");
	perf_map_free(map);
	close(fd);
}

/* Whatever is in it. */
static void test_anything(void **state)
{
	static const char alphabet[] = "0123456789abcdef  \n\nxyz\0";
	char text[512];

	(void)state;
	srandom(3);
	for (uint32_t i = 0; i < 2000; i++) {
		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = alphabet[(size_t)random() % sizeof(alphabet)];
		perf_map_free(read_map(text, sizeof(text)));
	}
}

static void test_open(void **state)
{
	const char *map;
	int fd;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/12/root/tmp"));
	map = in_sandbox("proc/12/root/tmp/perf-3.map");
	assert_int_equal(perf_map_open(sandbox, 13, 3, 0), -ENOENT);
	assert_int_equal(perf_map_open(sandbox, 12, 3, 0), -ENOENT);
	write_text(map, "1000 10 a\n");
	fd = perf_map_open(sandbox, 12, 3, 0);
	assert_true(fd >= 0);
	close(fd);
	run("rm %s && mkfifo %s", map, map);
	assert_int_equal(perf_map_open(sandbox, 12, 3, 0), -EINVAL);
	run("rm %s && ln -s /etc/passwd %s", map, map);
	assert_true(perf_map_open(sandbox, 12, 3, 0) < 0);
}

/* A link in a container does not lead out of it. */
static void test_links_in_a_container(void **state)
{
	int fd;

	(void)state;
	run("mkdir -p %s %s", in_sandbox("proc/15/root/var"), in_sandbox("outside"));
	write_text(in_sandbox("outside/perf-3.map"), "1000 10 a\n");
	run("ln -s %s %s", in_sandbox("outside"), in_sandbox("proc/15/root/tmp"));
	assert_true(perf_map_open(sandbox, 15, 3, 0) < 0);
	run("rm %s && ln -s /var %s", in_sandbox("proc/15/root/tmp"),
	    in_sandbox("proc/15/root/tmp"));
	write_text(in_sandbox("proc/15/root/var/perf-3.map"), "1000 10 a\n");
	fd = perf_map_open(sandbox, 15, 3, 0);
	assert_true(fd >= 0);
	close(fd);
}

/* An earlier process had this id. */
static void test_age(void **state)
{
	const char *map;
	uint64_t start = (uint64_t)now_ns(CLOCK_BOOTTIME);
	int fd;

	(void)state;
	run("mkdir -p %s", in_sandbox("proc/16/root/tmp"));
	map = in_sandbox("proc/16/root/tmp/perf-3.map");
	write_text(map, "1000 10 a\n");
	fd = perf_map_open(sandbox, 16, 3, start);
	assert_true(fd >= 0);
	close(fd);
	run("touch -d '-1 hour' %s", map);
	assert_int_equal(perf_map_open(sandbox, 16, 3, start), -ESTALE);
	fd = perf_map_open(sandbox, 16, 3, start - UINT64_C(3600000000000));
	assert_true(fd >= 0);
	close(fd);
}

/* A file of somebody else. */
static void test_owner(void **state)
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
	assert_int_equal(perf_map_open(sandbox, 14, 3, 0), -EPERM);
	assert_int_equal(chown(in_sandbox("proc/14"), 1234, 1234), 0);
	fd = perf_map_open(sandbox, 14, 3, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(chown(map, 0, 0), 0);
	fd = perf_map_open(sandbox, 14, 3, 0);
	assert_true(fd >= 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_later_ones_win),
		cmocka_unit_test(test_overlaps_as_told_one_by_one),
		cmocka_unit_test(test_lines_that_make_no_sense),
		cmocka_unit_test(test_long_lines_and_zeros),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_anything),
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_links_in_a_container),
		cmocka_unit_test(test_age),
		cmocka_unit_test(test_owner),
	};

	return cmocka_run_group_tests(tests, make_sandbox, remove_sandbox);
}

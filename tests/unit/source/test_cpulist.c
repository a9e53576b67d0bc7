// SPDX-License-Identifier: GPL-2.0
/* Lists of CPUs. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/error.h"
#include "source/cpulist.h"

#include <stackbeat.h>

static struct cpulist list;
static struct error error;

static uint32_t count(void)
{
	uint32_t cpus = 0;

	for (uint32_t cpu = 0; cpu < CPULIST_CPUS_MAX; cpu++)
		cpus += cpulist_has(&list, cpu);
	return cpus;
}

static void empty_list_means_all(void **state)
{
	(void)state;
	assert_int_equal(cpulist_parse("", &list, &error), 0);
	assert_int_equal(count(), CPULIST_CPUS_MAX);
	assert_true(cpulist_has(&list, UINT32_MAX));
}

static void contains_only_listed_cpus(void **state)
{
	(void)state;
	memset(&list, 0xff, sizeof(list));
	assert_int_equal(cpulist_parse("0,2-3,63-64,8191", &list, &error), 0);
	assert_false(list.all);
	assert_int_equal(count(), 6);
	assert_true(cpulist_has(&list, 0));
	assert_true(cpulist_has(&list, 2));
	assert_true(cpulist_has(&list, 3));
	assert_true(cpulist_has(&list, 63));
	assert_true(cpulist_has(&list, 64));
	assert_true(cpulist_has(&list, 8191));
	assert_false(cpulist_has(&list, CPULIST_CPUS_MAX));
	assert_false(cpulist_has(&list, UINT32_MAX));

	assert_int_equal(cpulist_parse("0-8191", &list, &error), 0);
	assert_int_equal(count(), CPULIST_CPUS_MAX);
	assert_false(cpulist_has(&list, CPULIST_CPUS_MAX));

	assert_int_equal(cpulist_parse("5-5,4,4,007", &list, &error), 0);
	assert_int_equal(count(), 3);
}

static void message_names_the_invalid_list(void **state)
{
	static const char *const wrong[] = {",",
					    "0,",
					    ",0",
					    "0,,1",
					    "-",
					    "1-",
					    "-1",
					    "3-2",
					    "x",
					    "1x",
					    "0 1",
					    " 0",
					    "1-2-3",
					    "0\n",
					    "0x1",
					    "+1",
					    "8192",
					    "0-8192",
					    "18446744073709551616",
					    "0-99999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		*error.text = '\0';
		assert_int_equal(cpulist_parse(wrong[i], &list, &error), -EINVAL);
		assert_non_null(strstr(error.text, "is not a list of CPUs"));
	}
	assert_int_equal(cpulist_parse("1-x", &list, &error), -EINVAL);
	assert_string_equal(error.text, "'1-x' is not a list of CPUs like 0,2-3");
}

/* Random sets, formatted as the kernel does, parse to the same sets. */
static void parses_lists_of_the_kernel(void **state)
{
	bool set[256];
	char text[2048], *end;

	(void)state;
	srand(3);
	for (int round = 0; round < 2000; round++) {
		int density = 1 + rand() % 9;

		set[0] = true;
		for (int cpu = 1; cpu < 256; cpu++)
			set[cpu] = rand() % 10 < density;
		end = text;
		for (int cpu = 0; cpu < 256; cpu++) {
			int last = cpu;

			if (!set[cpu])
				continue;
			while (last < 255 && set[last + 1])
				last++;
			end += sprintf(end, end == text ? "%d" : ",%d", cpu);
			if (last > cpu)
				end += sprintf(end, "-%d", last);
			cpu = last;
		}
		assert_int_equal(cpulist_parse(text, &list, &error), 0);
		for (uint32_t cpu = 0; cpu < 256; cpu++)
			assert_int_equal(cpulist_has(&list, cpu), set[cpu]);
	}
}

static void survives_random_text(void **state)
{
	char text[16];
	uint32_t taken = 0;

	(void)state;
	srand(4);
	for (int round = 0; round < 100000; round++) {
		size_t length = (size_t)rand() % sizeof(text);

		for (size_t i = 0; i < length; i++)
			text[i] = rand() % 8 ? "0123456789,-"[rand() % 12] : rand();
		text[length] = '\0';
		taken += !cpulist_parse(text, &list, &error);
	}
	assert_in_range(taken, 1000, 99000);
}

static const char *const lists[] = {"isolated", "nohz_full", "possible", "online"};
static char root[] = "/tmp/stackbeat-root.XXXXXX";
static char text[STACKBEAT_CPULIST_MAX];

static const char *below_root(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s%s%s", root, *name ? "/" : "", name);
	return path;
}

static int make_root(void **state)
{
	static const char *const directories[] = {"sys", "sys/devices", "sys/devices/system",
						  "sys/devices/system/cpu"};

	(void)state;
	if (!mkdtemp(root))
		return -1;
	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
		if (mkdir(below_root(directories[i]), 0700))
			return -1;
	}
	return 0;
}

static const char *list_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/%s", root, name);
	return path;
}

static int remove_root(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		unlink(list_path(lists[i]));
	rmdir(below_root("sys/devices/system/cpu"));
	rmdir(below_root("sys/devices/system"));
	rmdir(below_root("sys/devices"));
	rmdir(below_root("sys"));
	return rmdir(root);
}

/* NULL: the file is missing. */
static void write_list(const char *name, const char *content)
{
	FILE *stream;

	unlink(list_path(name));
	if (!content)
		return;
	stream = fopen(list_path(name), "w");
	assert_non_null(stream);
	fprintf(stream, "%s\n", content);
	fclose(stream);
}

/* Calls cpulist_default() with these lists of the kernel; NULL: the file is missing. */
static int default_of(const char *isolated, const char *nohz_full, const char *possible)
{
	const char *const contents[] = {isolated, nohz_full, possible};

	for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++)
		write_list(lists[i], contents[i]);
	memset(&list, 0xaa, sizeof(list));
	strcpy(text, "unset");
	return cpulist_default(root, text, sizeof(text), &list);
}

static void default_is_all_without_isolated_cpus(void **state)
{
	(void)state;
	assert_int_equal(default_of("", "", "0-7"), 0);
	assert_string_equal(text, "");
	assert_int_equal(count(), CPULIST_CPUS_MAX);
	/* Kernels before 5.18 print "(null)" for a list that was not set. */
	assert_int_equal(default_of("", "(null)", "0-7"), 0);
	assert_string_equal(text, "");
	assert_int_equal(default_of(NULL, NULL, "0-7"), 0);
	assert_string_equal(text, "");
	assert_int_equal(default_of(NULL, NULL, NULL), 0);
	assert_string_equal(text, "");
	assert_true(list.all);
	/* The lists may contain CPUs that are not possible on this machine. */
	assert_int_equal(default_of("8-15", "16", "0-7"), 0);
	assert_string_equal(text, "");
}

static void default_excludes_isolated_and_nohz_full_cpus(void **state)
{
	(void)state;
	assert_int_equal(default_of("2-3", "", "0-7"), 0);
	assert_string_equal(text, "0-1,4-7");
	assert_int_equal(count(), 6);
	assert_false(cpulist_has(&list, 2));
	assert_false(cpulist_has(&list, 8));
	assert_int_equal(default_of("", "1,3,5", "0-7"), 0);
	assert_string_equal(text, "0,2,4,6-7");
	assert_int_equal(default_of("0", "7", "0-7"), 0);
	assert_string_equal(text, "1-6");
	assert_int_equal(default_of("1-3", "2-4", "0-4"), 0);
	assert_string_equal(text, "0");
	assert_int_equal(default_of("8191", NULL, "0-8191"), 0);
	assert_string_equal(text, "0-8190");
	assert_int_equal(count(), 8191);
}

static void default_list_parses_to_the_same_set(void **state)
{
	struct cpulist again;
	char isolated[2048], *end;

	(void)state;
	srand(5);
	for (int round = 0; round < 200; round++) {
		end = isolated;
		for (int cpu = 1; cpu < 256; cpu++) {
			if (rand() % 3)
				continue;
			end += sprintf(end, "%s%d", end == isolated ? "" : ",", cpu);
		}
		assert_int_equal(default_of(isolated, NULL, "0-255"), 0);
		assert_int_equal(cpulist_parse(text, &again, &error), 0);
		assert_memory_equal(&again, &list, sizeof(list));
	}
}

static void error_if_all_cpus_are_excluded(void **state)
{
	(void)state;
	assert_int_equal(default_of("0-3", "", "0-3"), -EINVAL);
	assert_int_equal(default_of("0-1", "2-3", "0-3"), -EINVAL);
}

static uint32_t count_online(const char *online, const char *chosen)
{
	write_list("online", online);
	assert_int_equal(cpulist_parse(chosen, &list, &error), 0);
	return cpulist_count_online(root, &list);
}

static void chosen_cpus_that_are_online_are_counted(void **state)
{
	(void)state;
	assert_int_equal(count_online("0-7", ""), 8);
	assert_int_equal(count_online("0-7", "0"), 1);
	assert_int_equal(count_online("0-2,4-7", "2-3,7-9"), 2);
	assert_int_equal(count_online("0", "1"), 0);
	assert_int_equal(count_online("8191", ""), 1);
	/* Without sysfs, of this machine's. */
	assert_int_equal(count_online(NULL, ""), sysconf(_SC_NPROCESSORS_CONF));
	assert_int_equal(count_online(NULL, "0"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_list_means_all),
		cmocka_unit_test(contains_only_listed_cpus),
		cmocka_unit_test(message_names_the_invalid_list),
		cmocka_unit_test(parses_lists_of_the_kernel),
		cmocka_unit_test(survives_random_text),
		cmocka_unit_test(default_is_all_without_isolated_cpus),
		cmocka_unit_test(default_excludes_isolated_and_nohz_full_cpus),
		cmocka_unit_test(default_list_parses_to_the_same_set),
		cmocka_unit_test(error_if_all_cpus_are_excluded),
		cmocka_unit_test(chosen_cpus_that_are_online_are_counted),
	};

	return cmocka_run_group_tests_name("cpulist", tests, make_root, remove_root);
}

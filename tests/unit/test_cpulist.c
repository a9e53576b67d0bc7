// SPDX-License-Identifier: GPL-2.0
/* Lists of CPUs. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpulist.h"
#include "error.h"

static struct cpulist list;
static struct error error;

static uint32_t count(void)
{
	uint32_t cpus = 0;

	for (uint32_t cpu = 0; cpu < CPULIST_CPUS_MAX; cpu++)
		cpus += cpulist_has(&list, cpu);
	return cpus;
}

static void no_list_means_all(void **state)
{
	(void)state;
	assert_int_equal(cpulist_parse("", &list, &error), 0);
	assert_int_equal(count(), CPULIST_CPUS_MAX);
	assert_true(cpulist_has(&list, UINT32_MAX));
}

static void has_what_it_lists_and_nothing_else(void **state)
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

static void what_is_wrong_is_named(void **state)
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

/* Lists made of random sets, in the kernel's way, are these sets. */
static void lists_of_the_kernel_are_understood(void **state)
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

static void survives_any_text(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_list_means_all),
		cmocka_unit_test(has_what_it_lists_and_nothing_else),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(lists_of_the_kernel_are_understood),
		cmocka_unit_test(survives_any_text),
	};

	return cmocka_run_group_tests_name("cpulist", tests, NULL, NULL);
}

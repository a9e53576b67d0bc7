// SPDX-License-Identifier: GPL-2.0
/* Growing arrays, interned strings, and the search in sorted tables. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/string_table.h"
#include "lib/upper_bound.h"

static void array_has_room_for_what_is_reserved(void **state)
{
	uint32_t *items = NULL;
	size_t capacity = 0;

	(void)state;
	assert_int_equal(array_reserve(&items, &capacity, 0, 0, sizeof(*items)), 0);
	assert_null(items);
	assert_int_equal(array_reserve(&items, &capacity, 0, 1, sizeof(*items)), 0);
	assert_int_equal(capacity, 16);
	for (uint32_t i = 0; i < 1000; i++) {
		size_t before = capacity;

		assert_int_equal(array_reserve(&items, &capacity, i, 1, sizeof(*items)), 0);
		assert_int_equal(capacity, i < before ? before : before + before / 2);
		items[i] = i;
	}
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(items[i], i);
	/* More than half as much. */
	assert_int_equal(array_reserve(&items, &capacity, 1000, 9000, sizeof(*items)), 0);
	assert_int_equal(capacity, 10000);
	items[9999] = 1;
	free(items);
}

static void array_refuses_impossible_sizes(void **state)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	(void)state;
	assert_int_equal(array_reserve(&items, &capacity, 2, SIZE_MAX, sizeof(*items)), -ENOMEM);
	assert_null(items);
	assert_int_equal(capacity, 0);
}

static void strings_are_copied(void **state)
{
	char **strings = NULL, text[16];
	size_t capacity = 0, count = 0;

	(void)state;
	for (size_t i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "%zu", i);
		assert_int_equal(array_add_string(&strings, &capacity, &count, text), 0);
		assert_int_equal(count, i + 1);
	}
	for (size_t i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "%zu", i);
		assert_string_equal(strings[i], text);
		free(strings[i]);
	}
	free(strings);
}

static void equal_strings_have_one_number(void **state)
{
	struct string_table table = {0};
	char text[16];

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		int length = snprintf(text, sizeof(text), "name-%u", i);

		assert_int_equal(string_table_add(&table, text, (size_t)length), i);
		assert_int_equal(string_table_add(&table, text, sizeof(text)), i);
	}
	assert_int_equal(table.count, 200);
	assert_int_equal(string_table_add(&table, "name-7 and more", 6), 7);
	assert_int_equal(string_table_add(&table, "name-199", 7), 19);
	assert_int_equal(string_table_add(&table, "name-", 5), 200);
	assert_int_equal(string_table_add(&table, "", 0), 201);
	assert_string_equal(table.items[0], "name-0");
	assert_string_equal(table.items[199], "name-199");
	assert_string_equal(table.items[200], "name-");
	assert_string_equal(table.items[201], "");
	string_table_clear(&table);
	assert_int_equal(table.count, 0);
	assert_int_equal(string_table_add(&table, "name-7", 6), 0);
	string_table_clear(&table);
}

struct element {
	uint64_t start, other;
};

static void elements_up_to_an_address_are_counted(void **state)
{
	static const struct element elements[] = {{2, 9}, {4, 0}, {4, 7}, {6, 1}, {8, 3}};
	static const size_t expected[] = {0, 0, 1, 1, 3, 3, 4, 4, 5, 5};

	(void)state;
	for (uint64_t address = 0; address < 10; address++)
		assert_int_equal(upper_bound(elements, 5, sizeof(*elements), address),
				 expected[address]);
	assert_int_equal(upper_bound(elements, 4, sizeof(*elements), 8), 4);
	assert_int_equal(upper_bound(elements, 0, sizeof(*elements), 8), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(array_has_room_for_what_is_reserved),
		cmocka_unit_test(array_refuses_impossible_sizes),
		cmocka_unit_test(strings_are_copied),
		cmocka_unit_test(equal_strings_have_one_number),
		cmocka_unit_test(elements_up_to_an_address_are_counted),
	};

	return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}

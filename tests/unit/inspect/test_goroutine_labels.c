// SPDX-License-Identifier: GPL-2.0
/* Labels of goroutines, read from the memory of this process. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/goroutine_labels.h"
#include "inspect/goroutines.h"
#include "runtime/go_layout.h"

#define G_WORDS 64u

struct string {
	const char *text;
	uint64_t size;
};

struct label {
	struct string key, value;
};

struct slice {
	const struct label *items;
	uint64_t count, capacity;
};

static struct goroutines_source source;
static uint64_t g[4][G_WORDS];
static struct goroutine items[4];
static struct goroutines goroutines;
static struct goroutine_labels labels;

static uint64_t address_of(const void *place)
{
	return (uintptr_t)place;
}

/* Makes four goroutines with these labels. */
static void set_labels(const void *const (*addresses)[4])
{
	memset(g, 0, sizeof(g));
	for (size_t i = 0; i < 4; i++) {
		const uint64_t address = address_of((*addresses)[i]);

		memcpy((char *)g[i] + source.layout->labels, &address, sizeof(address));
		items[i] = (struct goroutine){.address = address_of(g[i]), .labels = address};
	}
	goroutines = (struct goroutines){.items = items, .count = 4};
}

static int setup(void **state)
{
	(void)state;
	source = (struct goroutines_source){.pid = getpid(), .layout = go_layout_of_version(1, 26)};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	goroutine_labels_clear(&labels);
	return 0;
}

static const struct label pairs[] = {{{"b", 1}, {"large", 5}}, {{"a", 1}, {"12345678", 8}}};

static void expect(uint64_t address, uint16_t count, uint16_t flags, const char *bytes, size_t size)
{
	const struct stackbeat_go_labels *found = goroutine_labels_at(&labels, address);

	assert_non_null(found);
	assert_int_equal(found->count, count);
	assert_int_equal(found->flags, flags);
	assert_memory_equal(found->bytes, bytes, size);
}

#define EXPECT(address, count, flags, bytes)                                                       \
	expect(address_of(address), count, flags, bytes, sizeof(bytes) - 1)

static void each_set_is_read_once(void **state)
{
	const struct slice both = {pairs, 2, 2}, one = {pairs, 1, 1}, none = {pairs, 0, 0};

	(void)state;
	set_labels(&(const void *const[4]){&both, &none, &one, &both});
	assert_int_equal(goroutine_labels_read(&source, &goroutines, &labels), 0);
	assert_int_equal(labels.set_count, 3);
	EXPECT(&both, 2, 0, "\1\10a12345678\1\5blarge");
	EXPECT(&one, 1, 0, "\1\5blarge");
	assert_null(goroutine_labels_at(&labels, address_of(&none)));
	assert_null(goroutine_labels_at(&labels, 0));
	assert_null(goroutine_labels_at(&labels, 1));
}

static void goroutines_without_labels(void **state)
{
	(void)state;
	set_labels(&(const void *const[4]){NULL, NULL, NULL, NULL});
	assert_int_equal(goroutine_labels_read(&source, &goroutines, &labels), 0);
	assert_int_equal(labels.set_count, 0);
	assert_null(goroutine_labels_at(&labels, address_of(&pairs)));
}

static void unreadable_labels_are_cut(void **state)
{
	const struct slice both = {pairs, 2, 2}, wild = {(const struct label *)8, 2, 2};

	(void)state;
	set_labels(&(const void *const[4]){(const void *)16, &wild, &both, NULL});
	assert_int_equal(goroutine_labels_read(&source, &goroutines, &labels), 0);
	EXPECT((const void *)16, 0, STACKBEAT_GO_LABELS_CUT, "");
	EXPECT(&wild, 0, STACKBEAT_GO_LABELS_CUT, "");
	EXPECT(&both, 2, 0, "\1\10a12345678\1\5blarge");
}

/* The memory of labels that no goroutine has any more may hold anything. */
static void labels_that_have_changed_are_not_used(void **state)
{
	const struct slice both = {pairs, 2, 2}, one = {pairs, 1, 1};
	const uint64_t other = address_of(&one);

	(void)state;
	set_labels(&(const void *const[4]){&both, &one, NULL, NULL});
	memcpy((char *)g[0] + source.layout->labels, &other, sizeof(other));
	assert_int_equal(goroutine_labels_read(&source, &goroutines, &labels), 0);
	EXPECT(&both, 0, STACKBEAT_GO_LABELS_CUT, "");
	EXPECT(&one, 1, 0, "\1\5blarge");
}

/* Before Go 1.24: a map with one bucket. */
static void labels_of_a_map(void **state)
{
	static struct {
		uint8_t hashes[8];
		struct string keys[8], values[8];
		uint64_t overflow;
	} bucket = {.hashes = {0, 9}, .keys[1] = {"kind", 4}, .values[1] = {"large", 5}};
	const uint64_t map[] = {1, 0, address_of(&bucket), 0};
	const uint64_t pointer = address_of(map);

	(void)state;
	source.layout = go_layout_of_version(1, 20);
	set_labels(&(const void *const[4]){&pointer, NULL, NULL, NULL});
	assert_int_equal(goroutine_labels_read(&source, &goroutines, &labels), 0);
	EXPECT(&pointer, 1, 0, "\4\5kindlarge");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_set_is_read_once, setup, teardown),
		cmocka_unit_test_setup_teardown(goroutines_without_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(unreadable_labels_are_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(labels_that_have_changed_are_not_used, setup,
						teardown),
		cmocka_unit_test_setup_teardown(labels_of_a_map, setup, teardown),
	};

	return cmocka_run_group_tests_name("goroutine_labels", tests, NULL, NULL);
}

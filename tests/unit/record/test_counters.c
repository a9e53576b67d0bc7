// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "record/counters.h"

static void each_counter_of_the_module_has_a_key(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		bool is_of_module = i >= STACKBEAT_S_TICKS && i < STACKBEAT_S_COUNT;

		assert_int_equal(counter_table[i].key != NULL, is_of_module);
	}
}

static void names_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		const struct counter *counter = &counter_table[i];

		/* A counter in a comment of several, or in the summary, has a name. */
		assert_int_equal(counter->name != NULL,
				 counter->group != COUNTERS_ALONE || counter->is_incomplete);
		for (size_t j = 0; j < i; j++) {
			const struct counter *other = &counter_table[j];

			if (counter->name && other->name)
				assert_string_not_equal(counter->name, other->name);
			if (counter->key && other->key)
				assert_string_not_equal(counter->key, other->key);
		}
	}
}

static void losses_and_overhead_are_sums(void **state)
{
	uint64_t counts[COUNTER_COUNT];

	(void)state;
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		counts[i] = UINT64_C(1) << i;
	assert_int_equal(counters_lost(counts), UINT64_C(1) << STACKBEAT_S_LOST_FULL |
							UINT64_C(1) << STACKBEAT_S_LOST_BAD_TAIL);
	assert_int_equal(counters_kernel_overhead_ns(counts),
			 UINT64_C(1) << STACKBEAT_S_OVERHEAD_NS |
				 UINT64_C(1) << STACKBEAT_S_WORKER_OVERHEAD_NS |
				 UINT64_C(1) << STACKBEAT_S_PROBE_OVERHEAD_NS);
}

static void levels_have_no_difference(void **state)
{
	static const unsigned int levels[] = {
		STACKBEAT_S_RATE,
		STACKBEAT_S_FILES,
		STACKBEAT_S_UNWIND_TABLES,
		STACKBEAT_S_UNWIND_TABLE_BYTES,
		STACKBEAT_S_ADDRESS_SPACES_ROOM,
	};
	uint64_t counts[COUNTER_COUNT], earlier[COUNTER_COUNT];
	bool is_level[COUNTER_COUNT] = {false};

	(void)state;
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		is_level[levels[i]] = true;
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		counts[i] = 100 + i;
		earlier[i] = 40;
	}
	earlier[COUNTER_SAMPLES_EARLY] = UINT64_MAX;
	counters_subtract(counts, earlier);
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		uint64_t expected = is_level[i] ? 100 + i : 60 + i;

		assert_int_equal(counts[i], i == COUNTER_SAMPLES_EARLY ? 0 : expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_counter_of_the_module_has_a_key),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(losses_and_overhead_are_sums),
		cmocka_unit_test(levels_have_no_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* Removal from a hash table, compared with an array. */
#include "unit.h"

#include <stdbool.h>

#include "lib/hash.h"

#define KEYS 200u
#define STEPS 20000u

static uint32_t below(uint32_t limit)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

static bool is_key(const void *context, uint32_t index, const void *key)
{
	(void)context;
	return index == *(const uint32_t *)key;
}

/* Many keys of a few hashes at the end of the table, so that they go around it. */
static uint32_t hash_of(uint32_t key)
{
	return UINT32_MAX - key % 7;
}

static void removed_entries_are_gone_and_all_others_are_found(void **state)
{
	struct hash table = {0};
	bool added[KEYS] = {false};
	size_t count = 0;

	(void)state;
	for (unsigned int step = 0; step < STEPS; step++) {
		uint32_t key = below(KEYS);

		if (added[key]) {
			hash_remove(&table, hash_of(key), key);
			count--;
		} else {
			assert_int_equal(hash_add(&table, hash_of(key), key), 0);
			count++;
		}
		added[key] = !added[key];
		assert_int_equal(table.count, count);
		key = below(KEYS);
		assert_int_equal(hash_find(&table, hash_of(key), is_key, NULL, &key),
				 added[key] ? key : HASH_NONE);
	}
	for (uint32_t key = 0; key < KEYS; key++)
		assert_int_equal(hash_find(&table, hash_of(key), is_key, NULL, &key),
				 added[key] ? key : HASH_NONE);
	hash_clear(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(removed_entries_are_gone_and_all_others_are_found),
	};

	return cmocka_run_group_tests_name("hash_remove", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* The hash table, and its hash function against chosen strings. */
#include "lib/hash.h"

#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"
#include "lib/string_table.h"

#define ENTRIES 100000u
#define REMOVABLE 200u
#define REMOVAL_STEPS 20000u
#define NAMES 4000u
#define NAME_SIZE 16u
#define PRINT_HASH "--print-hash"

static const char *program;

static bool number_equal(const void *context, uint32_t index, const void *key)
{
	return ((const uint64_t *)context)[index] == *(const uint64_t *)key;
}

static void finds_every_entry_while_it_grows(void **state)
{
	uint64_t *numbers = calloc(ENTRIES, sizeof(*numbers));
	struct hash table = {0};
	uint64_t missing = 1;

	(void)state;
	assert_non_null(numbers);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		uint32_t hash;

		numbers[i] = (uint64_t)i << 12;
		hash = hash_number(HASH_START, numbers[i]);
		assert_int_equal(hash_find(&table, hash, number_equal, numbers, &numbers[i]),
				 HASH_NONE);
		assert_int_equal(hash_add(&table, hash, i), 0);
		assert_true(table.capacity > table.count);
		assert_int_equal(hash_find(&table, hash, number_equal, numbers, &numbers[i]), i);
	}
	assert_int_equal(table.count, ENTRIES);
	for (uint32_t i = 0; i < ENTRIES; i++)
		assert_int_equal(hash_find(&table, hash_number(HASH_START, numbers[i]),
					   number_equal, numbers, &numbers[i]),
				 i);
	assert_int_equal(hash_find(&table, hash_number(HASH_START, missing), number_equal, numbers,
				   &missing),
			 HASH_NONE);
	hash_clear(&table);
	assert_int_equal(table.count, 0);
	assert_int_equal(hash_find(&table, hash_number(HASH_START, numbers[0]), number_equal,
				   numbers, &numbers[0]),
			 HASH_NONE);
	free(numbers);
}

static void finds_entries_with_equal_hashes(void **state)
{
	const uint64_t numbers[] = {1, 2, 3, 4};
	struct hash table = {0};

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(hash_add(&table, 7, i), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(hash_find(&table, 7, number_equal, numbers, &numbers[i]), i);
	hash_clear(&table);
}

/* Without memory, a table takes entries while one slot is empty, which ends each search. */
static void full_table_refuses_entries(void **state)
{
	const uint64_t missing = UINT64_MAX;
	struct hash table = {0};
	uint64_t numbers[64];
	uint32_t count = 1;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		numbers[i] = i;
	fail_malloc(1, true);
	assert_int_equal(hash_add(&table, 0, 0), -ENOMEM);
	fail_malloc(0, false);
	assert_int_equal(hash_add(&table, 0, 0), 0);
	fail_malloc(1, true);
	while (count < 64 && count + 1 < table.capacity) {
		assert_int_equal(hash_add(&table, count, count), 0);
		count++;
	}
	assert_in_range(count, 2, 63);
	assert_int_equal(hash_add(&table, count, count), -ENOMEM);
	assert_int_equal(table.count, count);
	fail_malloc(0, false);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(hash_find(&table, i, number_equal, numbers, &numbers[i]), i);
	assert_int_equal(hash_find(&table, count, number_equal, numbers, &missing), HASH_NONE);
	assert_int_equal(hash_add(&table, count, count), 0);
	assert_int_equal(table.count, count + 1);
	hash_clear(&table);
}

/* A few hashes, at the end of the table, so that entries collide and wrap around it. */
static uint32_t colliding_hash(uint32_t index)
{
	return UINT32_MAX - index % 7;
}

static void finds_all_entries_but_removed_ones(void **state)
{
	uint64_t numbers[REMOVABLE], seed = 1;
	bool added[REMOVABLE] = {false};
	struct hash table = {0};
	size_t count = 0;

	(void)state;
	for (uint32_t i = 0; i < REMOVABLE; i++)
		numbers[i] = i;
	for (unsigned int step = 0; step < REMOVAL_STEPS; step++) {
		uint32_t index;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		index = (uint32_t)(seed >> 33) % REMOVABLE;
		if (added[index])
			hash_remove(&table, colliding_hash(index), index);
		else
			assert_int_equal(hash_add(&table, colliding_hash(index), index), 0);
		count = added[index] ? count - 1 : count + 1;
		added[index] = !added[index];
		assert_int_equal(table.count, count);
		if (step % 100)
			continue;
		for (uint32_t i = 0; i < REMOVABLE; i++)
			assert_int_equal(hash_find(&table, colliding_hash(i), number_equal, numbers,
						   &numbers[i]),
					 added[i] ? i : HASH_NONE);
	}
	hash_clear(&table);
}

static void hash_depends_on_each_byte_the_length_and_the_hash_before(void **state)
{
	char bytes[20] = {0};
	uint64_t word = 0;
	uint32_t hash;

	(void)state;
	for (size_t size = 0; size <= sizeof(bytes); size++) {
		hash = hash_bytes(HASH_START, bytes, size);
		assert_int_equal(hash_bytes(HASH_START, bytes, size), hash);
		assert_int_not_equal(hash_bytes(hash + 1, bytes, size), hash);
		if (size < sizeof(bytes))
			assert_int_not_equal(hash_bytes(HASH_START, bytes, size + 1), hash);
		for (size_t i = 0; i < size; i++) {
			bytes[i] = 1;
			assert_int_not_equal(hash_bytes(HASH_START, bytes, size), hash);
			bytes[i] = 0;
		}
	}
	hash = hash_number(HASH_START, word);
	assert_int_not_equal(hash_number(HASH_START + 1, word), hash);
	for (unsigned int bit = 0; bit < 64; bit++)
		assert_int_not_equal(hash_number(HASH_START, UINT64_C(1) << bit), hash);
	assert_int_equal(hash_string(HASH_START, "name"), hash_bytes(HASH_START, "name", 4));
}

/* The hash depends on the order of the numbers, too, and on their count. */
static void hash_depends_on_each_number(void **state)
{
	static const uint32_t zeros[] = {7, 0, 0};
	uint32_t sequence[] = {7, 11, 13, 17, 19};
	const size_t count = sizeof(sequence) / sizeof(sequence[0]);

	(void)state;
	for (size_t size = 1; size < sizeof(zeros) / sizeof(zeros[0]); size++)
		assert_int_not_equal(hash_numbers(HASH_START, zeros, size),
				     hash_numbers(HASH_START, zeros, size + 1));
	for (size_t size = 1; size <= count; size++) {
		const uint32_t hash = hash_numbers(HASH_START, sequence, size);

		assert_int_equal(hash_numbers(HASH_START, sequence, size), hash);
		assert_int_not_equal(hash_numbers(HASH_START + 1, sequence, size), hash);
		assert_int_not_equal(hash_numbers(HASH_START, sequence, size - 1), hash);
		for (size_t i = 0; i < size; i++) {
			const uint32_t number = sequence[i];

			for (unsigned int bit = 0; bit < 32; bit++) {
				sequence[i] = number ^ UINT32_C(1) << bit;
				assert_int_not_equal(hash_numbers(HASH_START, sequence, size),
						     hash);
			}
			sequence[i] = number;
			for (size_t other = 0; other < i; other++) {
				sequence[i] = sequence[other];
				sequence[other] = number;
				assert_int_not_equal(hash_numbers(HASH_START, sequence, size),
						     hash);
				sequence[other] = sequence[i];
				sequence[i] = number;
			}
		}
	}
}

/* The former hash function of lib/hash, without a key: its collisions can be computed. */
static uint32_t unkeyed_number(uint32_t hash, uint64_t number)
{
	uint64_t mixed = (number ^ ((uint64_t)hash << 32 | hash)) + 0x9e3779b97f4a7c15;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
	return (uint32_t)(mixed ^ mixed >> 31);
}

static uint64_t unkeyed_fold(uint64_t number)
{
	unsigned __int128 product =
		(unsigned __int128)(number ^ 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t unkeyed_hash(const char name[NAME_SIZE])
{
	uint64_t state = unkeyed_number(0, NAME_SIZE), words[2];

	memcpy(words, name, sizeof(words));
	state = unkeyed_fold(unkeyed_fold(state ^ words[0]) ^ words[1]);
	return unkeyed_number((uint32_t)(state >> 32), state);
}

/*
 * Computes strings whose unkeyed hashes are equal: the second word of each undoes the state after
 * the first one.
 */
static void choose_names(char (*names)[NAME_SIZE])
{
	uint64_t start = unkeyed_number(0, NAME_SIZE), words[2];
	uint32_t count = 0;
	char text[9];

	for (uint32_t i = 0; count < NAMES; i++) {
		snprintf(text, sizeof(text), "f%07" PRIu32, i);
		memcpy(&words[0], text, sizeof(words[0]));
		words[1] = unkeyed_fold(start ^ words[0]);
		if (!memchr(&words[1], '\0', sizeof(words[1])))
			memcpy(names[count++], words, NAME_SIZE);
	}
}

/* Addresses of code, indices, and sums of both fill the slots of a table as random numbers do. */
static void regular_numbers_have_irregular_hashes(void **state)
{
	static const uint64_t strides[] = {1, 4, 16, 4096, UINT64_C(1) << 32, UINT64_C(1) << 52};
	enum { SLOTS = 4096 };

	(void)state;
	for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
		for (uint32_t before = 0; before < 2; before++) {
			bool seen[SLOTS] = {false};
			unsigned int used = 0;

			for (uint64_t number = 0; number < SLOTS; number++) {
				uint32_t slot =
					hash_number(before, 0x401000 + number * strides[i]) % SLOTS;

				used += !seen[slot];
				seen[slot] = true;
			}
			/* Random numbers leave 1/e of the slots empty. */
			assert_in_range(used, SLOTS / 2, SLOTS * 9 / 10);
		}
	}
}

struct probed_names {
	char (*names)[NAME_SIZE];
	size_t *compared; /* names that were compared with a key */
};

static bool name_equal(const void *context, uint32_t index, const void *key)
{
	const struct probed_names *probed = context;

	++*probed->compared;
	return !memcmp(probed->names[index], key, NAME_SIZE);
}

static void names_that_collide_without_a_key_do_not_collide(void **state)
{
	char(*names)[NAME_SIZE] = calloc(NAMES, NAME_SIZE);
	bool *seen = calloc(NAMES, sizeof(*seen));
	struct string_table strings = {0};
	struct hash table = {0};
	size_t compared = 0, buckets = 0;
	const struct probed_names probed = {names, &compared};

	(void)state;
	assert_non_null(names);
	assert_non_null(seen);
	choose_names(names);
	for (uint32_t i = 0; i < NAMES; i++) {
		uint32_t hash = hash_bytes(HASH_START, names[i], NAME_SIZE);

		assert_int_equal(unkeyed_hash(names[i]), unkeyed_hash(names[0]));
		assert_int_equal(hash_find(&table, hash, name_equal, &probed, names[i]), HASH_NONE);
		assert_int_equal(hash_add(&table, hash, i), 0);
		assert_int_equal(string_table_add(&strings, names[i], NAME_SIZE), i);
		buckets += !seen[hash % NAMES];
		seen[hash % NAMES] = true;
	}
	/* With equal hashes, each name would be compared with all before it: 8 million times. */
	assert_in_range(compared, 0, 16);
	/* Random hashes leave 1/e of the buckets empty. */
	assert_in_range(buckets, NAMES / 2, NAMES);
	string_table_clear(&strings);
	hash_clear(&table);
	free(seen);
	free(names);
}

/* The hash of a string in a new process. */
static uint64_t hash_of_new_process(void)
{
	char command[4096], line[64] = "";
	FILE *output;

	snprintf(command, sizeof(command), "'%s' " PRINT_HASH, program);
	output = popen(command, "re");
	assert_non_null(output);
	assert_non_null(fgets(line, sizeof(line), output));
	assert_int_equal(pclose(output), 0);
	return strtoull(line, NULL, 16);
}

static int print_hash(void)
{
	printf("%08" PRIx32 "%08" PRIx32 "\n", hash_string(HASH_START, "a"),
	       hash_string(HASH_START, "b"));
	return 0;
}

static void each_process_has_its_own_key(void **state)
{
	uint64_t first = hash_of_new_process(), second = hash_of_new_process();

	(void)state;
	assert_int_not_equal(first, 0);
	assert_int_not_equal(first, second);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_every_entry_while_it_grows),
		cmocka_unit_test(finds_entries_with_equal_hashes),
		cmocka_unit_test(full_table_refuses_entries),
		cmocka_unit_test(finds_all_entries_but_removed_ones),
		cmocka_unit_test(hash_depends_on_each_byte_the_length_and_the_hash_before),
		cmocka_unit_test(hash_depends_on_each_number),
		cmocka_unit_test(regular_numbers_have_irregular_hashes),
		cmocka_unit_test(names_that_collide_without_a_key_do_not_collide),
		cmocka_unit_test(each_process_has_its_own_key),
	};

	program = argv[0];
	if (argc == 2 && !strcmp(argv[1], PRINT_HASH))
		return print_hash();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

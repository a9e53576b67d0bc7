// SPDX-License-Identifier: GPL-2.0
/* Both kinds of fingerprints, against their definitions. */
#include "lib/fingerprint.h"

#include "unit.h"

#include <stdlib.h>

#define WORDS FINGERPRINT_WORDS_MAX

struct fixture {
	struct fingerprint_key key;
	uint64_t words[WORDS];
};

static const uint64_t zero[WORDS];

static int set_up(void **state)
{
	struct fixture *fixture = aligned_alloc(16, sizeof(*fixture));
	uint64_t random = 88172645463325252;

	if (!fixture)
		return -1;
	fingerprint_key_init(&fixture->key);
	for (size_t i = 0; i < WORDS; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		fixture->words[i] = random;
	}
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

typedef unsigned __int128 number;

static number number_of(fingerprint value)
{
	return (number)value[1] << 64 | value[0];
}

static number product_nh(uint64_t a, uint64_t b)
{
	return (number)a * b;
}

static number product_carry_less(uint64_t a, uint64_t b)
{
	number product = 0;

	for (unsigned int i = 0; i < 64; i++) {
		if (b >> i & 1)
			product ^= (number)a << i;
	}
	return product;
}

/* By definition; a missing last word is 0. */
static number expected(const struct fixture *fixture, bool carry_less, size_t count)
{
	const uint64_t *key = fixture->key.words;
	number sum = 0;

	for (size_t i = 0; i < count; i += 2) {
		uint64_t a = fixture->words[i], b = i + 1 < count ? fixture->words[i + 1] : 0;

		if (carry_less)
			sum ^= product_carry_less(a ^ key[i], b ^ key[i + 1]);
		else
			sum += product_nh(a + key[i], b + key[i + 1]);
	}
	return sum;
}

/* Calls `test` for the function of this CPU, and for the function of others. */
static void for_each_kind(struct fixture *fixture, void (*test)(struct fixture *fixture))
{
	bool carry_less = fixture->key.carry_less;

	test(fixture);
	fixture->key.carry_less = false;
	if (carry_less)
		test(fixture);
}

static number add(const struct fixture *fixture, size_t count)
{
	const fingerprint none = {0};

	return number_of(fingerprint_add(&fixture->key, none, 0, fixture->words, count));
}

static void check_definition(struct fixture *fixture)
{
	for (size_t count = 0; count <= WORDS; count += count < 40 ? 1 : 61)
		assert_true(add(fixture, count) ==
			    expected(fixture, fixture->key.carry_less, count));
	assert_true(add(fixture, WORDS) == expected(fixture, fixture->key.carry_less, WORDS));
}

static void fingerprint_is_as_defined(void **state)
{
	for_each_kind(*state, check_definition);
}

static void check_parts(struct fixture *fixture)
{
	for (size_t first = 0; first <= 20; first += 2) {
		for (size_t second = 0; second <= 9; second++) {
			fingerprint sum = {0};

			sum = fingerprint_add(&fixture->key, sum, 0, fixture->words, first);
			sum = fingerprint_add(&fixture->key, sum, first, fixture->words + first,
					      second);
			assert_true(number_of(sum) == add(fixture, first + second));
		}
	}
}

static void parts_have_the_fingerprint_of_the_whole(void **state)
{
	for_each_kind(*state, check_parts);
}

static void check_bits(struct fixture *fixture)
{
	const size_t counts[] = {1, 2, 7, 8, 35, WORDS};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		number before = add(fixture, counts[i]);
		/* The first and the last words, and some between. */
		size_t step = counts[i] > 40 ? 53 : 1;

		for (size_t at = 0; at < counts[i]; at += step) {
			for (unsigned int bit = 0; bit < 64; bit++) {
				fixture->words[at] ^= UINT64_C(1) << bit;
				assert_true(add(fixture, counts[i]) != before);
				fixture->words[at] ^= UINT64_C(1) << bit;
			}
		}
		assert_true(add(fixture, counts[i]) == before);
	}
}

static void each_bit_matters(void **state)
{
	for_each_kind(*state, check_bits);
}

static void check_order(struct fixture *fixture)
{
	number before = add(fixture, 8);

	for (size_t i = 0; i < 8; i++) {
		for (size_t j = 0; j < i; j++) {
			uint64_t word = fixture->words[i];

			fixture->words[i] = fixture->words[j];
			fixture->words[j] = word;
			assert_true(add(fixture, 8) != before);
			fixture->words[j] = fixture->words[i];
			fixture->words[i] = word;
		}
	}
}

static void order_matters(void **state)
{
	for_each_kind(*state, check_order);
}

/* Without a key, words of 0 would add nothing. */
static void check_zeros(struct fixture *fixture)
{
	const fingerprint none = {0};

	for (size_t count = 0; count < 9; count += 2)
		assert_true(number_of(fingerprint_add(&fixture->key, none, 0, zero, count)) !=
			    number_of(fingerprint_add(&fixture->key, none, 0, zero, count + 2)));
}

static void key_is_used(void **state)
{
	const struct fixture *fixture = *state;

	for (size_t i = 0; i < WORDS; i++) {
		assert_true(fixture->key.words[i] != 0);
		for (size_t j = 0; j < i; j++)
			assert_true(fixture->key.words[i] != fixture->key.words[j]);
	}
	for_each_kind(*state, check_zeros);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fingerprint_is_as_defined),
		TEST(parts_have_the_fingerprint_of_the_whole),
		TEST(each_bit_matters),
		TEST(order_matters),
		TEST(key_is_used),
	};

	return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}

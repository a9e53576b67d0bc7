/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keyed fingerprints of 128 bits: sequences of words are compared by their fingerprints instead of
 * being stored.
 *
 * The function is NH (J. Black and others, "UMAC: Fast and Secure Message Authentication", 1999):
 * the sum of products of pairs of words, after a word of the key was added to each. On CPUs with
 * PCLMULQDQ and AVX, it is NH with carry-less products and sums (D. Lemire and O. Kaser, "Faster
 * 64-bit universal hashing using carry-less multiplications", 2015). For both it is proven that two
 * different sequences of the same length, chosen by somebody who does not know the key, have the
 * same fingerprint with a probability of at most 2^-64. This also holds for sequences of different
 * lengths if they differ in one of their first two words: put the length there.
 */
#ifndef STACKBEAT_LIB_FINGERPRINT_H
#define STACKBEAT_LIB_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <wmmintrin.h>
#endif

#define FINGERPRINT_WORDS_MAX 1248

/* 128 bits, in two words. */
typedef uint64_t fingerprint __attribute__((vector_size(16)));

struct fingerprint_key {
	uint64_t words[FINGERPRINT_WORDS_MAX] __attribute__((aligned(16)));
	bool carry_less; /* the CPU has PCLMULQDQ and AVX */
};

/* Derives a key from the random key of this process (see lib/hash.h). */
void fingerprint_key_init(struct fingerprint_key *key);

/*
 * A function that returns the fingerprint of a sequence that continues at index `at` (even) with
 * `count` words, where `sum` is the fingerprint of the words before it ({0} at the start). Only the
 * last part of a sequence may have an odd number of words. `at` + `count` must not exceed
 * FINGERPRINT_WORDS_MAX.
 */
typedef fingerprint fingerprint_fn(const struct fingerprint_key *key, fingerprint sum, size_t at,
				   const void *words, size_t count);

/* Calls fingerprint_carry_less() or fingerprint_nh(), depending on the key. */
fingerprint_fn fingerprint_add;

static inline fingerprint fingerprint_nh(const struct fingerprint_key *key, fingerprint sum,
					 size_t at, const void *words, size_t count)
{
	unsigned __int128 total = (unsigned __int128)sum[1] << 64 | sum[0];
	const uint64_t *with = key->words + at;
	const char *next = words;
	uint64_t pair[2];

	for (; count >= 2; count -= 2, with += 2, next += sizeof(pair)) {
		memcpy(pair, next, sizeof(pair));
		total += (unsigned __int128)(pair[0] + with[0]) * (pair[1] + with[1]);
	}
	if (count) {
		memcpy(pair, next, sizeof(pair[0]));
		total += (unsigned __int128)(pair[0] + with[0]) * with[1];
	}
	return (fingerprint){(uint64_t)total, (uint64_t)(total >> 64)};
}

#ifdef __x86_64__
/* Returns the sum of the products of `count` pairs. `count` is constant: the loop is unrolled. */
__attribute__((target("avx,pclmul"), always_inline)) static inline __m128i
fingerprint_products(const __m128i *key, const __m128i_u *pairs, int count)
{
	__m128i sum = {0};

#pragma GCC unroll 8
	for (int i = 0; i < count; i++) {
		__m128i pair = _mm_loadu_si128(pairs + i) ^ key[i];

		sum ^= _mm_clmulepi64_si128(pair, pair, 0x10);
	}
	return sum;
}

/* Only if key->carry_less. */
__attribute__((target("avx,pclmul"))) static inline fingerprint
fingerprint_carry_less(const struct fingerprint_key *key, fingerprint sum, size_t at,
		       const void *words, size_t count)
{
	const __m128i *with = (const __m128i *)(key->words + at);
	const __m128i_u *pairs = words;
	__m128i total = (__m128i)sum;

	for (; count >= 16; count -= 16, pairs += 8, with += 8)
		total ^= fingerprint_products(with, pairs, 8);
	if (count & 8) {
		total ^= fingerprint_products(with, pairs, 4);
		pairs += 4;
		with += 4;
	}
	if (count & 4) {
		total ^= fingerprint_products(with, pairs, 2);
		pairs += 2;
		with += 2;
	}
	if (count & 2)
		total ^= fingerprint_products(with++, pairs++, 1);
	if (count & 1) {
		__m128i pair = _mm_loadl_epi64(pairs) ^ *with;

		total ^= _mm_clmulepi64_si128(pair, pair, 0x10);
	}
	return (fingerprint)total;
}
#endif

#endif

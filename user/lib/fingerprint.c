// SPDX-License-Identifier: GPL-2.0
#include "lib/fingerprint.h"

#include "lib/hash.h"

void fingerprint_key_init(struct fingerprint_key *key)
{
	/* SipHash of a counter: without its key, the words can't be distinguished from random ones.
	 */
	for (uint32_t i = 0; i < FINGERPRINT_WORDS_MAX; i++)
		key->words[i] = (uint64_t)hash_bytes(HASH_START, &(uint32_t){2 * i}, sizeof(i))
					<< 32 |
				hash_bytes(HASH_START, &(uint32_t){2 * i + 1}, sizeof(i));
#ifdef __x86_64__
	key->carry_less = __builtin_cpu_supports("avx") && __builtin_cpu_supports("pclmul");
#else
	key->carry_less = false;
#endif
}

fingerprint fingerprint_add(const struct fingerprint_key *key, fingerprint sum, size_t at,
			    const void *words, size_t count)
{
#ifdef __x86_64__
	if (key->carry_less)
		return fingerprint_carry_less(key, sum, at, words, count);
#endif
	return fingerprint_nh(key, sum, at, words, count);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * CPython 3.11 with PYTHONHASHSEED=7 computed the values of strings, which have SipHash-1-3. The
 * values of numbers were computed in Python, with the words of their key by the same hash().
 */
#include "unit.h"

#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/hash.h"

/* Replaces the system's random numbers, for the key: PYTHONHASHSEED=7 gives these. */
ssize_t getrandom(void *buffer, size_t size, unsigned int flags)
{
	static const uint64_t key[] = {0x12c874a1806f0e3d, 0x470a89d2f9d2784f};

	/* Libraries ask for other sizes when they are loaded. */
	if (size != sizeof(key))
		return syscall(SYS_getrandom, buffer, size, flags);
	memcpy(buffer, key, sizeof(key));
	return (ssize_t)size;
}

/* hash(struct.pack("<Q", 1) + bytes(range(65, 65 + n))), its halves combined. */
static void strings_of_all_lengths(void **state)
{
	static const uint32_t expected[] = {
		0xa42b51ad, 0x6545313f, 0xfd0b80ea, 0xa56684e3, 0xfd367718, 0x379a9887,
		0x8461b5a3, 0xe2751471, 0xb98da331, 0x9ad93a59, 0x8f4a2224, 0x0b5919ce,
		0x61cf5fc3, 0xd3d7fc64, 0xdee41aec, 0x59889af4, 0x8c2bf5db, 0xb7d30b48,
	};
	char string[101] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(string) - 1; i++)
		string[i] = (char)('A' + i);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_int_equal(hash_bytes(1, string, i), expected[i]);
	assert_int_equal(hash_bytes(1, string, 100), 0xe28edf1e);
	assert_int_equal(hash_bytes(0x89abcdef, string, 13), 0x69caaecf);
	assert_int_equal(hash_string(0x89abcdef, "ABCD"), 0xf07fa5a4);
}

static void numbers(void **state)
{
	(void)state;
	assert_int_equal(hash_number(1, 0x0123456789abcdef), 0xee2becbf);
	assert_int_equal(hash_number(0x89abcdef, 0x0123456789abcdef), 0xdea4ad99);
}

static void sequences_of_numbers(void **state)
{
	static const uint32_t sequence[] = {0x01234567, 0x89abcdef, 0xdeadbeef};
	static const uint32_t expected[] = {0x3f7fac39, 0x611b141f, 0xff576bb8, 0xda662924};

	(void)state;
	for (size_t count = 0; count < sizeof(expected) / sizeof(expected[0]); count++)
		assert_int_equal(hash_numbers(1, sequence, count), expected[count]);
	assert_int_equal(hash_numbers(0x89abcdef, sequence, 3), 0xbffc1b4b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_of_all_lengths),
		cmocka_unit_test(numbers),
		cmocka_unit_test(sequences_of_numbers),
	};

	return cmocka_run_group_tests_name("hash values", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "lib/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#define CAPACITY_MIN 64

/*
 * SipHash-1-3: J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), with
 * one round for each word and three at the end, as Rust and CPython use it for hash tables. The
 * strings that are hashed come from sampled programs: without the key, nobody can choose many that
 * collide. Forked workers know the key: quotas limit the strings that they send.
 */
static uint64_t hash_key[2];

/*
 * Numbers are hashed by folded products with secret words, as Go's maps do on CPUs without AES
 * (Wang Yi, "wyhash", 2019): a program that does not know the words can't choose numbers that
 * collide, and a number takes two multiplications instead of five rounds. In a sequence, a pair
 * takes one.
 */
static uint64_t number_key[4];

struct siphash {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate_left(uint64_t value, unsigned int bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void siphash_round(struct siphash *state)
{
	state->v0 += state->v1;
	state->v1 = rotate_left(state->v1, 13) ^ state->v0;
	state->v0 = rotate_left(state->v0, 32);
	state->v2 += state->v3;
	state->v3 = rotate_left(state->v3, 16) ^ state->v2;
	state->v0 += state->v3;
	state->v3 = rotate_left(state->v3, 21) ^ state->v0;
	state->v2 += state->v1;
	state->v1 = rotate_left(state->v1, 17) ^ state->v2;
	state->v2 = rotate_left(state->v2, 32);
}

static inline struct siphash siphash_start(void)
{
	return (struct siphash){
		.v0 = hash_key[0] ^ 0x736f6d6570736575,
		.v1 = hash_key[1] ^ 0x646f72616e646f6d,
		.v2 = hash_key[0] ^ 0x6c7967656e657261,
		.v3 = hash_key[1] ^ 0x7465646279746573,
	};
}

static inline void siphash_add(struct siphash *state, uint64_t word)
{
	state->v3 ^= word;
	siphash_round(state);
	state->v0 ^= word;
}

/* `last`: the last 0 to 7 bytes, and the low byte of the length (in bytes) at the top. */
static inline uint32_t siphash_finish(struct siphash *state, uint64_t last)
{
	uint64_t hash;

	siphash_add(state, last);
	state->v2 ^= 0xff;
	siphash_round(state);
	siphash_round(state);
	siphash_round(state);
	hash = state->v0 ^ state->v1 ^ state->v2 ^ state->v3;
	return (uint32_t)(hash ^ hash >> 32);
}

static inline uint64_t folded_product(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint32_t hash_number(uint32_t hash, uint64_t number)
{
	uint64_t mixed = folded_product(number ^ number_key[0], hash ^ number_key[1]);

	return (uint32_t)folded_product(mixed ^ number_key[2], number_key[3]);
}

uint32_t hash_numbers(uint32_t hash, const uint32_t *numbers, size_t count)
{
	uint64_t mixed = (uint64_t)count << 32 | hash, pair;

	for (; count >= 2; count -= 2, numbers += 2) {
		memcpy(&pair, numbers, sizeof(pair));
		mixed = folded_product(pair ^ number_key[0], mixed ^ number_key[1]);
	}
	if (count)
		mixed = folded_product(*numbers ^ number_key[0], mixed ^ number_key[1]);
	return (uint32_t)folded_product(mixed ^ number_key[2], number_key[3]);
}

/* Hashes `hash` as 8 bytes, and the bytes behind it. */
uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t size)
{
	struct siphash state = siphash_start();
	uint64_t word, last = (uint64_t)(size + sizeof(word)) << 56;
	const unsigned char *next = bytes;

	siphash_add(&state, hash);
	for (; size >= sizeof(word); size -= sizeof(word), next += sizeof(word)) {
		memcpy(&word, next, sizeof(word));
		siphash_add(&state, word);
	}
	word = 0;
	memcpy(&word, next, size);
	return siphash_finish(&state, last | word);
}

static void draw_hash_key(void)
{
	const void *random;

	if (getrandom(hash_key, sizeof(hash_key), 0) == sizeof(hash_key))
		return;
	/* A container may forbid the call. Programs also get 16 random bytes from execve(). */
	random = (const void *)getauxval(AT_RANDOM);
	if (!random)
		abort();
	memcpy(hash_key, random, sizeof(hash_key));
}

/* A word that can't be distinguished from a random one. */
static uint64_t derive_word(uint32_t number)
{
	return (uint64_t)hash_bytes(number, "high", 4) << 32 | hash_bytes(number, "low", 3);
}

/*
 * Draws the key of this process, before main(): hashing needs no lock and no check. Forked workers
 * inherit it.
 */
__attribute__((constructor)) static void draw_keys(void)
{
	draw_hash_key();
	for (uint32_t i = 0; i < 4; i++)
		number_key[i] = derive_word(i);
}

uint32_t hash_string(uint32_t hash, const char *string)
{
	return hash_bytes(hash, string, strlen(string));
}

static void insert_slot(struct hash_slot *slots, size_t capacity, struct hash_slot entry)
{
	size_t at = entry.hash & (capacity - 1);

	while (slots[at].index != HASH_NONE)
		at = (at + 1) & (capacity - 1);
	slots[at] = entry;
}

static int grow_table(struct hash *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : CAPACITY_MIN;
	struct hash_slot *slots = reallocarray(NULL, capacity, sizeof(*slots));
	size_t i;

	if (!slots)
		return -ENOMEM;
	/* HASH_NONE has all bits set. */
	memset(slots, 0xff, capacity * sizeof(*slots));
	for (i = 0; i < table->capacity; i++)
		if (table->slots[i].index != HASH_NONE)
			insert_slot(slots, capacity, table->slots[i]);
	free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

__attribute__((noinline)) static int add_grown(struct hash *table, struct hash_slot entry)
{
	if (grow_table(table) && table->count + 1 >= table->capacity)
		return -ENOMEM;
	insert_slot(table->slots, table->capacity, entry);
	table->count++;
	return 0;
}

int hash_add(struct hash *table, uint32_t hash, uint32_t index)
{
	const struct hash_slot entry = {hash, index};

	/* At most three quarters full, or more without memory: an empty slot ends each search. */
	if (table->count >= table->capacity / 4 * 3)
		return add_grown(table, entry);
	insert_slot(table->slots, table->capacity, entry);
	table->count++;
	return 0;
}

void hash_clear(struct hash *table)
{
	free(table->slots);
	*table = (struct hash){0};
}

void hash_remove(struct hash *table, uint32_t hash, uint32_t index)
{
	size_t mask = table->capacity - 1;
	size_t hole = hash & mask, next;

	while (table->slots[hole].index != index)
		hole = (hole + 1) & mask;
	/* Later entries move back, so that no search for them ends at the hole. */
	for (next = (hole + 1) & mask; table->slots[next].index != HASH_NONE;
	     next = (next + 1) & mask) {
		size_t distance = (next - table->slots[next].hash) & mask;

		if (distance < ((next - hole) & mask))
			continue;
		table->slots[hole] = table->slots[next];
		hole = next;
	}
	table->slots[hole].index = HASH_NONE;
	table->count--;
}

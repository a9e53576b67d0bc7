// SPDX-License-Identifier: GPL-2.0
#include "lib/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN 64

struct hash_slot {
	uint32_t hash;
	uint32_t index; /* HASH_NONE: empty */
};

uint32_t hash_number(uint32_t hash, uint64_t number)
{
	uint64_t mixed = (number ^ ((uint64_t)hash << 32 | hash)) + 0x9e3779b97f4a7c15;

	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
	return mixed ^ mixed >> 31;
}

/* All bits of a number take part in all of what comes out. */
static uint64_t fold(uint64_t number)
{
	unsigned __int128 product =
		(unsigned __int128)(number ^ 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t size)
{
	const unsigned char *next = bytes;
	uint64_t state, number;

	/* The length is hashed too, so that texts in a row keep their boundaries. */
	state = hash_number(hash, size);
	for (; size >= sizeof(number); size -= sizeof(number), next += sizeof(number)) {
		memcpy(&number, next, sizeof(number));
		state = fold(state ^ number);
	}
	number = 0;
	memcpy(&number, next, size);
	return hash_number((uint32_t)(state >> 32), state ^ number);
}

uint32_t hash_string(uint32_t hash, const char *text)
{
	return hash_bytes(hash, text, strlen(text));
}

uint32_t hash_find(const struct hash *table, uint32_t hash, hash_equal equal, const void *context,
		   const void *key)
{
	const struct hash_slot *slot;
	size_t at;

	if (!table->capacity)
		return HASH_NONE;
	for (at = hash & (table->capacity - 1);; at = (at + 1) & (table->capacity - 1)) {
		slot = &table->slots[at];
		if (slot->index == HASH_NONE)
			return HASH_NONE;
		if (slot->hash == hash && equal(context, slot->index, key))
			return slot->index;
	}
}

static void insert(struct hash_slot *slots, size_t capacity, struct hash_slot entry)
{
	size_t at = entry.hash & (capacity - 1);

	while (slots[at].index != HASH_NONE)
		at = (at + 1) & (capacity - 1);
	slots[at] = entry;
}

static int grow(struct hash *table)
{
	size_t capacity = table->capacity ? table->capacity * 2 : CAPACITY_MIN;
	struct hash_slot *slots = calloc(capacity, sizeof(*slots));
	size_t i;

	if (!slots)
		return -ENOMEM;
	for (i = 0; i < capacity; i++)
		slots[i].index = HASH_NONE;
	for (i = 0; i < table->capacity; i++)
		if (table->slots[i].index != HASH_NONE)
			insert(slots, capacity, table->slots[i]);
	free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
	return 0;
}

int hash_add(struct hash *table, uint32_t hash, uint32_t index)
{
	/* At most three quarters full: an empty slot ends each search. */
	if (table->count >= table->capacity / 4 * 3 && grow(table))
		return -ENOMEM;
	insert(table->slots, table->capacity, (struct hash_slot){hash, index});
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

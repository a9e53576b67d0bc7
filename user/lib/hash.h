/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hash table of indices: it finds an entry of an array that the caller owns. A slot takes 8
 * bytes, and an entry needs no allocation. At most three quarters of the slots are used, or more if
 * there is no memory for a larger table.
 *
 * Hashes depend on a random key of the process: a hash must not be stored, printed, or passed to
 * another program. Nothing enumerates a table, so that no output depends on the order in it.
 */
#ifndef STACKBEAT_LIB_HASH_H
#define STACKBEAT_LIB_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONE UINT32_MAX
#define HASH_SLOT_SIZE 8 /* bytes of a slot */
/* The hash to continue from at the first of several steps. */
#define HASH_START 0

struct hash_slot {
	uint32_t hash;
	uint32_t index; /* HASH_NONE: empty */
};

_Static_assert(sizeof(struct hash_slot) == HASH_SLOT_SIZE, "HASH_SLOT_SIZE");

/* All zero is an empty table. */
struct hash {
	struct hash_slot *slots;
	size_t capacity; /* slots, a power of two, or 0 */
	size_t count; /* entries */
};

/* Returns whether the entry at `index` of the array in `context` has this key. */
typedef bool (*hash_equal)(const void *context, uint32_t index, const void *key);

/*
 * Return the hash of `size` bytes, a number, `count` numbers, or a string, continuing from `hash`.
 * The hash of numbers is good for tables; without the key, the hash of bytes can't be distinguished
 * from a random number.
 */
uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t size);
uint32_t hash_number(uint32_t hash, uint64_t number);
uint32_t hash_numbers(uint32_t hash, const uint32_t *numbers, size_t count);
uint32_t hash_string(uint32_t hash, const char *string);

/*
 * Returns the index of the entry with this hash and key, or HASH_NONE. The function is inline, so
 * that `equal` can be, too: a sample of a new stack takes some searches.
 */
static inline uint32_t hash_find(const struct hash *table, uint32_t hash, hash_equal equal,
				 const void *context, const void *key)
{
	const size_t mask = table->capacity - 1;

	if (!table->capacity)
		return HASH_NONE;
	for (size_t at = hash & mask;; at = (at + 1) & mask) {
		const struct hash_slot *slot = &table->slots[at];

		if (slot->index == HASH_NONE ||
		    (slot->hash == hash && equal(context, slot->index, key)))
			return slot->index;
	}
}

/* Adds `index`, which must not be HASH_NONE. Returns 0, or -ENOMEM with nothing added. */
int hash_add(struct hash *table, uint32_t hash, uint32_t index);

/* Frees the memory of the table, which is empty then. */
void hash_clear(struct hash *table);

/* Removes `index`, which must have been added with this hash. */
void hash_remove(struct hash *table, uint32_t hash, uint32_t index);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hash table of indices: it finds an entry in an array that belongs to
 * somebody else. 8 bytes an entry, and nothing to allocate for each.
 */
#ifndef STACKBEAT_LIB_HASH_H
#define STACKBEAT_LIB_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONE UINT32_MAX
/* What is hashed in several steps begins with this. */
#define HASH_START 0

/* All zero is an empty table. */
struct hash {
	struct hash_slot *slots;
	size_t capacity; /* slots, a power of two, or 0 */
	size_t count; /* entries */
};

/* Tells whether the entry at `index` of the array in `context` has this key. */
typedef bool (*hash_equal)(const void *context, uint32_t index, const void *key);

/* The hash of `size` bytes, continuing from `hash`. */
uint32_t hash_bytes(uint32_t hash, const void *bytes, size_t size);
uint32_t hash_number(uint32_t hash, uint64_t number);
uint32_t hash_string(uint32_t hash, const char *text);

/* Returns the index of the entry with this hash and key, or HASH_NONE. */
uint32_t hash_find(const struct hash *table, uint32_t hash, hash_equal equal, const void *context,
		   const void *key);

/* Adds `index`, which must not be HASH_NONE. Returns 0 or -ENOMEM. */
int hash_add(struct hash *table, uint32_t hash, uint32_t index);

/* Frees what the table holds; it is empty then. */
void hash_clear(struct hash *table);

/* Removes `index`, which must have been added with this hash. */
void hash_remove(struct hash *table, uint32_t hash, uint32_t index);

#endif

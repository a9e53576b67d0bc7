// SPDX-License-Identifier: GPL-2.0
#include "lib/string_table.h"

#include <stdlib.h>
#include <string.h>

#include "lib/array.h"

struct string_key {
	const char *string;
	size_t length;
};

static bool string_equal(const void *context, uint32_t index, const void *key)
{
	const char *string = ((const struct string_table *)context)->items[index];
	const struct string_key *wanted = key;

	return !strncmp(string, wanted->string, wanted->length) && !string[wanted->length];
}

uint32_t string_table_add(struct string_table *table, const char *string, size_t length)
{
	const struct string_key key = {string, strnlen(string, length)};
	uint32_t hash = hash_bytes(HASH_START, string, key.length);
	uint32_t index = hash_find(&table->index, hash, string_equal, table, &key);
	char *copy;

	if (index != HASH_NONE)
		return index;
	if (array_reserve(&table->items, &table->capacity, table->count, 1, sizeof(char *)))
		return STRING_NONE;
	copy = strndup(string, key.length);
	if (!copy || hash_add(&table->index, hash, (uint32_t)table->count)) {
		free(copy);
		return STRING_NONE;
	}
	table->items[table->count] = copy;
	return (uint32_t)table->count++;
}

uint32_t string_table_find(const struct string_table *table, const char *string)
{
	const struct string_key key = {string, strlen(string)};

	return hash_find(&table->index, hash_bytes(HASH_START, string, key.length), string_equal,
			 table, &key);
}

void string_table_clear(struct string_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->items[i]);
	free(table->items);
	hash_clear(&table->index);
	*table = (struct string_table){0};
}

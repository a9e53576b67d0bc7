// SPDX-License-Identifier: GPL-2.0
#include "lib/string_table.h"

#include "lib/array.h"

#include <stdlib.h>
#include <string.h>

struct key {
	const char *text;
	size_t length;
};

static bool is_text(const void *context, uint32_t index, const void *key)
{
	const char *text = ((const struct string_table *)context)->items[index];
	const struct key *wanted = key;

	return strncmp(text, wanted->text, wanted->length) == 0 && !text[wanted->length];
}

uint32_t string_table_add(struct string_table *texts, const char *text, size_t length)
{
	const struct key key = {text, strnlen(text, length)};
	uint32_t hash = hash_bytes(HASH_START, text, key.length);
	uint32_t index = hash_find(&texts->index, hash, is_text, texts, &key);
	char *copy;

	if (index != HASH_NONE)
		return index;
	if (array_reserve(&texts->items, &texts->capacity, texts->count, 1, sizeof(char *)) != 0)
		return STRING_NONE;
	copy = strndup(text, key.length);
	if (!copy || hash_add(&texts->index, hash, (uint32_t)texts->count) != 0) {
		free(copy);
		return STRING_NONE;
	}
	texts->items[texts->count] = copy;
	return (uint32_t)texts->count++;
}

void string_table_clear(struct string_table *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->items[i]);
	free(texts->items);
	hash_clear(&texts->index);
	*texts = (struct string_table){0};
}

// SPDX-License-Identifier: GPL-2.0
#include "mappings/file_ids.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/array.h"

/* Sweeps after which no pending record can refer to an id that was released. */
#define SWEEPS_RETIRED 8u

struct file_id {
	uint64_t id;
	uint64_t retired; /* sweep after the release of the id; 0: not released */
	uint32_t file; /* FILE_NONE: the item is free */
	uint32_t next_free; /* as ids->free, if the item is free */
};

void file_ids_clear(struct file_ids *ids)
{
	free(ids->items);
	hash_clear(&ids->by_id);
	*ids = (struct file_ids){0};
}

size_t file_ids_bytes(const struct file_ids *ids)
{
	return ids->capacity * sizeof(*ids->items) + ids->by_id.capacity * HASH_SLOT_SIZE;
}

static bool is_id(const void *items, uint32_t index, const void *id)
{
	return ((const struct file_id *)items)[index].id == *(const uint64_t *)id;
}

static uint32_t id_hash(uint64_t id)
{
	return hash_number(HASH_START, id);
}

/* Valid until file_ids_add(). */
static struct file_id *find_item(const struct file_ids *ids, uint64_t id)
{
	uint32_t index = hash_find(&ids->by_id, id_hash(id), is_id, ids->items, &id);

	return index == HASH_NONE ? NULL : &ids->items[index];
}

uint32_t file_ids_find(const struct file_ids *ids, uint64_t id)
{
	const struct file_id *item = find_item(ids, id);

	return item ? item->file : FILE_NONE;
}

int file_ids_add(struct file_ids *ids, uint64_t id, uint32_t file)
{
	uint32_t index = ids->free ? ids->free - 1 : (uint32_t)ids->count;

	if (!ids->free &&
	    (ids->count == HASH_NONE ||
	     array_reserve(&ids->items, &ids->capacity, ids->count, 1, sizeof(*ids->items))))
		return -ENOMEM;
	if (hash_add(&ids->by_id, id_hash(id), index))
		return -ENOMEM;
	if (ids->free)
		ids->free = ids->items[index].next_free;
	else
		ids->count++;
	ids->items[index] = (struct file_id){.id = id, .file = file};
	return 0;
}

void file_ids_retire(struct file_ids *ids, uint64_t id)
{
	struct file_id *item = find_item(ids, id);

	if (!item || item->retired)
		return;
	item->retired = ids->sweep + 1;
	ids->retired_count++;
}

void file_ids_sweep(struct file_ids *ids, void (*forgotten)(uint32_t file, void *arg), void *arg)
{
	ids->sweep++;
	for (size_t i = 0; i < ids->count && ids->retired_count; i++) {
		struct file_id *item = &ids->items[i];

		if (!item->retired || item->retired + SWEEPS_RETIRED >= ids->sweep)
			continue;
		hash_remove(&ids->by_id, id_hash(item->id), (uint32_t)i);
		forgotten(item->file, arg);
		*item = (struct file_id){.file = FILE_NONE, .next_free = ids->free};
		ids->free = (uint32_t)i + 1;
		ids->retired_count--;
	}
}

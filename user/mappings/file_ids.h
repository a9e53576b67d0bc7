/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ids by which the kernel holds files, and the files of the table of mapped files that have
 * them. Several ids may be of one file. An id that was released is retired: it is forgotten when no
 * record that is still in a ring can mention it.
 */
#ifndef STACKBEAT_MAPPINGS_FILE_IDS_H
#define STACKBEAT_MAPPINGS_FILE_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/hash.h"

/* No file. */
#define FILE_NONE UINT32_MAX

/* All zero is an empty table. */
struct file_ids {
	struct file_id *items;
	size_t count, capacity;
	uint32_t free; /* 1 + index of the first free item; 0: none */
	struct hash by_id; /* indices of `items` */
	size_t retired_count;
	uint64_t sweep;
};

void file_ids_clear(struct file_ids *ids);

/* Returns the bytes of memory of the table. */
size_t file_ids_bytes(const struct file_ids *ids);

/* Returns the index of the file of an id, or FILE_NONE. */
uint32_t file_ids_find(const struct file_ids *ids, uint64_t id);

/* Adds an id, which must not be in the table. Returns 0 or -ENOMEM. */
int file_ids_add(struct file_ids *ids, uint64_t id, uint32_t file);

/* The id was released in the kernel. Ids that are unknown or retired are ignored. */
void file_ids_retire(struct file_ids *ids, uint64_t id);

/*
 * Call this each second: forgets ids that were retired several calls ago, and calls `forgotten`
 * with the file of each.
 */
void file_ids_sweep(struct file_ids *ids, void (*forgotten)(uint32_t file, void *arg), void *arg);

#endif

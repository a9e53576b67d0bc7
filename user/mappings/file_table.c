// SPDX-License-Identifier: GPL-2.0
#include "mappings/file_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/build_id.h"

/* gcc's analyzer loses sight of what is stored in the table, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* More would not fit into the segments of address_space.h. */
#define FILES_MAX (1u << 29)

void file_entry_close(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->fd < 0)
		return;
	close(entry->fd);
	entry->fd = -1;
	files->kept_count--;
	if (entry->is_copy)
		files->copies_bytes -= entry->identity.size;
	entry->is_copy = false;
}

void file_entry_keep(struct mapped_files *files, struct file_entry *entry, int fd)
{
	file_entry_close(files, entry);
	entry->fd = fd;
	files->kept_count++;
}

void file_entry_close_table_fd(struct file_entry *entry)
{
	if (entry->table_fd >= 0)
		close(entry->table_fd);
	entry->table_fd = -1;
}

static size_t text_bytes(const struct file_entry *entry)
{
	return entry->text ? strlen(entry->file.path) + strlen(entry->file.build_id) + 2 : 0;
}

static size_t problem_bytes(const struct file_entry *entry)
{
	return entry->own_problem ? strlen(entry->own_problem) + 1 : 0;
}

void file_entry_free(struct mapped_files *files, struct file_entry *entry)
{
	file_entry_close(files, entry);
	file_entry_close_table_fd(entry);
	files->entries_bytes -= sizeof(*entry) + text_bytes(entry) + problem_bytes(entry) +
				(entry->proven ? sizeof(*entry->proven) : 0);
	free(entry->proven);
	free(entry->own_problem);
	free(entry->text);
	free(entry);
}

int file_entry_set_text(struct mapped_files *files, struct file_entry *entry, const char *path,
			const char *build_id)
{
	size_t size = strlen(path) + 1;
	char *text = malloc(size + strlen(build_id) + 1);

	if (!text)
		return -ENOMEM;
	memcpy(text, path, size);
	strcpy(text + size, build_id);
	files->entries_bytes -= text_bytes(entry);
	free(entry->text);
	entry->text = text;
	entry->file.path = text;
	entry->file.build_id = text + size;
	files->entries_bytes += text_bytes(entry);
	return 0;
}

void file_entry_set_problem(struct mapped_files *files, struct file_entry *entry, const char *text)
{
	char *problem = strdup(text);

	if (!problem)
		return;
	files->entries_bytes -= problem_bytes(entry);
	free(entry->own_problem);
	entry->own_problem = problem;
	entry->file.problem = problem;
	files->entries_bytes += problem_bytes(entry);
}

void file_entry_clear_problem(struct file_entry *entry)
{
	free(entry->own_problem);
	entry->own_problem = NULL;
	entry->file.problem = "";
}

/* Returns a free index, or UINT32_MAX. Its slot in the list is reserved. */
static uint32_t new_index(struct mapped_files *files)
{
	if (files->free_count)
		return files->free_list[--files->free_count];
	/* Room for all indices to become free. */
	if (files->count == FILES_MAX ||
	    array_reserve(&files->free_list, &files->free_capacity, 0, files->count + 1,
			  sizeof(*files->free_list)) ||
	    array_reserve(&files->list, &files->capacity, files->count, 1,
			  sizeof(struct file_entry *)))
		return UINT32_MAX;
	return (uint32_t)files->count++;
}

struct file_entry *file_table_add(struct mapped_files *files)
{
	struct file_entry *entry = calloc(1, sizeof(*entry));
	uint32_t index = entry ? new_index(files) : UINT32_MAX;

	if (index == UINT32_MAX) {
		free(entry);
		return NULL;
	}
	entry->fd = -1;
	entry->table_fd = -1;
	entry->file = (struct mapped_file){index, "", "", "", 0};
	files->list[index] = entry;
	files->entries_bytes += sizeof(*entry);
	return entry;
}

static uint32_t identity_hash(const struct file_entry *entry)
{
	uint32_t hash = hash_number(HASH_START, entry->identity.device);

	hash = hash_number(hash, entry->identity.inode);
	hash = hash_number(hash, entry->identity.size);
	return hash_number(hash,
			   (uint64_t)entry->identity.generation << 1 | entry->headers_not_read);
}

/* The build ID of a file whose headers were not read is no part of its identity. */
static bool is_identical(const void *context, uint32_t index, const void *key)
{
	const struct file_entry *a = ((const struct mapped_files *)context)->list[index], *b = key;

	return a->identity.device == b->identity.device && a->identity.inode == b->identity.inode &&
	       a->identity.size == b->identity.size &&
	       a->identity.generation == b->identity.generation &&
	       a->headers_not_read == b->headers_not_read && a->has_kernel_id == b->has_kernel_id &&
	       (!a->has_kernel_id || build_id_equal(a->file.build_id, b->file.build_id));
}

struct file_entry *file_table_find(struct mapped_files *files, const struct file_entry *key)
{
	uint32_t index =
		hash_find(&files->identities, identity_hash(key), is_identical, files, key);

	return index == HASH_NONE ? NULL : files->list[index];
}

/* Sets the identity of an entry, with path and build ID, from `key`. */
int file_table_announce(struct mapped_files *files, struct file_entry *entry,
			const struct file_entry *key)
{
	uint32_t hash = identity_hash(key);
	int err = file_entry_set_text(files, entry, key->file.path, key->file.build_id);

	if (!err)
		err = hash_add(&files->identities, hash, entry->file.index);
	if (err)
		return err;
	entry->identity = key->identity;
	entry->headers_not_read = key->headers_not_read;
	entry->has_kernel_id = key->has_kernel_id;
	entry->announced = true;
	return 0;
}

void file_table_forget(struct mapped_files *files, struct file_entry *entry)
{
	uint32_t index = entry->file.index;

	if (files->table_hooks.forgotten)
		files->table_hooks.forgotten(index, files->table_hooks.arg);
	if (entry->announced)
		hash_remove(&files->identities, identity_hash(entry), index);
	file_entry_free(files, entry);
	files->list[index] = NULL;
	files->free_list[files->free_count++] = index;
}

/* The kernel's ids */

int file_table_add_id(struct mapped_files *files, uint64_t id, struct file_entry *entry)
{
	int err = file_ids_add(&files->ids, id, entry->file.index);

	entry->id_count += !err;
	return err;
}

struct file_entry *file_table_find_id(const struct mapped_files *files, uint64_t id)
{
	uint32_t index = file_ids_find(&files->ids, id);

	return index == FILE_NONE ? NULL : files->list[index];
}

void file_table_release_id(struct mapped_files *files, uint64_t id)
{
	files->source.release(id, files->source.arg);
	file_ids_retire(&files->ids, id);
}

void file_entry_release_id(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->pinned)
		return;
	if (entry->id)
		file_table_release_id(files, entry->id);
	entry->id = 0;
}

/* Otherwise, the id is needed to open the file, or a sweep releases it. */
void file_entry_release_if_opened(struct mapped_files *files, struct file_entry *entry)
{
	if (entry->state == FILE_OPENED || entry->state == FILE_HUNG)
		file_entry_release_id(files, entry);
}

void file_table_forget_id(uint32_t file, void *arg)
{
	((struct mapped_files *)arg)->list[file]->id_count--;
}

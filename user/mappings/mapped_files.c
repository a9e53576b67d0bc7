// SPDX-License-Identifier: GPL-2.0
#include "mappings/mapped_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/build_id.h"
#include "lib/error.h"
#include "mappings/file_opener.h"
#include "mappings/file_table.h"
#include "mappings/find_mapped_file.h"
#include "mappings/opened_files.h"

/* gcc's analyzer loses sight of what is stored in the table, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* Sweeps that a file must have seen without a mark before it is released. */
#define SWEEPS_UNMARKED 2u
/* Sweeps after which a file that has hung is opened again. */
#define SWEEPS_HUNG 60u

struct mapped_files *mapped_files_new(const char *root, const struct file_source *source,
				      struct error *error)
{
	struct mapped_files *files = calloc(1, sizeof(*files));

	if (files) {
		files->event = -1;
		files->root = strdup(root);
		files->source = *source;
		files->opener = files->root ? opened_files_opener(files) : NULL;
		files->copier = files->root ? opened_files_copier(files, NULL, NULL) : NULL;
	}
	if (files && files->opener && files->copier)
		return files;
	mapped_files_free(files);
	error_errno(error, ENOMEM, "can't make the table of mapped files");
	return NULL;
}

void mapped_files_free(struct mapped_files *files)
{
	if (!files)
		return;
	file_opener_free(files->opener);
	file_opener_free(files->copier);
	file_ids_clear(&files->ids);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			file_entry_free(files, files->list[i]);
	}
	free(files->list);
	free(files->free_list);
	hash_clear(&files->identities);
	if (files->event >= 0)
		close(files->event);
	free(files->root);
	free(files);
}

void mapped_files_skip_symbols(struct mapped_files *files)
{
	files->skip_symbols = true;
}

bool mapped_files_have_symbols(const struct mapped_files *files)
{
	return !files->skip_symbols;
}

size_t mapped_files_bytes(const struct mapped_files *files)
{
	return files->entries_bytes + files->capacity * sizeof(*files->list) +
	       files->free_capacity * sizeof(*files->free_list) +
	       files->identities.capacity * HASH_SLOT_SIZE + file_ids_bytes(&files->ids);
}

/* Records and mappings */

int mapped_files_add(struct mapped_files *files, const struct stackbeat_file *record)
{
	struct file_entry *known = file_table_find_id(files, record->file);
	bool has_id = record->build_id_size && record->build_id_size <= BUILD_ID_BYTES_MAX;
	char build_id[BUILD_ID_SIZE] = "";
	const struct file_entry key = {
		.file = {.path = record->path, .build_id = build_id},
		.identity = {.device = makedev(record->device_major, record->device_minor),
			     .inode = record->inode,
			     .size = record->size,
			     .generation = record->inode_generation},
		.headers_not_read = record->record.flags & STACKBEAT_FILE_HEADERS_NOT_READ,
		.has_kernel_id = has_id,
	};
	bool lacks_table =
		files->table_hooks.missing && !(record->record.flags & STACKBEAT_FILE_UNWIND_TABLE);
	struct file_entry *entry;
	int err = 0;

	if (has_id)
		build_id_format(record->build_id, record->build_id_size, build_id);
	/* A mapping record of it may have come first: then it has an entry already. */
	entry = known ? known : file_table_find(files, &key);
	if (!entry)
		entry = file_table_add(files);
	if (!entry || (!known && file_table_add_id(files, record->file, entry)))
		return -ENOMEM;
	if (!entry->announced)
		err = file_table_announce(files, entry, &key);
	if (err)
		return err;
	entry->unmarked_sweeps = 0;
	/* A file that was requested, or has an id already, needs no other one. */
	if ((entry->state == FILE_UNTOUCHED || lacks_table) &&
	    (!entry->id || entry->id == record->file)) {
		entry->id = record->file;
		entry->is_lasting = record->record.flags & STACKBEAT_FILE_LASTING;
	} else {
		file_table_release_id(files, record->file);
	}
	if (lacks_table) {
		err = files->table_hooks.missing(&entry->file, files->table_hooks.arg);
		file_entry_release_if_opened(files, entry);
	}
	return !err && entry->requested_early ? opened_file_request(files, entry) : err;
}

struct mapped_file *mapped_files_find_mapped(struct mapped_files *files, uint32_t pid,
					     uint64_t start, uint64_t end)
{
	struct file_entry key = {.headers_not_read = true}, *entry;
	struct mapping_link link;

	if (read_mapping_link(files->root, pid, start, end, &link))
		return NULL;
	key.file = (struct mapped_file){.path = link.path, .build_id = ""};
	key.identity = link.identity;
	entry = file_table_find(files, &key);
	if (!entry) {
		entry = file_table_add(files);
		if (entry && file_table_announce(files, entry, &key)) {
			file_table_forget(files, entry);
			entry = NULL;
		}
	}
	if (!entry)
		return NULL;
	mapped_file_note_mapping(files, &entry->file, pid, start, end);
	return &entry->file;
}

struct mapped_file *mapped_files_get(struct mapped_files *files, uint64_t id)
{
	struct file_entry *known = file_table_find_id(files, id);
	struct file_entry *entry = known ? known : file_table_add(files);

	if (!entry)
		return NULL;
	if (!known && file_table_add_id(files, id, entry)) {
		file_table_forget(files, entry);
		return NULL;
	}
	if (!known)
		entry->id = id;
	return &entry->file;
}

struct mapped_file *mapped_files_at(const struct mapped_files *files, uint32_t index)
{
	return &files->list[index]->file;
}

void mapped_file_note_mapping(struct mapped_files *files, struct mapped_file *file, uint32_t pid,
			      uint64_t start, uint64_t end)
{
	struct file_entry *entry = file_entry(file);

	(void)files;
	entry->pid = pid;
	entry->start = start;
	entry->end = end;
	entry->unmarked_sweeps = 0;
}

int mapped_file_hold(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	int err = opened_file_request(files, entry);

	if (err)
		return err;
	entry->holds++;
	/* The other files are saved when they were opened. */
	if (entry == files->vdso)
		opened_file_save(files, entry);
	return 0;
}

void mapped_file_release(struct mapped_files *files, struct mapped_file *file)
{
	(void)files;
	file_entry(file)->holds--;
}

bool mapped_file_may_be_elf(const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return !entry->is_no_elf &&
	       (!entry->announced || entry->headers_not_read || entry->has_kernel_id);
}

uint64_t mapped_file_size(const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry->announced ? entry->identity.size : 0;
}

bool mapped_file_is_held(const struct mapped_file *file)
{
	return ((const struct file_entry *)file)->holds;
}

void mapped_file_set_build_id(struct mapped_files *files, struct mapped_file *file,
			      const char *build_id)
{
	struct file_entry *entry = file_entry(file);

	/* Without memory, it stays unknown. */
	if (!*file->build_id)
		file_entry_set_text(files, entry, file->path, build_id);
}

/* Sweeps */

void mapped_files_mark(struct mapped_files *files, uint32_t index)
{
	files->list[index]->unmarked_sweeps = 0;
}

static bool is_forgettable(const struct file_entry *entry)
{
	return !entry->holds && !entry->id && !entry->id_count && !entry->copying &&
	       !entry->pinned && !entry->opening_for_table && entry->state != FILE_REQUESTED &&
	       entry->unmarked_sweeps >= SWEEPS_FORGOTTEN;
}

/*
 * A file may be mapped for weeks, and what hung may be another file of its file system. If it
 * hangs again, that takes no more threads than FILE_OPENER_STUCK_MAX_PER_DEVICE.
 */
static void try_again(struct mapped_files *files, struct file_entry *entry)
{
	if (++entry->hung_sweeps < SWEEPS_HUNG)
		return;
	entry->hung_sweeps = 0;
	entry->state = FILE_UNTOUCHED;
	/* Without memory, the next stack or window with a frame in it requests it. */
	if (entry->holds)
		opened_file_request(files, entry);
}

static void sweep_entry(struct mapped_files *files, struct file_entry *entry)
{
	bool is_unmapped = entry->unmarked_sweeps >= SWEEPS_UNMARKED;

	if (entry->state == FILE_HUNG)
		try_again(files, entry);
	if (entry->unmarked_sweeps < SWEEPS_FORGOTTEN)
		entry->unmarked_sweeps++;
	if (is_unmapped && entry->state == FILE_UNTOUCHED)
		file_entry_release_id(files, entry);
	if (is_unmapped && entry->fd >= 0 && entry->holds)
		opened_file_copy(files, entry);
	if (is_forgettable(entry))
		file_table_forget(files, entry);
}

void mapped_files_sweep(struct mapped_files *files)
{
	file_ids_sweep(&files->ids, file_table_forget_id, files);
	mapped_files_watch(files);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			sweep_entry(files, files->list[i]);
	}
}

/* The last requests */

void mapped_files_abandon(struct mapped_files *files)
{
	if (!files || files->finished)
		return;
	file_opener_cancel(files->opener);
	file_opener_cancel(files->copier);
	file_opener_finish(files->opener);
	file_opener_finish(files->copier);
	files->finished = true;
}

void mapped_files_finish(struct mapped_files *files)
{
	if (files->finished)
		return;
	file_opener_finish(files->opener);
	opened_files_collect(files, files->opener);
	file_opener_finish(files->copier);
	opened_files_collect(files, files->copier);
	for (size_t i = 0; i < files->count; i++) {
		if (files->list[i])
			file_entry_release_id(files, files->list[i]);
	}
	files->finished = true;
}

void mapped_files_forked(struct mapped_files *files)
{
	files->finished = true;
	files->store = NULL;
}

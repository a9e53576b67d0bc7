// SPDX-License-Identifier: GPL-2.0
#include "mappings/table_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <stackbeat.h>

#include "debuginfo/file_cache.h"
#include "lib/error.h"
#include "mappings/file_opener.h"
#include "mappings/file_table.h"
#include "mappings/opened_files.h"

int mapped_files_set_table_hooks(struct mapped_files *files, const struct table_hooks *hooks)
{
	struct file_opener *opener;

	files->table_hooks = hooks ? *hooks : (struct table_hooks){.arg = NULL};
	if (!hooks || files->event >= 0)
		return 0;
	file_key_read_boot(files->root, files->boot);
	files->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (files->event < 0)
		return -errno;
	opener = opened_files_opener(files);
	if (!opener)
		return -ENOMEM;
	file_opener_free(files->opener);
	files->opener = opener;
	return 0;
}

int mapped_files_event(const struct mapped_files *files)
{
	return files->event;
}

void mapped_file_pin_for_table(struct mapped_files *files, struct mapped_file *file)
{
	(void)files;
	file_entry(file)->pinned = true;
}

void mapped_file_unpin_for_table(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);

	entry->pinned = false;
	file_entry_close_table_fd(entry);
	file_entry_release_if_opened(files, entry);
}

void mapped_file_drop_id(struct mapped_files *files, struct mapped_file *file)
{
	file_entry_release_id(files, file_entry(file));
}

int mapped_file_open_for_table(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	struct file_job *job;
	int err;

	if (entry->opening_for_table || files->finished)
		return 0;
	file_entry_close_table_fd(entry);
	/*
	 * With an id, the kernel verifies what the table is made of. A file that was opened by
	 * another id of the same identity may be a changed copy in an overlay file system.
	 */
	if (entry->fd >= 0 && !entry->id) {
		entry->table_fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		entry->table_owner = entry->owner;
		entry->table_id = 0;
		return 0;
	}
	job = opened_file_job(entry, FILE_JOB_OPEN_FOR_TABLE);
	err = job ? file_opener_add(files->opener, job) : -ENOMEM;
	entry->opening_for_table = !err;
	return err;
}

int mapped_file_table_fd(struct mapped_files *files, struct mapped_file *file, struct error *error)
{
	struct file_entry *entry = file_entry(file);
	int fd = entry->table_fd;

	(void)files;
	if (entry->opening_for_table)
		return -EAGAIN;
	entry->table_fd = -1;
	return fd >= 0 ? fd : error_errno(error, -fd, "can't be opened");
}

/* Whether the kernel compares the file of `table_stamp`: the table may be of an earlier id. */
static bool stamp_is_of_id(const struct file_entry *entry)
{
	return entry->id && entry->table_id == entry->id;
}

void mapped_file_note_stale(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);

	(void)files;
	if (stamp_is_of_id(entry))
		entry->stale_stamp = entry->table_stamp;
}

bool mapped_file_is_stale_again(const struct mapped_files *files, const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	const struct file_stamp *now = &entry->table_stamp, *stale = &entry->stale_stamp;

	(void)files;
	return stamp_is_of_id(entry) && stale->inode && now->device == stale->device &&
	       now->inode == stale->inode && now->size == stale->size &&
	       now->changed_s == stale->changed_s && now->changed_ns == stale->changed_ns;
}

uint32_t mapped_file_table_owner(const struct mapped_file *file)
{
	return ((const struct file_entry *)file)->table_owner;
}

/* The vDSO is the same one until the next boot. */
static bool vdso_table_key(const struct mapped_files *files, struct file_key *key)
{
	snprintf(key->build_id, sizeof(key->build_id), "%s", files->vdso->file.build_id);
	memcpy(key->boot, files->boot, sizeof(key->boot));
	return *key->build_id && *key->boot;
}

bool mapped_file_table_key(const struct mapped_files *files, const struct mapped_file *file,
			   struct file_key *key)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	const struct file_stamp *stamp = &entry->table_stamp;

	memset(key, 0, sizeof(*key));
	if (entry == files->vdso)
		return vdso_table_key(files, key);
	if (!entry->id || entry->table_id != entry->id || !entry->is_lasting ||
	    !stamp->is_settled || entry->table_owner == FILE_UID_ANY)
		return false;
	key->device = entry->identity.device;
	key->inode = entry->identity.inode;
	key->generation = entry->identity.generation;
	key->size = stamp->size;
	key->changed_s = stamp->changed_s;
	key->changed_ns = stamp->changed_ns;
	key->owner = entry->table_owner;
	if (entry->has_kernel_id)
		snprintf(key->build_id, sizeof(key->build_id), "%s", entry->file.build_id);
	/* Another file system may have a number without a block device after the next boot. */
	if (!major(entry->identity.device))
		memcpy(key->boot, files->boot, sizeof(key->boot));
	return major(entry->identity.device) || *key->boot;
}

void mapped_file_prove(struct mapped_files *files, struct mapped_file *file)
{
	struct file_entry *entry = file_entry(file);
	struct file_key key;

	if (entry == files->vdso || !mapped_file_table_key(files, file, &key))
		return;
	if (!entry->proven) {
		entry->proven = malloc(sizeof(*entry->proven));
		files->entries_bytes += entry->proven ? sizeof(*entry->proven) : 0;
	}
	/* Without memory, nothing that is read of the file is kept. */
	if (!entry->proven)
		return;
	*entry->proven = key;
	entry->proven_stamp = entry->table_stamp;
}

bool mapped_file_symbols_key(const struct mapped_files *files, const struct mapped_file *file,
			     int fd, struct file_key *key)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	const struct file_stamp *stamp = &entry->proven_stamp;
	struct file_owner owner;
	struct stat st;

	(void)files;
	if (!entry->proven || fstat(fd, &st) || st.st_dev != stamp->device ||
	    st.st_ino != stamp->inode || (uint64_t)st.st_size != stamp->size ||
	    st.st_ctim.tv_sec != stamp->changed_s || st.st_ctim.tv_nsec != stamp->changed_ns)
		return false;
	file_owner_read(&owner, fd);
	*key = *entry->proven;
	return owner.uid == key->owner;
}

uint64_t mapped_file_kernel_id(const struct mapped_files *files, const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry == files->vdso ? STACKBEAT_FILE_VDSO : entry->id;
}

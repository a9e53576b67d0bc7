// SPDX-License-Identifier: GPL-2.0
#include "mappings/opened_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "lib/error.h"
#include "mappings/binary_store.h"
#include "mappings/file_opener.h"
#include "mappings/file_table.h"
#include "mappings/find_mapped_file.h"
#include "mappings/kept_files.h"

/* gcc's analyzer loses sight of what is stored in the table, and reports it as leaked. */
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

/* Requests */

struct file_opener *opened_files_opener(const struct mapped_files *files)
{
	const struct file_opener_config config = {
		.root = files->root,
		.open = files->source.open,
		.arg = files->source.arg,
		.event = files->event >= 0 ? files->event : 0,
		.timeout_s = files->source.timeout_s,
	};

	return file_opener_new(&config);
}

struct file_opener *opened_files_copier(const struct mapped_files *files,
					struct binary_store *store,
					const struct sandbox_server *sandbox)
{
	const struct file_opener_config config = {
		.root = files->root,
		.store = store,
		.sandbox = sandbox,
		.idle = true,
		.timeout_s = files->source.timeout_s,
	};

	return file_opener_new(&config);
}

struct file_job *opened_file_job(const struct file_entry *entry, enum file_job_kind kind)
{
	struct file_job *job = file_job_new(kind, entry->file.index);

	if (!job)
		return NULL;
	job->path = strdup(entry->file.path);
	job->identity = entry->identity;
	job->id = entry->id;
	job->pid = entry->pid;
	job->start = entry->start;
	job->end = entry->end;
	return job;
}

int opened_file_request(struct mapped_files *files, struct file_entry *entry)
{
	struct file_job *job;
	int err;

	if (entry->state != FILE_UNTOUCHED || files->finished)
		return 0;
	if (!entry->announced) {
		entry->requested_early = true;
		return 0;
	}
	if (files->skip_symbols && !entry->headers_not_read && !files->store)
		return 0;
	job = opened_file_job(entry, FILE_JOB_OPEN);
	if (!job)
		return -ENOMEM;
	err = file_opener_add(files->opener, job);
	if (!err)
		entry->state = FILE_REQUESTED;
	return err;
}

/* Returns a job of the copier with its own descriptor of the file, or NULL with errno set. */
static struct file_job *copier_job(const struct file_entry *entry, enum file_job_kind kind)
{
	struct file_job *job = file_job_new(kind, entry->file.index);
	int code;

	if (!job)
		return NULL;
	job->identity = entry->identity;
	job->owner = (struct file_owner){entry->owner, !entry->is_untrusted};
	job->fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
	if (job->fd >= 0)
		return job;
	code = errno;
	file_job_free(job);
	errno = code;
	return NULL;
}

/* Too many descriptors */

static size_t list_kept(const struct mapped_files *files, struct kept_file *kept)
{
	size_t count = 0;

	for (size_t i = 0; i < files->count; i++) {
		const struct file_entry *entry = files->list[i];

		if (entry && entry->fd >= 0 && entry != files->vdso)
			kept[count++] = (struct kept_file){
				.file = entry->file.index,
				.owner = entry->owner,
				.is_linked = is_file_linked(entry->fd),
			};
	}
	return count;
}

/* Closes descriptors if there are too many, and one eighth more, as it takes a while. */
static void bound_kept(struct mapped_files *files)
{
	size_t max = kept_files_max(files->source.open_max ? files->source.open_max
							   : MAPPED_FILES_OPEN_MAX);
	struct kept_file *kept;
	size_t count;

	if (files->kept_count <= max)
		return;
	kept = calloc(files->kept_count, sizeof(*kept));
	if (!kept)
		return;
	count = list_kept(files, kept);
	kept_files_sort(kept, count);
	for (size_t i = 0; i < count && files->kept_count > max - max / 8; i++)
		file_entry_close(files, files->list[kept[i].file]);
	free(kept);
}

/* Saved files */

static void save_failed(struct mapped_files *files, const struct error *problem)
{
	if (!files->counts.not_saved)
		files->save_problem = *problem;
	files->counts.not_saved++;
}

static int request_save(struct mapped_files *files, const struct file_entry *entry)
{
	struct file_job *job = copier_job(entry, FILE_JOB_SAVE);

	if (!job)
		return -errno;
	if (*entry->file.build_id) {
		job->build_id = strdup(entry->file.build_id);
		if (!job->build_id) {
			file_job_free(job);
			return -ENOMEM;
		}
	}
	return file_opener_add(files->copier, job);
}

void opened_file_save(struct mapped_files *files, struct file_entry *entry)
{
	struct error problem;
	int err;

	if (!files->store || entry->saving || entry->fd < 0)
		return;
	entry->saving = true;
	if (!*entry->file.build_id && !entry->headers_not_read) {
		files->counts.without_id++;
		return;
	}
	err = request_save(files, entry);
	if (!err)
		return;
	error_errno(&problem, -err, "%s", entry->file.path);
	save_failed(files, &problem);
}

int mapped_files_save(struct mapped_files *files, const char *directory,
		      const struct sandbox_server *sandbox, struct error *error)
{
	struct binary_store *store = binary_store_new(directory, error);
	struct file_opener *copier;

	if (!store)
		return -errno;
	copier = opened_files_copier(files, store, sandbox);
	if (!copier) {
		binary_store_free(store);
		return error_errno(error, ENOMEM, "%s", directory);
	}
	file_opener_free(files->copier);
	files->copier = copier;
	files->store = store;
	return 0;
}

void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts)
{
	*counts = files->counts;
}

const char *mapped_files_save_problem(const struct mapped_files *files)
{
	return files->save_problem.text;
}

/* Results of the threads */

static void finish_open(struct mapped_files *files, struct file_entry *entry, struct file_job *job)
{
	entry->state = job->err == -ETIMEDOUT ? FILE_HUNG : FILE_OPENED;
	file_entry_release_id(files, entry);
	if (job->err) {
		file_entry_set_problem(files, entry, job->problem.text);
		return;
	}
	entry->owner = job->owner.uid;
	entry->is_untrusted = !job->owner.is_trusted;
	entry->is_no_elf = job->is_no_elf;
	file_entry_clear_problem(entry);
	file_entry_keep(files, entry, job->fd);
	job->fd = -1;
	files->counts.opened++;
	opened_file_save(files, entry);
	bound_kept(files);
}

/* A file that was closed meanwhile, or can't be copied, stays as it is. */
static void finish_copy(struct mapped_files *files, struct file_entry *entry, struct file_job *job)
{
	entry->copying = false;
	if (job->err || entry->fd < 0) {
		files->copies_bytes -= entry->identity.size;
		entry->stays = true;
		return;
	}
	file_entry_keep(files, entry, job->fd);
	job->fd = -1;
	entry->is_copy = true;
}

static void finish_open_for_table(struct file_entry *entry, struct file_job *job)
{
	entry->opening_for_table = false;
	entry->table_owner = job->err ? FILE_UID_ANY : job->owner.uid;
	entry->table_id = job->err ? 0 : job->id;
	entry->table_stamp = job->stamp;
	if (!entry->pinned)
		return;
	file_entry_close_table_fd(entry);
	entry->table_fd = job->err ? job->err : job->fd;
	job->fd = -1;
}

static void mapped_files_finish_job(struct mapped_files *files, struct file_job *job)
{
	struct file_entry *entry = files->list[job->file];

	switch (job->kind) {
	case FILE_JOB_OPEN:
		finish_open(files, entry, job);
		break;
	case FILE_JOB_OPEN_FOR_TABLE:
		finish_open_for_table(entry, job);
		break;
	case FILE_JOB_COPY:
		finish_copy(files, entry, job);
		break;
	case FILE_JOB_SAVE: /* its entry may be another one by now */
		if (job->err == -ENODATA)
			files->counts.without_id++;
		else if (job->err)
			save_failed(files, &job->problem);
		else
			files->counts.saved++;
		break;
	}
	file_job_free(job);
}

void opened_files_collect(struct mapped_files *files, struct file_opener *opener)
{
	struct file_job *job = file_opener_take(opener), *next;

	for (; job; job = next) {
		next = job->next;
		mapped_files_finish_job(files, job);
	}
}

void mapped_files_collect(struct mapped_files *files)
{
	eventfd_t count;

	if (files->event >= 0)
		eventfd_read(files->event, &count);
	opened_files_collect(files, files->opener);
	opened_files_collect(files, files->copier);
}

void mapped_files_watch(struct mapped_files *files)
{
	file_opener_watch(files->opener);
	file_opener_watch(files->copier);
	mapped_files_collect(files);
}

/* Copies of files that no process maps any more */

void opened_file_copy(struct mapped_files *files, struct file_entry *entry)
{
	struct file_job *job;

	if (entry->is_copy || entry->copying || entry->stays || !is_file_linked(entry->fd))
		return;
	entry->stays = entry->identity.size > MAPPED_FILES_COPY_MAX ||
		       entry->identity.size > MAPPED_FILES_COPIES_MAX - files->copies_bytes;
	job = entry->stays ? NULL : copier_job(entry, FILE_JOB_COPY);
	if (!job || file_opener_add(files->copier, job))
		return;
	entry->copying = true;
	files->copies_bytes += entry->identity.size;
}

/* Files that were opened */

bool mapped_file_identity(const struct mapped_file *file, struct file_identity *identity)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	*identity = entry->identity;
	return entry->announced && identity->inode && entry->fd >= 0;
}

uint32_t mapped_file_owner(const struct mapped_file *file)
{
	const struct file_entry *entry = (const struct file_entry *)file;

	return entry->state == FILE_OPENED && !*file->problem ? entry->owner : FILE_UID_ANY;
}

/* Returns an fd at a place where the file may be: the same inode, unless its build ID proves it. */
static int open_at_place(const struct mapped_files *files, const struct file_entry *entry,
			 unsigned int number)
{
	const struct file_place place = {
		.path = entry->file.path,
		.pid = entry->pid,
		.start = entry->start,
		.end = entry->end,
	};

	return find_mapped_file_timed(files->root, &place, number,
				      entry->has_kernel_id ? NULL : &entry->identity);
}

int mapped_file_open_candidate(const struct mapped_files *files, const struct mapped_file *file,
			       unsigned int candidate, struct error *error)
{
	const struct file_entry *entry = (const struct file_entry *)file;
	int fd;

	if (candidate == 0 && entry->fd >= 0) {
		fd = fcntl(entry->fd, F_DUPFD_CLOEXEC, 0);
		return fd < 0 ? -errno : fd;
	}
	if (entry->announced && entry->state != FILE_HUNG && candidate <= FILE_PLACES)
		return candidate ? open_at_place(files, entry, candidate - 1) : -ESTALE;
	if (*file->problem)
		error_set(error, ENOENT, "%s", file->problem);
	return -ENOENT;
}

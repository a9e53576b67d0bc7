// SPDX-License-Identifier: GPL-2.0
#include "record/table_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "mappings/mapped_files.h"
#include "mappings/mapped_vdso.h"
#include "mappings/table_files.h"
#include "runtime/go_layout.h"
#include "unwind/job.h"
#include "unwind/table_cache.h"

#define NO_FILE UINT32_MAX

/* Nanoseconds before the first retry; each further one waits twice as long. */
#define RETRY_NS INT64_C(1000000000)
/* Retries after a failure of this machine, which the file does not cause. */
#define RETRIES_MAX 6u
/* Retries after a failure that the file may cause. */
#define WORKER_RETRIES_MAX 2u

enum state {
	TABLE_UNKNOWN, /* not in memory */
	TABLE_WAITING, /* its file is pinned */
	TABLE_LATER, /* it could not be made, and is retried; its file is pinned */
	TABLE_READY,
	TABLE_NONE,
};

struct table {
	struct stackbeat_unwind_table *bytes; /* owned, if TABLE_READY */
	struct stackbeat_unwind_view view; /* of `bytes` */
	uint64_t used; /* tables->lookups at the last lookup */
	uint8_t state; /* enum state */
	bool is_urgent; /* a copy of a stack waits for it */
	bool is_pinned; /* its file */
	bool was_opened; /* so that the owner of its file is known */
	bool is_counted;
	bool was_refused; /* counted as refused */
	bool was_checked; /* the module has found that the file is the mapped one */
	bool is_stale; /* the module has found that it is not */
	int refusal; /* of the module, a negative errno value; 0: it has accepted it, or was not
			asked */
	unsigned int retries; /* since the last success, or report of the file */
	int64_t retry_at; /* CLOCK_MONOTONIC, ns; 0: no retry. The file is pinned until then. */
};

/* A file whose table is being made. */
struct table_job {
	uint32_t file; /* NO_FILE: none */
	bool is_running; /* `job` was started; else the file is being opened */
	bool is_urgent; /* a sample waited for a table when the slot was filled */
	struct unwind_job job;
};

struct unwind_tables {
	struct unwind_tables_config config;
	struct mapped_files *files;
	struct table *list; /* by index of the file */
	size_t count, capacity;
	uint32_t *waiting; /* files without a slot, in the order of their records */
	size_t waiting_count, waiting_capacity;
	struct table_job slots[UNWIND_TABLES_JOBS];
	uint64_t lookups;
	int64_t next_retry; /* the first retry_at; 0: none */
	size_t bytes; /* of all tables */
	bool stopped;
	bool is_urgent; /* a sample waited for a table when unwind_tables_run() began */
	struct unwind_tables_counts counts;
	struct error refusal;
};

static int file_is_missing(struct mapped_file *file, void *arg);

/* The list */

/* Returns the table of a file, or NULL when out of memory. */
static struct table *get_table(struct unwind_tables *tables, const struct mapped_file *file)
{
	size_t missing = file->index >= tables->count ? file->index + 1 - tables->count : 0;

	if (array_reserve(&tables->list, &tables->capacity, tables->count, missing,
			  sizeof(*tables->list)))
		return NULL;
	if (missing)
		memset(tables->list + tables->count, 0, missing * sizeof(*tables->list));
	tables->count += missing;
	return &tables->list[file->index];
}

static void drop_bytes(struct unwind_tables *tables, struct table *table)
{
	if (table->state != TABLE_READY)
		return;
	tables->bytes -= table->bytes->size;
	free(table->bytes);
	table->bytes = NULL;
	table->state = table->retry_at ? TABLE_LATER : TABLE_UNKNOWN;
}

static void file_is_forgotten(uint32_t index, void *arg)
{
	struct unwind_tables *tables = arg;

	if (index >= tables->count)
		return;
	drop_bytes(tables, &tables->list[index]);
	tables->list[index] = (struct table){.bytes = NULL};
}

/* Drops those that were not looked up for the longest time. */
static void unwind_tables_bound_memory(struct unwind_tables *tables)
{
	while (tables->bytes > tables->config.memory) {
		struct table *oldest = NULL;

		for (size_t i = 0; i < tables->count; i++) {
			struct table *table = &tables->list[i];

			if (table->state == TABLE_READY && (!oldest || table->used < oldest->used))
				oldest = table;
		}
		if (!oldest)
			return;
		drop_bytes(tables, oldest);
	}
}

struct unwind_tables *unwind_tables_new(struct mapped_files *files,
					const struct unwind_tables_config *config)
{
	struct unwind_tables *tables = calloc(1, sizeof(*tables));
	const struct table_hooks hooks = {file_is_missing, file_is_forgotten, tables};
	struct mapped_file *vdso;
	int err;

	if (!tables)
		return NULL;
	tables->config = *config;
	tables->files = files;
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++)
		tables->slots[i].file = NO_FILE;
	err = mapped_files_set_table_hooks(files, &hooks);
	vdso = mapped_files_vdso(files);
	if (!err && vdso)
		err = file_is_missing(vdso, tables);
	if (!err)
		return tables;
	unwind_tables_free(tables);
	errno = -err;
	return NULL;
}

void unwind_tables_free(struct unwind_tables *tables)
{
	if (!tables)
		return;
	unwind_tables_stop(tables);
	mapped_files_set_table_hooks(tables->files, NULL);
	for (size_t i = 0; i < tables->count; i++)
		free(tables->list[i].bytes);
	free(tables->list);
	free(tables->waiting);
	free(tables);
}

/* Retries */

static void unwind_tables_pin(struct unwind_tables *tables, struct mapped_file *file,
			      struct table *table)
{
	if (!table->is_pinned)
		mapped_file_pin_for_table(tables->files, file);
	table->is_pinned = true;
}

static void unwind_tables_unpin(struct unwind_tables *tables, struct mapped_file *file,
				struct table *table)
{
	if (table->is_pinned)
		mapped_file_unpin_for_table(tables->files, file);
	table->is_pinned = false;
}

/* Causes that have nothing to do with the file. */
static bool is_of_machine(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EAGAIN ||
	       err == -ENOSPC || err == -EDQUOT;
}

/* Whether a failure may pass, after fewer than its number of retries. */
static bool may_retry(const struct table *table, int err)
{
	if (is_of_machine(err))
		return table->retries < RETRIES_MAX;
	return (err == -ETIMEDOUT || err == -ECANCELED) && table->retries < WORKER_RETRIES_MAX;
}

static void note_retry(struct unwind_tables *tables, const struct table *table)
{
	if (table->retry_at && (!tables->next_retry || table->retry_at < tables->next_retry))
		tables->next_retry = table->retry_at;
}

static void schedule_retry(struct unwind_tables *tables, struct mapped_file *file,
			   struct table *table)
{
	int64_t delay = tables->config.retry_ns ? tables->config.retry_ns : RETRY_NS;

	table->retry_at = now_ns(CLOCK_MONOTONIC) + (delay << table->retries);
	table->retries++;
	unwind_tables_pin(tables, file, table);
	note_retry(tables, table);
}

/* Results */

static void unwind_tables_report(const struct unwind_tables *tables, const struct mapped_file *file,
				 const char *text)
{
	struct error line;

	if (!tables->config.message)
		return;
	error_set(&line, 0, "unwind table of %s: %s", *file->path ? file->path : "an unknown file",
		  text);
	tables->config.message(line.text, tables->config.arg);
}

/*
 * What was compiled is not the mapped file: in an overlay file system, its path leads to a copy
 * that was changed. Nothing is known of the mapped file until it is reported by another path.
 */
static void drop_stale(struct unwind_tables *tables, struct mapped_file *file, struct table *table)
{
	drop_bytes(tables, table);
	table->state = TABLE_UNKNOWN;
	table->is_stale = true;
	table->is_urgent = false;
	if (mapped_file_is_stale_again(tables->files, file))
		return;
	mapped_file_note_stale(tables->files, file);
	tables->counts.failed++;
	unwind_tables_report(tables, file, "the file was changed after it was mapped");
}

static void count_failure(struct unwind_tables *tables, struct table *table)
{
	tables->counts.failed += !table->is_counted;
	table->is_counted = true;
}

static void count_refusal(struct unwind_tables *tables, const struct mapped_file *file,
			  struct table *table)
{
	if (table->was_refused)
		return;
	table->was_refused = true;
	if (!tables->counts.refused)
		error_errno(&tables->refusal, -table->refusal, "%s", file->path);
	tables->counts.refused++;
}

static void report_refusal(const struct unwind_tables *tables, const struct mapped_file *file,
			   const struct table *table, int err)
{
	struct error problem;

	if (table->refusal || table->was_refused)
		return;
	error_errno(&problem, -err, "the module has refused it");
	unwind_tables_report(tables, file, problem.text);
}

/*
 * Passes the table of a file to the module, or that it has none. Returns whether the module has
 * found that what was opened is the mapped file.
 */
static bool unwind_tables_push(struct unwind_tables *tables, struct mapped_file *file,
			       struct table *table)
{
	uint64_t id = mapped_file_kernel_id(tables->files, file);
	int err;

	if (!id || tables->stopped)
		return false;
	err = tables->config.push(id, table->bytes, tables->config.arg);
	if (err == -ESTALE) {
		drop_stale(tables, file, table);
		return false;
	}
	table->was_checked = table->was_checked || err != -ENOENT;
	/* The file was released, or the table of another session is there. */
	if (!err || err == -ENOENT || err == -EEXIST) {
		table->refusal = 0;
		table->retries = 0;
		return err != -ENOENT;
	}
	report_refusal(tables, file, table, err);
	table->refusal = err;
	if (is_of_machine(err) && may_retry(table, err))
		schedule_retry(tables, file, table);
	else
		count_refusal(tables, file, table);
	return false;
}

/* Ends the work on a file, unless a retry follows. */
static void unwind_tables_settle(struct unwind_tables *tables, struct mapped_file *file,
				 struct table *table)
{
	if (table->retry_at)
		return;
	unwind_tables_unpin(tables, file, table);
	if (table->is_stale)
		mapped_file_drop_id(tables->files, file);
}

/* `summary`: of what was compiled now, and is kept; or NULL. */
static void finish_table(struct unwind_tables *tables, struct mapped_file *file,
			 struct stackbeat_unwind_table *bytes, const struct unwind_summary *summary)
{
	struct table *table = &tables->list[file->index];
	struct file_key key;

	table->state = bytes ? TABLE_READY : TABLE_NONE;
	table->bytes = bytes;
	table->is_urgent = false;
	table->used = ++tables->lookups;
	if (bytes) {
		stackbeat_unwind_open(bytes, &table->view);
		tables->bytes += bytes->size;
	}
	if (unwind_tables_push(tables, file, table) && tables->config.cache) {
		mapped_file_prove(tables->files, file);
		if (summary && mapped_file_table_key(tables->files, file, &key))
			table_cache_store(tables->config.cache, &key, summary, bytes);
	}
	unwind_tables_settle(tables, file, table);
}

/*
 * The file is as if it had no table, for now if it is retried. The module learns that it has none
 * only if the file may be the cause: else the next record of it is a reason to try again.
 */
static void unwind_tables_fail(struct unwind_tables *tables, struct mapped_file *file, int err,
			       const char *why)
{
	struct table *table = &tables->list[file->index];
	const bool retries = may_retry(table, err);
	struct error text;

	error_set(&text, 0, "%s%s", why, retries ? "; it is tried again" : "");
	if (!retries || !table->retries)
		unwind_tables_report(tables, file, text.text);
	if (!retries)
		count_failure(tables, table);
	if (!retries && !is_of_machine(err)) {
		finish_table(tables, file, NULL, NULL);
		return;
	}
	table->state = retries ? TABLE_LATER : TABLE_NONE;
	table->was_checked = false;
	table->is_urgent = false;
	if (retries)
		schedule_retry(tables, file, table);
	unwind_tables_settle(tables, file, table);
}

static void count_result(struct unwind_tables *tables, const struct mapped_file *file,
			 const struct unwind_summary *summary, bool is_cached)
{
	struct table *table = &tables->list[file->index];
	const struct go_layout *layout;
	struct error text;

	if (table->is_counted)
		return;
	table->is_counted = true;
	tables->counts.cached += is_cached;
	if (!summary->size) {
		tables->counts.without++;
		unwind_tables_report(tables, file,
				     unwind_result_text((enum unwind_result)summary->result));
		return;
	}
	tables->counts.compiled += !is_cached;
	tables->counts.unsupported += summary->unsupported;
	layout = go_layout_of_version(1, summary->go_minor);
	if (layout && summary->go_minor > layout->last)
		tables->counts.unknown_go = MAX(tables->counts.unknown_go, summary->go_minor);
	error_set(&text, 0,
		  "%" PRIu64 " rows of %" PRIu64 " functions, %.1f kB; not supported: %" PRIu64
		  ", broken: %" PRIu64 "%s",
		  summary->rows, summary->functions, (double)summary->size / 1000,
		  summary->unsupported, summary->broken, is_cached ? "; from the cache" : "");
	unwind_tables_report(tables, file, text.text);
}

/* Jobs */

static void table_job_finish(struct unwind_tables *tables, struct table_job *slot)
{
	struct mapped_file *file = mapped_files_at(tables->files, slot->file);
	struct stackbeat_unwind_table *bytes;
	struct unwind_summary summary;
	int err = unwind_job_finish(&slot->job, &summary, &bytes);
	struct error problem;

	slot->file = NO_FILE;
	/* Of the memory that the worker may use, or of all. */
	if (!err && summary.result == UNWIND_NO_MEMORY &&
	    may_retry(&tables->list[file->index], -ECANCELED)) {
		unwind_tables_fail(tables, file, -ECANCELED, unwind_result_text(UNWIND_NO_MEMORY));
		return;
	}
	if (err) {
		error_errno(&problem, -err, "can't be compiled");
		unwind_tables_fail(tables, file, err, problem.text);
		return;
	}
	/* A table that the module has refused may be made again for its next retry only. */
	if (!tables->list[file->index].refusal)
		tables->list[file->index].retries = 0;
	count_result(tables, file, &summary, false);
	finish_table(tables, file, bytes, &summary);
}

/* Whether a sample waits for a table. */
static bool is_any_urgent(const struct unwind_tables *tables)
{
	for (size_t i = 0; i < tables->waiting_count; i++) {
		if (tables->list[tables->waiting[i]].is_urgent)
			return true;
	}
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		uint32_t file = tables->slots[i].file;

		if (file != NO_FILE && tables->list[file].is_urgent)
			return true;
	}
	return false;
}

/*
 * Whether an opened file has to wait for a worker. An owner other than root has one worker at most,
 * and these owners together leave one to root. A file of an unknown owner counts as one of each of
 * these owners.
 */
static bool has_to_wait(const struct unwind_tables *tables, const struct mapped_file *file)
{
	const uint32_t owner = mapped_file_table_owner(file);
	unsigned int others = 0;

	if (!owner)
		return false;
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		const struct table_job *slot = &tables->slots[i];
		uint32_t served;

		if (slot->file == NO_FILE || !slot->is_running)
			continue;
		served = mapped_file_table_owner(mapped_files_at(tables->files, slot->file));
		if (served && (served == owner || served == FILE_UID_ANY || owner == FILE_UID_ANY))
			return true;
		others += served != 0;
	}
	return others == UNWIND_TABLES_JOBS - 1;
}

/* Empties a slot whose file has to wait. Returns whether it could. */
static bool put_back(struct unwind_tables *tables, struct table_job *slot)
{
	if (array_reserve(&tables->waiting, &tables->waiting_capacity, tables->waiting_count, 1,
			  sizeof(*tables->waiting)))
		return false;
	tables->waiting[tables->waiting_count++] = slot->file;
	slot->file = NO_FILE;
	return true;
}

/* Returns whether the cache has what was compiled of an open file: the slot is empty then. */
static bool finish_cached(struct unwind_tables *tables, struct table_job *slot)
{
	struct mapped_file *file = mapped_files_at(tables->files, slot->file);
	struct stackbeat_unwind_table *bytes;
	struct unwind_summary summary;
	struct file_key key;

	if (!tables->config.cache || !mapped_file_table_key(tables->files, file, &key) ||
	    table_cache_find(tables->config.cache, &key, &summary, &bytes))
		return false;
	slot->file = NO_FILE;
	count_result(tables, file, &summary, true);
	finish_table(tables, file, bytes, NULL);
	return true;
}

static void table_job_start(struct unwind_tables *tables, struct table_job *slot)
{
	struct mapped_file *file = mapped_files_at(tables->files, slot->file);
	struct error problem = {""};
	int fd = mapped_file_table_fd(tables->files, file, &problem), err;

	if (fd == -EAGAIN)
		return;
	tables->list[file->index].was_opened = fd >= 0;
	/* The kernel reports it again for each process that maps it. */
	if (fd >= 0 && mapped_file_is_stale_again(tables->files, file)) {
		close(fd);
		slot->file = NO_FILE;
		drop_stale(tables, file, &tables->list[file->index]);
		unwind_tables_settle(tables, file, &tables->list[file->index]);
		return;
	}
	if (fd >= 0 && finish_cached(tables, slot)) {
		close(fd);
		return;
	}
	if (fd >= 0 && has_to_wait(tables, file) && put_back(tables, slot)) {
		close(fd);
		return;
	}
	err = fd < 0 ? fd
		     : unwind_job_start(&slot->job, tables->config.sandbox, fd,
					slot->is_urgent || tables->is_urgent);
	if (fd >= 0)
		close(fd);
	if (!err) {
		slot->is_running = true;
		return;
	}
	if (fd >= 0)
		error_errno(&problem, -err, "can't start a worker");
	slot->file = NO_FILE;
	unwind_tables_fail(tables, file, err, problem.text);
}

static bool table_job_has_ended(const struct table_job *slot)
{
	struct pollfd lifeline = {.fd = slot->job.lifeline, .events = POLLIN};

	return poll(&lifeline, 1, 0) > 0 || now_ns(CLOCK_MONOTONIC) >= slot->job.deadline;
}

static void run_slot(struct unwind_tables *tables, struct table_job *slot)
{
	if (slot->file != NO_FILE && !slot->is_running)
		table_job_start(tables, slot);
	else if (slot->file != NO_FILE && table_job_has_ended(slot))
		table_job_finish(tables, slot);
}

static unsigned int unwind_tables_priority(const struct unwind_tables *tables, uint32_t index)
{
	return tables->list[index].is_urgent
		       ? 2
		       : mapped_file_is_held(mapped_files_at(tables->files, index));
}

/*
 * Removes the file with the highest priority, the first one of these, from those that wait and may
 * have a worker. Returns NO_FILE if there is none.
 */
static uint32_t take_waiting(struct unwind_tables *tables)
{
	size_t best = tables->waiting_count;
	uint32_t index;

	for (size_t i = 0; i < tables->waiting_count; i++) {
		index = tables->waiting[i];
		if (tables->list[index].was_opened &&
		    has_to_wait(tables, mapped_files_at(tables->files, index)))
			continue;
		if (best == tables->waiting_count ||
		    unwind_tables_priority(tables, index) >
			    unwind_tables_priority(tables, tables->waiting[best]))
			best = i;
	}
	if (best == tables->waiting_count)
		return NO_FILE;
	index = tables->waiting[best];
	tables->waiting_count--;
	memmove(tables->waiting + best, tables->waiting + best + 1,
		(tables->waiting_count - best) * sizeof(*tables->waiting));
	return index;
}

static void fill_slot(struct unwind_tables *tables, struct table_job *slot)
{
	struct mapped_file *file;

	while (slot->file == NO_FILE) {
		*slot = (struct table_job){
			.file = take_waiting(tables),
			.is_urgent = tables->is_urgent,
		};
		if (slot->file == NO_FILE)
			return;
		file = mapped_files_at(tables->files, slot->file);
		if (mapped_file_open_for_table(tables->files, file)) {
			slot->file = NO_FILE;
			unwind_tables_fail(tables, file, -ENOMEM, "can't be opened: out of memory");
			continue;
		}
		table_job_start(tables, slot);
	}
}

size_t unwind_tables_poll(const struct unwind_tables *tables, struct pollfd fds[UNWIND_TABLES_FDS])
{
	size_t count = 0;

	if (tables->stopped)
		return 0;
	fds[count++] = (struct pollfd){.fd = mapped_files_event(tables->files), .events = POLLIN};
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		const struct table_job *slot = &tables->slots[i];

		if (slot->file != NO_FILE && slot->is_running)
			fds[count++] = (struct pollfd){.fd = slot->job.lifeline, .events = POLLIN};
	}
	return count;
}

/* Requests */

/* Returns 0, or -ENOMEM with nothing changed. */
static int unwind_tables_want(struct unwind_tables *tables, struct mapped_file *file,
			      struct table *table)
{
	if (array_reserve(&tables->waiting, &tables->waiting_capacity, tables->waiting_count, 1,
			  sizeof(*tables->waiting)))
		return -ENOMEM;
	unwind_tables_pin(tables, file, table);
	tables->waiting[tables->waiting_count++] = file->index;
	table->state = TABLE_WAITING;
	table->retry_at = 0;
	return 0;
}

static void unwind_tables_retry(struct unwind_tables *tables, struct mapped_file *file,
				struct table *table)
{
	if (table->state == TABLE_LATER) {
		if (unwind_tables_want(tables, file, table))
			table->retry_at += RETRY_NS;
		return;
	}
	table->retry_at = 0;
	unwind_tables_push(tables, file, table);
	unwind_tables_settle(tables, file, table);
}

static void retry_tables(struct unwind_tables *tables)
{
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (!tables->next_retry || now < tables->next_retry)
		return;
	tables->next_retry = 0;
	for (size_t i = 0; i < tables->count; i++) {
		struct table *table = &tables->list[i];

		if (table->retry_at && now >= table->retry_at)
			unwind_tables_retry(tables, mapped_files_at(tables->files, (uint32_t)i),
					    table);
		note_retry(tables, table);
	}
}

void unwind_tables_run(struct unwind_tables *tables)
{
	retry_tables(tables);
	unwind_tables_bound_memory(tables);
	/* The walk that waits for a table which is finished below may need the next one, too. */
	tables->is_urgent = is_any_urgent(tables);
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		run_slot(tables, &tables->slots[i]);
		fill_slot(tables, &tables->slots[i]);
	}
}

/* See struct table_hooks. */
static int file_is_missing(struct mapped_file *file, void *arg)
{
	struct unwind_tables *tables = arg;
	struct table *table = get_table(tables, file);

	if (!table)
		return -ENOMEM;
	if (tables->stopped || table->state == TABLE_WAITING || table->state == TABLE_LATER)
		return 0;
	if (!table->retry_at)
		table->retries = 0;
	/* The module has dropped it. */
	if (table->was_checked && table->state != TABLE_UNKNOWN) {
		table->retry_at = 0;
		unwind_tables_push(tables, file, table);
		unwind_tables_settle(tables, file, table);
		return 0;
	}
	/* A file that had no id may be another one than the mapped one. */
	drop_bytes(tables, table);
	table->is_stale = false;
	return unwind_tables_want(tables, file, table);
}

enum unwind_table_state unwind_tables_find(struct unwind_tables *tables, struct mapped_file *file,
					   const struct stackbeat_unwind_view **view)
{
	struct table *table = get_table(tables, file);

	*view = NULL;
	if (table && table->state == TABLE_UNKNOWN && !table->is_stale && !tables->stopped &&
	    unwind_tables_want(tables, file, table))
		table = NULL;
	if (!table || table->state == TABLE_NONE || table->state == TABLE_UNKNOWN ||
	    table->state == TABLE_LATER)
		return UNWIND_TABLE_NONE;
	if (table->state == TABLE_WAITING) {
		table->is_urgent = true;
		return UNWIND_TABLE_PENDING;
	}
	table->used = ++tables->lookups;
	*view = &table->view;
	return UNWIND_TABLE_READY;
}

/* The end */

/* Ends the work on a file, whose retry does not come any more. */
static void unwind_tables_give_up(struct unwind_tables *tables, struct mapped_file *file)
{
	struct table *table = &tables->list[file->index];

	if (table->refusal)
		count_refusal(tables, file, table);
	else if (table->retries)
		count_failure(tables, table);
	table->retry_at = 0;
	if (table->state == TABLE_WAITING || table->state == TABLE_LATER)
		table->state = TABLE_UNKNOWN;
	unwind_tables_unpin(tables, file, table);
}

void unwind_tables_stop(struct unwind_tables *tables)
{
	struct stackbeat_unwind_table *bytes;
	struct unwind_summary summary;

	tables->stopped = true;
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		struct table_job *slot = &tables->slots[i];

		if (slot->file != NO_FILE && slot->is_running) {
			unwind_job_finish(&slot->job, &summary, &bytes);
			free(bytes);
		}
		slot->file = NO_FILE;
	}
	for (size_t i = 0; i < tables->count; i++) {
		if (tables->list[i].is_pinned)
			unwind_tables_give_up(tables, mapped_files_at(tables->files, (uint32_t)i));
	}
	tables->waiting_count = 0;
	tables->next_retry = 0;
}

void unwind_tables_counts(const struct unwind_tables *tables, struct unwind_tables_counts *counts)
{
	*counts = tables->counts;
}

const char *unwind_tables_refusal(const struct unwind_tables *tables)
{
	return tables->refusal.text;
}

size_t unwind_tables_bytes(const struct unwind_tables *tables)
{
	return tables->bytes;
}

size_t unwind_tables_list_bytes(const struct unwind_tables *tables)
{
	return tables->capacity * sizeof(*tables->list) +
	       tables->waiting_capacity * sizeof(*tables->waiting);
}

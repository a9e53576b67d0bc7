// SPDX-License-Identifier: GPL-2.0
#include "record/unwind_tables.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "process/mapped_files.h"
#include "unwind/job.h"

#define NO_FILE UINT32_MAX

enum state {
	TABLE_UNKNOWN, /* not in memory */
	TABLE_WAITING, /* its file is pinned */
	TABLE_READY,
	TABLE_NONE,
};

struct table {
	struct stackbeat_unwind_table *bytes; /* owned, if TABLE_READY */
	struct stackbeat_unwind_view view; /* of `bytes` */
	uint64_t used; /* tables->lookups at the last lookup */
	uint8_t state; /* enum state */
	bool is_urgent; /* a copy of a stack waits for it */
	bool is_counted;
	bool was_refused;
};

/* A file whose table is being made. */
struct slot {
	uint32_t file; /* NO_FILE: none */
	bool is_running; /* `job` was started; else the file is being opened */
	struct unwind_job job;
};

struct unwind_tables {
	struct unwind_tables_config config;
	struct mapped_files *files;
	struct table *list; /* by index of the file */
	size_t count, capacity;
	uint32_t *waiting; /* files without a slot, in the order of their records */
	size_t waiting_count, waiting_capacity;
	struct slot slots[UNWIND_TABLES_JOBS];
	uint64_t lookups;
	size_t bytes; /* of all tables */
	bool stopped;
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
	table->state = TABLE_UNKNOWN;
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
static void bound_memory(struct unwind_tables *tables)
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

/* Results */

static void report(const struct unwind_tables *tables, const struct mapped_file *file,
		   const char *text)
{
	struct error line;

	if (!tables->config.message)
		return;
	error_set(&line, 0, "unwind table of %s: %s", *file->path ? file->path : "an unknown file",
		  text);
	tables->config.message(line.text, tables->config.arg);
}

/* Passes the table of a file to the module, or that it has none. */
static void push(struct unwind_tables *tables, struct mapped_file *file, struct table *table)
{
	uint64_t id = mapped_file_kernel_id(tables->files, file);
	struct error problem;
	int err;

	if (!id || tables->stopped)
		return;
	err = tables->config.push(id, table->bytes, tables->config.arg);
	/* The file was released, or the table of another session is there. */
	if (!err || err == -ENOENT || err == -EEXIST || table->was_refused)
		return;
	table->was_refused = true;
	error_errno(&problem, -err, "the module has refused it");
	report(tables, file, problem.text);
	if (!tables->counts.refused)
		error_errno(&tables->refusal, -err, "%s", file->path);
	tables->counts.refused++;
}

static void finish_table(struct unwind_tables *tables, struct mapped_file *file,
			 struct stackbeat_unwind_table *bytes)
{
	struct table *table = &tables->list[file->index];

	table->state = bytes ? TABLE_READY : TABLE_NONE;
	table->bytes = bytes;
	table->is_urgent = false;
	table->used = ++tables->lookups;
	if (bytes) {
		stackbeat_unwind_open(bytes, &table->view);
		tables->bytes += bytes->size;
	}
	push(tables, file, table);
	mapped_file_unpin_for_table(tables->files, file);
}

/* The file is as if it had no table. */
static void fail(struct unwind_tables *tables, struct mapped_file *file, const char *why)
{
	struct table *table = &tables->list[file->index];

	tables->counts.failed += !table->is_counted;
	table->is_counted = true;
	report(tables, file, why);
	finish_table(tables, file, NULL);
}

static void count_result(struct unwind_tables *tables, const struct mapped_file *file,
			 const struct unwind_summary *summary)
{
	struct table *table = &tables->list[file->index];
	struct error text;

	if (table->is_counted)
		return;
	table->is_counted = true;
	if (!summary->size) {
		tables->counts.without++;
		report(tables, file, unwind_result_text((enum unwind_result)summary->result));
		return;
	}
	tables->counts.compiled++;
	tables->counts.unsupported += summary->unsupported;
	error_set(&text, 0,
		  "%" PRIu64 " rows of %" PRIu64 " functions, %.1f kB; not supported: %" PRIu64
		  ", broken: %" PRIu64,
		  summary->rows, summary->functions, (double)summary->size / 1000,
		  summary->unsupported, summary->broken);
	report(tables, file, text.text);
}

/* Jobs */

static void finish_job(struct unwind_tables *tables, struct slot *slot)
{
	struct mapped_file *file = mapped_files_at(tables->files, slot->file);
	struct stackbeat_unwind_table *bytes;
	struct unwind_summary summary;
	int err = unwind_job_finish(&slot->job, &summary, &bytes);
	struct error problem;

	slot->file = NO_FILE;
	if (err) {
		error_errno(&problem, -err, "can't be compiled");
		fail(tables, file, problem.text);
		return;
	}
	count_result(tables, file, &summary);
	finish_table(tables, file, bytes);
}

static void start_job(struct unwind_tables *tables, struct slot *slot)
{
	struct mapped_file *file = mapped_files_at(tables->files, slot->file);
	struct error problem = {""};
	int fd = mapped_file_table_fd(tables->files, file, &problem), err;

	if (fd == -EAGAIN)
		return;
	err = fd < 0 ? fd : unwind_job_start(&slot->job, tables->config.sandbox, fd);
	if (fd >= 0)
		close(fd);
	if (!err) {
		slot->is_running = true;
		return;
	}
	if (fd >= 0)
		error_errno(&problem, -err, "can't start a worker");
	slot->file = NO_FILE;
	fail(tables, file, problem.text);
}

static bool has_ended(const struct slot *slot)
{
	struct pollfd lifeline = {.fd = slot->job.lifeline, .events = POLLIN};

	return poll(&lifeline, 1, 0) > 0 || now_ns(CLOCK_MONOTONIC) >= slot->job.deadline;
}

static void run_slot(struct unwind_tables *tables, struct slot *slot)
{
	if (slot->file != NO_FILE && !slot->is_running)
		start_job(tables, slot);
	else if (slot->file != NO_FILE && has_ended(slot))
		finish_job(tables, slot);
}

static unsigned int priority(const struct unwind_tables *tables, uint32_t index)
{
	return tables->list[index].is_urgent
		       ? 2
		       : mapped_file_is_held(mapped_files_at(tables->files, index));
}

/* Removes the file with the highest priority, the first one of these, from those that wait. */
static uint32_t take_waiting(struct unwind_tables *tables)
{
	size_t best = 0;
	uint32_t index;

	for (size_t i = 1; i < tables->waiting_count; i++) {
		if (priority(tables, tables->waiting[i]) > priority(tables, tables->waiting[best]))
			best = i;
	}
	index = tables->waiting[best];
	tables->waiting_count--;
	memmove(tables->waiting + best, tables->waiting + best + 1,
		(tables->waiting_count - best) * sizeof(*tables->waiting));
	return index;
}

static void fill_slot(struct unwind_tables *tables, struct slot *slot)
{
	struct mapped_file *file;

	while (slot->file == NO_FILE && tables->waiting_count) {
		*slot = (struct slot){.file = take_waiting(tables)};
		file = mapped_files_at(tables->files, slot->file);
		if (mapped_file_open_for_table(tables->files, file)) {
			slot->file = NO_FILE;
			fail(tables, file, "can't be opened: out of memory");
			continue;
		}
		start_job(tables, slot);
	}
}

void unwind_tables_run(struct unwind_tables *tables)
{
	bound_memory(tables);
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		run_slot(tables, &tables->slots[i]);
		fill_slot(tables, &tables->slots[i]);
	}
}

size_t unwind_tables_poll(const struct unwind_tables *tables, struct pollfd fds[UNWIND_TABLES_FDS])
{
	size_t count = 0;

	if (tables->stopped)
		return 0;
	fds[count++] = (struct pollfd){.fd = mapped_files_event(tables->files), .events = POLLIN};
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		const struct slot *slot = &tables->slots[i];

		if (slot->file != NO_FILE && slot->is_running)
			fds[count++] = (struct pollfd){.fd = slot->job.lifeline, .events = POLLIN};
	}
	return count;
}

/* Requests */

static int want(struct unwind_tables *tables, struct mapped_file *file, struct table *table)
{
	if (array_reserve(&tables->waiting, &tables->waiting_capacity, tables->waiting_count, 1,
			  sizeof(*tables->waiting)))
		return -ENOMEM;
	mapped_file_pin_for_table(tables->files, file);
	tables->waiting[tables->waiting_count++] = file->index;
	table->state = TABLE_WAITING;
	return 0;
}

/* See struct table_hooks. */
static int file_is_missing(struct mapped_file *file, void *arg)
{
	struct unwind_tables *tables = arg;
	struct table *table = get_table(tables, file);

	if (!table)
		return -ENOMEM;
	if (tables->stopped || table->state == TABLE_WAITING)
		return 0;
	if (table->state == TABLE_UNKNOWN)
		return want(tables, file, table);
	/* The module has dropped it, or has not got it: the file had no id. */
	push(tables, file, table);
	return 0;
}

enum unwind_table_state unwind_tables_find(struct unwind_tables *tables, struct mapped_file *file,
					   const struct stackbeat_unwind_view **view)
{
	struct table *table = get_table(tables, file);

	*view = NULL;
	if (table && table->state == TABLE_UNKNOWN && !tables->stopped && want(tables, file, table))
		table = NULL;
	if (!table || table->state == TABLE_NONE || table->state == TABLE_UNKNOWN)
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

static void give_up(struct unwind_tables *tables, uint32_t index)
{
	struct mapped_file *file = mapped_files_at(tables->files, index);

	tables->list[index].state = TABLE_UNKNOWN;
	mapped_file_unpin_for_table(tables->files, file);
}

void unwind_tables_stop(struct unwind_tables *tables)
{
	struct stackbeat_unwind_table *bytes;
	struct unwind_summary summary;

	tables->stopped = true;
	for (size_t i = 0; i < UNWIND_TABLES_JOBS; i++) {
		struct slot *slot = &tables->slots[i];

		if (slot->file == NO_FILE)
			continue;
		if (slot->is_running) {
			unwind_job_finish(&slot->job, &summary, &bytes);
			free(bytes);
		}
		give_up(tables, slot->file);
		slot->file = NO_FILE;
	}
	for (size_t i = 0; i < tables->waiting_count; i++)
		give_up(tables, tables->waiting[i]);
	tables->waiting_count = 0;
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

// SPDX-License-Identifier: GPL-2.0
#include "source/perf_spaces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "source/perf_files.h"
#include "source/perf_process.h"
#include "source/perf_record.h"
#include "source/record_buffer.h"

#define VDSO_PATH "[vdso]"

/* A mapping of a process. */
struct perf_range {
	uint64_t start, end, offset;
	uint32_t file; /* PERF_FILE_NONE: none */
	bool is_main, is_vdso;
};

struct perf_ranges {
	struct perf_range *items; /* by address, without overlaps */
	size_t count, capacity;
};

struct perf_process {
	uint32_t pid;
	uint32_t generation; /* of its address space */
	uint64_t space; /* id of its address space; 0: not announced */
	uint64_t start_time;
	uint32_t parent, ns_pid;
	char comm[STACKBEAT_COMM_SIZE];
	char *cgroup; /* owned; NULL: none */
	struct perf_ranges ranges;
	bool is_stale; /* records were lost: `ranges` are to be read again */
	bool has_ended; /* its first thread; others may live */
	bool may_have_ended; /* records were lost, perhaps of its end */
	bool awaits_main; /* after exec: the first file that is mapped is the program */
};

struct perf_thread {
	uint32_t tid;
	uint32_t pid;
	char comm[STACKBEAT_COMM_SIZE];
	bool may_have_ended; /* records were lost, perhaps of its end */
};

struct perf_spaces {
	struct perf_files *files;
	struct record_buffer *out;
	struct perf_process **processes;
	size_t process_count, process_capacity;
	struct hash by_pid;
	struct perf_thread *threads;
	size_t thread_count, thread_capacity;
	struct hash by_tid;
	bool threads_may_have_ended; /* one of them */
	uint64_t last_space;
	struct perf_spaces_counts counts;
};

struct perf_spaces *perf_spaces_new(struct perf_files *files, struct record_buffer *out)
{
	struct perf_spaces *spaces = calloc(1, sizeof(*spaces));

	if (!spaces)
		return NULL;
	spaces->files = files;
	spaces->out = out;
	return spaces;
}

static void clear_ranges(struct perf_spaces *spaces, struct perf_ranges *ranges)
{
	for (size_t i = 0; i < ranges->count; i++)
		perf_files_drop(spaces->files, ranges->items[i].file);
	ranges->count = 0;
}

static void free_process(struct perf_spaces *spaces, struct perf_process *process)
{
	clear_ranges(spaces, &process->ranges);
	free(process->ranges.items);
	free(process->cgroup);
	free(process);
}

void perf_spaces_free(struct perf_spaces *spaces)
{
	if (!spaces)
		return;
	for (size_t i = 0; i < spaces->process_count; i++)
		free_process(spaces, spaces->processes[i]);
	free(spaces->processes);
	free(spaces->threads);
	hash_clear(&spaces->by_pid);
	hash_clear(&spaces->by_tid);
	free(spaces);
}

/* Tables: entries are found by id; the last one takes the place of a removed one. */

static bool is_process_with(const void *context, uint32_t index, const void *key)
{
	return ((const struct perf_spaces *)context)->processes[index]->pid ==
	       *(const uint32_t *)key;
}

static bool is_thread_with(const void *context, uint32_t index, const void *key)
{
	return ((const struct perf_spaces *)context)->threads[index].tid == *(const uint32_t *)key;
}

static uint32_t task_hash(uint32_t id)
{
	return hash_number(HASH_START, id);
}

static uint32_t process_index(const struct perf_spaces *spaces, uint32_t pid)
{
	return hash_find(&spaces->by_pid, task_hash(pid), is_process_with, spaces, &pid);
}

static struct perf_process *find_process(const struct perf_spaces *spaces, uint32_t pid)
{
	uint32_t index = process_index(spaces, pid);

	return index == HASH_NONE ? NULL : spaces->processes[index];
}

/* Returns the process, new if it is unknown; NULL: out of memory. */
static struct perf_process *get_process(struct perf_spaces *spaces, uint32_t pid)
{
	struct perf_process *process = find_process(spaces, pid);

	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process ||
	    array_reserve(&spaces->processes, &spaces->process_capacity, spaces->process_count, 1,
			  sizeof(struct perf_process *)) ||
	    hash_add(&spaces->by_pid, task_hash(pid), (uint32_t)spaces->process_count)) {
		free(process);
		return NULL;
	}
	process->pid = pid;
	process->ns_pid = pid;
	spaces->processes[spaces->process_count++] = process;
	return process;
}

static void remove_process(struct perf_spaces *spaces, size_t index)
{
	const size_t last = spaces->process_count - 1;

	hash_remove(&spaces->by_pid, task_hash(spaces->processes[index]->pid), (uint32_t)index);
	free_process(spaces, spaces->processes[index]);
	spaces->process_count = last;
	if (index == last)
		return;
	spaces->processes[index] = spaces->processes[last];
	hash_remove(&spaces->by_pid, task_hash(spaces->processes[index]->pid), (uint32_t)last);
	hash_add(&spaces->by_pid, task_hash(spaces->processes[index]->pid), (uint32_t)index);
}

static uint32_t thread_index(const struct perf_spaces *spaces, uint32_t tid)
{
	return hash_find(&spaces->by_tid, task_hash(tid), is_thread_with, spaces, &tid);
}

/* Sets the name of a thread. Returns 0 or -ENOMEM. */
static int set_thread(struct perf_spaces *spaces, uint32_t pid, uint32_t tid, const char *comm)
{
	uint32_t index = thread_index(spaces, tid);
	struct perf_thread *thread;

	if (index == HASH_NONE) {
		index = (uint32_t)spaces->thread_count;
		if (array_reserve(&spaces->threads, &spaces->thread_capacity, index, 1,
				  sizeof(*spaces->threads)) ||
		    hash_add(&spaces->by_tid, task_hash(tid), index))
			return -ENOMEM;
		spaces->threads[spaces->thread_count++].tid = tid;
	}
	thread = &spaces->threads[index];
	thread->pid = pid;
	snprintf(thread->comm, sizeof(thread->comm), "%s", comm);
	return 0;
}

static void remove_thread(struct perf_spaces *spaces, uint32_t tid)
{
	const uint32_t index = thread_index(spaces, tid);
	const uint32_t last = (uint32_t)spaces->thread_count - 1;

	if (index == HASH_NONE)
		return;
	hash_remove(&spaces->by_tid, task_hash(tid), index);
	spaces->thread_count = last;
	if (index == last)
		return;
	hash_remove(&spaces->by_tid, task_hash(spaces->threads[last].tid), last);
	spaces->threads[index] = spaces->threads[last];
	hash_add(&spaces->by_tid, task_hash(spaces->threads[index].tid), index);
}

/* Mappings */

/* Returns the index of the first range that ends behind an address. */
static size_t find_range(const struct perf_ranges *ranges, uint64_t address)
{
	size_t first = 0, end = ranges->count;

	while (first < end) {
		const size_t middle = first + (end - first) / 2;

		if (ranges->items[middle].end <= address)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/*
 * Cuts [start, end) out of the ranges, and returns the index of the first one behind it. The array
 * has room for one range more.
 */
static size_t cut_range(struct perf_spaces *spaces, struct perf_ranges *ranges, uint64_t start,
			uint64_t end)
{
	size_t at = find_range(ranges, start), last = at, kept = 0;
	struct perf_range rest[2] = {{.start = 0}};

	for (; last < ranges->count && ranges->items[last].start < end; last++) {
		const struct perf_range *range = &ranges->items[last];
		const size_t before = kept;

		if (range->start < start) {
			rest[kept] = *range;
			rest[kept++].end = start;
		}
		if (range->end > end) {
			rest[kept] = *range;
			rest[kept].offset += end - range->start;
			rest[kept++].start = end;
		}
		if (kept == before)
			perf_files_drop(spaces->files, range->file);
		else if (kept == before + 2)
			perf_files_use(spaces->files, range->file);
	}
	memmove(ranges->items + at + kept, ranges->items + last,
		(ranges->count - last) * sizeof(*ranges->items));
	memcpy(ranges->items + at, rest, kept * sizeof(*rest));
	ranges->count += kept;
	ranges->count -= last - at;
	return find_range(ranges, start);
}

/*
 * Takes the use of the file. Returns 0 or -ENOMEM. A mapping beyond the limit is dropped, and
 * counted.
 */
static int insert_range(struct perf_spaces *spaces, struct perf_ranges *ranges,
			const struct perf_range *range)
{
	size_t at;

	if (array_reserve(&ranges->items, &ranges->capacity, ranges->count, 2,
			  sizeof(*ranges->items))) {
		perf_files_drop(spaces->files, range->file);
		return -ENOMEM;
	}
	at = cut_range(spaces, ranges, range->start, range->end);
	if (ranges->count >= STACKBEAT_MAPPINGS_MAX) {
		perf_files_drop(spaces->files, range->file);
		spaces->counts.dropped++;
		return 0;
	}
	memmove(ranges->items + at + 1, ranges->items + at,
		(ranges->count - at) * sizeof(*ranges->items));
	ranges->items[at] = *range;
	ranges->count++;
	return 0;
}

static void set_range(struct perf_spaces *spaces, const struct perf_mapping *mapping,
		      struct perf_range *range)
{
	const struct perf_file_key key = {
		.major = mapping->device_major,
		.minor = mapping->device_minor,
		.inode = mapping->inode,
		.generation = mapping->inode_generation,
	};

	*range = (struct perf_range){
		.start = mapping->start,
		.end = mapping->end,
		.file = PERF_FILE_NONE,
		.is_vdso = !strcmp(mapping->path, VDSO_PATH),
	};
	if (!mapping->inode)
		return;
	range->offset = mapping->offset;
	range->file = perf_files_index(spaces->files, &key, mapping->path);
	spaces->counts.without_file += range->file == PERF_FILE_NONE;
}

/* Adds a record of a mapping. Returns 0 or -ENOMEM. */
static int put_mapping(struct perf_spaces *spaces, const struct perf_process *process,
		       const struct perf_range *range, uint16_t flags)
{
	const struct perf_file_place place = {process->pid, range->start, range->end};
	struct stackbeat_mapping *record;
	uint64_t file = 0, vaddr = 0;

	if (range->file != PERF_FILE_NONE) {
		file = perf_files_announce(spaces->files, range->file, &place, spaces->out);
		spaces->counts.without_file += !file;
		if (file && perf_files_vaddr(spaces->files, range->file, range->offset, &vaddr))
			flags |= STACKBEAT_MAPPING_VADDR;
	}
	if (range->is_main)
		flags |= STACKBEAT_MAPPING_MAIN_BINARY;
	if (range->is_vdso)
		flags |= STACKBEAT_MAPPING_VDSO;
	record = record_buffer_add(spaces->out, STACKBEAT_RECORD_MAPPING, flags, sizeof(*record));
	if (!record)
		return -ENOMEM;
	record->address_space = process->space;
	record->start = range->start;
	record->end = range->end;
	record->offset = range->offset;
	record->vaddr = vaddr;
	record->file = file;
	record->generation = process->generation;
	return 0;
}

struct range_reader {
	struct perf_spaces *spaces;
	struct perf_process *process;
};

static int add_read_mapping(const struct perf_mapping *mapping, bool is_main, void *arg)
{
	const struct range_reader *reader = arg;
	struct perf_range range;

	set_range(reader->spaces, mapping, &range);
	range.is_main = is_main;
	return insert_range(reader->spaces, &reader->process->ranges, &range);
}

/* Reads the mappings that a process has now. Returns 0 or -ENOMEM. */
static int read_ranges(struct perf_spaces *spaces, struct perf_process *process)
{
	struct range_reader reader = {spaces, process};
	struct perf_ranges before = process->ranges;
	int err;

	process->ranges = (struct perf_ranges){.items = NULL};
	err = perf_process_mappings(process->pid, add_read_mapping, &reader);
	if (!err && process->ranges.count) {
		clear_ranges(spaces, &before);
		free(before.items);
		return 0;
	}
	/* It has ended: the mappings that are known are the last ones. */
	clear_ranges(spaces, &process->ranges);
	free(process->ranges.items);
	process->ranges = before;
	return err == -ENOMEM ? err : 0;
}

int perf_spaces_read(struct perf_spaces *spaces, uint32_t pid)
{
	struct perf_process *process = get_process(spaces, pid);

	if (!process)
		return -ENOMEM;
	return read_ranges(spaces, process);
}

static int perf_space_read_process(uint32_t pid, void *arg)
{
	return perf_spaces_read(arg, pid);
}

int perf_spaces_read_all(struct perf_spaces *spaces)
{
	int err = perf_process_each("/proc", perf_space_read_process, spaces);

	return err == -ENOMEM ? err : 0;
}

int perf_spaces_map(struct perf_spaces *spaces, uint32_t pid, const struct perf_mapping *mapping)
{
	struct perf_process *process = get_process(spaces, pid);
	struct perf_range range;
	int err;

	if (!process)
		return -ENOMEM;
	set_range(spaces, mapping, &range);
	range.is_main = process->awaits_main && range.file != PERF_FILE_NONE;
	process->awaits_main = process->awaits_main && !range.is_main;
	err = insert_range(spaces, &process->ranges, &range);
	if (err || !process->space)
		return err;
	process->generation++;
	spaces->counts.events++;
	return put_mapping(spaces, process, &range, STACKBEAT_MAPPING_EVENT);
}

/* Processes */

int perf_spaces_comm(struct perf_spaces *spaces, uint32_t pid, uint32_t tid, const char *comm,
		     bool is_exec)
{
	struct perf_process *process;

	if (is_exec) {
		process = get_process(spaces, pid);
		if (!process)
			return -ENOMEM;
		/* A new address space. */
		process->space = 0;
		clear_ranges(spaces, &process->ranges);
		process->is_stale = false;
		process->awaits_main = true;
	}
	return set_thread(spaces, pid, tid, comm);
}

/* The child of a fork has the mappings of its parent. Returns 0 or -ENOMEM. */
static int perf_space_inherit(struct perf_spaces *spaces, struct perf_process *process,
			      const struct perf_process *parent)
{
	int err = 0;

	process->cgroup = parent->cgroup ? strdup(parent->cgroup) : NULL;
	for (size_t i = 0; i < parent->ranges.count && !err; i++) {
		perf_files_use(spaces->files, parent->ranges.items[i].file);
		err = insert_range(spaces, &process->ranges, &parent->ranges.items[i]);
	}
	return err;
}

int perf_spaces_fork(struct perf_spaces *spaces, uint32_t pid, uint32_t tid, uint32_t parent,
		     uint32_t parent_tid)
{
	char comm[STACKBEAT_COMM_SIZE];
	struct perf_process *process, *from;
	int err = 0;

	perf_spaces_thread_comm(spaces, parent, parent_tid, comm);
	if (pid != parent) {
		uint32_t old = process_index(spaces, pid);

		/* Another process had this id. */
		if (old != HASH_NONE)
			remove_process(spaces, old);
		process = get_process(spaces, pid);
		from = find_process(spaces, parent);
		if (!process)
			return -ENOMEM;
		process->parent = parent;
		memcpy(process->comm, comm, sizeof(comm));
		if (from)
			err = perf_space_inherit(spaces, process, from);
	}
	return err ? err : set_thread(spaces, pid, tid, comm);
}

void perf_spaces_exit(struct perf_spaces *spaces, uint32_t pid, uint32_t tid)
{
	struct perf_process *process = find_process(spaces, pid);

	/* Other threads may live: perf_spaces_sweep() looks. */
	if (process && pid == tid)
		process->has_ended = true;
	if (pid != tid)
		remove_thread(spaces, tid);
}

void perf_spaces_lost(struct perf_spaces *spaces)
{
	for (size_t i = 0; i < spaces->process_count; i++) {
		spaces->processes[i]->is_stale = true;
		spaces->processes[i]->may_have_ended = true;
	}
	for (size_t i = 0; i < spaces->thread_count; i++)
		spaces->threads[i].may_have_ended = true;
	spaces->threads_may_have_ended = true;
}

void perf_spaces_thread_comm(struct perf_spaces *spaces, uint32_t pid, uint32_t tid,
			     char comm[STACKBEAT_COMM_SIZE])
{
	uint32_t index = thread_index(spaces, tid);
	const struct perf_process *process;

	*comm = '\0';
	if (index != HASH_NONE) {
		memcpy(comm, spaces->threads[index].comm, STACKBEAT_COMM_SIZE);
		return;
	}
	if (!perf_process_comm(pid, tid, comm)) {
		process = find_process(spaces, pid);
		if (process)
			memcpy(comm, process->comm, STACKBEAT_COMM_SIZE);
	}
	/* Without memory, it is read again at the next sample. */
	set_thread(spaces, pid, tid, comm);
}

/* Adds the record of an address space, and its mappings. Returns 0 or -ENOMEM. */
static int put_space(struct perf_spaces *spaces, const struct perf_process *process, uint32_t gap)
{
	const char *cgroup = process->cgroup ? process->cgroup : "";
	const size_t length = strlen(cgroup) + 1;
	struct stackbeat_address_space *record = record_buffer_add(
		spaces->out, STACKBEAT_RECORD_ADDRESS_SPACE, 0, sizeof(*record) + length);
	int err = 0;

	if (!record)
		return -ENOMEM;
	record->address_space = process->space;
	record->start_time = process->start_time;
	record->generation = process->generation;
	record->gap = gap;
	record->pid = process->pid;
	record->ns_pid = process->ns_pid;
	record->parent = process->parent;
	record->mappings = (uint32_t)process->ranges.count;
	memcpy(record->comm, process->comm, sizeof(record->comm));
	memcpy(record->cgroup_path, cgroup, length);
	spaces->counts.spaces++;
	for (size_t i = 0; i < process->ranges.count && !err; i++)
		err = put_mapping(spaces, process, &process->ranges.items[i], 0);
	return err;
}

/* Sets what /proc knows; where it knows nothing any more, the state since the fork is kept. */
static void perf_space_read_status(struct perf_spaces *spaces, struct perf_process *process)
{
	struct perf_process_status status;

	if (perf_process_read("", process->pid, &status)) {
		process->start_time = status.start_time;
		process->parent = status.parent;
		process->ns_pid = status.ns_pid;
		memcpy(process->comm, status.comm, sizeof(process->comm));
		free(process->cgroup);
		process->cgroup = *status.cgroup ? strdup(status.cgroup) : NULL;
	}
	perf_spaces_thread_comm(spaces, process->pid, process->pid, process->comm);
}

int perf_spaces_sample(struct perf_spaces *spaces, uint32_t pid, uint64_t *id, uint32_t *generation)
{
	const bool is_new = !find_process(spaces, pid);
	struct perf_process *process = get_process(spaces, pid);
	int err = 0;

	if (process && (is_new || process->is_stale))
		err = read_ranges(spaces, process);
	if (!process || err)
		return -ENOMEM;
	if (!process->space) {
		perf_space_read_status(spaces, process);
		process->space = ++spaces->last_space;
		process->generation = 1;
		err = put_space(spaces, process, 0);
	} else if (process->is_stale) {
		/* What was lost may be anything since the last record: one generation without it.
		 */
		process->generation += 2;
		err = put_space(spaces, process, process->generation - 1);
	}
	process->is_stale = false;
	*id = process->space;
	*generation = process->generation;
	return err;
}

static void sweep_threads(struct perf_spaces *spaces)
{
	char path[64];

	for (size_t i = spaces->thread_count; i > 0 && spaces->threads_may_have_ended; i--) {
		struct perf_thread *thread = &spaces->threads[i - 1];

		if (!thread->may_have_ended)
			continue;
		thread->may_have_ended = false;
		snprintf(path, sizeof(path), "/proc/%u/task/%u", thread->pid, thread->tid);
		if (access(path, F_OK))
			remove_thread(spaces, thread->tid);
	}
	spaces->threads_may_have_ended = false;
}

void perf_spaces_sweep(struct perf_spaces *spaces)
{
	char path[32];

	sweep_threads(spaces);

	for (size_t i = spaces->process_count; i > 0; i--) {
		struct perf_process *process = spaces->processes[i - 1];

		if (!process->has_ended && !process->may_have_ended)
			continue;
		process->may_have_ended = false;
		snprintf(path, sizeof(path), "/proc/%u", process->pid);
		if (!access(path, F_OK))
			continue;
		remove_thread(spaces, process->pid);
		remove_process(spaces, i - 1);
	}
	perf_files_sweep(spaces->files);
}

void perf_spaces_counts(const struct perf_spaces *spaces, struct perf_spaces_counts *counts)
{
	*counts = spaces->counts;
}

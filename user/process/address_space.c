// SPDX-License-Identifier: GPL-2.0
#include "process/address_space.h"

#include "lib/array.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "process/mapped_files.h"
#include "process/mapping_history.h"
#include "runtime/perf_map_watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VSYSCALL_START UINT64_C(0xffffffffff600000)
#define VSYSCALL_END UINT64_C(0xffffffffff601000)

/* Processes that are looked at in one call, in turn. */
#define LOOKS_MAX 1024u
/* Looks that leave out a process that lived each time: it is not about to end. */
#define LOOKS_LEFT_OUT_MAX 15u

struct address_space {
	uint64_t id;
	struct address_spaces *table;
	uint64_t start_time; /* ns */
	const char *cgroup_path; /* of spaces->cgroup_paths */
	struct mapping_history *history; /* NULL: none was told, or it was dropped */
	uint64_t ended; /* ns: when that was noticed; 0: it lives */
	uint32_t pid, ns_pid, parent;
	uint32_t jitmap; /* number in spaces->jitmaps, or UINT32_MAX */
	uint32_t noted; /* the latest generation that was told at spaces->noted */
	bool told;
	bool dropped;
	uint8_t looks_left_out; /* after the last one */
	uint8_t next_look; /* looks until then */
	char comm[STACKBEAT_COMM_SIZE];
};

/* What /proc says of a process. */
struct process {
	uint64_t asked; /* ns */
	uint64_t start; /* ticks; 0: not known */
	uint32_t pid;
	bool ended;
};

struct address_spaces {
	char *root;
	struct mapped_files *objects;
	struct perf_map_watcher *jitmaps; /* NULL: none is needed */
	struct address_space **list;
	size_t count, capacity;
	struct hash by_id; /* indices of `list` */
	char **cgroup_paths; /* each is there once */
	size_t path_count, path_capacity;
	struct hash by_path;
	uint32_t *living; /* indices of those that have a history */
	size_t living_count, living_capacity;
	size_t next_look; /* index of `living` */
	struct process asked; /* the last one */
	bool trust_pids;
	uint64_t noted; /* ns: when the latest generations were noted */
	struct address_space_counts counts;
};

struct address_spaces *address_spaces_new(const char *root, struct mapped_files *objects,
					  struct error *error)
{
	struct address_spaces *spaces = calloc(1, sizeof(*spaces));

	if (spaces)
		spaces->root = strdup(root);
	if (!spaces || !spaces->root) {
		free(spaces);
		error_errno(error, ENOMEM, "can't make the table of address spaces");
		return NULL;
	}
	spaces->objects = objects;
	spaces->trust_pids = true;
	return spaces;
}

void address_spaces_free(struct address_spaces *spaces)
{
	if (!spaces)
		return;
	for (size_t i = 0; i < spaces->count; i++) {
		mapping_history_free(spaces->list[i]->history);
		free(spaces->list[i]);
	}
	for (size_t i = 0; i < spaces->path_count; i++)
		free(spaces->cgroup_paths[i]);
	perf_map_watcher_free(spaces->jitmaps);
	hash_clear(&spaces->by_id);
	hash_clear(&spaces->by_path);
	free(spaces->cgroup_paths);
	free(spaces->list);
	free(spaces->living);
	free(spaces->root);
	free(spaces);
}

struct mapped_files *address_spaces_files(const struct address_spaces *spaces)
{
	return spaces->objects;
}

void address_spaces_same_pid_ns(struct address_spaces *spaces, bool trust)
{
	spaces->trust_pids = trust;
}

/* The table */

struct key {
	uint64_t id;
	uint32_t pid; /* where id is 0 */
};

static bool is_of(const void *context, uint32_t index, const void *key)
{
	const struct address_space *space = ((const struct address_spaces *)context)->list[index];
	const struct key *wanted = key;

	return space->id == wanted->id && (wanted->id || space->pid == wanted->pid);
}

static struct address_space *add_space(struct address_spaces *spaces, const struct key *key,
				       uint32_t hash)
{
	struct address_space *space = calloc(1, sizeof(*space));

	if (!space || spaces->count == HASH_NONE ||
	    array_reserve(&spaces->list, &spaces->capacity, spaces->count, 1,
			  sizeof(struct address_space *)) ||
	    hash_add(&spaces->by_id, hash, (uint32_t)spaces->count)) {
		free(space);
		return NULL;
	}
	space->id = key->id;
	space->table = spaces;
	space->jitmap = UINT32_MAX;
	space->pid = key->pid;
	space->cgroup_path = "";
	spaces->list[spaces->count++] = space;
	return space;
}

static uint32_t key_hash(const struct key *key)
{
	return hash_number(HASH_START, key->id ? key->id : (uint64_t)key->pid << 32);
}

struct address_space *address_spaces_get(struct address_spaces *spaces, uint64_t id, uint32_t pid)
{
	const struct key key = {id, pid};
	uint32_t hash = key_hash(&key);
	uint32_t index = hash_find(&spaces->by_id, hash, is_of, spaces, &key);

	return index == HASH_NONE ? add_space(spaces, &key, hash) : spaces->list[index];
}

/* A space to whose mappings something is to be added. NULL: no memory, or it has ended. */
static int get_living(struct address_spaces *spaces, uint64_t id, struct address_space **living)
{
	struct address_space *space = address_spaces_get(spaces, id, 0);
	const struct key key = {id, 0};

	*living = NULL;
	if (!space)
		return -ENOMEM;
	if (space->dropped)
		return 0;
	*living = space;
	if (space->history)
		return 0;
	if (array_reserve(&spaces->living, &spaces->living_capacity, spaces->living_count, 1,
			  sizeof(*spaces->living)))
		return -ENOMEM;
	space->history = mapping_history_new();
	if (!space->history)
		return -ENOMEM;
	spaces->living[spaces->living_count++] =
		hash_find(&spaces->by_id, key_hash(&key), is_of, spaces, &key);
	return 0;
}

/* What is told */

static bool is_path(const void *context, uint32_t index, const void *key)
{
	return !strcmp(((const struct address_spaces *)context)->cgroup_paths[index], key);
}

/* One copy of a text for all. NULL when out of memory. */
static const char *keep_path(struct address_spaces *spaces, const char *path)
{
	uint32_t hash = hash_string(HASH_START, path);
	uint32_t index = hash_find(&spaces->by_path, hash, is_path, spaces, path);

	if (index != HASH_NONE)
		return spaces->cgroup_paths[index];
	index = (uint32_t)spaces->path_count;
	if (array_add_string(&spaces->cgroup_paths, &spaces->path_capacity, &spaces->path_count,
			     path) ||
	    hash_add(&spaces->by_path, hash, index))
		return NULL;
	return spaces->cgroup_paths[index];
}

int address_spaces_add(struct address_spaces *spaces, const struct stackbeat_address_space *record)
{
	struct address_space *space;
	int err = get_living(spaces, record->address_space, &space);

	if (err || !space)
		return err;
	if (!space->told) {
		space->cgroup_path = keep_path(spaces, record->cgroup_path);
		if (!space->cgroup_path) {
			space->cgroup_path = "";
			return -ENOMEM;
		}
		space->told = true;
		space->start_time = record->start_time;
		space->pid = record->pid;
		space->ns_pid = record->ns_pid;
		space->parent = record->parent;
		memcpy(space->comm, record->comm, sizeof(space->comm));
		spaces->counts.told++;
	}
	return mapping_history_add_snapshot(space->history, record->generation, record->gap,
					    record->mappings_dropped);
}

/* The place of a mapping, and what is added to its addresses to be numbers there. */
static int find_place(struct address_spaces *spaces, const struct address_space *space,
		      const struct stackbeat_mapping *record, struct mapping *mapping)
{
	uint16_t flags = record->record.flags;
	bool is_offset = !(flags & STACKBEAT_MAPPING_VADDR);
	struct mapped_file *object = NULL;

	if (record->file) {
		object = mapped_files_get(spaces->objects, record->file);
		if (!object)
			return -ENOMEM;
		mapped_file_note_mapping(spaces->objects, object, space->pid, record->start,
					 record->end);
	} else if (flags & STACKBEAT_MAPPING_VDSO) {
		/* That of 32-bit programs is another one; it is mapped below 4 GiB. */
		if (record->start > UINT32_MAX)
			object = mapped_files_vdso(spaces->objects);
		mapping->segment = SEGMENT_VDSO;
	} else if (record->offset || (flags & STACKBEAT_MAPPING_MAIN_BINARY)) {
		object = mapped_files_mapped(spaces->objects, space->pid, record->start,
					     record->end);
		mapping->segment = SEGMENT_NONE;
	} else {
		mapping->segment = SEGMENT_ANON;
	}
	if (!object)
		return 0;
	mapping->segment = SEGMENT_FILES + 2 * object->index + is_offset;
	mapping->bias = (is_offset ? record->offset : record->vaddr) - record->start;
	return 0;
}

int address_spaces_add_mapping(struct address_spaces *spaces,
			       const struct stackbeat_mapping *record)
{
	struct mapping mapping = {.start = record->start, .end = record->end};
	struct address_space *space;
	int err = get_living(spaces, record->address_space, &space);

	if (err || !space)
		return err;
	err = find_place(spaces, space, record, &mapping);
	if (err)
		return err;
	if (record->record.flags & STACKBEAT_MAPPING_EVENT)
		return mapping_history_add_event(space->history, record->generation, &mapping,
						 &spaces->counts.left_out);
	return mapping_history_add_mapping(space->history, record->generation, &mapping,
					   &spaces->counts.left_out);
}

/* What is asked */

bool address_space_ready(const struct address_space *space, uint32_t generation, bool settled)
{
	if (!space->id || space->dropped)
		return true;
	return space->history && mapping_history_ready(space->history, generation, settled);
}

int address_space_advance(struct address_space *space, uint32_t generation)
{
	return space->history ? mapping_history_advance(space->history, generation) : 0;
}

uint32_t address_space_segment_at(const struct address_space *space, uint32_t generation,
				  uint64_t address, uint64_t *number)
{
	const struct mapping *mapping =
		space->history ? mapping_history_find(space->history, generation, address) : NULL;

	*number = address;
	if (!mapping)
		return address >= VSYSCALL_START && address < VSYSCALL_END ? SEGMENT_VSYSCALL
									   : SEGMENT_NONE;
	*number = address + mapping->bias;
	return mapping->segment;
}

bool address_space_is_certain(const struct address_space *space, uint32_t generation)
{
	return space->history && mapping_history_is_certain(space->history, generation);
}

struct mapped_file *segment_file(const struct mapped_files *objects, uint32_t place,
				 bool *is_offset)
{
	if (place < SEGMENT_FILES)
		return NULL;
	*is_offset = (place - SEGMENT_FILES) % 2;
	return mapped_files_at(objects, (place - SEGMENT_FILES) / 2);
}

/* Processes that have ended */

/* Fields of /proc/PID/stat, see proc_pid_stat(5), behind the name. */
enum { STAT_STATE, STAT_THREADS = 17, STAT_START = 19 };

/*
 * What the text of /proc/PID/stat says. A main thread that has ended is a zombie for as long
 * as other threads of the process run.
 */
static void read_stat(const char *text, struct process *process)
{
	const char *at = strrchr(text, ')');
	bool zombie = false;

	for (int field = STAT_STATE; at && field <= STAT_START; field++) {
		at = strchr(at + 1, ' ');
		if (at && field == STAT_STATE)
			zombie = at[1] == 'Z' || at[1] == 'X';
		else if (at && field == STAT_THREADS)
			process->ended = zombie && strtoull(at, NULL, 10) <= 1;
	}
	if (at)
		process->start = strtoull(at, NULL, 10);
}

/* Asked once in a look: a process that calls exec has several spaces. */
static const struct process *ask_for(struct address_spaces *spaces, uint32_t pid, uint64_t now)
{
	struct process *process = &spaces->asked;
	char path[PATH_MAX], text[1024];
	ssize_t length;
	int fd;

	if (process->pid == pid && process->asked == now)
		return process;
	*process = (struct process){.pid = pid, .asked = now};
	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/stat", spaces->root, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		/* /proc may hide the processes of others. */
		process->ended = errno == ENOENT && kill((pid_t)pid, 0) && errno == ESRCH;
		return process;
	}
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length > 0) {
		text[length] = '\0';
		read_stat(text, process);
	}
	return process;
}

/* Whether a process runs no more, or its id is another's. */
static bool has_ended(struct address_spaces *spaces, const struct address_space *space,
		      uint64_t now)
{
	uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start = space->start_time + (uint64_t)clock_offset_ns(CLOCK_BOOTTIME);
	const struct process *process = ask_for(spaces, space->pid, now);

	return process->ended || process->start > start / tick;
}

/* Rarer and rarer: what is kept of a process that has ended is only memory. */
static void look_at(struct address_spaces *spaces, struct address_space *space, uint64_t now)
{
	if (!space->told)
		return;
	if (space->next_look) {
		space->next_look--;
		return;
	}
	if (has_ended(spaces, space, now)) {
		space->ended = now;
		return;
	}
	if (space->looks_left_out < LOOKS_LEFT_OUT_MAX)
		space->looks_left_out = 2 * space->looks_left_out + 1;
	space->next_look = space->looks_left_out;
}

static void look(struct address_spaces *spaces, uint64_t now)
{
	size_t looks = spaces->living_count < LOOKS_MAX ? spaces->living_count : LOOKS_MAX;

	for (; looks; looks--, spaces->next_look++) {
		struct address_space *space;

		if (spaces->next_look >= spaces->living_count)
			spaces->next_look = 0;
		space = spaces->list[spaces->living[spaces->next_look]];
		if (!space->ended)
			look_at(spaces, space, now);
		if (!space->ended && space->jitmap != UINT32_MAX)
			perf_map_watcher_poll(spaces->jitmaps, space->jitmap);
	}
}

static void mark_object(uint32_t place, void *arg)
{
	if (place >= SEGMENT_FILES)
		mapped_files_mark(arg, (place - SEGMENT_FILES) / 2);
}

static void drop(struct address_spaces *spaces, struct address_space *space)
{
	mapping_history_free(space->history);
	space->history = NULL;
	space->dropped = true;
	spaces->counts.dropped++;
}

int address_spaces_collect_garbage(struct address_spaces *spaces, uint64_t seen, uint64_t now,
				   bool look_too)
{
	bool noted = seen >= spaces->noted;
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < spaces->living_count; i++) {
		struct address_space *space = spaces->list[spaces->living[i]];

		if (space->ended && seen > space->ended) {
			drop(spaces, space);
			continue;
		}
		/* What was told before a sample was taken is not ahead of it. */
		if (noted && space->noted && !err && mapping_history_has_pending(space->history))
			err = mapping_history_advance(space->history, space->noted);
		if (noted)
			space->noted = mapping_history_latest_generation(space->history);
		if (look_too)
			mapping_history_each_segment(space->history, mark_object, spaces->objects);
		spaces->living[kept++] = spaces->living[i];
	}
	spaces->living_count = kept;
	if (noted)
		spaces->noted = now;
	if (look_too && spaces->trust_pids)
		look(spaces, now);
	return err;
}

/* Code that processes make */

void address_space_has_jit_code(struct address_space *space)
{
	struct address_spaces *spaces = space->table;

	if (space->jitmap != UINT32_MAX || !space->told || !spaces->trust_pids)
		return;
	if (!spaces->jitmaps)
		spaces->jitmaps = perf_map_watcher_new(spaces->root);
	if (spaces->jitmaps)
		space->jitmap = perf_map_watcher_add(spaces->jitmaps, space->pid,
						     space->ns_pid ? space->ns_pid : space->pid,
						     space->start_time);
}

void address_spaces_finish(struct address_spaces *spaces)
{
	if (!spaces->jitmaps)
		return;
	for (size_t i = 0; i < spaces->living_count; i++) {
		const struct address_space *space = spaces->list[spaces->living[i]];

		if (!space->ended && space->jitmap != UINT32_MAX)
			perf_map_watcher_poll(spaces->jitmaps, space->jitmap);
	}
	perf_map_watcher_finish(spaces->jitmaps);
}

int address_space_perf_map(const struct address_space *space)
{
	return space->jitmap == UINT32_MAX
		       ? -1
		       : perf_map_watcher_fd(space->table->jitmaps, space->jitmap);
}

void address_spaces_counts(const struct address_spaces *spaces, struct address_space_counts *counts)
{
	*counts = spaces->counts;
	if (spaces->jitmaps)
		counts->perf_maps_dropped = perf_maps_dropped(spaces->jitmaps);
}

uint32_t address_space_pid(const struct address_space *space)
{
	return space->pid;
}

uint32_t address_space_ns_pid(const struct address_space *space)
{
	return space->ns_pid;
}

uint32_t address_space_parent(const struct address_space *space)
{
	return space->parent;
}

uint64_t address_space_start_time(const struct address_space *space)
{
	return space->start_time;
}

const char *address_space_comm(const struct address_space *space)
{
	return space->comm;
}

const char *address_space_cgroup_path(const struct address_space *space)
{
	return space->cgroup_path;
}

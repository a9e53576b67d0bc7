// SPDX-License-Identifier: GPL-2.0
#include "process.h"

#include "elf.h"
#include "error.h"
#include "upper_bound.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define COMM_SIZE 16u
/* Thread names that a process is remembered to have used. */
#define COMMS_MAX 8u

#define DELETED " (deleted)"

struct mappings {
	struct mapping *list; /* sorted, disjoint */
	size_t count, capacity;
};

/* Tells one program image from another. What is not known is 0. */
struct identity {
	uint64_t device, inode; /* of the executable */
	uint64_t vdso; /* each exec puts it elsewhere, also that of the same program */
};

struct process {
	struct process *next; /* in processes->all */
	uint32_t pid;
	uint64_t maps_tick; /* in which its maps were read last */
	uint64_t comm_tick; /* in which it was looked at because of a thread name */
	struct identity identity;
	struct mappings mappings;
	bool counted_gone;
	unsigned int comms_count;
	char comms[COMMS_MAX][COMM_SIZE]; /* the first is that of the first sight */
	char last_comm[COMM_SIZE];
};

struct processes {
	char *root;
	struct objects *objects;
	void *tree; /* current images by pid */
	struct process *all;
	uint64_t tick;
	struct processes_counts counts;
};

/* Mappings */

static void mapping_clear(struct mapping *mapping)
{
	free(mapping->path);
	mapping->path = NULL;
}

static void mappings_clear(struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++)
		mapping_clear(&mappings->list[i]);
	free(mappings->list);
	*mappings = (struct mappings){0};
}

/* Index of the first mapping that ends behind `address`. */
static size_t mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t after =
		upper_bound(mappings->list, mappings->count, sizeof(*mappings->list), address);

	return after > 0 && mappings->list[after - 1].end > address ? after - 1 : after;
}

static const struct mapping *mappings_at(const struct mappings *mappings, uint64_t address)
{
	size_t index = mappings_find(mappings, address);

	if (index == mappings->count || address < mappings->list[index].start)
		return NULL;
	return &mappings->list[index];
}

static int mappings_reserve(struct mappings *mappings, size_t more)
{
	size_t capacity = mappings->capacity ? mappings->capacity : 8;
	struct mapping *list;

	while (capacity < mappings->count + more)
		capacity *= 2;
	if (capacity == mappings->capacity)
		return 0;
	list = reallocarray(mappings->list, capacity, sizeof(*list));
	if (!list)
		return -ENOMEM;
	mappings->list = list;
	mappings->capacity = capacity;
	return 0;
}

/* Ends mapping `index` at `address`, and makes what is behind it one of its own. */
static int mappings_split(struct mappings *mappings, size_t index, uint64_t address)
{
	struct mapping rest = mappings->list[index];

	rest.path = strdup(rest.path);
	if (!rest.path || mappings_reserve(mappings, 1) != 0) {
		free(rest.path);
		return -ENOMEM;
	}
	rest.offset += address - rest.start;
	rest.start = address;
	mappings->list[index].end = address;
	memmove(&mappings->list[index + 2], &mappings->list[index + 1],
		(mappings->count - index - 1) * sizeof(rest));
	mappings->list[index + 1] = rest;
	mappings->count++;
	return 0;
}

/* Makes `address` a border between mappings, if it is within one. */
static int mappings_cut(struct mappings *mappings, uint64_t address)
{
	size_t index = mappings_find(mappings, address);

	if (index == mappings->count || mappings->list[index].start >= address)
		return 0;
	return mappings_split(mappings, index, address);
}

/*
 * Puts a mapping in, which takes the place of what was in its range. Takes
 * over mapping->path, also when it fails.
 */
static int mappings_put(struct mappings *mappings, struct mapping *mapping)
{
	size_t first, last;

	if (mappings_cut(mappings, mapping->start) != 0 ||
	    mappings_cut(mappings, mapping->end) != 0 || mappings_reserve(mappings, 1) != 0) {
		mapping_clear(mapping);
		return -ENOMEM;
	}
	first = mappings_find(mappings, mapping->start);
	last = first;
	while (last < mappings->count && mappings->list[last].start < mapping->end)
		mapping_clear(&mappings->list[last++]);
	memmove(&mappings->list[first + 1], &mappings->list[last],
		(mappings->count - last) * sizeof(*mapping));
	mappings->count = mappings->count - last + first + 1;
	mappings->list[first] = *mapping;
	mapping->path = NULL;
	return 0;
}

/* Parsing of maps */

/* Reads a number and the character behind it. */
static bool take_number(const char **text, int base, char after, uint64_t *number)
{
	char *end;

	if (!isxdigit((unsigned char)**text))
		return false;
	errno = 0;
	*number = strtoull(*text, &end, base);
	if (errno != 0 || *end != after)
		return false;
	*text = end + 1;
	return true;
}

/* The kernel writes a newline in a path as \012, and nothing else in such a way. */
static void decode_newlines(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to = '\n';
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

static bool cut_deleted(char *path)
{
	size_t length = strlen(path), suffix = strlen(DELETED);

	if (length <= suffix || strcmp(path + length - suffix, DELETED) != 0)
		return false;
	path[length - suffix] = '\0';
	return true;
}

/*
 * Parses a line of maps, without its newline. Gives a mapping with its path
 * allocated (NULL when out of memory) and without an object. False for lines
 * that are malformed, or not of an executable mapping.
 */
static bool parse_line(const char *line, struct mapping *mapping)
{
	uint64_t device_major, device_minor;
	const char *path;

	*mapping = (struct mapping){0};
	if (!take_number(&line, 16, '-', &mapping->start) ||
	    !take_number(&line, 16, ' ', &mapping->end) || mapping->start >= mapping->end)
		return false;
	if (strnlen(line, 5) < 5 || line[2] != 'x' || line[4] != ' ')
		return false;
	line += 5;
	if (!take_number(&line, 16, ' ', &mapping->offset) ||
	    !take_number(&line, 16, ':', &device_major) ||
	    !take_number(&line, 16, ' ', &device_minor) || device_major > UINT32_MAX ||
	    device_minor > UINT32_MAX || !isdigit((unsigned char)*line))
		return false;
	path = line + strspn(line, "0123456789");
	path += strspn(path, " ");
	errno = 0;
	mapping->inode = strtoull(line, NULL, 10);
	if (errno != 0)
		return false;
	mapping->device = makedev((unsigned int)device_major, (unsigned int)device_minor);
	mapping->path = strdup(*path ? path : "[anon]");
	if (mapping->path) {
		decode_newlines(mapping->path);
		mapping->deleted = cut_deleted(mapping->path);
	}
	return true;
}

static int parse_maps(FILE *stream, struct mappings *mappings)
{
	struct mapping mapping;
	size_t capacity = 0;
	char *line = NULL;
	ssize_t length;
	int result = 0;

	while (mappings->count < MAPPINGS_MAX) {
		length = getline(&line, &capacity, stream);
		if (length <= 0)
			break;
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		if (!parse_line(line, &mapping))
			continue;
		result = mapping.path ? mappings_put(mappings, &mapping) : -ENOMEM;
		if (result != 0)
			break;
	}
	free(line);
	return result;
}

/* Reading of /proc */

static int read_maps(struct processes *processes, uint32_t pid, struct mappings *mappings)
{
	char path[PATH_MAX];
	FILE *stream;
	int result;

	processes->counts.reads++;
	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/maps", processes->root, pid);
	stream = fopen(path, "re");
	if (!stream)
		return errno == ENOMEM ? -ENOMEM : 0;
	result = parse_maps(stream, mappings);
	fclose(stream);
	return result;
}

static void read_executable(const struct processes *processes, uint32_t pid,
			    struct identity *identity)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/proc/%" PRIu32 "/exe", processes->root, pid);
	if (stat(path, &st) != 0)
		return;
	identity->device = st.st_dev;
	identity->inode = st.st_ino;
}

static uint64_t find_vdso(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++) {
		if (strcmp(mappings->list[i].path, "[vdso]") == 0)
			return mappings->list[i].start;
	}
	return 0;
}

static bool is_other_program(const struct identity *old, const struct identity *new)
{
	if (new->inode == 0)
		return false;
	return old->inode != new->inode || old->device != new->device;
}

/* What was never known to have an executable is another image once it has one. */
static bool is_other_image(const struct identity *old, const struct identity *new)
{
	return is_other_program(old, new) || (old->vdso && new->vdso && old->vdso != new->vdso);
}

static struct object *find_object(struct processes *processes, uint32_t pid,
				  const struct mapping *mapping)
{
	const struct mapped_file file = {
		.pid = pid,
		.start = mapping->start,
		.end = mapping->end,
		.device = mapping->device,
		.inode = mapping->inode,
		.path = mapping->path,
		.deleted = mapping->deleted,
	};

	return objects_get(processes->objects, &file);
}

/* The vdso of 32-bit programs is another one; it is mapped below 4 GiB. */
static bool is_vdso64(const struct mapping *mapping)
{
	return strcmp(mapping->path, "[vdso]") == 0 && mapping->start > UINT32_MAX;
}

static int find_objects(struct processes *processes, uint32_t pid, struct mapping *mapping)
{
	if (mapping->path[0] == '[') {
		if (is_vdso64(mapping))
			mapping->object = objects_vdso(processes->objects);
		return 0;
	}
	if (mapping->inode == 0)
		return 0;
	mapping->object = find_object(processes, pid, mapping);
	return mapping->object ? 0 : -ENOMEM;
}

static bool is_same_mapping(const struct mapping *a, const struct mapping *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->device == b->device && a->inode == b->inode && strcmp(a->path, b->path) == 0;
}

/* Moves the mappings of `from`, which is read just now, into the process. */
static int merge_mappings(struct processes *processes, struct process *process,
			  struct mappings *from)
{
	int result = 0;

	if (process->mappings.count > MAPPINGS_MAX)
		mappings_clear(&process->mappings); /* too many old ones */
	for (size_t i = 0; i < from->count && result == 0; i++) {
		struct mapping *mapping = &from->list[i];
		const struct mapping *old = mappings_at(&process->mappings, mapping->start);

		if (old && is_same_mapping(old, mapping))
			continue;
		result = find_objects(processes, process->pid, mapping);
		if (result == 0)
			result = mappings_put(&process->mappings, mapping);
	}
	return result;
}

/* The table */

static int compare_pids(const void *a, const void *b)
{
	const struct process *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

static struct process *find_process(const struct processes *processes, uint32_t pid)
{
	const struct process key = {.pid = pid};
	struct process **node = tfind(&key, &processes->tree, compare_pids);

	return node ? *node : NULL;
}

struct processes *processes_new(const char *root, struct error *error)
{
	struct processes *processes = calloc(1, sizeof(*processes));

	if (!processes)
		goto out_of_memory;
	processes->root = strdup(root);
	if (!processes->root)
		goto free_processes;
	processes->objects = objects_new(root, error);
	if (!processes->objects)
		goto free_root;
	processes->tick = 1;
	return processes;

free_root:
	free(processes->root);
free_processes:
	free(processes);
out_of_memory:
	error_errno(error, ENOMEM, "can't make the table of processes");
	return NULL;
}

static void keep_node(void *node)
{
	(void)node; /* what the tree refers to is freed from the list of all */
}

void processes_free(struct processes *processes)
{
	struct process *process, *next;

	if (!processes)
		return;
	tdestroy(processes->tree, keep_node);
	for (process = processes->all; process; process = next) {
		next = process->next;
		mappings_clear(&process->mappings);
		free(process);
	}
	objects_free(processes->objects);
	free(processes->root);
	free(processes);
}

static void remember_comm(struct process *process, const char *comm)
{
	if (process->comms_count < COMMS_MAX)
		snprintf(process->comms[process->comms_count++], COMM_SIZE, "%s", comm);
}

static bool knows_comm(const struct process *process, const char *comm)
{
	for (unsigned int i = 0; i < process->comms_count; i++) {
		if (strncmp(process->comms[i], comm, COMM_SIZE - 1) == 0)
			return true;
	}
	return false;
}

/*
 * Makes a new image current, with the mappings of `maps`. On failure it stays
 * in the list of all, which frees it.
 */
static struct process *add_process(struct processes *processes, uint32_t pid, const char *comm,
				   const struct identity *identity, struct mappings *maps)
{
	struct process *process = calloc(1, sizeof(*process));
	struct process **node;

	if (!process)
		return NULL;
	process->next = processes->all;
	processes->all = process;
	process->pid = pid;
	process->maps_tick = processes->tick;
	process->identity = *identity;
	remember_comm(process, comm);
	snprintf(process->last_comm, COMM_SIZE, "%s", comm);
	if (merge_mappings(processes, process, maps) != 0)
		return NULL;
	node = tsearch(process, &processes->tree, compare_pids);
	if (!node)
		return NULL;
	processes->counts.images++;
	if (*node != process) {
		*node = process;
		processes->counts.execs++;
	}
	return process;
}

/* Reads what process `pid` is now; `old` is what is known of it, or NULL. */
static struct process *look(struct processes *processes, struct process *old, uint32_t pid,
			    const char *comm)
{
	struct identity identity = {0};
	struct mappings maps = {0};
	struct process *process = old;
	int result;

	read_executable(processes, pid, &identity);
	result = read_maps(processes, pid, &maps);
	if (result != 0)
		goto clear;
	identity.vdso = find_vdso(&maps);
	if (!old || is_other_image(&old->identity, &identity)) {
		process = add_process(processes, pid, comm, &identity, &maps);
		goto clear;
	}
	old->maps_tick = processes->tick;
	if (!old->identity.vdso)
		old->identity.vdso = identity.vdso;
	result = merge_mappings(processes, old, &maps);
clear:
	mappings_clear(&maps);
	return result == 0 ? process : NULL;
}

/*
 * Many names are those of threads. Once a process has used too many of them to
 * remember, it is looked at once a tick.
 */
static bool may_be_other_program(const struct processes *processes, struct process *process,
				 const char *comm)
{
	struct identity identity = {0};

	if (knows_comm(process, comm) ||
	    (process->comms_count == COMMS_MAX && process->comm_tick == processes->tick))
		return false;
	remember_comm(process, comm);
	process->comm_tick = processes->tick;
	read_executable(processes, process->pid, &identity);
	return is_other_program(&process->identity, &identity);
}

struct process *processes_get(struct processes *processes, uint32_t pid, const char *comm)
{
	struct process *process = find_process(processes, pid);

	if (!process || may_be_other_program(processes, process, comm))
		process = look(processes, process, pid, comm);
	if (process)
		snprintf(process->last_comm, COMM_SIZE, "%s", comm);
	return process;
}

struct process *processes_refresh(struct processes *processes, struct process *process)
{
	struct process *current = find_process(processes, process->pid);

	if (current && current->maps_tick != processes->tick)
		current = look(processes, current, current->pid, current->last_comm);
	if (current && current->mappings.count == 0 && !current->counted_gone) {
		current->counted_gone = true;
		processes->counts.gone++;
	}
	return current;
}

void processes_tick(struct processes *processes)
{
	processes->tick++;
}

void processes_counts(const struct processes *processes, struct processes_counts *counts)
{
	*counts = processes->counts;
}

uint32_t process_pid(const struct process *process)
{
	return process->pid;
}

const char *process_comm(const struct process *process)
{
	return process->comms[0];
}

bool process_covers(const struct process *process, const uint64_t *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!process_mapping(process, addresses[i]))
			return false;
	}
	return true;
}

const struct mapping *process_mapping(const struct process *process, uint64_t address)
{
	return mappings_at(&process->mappings, address);
}

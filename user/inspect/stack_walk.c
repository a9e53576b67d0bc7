// SPDX-License-Identifier: GPL-2.0
#include "inspect/stack_walk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "inspect/process_memory.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "unwind/job.h"

#define PAGE ((uint64_t)4096)
#define VDSO_MAX (64u << 10)

/* Files */

/* Returns a file with the contents of the vDSO, or a negative errno value. */
static int stack_walk_copy_vdso(pid_t pid, const struct process_mapping *mapping)
{
	size_t size = mapping->end - mapping->start;
	int fd, err = size > VDSO_MAX ? -E2BIG : 0;
	char *bytes = err ? NULL : malloc(size);

	if (!bytes)
		return err ? err : -ENOMEM;
	err = process_memory_read(pid, mapping->start, bytes, size);
	fd = err ? err : memfd_create("vdso", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, bytes, size) != (ssize_t)size) {
		close(fd);
		fd = -ENOMEM;
	}
	free(bytes);
	return fd;
}

static void stack_file_compile(const struct sandbox_server *server, struct stack_file *file)
{
	struct unwind_summary summary = {0};
	struct unwind_job job;
	struct pollfd ended;
	int err = unwind_job_start(&job, server, file->fd, true);

	if (!err) {
		ended = (struct pollfd){.fd = job.lifeline, .events = POLLIN};
		poll(&ended, 1,
		     (int)((job.deadline - now_ns(CLOCK_MONOTONIC)) / (NS_PER_SECOND / 1000)));
		err = unwind_job_finish(&job, &summary, &file->table);
	}
	if (err)
		snprintf(file->problem, sizeof(file->problem), "its table can't be compiled: %s",
			 strerror(-err));
	else if (!file->table)
		snprintf(file->problem, sizeof(file->problem), "%s",
			 unwind_result_text(summary.result));
	else
		stackbeat_unwind_open(file->table, &file->view);
}

static bool is_vdso(const struct process_mapping *mapping)
{
	return !mapping->inode && !strcmp(mapping->path, "[vdso]");
}

/* Opens the file of a mapping, and compiles its table. */
static void stack_file_open(struct stack_walk *walk, const struct process_mapping *mapping,
			    struct stack_file *file)
{
	struct error error = {""};

	*file = (struct stack_file){
		.path = mapping->path,
		.device = mapping->device,
		.inode = mapping->inode,
		.fd = is_vdso(mapping) ? stack_walk_copy_vdso(walk->pid, mapping)
				       : process_maps_open(&walk->maps, mapping),
	};
	if (file->fd < 0) {
		snprintf(file->problem, sizeof(file->problem), "it can't be opened: %s",
			 strerror(-file->fd));
	} else if (process_file_read(walk->server, mapping, file->fd, &file->file, &error)) {
		snprintf(file->problem, sizeof(file->problem), "%.90s", error.text);
		file->is_no_elf = true;
	} else {
		stack_file_compile(walk->server, file);
	}
}

/* Returns the number of the file of a mapping, which is opened on first use. */
static uint32_t stack_walk_find_file(struct stack_walk *walk, const struct process_mapping *mapping)
{
	for (size_t i = 0; i < walk->file_count; i++) {
		if (walk->files[i].inode == mapping->inode &&
		    walk->files[i].device == mapping->device)
			return (uint32_t)i;
	}
	if (walk->file_count == STACK_FILES_MAX || (!mapping->inode && !is_vdso(mapping)))
		return STACK_NO_FILE;
	stack_file_open(walk, mapping, &walk->files[walk->file_count]);
	return (uint32_t)walk->file_count++;
}

/* Returns the number of the mapping of an address, with its file looked up; or maps.count. */
static size_t stack_walk_find_mapping(struct stack_walk *walk, uint64_t address)
{
	const struct process_mapping *mapping = process_maps_at(&walk->maps, address);
	struct walk_mapping *found;
	struct stack_file *file;
	size_t index;

	if (!mapping || !mapping->is_executable)
		return walk->maps.count;
	index = (size_t)(mapping - walk->maps.items);
	found = &walk->mappings[index];
	if (found->start != found->end)
		return index;
	*found = (struct walk_mapping){.start = mapping->start, .end = mapping->end};
	walk->mapping_files[index] = stack_walk_find_file(walk, mapping);
	if (walk->mapping_files[index] == STACK_NO_FILE)
		return index;
	file = &walk->files[walk->mapping_files[index]];
	found->bias = file->file.bias;
	found->table = file->table ? &file->view : NULL;
	return index;
}

uint32_t stack_walk_file_at(struct stack_walk *walk, uint64_t address, uint64_t *vaddr)
{
	size_t index = stack_walk_find_mapping(walk, address);

	if (index == walk->maps.count)
		return STACK_NO_FILE;
	*vaddr = address - walk->mappings[index].bias;
	return walk->mapping_files[index];
}

bool stack_walk_is_jit(struct stack_walk *walk, uint64_t address)
{
	size_t index = stack_walk_find_mapping(walk, address);

	return index != walk->maps.count && (walk->mapping_files[index] == STACK_NO_FILE ||
					     walk->files[walk->mapping_files[index]].is_no_elf);
}

/* Walking */

bool stack_walk_word(const struct stack_walk *walk, uint64_t address, uint64_t *word)
{
	for (size_t i = 0; i < walk->copy.region_count; i++) {
		const struct stack_region *region = &walk->copy.regions[i];
		uint64_t offset = address - region->start;

		if (address < region->start || region->size < sizeof(*word) ||
		    offset > region->size - sizeof(*word))
			continue;
		memcpy(word, region->bytes + offset, sizeof(*word));
		return true;
	}
	return false;
}

static int stack_walk_read_word(void *arg, __u64 address, __u64 *word)
{
	struct stack_walk *walk = arg;
	uint64_t value;

	if (!stack_walk_word(walk, address, &value)) {
		walk->unreadable = address;
		return 0;
	}
	*word = value;
	return 1;
}

static const struct walk_mapping *mapping_at(void *arg, uint64_t address)
{
	struct stack_walk *walk = arg;
	size_t index = stack_walk_find_mapping(walk, address);

	return index == walk->maps.count ? NULL : &walk->mappings[index];
}

static void stack_walk_visit(void *arg, const struct stackbeat_unwind_frame *frame,
			     const struct walk_mapping *mapping,
			     const struct stackbeat_unwind_rule *rule)
{
	struct stack_walk *walk = arg;
	struct stack_frame *visited = &walk->frames[walk->frame_count++];

	*visited = (struct stack_frame){
		.frame = *frame,
		.file = mapping ? walk->mapping_files[mapping - walk->mappings] : STACK_NO_FILE,
		.is_mapped = mapping,
		.by_table = mapping && mapping->table,
		.has_rule = rule,
	};
	if (rule)
		visited->rule = *rule;
}

static void walk_copy(struct stack_walk *walk, bool begins_at_call)
{
	static uint64_t addresses[STACK_FRAMES_MAX];
	struct walk steps = {
		.mapping = mapping_at,
		.read = stack_walk_read_word,
		.arg = walk,
		.visit = stack_walk_visit,
		.begins_at_call = begins_at_call,
	};

	memcpy(steps.frame.registers, walk->copy.registers, sizeof(steps.frame.registers));
	steps.frame.fs_base = walk->copy.fs_base;
	walk->frame_count = 0;
	walk->unreadable = 0;
	walk_stack(&steps, addresses, STACK_FRAMES_MAX, &walk->end);
}

static bool add_region(struct stack_walk *walk, uint64_t start)
{
	struct thread_copy *copy = &walk->copy;
	struct stack_region *region = &copy->regions[copy->region_count];

	if (copy->region_count == STACK_REGIONS_MAX)
		return false;
	region->bytes = malloc(STACK_REGION_SIZE);
	if (!region->bytes)
		return false;
	region->start = start;
	copy->region_count++;
	return true;
}

/* Returns whether another region may have what the walk could not read. */
static bool needs_region(struct stack_walk *walk)
{
	const struct process_mapping *mapping;
	const uint64_t page = walk->unreadable & ~(PAGE - 1);

	if (walk->end != WALK_UNREADABLE)
		return false;
	for (size_t i = 1; i < walk->copy.region_count; i++) {
		if (walk->copy.regions[i].start == page)
			return false;
	}
	mapping = process_maps_at(&walk->maps, walk->unreadable);
	return mapping && add_region(walk, page);
}

int stack_walk_thread(struct stack_walk *walk, pid_t tid, struct error *error)
{
	int err;

	if (!walk->copy.region_count && !add_region(walk, 0))
		return error_errno(error, ENOMEM, "the stack can't be copied");
	do {
		err = thread_copy_read(walk->pid, tid, &walk->copy, error);
		if (err)
			return err;
		walk->stops++;
		walk->longest_stop_ns = MAX(walk->longest_stop_ns, walk->copy.stopped_ns);
		walk_copy(walk, false);
	} while (needs_region(walk));
	return 0;
}

int stack_walk_stored(struct stack_walk *walk, uint64_t rip, uint64_t rsp, uint64_t rbp,
		      struct error *error)
{
	struct thread_copy *copy = &walk->copy;

	if (!add_region(walk, rsp))
		return error_errno(error, ENOMEM, "the stack can't be copied");
	copy->registers[STACKBEAT_REGISTER_RIP] = rip;
	copy->registers[STACKBEAT_REGISTER_RSP] = rsp;
	copy->registers[STACKBEAT_REGISTER_RBP] = rbp;
	do {
		stack_region_read(walk->pid, &copy->regions[copy->region_count - 1]);
		walk_copy(walk, true);
	} while (needs_region(walk));
	return 0;
}

int stack_walk_open(struct stack_walk *walk, const struct sandbox_server *server, pid_t pid,
		    struct error *error)
{
	int err;

	*walk = (struct stack_walk){.server = server, .pid = pid};
	err = process_maps_read(pid, &walk->maps, error);
	if (err)
		return err;
	walk->mappings = calloc(walk->maps.count + 1, sizeof(*walk->mappings));
	walk->mapping_files = calloc(walk->maps.count + 1, sizeof(*walk->mapping_files));
	walk->files = calloc(STACK_FILES_MAX, sizeof(*walk->files));
	walk->frames = calloc(STACK_FRAMES_MAX, sizeof(*walk->frames));
	if (walk->mappings && walk->mapping_files && walk->files && walk->frames)
		return 0;
	stack_walk_close(walk);
	return error_errno(error, ENOMEM, "process %d can't be read", pid);
}

void stack_walk_close(struct stack_walk *walk)
{
	for (size_t i = 0; walk->files && i < walk->file_count; i++) {
		free(walk->files[i].table);
		if (walk->files[i].fd >= 0)
			close(walk->files[i].fd);
	}
	for (size_t i = 0; i < walk->copy.region_count; i++)
		free(walk->copy.regions[i].bytes);
	free(walk->mappings);
	free(walk->mapping_files);
	free(walk->files);
	free(walk->frames);
	process_maps_clear(&walk->maps);
	*walk = (struct stack_walk){0};
}

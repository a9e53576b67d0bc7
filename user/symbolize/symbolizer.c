// SPDX-License-Identifier: GPL-2.0
#include "symbolize/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "lib/string_table.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "symbolize/demangle_names.h"
#include "symbolize/find_binary.h"
#include "symbolize/worker_pool.h"

/* A unique address. `owner` is a mapped file, an address space, or the symbolizer (kernel). */
struct frame {
	struct frame_name name; /* what callers get */
	const void *owner;
	uint32_t segment; /* see process/address_space.h; 0 for the kernel */
	bool in_module; /* a kernel module */
	struct source_line symbol; /* from the symbol table */
	struct source_line *lines; /* from debug information, or NULL */
};

struct symbolizer {
	const struct kallsyms *kallsyms;
	struct kernel *kernel;
	const struct mapped_files *files;
	char *root;
	struct frame **frames;
	size_t frame_count, frame_capacity;
	struct hash frame_index; /* by owner, segment and address */
	struct string_table strings; /* of workers */
};

static int compare_pointers(const void *a, const void *b)
{
	return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

struct symbolizer *symbolizer_new(const struct kallsyms *kallsyms, struct kernel *kernel,
				  const struct mapped_files *files, const char *root,
				  struct error *error)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	if (symbolizer)
		symbolizer->root = strdup(root);
	if (!symbolizer || !symbolizer->root) {
		free(symbolizer);
		error_errno(error, ENOMEM, "can't create the symbolizer");
		return NULL;
	}
	symbolizer->kallsyms = kallsyms;
	symbolizer->kernel = kernel;
	symbolizer->files = files;
	return symbolizer;
}

void symbolizer_free(struct symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (size_t i = 0; i < symbolizer->frame_count; i++) {
		free(symbolizer->frames[i]->lines);
		free(symbolizer->frames[i]);
	}
	free(symbolizer->frames);
	hash_clear(&symbolizer->frame_index);
	string_table_clear(&symbolizer->strings);
	free(symbolizer->root);
	free(symbolizer);
}

/* Frames */

static uint32_t frame_hash(const void *owner, uint32_t segment, uint64_t vaddr)
{
	uint32_t hash = hash_number(HASH_START, (uintptr_t)owner);

	return hash_number(hash_number(hash, segment), vaddr);
}

static bool is_frame(const void *frames, uint32_t index, const void *key)
{
	const struct frame *a = ((struct frame *const *)frames)[index], *b = key;

	return a->owner == b->owner && a->segment == b->segment && a->name.vaddr == b->name.vaddr;
}

static struct frame *find_frame(const struct symbolizer *symbolizer, const void *owner,
				uint32_t segment, uint64_t vaddr)
{
	const struct frame key = {.name.vaddr = vaddr, .owner = owner, .segment = segment};
	uint32_t index = hash_find(&symbolizer->frame_index, frame_hash(owner, segment, vaddr),
				   is_frame, symbolizer->frames, &key);

	return index == HASH_NONE ? NULL : symbolizer->frames[index];
}

static struct frame *add_frame(struct symbolizer *symbolizer, const void *owner, uint32_t segment,
			       uint64_t vaddr)
{
	struct frame *frame, **slot;

	if (symbolizer->frame_count >= HASH_NONE ||
	    array_reserve(&symbolizer->frames, &symbolizer->frame_capacity, symbolizer->frame_count,
			  1, sizeof(struct frame *)))
		return NULL;
	/* Stored first, as gcc's analyzer would report a leak otherwise. */
	slot = &symbolizer->frames[symbolizer->frame_count];
	*slot = calloc(1, sizeof(**slot));
	frame = *slot;
	if (!frame)
		return NULL;
	frame->owner = owner;
	frame->segment = segment;
	frame->name.vaddr = vaddr;
	frame->name.mapping_path = "";
	frame->name.build_id = "";
	if (hash_add(&symbolizer->frame_index, frame_hash(owner, segment, vaddr),
		     symbolizer->frame_count)) {
		free(frame);
		return NULL;
	}
	symbolizer->frame_count++;
	return frame;
}

static void set_lines(struct frame_name *name, const struct source_line *lines, size_t count)
{
	const struct source_line *outermost = &lines[count - 1];

	name->lines = lines;
	name->line_count = count;
	name->function = outermost->function;
	name->system_name = outermost->system_name;
	name->start = outermost->start;
	name->resolved = true;
}

/* Sets the symbol of a frame. symbolizer_resolve() demangles it. */
static void set_symbol(struct frame *frame, const char *name, uint64_t start)
{
	frame->symbol = (struct source_line){
		.function = name,
		.system_name = name,
		.start = start,
	};
	set_lines(&frame->name, &frame->symbol, 1);
}

/* Kernel */

const struct frame_name *symbolize_kernel(struct symbolizer *symbolizer, uint64_t address)
{
	struct frame *frame = find_frame(symbolizer, symbolizer, SEGMENT_NONE, address);
	const char *name, *module;
	uint64_t start;

	if (frame)
		return &frame->name;
	frame = add_frame(symbolizer, symbolizer, SEGMENT_NONE, address);
	if (!frame)
		return NULL;
	frame->name.kernel = kernel_mapping_at(symbolizer->kernel, address);
	frame->in_module = strcmp(frame->name.kernel->name, KERNEL_MAPPING);
	frame->name.mapping_path = frame->name.kernel->name;
	frame->name.build_id = frame->name.kernel->build_id;
	if (symbolizer->kallsyms &&
	    kallsyms_lookup(symbolizer->kallsyms, address, &name, &start, &module))
		set_symbol(frame, name, start);
	return &frame->name;
}

/* User */

/* An address in no file: each address space has frames of its own. */
static const struct frame_name *symbolize_address(struct symbolizer *symbolizer,
						  const struct address_space *space,
						  uint32_t segment, uint64_t address)
{
	static const char *const paths[SEGMENT_FILES] = {
		[SEGMENT_ANON] = "[anon]",
		[SEGMENT_VSYSCALL] = "[vsyscall]",
		[SEGMENT_VDSO] = "[vdso]",
	};
	struct frame *frame = find_frame(symbolizer, space, segment, address);

	if (frame)
		return &frame->name;
	frame = add_frame(symbolizer, space, segment, address);
	if (!frame)
		return NULL;
	if (paths[segment])
		frame->name.mapping_path = paths[segment];
	return &frame->name;
}

const struct frame_name *symbolize_user(struct symbolizer *symbolizer,
					const struct address_space *space, uint32_t segment,
					uint64_t offset)
{
	bool is_offset;
	const struct mapped_file *file = segment_file(symbolizer->files, segment, &is_offset);
	struct symbol symbol;
	struct frame *frame;

	if (!file)
		return symbolize_address(symbolizer, space, segment, offset);
	/* The kernel could not read the segments of the file; the reader may know them. */
	if (is_offset && mapped_file_vaddr(file, offset, &offset))
		segment--;
	/* All processes that map the file share the frame. */
	frame = find_frame(symbolizer, file, segment, offset);
	if (frame)
		return &frame->name;
	frame = add_frame(symbolizer, file, segment, offset);
	if (!frame)
		return NULL;
	frame->name.mapping_path = *file->path ? file->path : "[file]";
	frame->name.build_id = file->build_id;
	if (!*file->build_id)
		frame->name.file = file->index + 1;
	frame->name.normalized = (segment - SEGMENT_FILES) % 2 == 0;
	if (frame->name.normalized && mapped_file_lookup(file, offset, &symbol))
		set_symbol(frame, symbol.name, symbol.start);
	return &frame->name;
}

/* Debug information */

/* The frames of one job: of a file, the kernel, a kernel module, or JIT code. */
struct task {
	const struct symbolizer *symbolizer;
	const struct mapped_file *file; /* NULL: the kernel, or JIT code */
	const struct address_space *space; /* of JIT code */
	struct frame **frames; /* a range of resolution->frames */
	uint64_t *addresses;
	size_t count;
};

struct resolution {
	struct symbolizer *symbolizer;
	struct task *tasks;
	struct worker_job *jobs;
	size_t count, task_capacity, job_capacity;
	struct frame **frames; /* all frames of the symbolizer, sorted by job */
};

static int open_file(void *arg, unsigned int candidate, struct error *error)
{
	const struct task *task = arg;
	const char *problem = task->file->problem;
	int fd;

	if (candidate)
		return -ENOENT;
	if (!strcmp(task->file->path, VDSO_PATH))
		return open_vdso();
	fd = mapped_file_open(task->symbolizer->files, task->file);

	if (fd < 0 && problem && *problem)
		error_set(error, -fd, "%s", problem);
	return fd;
}

static int open_perf_map(void *arg, unsigned int candidate, struct error *error)
{
	int fd = address_space_perf_map(((const struct task *)arg)->space);

	(void)error;
	if (fd < 0 || candidate)
		return -ENOENT;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

static int open_kernel(void *arg, unsigned int candidate, struct error *error)
{
	const struct task *task = arg;
	const struct frame_name *name = &task->frames[0]->name;
	struct utsname self;

	(void)error;
	uname(&self);
	if (task->frames[0]->in_module)
		return kernel_open_module(task->symbolizer->root, self.release, name->kernel->name,
					  candidate);
	return kernel_open_vmlinux(task->symbolizer->root, self.release, candidate);
}

static int set_frame_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
			   size_t count)
{
	struct resolution *resolution = arg;
	struct frame *frame = resolution->tasks[job].frames[index];
	struct source_line *copy;

	frame->name.elided = count == 0;
	if (count == 0 || !lines[count - 1].system_name)
		return 0;
	copy = source_lines_copy(lines, count);
	if (!copy)
		return -ENOMEM;
	free(frame->lines);
	frame->lines = copy;
	set_lines(&frame->name, copy, count);
	return 0;
}

/* Frames of one job are adjacent: those of one owner, kernel mapping and segment. */
static int compare_jobs(const void *a, const void *b)
{
	const struct frame *left = *(struct frame *const *)a, *right = *(struct frame *const *)b;
	int result = compare_pointers(left->owner, right->owner);

	if (result)
		return result;
	result = compare_pointers(left->name.kernel, right->name.kernel);
	if (result)
		return result;
	if (left->segment != right->segment)
		return left->segment < right->segment ? -1 : 1;
	return (left->name.vaddr > right->name.vaddr) - (left->name.vaddr < right->name.vaddr);
}

static bool is_same_job(const struct frame *a, const struct frame *b)
{
	return a->owner == b->owner && a->name.kernel == b->name.kernel && a->segment == b->segment;
}

static bool make_job(const struct frame *frame, struct task *task, struct worker_job *job)
{
	job->path = frame->name.mapping_path;
	job->build_id = frame->name.build_id;
	if (frame->name.normalized) {
		task->file = frame->owner;
		job->open = open_file;
		return true;
	}
	if (frame->segment == SEGMENT_ANON && !frame->name.kernel) {
		task->space = frame->owner;
		job->open = open_perf_map;
		job->is_perf_map = true;
		return address_space_perf_map(task->space) >= 0;
	}
	if (!frame->name.kernel || !*frame->name.build_id)
		return false;
	job->is_module = frame->in_module;
	job->open = open_kernel;
	job->code_start = frame->name.kernel->start;
	return job->code_start != 0;
}

static int add_job(struct resolution *resolution, struct frame **frames, size_t count)
{
	struct task task = {
		.symbolizer = resolution->symbolizer,
		.frames = frames,
		.count = count,
	};
	struct worker_job job = {.count = count};

	if (!make_job(frames[0], &task, &job))
		return 0;
	if (array_reserve(&resolution->tasks, &resolution->task_capacity, resolution->count, 1,
			  sizeof(task)) ||
	    array_reserve(&resolution->jobs, &resolution->job_capacity, resolution->count, 1,
			  sizeof(job)))
		return -ENOMEM;
	task.addresses = calloc(count, sizeof(*task.addresses));
	if (!task.addresses)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		task.addresses[i] = frames[i]->name.vaddr;
	job.addresses = task.addresses;
	resolution->tasks[resolution->count] = task;
	resolution->jobs[resolution->count++] = job;
	return 0;
}

static int add_jobs(struct resolution *resolution)
{
	size_t count = resolution->symbolizer->frame_count;
	struct frame **frames = calloc(count + 1, sizeof(struct frame *));
	int err = 0;

	resolution->frames = frames;
	if (!frames)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		frames[i] = resolution->symbolizer->frames[i];
	qsort(frames, count, sizeof(struct frame *), compare_jobs);
	for (size_t from = 0, to; from < count && !err; from = to) {
		for (to = from + 1; to < count && is_same_job(frames[from], frames[to]);)
			to++;
		err = add_job(resolution, frames + from, to - from);
	}
	for (size_t i = 0; i < resolution->count; i++)
		resolution->jobs[i].arg = &resolution->tasks[i];
	return err;
}

static bool has_symbol_only(const struct frame *frame)
{
	return frame->name.lines == &frame->symbol;
}

/* Demangles the names that come from the symbol table of the kernel. */
static int demangle_symbols(struct symbolizer *symbolizer, const struct sandbox_server *sandbox)
{
	struct source_line *lines = calloc(symbolizer->frame_count + 1, sizeof(*lines));
	size_t count = 0;
	int err;

	if (!lines)
		return -ENOMEM;
	for (size_t i = 0; i < symbolizer->frame_count; i++) {
		if (has_symbol_only(symbolizer->frames[i]))
			lines[count++] = symbolizer->frames[i]->symbol;
	}
	err = demangle_lines(sandbox, lines, count, &symbolizer->strings);
	count = 0;
	for (size_t i = 0; i < symbolizer->frame_count; i++) {
		struct frame *frame = symbolizer->frames[i];

		if (!has_symbol_only(frame))
			continue;
		frame->symbol = lines[count++];
		frame->name.function = frame->symbol.function;
	}
	free(lines);
	return err;
}

int symbolizer_resolve(struct symbolizer *symbolizer, const struct symbolize_options *options)
{
	struct resolution resolution = {.symbolizer = symbolizer};
	const struct worker_pool pool = {
		.options = *options,
		.lines = set_frame_lines,
		.arg = &resolution,
	};
	int err = add_jobs(&resolution);

	if (!err)
		err = worker_pool_run(&pool, resolution.jobs, resolution.count,
				      &symbolizer->strings);
	if (!err)
		err = demangle_symbols(symbolizer, options->sandbox);
	for (size_t i = 0; i < resolution.count; i++)
		free(resolution.tasks[i].addresses);
	free(resolution.tasks);
	free(resolution.jobs);
	free(resolution.frames);
	return err;
}

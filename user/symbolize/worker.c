// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker.h"

#include "debuginfo/debug_files.h"
#include "debuginfo/debuginfod.h"
#include "debuginfo/debuginfod_helper.h"
#include "debuginfo/demangle.h"
#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/kernel_module_elf.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "lib/string_table.h"
#include "runtime/go_pclntab.h"
#include "runtime/perf_map.h"
#include "sandbox/seccomp_filter.h"
#include "symbolize/symbol_cache.h"
#include "symbolize/worker_protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ELF_FILES_MAX 3u
#define RECENT_TEXTS 4096u /* a power of two */
/* As much as a pipe holds: the parent wakes up once for it. */
#define BUFFER_SIZE (64u << 10)

/* The same texts come again and again, from the same place. */
struct recent_text {
	const char *text;
	uint32_t index;
};

struct child {
	const struct worker_job *job;
	int fd; /* of the job's file, or a negative errno value */
	struct debuginfod_helper fetcher;
	FILE *out;
	char buffer[BUFFER_SIZE]; /* of it */
	struct string_table texts;
	size_t told; /* texts that were written */
	struct recent_text recent[RECENT_TEXTS]; /* by their places */
	uint32_t *demangled; /* of each text: 1 + its demangled one, 0: not known yet */
	size_t demangled_capacity, demangled_count;
	struct timespec fetch_end;
	struct debug_files files;
	Elf *dwarf, *alt; /* with the debug information, and what that shares; NULL: none */
	/* The symbol tables of other files than the binary, best first. */
	struct elf_file elfs[ELF_FILES_MAX];
	size_t elf_count;
	uint64_t shift; /* from the job's addresses to those of the file */
	uint64_t *vaddrs; /* of all addresses */
	bool *named;
	/* The ones that have no name yet. */
	uint64_t *nameless;
	size_t *indices; /* of these */
	int error;
	struct {
		uint32_t index, count;
		struct worker_line lines[INLINE_DEPTH_MAX];
	} message; /* a struct worker_lines with room */
};

_Static_assert(offsetof(struct child, message.lines) - offsetof(struct child, message) ==
		       offsetof(struct worker_lines, lines),
	       "the message is laid out as the parent reads it");

/* Telling */

static void tell(struct child *child, enum worker_message_type type, const void *bytes, size_t size)
{
	const struct worker_message message = {.type = type, .size = (uint32_t)size};

	fwrite(&message, sizeof(message), 1, child->out);
	fwrite(bytes, 1, size, child->out);
}

static void tell_problem(struct child *child, const char *text)
{
	tell(child, WORKER_PROBLEM, text, strlen(text));
}

/* The number of a text as the parent knows it; 0 for NULL. */
static uint32_t tell_text(struct child *child, const char *text)
{
	uint64_t place = (uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15) >> 32;
	struct recent_text *recent = &child->recent[place % RECENT_TEXTS];
	uint32_t index;

	if (!text)
		return 0;
	/* Another one may lie there now. */
	if (recent->text == text && strcmp(child->texts.items[recent->index], text) == 0)
		return recent->index + 1;
	index = string_table_add(&child->texts, text, WORKER_STRING_MAX);
	if (index == STRING_NONE) {
		child->error = -ENOMEM;
		return 0;
	}
	for (; child->told < child->texts.count; child->told++) {
		const char *new = child->texts.items[child->told];

		tell(child, WORKER_STRING, new, strlen(new));
	}
	*recent = (struct recent_text){text, index};
	return index + 1;
}

/* The number of what people call the function of a linker's name, 0 if it is not mangled. */
static uint32_t demangled(struct child *child, const char *system_name, uint32_t number)
{
	char text[DEMANGLED_MAX];

	if (child->demangled_count < child->texts.count) {
		size_t more = child->texts.count - child->demangled_count;

		if (array_reserve(&child->demangled, &child->demangled_capacity,
				  child->demangled_count, more, sizeof(*child->demangled)) != 0) {
			child->error = -ENOMEM;
			return 0;
		}
		memset(child->demangled + child->demangled_count, 0,
		       more * sizeof(*child->demangled));
		child->demangled_count += more;
	}
	if (child->demangled[number - 1] == 0) {
		uint32_t result = demangle(system_name, text) ? tell_text(child, text) : 0;

		child->demangled[number - 1] = 1 + result;
	}
	return child->demangled[number - 1] - 1;
}

static bool is_mangled(const char *name)
{
	return strncmp(name, "_Z", 2) == 0 || strncmp(name, "_R", 2) == 0;
}

/* Where the debug information says nothing, the symbol does. NULL: there is none. */
static void make_line(struct child *child, struct worker_line *line,
		      const struct dwarf_frame *frame, const struct symbol *symbol)
{
	const char *system_name = frame->linkage_name, *name = frame->name;

	if (!system_name && symbol && (!name || is_mangled(symbol->name)))
		system_name = symbol->name;
	if (!system_name)
		system_name = name;
	*line = (struct worker_line){
		.system_name = tell_text(child, system_name),
		.file = tell_text(child, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
		.start = frame->start,
	};
	if (symbol && !line->start)
		line->start = symbol->start;
	if (child->job->is_module) /* its sections lie elsewhere, each */
		line->start = 0;
	else if (line->start)
		line->start -= child->shift;
	if (line->system_name)
		line->function = demangled(child, system_name, line->system_name);
	if (!line->function)
		line->function = name ? tell_text(child, name) : line->system_name;
}

static void tell_lines(struct child *child, size_t index, size_t count)
{
	child->message.index = (uint32_t)index;
	child->message.count = (uint32_t)count;
	tell(child, WORKER_LINES, &child->message,
	     offsetof(struct worker_lines, lines) + count * sizeof(child->message.lines[0]));
	child->named[index] = true;
}

/* Naming */

static bool find_symbol(const struct child *child, uint64_t vaddr, struct symbol *symbol)
{
	const struct worker_job *job = child->job;

	for (size_t i = 0; i < child->elf_count; i++) {
		if (elf_lookup(&child->elfs[i], vaddr, symbol))
			return true;
	}
	return job->lookup && job->lookup(job->arg, vaddr, symbol);
}

static int take_frames(void *arg, size_t nameless, const struct dwarf_frame *frames, size_t count)
{
	const struct dwarf_frame *last = count > 0 ? &frames[count - 1] : NULL;
	struct child *child = arg;
	bool has_symbol = false;
	struct symbol symbol;
	size_t index;

	if (!last)
		return 0;
	index = child->indices[nameless];
	/* Of a function without a linker's name, or code that the compiler did not make. */
	if (!last->linkage_name)
		has_symbol = find_symbol(child, child->vaddrs[index], &symbol) &&
			     (!last->start || last->start == symbol.start);
	if (!last->name && !last->linkage_name && !has_symbol)
		return 0;
	for (size_t i = 0; i < count; i++)
		make_line(child, &child->message.lines[i], &frames[i],
			  i + 1 == count && has_symbol ? &symbol : NULL);
	tell_lines(child, index, count);
	return child->error;
}

static int take_go_frame(const struct go_frame *frame, void *arg)
{
	struct child *child = arg;
	uint32_t *count = &child->message.count;

	if (*count == INLINE_DEPTH_MAX) /* the last one is the one not inlined */
		--*count;
	child->message.lines[(*count)++] = (struct worker_line){
		.function = tell_text(child, frame->name),
		.system_name = tell_text(child, frame->system_name),
		.file = tell_text(child, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
	};
	return child->error;
}

/* Go programs tell more of themselves than their debug information does. */
static void name_by_go(struct child *child, int fd)
{
	struct go_pclntab *gosym;
	struct stat st;
	void *image;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size <= 0)
		return;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return;
	if (go_pclntab_open(image, (size_t)st.st_size, &gosym, NULL) == 0) {
		for (size_t i = 0; i < child->job->count && child->error == 0; i++) {
			child->message.count = 0;
			if (go_pclntab_lookup(gosym, child->vaddrs[i], take_go_frame, child) == 0)
				tell_lines(child, i, child->message.count);
		}
		go_pclntab_close(gosym);
	}
	munmap(image, (size_t)st.st_size);
}

static void name_by_debug_information(struct child *child)
{
	struct dwarf_lookup *debuginfo;
	struct error error;
	size_t count = 0;

	for (size_t i = 0; i < child->job->count; i++) {
		if (child->named[i])
			continue;
		child->nameless[count] = child->vaddrs[i];
		child->indices[count++] = i;
	}
	if (count == 0)
		return;
	if (dwarf_lookup_open(child->dwarf, child->alt, &debuginfo, &error) != 0) {
		tell_problem(child, error.text);
		return;
	}
	child->error = dwarf_lookup_each(debuginfo, child->nameless, count, take_frames, child);
	dwarf_lookup_close(debuginfo);
}

static void name_by_symbols(struct child *child)
{
	const struct dwarf_frame nothing = {0};
	struct symbol symbol;

	for (size_t i = 0; i < child->job->count && child->error == 0; i++) {
		if (child->named[i] || !find_symbol(child, child->vaddrs[i], &symbol))
			continue;
		make_line(child, &child->message.lines[0], &nothing, &symbol);
		tell_lines(child, i, 1);
	}
}

/* Files */

static void read_symbols(struct child *child, int fd, const void *image, size_t size)
{
	struct error problem;

	if (elf_read(&child->elfs[child->elf_count], fd, image, size, true, &problem) == 0)
		child->elf_count++;
}

static int report_progress(void *arg, long done, long total)
{
	const struct worker_progress progress = {
		.done = done > 0 ? (uint64_t)done : 0,
		.total = total > 0 ? (uint64_t)total : 0,
	};
	struct child *child = arg;
	struct timespec now;

	tell(child, WORKER_PROGRESS, &progress, sizeof(progress));
	fflush(child->out);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec >= child->fetch_end.tv_sec;
}

/* As soon as the file is looked into, it may have its way here. */
static void report_opened(void *arg, int fd)
{
	struct child *child = arg;

	if (file_is_trusted(fd))
		return;
	tell(child, WORKER_UNTRUSTED, "", 0);
	fflush(child->out);
}

static bool open_files(struct child *child, const struct worker_settings *settings)
{
	const struct worker_job *job = child->job;
	const struct debug_search search = {
		.directories = settings->directories,
		.directory_count = settings->directory_count,
		.fetcher = child->fetcher.socket >= 0 ? &child->fetcher : NULL,
		.progress = report_progress,
		.opened = report_opened,
		.arg = child,
	};
	int fd = child->fd >= 0 ? child->fd : -1;
	struct error error;

	clock_gettime(CLOCK_MONOTONIC, &child->fetch_end);
	child->fetch_end.tv_sec += WORKER_FETCH_S;
	if (debug_files_open(&child->files, fd, job->path, job->build_id, &search, &error) != 0) {
		tell_problem(child, error.text);
		return false;
	}
	if (*child->files.problem.text)
		tell_problem(child, child->files.problem.text);
	if (child->files.debug.elf)
		read_symbols(child, child->files.debug.fd, NULL, 0);
	if (child->files.mini.elf)
		read_symbols(child, -1, child->files.mini.image, child->files.mini.image_size);
	/* Other jobs have read those of the binary before. */
	if (!job->lookup && fd >= 0)
		read_symbols(child, fd, NULL, 0);
	return true;
}

/* Finds out how far the code lies from where its file says. */
static bool find_shift(struct child *child)
{
	const struct worker_job *job = child->job;
	uint64_t vaddr;

	if (!job->code_start)
		return true;
	for (size_t i = 0; i < child->elf_count; i++) {
		if (elf_code_start(&child->elfs[i], &vaddr)) {
			child->shift = vaddr - job->code_start;
			return true;
		}
	}
	return false;
}

static bool prepare(struct child *child)
{
	const struct worker_job *job = child->job;

	child->vaddrs = calloc(job->count, sizeof(*child->vaddrs));
	child->named = calloc(job->count, sizeof(*child->named));
	child->nameless = calloc(job->count, sizeof(*child->nameless));
	child->indices = calloc(job->count, sizeof(*child->indices));
	if (!child->vaddrs || !child->named || !child->nameless || !child->indices) {
		child->error = -ENOMEM;
		return false;
	}
	return true;
}

static void open_file(struct child *child)
{
	const struct worker_job *job = child->job;
	struct error error = {""};
	bool is_trusted;

	child->fd = job->open ? job->open(job->arg, &error) : -ENOENT;
	is_trusted = !job->lookup_is_untrusted && (child->fd < 0 || file_is_trusted(child->fd));
	/* Told at once, as it is what comes first that counts: soon the file may have its way here.
	 */
	tell(child, is_trusted ? WORKER_TRUSTED : WORKER_UNTRUSTED, "", 0);
	fflush(child->out);
	if (*error.text)
		tell_problem(child, error.text);
}

static void name_by_perfmap(struct child *child)
{
	const struct worker_job *job = child->job;
	struct dwarf_frame frame = {0};
	struct perf_map *map;

	if (child->fd < 0 || perf_map_read(child->fd, &map) != 0)
		return;
	if (perf_map_is_truncated(map))
		tell_problem(child, "a perf map is too large: its last functions are left out");
	for (size_t i = 0; i < job->count && child->error == 0; i++) {
		frame.name = perf_map_lookup(map, job->addresses[i]);
		if (!frame.name)
			continue;
		make_line(child, &child->message.lines[0], &frame, NULL);
		tell_lines(child, i, 1);
	}
	perf_map_free(map);
}

/* Of offsets, those that are in no segment get an address that nothing has. */
static bool find_vaddrs(struct child *child)
{
	const struct worker_job *job = child->job;
	struct elf_file binary = {0};
	struct error problem;

	for (size_t i = 0; i < job->count; i++)
		child->vaddrs[i] = job->addresses[i] + child->shift;
	if (!job->offsets)
		return true;
	if (child->fd < 0 || elf_read(&binary, child->fd, NULL, 0, false, &problem) != 0)
		return false;
	for (size_t i = 0; i < job->count; i++) {
		if (!elf_vaddr(&binary, job->addresses[i], &child->vaddrs[i]))
			child->vaddrs[i] = UINT64_MAX;
	}
	elf_clear(&binary);
	return true;
}

static void name_all(struct child *child, const struct worker_settings *settings)
{
	bool has_files = open_files(child, settings);

	if (find_shift(child) && find_vaddrs(child)) {
		if (has_files)
			name_by_go(child, child->fd);
		child->dwarf = has_files ? child->files.dwarf : NULL;
		child->alt = has_files ? child->files.alt.elf : NULL;
		if (child->dwarf)
			name_by_debug_information(child);
		name_by_symbols(child);
	}
	if (has_files)
		debug_files_close(&child->files);
}

/* Modules */

/* What is not in the code of the module gets an address that nothing has. */
static void name_by_module(struct child *child, const struct kernel_module_elf *object)
{
	const struct worker_job *job = child->job;

	for (size_t i = 0; i < job->count; i++) {
		if (!kernel_module_elf_vaddr(object, job->addresses[i] - job->code_start,
					     &child->vaddrs[i]))
			child->vaddrs[i] = UINT64_MAX;
	}
	child->dwarf = object->elf;
	name_by_debug_information(child);
}

/* Tells what is wrong with the file; that it has no DWARF is as with other files. */
static bool try_module(struct child *child, int fd, const char *path)
{
	struct kernel_module_elf object;
	struct error error = {""};

	if (kernel_module_elf_open(&object, fd, path, child->job->build_id, &error) == 0) {
		name_by_module(child, &object);
		kernel_module_elf_close(&object);
		return true;
	}
	if (*error.text)
		tell_problem(child, error.text);
	return false;
}

static void name_module(struct child *child, const struct worker_settings *settings)
{
	const struct debug_search search = {
		.directories = settings->directories,
		.directory_count = settings->directory_count,
	};
	char *path = NULL;
	bool done = false;
	int fd = debug_file_by_build_id(child->job->build_id, &search, &path);

	if (fd >= 0) {
		report_opened(child, fd);
		done = try_module(child, fd, path);
		close(fd);
	}
	free(path);
	if (!done && child->fd >= 0)
		try_module(child, child->fd, child->job->path);
}

static void name(struct child *child, const struct worker_settings *settings)
{
	if (child->job->is_perf_map)
		name_by_perfmap(child);
	else if (child->job->is_module)
		name_module(child, settings);
	else
		name_all(child, settings);
}

/*
 * Opens what it can't have later. To find the file of a build id, headers and notes are read before
 * that, as other processes of the reader do.
 */
static void confine_child(struct child *child, const struct worker_settings *settings, int fd)
{
	const struct worker_job *job = child->job;

	open_file(child);
	child->fetcher.socket = -1;
	if (settings->fetches && !job->is_perf_map && !job->is_module && debuginfod_is_wanted() &&
	    debuginfod_helper_start(&child->fetcher, fd) != 0)
		tell_problem(child, "debuginfod can't be asked: no process can be started");
	sandbox_enter((int[]){fd, child->fetcher.socket}, child->fd);
}

void worker_main(const struct worker_settings *settings, const struct worker_job *job, int fd)
{
	struct child *child = calloc(1, sizeof(*child));

	if (!child)
		return;
	child->job = job;
	child->out = fdopen(fd, "w");
	if (child->out)
		setvbuf(child->out, child->buffer, _IOFBF, sizeof(child->buffer));
	if (child->out && prepare(child)) {
		confine_child(child, settings, fd);
		name(child, settings);
		debuginfod_helper_stop(&child->fetcher);
		if (child->fd >= 0)
			close(child->fd);
	}
	if (child->out && child->error == 0)
		tell(child, WORKER_END, "", 0);
	/* The process ends now: only what was written matters. */
	if (child->out)
		fclose(child->out);
	free(child);
}

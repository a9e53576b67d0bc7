// SPDX-License-Identifier: GPL-2.0
#include "symbolize/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/debug_files.h"
#include "debuginfo/demangle.h"
#include "debuginfo/dwarf_lookup.h"
#include "debuginfo/elf_headers.h"
#include "debuginfo/elf_memory.h"
#include "debuginfo/file_cache.h"
#include "debuginfo/frame_index.h"
#include "debuginfo/kernel_image.h"
#include "debuginfo/kernel_module_elf.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "runtime/go_pclntab.h"
#include "runtime/perf_map.h"
#include "symbolize/archive_unpacker.h"
#include "symbolize/demangle_names.h"
#include "symbolize/job_bytes.h"
#include "symbolize/kept_symbols.h"
#include "symbolize/opener.h"
#include "symbolize/worker_protocol.h"
#include "unwind/elfutils_walk.h"
#include "unwind/go_program.h"
#include "unwind/job.h"

#define ELF_FILES_MAX 3u
/* Files that may be the file of a job: more are not tried. */
#define CANDIDATES_MAX 32u
#define RECENT_STRINGS 4096u /* a power of two */
/* The capacity of a pipe: the parent wakes up once for each buffer. */
#define BUFFER_SIZE (64u << 10)

/* Cache of sent strings by their address: the same strings repeat. */
struct recent_string {
	const char *text;
	uint32_t index;
};

struct worker_state {
	const struct worker_job *job;
	int opener; /* socket */
	int debuginfod; /* socket, or -1 */
	int fd; /* the file of the job, or -1 */
	FILE *out;
	char buffer[BUFFER_SIZE]; /* of `out` */
	struct string_table strings;
	size_t sent_count; /* strings sent */
	struct recent_string recent[RECENT_STRINGS]; /* by a hash of the address */
	uint32_t *demangled; /* of each string: 1 + number of its demangled form; 0: unknown */
	size_t demangled_capacity, demangled_count;
	struct timespec fetch_end;
	struct debug_files files;
	bool has_files; /* `files` are open */
	Elf *dwarf, *alt; /* debug information, and its alternate debug file; NULL: none */
	struct elf_file elfs[ELF_FILES_MAX]; /* symbol tables, best first */
	size_t elf_count;
	struct kept_symbols found; /* what was kept before, in `image` */
	void *image; /* NULL: none */
	size_t image_size;
	struct kept_symbols kept; /* what can be kept now */
	bool can_keep, has_more; /* `kept` has more than `found` */
	bool has_pclntab;
	bool lacks_symbols; /* a file's symbols could not be read, perhaps for want of memory */
	uint64_t bias; /* virtual address in the file minus address of the job */
	uint64_t *vaddrs; /* in the file, of each address */
	bool *resolved; /* each address: its lines were sent */
	uint64_t *pending; /* virtual addresses without lines yet */
	size_t *indices; /* of the pending ones in the job */
	int err;
	struct {
		uint32_t index, count;
		struct worker_line lines[INLINE_DEPTH_MAX];
	} message; /* a struct worker_lines of maximum size */
};

_Static_assert(offsetof(struct worker_state, message.lines) -
			       offsetof(struct worker_state, message) ==
		       offsetof(struct worker_lines, lines),
	       "the message has the layout of struct worker_lines");

/* Messages */

static void worker_send(struct worker_state *worker, enum worker_message_type type,
			const void *bytes, size_t size)
{
	const struct worker_message message = {.type = type, .size = (uint32_t)size};

	fwrite(&message, sizeof(message), 1, worker->out);
	fwrite(bytes, 1, size, worker->out);
}

static void send_problem(struct worker_state *worker, const char *text)
{
	worker_send(worker, WORKER_PROBLEM, text, strlen(text));
}

/* Sends a string unless the parent has it; returns its number, 0 for NULL. */
static uint32_t send_string(struct worker_state *worker, const char *text)
{
	uint64_t hash = (uintptr_t)text * UINT64_C(0x9e3779b97f4a7c15) >> 32;
	struct recent_string *recent = &worker->recent[hash % RECENT_STRINGS];
	uint32_t index;

	if (!text)
		return 0;
	/* The address may contain another string now. */
	if (recent->text == text && !strcmp(worker->strings.items[recent->index], text))
		return recent->index + 1;
	index = string_table_add(&worker->strings, text, WORKER_STRING_MAX);
	if (index == STRING_NONE) {
		worker->err = -ENOMEM;
		return 0;
	}
	for (; worker->sent_count < worker->strings.count; worker->sent_count++) {
		const char *unsent = worker->strings.items[worker->sent_count];

		worker_send(worker, WORKER_STRING, unsent, strlen(unsent));
	}
	*recent = (struct recent_string){text, index};
	return index + 1;
}

/* Sends the demangled form of a linker name; returns its number, 0 if it is not mangled. */
static uint32_t send_demangled(struct worker_state *worker, const char *system_name,
			       uint32_t number)
{
	char text[DEMANGLED_MAX];

	if (worker->demangled_count < worker->strings.count) {
		size_t more = worker->strings.count - worker->demangled_count;

		if (array_reserve(&worker->demangled, &worker->demangled_capacity,
				  worker->demangled_count, more, sizeof(*worker->demangled))) {
			worker->err = -ENOMEM;
			return 0;
		}
		memset(worker->demangled + worker->demangled_count, 0,
		       more * sizeof(*worker->demangled));
		worker->demangled_count += more;
	}
	if (worker->demangled[number - 1] == 0) {
		uint32_t result = demangle(system_name, text) ? send_string(worker, text) : 0;

		worker->demangled[number - 1] = 1 + result;
	}
	return worker->demangled[number - 1] - 1;
}

/* Fills gaps of the debug information from the symbol; NULL: no symbol. */
static void make_line(struct worker_state *worker, struct worker_line *line,
		      const struct dwarf_frame *frame, const struct symbol *symbol)
{
	const char *system_name = frame->linkage_name, *name = frame->name;

	if (!system_name && symbol && (!name || is_mangled(symbol->name)))
		system_name = symbol->name;
	if (!system_name)
		system_name = name;
	*line = (struct worker_line){
		.system_name = send_string(worker, system_name),
		.file = send_string(worker, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
		.start = frame->start,
	};
	if (symbol && !line->start)
		line->start = symbol->start;
	if (worker->job->is_module) /* each section of a module has a load address of its own */
		line->start = 0;
	else if (line->start)
		line->start -= worker->bias;
	if (line->system_name)
		line->function = send_demangled(worker, system_name, line->system_name);
	if (!line->function)
		line->function = name ? send_string(worker, name) : line->system_name;
}

static void send_lines(struct worker_state *worker, size_t index, size_t count)
{
	worker->message.index = (uint32_t)index;
	worker->message.count = (uint32_t)count;
	worker_send(worker, WORKER_LINES, &worker->message,
		    offsetof(struct worker_lines, lines) +
			    count * sizeof(worker->message.lines[0]));
	worker->resolved[index] = true;
}

/* Symbols */

static bool find_symbol(const struct worker_state *worker, uint64_t vaddr, struct symbol *symbol)
{
	for (size_t i = 0; i < worker->elf_count; i++) {
		if (elf_lookup(&worker->elfs[i], vaddr, symbol))
			return true;
	}
	return false;
}

static int handle_frames(void *arg, size_t pending, const struct dwarf_frame *frames, size_t count)
{
	const struct dwarf_frame *last = count > 0 ? &frames[count - 1] : NULL;
	struct worker_state *worker = arg;
	bool has_symbol = false;
	struct symbol symbol;
	size_t index;

	if (!last)
		return 0;
	index = worker->indices[pending];
	/* A function without a linker name in DWARF, or code not generated by the compiler. */
	if (!last->linkage_name)
		has_symbol = find_symbol(worker, worker->vaddrs[index], &symbol) &&
			     (!last->start || last->start == symbol.start);
	if (!last->name && !last->linkage_name && !has_symbol)
		return 0;
	for (size_t i = 0; i < count; i++)
		make_line(worker, &worker->message.lines[i], &frames[i],
			  i + 1 == count && has_symbol ? &symbol : NULL);
	send_lines(worker, index, count);
	return worker->err;
}

static int add_go_frame(const struct go_frame *frame, void *arg)
{
	struct worker_state *worker = arg;
	uint32_t *count = &worker->message.count;

	if (*count == INLINE_DEPTH_MAX) /* keep the last one, which is not inlined */
		--*count;
	worker->message.lines[(*count)++] = (struct worker_line){
		.function = send_string(worker, frame->name),
		.system_name = send_string(worker, frame->system_name),
		.file = send_string(worker, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
		.start = frame->start ? frame->start - worker->bias : 0,
	};
	return worker->err;
}

/* The pclntab of a Go program has more than its DWARF. */
static void symbolize_by_pclntab(struct worker_state *worker, int fd)
{
	struct go_pclntab *pclntab;
	struct stat st;
	void *image;

	if (fd < 0 || fstat(fd, &st) || st.st_size <= 0)
		return;
	image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (image == MAP_FAILED)
		return;
	if (go_pclntab_open(image, (size_t)st.st_size, &pclntab, NULL) == 0) {
		worker->has_pclntab = true;
		for (size_t i = 0; i < worker->job->count && !worker->err; i++) {
			worker->message.count = 0;
			if (go_pclntab_lookup(pclntab, worker->vaddrs[i], add_go_frame, worker) ==
			    0)
				send_lines(worker, i, worker->message.count);
		}
		go_pclntab_close(pclntab);
	}
	munmap(image, (size_t)st.st_size);
}

/* The contents live as long as the files. */
static void keep_contents(struct worker_state *worker, const struct dwarf_lookup *lookup)
{
	dwarf_lookup_contents(lookup, worker->kept.contents);
	for (size_t i = 0; i < DWARF_FILES; i++) {
		for (size_t j = 0; j < SECTIONS; j++)
			worker->has_more |= worker->kept.contents[i].sections[j].size &&
					    !worker->found.contents[i].sections[j].data;
	}
}

static void symbolize_by_dwarf(struct worker_state *worker)
{
	struct dwarf_lookup *lookup;
	struct error error;
	size_t count = 0;

	for (size_t i = 0; i < worker->job->count; i++) {
		if (worker->resolved[i])
			continue;
		worker->pending[count] = worker->vaddrs[i];
		worker->indices[count++] = i;
	}
	if (count == 0)
		return;
	if (dwarf_lookup_open(worker->dwarf, worker->alt, worker->found.contents, &lookup,
			      &error)) {
		send_problem(worker, error.text);
		return;
	}
	keep_contents(worker, lookup);
	worker->err = dwarf_lookup_each(lookup, worker->pending, count, handle_frames, worker);
	dwarf_lookup_close(lookup);
}

static void symbolize_by_symbols(struct worker_state *worker)
{
	const struct dwarf_frame no_frame = {0};
	struct symbol symbol;

	for (size_t i = 0; i < worker->job->count && !worker->err; i++) {
		if (worker->resolved[i] || !find_symbol(worker, worker->vaddrs[i], &symbol))
			continue;
		make_line(worker, &worker->message.lines[0], &no_frame, &symbol);
		send_lines(worker, i, 1);
	}
}

/*
 * Sends the addresses around each address that have the same symbol. With debug information, each
 * address has lines of its own.
 */
static void send_ranges(struct worker_state *worker)
{
	if (worker->dwarf || worker->has_pclntab || worker->lacks_symbols || worker->job->offsets ||
	    worker->bias)
		return;
	for (size_t i = 0; i < worker->job->count; i++) {
		struct worker_range range = {.index = (uint32_t)i, .end = UINT64_MAX};
		const uint64_t vaddr = worker->job->addresses[i];
		struct symbol symbol;

		for (size_t j = 0; j < worker->elf_count; j++) {
			elf_lookup_range(&worker->elfs[j], vaddr, &range.start, &range.end);
			if (elf_lookup(&worker->elfs[j], vaddr, &symbol))
				break;
		}
		if (vaddr < range.end)
			worker_send(worker, WORKER_RANGE, &range, sizeof(range));
	}
}

/* Files */

/* Sets the symbols of a file that are kept. Returns whether there are some. */
static bool use_kept(struct worker_state *worker, enum kept_file which, int fd, const void *image,
		     size_t size)
{
	struct elf_file *file = &worker->elfs[worker->elf_count];
	struct error problem;

	if (!worker->found.files[which].is_known ||
	    elf_read(file, fd, image, size, false, &problem))
		return false;
	if (elf_unpack(file, &worker->found.files[which].packed,
		       worker->found.files[which].parts[0].iov_base)) {
		worker->kept.files[which] = worker->found.files[which];
		return true;
	}
	elf_clear(file);
	return false;
}

static void worker_read_symbols(struct worker_state *worker, enum kept_file which, int fd,
				const void *image, size_t size)
{
	struct elf_file *file = &worker->elfs[worker->elf_count];
	struct error problem;

	if (use_kept(worker, which, fd, image, size)) {
		worker->elf_count++;
	} else if (elf_read(file, fd, image, size, true, &problem) == 0) {
		elf_pack(file, &worker->kept.files[which].packed, worker->kept.files[which].parts);
		worker->kept.files[which].is_known = true;
		worker->has_more = true;
		worker->elf_count++;
	} else {
		worker->lacks_symbols = true;
	}
}

/* Maps what was kept of the files that were opened. */
static void find_kept(struct worker_state *worker)
{
	const struct open_request request = {.kind = OPEN_KEPT};
	struct open_response response;
	int fd = opener_request(worker->opener, &request, &response);
	const void *bytes;
	struct stat st;
	size_t size;

	worker->can_keep = fd >= 0 || fd == -ENOENT;
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_size > 0) {
		worker->image_size = (size_t)st.st_size;
		worker->image = mmap(NULL, worker->image_size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (worker->image == MAP_FAILED)
		worker->image = NULL;
	bytes = worker->image ? file_cache_check(worker->image, worker->image_size, &size) : NULL;
	if (bytes)
		kept_symbols_read(&worker->found, bytes, size);
}

/* What is wrong with a file may have another cause the next time. */
static void worker_keep_symbols(const struct worker_state *worker)
{
	const size_t size = kept_symbols_size(&worker->kept);

	if (worker->can_keep && worker->has_more && !worker->lacks_symbols && !worker->err &&
	    size >= KEPT_SYMBOLS_MIN && size <= KEPT_SYMBOLS_MAX)
		(void)opener_keep(worker->opener, &worker->kept);
}

static int worker_send_progress(void *arg, long done, long total)
{
	const struct worker_progress progress = {
		.done = done > 0 ? (uint64_t)done : 0,
		.total = total > 0 ? (uint64_t)total : 0,
	};
	struct worker_state *worker = arg;
	struct timespec now;

	worker_send(worker, WORKER_PROGRESS, &progress, sizeof(progress));
	fflush(worker->out);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec >= worker->fetch_end.tv_sec;
}

/* As debug_paths_open(), by the opener. */
static int worker_open_debug_file(void *arg, enum debug_name kind, const char *name,
				  const char *beside, unsigned int *candidate, char **path)
{
	const struct worker_state *worker = arg;
	struct open_request request = {.kind = kind, .candidate = *candidate};
	struct open_response response;
	int fd;

	*path = NULL;
	if (snprintf(request.name, sizeof(request.name), "%s", name) >= PATH_MAX)
		return -ENOENT;
	snprintf(request.beside, sizeof(request.beside), "%s", beside ? beside : "");
	fd = opener_request(worker->opener, &request, &response);
	*candidate = response.candidate;
	if (*response.path)
		*path = strdup(response.path);
	if (fd >= 0 && !*path) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

/*
 * Requests files until one is the file of the job, as `accept` finds out (NULL: the first one is).
 * Reports why there is none.
 */
static void worker_open_binary(struct worker_state *worker,
			       bool (*accept)(struct worker_state *worker, int fd, const char *path,
					      struct error *error))
{
	struct open_request request = {.kind = OPEN_BINARY};
	struct error mismatch = {""}, error = {""};
	struct open_response response;
	int fd = -1;

	for (; request.candidate < CANDIDATES_MAX && worker->job->open; request.candidate++) {
		fd = opener_request(worker->opener, &request, &response);
		if (fd == -ENOENT || fd == -EPIPE)
			break;
		if (fd < 0)
			continue;
		if (!accept || accept(worker, fd, response.path, &error))
			break;
		if (!*mismatch.text)
			mismatch = error;
		close(fd);
		fd = -1;
	}
	worker->fd = fd;
	if (fd >= 0 || !worker->job->open)
		return;
	if (*mismatch.text)
		send_problem(worker, mismatch.text);
	else if (*response.problem)
		send_problem(worker, response.problem);
}

static bool accept_binary(struct worker_state *worker, int fd, const char *path,
			  struct error *error)
{
	const int err = debug_files_check_binary(fd, path, worker->job->build_id, error);

	/* Headers of Debian 13 have a vmlinux of type information only, without a build ID. */
	if (err == -ENODATA && !strcmp(worker->job->path, KERNEL_MAPPING))
		*error->text = '\0';
	return !err;
}

static bool open_files(struct worker_state *worker)
{
	const struct worker_job *job = worker->job;
	const struct debug_search search = {
		.open = worker_open_debug_file,
		.fetcher = worker->debuginfod >= 0 ? &worker->debuginfod : NULL,
		.progress = worker_send_progress,
		.arg = worker,
	};
	struct error error;

	worker_open_binary(worker, accept_binary);
	clock_gettime(CLOCK_MONOTONIC, &worker->fetch_end);
	worker->fetch_end.tv_sec += WORKER_FETCH_S;
	if (debug_files_open(&worker->files, worker->fd, job->path, job->build_id, &search,
			     &error)) {
		send_problem(worker, error.text);
		return false;
	}
	if (*worker->files.problem.text)
		send_problem(worker, worker->files.problem.text);
	find_kept(worker);
	if (worker->files.debug.elf)
		worker_read_symbols(worker, KEPT_DEBUG, worker->files.debug.fd, NULL, 0);
	if (worker->files.mini.elf)
		worker_read_symbols(worker, KEPT_MINI, -1, worker->files.mini.image,
				    worker->files.mini.image_size);
	if (worker->fd >= 0)
		worker_read_symbols(worker, KEPT_BINARY, worker->fd, NULL, 0);
	return true;
}

/* Disassembly */

/* Whether the only operand of a jump or call is an address; sets it. */
static bool jump_target(const char *text, uint64_t *target)
{
	const char *operand = strchr(text, ' ');
	char *end;

	if ((*text != 'j' && strncmp(text, "call", 4)) || !operand)
		return false;
	operand += strspn(operand, " ");
	*target = strtoull(operand, &end, 16);
	return !strncmp(operand, "0x", 2) && !*end;
}

/* Appends the name of the function that an instruction jumps to, as in objdump. */
static void name_target(struct worker_state *worker, struct instruction *instruction)
{
	const size_t used = strlen(instruction->text), left = sizeof(instruction->text) - used;
	char demangled[DEMANGLED_MAX];
	struct symbol symbol;
	const char *name;
	uint64_t target;

	if (!jump_target(instruction->text, &target) || !find_symbol(worker, target, &symbol))
		return;
	name = demangle(symbol.name, demangled) ? demangled : symbol.name;
	if (target == symbol.start)
		snprintf(instruction->text + used, left, " <%s>", name);
	else
		snprintf(instruction->text + used, left, " <%s+0x%" PRIx64 ">", name,
			 target - symbol.start);
}

static int send_instruction(void *arg, struct instruction *instruction)
{
	struct worker_state *worker = arg;

	name_target(worker, instruction);
	worker_send(worker, WORKER_INSTRUCTION, instruction,
		    offsetof(struct instruction, text) + strlen(instruction->text));
	return worker->err;
}

/* Sends a function whose bytes are in the file. */
static void disassemble_function(struct worker_state *worker, const struct symbol *function,
				 uint64_t shift, uint64_t offset)
{
	struct worker_function message = {
		.start = function->start,
		.size = MIN(function->size, FUNCTION_BYTES_MAX),
		.shift = shift,
		.name = send_string(worker, function->name),
	};
	uint32_t demangled =
		message.name ? send_demangled(worker, function->name, message.name) : 0;
	uint8_t *code = malloc(message.size);
	ssize_t got = code ? pread(worker->fd, code, message.size, (off_t)offset) : -1;

	if (!code)
		worker->err = -ENOMEM;
	if (demangled)
		message.name = demangled;
	if (got > 0 && !worker->err) {
		worker_send(worker, WORKER_FUNCTION, &message, sizeof(message));
		worker->err = disassemble(code, (size_t)got, message.start, worker->job->syntax,
					  send_instruction, worker);
	}
	free(code);
}

/* Sets the offset of a virtual address in the file. False if no executable segment has it. */
static bool find_offset(const struct elf_file *binary, uint64_t vaddr, uint64_t *offset)
{
	for (size_t i = 0; i < binary->load_count; i++) {
		const struct elf_segment *load = &binary->loads[i];

		if (vaddr >= load->vaddr && vaddr - load->vaddr < load->size) {
			*offset = load->offset + (vaddr - load->vaddr);
			return true;
		}
	}
	return false;
}

/* Sets a function without a name, by the call frame information of a file without symbols. */
static bool worker_find_frame(const struct worker_state *worker, uint64_t vaddr,
			      struct symbol *symbol)
{
	struct elf_memory memory;
	struct frame_index frames;
	struct error error;
	uint64_t end = 0;
	bool found = false;
	Elf *elf;

	if (elf_begin_read(worker->fd, NULL, 0, true, &elf, &error))
		return false;
	if (!elf_memory_open(&memory, elf, worker->fd, NULL, 0)) {
		if (!frame_index_read(&frames, elf, &memory)) {
			found = frame_index_range(&frames, vaddr, &symbol->start, &end);
			frame_index_clear(&frames);
		}
		elf_memory_clear(&memory);
	}
	elf_end(elf);
	symbol->name = NULL;
	symbol->size = end - symbol->start;
	return found;
}

/* Sends each function that holds an address of the job, once if the addresses are adjacent. */
static void worker_disassemble(struct worker_state *worker)
{
	struct elf_file binary = {0};
	struct symbol symbol, last = {0};
	struct error problem;
	uint64_t offset;

	if (worker->fd < 0 || elf_read(&binary, worker->fd, NULL, 0, false, &problem))
		return;
	for (size_t i = 0; i < worker->job->count && !worker->err; i++) {
		const uint64_t vaddr = worker->vaddrs[i];

		if (vaddr - last.start < last.size ||
		    (!find_symbol(worker, vaddr, &symbol) &&
		     !worker_find_frame(worker, vaddr, &symbol)) ||
		    !find_offset(&binary, symbol.start, &offset))
			continue;
		last = symbol;
		disassemble_function(worker, &symbol, vaddr - worker->job->addresses[i], offset);
	}
	elf_clear(&binary);
}

/* Computes the bias of a job with `code_start`; false if no symbol table has the code's start. */
static bool find_bias(struct worker_state *worker)
{
	const struct worker_job *job = worker->job;
	uint64_t vaddr;

	if (!job->code_start)
		return true;
	for (size_t i = 0; i < worker->elf_count; i++) {
		if (elf_code_start(&worker->elfs[i], &vaddr)) {
			worker->bias = vaddr - job->code_start;
			return true;
		}
	}
	return false;
}

static bool allocate_tables(struct worker_state *worker)
{
	const struct worker_job *job = worker->job;

	worker->vaddrs = calloc(job->count, sizeof(*worker->vaddrs));
	worker->resolved = calloc(job->count, sizeof(*worker->resolved));
	worker->pending = calloc(job->count, sizeof(*worker->pending));
	worker->indices = calloc(job->count, sizeof(*worker->indices));
	if (!worker->vaddrs || !worker->resolved || !worker->pending || !worker->indices) {
		worker->err = -ENOMEM;
		return false;
	}
	return true;
}

/* Sent at once: other workers read maps of the same owner meanwhile. */
static void send_map_read(void *arg, uint64_t bytes)
{
	struct worker_state *worker = arg;

	worker_send(worker, WORKER_MAP_READ, &(struct worker_map_read){.bytes = bytes},
		    sizeof(struct worker_map_read));
	fflush(worker->out);
}

static void symbolize_by_perf_map(struct worker_state *worker)
{
	const struct worker_job *job = worker->job;
	const struct perf_map_quota quota = {job->perf_map_bytes, send_map_read, worker};
	struct dwarf_frame frame = {0};
	struct perf_map *map;

	worker_open_binary(worker, NULL);
	if (worker->fd < 0 || perf_map_read(worker->fd, job->addresses, job->count, &quota, &map))
		return;
	if (perf_map_is_truncated(map))
		worker_send(worker, WORKER_MAP_READ, &(struct worker_map_read){.is_truncated = 1},
			    sizeof(struct worker_map_read));
	for (size_t i = 0; i < job->count && !worker->err; i++) {
		frame.name = perf_map_lookup(map, job->addresses[i]);
		if (!frame.name)
			continue;
		make_line(worker, &worker->message.lines[0], &frame, NULL);
		send_lines(worker, i, 1);
	}
	perf_map_free(map);
}

/* Computes the virtual addresses; UINT64_MAX, which matches no symbol, if in no segment. */
static bool find_vaddrs(struct worker_state *worker)
{
	const struct worker_job *job = worker->job;
	struct elf_file binary = {0};
	struct error problem;

	for (size_t i = 0; i < job->count; i++)
		worker->vaddrs[i] = job->addresses[i] + worker->bias;
	if (!job->offsets)
		return true;
	if (worker->fd < 0 || elf_read(&binary, worker->fd, NULL, 0, false, &problem))
		return false;
	for (size_t i = 0; i < job->count; i++) {
		if (!elf_vaddr(&binary, job->addresses[i], &worker->vaddrs[i]))
			worker->vaddrs[i] = UINT64_MAX;
	}
	elf_clear(&binary);
	return true;
}

static void worker_symbolize_file(struct worker_state *worker)
{
	worker->has_files = open_files(worker);
	if (worker->job->syntax) {
		if (find_vaddrs(worker))
			worker_disassemble(worker);
	} else if (find_bias(worker) && find_vaddrs(worker)) {
		if (worker->has_files)
			symbolize_by_pclntab(worker, worker->fd);
		worker->dwarf = worker->has_files ? worker->files.dwarf : NULL;
		worker->alt = worker->has_files ? worker->files.alt.elf : NULL;
		if (worker->dwarf)
			symbolize_by_dwarf(worker);
		symbolize_by_symbols(worker);
		send_ranges(worker);
	} else if (!worker->elf_count) {
		/* Without symbols, the addresses in the file need not be known. */
		send_ranges(worker);
	}
}

/* Modules */

/* Addresses outside the code of the module become UINT64_MAX, which matches no symbol. */
static void symbolize_by_module(struct worker_state *worker, const struct kernel_module_elf *object)
{
	const struct worker_job *job = worker->job;

	for (size_t i = 0; i < job->count; i++) {
		if (!kernel_module_elf_vaddr(object, job->addresses[i] - job->code_start,
					     &worker->vaddrs[i]))
			worker->vaddrs[i] = UINT64_MAX;
	}
	worker->dwarf = object->elf;
	symbolize_by_dwarf(worker);
}

/* Returns whether a file is the module, with DWARF, and was used. */
static bool try_module(struct worker_state *worker, int fd, const char *path, struct error *error)
{
	struct kernel_module_elf object;

	if (kernel_module_elf_open(&object, fd, path, worker->job->build_id, error))
		return false;
	symbolize_by_module(worker, &object);
	kernel_module_elf_close(&object);
	return true;
}

/* Tries debug files first. Reports problems of files, but not a lack of DWARF. */
static void symbolize_module(struct worker_state *worker)
{
	unsigned int candidate = 0;
	bool done = false;
	char *path;
	int fd;

	do {
		struct error error = {""};

		fd = worker_open_debug_file(worker, DEBUG_BUILD_ID, worker->job->build_id, NULL,
					    &candidate, &path);
		if (fd >= 0) {
			done = try_module(worker, fd, path, &error);
			close(fd);
		}
		if (*error.text)
			send_problem(worker, error.text);
		free(path);
	} while (!done && path);
	if (!done)
		worker_open_binary(worker, try_module);
	/* Without a file, no address has lines. */
	if (!done && worker->fd < 0)
		send_ranges(worker);
}

static void symbolize_job(struct worker_state *worker)
{
	if (worker->job->is_perf_map)
		symbolize_by_perf_map(worker);
	else if (worker->job->is_module)
		symbolize_module(worker);
	else
		worker_symbolize_file(worker);
}

static void free_tables(struct worker_state *worker)
{
	for (size_t i = 0; i < worker->elf_count; i++)
		elf_clear(&worker->elfs[i]);
	if (worker->image)
		munmap(worker->image, worker->image_size);
	string_table_clear(&worker->strings);
	free(worker->demangled);
	free(worker->vaddrs);
	free(worker->resolved);
	free(worker->pending);
	free(worker->indices);
}

void symbolize_in_worker(const int fds[], size_t count)
{
	struct worker_state *worker = calloc(1, sizeof(*worker));
	struct received_job received = {0};

	if (!worker || count <= WORKER_FD_OPENER || job_bytes_read(fds[WORKER_FD_JOB], &received)) {
		free(worker);
		return;
	}
	worker->job = &received.job;
	worker->opener = fds[WORKER_FD_OPENER];
	worker->debuginfod = count > WORKER_FD_DEBUGINFOD ? fds[WORKER_FD_DEBUGINFOD] : -1;
	worker->fd = -1;
	worker->out = fdopen(fds[WORKER_FD_OUTPUT], "w");
	if (worker->out)
		setvbuf(worker->out, worker->buffer, _IOFBF, sizeof(worker->buffer));
	if (worker->out && allocate_tables(worker)) {
		symbolize_job(worker);
		if (worker->fd >= 0) {
			worker_send(worker, WORKER_OPENED, "", 0);
			close(worker->fd);
		}
	}
	if (worker->out && !worker->err) {
		worker_send(worker, WORKER_END, "", 0);
		/* The disk of the cache may hang, and the worker is killed then. */
		fflush(worker->out);
		worker_keep_symbols(worker);
	}
	if (worker->has_files)
		debug_files_close(&worker->files);
	if (worker->out)
		fclose(worker->out);
	free_tables(worker);
	job_bytes_free(&received);
	free(worker);
}

void worker_main(enum worker_kind kind, const int fds[], size_t count)
{
	switch (kind) {
	case WORKER_READ_HEADERS:
		run_headers_worker(fds, count);
		break;
	case WORKER_SYMBOLIZE:
		symbolize_in_worker(fds, count);
		break;
	case WORKER_DEMANGLE:
		run_demangle_worker(fds, count);
		break;
	case WORKER_UNPACK:
		run_unpack_worker(fds, count);
		break;
	case WORKER_UNWIND_TABLE:
	case WORKER_URGENT_UNWIND_TABLE:
		run_unwind_worker(fds, count);
		break;
	case WORKER_VERIFY:
		run_elfutils_worker(fds, count);
		break;
	case WORKER_GO_PROGRAM:
		run_go_program_worker(fds, count);
		break;
	}
}

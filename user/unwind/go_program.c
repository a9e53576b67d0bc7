// SPDX-License-Identifier: GPL-2.0
#include "unwind/go_program.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debuginfo/elf_symbols.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "runtime/go_pclntab.h"
#include "runtime/go_version.h"
#include "sandbox/worker_call.h"
#include "unwind/cfi.h"
#include "unwind/compile.h"
#include "unwind/table_builder.h"

#define TIMEOUT_MS 60000u
#define ERRNO_MAX 4095
#define WORD 8
#define GO_MAJOR 1u
#define PROGRAM_HEADERS_MAX 4096u
#define FUNCTIONS_MAX (UINT32_C(1) << 22)

/* Bytes of runtime.forEachGRace that load the two variables. */
#define LOADS_MAX 96u

/* What the worker sends, followed by the table and the functions. */
struct go_program_result {
	char problem[128]; /* "": none */
	int32_t err; /* with `problem`: a negative errno value */
	uint32_t function_count;
	uint64_t table_size;
	uint64_t allglen, allgptr, code_start, code_end;
	char version[GO_VERSION_SIZE];
};

#define RESULT_MAX                                                                                 \
	(sizeof(struct go_program_result) + UNWIND_TABLE_MAX +                                     \
	 FUNCTIONS_MAX * sizeof(struct go_program_function))

/* The worker */

struct go_program_reader {
	Elf *elf;
	const unsigned char *image;
	size_t size;
	struct go_pclntab *pclntab;
	struct table_builder *builder;
	struct stackbeat_unwind_table *table;
	struct go_program_function *functions;
	size_t function_count, function_capacity;
	uint64_t variables; /* address of the function that loads the variables; 0: none */
	struct go_program_result result;
};

static bool get_segment(const struct go_program_reader *reader, size_t index, GElf_Phdr *header)
{
	return gelf_getphdr(reader->elf, (int)index, header) && header->p_type == PT_LOAD &&
	       header->p_offset < reader->size &&
	       header->p_filesz <= reader->size - header->p_offset;
}

static size_t segment_count(const struct go_program_reader *reader)
{
	size_t count;

	if (elf_getphdrnum(reader->elf, &count) || count > PROGRAM_HEADERS_MAX)
		return 0;
	return count;
}

/* Returns the bytes of the file at an address, and sets *left to their number; NULL: none. */
static const unsigned char *go_program_bytes_at(const struct go_program_reader *reader,
						uint64_t address, size_t *left)
{
	GElf_Phdr header;

	for (size_t i = 0; i < segment_count(reader); i++) {
		if (!get_segment(reader, i, &header) || address < header.p_vaddr ||
		    address - header.p_vaddr >= header.p_filesz)
			continue;
		*left = header.p_filesz - (address - header.p_vaddr);
		return reader->image + header.p_offset + (address - header.p_vaddr);
	}
	return NULL;
}

static void read_version(struct go_program_reader *reader)
{
	struct go_program_result *result = &reader->result;
	struct go_version version;
	GElf_Phdr header;

	for (size_t i = 0; i < segment_count(reader); i++) {
		if (!get_segment(reader, i, &header) ||
		    !go_version_find(reader->image + header.p_offset, header.p_filesz,
				     header.p_vaddr, &version))
			continue;
		snprintf(result->version, sizeof(result->version), "%.*s", (int)version.length,
			 version.text);
		return;
	}
}

/* Sets the addresses of the variables in a symbol table. */
static void go_program_read_symbols(struct go_program_reader *reader, Elf_Scn *section,
				    const GElf_Shdr *header)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const char *name;
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++) {
		if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT)
			continue;
		name = elf_strptr(reader->elf, header->sh_link, symbol.st_name);
		if (name && !strcmp(name, "runtime.allglen"))
			reader->result.allglen = symbol.st_value;
		if (name && !strcmp(name, "runtime.allgptr"))
			reader->result.allgptr = symbol.st_value;
	}
}

static bool go_program_find_symbols(struct go_program_reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(reader->elf, section))) {
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			go_program_read_symbols(reader, section, &header);
	}
	return reader->result.allglen && reader->result.allgptr;
}

/*
 * Without symbols: runtime.forEachGRace loads runtime.allglen, and then runtime.allgptr, by
 * mov disp(%rip),%reg.
 */
static bool decode_loads(struct go_program_reader *reader)
{
	uint64_t found[2];
	size_t left = 0, count = 0;
	const unsigned char *code = go_program_bytes_at(reader, reader->variables, &left);
	int32_t disp;

	if (!reader->variables || !code || left < LOADS_MAX)
		return false;
	for (size_t i = 0; i + 7 <= LOADS_MAX && count < 2; i++) {
		if ((code[i] & 0xfb) != 0x48 || code[i + 1] != 0x8b || (code[i + 2] & 0xc7) != 0x05)
			continue;
		memcpy(&disp, code + i + 3, sizeof(disp));
		i += 6;
		found[count++] = reader->variables + i + 1 + (uint64_t)(int64_t)disp;
	}
	if (count < 2)
		return false;
	reader->result.allglen = found[0];
	reader->result.allgptr = found[1];
	return true;
}

static bool is_name(const char *name, size_t length, const char *const names[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(names[i]) == length && !memcmp(name, names[i], length))
			return true;
	}
	return false;
}

#define IS_NAME(name, length, names)                                                               \
	is_name(name, length, names, sizeof(names) / sizeof((names)[0]))

static enum go_function_kind go_program_symbol_kind(const char *name)
{
	static const char prefix[] = "runtime.", abi[] = ".abi0";
	/* See isSystemGoroutine() in Go's runtime/traceback.go. */
	static const char *const entries[] = {"main", "corostart", "handleAsyncEvent"};
	static const char *const callers[] = {"runfinq", "runFinalizers", "runCleanups"};
	static const char *const injected[] = {"asyncPreempt", "sigpanic", "sigpanic0",
					       "debugCallV2"};
	static const char *const goexit[] = {"goexit"};
	size_t length = strlen(name);

	if (strncmp(name, prefix, sizeof(prefix) - 1))
		return GO_FUNCTION_OTHER;
	if (length > sizeof(abi) && !strcmp(name + length - (sizeof(abi) - 1), abi))
		length -= sizeof(abi) - 1;
	name += sizeof(prefix) - 1;
	length -= sizeof(prefix) - 1;
	if (IS_NAME(name, length, goexit))
		return GO_FUNCTION_GOEXIT;
	if (IS_NAME(name, length, entries))
		return GO_FUNCTION_RUNTIME_ENTRY;
	if (IS_NAME(name, length, callers))
		return GO_FUNCTION_RUNTIME_CALLER;
	return IS_NAME(name, length, injected) ? GO_FUNCTION_INJECTED : GO_FUNCTION_RUNTIME;
}

static int go_program_add_frame(void *arg, uint64_t start, uint64_t end, int32_t size)
{
	const struct cfi_row row = {
		.kind = CFI_CALLER,
		.base = CFI_RSP,
		.offset = (int64_t)size + WORD,
		.return_address = {.place = CFI_AT_CFA, .offset = -WORD},
	};
	struct go_program_reader *reader = arg;

	return table_builder_add(reader->builder, start, end, &row);
}

static int go_program_add_function(void *arg, const struct go_function *function)
{
	struct go_program_reader *reader = arg;
	struct go_program_result *result = &reader->result;

	if (!reader->function_count)
		result->code_start = function->start;
	/* Functions are sorted, unless the table is broken. */
	if (reader->function_count == FUNCTIONS_MAX || function->start < result->code_end ||
	    function->end - result->code_start > UINT32_MAX)
		return -E2BIG;
	result->code_end = function->end;
	if (array_reserve(&reader->functions, &reader->function_capacity, reader->function_count, 1,
			  sizeof(*reader->functions)))
		return -ENOMEM;
	reader->functions[reader->function_count++] = (struct go_program_function){
		.start = (uint32_t)(function->start - result->code_start),
		.kind = (uint16_t)go_program_symbol_kind(function->name),
		.is_wrapper = function->is_wrapper,
	};
	if (!strcmp(function->name, "runtime.forEachGRace"))
		reader->variables = function->start;
	return go_pclntab_each_stack_size(reader->pclntab, function, go_program_add_frame, reader);
}

static int go_program_read_functions(struct go_program_reader *reader)
{
	struct table_counts counts;
	int err;

	reader->builder = table_builder_new();
	if (!reader->builder)
		return -ENOMEM;
	err = go_pclntab_each_function(reader->pclntab, go_program_add_function, reader);
	if (!err)
		err = table_builder_finish(reader->builder, NULL, &reader->table, &counts);
	return err;
}

static int read_program(struct go_program_reader *reader, int fd, struct error *error)
{
	char *image;
	GElf_Ehdr header;
	int err;

	if (elf_begin_read(fd, NULL, 0, true, &reader->elf, error))
		return -ENODATA;
	image = elf_rawfile(reader->elf, &reader->size);
	if (!image || !gelf_getehdr(reader->elf, &header))
		return error_set(error, ENODATA, "not an ELF file");
	reader->image = (const unsigned char *)image;
	err = go_pclntab_open(image, reader->size, &reader->pclntab, error);
	if (err)
		return err;
	if (header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64)
		return error_set(error, ENOTSUP, "not a program of x86-64");
	err = go_program_read_functions(reader);
	if (err)
		return error_errno(error, -err, "the function table of Go can't be used");
	read_version(reader);
	if (!go_program_find_symbols(reader) && !decode_loads(reader))
		reader->result.allglen = reader->result.allgptr = 0;
	return 0;
}

static bool go_program_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	ssize_t done = 1;

	for (; size && done > 0; size -= (size_t)done, at += done)
		done = TEMP_FAILURE_RETRY(write(fd, at, size));
	return done > 0;
}

void run_go_program_worker(const int fds[], size_t count)
{
	struct go_program_reader reader = {0};
	struct go_program_result *result = &reader.result;
	struct error error = {""};

	if (count != 2)
		return;
	result->err = read_program(&reader, fds[0], &error);
	snprintf(result->problem, sizeof(result->problem), "%.127s", error.text);
	if (!result->err) {
		result->function_count = (uint32_t)reader.function_count;
		result->table_size = reader.table->size;
	}
	if (go_program_write_all(fds[1], result, sizeof(*result)) && !result->err &&
	    go_program_write_all(fds[1], reader.table, reader.table->size))
		go_program_write_all(fds[1], reader.functions,
				     reader.function_count * sizeof(*reader.functions));
	free(reader.functions);
	free(reader.table);
	table_builder_free(reader.builder);
	go_pclntab_close(reader.pclntab);
	elf_end(reader.elf);
}

/* The parent */

static bool go_program_is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

/* Rules of frames have one form: a size. Anything else is not from this worker's code. */
static bool are_valid_rules(const struct stackbeat_unwind_table *table,
			    const struct stackbeat_unwind_view *view)
{
	for (uint32_t i = 0; i < table->rule_count; i++) {
		const struct stackbeat_unwind_rule *rule = &view->rules[i];

		if (rule->kind_base == STACKBEAT_UNWIND_NONE)
			continue;
		if (rule->kind_base != (STACKBEAT_UNWIND_CALLER | CFI_RSP << 4) || rule->flags)
			return false;
	}
	return true;
}

static bool are_valid_functions(const struct go_program_result *result,
				const struct go_program_function *functions)
{
	for (uint32_t i = 0; i < result->function_count; i++) {
		if (functions[i].kind >= GO_FUNCTION_KINDS || functions[i].is_wrapper > 1 ||
		    (i && functions[i].start < functions[i - 1].start))
			return false;
	}
	return result->function_count && !functions[0].start;
}

/* The worker may be compromised: checks all that it has sent. */
static bool take_result(const struct go_program_result *result, size_t size,
			struct go_program *program)
{
	const struct stackbeat_unwind_table *table = (const void *)(result + 1);
	const struct go_program_function *functions;

	if (size < sizeof(*result) ||
	    !go_program_is_terminated(result->version, sizeof(result->version)) ||
	    result->table_size > size - sizeof(*result) || result->table_size % 8 ||
	    size - sizeof(*result) - result->table_size !=
		    result->function_count * sizeof(*functions) ||
	    result->code_end <= result->code_start ||
	    !stackbeat_unwind_check(table, result->table_size))
		return false;
	stackbeat_unwind_open(table, &program->frames);
	functions = (const void *)((const char *)table + result->table_size);
	if (!are_valid_rules(table, &program->frames) || !are_valid_functions(result, functions))
		return false;
	program->allglen = result->allglen;
	program->allgptr = result->allgptr;
	program->code_start = result->code_start;
	program->code_end = result->code_end;
	program->functions = functions;
	program->function_count = result->function_count;
	memcpy(program->version, result->version, sizeof(program->version));
	utf8_sanitize(program->version);
	return true;
}

static int take_program(struct go_program_result *result, size_t size, struct go_program *program,
			struct error *error)
{
	struct go_version version;

	if (size >= sizeof(*result) && result->err) {
		if (!go_program_is_terminated(result->problem, sizeof(result->problem)) ||
		    result->err > 0 || result->err < -ERRNO_MAX)
			return error_set(error, EBADMSG, "its file can't be read");
		return error_set(error, -result->err, "%s", result->problem);
	}
	if (!take_result(result, size, program))
		return error_set(error, EBADMSG, "its file can't be read");
	if (!go_version_parse(program->version, strlen(program->version), &version) ||
	    version.major != GO_MAJOR)
		return error_set(error, ENOTSUP, "its version of Go is unknown");
	program->minor = version.minor;
	return 0;
}

int go_program_read(const struct sandbox_server *server, int fd, struct go_program *program,
		    struct error *error)
{
	struct go_program_result *result = malloc(RESULT_MAX);
	ssize_t got;
	int err;

	*program = (struct go_program){.memory = result};
	if (!result)
		return error_errno(error, ENOMEM, "its file can't be read");
	got = worker_call(server, WORKER_GO_PROGRAM, fd, result, RESULT_MAX, TIMEOUT_MS,
			  TIMEOUT_MS);
	err = got < 0 ? error_errno(error, (int)-got, "its file can't be read")
		      : take_program(result, (size_t)got, program, error);
	if (err)
		go_program_clear(program);
	return err;
}

void go_program_clear(struct go_program *program)
{
	free(program->memory);
	*program = (struct go_program){.memory = NULL};
}

const struct go_program_function *go_program_function_at(const struct go_program *program,
							 uint64_t address)
{
	uint64_t offset = address - program->code_start;
	size_t low = 0, high = program->function_count;

	if (address < program->code_start || address >= program->code_end)
		return NULL;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (program->functions[middle].start <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return &program->functions[low - 1];
}

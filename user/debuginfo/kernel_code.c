// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/kernel_code.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libelf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "debuginfo/elf_memory.h"
#include "debuginfo/elf_symbols.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"

/* All code of the kernel and of its modules is above this address
 * (Documentation/arch/x86/x86_64/mm.rst). */
#define KERNEL_CODE_START UINT64_C(0xffffffff80000000)

#define SEGMENTS_MAX 4096u /* as readers of files take */
/* No code has as many zero bytes. */
#define FILLER_BYTES 64u

/* Sections of the file; 0 is none. */
enum {
	SECTION_TEXT = 1,
	SECTION_SYMBOLS,
	SECTION_STRINGS,
	SECTION_COUNT,
};

struct kernel_code_file {
	const struct elf_memory *kcore;
	const struct kallsyms *kallsyms;
	uint64_t *starts; /* of the wanted functions */
	size_t start_count, next_start;
	Elf64_Phdr *segments; /* one for each function */
	size_t segment_count, segment_capacity;
	Elf64_Sym *symbols;
	size_t symbol_count, symbol_capacity;
	char *strings;
	size_t strings_size, strings_capacity;
};

static int kernel_code_compare_starts(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* Whether a symbol is of the mapping with a name: of that module, or of the kernel itself. */
static bool kernel_code_is_of(const char *mapping, const char *module)
{
	const size_t length = module ? strlen(module) : 0;

	if (!module)
		return !strcmp(mapping, KERNEL_MAPPING);
	return !strncmp(mapping + 1, module, length) && !strcmp(mapping + 1 + length, "]");
}

/* Sets the starts of the functions that hold the addresses, in the order of addresses. */
static int kernel_code_find_starts(struct kernel_code_file *file, const struct kernel_code *code)
{
	const char *name, *module;

	file->starts = calloc(code->count + 1, sizeof(*file->starts));
	if (!file->starts)
		return -ENOMEM;
	for (size_t i = 0; i < code->count; i++) {
		if (kallsyms_lookup(file->kallsyms, code->addresses[i], &name,
				    &file->starts[file->start_count], &module) &&
		    kernel_code_is_of(code->name, module))
			file->start_count++;
	}
	qsort(file->starts, file->start_count, sizeof(*file->starts), kernel_code_compare_starts);
	return 0;
}

/* Functions come in the order of addresses. */
static bool kernel_code_is_wanted(struct kernel_code_file *file,
				  const struct kallsyms_function *function)
{
	while (file->next_start < file->start_count &&
	       file->starts[file->next_start] < function->start)
		file->next_start++;
	return file->next_start < file->start_count &&
	       file->starts[file->next_start] == function->start;
}

static int kernel_code_add_symbol(struct kernel_code_file *file,
				  const struct kallsyms_function *function)
{
	const size_t size = strlen(function->name) + 1;

	if (array_reserve(&file->symbols, &file->symbol_capacity, file->symbol_count, 1,
			  sizeof(*file->symbols)) ||
	    size > UINT32_MAX - file->strings_size ||
	    array_reserve(&file->strings, &file->strings_capacity, file->strings_size, size, 1))
		return -ENOMEM;
	memcpy(file->strings + file->strings_size, function->name, size);
	file->symbols[file->symbol_count++] = (Elf64_Sym){
		.st_name = (uint32_t)file->strings_size,
		.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
		.st_shndx = SECTION_TEXT,
		.st_value = function->start,
		.st_size = function->size,
	};
	file->strings_size += size;
	return 0;
}

/*
 * Returns the bytes of a function. Of the last one of a module, whose end is unknown, these are the
 * bytes up to the filler behind it.
 */
static uint64_t kernel_code_size(const struct kernel_code_file *file,
				 const struct kallsyms_function *function)
{
	const uint64_t size = MIN(function->size, elf_memory_left(file->kcore, function->start));
	uint64_t end = 0, zeros = 0;
	uint8_t *bytes;

	if (kallsyms_is_bounded(file->kallsyms, function->start))
		return size;
	bytes = elf_memory_copy(file->kcore, function->start, size);
	for (; bytes && end < size && zeros < FILLER_BYTES; end++)
		zeros = bytes[end] ? 0 : zeros + 1;
	free(bytes);
	return MIN(size, roundup(end - zeros, 4));
}

/* Its offset is set when the number of all segments is known. */
static int kernel_code_add_segment(struct kernel_code_file *file,
				   const struct kallsyms_function *function)
{
	if (file->segment_count == SEGMENTS_MAX)
		return -E2BIG;
	if (array_reserve(&file->segments, &file->segment_capacity, file->segment_count, 1,
			  sizeof(*file->segments)))
		return -ENOMEM;
	file->segments[file->segment_count++] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = function->start,
		.p_filesz = function->size,
		.p_memsz = function->size,
		.p_align = 1,
	};
	return 0;
}

static int kernel_code_add_function(void *arg, const struct kallsyms_function *function)
{
	struct kernel_code_file *file = arg;
	struct kallsyms_function added = *function;
	int err = 0;

	if (kernel_code_is_wanted(file, function)) {
		added.size = kernel_code_size(file, function);
		if (added.size)
			err = kernel_code_add_segment(file, &added);
	}
	return err ?: kernel_code_add_symbol(file, &added);
}

/* Copies the code of a segment from KCORE_PATH to the file. */
static int kernel_code_copy_segment(const struct kernel_code_file *file, const Elf64_Phdr *segment,
				    FILE *out)
{
	void *bytes = elf_memory_copy(file->kcore, segment->p_vaddr, segment->p_filesz);
	bool is_written = bytes && fwrite(bytes, segment->p_filesz, 1, out) == 1;
	const int err = bytes ? errno : EIO;

	free(bytes);
	return is_written ? 0 : -(err ?: EIO);
}

/* Writes headers, code, symbols and strings, in this order. */
static int kernel_code_write(struct kernel_code_file *file, FILE *out)
{
	uint64_t offset = sizeof(Elf64_Ehdr) + file->segment_count * sizeof(*file->segments) +
			  SECTION_COUNT * sizeof(Elf64_Shdr);
	Elf64_Ehdr header = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_shoff = sizeof(header) + file->segment_count * sizeof(*file->segments),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(*file->segments),
		.e_phnum = (uint16_t)file->segment_count,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTION_COUNT,
	};
	Elf64_Shdr sections[SECTION_COUNT] = {
		[SECTION_TEXT] = {.sh_type = SHT_NOBITS,
				  .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				  .sh_addr = KERNEL_CODE_START,
				  .sh_size = UINT64_MAX - KERNEL_CODE_START},
		[SECTION_SYMBOLS] = {.sh_type = SHT_SYMTAB,
				     .sh_link = SECTION_STRINGS,
				     .sh_entsize = sizeof(*file->symbols),
				     .sh_size = file->symbol_count * sizeof(*file->symbols)},
		[SECTION_STRINGS] = {.sh_type = SHT_STRTAB, .sh_size = file->strings_size},
	};
	int err = 0;

	for (size_t i = 0; i < file->segment_count; i++) {
		file->segments[i].p_offset = offset;
		offset += file->segments[i].p_filesz;
	}
	sections[SECTION_SYMBOLS].sh_offset = offset;
	sections[SECTION_STRINGS].sh_offset = offset + sections[SECTION_SYMBOLS].sh_size;
	errno = 0;
	fwrite(&header, sizeof(header), 1, out);
	fwrite(file->segments, sizeof(*file->segments), file->segment_count, out);
	fwrite(sections, sizeof(sections), 1, out);
	for (size_t i = 0; i < file->segment_count && !err; i++)
		err = kernel_code_copy_segment(file, &file->segments[i], out);
	fwrite(file->symbols, sizeof(*file->symbols), file->symbol_count, out);
	fwrite(file->strings, file->strings_size, 1, out);
	if (!err && (fflush(out) || ferror(out)))
		err = -(errno ?: EIO);
	return err;
}

/* Returns an fd of the file, or a negative errno value. */
static int kernel_code_make_file(struct kernel_code_file *file)
{
	int fd = memfd_create("kernel code", MFD_CLOEXEC), err;
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!out) {
		err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	err = kernel_code_write(file, out);
	fd = err ? err : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!err && fd < 0)
		fd = -errno;
	fclose(out);
	return fd;
}

/* A BPF program that came or went in the recording has a mapping of its own: see gone_modules.h. */
static bool kernel_code_is_generated(const struct kernel_code *code)
{
	return !strcmp(code->name, "[bpf]") || !strncmp(code->name, "[__builtin__", 12);
}

static int generated_code_error(struct error *error)
{
	return error_set(error, ENOENT,
			 "its code was generated, as BPF programs, or is not there any more");
}

static bool kernel_code_is_running(const struct running_kernel *running,
				   const struct kernel_code *code)
{
	const struct kernel_mapping *mapping = kernel_mapping_by_name(running->kernel, code->name);

	return mapping && *code->build_id && mapping->start == code->start &&
	       build_id_equal(mapping->build_id, code->build_id);
}

/* `kcore` is open. */
static int kernel_code_read(const struct kernel_code *code, const struct kallsyms *kallsyms,
			    const struct elf_memory *kcore, struct error *error)
{
	struct kernel_code_file file = {.kcore = kcore, .kallsyms = kallsyms};
	/* Symbol 0 is none; string 0 is empty. */
	int err = kernel_code_add_symbol(&file, &(struct kallsyms_function){.name = ""});

	if (!err)
		err = kernel_code_find_starts(&file, code);
	if (!err) {
		file.symbols[0] = (Elf64_Sym){0};
		err = kallsyms_each_function(kallsyms, kernel_code_add_function, &file);
	}
	if (!err && !file.segment_count)
		err = generated_code_error(error);
	else if (!err)
		err = kernel_code_make_file(&file);
	if (err < 0 && err != -ENOENT)
		error_errno(error, -err, "can't read the code of the kernel from " KCORE_PATH);
	free(file.starts);
	free(file.segments);
	free(file.symbols);
	free(file.strings);
	return err;
}

static int kernel_code_open_kcore(const struct running_kernel *running, struct error *error)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s" KCORE_PATH, running->root);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EPERM || errno == EACCES))
		return error_set(error, errno,
				 "can't read the code of the kernel from " KCORE_PATH
				 ": run as root, outside of a container, on a kernel that is not "
				 "locked down");
	if (fd < 0 && errno == ENOENT)
		return error_set(error, ENOENT,
				 "there is no " KCORE_PATH
				 " with its code here; 'objdump -d' shows "
				 "the file vmlinux of the debug package of the kernel");
	return fd < 0 ? error_errno(error, errno,
				    "can't read the code of the kernel from " KCORE_PATH)
		      : fd;
}

int kernel_code_open(const struct running_kernel *running, const struct kernel_code *code,
		     struct error *error)
{
	struct elf_memory memory;
	struct error problem;
	int fd, err;
	Elf *elf;

	if (kernel_code_is_generated(code))
		return generated_code_error(error);
	if (!kernel_code_is_running(running, code))
		return error_set(error, ESTALE,
				 "its code is not what runs here now, but of another kernel or "
				 "boot, or of a module that was loaded again");
	fd = kernel_code_open_kcore(running, error);
	if (fd < 0)
		return fd;
	err = elf_begin_read(fd, NULL, 0, false, &elf, &problem);
	if (err) {
		error_set(error, -err, KCORE_PATH ": %s; a container may hide it", problem.text);
	} else {
		err = elf_memory_open(&memory, elf, fd, NULL, 0);
		if (err) {
			error_errno(error, -err, "can't read " KCORE_PATH);
		} else {
			err = kernel_code_read(code, running->kallsyms, &memory, error);
			elf_memory_clear(&memory);
		}
		elf_end(elf);
	}
	close(fd);
	return err;
}

int running_kernel_open(struct running_kernel *running, const char *root, struct error *error)
{
	char path[PATH_MAX];
	int err;

	*running = (struct running_kernel){.root = root};
	snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, root);
	err = kallsyms_read(path, &running->kallsyms, error);
	if (err)
		return err;
	running->kernel = kernel_new(root);
	return running->kernel ? 0 : error_errno(error, ENOMEM, "can't read the kernel's mappings");
}

void running_kernel_close(struct running_kernel *running)
{
	kernel_free(running->kernel);
	kallsyms_free(running->kallsyms);
	*running = (struct running_kernel){.root = NULL};
}

// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_symbols.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "debuginfo/elf_dynamic.h"
#include "debuginfo/elf_header.h"
#include "debuginfo/elf_memory.h"
#include "debuginfo/elf_plt.h"
#include "debuginfo/frame_index.h"
#include "lib/array.h"
#include "lib/error.h"
#include "lib/upper_bound.h"

/* A file beyond these limits is broken or malicious. */
#define SECTION_BYTES_MAX (256u << 20)
#define NOTES_BYTES_MAX (1u << 20)
#define PROGRAM_HEADERS_MAX 4096u
#define SYMBOLS_MAX (1u << 22)
#define ALL_SYMBOLS_MAX (3 * (size_t)SYMBOLS_MAX) /* of two tables, and stubs of the PLT */
#define SYMBOL_NAME_MAX (16u << 10)
/* Sum of the lengths of a file's names. Bytes that names share count for each. */
#define NAMES_BYTES_MAX ((uint64_t)SECTION_BYTES_MAX)
/* Bytes that are compared of two names of the same length. */
#define NAME_COMPARED_MAX 256u
#define SYMBOL_NESTING_MAX 64u

#define NO_FUNCTION UINT32_MAX

/* Stubs whose targets have no name in relocations. */
#define RESOLVERS_MAX 4096u

struct elf_code_range {
	uint64_t start, end;
};

struct elf_function {
	uint64_t start;
	uint32_t size;
	uint32_t name; /* offset in names */
	uint32_t outer; /* index of the innermost other function that holds `start` */
	uint32_t rank; /* among symbols at an address, the lowest wins: see full_rank() */
};

/* A stub that jumps to the function that a resolver has selected, which has the same name. */
struct resolver {
	uint64_t address;
	uint64_t start, end; /* of the stub */
};

/* Symbols while tables are read. */
struct symbols {
	struct elf_function *list;
	size_t count, capacity;
	char *names; /* contents of the string tables */
	size_t names_size;
	uint64_t name_bytes; /* sum of the lengths of all names in the list */
	struct elf_code_range *code; /* executable sections, sorted */
	size_t code_count, code_capacity;
	bool has_all; /* there is a symbol for each function: .symtab */
	bool has_dynamic_names;
	size_t dynamic_names; /* offset in `names` of the names of .dynsym */
	struct resolver *resolvers; /* of stubs of the PLT */
	size_t resolver_count, resolver_capacity;
	size_t steps; /* as in struct elf_file */
};

/* Headers: build ID and load segments */

bool build_id_from_notes(const void *notes, size_t size, size_t align, char hex[BUILD_ID_SIZE])
{
	const unsigned char *at = notes;
	uint64_t name_size, id_size;
	Elf64_Nhdr note;

	while (size >= sizeof(note)) {
		memcpy(&note, at, sizeof(note));
		at += sizeof(note);
		size -= sizeof(note);
		name_size = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
		if (align == 8) /* the name follows the header of 12 bytes */
			name_size = (((uint64_t)note.n_namesz + 12 + 7) & ~UINT64_C(7)) - 12;
		id_size = ((uint64_t)note.n_descsz + align - 1) & ~(uint64_t)(align - 1);
		if (name_size > size || note.n_descsz > size - name_size)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof("GNU") &&
		    memcmp(at, "GNU", sizeof("GNU")) == 0 && note.n_descsz > 0 &&
		    note.n_descsz <= BUILD_ID_BYTES_MAX) {
			build_id_format(at + name_size, note.n_descsz, hex);
			return true;
		}
		if (id_size > size - name_size) /* the last note may lack padding */
			return false;
		at += name_size + id_size;
		size -= name_size + id_size;
	}
	return false;
}

static bool elf_file_read_build_id(Elf *elf, const GElf_Phdr *header, char hex[BUILD_ID_SIZE])
{
	bool wide = header->p_align == 8;
	Elf_Data *data;

	if (header->p_filesz > NOTES_BYTES_MAX || header->p_offset > INT64_MAX)
		return false;
	data = elf_getdata_rawchunk(elf, (int64_t)header->p_offset, header->p_filesz,
				    wide ? ELF_T_NHDR8 : ELF_T_NHDR);
	return data && data->d_buf &&
	       build_id_from_notes(data->d_buf, data->d_size, wide ? 8 : 4, hex);
}

static void read_elf_build_id(Elf *elf, size_t headers, char hex[BUILD_ID_SIZE])
{
	GElf_Phdr header;

	hex[0] = '\0';
	for (size_t i = 0; i < headers; i++) {
		if (gelf_getphdr(elf, (int)i, &header) && header.p_type == PT_NOTE &&
		    elf_file_read_build_id(elf, &header, hex))
			return;
	}
}

static int program_headers(Elf *elf, size_t *count, struct error *error)
{
	if (elf_getphdrnum(elf, count) != 0)
		return error_set(error, EINVAL, "broken ELF headers: %s", elf_errmsg(-1));
	if (*count > PROGRAM_HEADERS_MAX)
		return error_set(error, EINVAL, "broken ELF headers: %zu program headers", *count);
	return 0;
}

void elf_build_id(Elf *elf, char hex[BUILD_ID_SIZE])
{
	size_t count;

	hex[0] = '\0';
	if (program_headers(elf, &count, NULL) == 0)
		read_elf_build_id(elf, count, hex);
}

static int elf_file_read_headers(struct elf_file *file, Elf *elf, struct error *error)
{
	GElf_Phdr header;
	size_t count;
	int err = program_headers(elf, &count, error);

	if (err || count == 0)
		return err;
	file->loads = calloc(count, sizeof(*file->loads));
	if (!file->loads)
		return error_errno(error, ENOMEM, "can't be read");
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD ||
		    !(header.p_flags & PF_X))
			continue;
		file->loads[file->load_count++] = (struct elf_segment){
			.offset = header.p_offset,
			.size = header.p_filesz,
			.vaddr = header.p_vaddr,
		};
	}
	read_elf_build_id(elf, count, file->build_id);
	return 0;
}

static bool uses_extended_shnum(int fd, const void *image, size_t size)
{
	Elf64_Ehdr header;
	ssize_t got;

	if (image)
		return elf_uses_extended_shnum(image, size);
	got = pread(fd, &header, sizeof(header), 0);
	return got >= (ssize_t)sizeof(Elf32_Ehdr) && elf_uses_extended_shnum(&header, (size_t)got);
}

int elf_begin_read(int fd, const void *image, size_t size, bool map, Elf **elf, struct error *error)
{
	if (uses_extended_shnum(fd, image, size))
		return error_set(error, EINVAL, "broken ELF headers: sections without a count");
	elf_version(EV_CURRENT);
	if (image)
		*elf = elf_memory((char *)image, size);
	else
		*elf = elf_begin(fd, map ? ELF_C_READ_MMAP : ELF_C_READ, NULL);
	if (!*elf)
		return error_set(error, EINVAL, "can't be read: %s", elf_errmsg(-1));
	if (elf_kind(*elf) == ELF_K_ELF)
		return 0;
	elf_end(*elf);
	return error_set(error, EINVAL, "not an ELF file");
}

bool elf_segments_vaddr(const struct elf_segment *segments, size_t count, uint64_t offset,
			uint64_t *vaddr)
{
	for (size_t i = 0; i < count; i++) {
		const struct elf_segment *load = &segments[i];

		if (offset >= load->offset && offset - load->offset < load->size) {
			*vaddr = offset - load->offset + load->vaddr;
			return true;
		}
	}
	return false;
}

bool elf_vaddr(const struct elf_file *file, uint64_t offset, uint64_t *vaddr)
{
	return elf_segments_vaddr(file->loads, file->load_count, offset, vaddr);
}

/* Symbol tables */

static int elf_compare_code_ranges(const void *a, const void *b)
{
	const struct elf_code_range *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int elf_symbols_read_code(struct symbols *symbols, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_EXECINSTR) ||
		    header.sh_size == 0 || header.sh_size > UINT64_MAX - header.sh_addr)
			continue;
		if (array_reserve(&symbols->code, &symbols->code_capacity, symbols->code_count, 1,
				  sizeof(*symbols->code)) != 0)
			return -ENOMEM;
		symbols->code[symbols->code_count++] =
			(struct elf_code_range){header.sh_addr, header.sh_addr + header.sh_size};
	}
	return 0;
}

/* A file may have no section headers. */
static int read_code_segments(struct symbols *symbols, const struct elf_memory *memory)
{
	for (size_t i = 0; i < memory->load_count; i++) {
		const struct elf_load *load = &memory->loads[i];

		if (!load->is_code || !load->size || load->size > UINT64_MAX - load->vaddr)
			continue;
		if (array_reserve(&symbols->code, &symbols->code_capacity, symbols->code_count, 1,
				  sizeof(*symbols->code)))
			return -ENOMEM;
		symbols->code[symbols->code_count++] =
			(struct elf_code_range){load->vaddr, load->vaddr + load->size};
	}
	return 0;
}

static int read_code(struct symbols *symbols, Elf *elf, const struct elf_memory *memory)
{
	int err = elf_symbols_read_code(symbols, elf);

	if (!err && !symbols->code_count)
		err = read_code_segments(symbols, memory);
	if (symbols->code_count > 0)
		qsort(symbols->code, symbols->code_count, sizeof(*symbols->code),
		      elf_compare_code_ranges);
	return err;
}

/* Returns the end of the executable section that holds vaddr, or 0. */
static uint64_t code_end(const struct symbols *symbols, uint64_t vaddr)
{
	size_t after;

	if (!symbols->code)
		return 0;
	after = upper_bound(symbols->code, symbols->code_count, sizeof(*symbols->code), vaddr);
	if (after == 0 || vaddr >= symbols->code[after - 1].end)
		return 0;
	return symbols->code[after - 1].end;
}

/* Ranks by binding and type; lower is better. False if the symbol is not a function. */
static bool symbol_rank(const GElf_Sym *symbol, uint32_t *rank)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS ||
	    symbol->st_shndx == SHN_COMMON)
		return false;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return false;
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		*rank = 0;
		break;
	case STB_WEAK:
		*rank = 1;
		break;
	default:
		*rank = 2;
	}
	if (type == STT_NOTYPE)
		*rank += 3;
	return true;
}

/*
 * Excludes the mapping symbols of ARM and RISC-V ("$x"), assembler labels (".L1") and versions
 * without a name ("@V1").
 */
static bool is_function_name(const char *name)
{
	return name[0] && name[0] != '$' && name[0] != '@' && strncmp(name, ".L", 2);
}

/*
 * Strips the version: "memcpy@@GLIBC_2.14" becomes memcpy. The added NUL also ends the other names
 * that begin before it; names that begin after it stay unchanged. Returns the length, or 0 if the
 * name is too long or not terminated.
 */
static size_t strip_version(char *name, size_t room)
{
	size_t length = strnlen(name, room < SYMBOL_NAME_MAX ? room : SYMBOL_NAME_MAX);
	char *version = memchr(name, '@', length);

	if (version)
		*version = '\0';
	else if (length == room || length == SYMBOL_NAME_MAX)
		return 0;
	return version ? (size_t)(version - name) : length;
}

/* By rank, then fewer leading underscores, then shorter name. The last two are below 2^14. */
static uint32_t full_rank(uint32_t rank, const char *name, size_t length)
{
	uint32_t underscores = 0;

	while (name[underscores] == '_')
		underscores++;
	return rank << 28 | underscores << 14 | (uint32_t)length;
}

static int append_function(struct symbols *symbols, const struct elf_function *function)
{
	if (array_reserve(&symbols->list, &symbols->capacity, symbols->count, 1,
			  sizeof(*symbols->list)) != 0)
		return -ENOMEM;
	symbols->list[symbols->count++] = *function;
	return 0;
}

static uint32_t clip_size(uint64_t size, uint64_t room)
{
	if (size > room)
		size = room;
	return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

/* `names` is the offset in symbols->names of the copy of the symbol's string table. */
static int add_symbol(struct symbols *symbols, const GElf_Sym *symbol, size_t names)
{
	size_t room = symbols->names_size - names;
	struct elf_function function;
	size_t length;
	uint64_t end;
	char *name;

	if (!symbol_rank(symbol, &function.rank) || symbol->st_name >= room)
		return 0;
	end = code_end(symbols, symbol->st_value);
	if (end == 0)
		return 0;
	name = symbols->names + names + symbol->st_name;
	if (!is_function_name(name))
		return 0;
	length = strip_version(name, room - symbol->st_name);
	if (length == 0)
		return 0;
	symbols->name_bytes += length;
	if (symbols->name_bytes > NAMES_BYTES_MAX)
		return -E2BIG;
	function.rank = full_rank(function.rank, name, length);
	function.start = symbol->st_value;
	function.size = clip_size(symbol->st_size, end - symbol->st_value);
	function.name = (uint32_t)(names + symbol->st_name);
	function.outer = NO_FUNCTION;
	return append_function(symbols, &function);
}

/* Appends bytes and a NUL to symbols->names. */
static int append_names(struct symbols *symbols, const char *bytes, size_t size)
{
	char *names = realloc(symbols->names, symbols->names_size + size + 1);

	if (!names)
		return -ENOMEM;
	symbols->names = names;
	memcpy(names + symbols->names_size, bytes, size);
	symbols->names_size += size;
	names[symbols->names_size++] = '\0';
	return 0;
}

/* Appends the string table to symbols->names. */
static int copy_names(struct symbols *symbols, Elf *elf, size_t index)
{
	Elf_Scn *section = elf_getscn(elf, index);
	GElf_Shdr header;
	Elf_Data *data;

	if (!section || !gelf_getshdr(section, &header) || header.sh_type != SHT_STRTAB ||
	    (header.sh_flags & SHF_COMPRESSED) || header.sh_size > SECTION_BYTES_MAX)
		return -EINVAL;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf || data->d_size == 0)
		return -EINVAL;
	return append_names(symbols, data->d_buf, data->d_size);
}

static int elf_symbols_read_section(struct symbols *symbols, Elf *elf, Elf_Scn *section,
				    const GElf_Shdr *header)
{
	size_t count, names = symbols->names_size;
	GElf_Sym symbol;
	Elf_Data *data;
	int err;

	if ((header->sh_flags & SHF_COMPRESSED) || header->sh_size > SECTION_BYTES_MAX)
		return -EINVAL;
	data = elf_getdata(section, NULL);
	if (!data || !data->d_buf)
		return -EINVAL;
	count = data->d_size / gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
	if (count > SYMBOLS_MAX)
		return -EINVAL;
	err = copy_names(symbols, elf, header->sh_link);
	for (size_t i = 0; i < count && !err; i++) {
		if (gelf_getsym(data, (int)i, &symbol))
			err = add_symbol(symbols, &symbol, names);
	}
	return err;
}

static int elf_compare_functions(const void *a, const void *b, void *names)
{
	const struct elf_function *left = a, *right = b;
	int order;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	if (left->name == right->name)
		return 0;
	order = strncmp((const char *)names + left->name, (const char *)names + right->name,
			NAME_COMPARED_MAX);
	return order ? order : left->name < right->name ? -1 : 1;
}

/* Keeps the best name of each address, with a size if any alias has one. */
static void elf_symbols_merge_aliases(struct symbols *symbols)
{
	struct elf_function *list = symbols->list, *kept = list;

	if (symbols->count == 0)
		return;
	qsort_r(list, symbols->count, sizeof(*list), elf_compare_functions, symbols->names);
	for (size_t i = 1; i < symbols->count; i++) {
		if (list[i].start != kept->start)
			*++kept = list[i];
		else if (kept->size == 0)
			kept->size = list[i].size;
	}
	symbols->count = (size_t)(kept - list) + 1;
}

/*
 * Returns the end of a symbol without a size: the next symbol, or the end or the next start of a
 * function by call frame information. Where functions may have neither, as in a stripped file, only
 * the first byte is known to be the symbol's.
 */
static uint64_t unsized_end(const struct symbols *symbols, size_t index,
			    const struct frame_index *frames)
{
	const struct elf_function *list = symbols->list;
	uint64_t end = code_end(symbols, list[index].start);

	if (!frames->count && !symbols->has_all)
		return list[index].start + 1;
	if (index + 1 < symbols->count)
		end = MIN(end, list[index + 1].start);
	return MIN(end, frame_index_end(frames, list[index].start));
}

/*
 * Links each function to the function that encloses it. Unsized symbols within a sized function are
 * labels and are dropped.
 */
static void nest_functions(struct symbols *symbols, const struct frame_index *frames)
{
	struct elf_function *list = symbols->list;
	uint32_t kept = 0, outer = NO_FUNCTION; /* the innermost function that has not ended */

	for (size_t i = 0; i < symbols->count; i++) {
		/* Functions that end here are never visited again. */
		for (;
		     outer != NO_FUNCTION && list[i].start - list[outer].start >= list[outer].size;
		     symbols->steps++)
			outer = list[outer].outer;
		if (list[i].size == 0 && outer != NO_FUNCTION)
			continue;
		if (list[i].size == 0)
			list[i].size = clip_size(unsized_end(symbols, i, frames) - list[i].start,
						 UINT32_MAX);
		list[kept] = list[i];
		list[kept].outer = outer;
		outer = kept++;
	}
	symbols->count = kept;
}

/* Returns the first section of a type. Only a malicious file has a second symbol table. */
static Elf_Scn *elf_find_section(Elf *elf, uint32_t type, GElf_Shdr *header)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		if (gelf_getshdr(section, header) && header->sh_type == type)
			break;
	}
	return section;
}

/* Set of bytes of the string tables: a bit for each, and the number of set bits before a word. */
struct kept_bytes {
	uint64_t *bits;
	uint32_t *before;
	size_t words;
};

/* `size` must not be 0. */
static void mark_bytes(struct kept_bytes *kept, size_t first, size_t size)
{
	size_t last = first + size - 1, word = first / 64;
	uint64_t bits = UINT64_MAX << first % 64;

	for (; word < last / 64; word++, bits = UINT64_MAX)
		kept->bits[word] |= bits;
	kept->bits[word] |= bits & UINT64_MAX >> (63 - last % 64);
}

/* Returns the offset of a byte after the removal of all bytes that are not kept. */
static size_t kept_offset(const struct kept_bytes *kept, size_t at)
{
	uint64_t below = kept->bits[at / 64] & ((UINT64_C(1) << at % 64) - 1);

	return kept->before[at / 64] + (size_t)__builtin_popcountll(below);
}

/* Moves the kept bytes together. Returns their number. */
static size_t move_bytes(struct kept_bytes *kept, char *bytes)
{
	size_t count = 0;

	for (size_t word = 0; word < kept->words; word++) {
		uint64_t left = kept->bits[word];

		kept->before[word] = (uint32_t)count;
		while (left) {
			unsigned int first = (unsigned int)__builtin_ctzll(left);
			uint64_t gaps = ~(left >> first);
			unsigned int run = gaps ? (unsigned int)__builtin_ctzll(gaps) : 64;

			if (run > 64 - first)
				run = 64 - first;
			memmove(bytes + count, bytes + word * 64 + first, run);
			count += run;
			left = first + run == 64 ? 0 : left & UINT64_MAX << (first + run);
		}
	}
	return count;
}

/* Keeps the bytes of names in use only. Names that share bytes still share them. */
static int pack_names(struct symbols *symbols)
{
	struct kept_bytes kept = {.words = symbols->names_size / 64 + 1};
	struct elf_function *list = symbols->list;
	size_t size;
	char *names;

	kept.bits = calloc(kept.words, sizeof(*kept.bits));
	kept.before = calloc(kept.words, sizeof(*kept.before));
	if (!kept.bits || !kept.before) {
		free(kept.bits);
		free(kept.before);
		return -ENOMEM;
	}
	for (size_t i = 0; i < symbols->count; i++)
		mark_bytes(&kept, list[i].name, strlen(symbols->names + list[i].name) + 1);
	size = move_bytes(&kept, symbols->names);
	for (size_t i = 0; i < symbols->count; i++)
		list[i].name = (uint32_t)kept_offset(&kept, list[i].name);
	free(kept.bits);
	free(kept.before);
	names = size ? realloc(symbols->names, size) : NULL; /* size > 0, as there is a name */
	if (!names)
		return -ENOMEM;
	symbols->names = names;
	symbols->names_size = size;
	return 0;
}

/* Moves the symbols to `file`, without spare capacity. */
static int pack_symbols(struct symbols *symbols, struct elf_file *file)
{
	struct elf_function *list = reallocarray(symbols->list, symbols->count, sizeof(*list));
	int err;

	if (!list)
		return -ENOMEM;
	symbols->list = list;
	err = pack_names(symbols);
	if (err)
		return err;
	file->functions = list;
	file->function_count = symbols->count;
	file->names = symbols->names;
	file->names_size = symbols->names_size;
	file->steps = symbols->steps;
	symbols->list = NULL;
	symbols->names = NULL;
	return 0;
}

/* Stubs of the PLT */

static int add_stub(struct symbols *symbols, uint64_t start, uint64_t end, const char *name)
{
	const size_t at = symbols->names_size, length = strcspn(name, "@");
	struct elf_function function = {.start = start, .outer = NO_FUNCTION};
	int err;

	if (!length || length >= SYMBOL_NAME_MAX || end <= start || !code_end(symbols, start))
		return 0;
	symbols->name_bytes += length + strlen(ELF_STUB_SUFFIX);
	if (symbols->name_bytes > NAMES_BYTES_MAX || symbols->count >= ALL_SYMBOLS_MAX)
		return -E2BIG;
	err = append_names(symbols, name, length)
		      ?: append_names(symbols, ELF_STUB_SUFFIX, strlen(ELF_STUB_SUFFIX));
	if (err)
		return err;
	/* The suffix takes the place of the first NUL. */
	memmove(symbols->names + at + length, symbols->names + at + length + 1,
		strlen(ELF_STUB_SUFFIX) + 1);
	symbols->names_size--;
	function.name = (uint32_t)at;
	function.size = clip_size(end - start, UINT32_MAX);
	function.rank = full_rank(0, symbols->names + at, length + strlen(ELF_STUB_SUFFIX));
	return append_function(symbols, &function);
}

static int take_stub(void *arg, const struct elf_stub *stub)
{
	struct symbols *symbols = arg;
	const size_t room = symbols->names_size - symbols->dynamic_names;
	char *name;
	int err;

	if (!stub->name) {
		if (symbols->resolver_count == RESOLVERS_MAX)
			return 0;
		if (array_reserve(&symbols->resolvers, &symbols->resolver_capacity,
				  symbols->resolver_count, 1, sizeof(*symbols->resolvers)))
			return -ENOMEM;
		symbols->resolvers[symbols->resolver_count++] =
			(struct resolver){stub->resolver, stub->start, stub->end};
		return 0;
	}
	if (!symbols->has_dynamic_names || stub->name >= room)
		return 0;
	/* A copy, as the names move. */
	name = strndup(symbols->names + symbols->dynamic_names + stub->name, SYMBOL_NAME_MAX);
	if (!name)
		return -ENOMEM;
	err = add_stub(symbols, stub->start, stub->end, name);
	free(name);
	return err;
}

static int compare_resolvers(const void *left, const void *right)
{
	const struct resolver *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->start > b->start) - (a->start < b->start);
}

/* Adds the stubs whose targets resolvers select, by the symbols of these. */
static int add_resolved_stubs(struct symbols *symbols)
{
	const struct resolver *list = symbols->resolvers;
	const size_t count = symbols->resolver_count, symbol_count = symbols->count;
	int err = 0;

	if (count)
		qsort(symbols->resolvers, count, sizeof(*list), compare_resolvers);
	for (size_t i = 0; count && i < symbol_count && !err; i++) {
		const struct elf_function *function = &symbols->list[i];
		size_t after = upper_bound(list, count, sizeof(*list), function->start);

		if (!after || list[after - 1].address != function->start)
			continue;
		/* Aliases add the same stub again: the best name is kept. */
		for (; after && list[after - 1].address == symbols->list[i].start && !err;
		     after--) {
			char *name = strdup(symbols->names + symbols->list[i].name);

			err = name ? add_stub(symbols, list[after - 1].start, list[after - 1].end,
					      name)
				   : -ENOMEM;
			free(name);
		}
	}
	return err;
}

static int read_stubs_of_plt(struct symbols *symbols, Elf *elf)
{
	return elf_each_stub(elf, take_stub, symbols) ?: add_resolved_stubs(symbols);
}

/* Symbols of a file */

/* The dynamic symbols of a file without section headers. */
static int elf_symbols_read_dynamic(struct symbols *symbols, Elf *elf,
				    const struct elf_memory *memory)
{
	const size_t names = symbols->names_size;
	struct elf_dynamic dynamic;
	int err;

	if (elf_dynamic_read(elf, memory, SYMBOLS_MAX, SECTION_BYTES_MAX, &dynamic))
		return 0;
	err = append_names(symbols, dynamic.names, dynamic.names_size);
	for (size_t i = 0; i < dynamic.symbol_count && !err; i++)
		err = add_symbol(symbols, &dynamic.symbols[i], names);
	elf_dynamic_clear(&dynamic);
	return err;
}

static void set_table_problem(int err, struct error *problem)
{
	error_set(problem, EINVAL, "has %s",
		  err == -E2BIG ? "too many long names of functions" : "a broken symbol table");
}

/* Reads what tables there are. Returns 0 or -ENOMEM. */
static int read_tables(struct symbols *symbols, Elf *elf, const struct elf_memory *memory,
		       struct error *problem)
{
	static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
	bool has_table = false;
	GElf_Shdr header;
	Elf_Scn *section;
	int err = 0;

	for (size_t i = 0; i < 2 && err != -ENOMEM; i++) {
		const size_t names = symbols->names_size;

		section = elf_find_section(elf, types[i], &header);
		if (!section)
			continue;
		has_table = true;
		err = elf_symbols_read_section(symbols, elf, section, &header);
		/* The other table may be valid. */
		if (err == -EINVAL || err == -E2BIG)
			set_table_problem(err, problem);
		symbols->has_all |= types[i] == SHT_SYMTAB && !err;
		if (types[i] == SHT_DYNSYM && !err) {
			symbols->has_dynamic_names = true;
			symbols->dynamic_names = names;
		}
	}
	if (err == -ENOMEM)
		return err;
	err = has_table ? read_stubs_of_plt(symbols, elf)
			: elf_symbols_read_dynamic(symbols, elf, memory);
	if (err == -E2BIG)
		set_table_problem(err, problem);
	return err == -ENOMEM ? err : 0;
}

static int finish_functions(struct elf_file *file, struct symbols *symbols, Elf *elf,
			    const struct elf_memory *memory)
{
	struct frame_index frames;
	int err = frame_index_read(&frames, elf, memory);

	if (!err) {
		elf_symbols_merge_aliases(symbols);
		nest_functions(symbols, &frames);
		err = pack_symbols(symbols, file);
	}
	frame_index_clear(&frames);
	return err;
}

static int elf_file_read_functions(struct elf_file *file, Elf *elf, const struct elf_memory *memory,
				   struct error *problem)
{
	struct symbols symbols = {0};
	int err = read_code(&symbols, elf, memory);

	if (!err)
		err = read_tables(&symbols, elf, memory, problem);
	if (!err && symbols.count > 0)
		err = finish_functions(file, &symbols, elf, memory);
	else if (!err && !*problem->text)
		error_set(problem, ENODATA, "has no symbols of functions");
	if (err)
		error_errno(problem, -err, "can't be read");
	free(symbols.list);
	free(symbols.names);
	free(symbols.code);
	free(symbols.resolvers);
	return err;
}

int elf_read(struct elf_file *file, int fd, const void *image, size_t size, bool functions,
	     struct error *problem)
{
	struct elf_memory memory = {.fd = -1};
	struct elf_file loaded = {0};
	Elf *elf = NULL;
	/* Not mapped: a file that shrinks must not kill the reader by SIGBUS. */
	int err = elf_begin_read(fd, image, size, false, &elf, problem);

	if (err)
		return err;
	*problem->text = '\0';
	err = elf_file_read_headers(&loaded, elf, problem);
	if (!err && functions) {
		err = elf_memory_open(&memory, elf, fd, image, size);
		if (err)
			error_errno(problem, -err, "can't be read");
		else
			err = elf_file_read_functions(&loaded, elf, &memory, problem);
		elf_memory_clear(&memory);
	}
	elf_end(elf);
	if (err)
		elf_clear(&loaded);
	else
		*file = loaded;
	return err;
}

/* Packed functions */

void elf_pack(const struct elf_file *file, struct elf_packed *packed, struct iovec parts[ELF_PARTS])
{
	*packed = (struct elf_packed){file->function_count, file->names_size};
	parts[0] =
		(struct iovec){file->functions, file->function_count * sizeof(struct elf_function)};
	parts[1] = (struct iovec){file->names, file->names_size};
}

size_t elf_packed_size(const struct elf_packed *packed, size_t size)
{
	const uint64_t count = packed->function_count, names = packed->names_size;

	if (count > size / sizeof(struct elf_function) ||
	    names > size - count * sizeof(struct elf_function))
		return SIZE_MAX;
	return count * sizeof(struct elf_function) + names;
}

static bool are_functions_valid(const struct elf_function *functions, size_t count,
				size_t names_size)
{
	for (size_t i = 0; i < count; i++) {
		if (functions[i].name >= names_size ||
		    (functions[i].outer != NO_FUNCTION && functions[i].outer >= i) ||
		    (i && functions[i].start <= functions[i - 1].start))
			return false;
	}
	return true;
}

bool elf_unpack(struct elf_file *file, const struct elf_packed *packed, const void *bytes)
{
	const struct elf_function *functions = bytes;
	const size_t count = packed->function_count;
	const char *names = (const char *)(functions + count);

	if (!count)
		return !packed->names_size;
	if (!packed->names_size || names[packed->names_size - 1] ||
	    !are_functions_valid(functions, count, packed->names_size))
		return false;
	file->functions = (struct elf_function *)functions;
	file->function_count = count;
	file->names = (char *)names;
	file->names_size = packed->names_size;
	file->is_borrowed = true;
	return true;
}

void elf_clear(struct elf_file *file)
{
	if (!file->is_borrowed) {
		free(file->functions);
		free(file->names);
	}
	free(file->loads);
	*file = (struct elf_file){0};
}

bool elf_lookup(const struct elf_file *file, uint64_t vaddr, struct symbol *symbol)
{
	uint32_t index, depth = 0;
	size_t after;

	if (!file->functions)
		return false;
	after = upper_bound(file->functions, file->function_count, sizeof(*file->functions), vaddr);
	if (after == 0)
		return false;
	index = (uint32_t)(after - 1);
	for (; index != NO_FUNCTION && depth < SYMBOL_NESTING_MAX; depth++) {
		const struct elf_function *function = &file->functions[index];

		if (vaddr - function->start < function->size) {
			symbol->name = file->names + function->name;
			symbol->start = function->start;
			symbol->size = function->size;
			return true;
		}
		index = function->outer;
	}
	return false;
}

void elf_lookup_range(const struct elf_file *file, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
	uint32_t index, depth = 0;
	size_t after;

	if (!file->functions)
		return;
	after = upper_bound(file->functions, file->function_count, sizeof(*file->functions), vaddr);
	if (after < file->function_count)
		*end = MIN(*end, file->functions[after].start);
	if (after == 0)
		return;
	index = (uint32_t)(after - 1);
	*start = MAX(*start, file->functions[index].start);
	for (; index != NO_FUNCTION && depth < SYMBOL_NESTING_MAX; depth++) {
		const struct elf_function *function = &file->functions[index];

		/* The last address, as the one after it may be 0. */
		if (vaddr - function->start < function->size) {
			*end = MIN(*end - 1, function->start + function->size - 1) + 1;
			return;
		}
		*start = MAX(*start, function->start + function->size);
		index = function->outer;
	}
}

bool elf_code_start(const struct elf_file *file, uint64_t *vaddr)
{
	if (file->load_count == 0)
		return false;
	*vaddr = file->loads[0].vaddr;
	for (size_t i = 1; i < file->load_count; i++) {
		if (file->loads[i].vaddr < *vaddr)
			*vaddr = file->loads[i].vaddr;
	}
	return true;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The pclntab is made of a header and these tables, which follow it:
 *
 *	names		texts of functions, each ended by 0
 *	units		for each package, the files that its functions refer to by number
 *	files		texts of files
 *	values		sequences of pairs (value, code bytes), delta coded: for which part of
 *			a function a number (of a file, a line, an inlined call) is valid
 *	functions	sorted pairs (code offset, offset of the record), then the records
 *
 * The linker's module data refers to all of them, and to what the header does not:
 * where the code is, and the inline trees of functions.
 */
#include "runtime/go_pclntab.h"

#include "lib/error.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond these a file is broken or means harm. */
#define SEGMENTS_MAX 4096u
#define TEXT_SECTIONS_MAX 64u
#define CANDIDATES_MAX 64u /* places at which headers or module data may seem to be */
#define TEXT_MAX (1u << 20) /* bytes */
#define STEPS_MAX (1u << 20) /* pairs of one sequence */

#define MAGIC_OLDEST 0xfffffffbu /* Go 1.2 */
#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

#define HEADER_WORDS 8u /* behind the first 8 bytes */
#define FUNCTION_PAIR 8u /* bytes */

#define PCDATA_INLINE_INDEX 2u
#define FUNCDATA_INLINE_TREE 3u
#define NO_FUNCDATA UINT32_MAX
#define NO_FILE UINT32_MAX

/*
 * The kinds of functions are numbered anew by each version of Go, with wrappers as
 * the last, and there are some in every program. This is the least that it ever was.
 */
#define WRAPPER_KIND_MIN 21u

struct span {
	const uint8_t *data;
	uint64_t size; /* bytes */
};

/* The words of the header, behind its first 8 bytes. */
enum {
	HEADER_FUNCTIONS, /* their count */
	HEADER_FILES,
	HEADER_TEXT,
	HEADER_NAMES, /* from here on offsets from the header */
	HEADER_UNITS,
	HEADER_FILE_NAMES,
	HEADER_VALUES,
	HEADER_FUNCTION_TABLE,
};

/* The words of the module data that are the same in all versions. */
enum {
	MODULE_HEADER = 0,
	MODULE_NAMES = 1,
	MODULE_UNITS = 4,
	MODULE_FILE_NAMES = 7,
	MODULE_VALUES = 10,
	MODULE_FUNCTION_TABLE = 13,
	MODULE_PAIRS = 16,
	MODULE_PAIR_COUNT = 17,
	MODULE_TEXT = 22,
	MODULE_WORDS = 48, /* as many as are looked at */
};

/* Where things are in records, in bytes. 0: it is not there. */
struct format {
	uint32_t magic;
	uint8_t function_size, function_start_line, function_kind;
	uint8_t call_size, call_kind, call_name, call_pc, call_start_line;
};

static const struct format formats[] = {
	{
		.magic = MAGIC_1_18,
		.function_size = 40,
		.function_kind = 36,
		.call_size = 20,
		.call_kind = 2,
		.call_name = 12,
		.call_pc = 16,
	},
	{
		.magic = MAGIC_1_20,
		.function_size = 44,
		.function_start_line = 36,
		.function_kind = 40,
		.call_size = 16,
		.call_kind = 0,
		.call_name = 4,
		.call_pc = 8,
		.call_start_line = 12,
	},
};

/* Which words of the module data are the base of inline trees, and the slice of text sections. */
struct layout {
	uint32_t magic;
	uint8_t trees, sections;
	bool generic_methods; /* names may have two lists of types */
};

static const struct layout layouts[] = {
	{MAGIC_1_18, 38, 39, false}, /* 1.18, 1.19 */
	{MAGIC_1_20, 40, 41, false}, /* 1.20 */
	{MAGIC_1_20, 40, 42, false}, /* 1.26 */
	{MAGIC_1_20, 43, 45, true}, /* 1.27 */
};

struct segment {
	uint64_t vaddr;
	struct span file; /* what of it is in the file */
	bool writable;
};

/* The code is one in the eyes of the pclntab; a linker may have torn it apart. */
struct text_section {
	uint64_t start, end; /* code offsets */
	uint64_t vaddr;
};

struct go_pclntab {
	struct segment *segments;
	size_t segment_count;
	struct span relocations; /* Elf64_Rela */
	uint32_t relative; /* type of the relocations that are of interest */
	unsigned int word; /* bytes of an address */
	unsigned int quantum; /* bytes, of which the length of each instruction is a multiple */
	const struct format *format;
	bool generic_methods;
	struct span names, units, files, values, functions;
	struct span trees; /* empty: not found */
	uint32_t function_count;
	struct text_section *sections;
	size_t section_count;
	uint8_t wrapper; /* kind; 0: there is none */
	unsigned int candidates; /* that have been tried */
};

/* A function, read from its record. */
struct function {
	struct span record;
	uint32_t entry; /* code offset */
	uint32_t name;
	uint32_t files, lines; /* offsets of their sequences */
	uint32_t pcdata_count;
	uint32_t unit;
	uint32_t start_line;
	uint8_t kind, funcdata_count;
};

/* An inlined call. */
struct call {
	uint32_t name;
	uint32_t pc; /* of the call, from the entry of the function */
	uint32_t start_line;
	uint8_t kind;
};

/* Reading, with all offsets checked */

static struct span tail(struct span span, uint64_t offset)
{
	if (offset >= span.size)
		return (struct span){NULL, 0};
	return (struct span){span.data + offset, span.size - offset};
}

static bool read_u8(struct span span, uint64_t offset, uint8_t *value)
{
	if (offset >= span.size)
		return false;
	*value = span.data[offset];
	return true;
}

static bool read_u32(struct span span, uint64_t offset, uint32_t *value)
{
	struct span rest = tail(span, offset);

	if (rest.size < sizeof(*value))
		return false;
	memcpy(value, rest.data, sizeof(*value));
	*value = le32toh(*value);
	return true;
}

static bool read_u64(struct span span, uint64_t offset, uint64_t *value)
{
	struct span rest = tail(span, offset);

	if (rest.size < sizeof(*value))
		return false;
	memcpy(value, rest.data, sizeof(*value));
	*value = le64toh(*value);
	return true;
}

static bool read_word(const struct go_pclntab *gosym, struct span span, uint64_t offset,
		      uint64_t *value)
{
	uint32_t narrow;

	if (gosym->word == sizeof(*value))
		return read_u64(span, offset, value);
	if (!read_u32(span, offset, &narrow))
		return false;
	*value = narrow;
	return true;
}

static bool read_varint(struct span *span, uint32_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; shift < 32; shift += 7) {
		if (span->size == 0)
			return false;
		*value |= (uint32_t)(*span->data & 0x7f) << shift;
		span->size--;
		if (!(*span->data++ & 0x80))
			return true;
	}
	return false;
}

/* A text that ends within the span, or NULL. */
static const char *text_at(struct span span, uint64_t offset)
{
	struct span rest = tail(span, offset);

	if (rest.size > TEXT_MAX)
		rest.size = TEXT_MAX;
	if (rest.size == 0 || !memchr(rest.data, '\0', rest.size))
		return NULL;
	return (const char *)rest.data;
}

/* What of the file is at an address, up to the end of the segment. */
static struct span at_address(const struct go_pclntab *gosym, uint64_t vaddr)
{
	for (size_t i = 0; i < gosym->segment_count; i++) {
		const struct segment *segment = &gosym->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->file.size)
			return tail(segment->file, vaddr - segment->vaddr);
	}
	return (struct span){NULL, 0};
}

/* The place that the relocation at `index` fills with an address, and the address. */
static bool relative_relocation(const struct go_pclntab *gosym, uint64_t index, uint64_t *place,
				uint64_t *address)
{
	struct span entry = tail(gosym->relocations, index * sizeof(Elf64_Rela));
	uint64_t info;

	return read_u64(entry, offsetof(Elf64_Rela, r_info), &info) &&
	       ELF64_R_TYPE(info) == gosym->relative &&
	       read_u64(entry, offsetof(Elf64_Rela, r_offset), place) &&
	       read_u64(entry, offsetof(Elf64_Rela, r_addend), address);
}

static uint64_t relocation_count(const struct go_pclntab *gosym)
{
	return gosym->relocations.size / sizeof(Elf64_Rela);
}

/* Reads words as they are in memory, in a program that is loaded where its file says. */
static bool read_words(const struct go_pclntab *gosym, uint64_t vaddr, uint64_t *words,
		       size_t count)
{
	struct span span = at_address(gosym, vaddr);
	uint64_t place, address;

	for (size_t i = 0; i < count; i++) {
		if (!read_word(gosym, span, (uint64_t)i * gosym->word, &words[i]))
			return false;
	}
	for (uint64_t i = 0; i < relocation_count(gosym); i++) {
		if (relative_relocation(gosym, i, &place, &address) && place >= vaddr &&
		    (place - vaddr) / sizeof(*words) < count &&
		    (place - vaddr) % sizeof(*words) == 0)
			words[(place - vaddr) / sizeof(*words)] = address;
	}
	return true;
}

/* ELF */

/*
 * Files with more than 65,279 sections say so in another way: the count in the
 * header is 0. Programs and libraries are none, and libelf takes memory for as
 * many sections as such a file claims.
 */
static bool uses_extended_shnum(const void *data, size_t size)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} header = {0};

	memcpy(&header, data, size < sizeof(header) ? size : sizeof(header));
	if (header.ident[EI_CLASS] == ELFCLASS32)
		return header.narrow.e_shnum == 0 && header.narrow.e_shoff != 0;
	return header.wide.e_shnum == 0 && header.wide.e_shoff != 0;
}

static int add_segments(struct go_pclntab *gosym, Elf *elf, struct span file, struct error *error)
{
	GElf_Phdr header;
	struct span rest;
	size_t count;

	if (elf_getphdrnum(elf, &count) != 0 || count == 0 || count > SEGMENTS_MAX)
		return error_set(error, ENODATA, "broken ELF headers");
	gosym->segments = calloc(count, sizeof(*gosym->segments));
	if (!gosym->segments)
		return error_set(error, ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		rest = tail(file, header.p_offset);
		gosym->segments[gosym->segment_count++] = (struct segment){
			.vaddr = header.p_vaddr,
			.file = {rest.data,
				 header.p_filesz < rest.size ? header.p_filesz : rest.size},
			.writable = header.p_flags & PF_W,
		};
	}
	return 0;
}

static void read_dynamic(struct go_pclntab *gosym, struct span dynamic)
{
	uint64_t tag, value, table = 0, size = 0;

	for (uint64_t at = 0; read_u64(dynamic, at, &tag) && tag != DT_NULL &&
			      read_u64(dynamic, at + sizeof(tag), &value);
	     at += sizeof(Elf64_Dyn)) {
		if (tag == DT_RELA)
			table = value;
		if (tag == DT_RELASZ)
			size = value;
	}
	gosym->relocations = at_address(gosym, table);
	if (gosym->relocations.size > size)
		gosym->relocations.size = size;
}

/*
 * Only relocations that bring their own addends are of interest: with the others,
 * what is in the file at their place is right for the addresses of the file.
 */
static void find_relocations(struct go_pclntab *gosym, Elf *elf, uint16_t machine)
{
	GElf_Phdr header;
	size_t count;

	if (machine == EM_X86_64)
		gosym->relative = R_X86_64_RELATIVE;
	else if (machine == EM_AARCH64)
		gosym->relative = R_AARCH64_RELATIVE;
	else
		return;
	if (gosym->word != sizeof(uint64_t) || elf_getphdrnum(elf, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_DYNAMIC)
			continue;
		read_dynamic(gosym, at_address(gosym, header.p_vaddr));
		return;
	}
}

static int read_elf(struct go_pclntab *gosym, Elf *elf, struct span file, struct error *error)
{
	GElf_Ehdr header;
	int result;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
		return error_set(error, ENODATA, "not an ELF file");
	if (header.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_set(error, ENOTSUP, "a big-endian machine's Go is not supported");
	gosym->word = header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	result = add_segments(gosym, elf, file, error);
	if (result == 0)
		find_relocations(gosym, elf, header.e_machine);
	return result;
}

/* The address of the section with the pclntab, if section headers tell. */
static bool find_section(Elf *elf, uint64_t *vaddr)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	const char *name;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	while ((section = elf_nextscn(elf, section))) {
		name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name)
						      : NULL;
		if (!name || (strcmp(name, ".gopclntab") != 0 &&
			      strcmp(name, ".data.rel.ro.gopclntab") != 0))
			continue;
		*vaddr = header.sh_addr;
		return true;
	}
	return false;
}

/* The header, and the module data that refers to it */

static const struct format *find_format(uint32_t magic)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		if (formats[i].magic == magic)
			return &formats[i];
	}
	return NULL;
}

static bool is_quantum(uint8_t bytes)
{
	return bytes == 1 || bytes == 2 || bytes == 4;
}

/* The span from an offset to the end of the tables. False if it is none of theirs. */
static bool header_table(const struct go_pclntab *gosym, struct span tables, unsigned int word,
			 struct span *table)
{
	uint64_t offset;

	if (!read_word(gosym, tables, 8 + (uint64_t)word * gosym->word, &offset))
		return false;
	*table = tail(tables, offset);
	return table->size > 0 && offset >= 8 + (uint64_t)HEADER_WORDS * gosym->word;
}

/* The first function must be what the table says of it. */
static bool check_first_function(const struct go_pclntab *gosym)
{
	uint32_t entry, record, again;

	return gosym->functions.size / FUNCTION_PAIR > gosym->function_count &&
	       read_u32(gosym->functions, 0, &entry) && read_u32(gosym->functions, 4, &record) &&
	       read_u32(gosym->functions, record, &again) && entry == again;
}

/* Reads the header at the start of the span; false if there is none that makes sense. */
static bool read_header(struct go_pclntab *gosym, struct span tables)
{
	uint64_t functions;
	uint32_t magic;

	if (!read_u32(tables, 0, &magic) || tables.size < 8)
		return false;
	gosym->format = find_format(magic);
	gosym->quantum = tables.data[6];
	if (!gosym->format || tables.data[4] || tables.data[5] || !is_quantum(gosym->quantum) ||
	    tables.data[7] != gosym->word)
		return false;
	if (!read_word(gosym, tables, 8, &functions) || functions == 0 || functions >= UINT32_MAX)
		return false;
	gosym->function_count = (uint32_t)functions;
	return header_table(gosym, tables, HEADER_NAMES, &gosym->names) &&
	       header_table(gosym, tables, HEADER_UNITS, &gosym->units) &&
	       header_table(gosym, tables, HEADER_FILE_NAMES, &gosym->files) &&
	       header_table(gosym, tables, HEADER_VALUES, &gosym->values) &&
	       header_table(gosym, tables, HEADER_FUNCTION_TABLE, &gosym->functions) &&
	       check_first_function(gosym);
}

static bool is_module(const struct go_pclntab *gosym, uint64_t header, struct span tables,
		      const uint64_t *words)
{
	const struct {
		unsigned int word;
		struct span table;
	} expected[] = {
		{MODULE_NAMES, gosym->names},
		{MODULE_UNITS, gosym->units},
		{MODULE_FILE_NAMES, gosym->files},
		{MODULE_VALUES, gosym->values},
		{MODULE_FUNCTION_TABLE, gosym->functions},
		{MODULE_PAIRS, gosym->functions},
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (words[expected[i].word] - header !=
		    (uint64_t)(expected[i].table.data - tables.data))
			return false;
	}
	return words[MODULE_HEADER] == header &&
	       words[MODULE_PAIR_COUNT] == (uint64_t)gosym->function_count + 1;
}

/* Each is tried with a look at all relocations, or at all of the file. */
static bool may_try(struct go_pclntab *gosym)
{
	return gosym->candidates++ < CANDIDATES_MAX;
}

static bool set_sections(struct go_pclntab *gosym, size_t count)
{
	free(gosym->sections);
	gosym->section_count = 0;
	gosym->sections = calloc(count, sizeof(*gosym->sections));
	if (!gosym->sections)
		return false;
	gosym->section_count = count;
	return true;
}

/* Sets `sections` from a slice of the module data, if it is one that makes sense. */
static bool read_sections(struct go_pclntab *gosym, const uint64_t *slice, uint64_t text)
{
	uint64_t words[3 * TEXT_SECTIONS_MAX] = {0}, count = slice[1];

	if (count == 0 || count > TEXT_SECTIONS_MAX || slice[2] != count ||
	    !read_words(gosym, slice[0], words, 3 * count) || words[0] != 0 || words[2] != text ||
	    !set_sections(gosym, count))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t *section = &words[3 * i];

		if (section[0] > section[1] || section[1] > UINT32_MAX)
			return false;
		gosym->sections[i] = (struct text_section){section[0], section[1], section[2]};
	}
	return true;
}

/* Of an unknown version: its functions are known, but not what is inlined in them. */
static bool take_one_section(struct go_pclntab *gosym, uint64_t text)
{
	if (!set_sections(gosym, 1))
		return false;
	gosym->sections[0] = (struct text_section){0, UINT32_MAX, text};
	return true;
}

static bool read_module(struct go_pclntab *gosym, uint64_t header, struct span tables,
			uint64_t vaddr)
{
	uint64_t words[MODULE_WORDS] = {0};
	const struct layout *layout;

	if (!read_words(gosym, vaddr, words, MODULE_WORDS) ||
	    !is_module(gosym, header, tables, words))
		return false;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		layout = &layouts[i];
		if (layout->magic != gosym->format->magic ||
		    !read_sections(gosym, &words[layout->sections], words[MODULE_TEXT]))
			continue;
		gosym->trees = at_address(gosym, words[layout->trees]);
		gosym->generic_methods = layout->generic_methods;
		return true;
	}
	return take_one_section(gosym, words[MODULE_TEXT]);
}

/* Looks for a reference to the header in what can be written: the module data begins with one. */
static bool find_module_in_file(struct go_pclntab *gosym, uint64_t header, struct span tables)
{
	uint64_t value;

	for (size_t i = 0; i < gosym->segment_count; i++) {
		const struct segment *segment = &gosym->segments[i];

		if (!segment->writable)
			continue;
		for (uint64_t at = -segment->vaddr % gosym->word;
		     read_word(gosym, segment->file, at, &value); at += gosym->word) {
			if (value != header)
				continue;
			if (!may_try(gosym))
				return false;
			if (read_module(gosym, header, tables, segment->vaddr + at))
				return true;
		}
	}
	return false;
}

static bool find_module_by_relocation(struct go_pclntab *gosym, uint64_t header, struct span tables)
{
	uint64_t place, address;

	for (uint64_t i = 0; i < relocation_count(gosym); i++) {
		if (!relative_relocation(gosym, i, &place, &address) || address != header)
			continue;
		if (!may_try(gosym))
			return false;
		if (read_module(gosym, header, tables, place))
			return true;
	}
	return false;
}

static bool read_tables(struct go_pclntab *gosym, uint64_t header)
{
	struct span tables = at_address(gosym, header);

	return read_header(gosym, tables) && (find_module_by_relocation(gosym, header, tables) ||
					      find_module_in_file(gosym, header, tables));
}

/* Without section headers, or with wrong ones. */
static bool search_tables(struct go_pclntab *gosym)
{
	uint32_t magic;

	for (size_t i = 0; i < gosym->segment_count; i++) {
		const struct segment *segment = &gosym->segments[i];

		for (uint64_t at = -segment->vaddr % gosym->word;
		     read_u32(segment->file, at, &magic); at += gosym->word) {
			if (!find_format(magic) || !read_header(gosym, tail(segment->file, at)))
				continue;
			if (!may_try(gosym))
				return false;
			if (read_tables(gosym, segment->vaddr + at))
				return true;
		}
	}
	return false;
}

static int find_tables(struct go_pclntab *gosym, Elf *elf, struct error *error)
{
	uint64_t header = 0;
	uint32_t magic = 0;
	bool section;

	section = find_section(elf, &header);
	if ((section && read_tables(gosym, header)) || search_tables(gosym))
		return 0;
	if (section && read_u32(at_address(gosym, header), 0, &magic) &&
	    (magic == MAGIC_1_16 || magic == MAGIC_OLDEST))
		return error_set(error, ENOTSUP, "made by a Go older than 1.18");
	return error_set(error, ENODATA, "no function table of Go");
}

/* Functions */

static bool read_function(const struct go_pclntab *gosym, uint32_t index, struct function *function)
{
	const struct format *format = gosym->format;
	uint64_t pair = (uint64_t)index * FUNCTION_PAIR;
	struct span record;
	uint32_t offset;

	*function = (struct function){0};
	if (!read_u32(gosym->functions, pair, &function->entry) ||
	    !read_u32(gosym->functions, pair + 4, &offset))
		return false;
	record = tail(gosym->functions, offset);
	if (record.size < format->function_size)
		return false;
	read_u32(record, 4, &function->name);
	read_u32(record, 20, &function->files);
	read_u32(record, 24, &function->lines);
	read_u32(record, 28, &function->pcdata_count);
	read_u32(record, 32, &function->unit);
	if (format->function_start_line)
		read_u32(record, format->function_start_line, &function->start_line);
	read_u8(record, format->function_kind, &function->kind);
	read_u8(record, format->function_size - 1u, &function->funcdata_count);
	function->record = record;
	return true;
}

static void find_wrapper_kind(struct go_pclntab *gosym)
{
	struct function function;
	uint8_t last = 0;

	for (uint32_t i = 0; i < gosym->function_count; i++) {
		if (read_function(gosym, i, &function) && function.kind > last)
			last = function.kind;
	}
	if (last >= WRAPPER_KIND_MIN)
		gosym->wrapper = last;
}

static bool is_wrapper(const struct go_pclntab *gosym, uint8_t kind)
{
	return gosym->wrapper && kind == gosym->wrapper;
}

static bool code_offset(const struct go_pclntab *gosym, uint64_t vaddr, uint32_t *offset)
{
	for (size_t i = 0; i < gosym->section_count; i++) {
		const struct text_section *section = &gosym->sections[i];

		if (vaddr >= section->vaddr &&
		    vaddr - section->vaddr < section->end - section->start) {
			*offset = (uint32_t)(vaddr - section->vaddr + section->start);
			return true;
		}
	}
	return false;
}

/* The last function that does not begin behind the code offset, which may be behind them all. */
static bool find_function(const struct go_pclntab *gosym, uint32_t offset,
			  struct function *function)
{
	uint32_t low = 0, high = gosym->function_count + 1, entry;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (!read_u32(gosym->functions, (uint64_t)middle * FUNCTION_PAIR, &entry))
			return false;
		if (entry <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	/* The last entry is the end of the code. */
	return low > 0 && low <= gosym->function_count && read_function(gosym, low - 1, function);
}

/* The value of a sequence at `pc`, from the entry of the function; -1: there is none. */
static int32_t value_at(const struct go_pclntab *gosym, uint32_t sequence, uint32_t pc)
{
	struct span rest = tail(gosym->values, sequence);
	uint32_t value = UINT32_MAX, delta;
	uint64_t end = 0;

	if (sequence == 0)
		return -1;
	for (unsigned int i = 0; i < STEPS_MAX; i++) {
		if (!read_varint(&rest, &delta) || (delta == 0 && end != 0))
			return -1;
		value += -(delta & 1) ^ (delta >> 1);
		if (!read_varint(&rest, &delta))
			return -1;
		end += (uint64_t)delta * gosym->quantum;
		if (pc < end)
			return (int32_t)value;
	}
	return -1;
}

static const char *file_at(const struct go_pclntab *gosym, const struct function *function,
			   uint32_t pc)
{
	int32_t number = value_at(gosym, function->files, pc);
	uint32_t offset;

	if (number < 0 ||
	    !read_u32(gosym->units, ((uint64_t)function->unit + (uint32_t)number) * sizeof(offset),
		      &offset) ||
	    offset == NO_FILE)
		return NULL;
	return text_at(gosym->files, offset);
}

/* Inlined calls */

static struct span inline_tree(const struct go_pclntab *gosym, const struct function *function)
{
	const struct span none = {NULL, 0};
	uint32_t offset;

	if (function->funcdata_count <= FUNCDATA_INLINE_TREE ||
	    !read_u32(function->record,
		      gosym->format->function_size +
			      ((uint64_t)function->pcdata_count + FUNCDATA_INLINE_TREE) * 4,
		      &offset) ||
	    offset == NO_FUNCDATA)
		return none;
	return tail(gosym->trees, offset);
}

/* The innermost call that was inlined at `pc`, or -1. */
static int32_t call_index(const struct go_pclntab *gosym, const struct function *function,
			  uint32_t pc)
{
	uint32_t sequence;

	if (function->pcdata_count <= PCDATA_INLINE_INDEX ||
	    !read_u32(function->record, gosym->format->function_size + PCDATA_INLINE_INDEX * 4,
		      &sequence))
		return -1;
	return value_at(gosym, sequence, pc);
}

static bool read_call(const struct go_pclntab *gosym, struct span tree, uint32_t index,
		      struct call *call)
{
	const struct format *format = gosym->format;
	struct span entry = tail(tree, (uint64_t)index * format->call_size);

	*call = (struct call){0};
	if (entry.size < format->call_size)
		return false;
	read_u8(entry, format->call_kind, &call->kind);
	read_u32(entry, format->call_name, &call->name);
	read_u32(entry, format->call_pc, &call->pc);
	if (format->call_start_line)
		read_u32(entry, format->call_start_line, &call->start_line);
	return true;
}

/* Names */

/*
 * Where in "T[types].method[types]" the first list ends and the second begins, between the
 * first bracket and the last. 1: so it is; 0: there is one list; -1: that is no name of Go.
 */
static int split_types(const char *first, const char *last, const char **end, const char **begin)
{
	int depth = 1;

	*end = NULL;
	for (const char *at = first + 1; at < last; at++) {
		if (*at == '[' && ++depth == 1) {
			*begin = at;
			return 1;
		}
		if (*at == ']' && --depth == 0)
			*end = at;
		if (depth < 0)
			return -1;
	}
	return depth == 1 ? 0 : -1;
}

/*
 * Gives the name as Go prints it: with "..." for types, which are those of the machine
 * code and not of the source. Of two names at once if the caller gives none.
 */
static char *printed_name(const struct go_pclntab *gosym, const char *name)
{
	const char *first = strchr(name, '['), *last = strrchr(name, ']');
	const char *end, *begin;
	char *text = NULL;
	int lists = 0, length;

	if (!first || !last || last < first)
		return strdup(name);
	if (gosym->generic_methods)
		lists = split_types(first, last, &end, &begin);
	if (lists < 0)
		return strdup(name);
	if (lists == 1)
		length = asprintf(&text, "%.*s[...]%.*s[...]%s", (int)(first - name), name,
				  (int)(begin - end - 1), end + 1, last + 1);
	else
		length = asprintf(&text, "%.*s[...]%s", (int)(first - name), name, last + 1);
	return length < 0 ? NULL : text;
}

/* Looking up */

static int give_frame(const struct go_pclntab *gosym, const struct function *function, uint32_t pc,
		      const struct call *call, go_frame_fn *fn, void *arg)
{
	const char *name = text_at(gosym->names, call ? call->name : function->name);
	int32_t line = value_at(gosym, function->lines, pc);
	struct go_frame frame = {
		.system_name = name ? name : "",
		.file = file_at(gosym, function, pc),
		.start_line = call ? call->start_line : function->start_line,
		.inlined = call != NULL,
	};
	char *printed;
	int result;

	if (frame.file && line > 0)
		frame.line = (uint32_t)line;
	printed = printed_name(gosym, frame.system_name);
	if (!printed)
		return -ENOMEM;
	frame.name = printed;
	result = fn(&frame, arg);
	free(printed);
	return result;
}

int go_pclntab_lookup(const struct go_pclntab *gosym, uint64_t vaddr, go_frame_fn *fn, void *arg)
{
	struct function function;
	struct span tree;
	struct call call;
	uint32_t offset, pc;
	int32_t index, last = INT32_MAX;
	int result;

	if (!code_offset(gosym, vaddr, &offset) || !find_function(gosym, offset, &function))
		return -ENOENT;
	pc = offset - function.entry;
	tree = inline_tree(gosym, &function);
	for (unsigned int i = 0; i < GO_INLINED_MAX; i++) {
		index = call_index(gosym, &function, pc);
		/* A call comes behind the one that it was inlined in. */
		if (index < 0 || index >= last || !read_call(gosym, tree, (uint32_t)index, &call))
			break;
		result = is_wrapper(gosym, call.kind)
				 ? 0
				 : give_frame(gosym, &function, pc, &call, fn, arg);
		if (result != 0)
			return result;
		pc = call.pc;
		last = index;
	}
	if (is_wrapper(gosym, function.kind))
		return 0;
	return give_frame(gosym, &function, pc, NULL, fn, arg);
}

int go_pclntab_open(const void *data, size_t size, struct go_pclntab **gosym, struct error *error)
{
	struct go_pclntab *opened;
	int result;
	Elf *elf;

	if (size < SELFMAG || uses_extended_shnum(data, size))
		return error_set(error, ENODATA, "not an ELF file, or a broken one");
	opened = calloc(1, sizeof(*opened));
	if (!opened)
		return error_set(error, ENOMEM, "out of memory");
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)data, size);
	if (!elf) {
		result = error_set(error, ENODATA, "not an ELF file: %s", elf_errmsg(-1));
		goto fail;
	}
	result = read_elf(opened, elf, (struct span){data, size}, error);
	if (result == 0)
		result = find_tables(opened, elf, error);
	elf_end(elf);
	if (result != 0)
		goto fail;
	find_wrapper_kind(opened);
	*gosym = opened;
	return 0;
fail:
	go_pclntab_close(opened);
	return result;
}

void go_pclntab_close(struct go_pclntab *gosym)
{
	if (!gosym)
		return;
	free(gosym->segments);
	free(gosym->sections);
	free(gosym);
}

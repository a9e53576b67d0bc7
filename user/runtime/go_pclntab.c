// SPDX-License-Identifier: GPL-2.0
/*
 * The pclntab consists of a header and these tables, which follow the header:
 *
 *	names		names of functions, NUL-terminated
 *	units		for each package, the files that its functions refer to by number
 *	files		paths of files, NUL-terminated
 *	values		sequences of pairs (value, code bytes), delta coded: for which part of
 *			a function a number (of a file, a line, an inlined call) is valid
 *	functions	sorted pairs (code offset, offset of the record), then the records
 *
 * The linker's module data points to all of them, and to two things that the header lacks:
 * the code, and the inline trees of functions.
 */
#include "runtime/go_pclntab.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/elf_header.h"
#include "lib/error.h"

/* A file beyond these limits is broken or malicious. */
#define SEGMENTS_MAX 4096u
#define TEXT_SECTIONS_MAX 64u
#define CANDIDATES_MAX 64u /* apparent headers or module data that are tried */
#define STRING_MAX (1u << 20) /* bytes */
#define STEPS_MAX (1u << 20) /* pairs of one sequence */

#define MAGIC_OLDEST 0xfffffffbu /* Go 1.2 */
#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

#define HEADER_WORDS 8u /* after the first 8 bytes */
#define FUNCTION_PAIR 8u /* bytes */

#define PCDATA_INLINE_INDEX 2u
#define FUNCDATA_INLINE_TREE 3u
#define NO_FUNCDATA UINT32_MAX

/*
 * Each version of Go renumbers the kinds of functions. Wrappers are always the last kind, and
 * every program has some. This is the lowest number that they ever had.
 */
#define WRAPPER_KIND_MIN 21u

struct pclntab_span {
	const uint8_t *data;
	uint64_t size; /* bytes */
};

/* Words of the header, after its first 8 bytes. */
enum {
	HEADER_FUNCTIONS, /* number of functions */
	HEADER_FILES,
	HEADER_TEXT,
	HEADER_NAMES, /* this and all below: offsets from the header */
	HEADER_UNITS,
	HEADER_FILE_NAMES,
	HEADER_VALUES,
	HEADER_FUNCTION_TABLE,
};

/* Words of the module data that are the same in all versions. */
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
	MODULE_WORDS = 48, /* words that are read */
};

/* Sizes of records and offsets of their fields, in bytes. 0: no such field. */
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

/* Indices of words of the module data: base of the inline trees, slice of the text sections. */
struct layout {
	uint32_t magic;
	uint8_t trees, sections;
	bool generic_methods; /* names may have two type lists */
};

static const struct layout layouts[] = {
	{MAGIC_1_18, 38, 39, false}, /* 1.18, 1.19 */
	{MAGIC_1_20, 40, 41, false}, /* 1.20 */
	{MAGIC_1_20, 40, 42, false}, /* 1.26 */
	{MAGIC_1_20, 43, 45, true}, /* 1.27 */
};

struct segment {
	uint64_t vaddr;
	struct pclntab_span file; /* its bytes in the file */
	bool writable;
};

/* Code offsets of the pclntab are contiguous; a linker may have split the code. */
struct text_section {
	uint64_t start, end; /* code offsets */
	uint64_t vaddr;
};

struct go_pclntab {
	struct segment *segments;
	size_t segment_count;
	struct pclntab_span relocations; /* Elf64_Rela */
	uint32_t relative; /* type of the relative relocations */
	unsigned int word; /* bytes of an address */
	unsigned int quantum; /* bytes; each instruction's length is a multiple */
	const struct format *format;
	bool generic_methods;
	struct pclntab_span names, units, files, values, functions;
	struct pclntab_span trees; /* empty: not found */
	uint32_t function_count;
	struct text_section *sections;
	size_t section_count;
	uint8_t wrapper_kind; /* 0: none */
	unsigned int candidates; /* number of those tried */
};

/* A decoded function record. */
struct pclntab_function {
	struct pclntab_span record;
	uint64_t start; /* ELF virtual address; 0: it was not looked up */
	uint32_t entry; /* code offset */
	uint32_t name;
	uint32_t files, lines; /* offsets of sequences in values */
	uint32_t pcdata_count;
	uint32_t unit;
	uint32_t start_line;
	uint8_t kind, funcdata_count;
};

/* An inlined call. */
struct go_inlined_call {
	uint32_t name;
	uint32_t pc; /* of the call, relative to the function's entry */
	uint32_t start_line;
	uint8_t kind;
};

/* Bounds-checked reads */

static struct pclntab_span span_from(struct pclntab_span span, uint64_t offset)
{
	if (offset >= span.size)
		return (struct pclntab_span){NULL, 0};
	return (struct pclntab_span){span.data + offset, span.size - offset};
}

static bool read_u8(struct pclntab_span span, uint64_t offset, uint8_t *value)
{
	if (offset >= span.size)
		return false;
	*value = span.data[offset];
	return true;
}

static bool span_read_u32(struct pclntab_span span, uint64_t offset, uint32_t *value)
{
	struct pclntab_span rest = span_from(span, offset);

	if (rest.size < sizeof(*value))
		return false;
	memcpy(value, rest.data, sizeof(*value));
	*value = le32toh(*value);
	return true;
}

static bool span_read_u64(struct pclntab_span span, uint64_t offset, uint64_t *value)
{
	struct pclntab_span rest = span_from(span, offset);

	if (rest.size < sizeof(*value))
		return false;
	memcpy(value, rest.data, sizeof(*value));
	*value = le64toh(*value);
	return true;
}

static bool pclntab_read_word(const struct go_pclntab *pclntab, struct pclntab_span span,
			      uint64_t offset, uint64_t *value)
{
	uint32_t narrow;

	if (pclntab->word == sizeof(*value))
		return span_read_u64(span, offset, value);
	if (!span_read_u32(span, offset, &narrow))
		return false;
	*value = narrow;
	return true;
}

static bool read_varint(struct pclntab_span *span, uint32_t *value)
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

/* Returns the string at an offset, or NULL if it does not end within the span. */
static const char *span_string_at(struct pclntab_span span, uint64_t offset)
{
	struct pclntab_span rest = span_from(span, offset);

	if (rest.size > STRING_MAX)
		rest.size = STRING_MAX;
	if (rest.size == 0 || !memchr(rest.data, '\0', rest.size))
		return NULL;
	return (const char *)rest.data;
}

/* Returns the bytes in the file at an address, up to the end of the segment. */
static struct pclntab_span pclntab_bytes_at(const struct go_pclntab *pclntab, uint64_t vaddr)
{
	for (size_t i = 0; i < pclntab->segment_count; i++) {
		const struct segment *segment = &pclntab->segments[i];

		if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->file.size)
			return span_from(segment->file, vaddr - segment->vaddr);
	}
	return (struct pclntab_span){NULL, 0};
}

/* Gives the place that the relocation at `index` fills with an address, and that address. */
static bool relative_relocation(const struct go_pclntab *pclntab, uint64_t index, uint64_t *place,
				uint64_t *address)
{
	struct pclntab_span entry = span_from(pclntab->relocations, index * sizeof(Elf64_Rela));
	uint64_t info;

	return span_read_u64(entry, offsetof(Elf64_Rela, r_info), &info) &&
	       ELF64_R_TYPE(info) == pclntab->relative &&
	       span_read_u64(entry, offsetof(Elf64_Rela, r_offset), place) &&
	       span_read_u64(entry, offsetof(Elf64_Rela, r_addend), address);
}

static uint64_t relocation_count(const struct go_pclntab *pclntab)
{
	return pclntab->relocations.size / sizeof(Elf64_Rela);
}

/* Reads words as in the memory of a program that is loaded at its link-time address. */
static bool read_words(const struct go_pclntab *pclntab, uint64_t vaddr, uint64_t *words,
		       size_t count)
{
	struct pclntab_span span = pclntab_bytes_at(pclntab, vaddr);
	uint64_t place, address;

	for (size_t i = 0; i < count; i++) {
		if (!pclntab_read_word(pclntab, span, (uint64_t)i * pclntab->word, &words[i]))
			return false;
	}
	for (uint64_t i = 0; i < relocation_count(pclntab); i++) {
		if (relative_relocation(pclntab, i, &place, &address) && place >= vaddr &&
		    (place - vaddr) / sizeof(*words) < count &&
		    (place - vaddr) % sizeof(*words) == 0)
			words[(place - vaddr) / sizeof(*words)] = address;
	}
	return true;
}

/* ELF */

static int add_segments(struct go_pclntab *pclntab, Elf *elf, struct pclntab_span file,
			struct error *error)
{
	GElf_Phdr header;
	struct pclntab_span rest;
	size_t count;

	if (elf_getphdrnum(elf, &count) != 0 || count == 0 || count > SEGMENTS_MAX)
		return error_set(error, ENODATA, "broken ELF headers");
	pclntab->segments = calloc(count, sizeof(*pclntab->segments));
	if (!pclntab->segments)
		return error_set(error, ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		rest = span_from(file, header.p_offset);
		pclntab->segments[pclntab->segment_count++] = (struct segment){
			.vaddr = header.p_vaddr,
			.file = {rest.data,
				 header.p_filesz < rest.size ? header.p_filesz : rest.size},
			.writable = header.p_flags & PF_W,
		};
	}
	return 0;
}

static void read_dynamic(struct go_pclntab *pclntab, struct pclntab_span dynamic)
{
	uint64_t tag, value, table = 0, size = 0;

	for (uint64_t at = 0; span_read_u64(dynamic, at, &tag) && tag != DT_NULL &&
			      span_read_u64(dynamic, at + sizeof(tag), &value);
	     at += sizeof(Elf64_Dyn)) {
		if (tag == DT_RELA)
			table = value;
		if (tag == DT_RELASZ)
			size = value;
	}
	pclntab->relocations = pclntab_bytes_at(pclntab, table);
	if (pclntab->relocations.size > size)
		pclntab->relocations.size = size;
}

/*
 * Only relocations with explicit addends (RELA) matter. For the others, the file holds the
 * link-time address in place.
 */
static void find_relocations(struct go_pclntab *pclntab, Elf *elf, uint16_t machine)
{
	GElf_Phdr header;
	size_t count;

	if (machine == EM_X86_64)
		pclntab->relative = R_X86_64_RELATIVE;
	else if (machine == EM_AARCH64)
		pclntab->relative = R_AARCH64_RELATIVE;
	else
		return;
	if (pclntab->word != sizeof(uint64_t) || elf_getphdrnum(elf, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_DYNAMIC)
			continue;
		read_dynamic(pclntab, pclntab_bytes_at(pclntab, header.p_vaddr));
		return;
	}
}

static int read_elf(struct go_pclntab *pclntab, Elf *elf, struct pclntab_span file,
		    struct error *error)
{
	GElf_Ehdr header;
	int err;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
		return error_set(error, ENODATA, "not an ELF file");
	if (header.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_set(error, ENOTSUP, "big-endian Go programs are not supported");
	pclntab->word = header.e_ident[EI_CLASS] == ELFCLASS64 ? 8 : 4;
	err = add_segments(pclntab, elf, file, error);
	if (!err)
		find_relocations(pclntab, elf, header.e_machine);
	return err;
}

/* What the section headers say. */
struct sections {
	bool named; /* there are some, with names */
	bool go; /* one of them has a name that only Go's linker gives */
	bool pclntab;
	uint64_t vaddr; /* of the pclntab */
};

/*
 * External linkers keep these names: .go.buildinfo is in all programs of Go, also in shared and
 * static libraries. But GNU ld puts .data.rel.ro.gopclntab into .data.rel.ro.
 */
static bool pclntab_is_go_section(const char *name)
{
	return !strncmp(name, ".go.", 4) || !strcmp(name, ".note.go.buildid") ||
	       !strcmp(name, ".gosymtab");
}

static struct sections read_section_headers(Elf *elf)
{
	struct sections sections = {0};
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	const char *name;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return sections;
	while (!sections.pclntab && (section = elf_nextscn(elf, section))) {
		name = gelf_getshdr(section, &header) ? elf_strptr(elf, names, header.sh_name)
						      : NULL;
		if (!name || !*name)
			continue;
		sections.named = true;
		sections.go |= pclntab_is_go_section(name);
		sections.pclntab =
			!strcmp(name, ".gopclntab") || !strcmp(name, ".data.rel.ro.gopclntab");
		sections.vaddr = header.sh_addr;
	}
	return sections;
}

/* Header and module data */

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

/* Gives the span from a table's offset to the end. False if the offset is out of range. */
static bool header_table(const struct go_pclntab *pclntab, struct pclntab_span tables,
			 unsigned int word, struct pclntab_span *table)
{
	uint64_t offset;

	if (!pclntab_read_word(pclntab, tables, 8 + (uint64_t)word * pclntab->word, &offset))
		return false;
	*table = span_from(tables, offset);
	return table->size > 0 && offset >= 8 + (uint64_t)HEADER_WORDS * pclntab->word;
}

/* The entry of the first function must be the same in the table and in its record. */
static bool check_first_function(const struct go_pclntab *pclntab)
{
	uint32_t entry, record, again;

	return pclntab->functions.size / FUNCTION_PAIR > pclntab->function_count &&
	       span_read_u32(pclntab->functions, 0, &entry) &&
	       span_read_u32(pclntab->functions, 4, &record) &&
	       span_read_u32(pclntab->functions, record, &again) && entry == again;
}

/* Reads the header at the start of the span. False if it is not a valid one. */
static bool pclntab_read_header(struct go_pclntab *pclntab, struct pclntab_span tables)
{
	uint64_t functions;
	uint32_t magic;

	if (!span_read_u32(tables, 0, &magic) || tables.size < 8)
		return false;
	pclntab->format = find_format(magic);
	pclntab->quantum = tables.data[6];
	if (!pclntab->format || tables.data[4] || tables.data[5] || !is_quantum(pclntab->quantum) ||
	    tables.data[7] != pclntab->word)
		return false;
	if (!pclntab_read_word(pclntab, tables, 8, &functions) || functions == 0 ||
	    functions >= UINT32_MAX)
		return false;
	pclntab->function_count = (uint32_t)functions;
	return header_table(pclntab, tables, HEADER_NAMES, &pclntab->names) &&
	       header_table(pclntab, tables, HEADER_UNITS, &pclntab->units) &&
	       header_table(pclntab, tables, HEADER_FILE_NAMES, &pclntab->files) &&
	       header_table(pclntab, tables, HEADER_VALUES, &pclntab->values) &&
	       header_table(pclntab, tables, HEADER_FUNCTION_TABLE, &pclntab->functions) &&
	       check_first_function(pclntab);
}

static bool pclntab_is_module(const struct go_pclntab *pclntab, uint64_t header,
			      struct pclntab_span tables, const uint64_t *words)
{
	const struct {
		unsigned int word;
		struct pclntab_span table;
	} expected[] = {
		{MODULE_NAMES, pclntab->names},
		{MODULE_UNITS, pclntab->units},
		{MODULE_FILE_NAMES, pclntab->files},
		{MODULE_VALUES, pclntab->values},
		{MODULE_FUNCTION_TABLE, pclntab->functions},
		{MODULE_PAIRS, pclntab->functions},
	};

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		if (words[expected[i].word] - header !=
		    (uint64_t)(expected[i].table.data - tables.data))
			return false;
	}
	return words[MODULE_HEADER] == header &&
	       words[MODULE_PAIR_COUNT] == (uint64_t)pclntab->function_count + 1;
}

/* Bounds the work: each candidate costs a scan of all relocations or of the whole file. */
static bool within_candidate_limit(struct go_pclntab *pclntab)
{
	return pclntab->candidates++ < CANDIDATES_MAX;
}

static bool alloc_sections(struct go_pclntab *pclntab, size_t count)
{
	free(pclntab->sections);
	pclntab->section_count = 0;
	pclntab->sections = calloc(count, sizeof(*pclntab->sections));
	if (!pclntab->sections)
		return false;
	pclntab->section_count = count;
	return true;
}

/* Sets `sections` from a slice of the module data. False if it is not a valid one. */
static bool pclntab_read_sections(struct go_pclntab *pclntab, const uint64_t *slice, uint64_t text)
{
	uint64_t words[3 * TEXT_SECTIONS_MAX] = {0}, count = slice[1];

	if (count == 0 || count > TEXT_SECTIONS_MAX || slice[2] != count ||
	    !read_words(pclntab, slice[0], words, 3 * count) || words[0] != 0 || words[2] != text ||
	    !alloc_sections(pclntab, count))
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t *section = &words[3 * i];

		if (section[0] > section[1] || section[1] > UINT32_MAX)
			return false;
		pclntab->sections[i] = (struct text_section){section[0], section[1], section[2]};
	}
	return true;
}

/* For an unknown version of Go: functions are found, but not the calls inlined in them. */
static bool use_single_section(struct go_pclntab *pclntab, uint64_t text)
{
	if (!alloc_sections(pclntab, 1))
		return false;
	pclntab->sections[0] = (struct text_section){0, UINT32_MAX, text};
	return true;
}

static bool pclntab_read_module(struct go_pclntab *pclntab, uint64_t header,
				struct pclntab_span tables, uint64_t vaddr)
{
	uint64_t words[MODULE_WORDS] = {0};
	const struct layout *layout;

	if (!read_words(pclntab, vaddr, words, MODULE_WORDS) ||
	    !pclntab_is_module(pclntab, header, tables, words))
		return false;
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		layout = &layouts[i];
		if (layout->magic != pclntab->format->magic ||
		    !pclntab_read_sections(pclntab, &words[layout->sections], words[MODULE_TEXT]))
			continue;
		pclntab->trees = pclntab_bytes_at(pclntab, words[layout->trees]);
		pclntab->generic_methods = layout->generic_methods;
		return true;
	}
	return use_single_section(pclntab, words[MODULE_TEXT]);
}

/* Searches writable segments for a pointer to the header: the module data begins with one. */
static bool find_module_in_file(struct go_pclntab *pclntab, uint64_t header,
				struct pclntab_span tables)
{
	uint64_t value;

	for (size_t i = 0; i < pclntab->segment_count; i++) {
		const struct segment *segment = &pclntab->segments[i];

		if (!segment->writable)
			continue;
		for (uint64_t at = -segment->vaddr % pclntab->word;
		     pclntab_read_word(pclntab, segment->file, at, &value); at += pclntab->word) {
			if (value != header)
				continue;
			if (!within_candidate_limit(pclntab))
				return false;
			if (pclntab_read_module(pclntab, header, tables, segment->vaddr + at))
				return true;
		}
	}
	return false;
}

static bool find_module_by_relocation(struct go_pclntab *pclntab, uint64_t header,
				      struct pclntab_span tables)
{
	uint64_t place, address;

	for (uint64_t i = 0; i < relocation_count(pclntab); i++) {
		if (!relative_relocation(pclntab, i, &place, &address) || address != header)
			continue;
		if (!within_candidate_limit(pclntab))
			return false;
		if (pclntab_read_module(pclntab, header, tables, place))
			return true;
	}
	return false;
}

static bool pclntab_read_tables(struct go_pclntab *pclntab, uint64_t header)
{
	struct pclntab_span tables = pclntab_bytes_at(pclntab, header);

	return pclntab_read_header(pclntab, tables) &&
	       (find_module_by_relocation(pclntab, header, tables) ||
		find_module_in_file(pclntab, header, tables));
}

/* Searches all segments, which takes long: the section headers are missing or wrong. */
static bool search_tables(struct go_pclntab *pclntab)
{
	uint32_t magic;

	for (size_t i = 0; i < pclntab->segment_count; i++) {
		const struct segment *segment = &pclntab->segments[i];

		for (uint64_t at = -segment->vaddr % pclntab->word;
		     span_read_u32(segment->file, at, &magic); at += pclntab->word) {
			if (!find_format(magic) ||
			    !pclntab_read_header(pclntab, span_from(segment->file, at)))
				continue;
			if (!within_candidate_limit(pclntab))
				return false;
			if (pclntab_read_tables(pclntab, segment->vaddr + at))
				return true;
		}
	}
	return false;
}

static int find_tables(struct go_pclntab *pclntab, Elf *elf, struct error *error)
{
	const struct sections sections = read_section_headers(elf);
	uint32_t magic = 0;

	if (sections.pclntab && pclntab_read_tables(pclntab, sections.vaddr))
		return 0;
	if ((!sections.named || sections.go || sections.pclntab) && search_tables(pclntab))
		return 0;
	if (sections.pclntab &&
	    span_read_u32(pclntab_bytes_at(pclntab, sections.vaddr), 0, &magic) &&
	    (magic == MAGIC_1_16 || magic == MAGIC_OLDEST))
		return error_set(error, ENOTSUP, "built by a Go older than 1.18");
	return error_set(error, ENODATA, "no function table of Go");
}

/* Functions */

static bool read_function(const struct go_pclntab *pclntab, uint32_t index,
			  struct pclntab_function *function)
{
	const struct format *format = pclntab->format;
	uint64_t pair = (uint64_t)index * FUNCTION_PAIR;
	struct pclntab_span record;
	uint32_t offset;

	*function = (struct pclntab_function){0};
	if (!span_read_u32(pclntab->functions, pair, &function->entry) ||
	    !span_read_u32(pclntab->functions, pair + 4, &offset))
		return false;
	record = span_from(pclntab->functions, offset);
	if (record.size < format->function_size)
		return false;
	span_read_u32(record, 4, &function->name);
	span_read_u32(record, 20, &function->files);
	span_read_u32(record, 24, &function->lines);
	span_read_u32(record, 28, &function->pcdata_count);
	span_read_u32(record, 32, &function->unit);
	if (format->function_start_line)
		span_read_u32(record, format->function_start_line, &function->start_line);
	read_u8(record, format->function_kind, &function->kind);
	read_u8(record, format->function_size - 1u, &function->funcdata_count);
	function->record = record;
	return true;
}

static void find_wrapper_kind(struct go_pclntab *pclntab)
{
	struct pclntab_function function;
	uint8_t last = 0;

	for (uint32_t i = 0; i < pclntab->function_count; i++) {
		if (read_function(pclntab, i, &function) && function.kind > last)
			last = function.kind;
	}
	if (last >= WRAPPER_KIND_MIN)
		pclntab->wrapper_kind = last;
}

static bool is_wrapper(const struct go_pclntab *pclntab, uint8_t kind)
{
	return pclntab->wrapper_kind && kind == pclntab->wrapper_kind;
}

static bool code_offset(const struct go_pclntab *pclntab, uint64_t vaddr, uint32_t *offset)
{
	for (size_t i = 0; i < pclntab->section_count; i++) {
		const struct text_section *section = &pclntab->sections[i];

		if (vaddr >= section->vaddr &&
		    vaddr - section->vaddr < section->end - section->start) {
			*offset = (uint32_t)(vaddr - section->vaddr + section->start);
			return true;
		}
	}
	return false;
}

/* Finds the last function with an entry at or below the code offset. */
static bool find_function(const struct go_pclntab *pclntab, uint32_t offset,
			  struct pclntab_function *function)
{
	uint32_t low = 0, high = pclntab->function_count + 1, entry;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (!span_read_u32(pclntab->functions, (uint64_t)middle * FUNCTION_PAIR, &entry))
			return false;
		if (entry <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	/* The last entry marks the end of the code. */
	return low > 0 && low <= pclntab->function_count &&
	       read_function(pclntab, low - 1, function);
}

/* Returns a sequence's value at `pc` (relative to the function's entry), or -1. */
static int32_t pclntab_value_at(const struct go_pclntab *pclntab, uint32_t sequence, uint32_t pc)
{
	struct pclntab_span rest = span_from(pclntab->values, sequence);
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
		end += (uint64_t)delta * pclntab->quantum;
		if (pc < end)
			return (int32_t)value;
	}
	return -1;
}

static const char *file_at(const struct go_pclntab *pclntab,
			   const struct pclntab_function *function, uint32_t pc)
{
	int32_t number = pclntab_value_at(pclntab, function->files, pc);
	uint32_t offset;

	if (number < 0 ||
	    !span_read_u32(pclntab->units,
			   ((uint64_t)function->unit + (uint32_t)number) * sizeof(offset), &offset))
		return NULL;
	/* Of a file that no function refers to, it is UINT32_MAX. */
	return span_string_at(pclntab->files, offset);
}

/* Inlined calls */

static struct pclntab_span inline_tree(const struct go_pclntab *pclntab,
				       const struct pclntab_function *function)
{
	const struct pclntab_span none = {NULL, 0};
	uint32_t offset;

	if (function->funcdata_count <= FUNCDATA_INLINE_TREE ||
	    !span_read_u32(function->record,
			   pclntab->format->function_size +
				   ((uint64_t)function->pcdata_count + FUNCDATA_INLINE_TREE) * 4,
			   &offset) ||
	    offset == NO_FUNCDATA)
		return none;
	return span_from(pclntab->trees, offset);
}

/* Returns the index of the innermost call inlined at `pc`, or -1. */
static int32_t call_index(const struct go_pclntab *pclntab, const struct pclntab_function *function,
			  uint32_t pc)
{
	uint32_t sequence;

	if (function->pcdata_count <= PCDATA_INLINE_INDEX ||
	    !span_read_u32(function->record,
			   pclntab->format->function_size + PCDATA_INLINE_INDEX * 4, &sequence))
		return -1;
	return pclntab_value_at(pclntab, sequence, pc);
}

static bool read_call(const struct go_pclntab *pclntab, struct pclntab_span tree, uint32_t index,
		      struct go_inlined_call *call)
{
	const struct format *format = pclntab->format;
	struct pclntab_span entry = span_from(tree, (uint64_t)index * format->call_size);

	*call = (struct go_inlined_call){0};
	if (entry.size < format->call_size)
		return false;
	read_u8(entry, format->call_kind, &call->kind);
	span_read_u32(entry, format->call_name, &call->name);
	span_read_u32(entry, format->call_pc, &call->pc);
	if (format->call_start_line)
		span_read_u32(entry, format->call_start_line, &call->start_line);
	return true;
}

/* Names */

/*
 * Finds the end of the first type list and the begin of the second one in
 * "T[types].method[types]", between the first and the last bracket. Returns 1 if the name has two
 * lists, 0 if one, -1 if it is not a name of Go.
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
 * Returns the name as Go prints it, to be freed, or NULL when out of memory. "..." stands for
 * type arguments, which belong to the machine code and not to the source.
 */
static char *printed_name(const struct go_pclntab *pclntab, const char *name)
{
	const char *first = strchr(name, '['), *last = strrchr(name, ']');
	const char *end, *begin;
	char *text = NULL;
	int lists = 0, length;

	if (!first || !last || last < first)
		return strdup(name);
	if (pclntab->generic_methods)
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

/* Lookup */

static int report_frame(const struct go_pclntab *pclntab, const struct pclntab_function *function,
			uint32_t pc, const struct go_inlined_call *call, go_frame_fn *fn, void *arg)
{
	const char *name = span_string_at(pclntab->names, call ? call->name : function->name);
	int32_t line = pclntab_value_at(pclntab, function->lines, pc);
	struct go_frame frame = {
		.system_name = name ? name : "",
		.file = file_at(pclntab, function, pc),
		.start_line = call ? call->start_line : function->start_line,
		.inlined = call,
		.start = call ? 0 : function->start,
	};
	char *printed;
	int result;

	if (frame.file && line > 0)
		frame.line = (uint32_t)line;
	printed = printed_name(pclntab, frame.system_name);
	if (!printed)
		return -ENOMEM;
	frame.name = printed;
	result = fn(&frame, arg);
	free(printed);
	return result;
}

int go_pclntab_lookup(const struct go_pclntab *pclntab, uint64_t vaddr, go_frame_fn *fn, void *arg)
{
	struct pclntab_function function;
	struct pclntab_span tree;
	struct go_inlined_call call;
	uint32_t offset, pc;
	int32_t index, last = INT32_MAX;
	int result;

	if (!code_offset(pclntab, vaddr, &offset) || !find_function(pclntab, offset, &function))
		return -ENOENT;
	pc = offset - function.entry;
	function.start = vaddr - pc;
	tree = inline_tree(pclntab, &function);
	for (unsigned int i = 0; i < GO_INLINED_MAX; i++) {
		index = call_index(pclntab, &function, pc);
		/* A call has a higher index than the call it is inlined in, so the chain ends. */
		if (index < 0 || index >= last || !read_call(pclntab, tree, (uint32_t)index, &call))
			break;
		result = is_wrapper(pclntab, call.kind)
				 ? 0
				 : report_frame(pclntab, &function, pc, &call, fn, arg);
		if (result != 0)
			return result;
		pc = call.pc;
		last = index;
	}
	if (is_wrapper(pclntab, function.kind))
		return 0;
	return report_frame(pclntab, &function, pc, NULL, fn, arg);
}

/* Stack frames */

#define FUNCTION_STACK_SIZES 16u /* offset in the record */
#define FLAG_TOPFRAME 1u
#define FLAG_SPWRITE 2u

/* Sets the addresses of a function, which are in one section. */
static bool find_addresses(const struct go_pclntab *pclntab, uint32_t start, uint32_t end,
			   struct go_function *function)
{
	for (size_t i = 0; i < pclntab->section_count; i++) {
		const struct text_section *section = &pclntab->sections[i];

		if (start < section->start || start >= section->end)
			continue;
		function->start = section->vaddr + (start - section->start);
		function->end = section->vaddr +
				((end < section->end ? end : section->end) - section->start);
		return start < end;
	}
	return false;
}

int go_pclntab_each_function(const struct go_pclntab *pclntab,
			     int (*fn)(void *arg, const struct go_function *function), void *arg)
{
	struct go_function function = {0};
	struct pclntab_function record;
	uint32_t end;
	uint8_t flags;
	int result = 0;

	for (uint32_t i = 0; i < pclntab->function_count && !result; i++) {
		/* The last entry marks the end of the code. */
		if (!read_function(pclntab, i, &record) ||
		    !span_read_u32(pclntab->functions, ((uint64_t)i + 1) * FUNCTION_PAIR, &end) ||
		    !find_addresses(pclntab, record.entry, end, &function) ||
		    !span_read_u32(record.record, FUNCTION_STACK_SIZES, &function.stack_sizes) ||
		    !read_u8(record.record, pclntab->format->function_kind + 1u, &flags))
			continue;
		function.is_wrapper = is_wrapper(pclntab, record.kind);
		function.is_outermost = flags & FLAG_TOPFRAME;
		function.changes_stack = flags & FLAG_SPWRITE;
		function.name = span_string_at(pclntab->names, record.name);
		if (!function.name)
			function.name = "";
		result = fn(arg, &function);
	}
	return result;
}

int go_pclntab_each_stack_size(const struct go_pclntab *pclntab, const struct go_function *function,
			       int (*fn)(void *arg, uint64_t start, uint64_t end, int32_t size),
			       void *arg)
{
	struct pclntab_span rest = span_from(pclntab->values, function->stack_sizes);
	uint64_t start = function->start, bytes;
	uint32_t value = UINT32_MAX, delta;
	int result = 0;

	if (!function->stack_sizes)
		return 0;
	while (start < function->end && !result) {
		if (!read_varint(&rest, &delta) || (!delta && start != function->start))
			return 0;
		value += -(delta & 1) ^ (delta >> 1);
		if (!read_varint(&rest, &delta) || !delta)
			return 0;
		bytes = (uint64_t)delta * pclntab->quantum;
		if (bytes > function->end - start)
			bytes = function->end - start;
		result = fn(arg, start, start + bytes, (int32_t)value);
		start += bytes;
	}
	return result;
}

int go_pclntab_open(const void *data, size_t size, struct go_pclntab **pclntab, struct error *error)
{
	struct go_pclntab *opened;
	int err;
	Elf *elf;

	if (size < SELFMAG || elf_uses_extended_shnum(data, size))
		return error_set(error, ENODATA, "not an ELF file, or a broken one");
	opened = calloc(1, sizeof(*opened));
	if (!opened)
		return error_set(error, ENOMEM, "out of memory");
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)data, size);
	if (!elf) {
		err = error_set(error, ENODATA, "not an ELF file: %s", elf_errmsg(-1));
		goto fail;
	}
	err = read_elf(opened, elf, (struct pclntab_span){data, size}, error);
	if (!err)
		err = find_tables(opened, elf, error);
	elf_end(elf);
	if (err)
		goto fail;
	find_wrapper_kind(opened);
	*pclntab = opened;
	return 0;
fail:
	go_pclntab_close(opened);
	return err;
}

void go_pclntab_close(struct go_pclntab *pclntab)
{
	if (!pclntab)
		return;
	free(pclntab->segments);
	free(pclntab->sections);
	free(pclntab);
}

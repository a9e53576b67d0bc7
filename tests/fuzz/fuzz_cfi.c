// SPDX-License-Identifier: GPL-2.0
/*
 * Call frame information: the input is a section .eh_frame; if its last byte is odd, .debug_frame.
 * Rules that a table expresses must equal the rules of elfutils, for entries that elfutils finds
 * valid, too.
 */
#include "fuzz.h"

#include <elf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdbool.h>

#include "unwind/cfi.h"
#include "unwind/libdw_reference.h"
#include "unwind/table_builder.h"

#define VADDR 0x8000u
/* Rows and addresses in a row that are compared. */
#define COMPARED_MAX 64u

struct fuzz {
	struct table_builder *builder;
	struct {
		uint64_t start, end;
		struct cfi_row row;
	} rows[COMPARED_MAX];
	size_t count;
};

static int take_row(void *arg, uint64_t start, uint64_t end, const struct cfi_row *row)
{
	struct fuzz *fuzz = arg;

	if (start >= end)
		abort();
	if (fuzz->count < COMPARED_MAX) {
		fuzz->rows[fuzz->count].start = start;
		fuzz->rows[fuzz->count].end = end;
		fuzz->rows[fuzz->count++].row = *row;
	}
	return table_builder_add(fuzz->builder, start, end, row);
}

static void make_table(struct fuzz *fuzz)
{
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_view view;
	struct table_counts counts;

	if (table_builder_finish(fuzz->builder, NULL, &table, &counts))
		return;
	if (!stackbeat_unwind_check(table, table->size))
		abort();
	stackbeat_unwind_open(table, &view);
	for (size_t i = 0; i < fuzz->count; i++) {
		if (!stackbeat_unwind_find(&view, fuzz->rows[i].start) ||
		    !stackbeat_unwind_find(&view, fuzz->rows[i].end - 1))
			abort();
	}
	free(table);
}

/* Returns the rule of a single row, or the rule of unknown code. */
static struct stackbeat_unwind_rule rule_of(const struct cfi_row *row)
{
	struct table_builder *builder = table_builder_new();
	struct stackbeat_unwind_table *table;
	struct stackbeat_unwind_rule rule;
	struct stackbeat_unwind_view view;
	struct table_counts counts;

	if (!builder || table_builder_add(builder, 1, 2, row) ||
	    table_builder_finish(builder, NULL, &table, &counts))
		abort();
	stackbeat_unwind_open(table, &view);
	rule = *stackbeat_unwind_find(&view, 1);
	free(table);
	table_builder_free(builder);
	return rule;
}

/* An ELF file with the section, which elfutils reads. */
static Elf *make_elf(const uint8_t *data, size_t size, char **image)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	struct {
		Elf64_Ehdr header;
		Elf64_Shdr sections[3];
		char names[24];
	} file = {
		.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				       EV_CURRENT},
			   .e_type = ET_EXEC,
			   .e_machine = EM_X86_64,
			   .e_version = EV_CURRENT,
			   .e_ehsize = sizeof(Elf64_Ehdr),
			   .e_shoff = sizeof(Elf64_Ehdr),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = 3,
			   .e_shstrndx = 2},
		.sections = {{0},
			     {.sh_name = 1,
			      .sh_type = SHT_PROGBITS,
			      .sh_flags = SHF_ALLOC,
			      .sh_addr = VADDR,
			      .sh_offset = sizeof(file),
			      .sh_size = size,
			      .sh_addralign = 1},
			     {.sh_name = 11,
			      .sh_type = SHT_STRTAB,
			      .sh_offset = offsetof(__typeof__(file), names),
			      .sh_size = sizeof(names),
			      .sh_addralign = 1}},
	};

	memcpy(file.names, names, sizeof(names));
	*image = malloc(sizeof(file) + size);
	if (!*image)
		abort();
	memcpy(*image, &file, sizeof(file));
	memcpy(*image + sizeof(file), data, size);
	elf_version(EV_CURRENT);
	return elf_memory(*image, sizeof(file) + size);
}

/*
 * Compares rows of a section with a single function with elfutils; of overlapping functions, it
 * takes another one.
 */
static void compare(const struct fuzz *fuzz, const uint8_t *data, size_t size)
{
	char *image;
	Elf *elf = make_elf(data, size, &image);
	Dwarf_CFI *cfi = elf ? dwarf_getcfi_elf(elf) : NULL;

	for (size_t i = 0; i < fuzz->count && cfi; i++) {
		uint64_t address = fuzz->rows[i].start;
		struct stackbeat_unwind_rule rule = rule_of(&fuzz->rows[i].row);
		struct reference_caller got = reference_rule(&rule), expected;
		Dwarf_Frame *frame;

		if (dwarf_cfi_addrframe(cfi, address, &frame))
			continue;
		expected = reference_libdw(frame, address);
		free(frame);
		/* Of an expression that ends within an operand, elfutils takes the rest for 0. */
		if (fuzz->rows[i].row.rbp.place == CFI_UNKNOWN)
			expected.rbp = got.rbp;
		/* What neither can express is no difference. */
		if (got.kind != REFERENCE_NONE && expected.kind != REFERENCE_UNSUPPORTED &&
		    !reference_equal(&expected, &got))
			abort();
	}
	dwarf_cfi_end(cfi);
	elf_end(elf);
	free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cfi_section section = {
		.bytes = data,
		.size = size,
		.vaddr = VADDR,
		.is_eh_frame = !size || !(data[size - 1] & 1),
	};
	struct fuzz fuzz = {.builder = table_builder_new()};
	struct cfi_counts counts;

	if (!fuzz.builder)
		abort();
	section.is_terminated = size > 1 && data[size - 1] & 2;
	cfi_read(&section, take_row, &fuzz, &counts);
	if (counts.broken > counts.entries)
		abort();
	if (section.is_eh_frame && counts.entries == 1 && !counts.broken)
		compare(&fuzz, data, size);
	make_table(&fuzz);
	table_builder_free(fuzz.builder);
	return 0;
}

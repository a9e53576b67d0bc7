// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/elf_plt.h"

#include <elf.h>
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "debuginfo/plt.h"
#include "lib/array.h"
#include "lib/upper_bound.h"

/* Sections beyond this are broken or malicious. */
#define SECTION_BYTES_MAX (256u << 20)

/* A relocated pointer. */
struct slot {
	uint64_t address;
	uint64_t resolver; /* 0: `name` */
	uint32_t name; /* 0: none */
};

struct slots {
	struct slot *list;
	size_t count, capacity;
};

struct plt_reader {
	Elf *elf;
	size_t names; /* section of the names of sections */
	struct slots lazy; /* of .rela.plt, in the order of the file, all of them */
	struct slots sorted; /* of all relocation sections that were read */
	int (*fn)(void *arg, const struct elf_stub *stub);
	void *arg;
};

/* Relocations */

static struct slot make_slot(const GElf_Rela *rela, Elf_Data *symbols)
{
	struct slot slot = {.address = rela->r_offset};
	GElf_Sym symbol;

	switch (GELF_R_TYPE(rela->r_info)) {
	case R_X86_64_JUMP_SLOT:
	case R_X86_64_GLOB_DAT:
		if (symbols && gelf_getsym(symbols, (int)GELF_R_SYM(rela->r_info), &symbol))
			slot.name = symbol.st_name;
		break;
	case R_X86_64_IRELATIVE:
		slot.resolver = (uint64_t)rela->r_addend;
		break;
	default:
		break;
	}
	return slot;
}

/* Keeps slots without a target, too, with `all`. */
static int read_slots(const struct plt_reader *reader, Elf_Scn *section, const GElf_Shdr *header,
		      bool all, struct slots *slots)
{
	Elf_Scn *symbols = elf_getscn(reader->elf, header->sh_link);
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Shdr symbols_header;
	Elf_Data *symbols_data = NULL;
	GElf_Rela rela;

	if (symbols && gelf_getshdr(symbols, &symbols_header) &&
	    symbols_header.sh_type == SHT_DYNSYM)
		symbols_data = elf_getdata(symbols, NULL);
	for (int i = 0; data && gelf_getrela(data, i, &rela); i++) {
		const struct slot slot = make_slot(&rela, symbols_data);

		if (!all && !slot.name && !slot.resolver)
			continue;
		if (array_reserve(&slots->list, &slots->capacity, slots->count, 1, sizeof(slot)))
			return -ENOMEM;
		slots->list[slots->count++] = slot;
	}
	return 0;
}

static int compare_slots(const void *left, const void *right)
{
	const struct slot *a = left, *b = right;

	return (a->address > b->address) - (a->address < b->address);
}

static const char *section_name(const struct plt_reader *reader, const GElf_Shdr *header)
{
	const char *name = elf_strptr(reader->elf, reader->names, header->sh_name);

	return name ? name : "";
}

static bool is_readable_section(const GElf_Shdr *header, uint32_t type)
{
	return header->sh_type == type && header->sh_flags & SHF_ALLOC &&
	       !(header->sh_flags & SHF_COMPRESSED) && header->sh_size <= SECTION_BYTES_MAX;
}

static bool is_plt(const struct plt_reader *reader, const GElf_Shdr *header)
{
	const char *name = section_name(reader, header);

	return is_readable_section(header, SHT_PROGBITS) && header->sh_flags & SHF_EXECINSTR &&
	       (!strncmp(name, ".plt", 4) || !strcmp(name, ".iplt"));
}

/* Whether pointers of the PLT have relocations beside .rela.plt. */
static bool has_other_slots(const struct plt_reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(reader->elf, section))) {
		if (gelf_getshdr(section, &header) && is_plt(reader, &header) &&
		    strcmp(section_name(reader, &header), ".plt") != 0 &&
		    strcmp(section_name(reader, &header), ".plt.sec") != 0)
			return true;
	}
	return false;
}

static int read_relocations(struct plt_reader *reader)
{
	const bool all = has_other_slots(reader);
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	int err = 0;

	while (!err && (section = elf_nextscn(reader->elf, section))) {
		bool is_lazy;

		if (!gelf_getshdr(section, &header) || !is_readable_section(&header, SHT_RELA))
			continue;
		is_lazy = !strcmp(section_name(reader, &header), ".rela.plt");
		if (is_lazy && !reader->lazy.count)
			err = read_slots(reader, section, &header, true, &reader->lazy);
		if (!err && (is_lazy || all))
			err = read_slots(reader, section, &header, false, &reader->sorted);
	}
	if (reader->sorted.count)
		qsort(reader->sorted.list, reader->sorted.count, sizeof(*reader->sorted.list),
		      compare_slots);
	return err;
}

/* Stubs */

static const struct slot *find_slot(const struct plt_reader *reader, const struct plt_stub *stub)
{
	size_t after;

	if (stub->slot) {
		after = upper_bound(reader->sorted.list, reader->sorted.count,
				    sizeof(*reader->sorted.list), stub->slot);
		if (after && reader->sorted.list[after - 1].address == stub->slot)
			return &reader->sorted.list[after - 1];
	}
	if (stub->has_index && stub->index < reader->lazy.count)
		return &reader->lazy.list[stub->index];
	return NULL;
}

static int pass_stub(void *arg, const struct plt_stub *stub)
{
	const struct plt_reader *reader = arg;
	const struct slot *slot = find_slot(reader, stub);
	const struct elf_stub passed = {
		.start = stub->start,
		.end = stub->end,
		.name = slot ? slot->name : 0,
		.resolver = slot ? slot->resolver : 0,
	};

	return passed.name || passed.resolver ? reader->fn(reader->arg, &passed) : 0;
}

static int pass_stubs(struct plt_reader *reader)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;
	Elf_Data *data;
	int err = 0;

	while (!err && (section = elf_nextscn(reader->elf, section))) {
		if (!gelf_getshdr(section, &header) || !is_plt(reader, &header))
			continue;
		data = elf_getdata(section, NULL);
		if (data && data->d_buf)
			err = plt_each_stub(data->d_buf, data->d_size, header.sh_addr, pass_stub,
					    reader);
	}
	return err;
}

int elf_each_stub(Elf *elf, int (*fn)(void *arg, const struct elf_stub *stub), void *arg)
{
	struct plt_reader reader = {.elf = elf, .fn = fn, .arg = arg};
	GElf_Ehdr header;
	int err;

	if (!gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || elf_getshdrstrndx(elf, &reader.names))
		return 0;
	err = read_relocations(&reader);
	if (!err && reader.sorted.count)
		err = pass_stubs(&reader);
	free(reader.lazy.list);
	free(reader.sorted.list);
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include <linux/elf.h>
#include <linux/errno.h>
#include <linux/string.h>

#include "elf.h"

#define SB_PAGE 4096u	/* a segment is mapped from the page of its offset on */
#define SB_NOTE_BUILD_ID 3u	/* NT_GNU_BUILD_ID, of the vendor "GNU" */

/* A program header of either class. */
struct sb_elf_header {
	u32 type, flags;
	u64 offset, vaddr, size, align;
};

/* Location of the program headers. */
struct sb_elf_table {
	u64 offset;
	u32 count;
	bool is64;
};

static bool sb_elf_is_ours(const u8 *ident)
{
	return !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_DATA] == ELFDATA2LSB &&
	       (ident[EI_CLASS] == ELFCLASS64 || ident[EI_CLASS] == ELFCLASS32);
}

/* Reads the ELF header. Returns 0 with a count of 0 if the file is not ELF. */
static int sb_elf_read_table(sb_elf_read_fn *read, void *file, struct sb_elf_table *table)
{
	union {
		u8 ident[EI_NIDENT];
		Elf64_Ehdr elf64;
		Elf32_Ehdr elf32;
	} header;

	table->count = 0;
	/* The header of a 32-bit file is smaller, but a segment follows it. */
	if (!read(file, 0, &header, sizeof(header)))
		return -EAGAIN;
	if (!sb_elf_is_ours(header.ident))
		return 0;
	table->is64 = header.ident[EI_CLASS] == ELFCLASS64;
	if (table->is64 ? header.elf64.e_phentsize != sizeof(Elf64_Phdr) :
			  header.elf32.e_phentsize != sizeof(Elf32_Phdr))
		return 0;
	table->offset = table->is64 ? header.elf64.e_phoff : header.elf32.e_phoff;
	table->count = table->is64 ? header.elf64.e_phnum : header.elf32.e_phnum;
	if (table->count > SB_ELF_HEADERS_MAX)
		table->count = SB_ELF_HEADERS_MAX;
	return 0;
}

static bool sb_elf_read_header(sb_elf_read_fn *read, void *file,
			       const struct sb_elf_table *table, u32 index,
			       struct sb_elf_header *header)
{
	union {
		Elf64_Phdr elf64;
		Elf32_Phdr elf32;
	} raw;
	size_t size = table->is64 ? sizeof(raw.elf64) : sizeof(raw.elf32);

	if (!read(file, table->offset + index * size, &raw, size))
		return false;
	if (table->is64)
		*header = (struct sb_elf_header){
			.type = raw.elf64.p_type,
			.flags = raw.elf64.p_flags,
			.offset = raw.elf64.p_offset,
			.vaddr = raw.elf64.p_vaddr,
			.size = raw.elf64.p_filesz,
			.align = raw.elf64.p_align,
		};
	else
		*header = (struct sb_elf_header){
			.type = raw.elf32.p_type,
			.flags = raw.elf32.p_flags,
			.offset = raw.elf32.p_offset,
			.vaddr = raw.elf32.p_vaddr,
			.size = raw.elf32.p_filesz,
			.align = raw.elf32.p_align,
		};
	return true;
}

static void sb_elf_add_segment(struct sb_elf *elf, const struct sb_elf_header *header)
{
	struct sb_elf_segment *segment;

	if (!(header->flags & PF_X) || elf->segment_count == SB_ELF_SEGMENTS_MAX)
		return;
	segment = &elf->segments[elf->segment_count++];
	segment->offset = header->offset;
	segment->size = header->size;
	segment->vaddr = header->vaddr;
}

static u64 sb_elf_pad(u64 size, u32 align)
{
	return (size + align - 1) & ~((u64)align - 1);
}

/*
 * Searches the notes of a segment for the build ID. A note has three words (sizes of name
 * and contents, type), the name and the contents; both are padded. *left is the number of
 * notes that may still be read in the file. False: not all notes were read.
 */
static bool sb_elf_read_notes(sb_elf_read_fn *read, void *file,
			      const struct sb_elf_header *header, u32 *left,
			      struct sb_elf *elf)
{
	u32 align = header->align == 8 ? 8 : 4;
	u64 size = header->size < SB_ELF_NOTES_MAX ? header->size : SB_ELF_NOTES_MAX;
	u64 at = 0, contents, end;
	Elf64_Nhdr note;
	char name[4];

	while (at + sizeof(note) <= size) {
		if (!*left)
			return false;
		--*left;
		if (!read(file, header->offset + at, &note, sizeof(note)))
			return false;
		contents = at + sb_elf_pad(sizeof(note) + (u64)note.n_namesz, align);
		end = contents + sb_elf_pad(note.n_descsz, align);
		if (contents + note.n_descsz > size)
			break;
		if (note.n_type == SB_NOTE_BUILD_ID && note.n_namesz == sizeof(name) &&
		    note.n_descsz && note.n_descsz <= STACKBEAT_BUILD_ID_MAX) {
			if (!read(file, header->offset + at + sizeof(note), name, sizeof(name)))
				return false;
			if (!memcmp(name, "GNU", sizeof(name))) {
				if (!read(file, header->offset + contents, elf->build_id,
					  note.n_descsz))
					return false;
				elf->build_id_size = note.n_descsz;
				return true;
			}
		}
		at = end;
	}
	return size == header->size;
}

int sb_elf_read(sb_elf_read_fn *read, void *file, struct sb_elf *elf)
{
	struct sb_elf_table table;
	struct sb_elf_header header;
	u32 notes = SB_ELF_NOTE_COUNT_MAX, i;
	int err;

	memset(elf, 0, sizeof(*elf));
	err = sb_elf_read_table(read, file, &table);
	/* Parts that can't be read do not prevent reading the rest. */
	for (i = 0; i < table.count; i++) {
		if (!sb_elf_read_header(read, file, &table, i, &header))
			err = -EAGAIN;
		else if (header.type == PT_LOAD)
			sb_elf_add_segment(elf, &header);
		else if (header.type == PT_NOTE && !elf->build_id_size &&
			 !sb_elf_read_notes(read, file, &header, &notes, elf))
			err = -EAGAIN;
	}
	if (!elf->build_id_size)
		memset(elf->build_id, 0, sizeof(elf->build_id));
	return err;
}

bool sb_elf_vaddr(const struct sb_elf *elf, u64 offset, u64 *vaddr)
{
	const struct sb_elf_segment *segment;
	u64 start;
	u32 i;

	for (i = 0; i < elf->segment_count; i++) {
		segment = &elf->segments[i];
		start = segment->offset & ~((u64)SB_PAGE - 1);
		if (offset < start || offset - start >= segment->size + segment->offset - start)
			continue;
		*vaddr = segment->vaddr - segment->offset + offset;
		return true;
	}
	return false;
}

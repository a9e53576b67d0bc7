// SPDX-License-Identifier: GPL-2.0
#include "source/elf_code.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "lib/byte_cursor.h"

#define HEADERS_MAX 64u
#define NOTES_SIZE_MAX 4096u
#define PAGE 4096u /* a segment is mapped from the page of its offset on */

static bool elf_code_read_at(int fd, uint64_t offset, void *bytes, size_t size)
{
	return offset <= INT64_MAX && pread(fd, bytes, size, (off_t)offset) == (ssize_t)size;
}

static void add_load(struct elf_code *code, const Elf64_Phdr *header)
{
	if (!(header->p_flags & PF_X) || code->count == ELF_CODE_LOADS_MAX)
		return;
	code->loads[code->count].offset = header->p_offset;
	code->loads[code->count].size = header->p_filesz;
	code->loads[code->count++].vaddr = header->p_vaddr;
}

/* A note has three words (sizes of name and contents, type), the name, and the contents. */
static void elf_code_find_build_id(const void *notes, size_t size, uint64_t align,
				   struct elf_code *code)
{
	const uint64_t mask = align == 8 ? 7 : 3;
	struct cursor cursor = cursor_at(notes, size, 0);

	while (!cursor.broken && cursor_left(&cursor) && !code->build_id_size) {
		const uint64_t name_size = cursor_u32(&cursor), id_size = cursor_u32(&cursor);
		const uint32_t type = cursor_u32(&cursor);
		const unsigned char *name = cursor.at, *id;
		const size_t header = 3 * sizeof(uint32_t);

		cursor_skip(&cursor, ((header + name_size + mask) & ~mask) - header);
		id = cursor.at;
		if (cursor.broken || !cursor_skip(&cursor, id_size))
			return;
		if (type == NT_GNU_BUILD_ID && name_size == sizeof(ELF_NOTE_GNU) &&
		    !memcmp(name, ELF_NOTE_GNU, name_size) && id_size &&
		    id_size <= sizeof(code->build_id)) {
			memcpy(code->build_id, id, id_size);
			code->build_id_size = (uint32_t)id_size;
		}
		cursor_skip(&cursor, ((id_size + mask) & ~mask) - id_size);
	}
}

static bool read_notes(int fd, const Elf64_Phdr *header, struct elf_code *code)
{
	unsigned char notes[NOTES_SIZE_MAX];
	const size_t size = header->p_filesz < sizeof(notes) ? header->p_filesz : sizeof(notes);

	if (!elf_code_read_at(fd, header->p_offset, notes, size))
		return false;
	elf_code_find_build_id(notes, size, header->p_align, code);
	return true;
}

bool elf_code_read(int fd, struct elf_code *code)
{
	Elf64_Ehdr file;
	Elf64_Phdr header;

	*code = (struct elf_code){.count = 0};
	if (!elf_code_read_at(fd, 0, &file, sizeof(file)))
		return false;
	if (memcmp(file.e_ident, ELFMAG, SELFMAG) || file.e_ident[EI_CLASS] != ELFCLASS64 ||
	    file.e_ident[EI_DATA] != ELFDATA2LSB || file.e_phentsize != sizeof(header))
		return true;
	for (size_t i = 0; i < file.e_phnum && i < HEADERS_MAX; i++) {
		if (!elf_code_read_at(fd, file.e_phoff + i * sizeof(header), &header,
				      sizeof(header)))
			return false;
		if (header.p_type == PT_LOAD)
			add_load(code, &header);
		else if (header.p_type == PT_NOTE && !code->build_id_size &&
			 !read_notes(fd, &header, code))
			return false;
	}
	return true;
}

bool elf_code_vaddr(const struct elf_code *code, uint64_t offset, uint64_t *vaddr)
{
	for (size_t i = 0; i < code->count; i++) {
		const uint64_t start = code->loads[i].offset & ~(uint64_t)(PAGE - 1);
		const uint64_t size = code->loads[i].size + code->loads[i].offset - start;

		if (offset < start || offset - start >= size)
			continue;
		*vaddr = code->loads[i].vaddr - code->loads[i].offset + offset;
		return true;
	}
	return false;
}

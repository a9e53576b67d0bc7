// SPDX-License-Identifier: GPL-2.0
#include "doctor/program_file.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Programs have some 40 sections, and a kilobyte of names. */
#define SECTIONS_MAX 1024u
#define SECTION_NAMES_MAX 65536u
#define NOTES_MAX 4096u

/* Reads exactly `size` bytes. */
static int read_part(int fd, uint64_t offset, void *part, size_t size)
{
	const ssize_t got = offset > INT64_MAX ? -1 : pread(fd, part, size, (off_t)offset);

	return got == (ssize_t)size ? 0 : -ENOEXEC;
}

/* Finds the GNU build ID among notes (elf(5)), whose sizes are untrusted. */
static void read_build_id(struct program_file *program, int fd, const Elf64_Shdr *section)
{
	unsigned char notes[NOTES_MAX];
	const uint64_t size = section->sh_size;

	if (size > sizeof(notes) || read_part(fd, section->sh_offset, notes, size))
		return;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
		Elf64_Nhdr note;
		uint64_t name, value;

		memcpy(&note, notes + at, sizeof(note));
		name = at + sizeof(note);
		value = name + (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3));
		at = value + (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
		if (value + note.n_descsz > size)
			return;
		if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(notes + name, "GNU", 4) || 2 * note.n_descsz >= BUILD_ID_SIZE)
			continue;
		for (uint32_t i = 0; i < note.n_descsz; i++)
			sprintf(program->build_id + 2 * (size_t)i, "%02x", notes[value + i]);
		return;
	}
}

static void read_section(struct program_file *program, int fd, const Elf64_Shdr *section,
			 const char *name)
{
	const bool has_bytes = section->sh_type != SHT_NOBITS && section->sh_size;

	if (!strcmp(name, ".symtab") || !strcmp(name, ".gopclntab") ||
	    !strcmp(name, ".data.rel.ro.gopclntab"))
		program->has_symbols |= has_bytes;
	else if (!strcmp(name, ".gnu_debugdata"))
		program->has_mini |= has_bytes;
	else if (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))
		program->has_dwarf |= has_bytes;
	else if (section->sh_type == SHT_NOTE && !*program->build_id)
		read_build_id(program, fd, section);
}

int program_file_read(struct program_file *program, int fd)
{
	Elf64_Shdr *sections = NULL;
	char *names = NULL;
	Elf64_Ehdr header;
	size_t size;
	int err;

	*program = (struct program_file){0};
	err = read_part(fd, 0, &header, sizeof(header));
	if (err || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOEXEC;
	if (!header.e_shnum)
		return 0;
	if (header.e_shentsize != sizeof(*sections) || header.e_shnum > SECTIONS_MAX ||
	    header.e_shstrndx >= header.e_shnum)
		return -ENOEXEC;
	sections = malloc(header.e_shnum * sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	err = read_part(fd, header.e_shoff, sections, header.e_shnum * sizeof(*sections));
	size = err ? 0 : sections[header.e_shstrndx].sh_size;
	if (!err && (!size || size > SECTION_NAMES_MAX))
		err = -ENOEXEC;
	names = err ? NULL : malloc(size + 1);
	if (!err && !names)
		err = -ENOMEM;
	if (!err)
		err = read_part(fd, sections[header.e_shstrndx].sh_offset, names, size);
	for (unsigned int i = 0; i < header.e_shnum && !err; i++) {
		names[size] = '\0';
		if (sections[i].sh_name < size)
			read_section(program, fd, &sections[i], names + sections[i].sh_name);
	}
	free(names);
	free(sections);
	return err;
}

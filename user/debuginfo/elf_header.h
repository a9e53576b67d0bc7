/* SPDX-License-Identifier: GPL-2.0 */
/* Checks of an ELF header before libelf reads the file. */
#ifndef STACKBEAT_DEBUGINFO_ELF_HEADER_H
#define STACKBEAT_DEBUGINFO_ELF_HEADER_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Returns whether a file, from its first `size` bytes, has extended section numbering: e_shnum is 0
 * and the first section header holds the count. Only files with more than 65,279 sections need
 * that, so no program or library. libelf allocates memory for as many sections as such a file
 * claims. Works for both byte orders: only zero matters.
 */
static inline bool elf_uses_extended_shnum(const void *data, size_t size)
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

#endif

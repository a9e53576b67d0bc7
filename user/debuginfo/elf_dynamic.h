/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The dynamic symbols of a file by PT_DYNAMIC, as the dynamic linker finds them: a file without
 * section headers has them, too.
 */
#ifndef STACKBEAT_DEBUGINFO_ELF_DYNAMIC_H
#define STACKBEAT_DEBUGINFO_ELF_DYNAMIC_H

#include <elf.h>
#include <stddef.h>

struct elf_memory;
typedef struct Elf Elf; /* of libelf */

struct elf_dynamic {
	Elf64_Sym *symbols;
	size_t symbol_count;
	char *names; /* not terminated */
	size_t names_size;
};

/*
 * Reads the table and the names of a 64-bit file, with at most `symbols_max` symbols and
 * `names_max` bytes of names. Their number is in no tag: it follows from the hash table (System V
 * ABI, chapter 5; for DT_GNU_HASH, glibc's elf/dl-lookup.c). Returns 0, to be followed by
 * elf_dynamic_clear(), or -ENOENT: a file without such a table, or a broken one.
 */
int elf_dynamic_read(Elf *elf, const struct elf_memory *memory, size_t symbols_max,
		     size_t names_max, struct elf_dynamic *dynamic);

void elf_dynamic_clear(struct elf_dynamic *dynamic);

#endif

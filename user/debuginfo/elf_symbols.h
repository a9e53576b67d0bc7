/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ELF files: build ids, load segments, and the functions in them. The files are
 * not trusted: what is wrong with one costs its own symbols, and a sentence says so.
 */
#ifndef STACKBEAT_DEBUGINFO_ELF_SYMBOLS_H
#define STACKBEAT_DEBUGINFO_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/build_id.h"

struct error;
typedef struct Elf Elf; /* of libelf */

/* What was read of a file. All zero: nothing. */
struct elf_file {
	char build_id[BUILD_ID_SIZE]; /* GNU build id, hex; "" if there is none */
	struct load *loads; /* the rest is private */
	size_t load_count;
	struct function *functions;
	size_t function_count;
	char *names;
	size_t names_size; /* at most that of the file's string tables */
	size_t steps; /* that nesting the functions took: at most one for each, for tests */
};

struct symbol {
	const char *name; /* owned by the elf_file; without a version ("@GLIBC_2.2.5") */
	uint64_t start; /* ELF virtual address */
	uint64_t size; /* bytes; of an unsized symbol up to what follows it */
};

/*
 * Reads a regular file, or the `size` bytes of `image` where that is not NULL: its
 * build id and its executable load segments, and with `functions` its symbol tables
 * (.symtab and .dynsym, merged). The fd stays open, and is not needed afterwards. What is
 * kept is bounded by the size of these tables.
 *
 * Returns 0, and elf_clear() is to be called; or -EINVAL or -ENOMEM with `file`
 * untouched. problem->text says why symbols are missing, also where 0 is returned;
 * "" if none are.
 */
int elf_read(struct elf_file *file, int fd, const void *image, size_t size, bool functions,
	     struct error *problem);

/*
 * Opens a regular file, or the `size` bytes of `image` where that is not NULL, for reading
 * with libelf; with `map` it is mapped: what shrinks then raises SIGBUS. Returns 0 and sets
 * *elf, for elf_end(); or -EINVAL.
 */
int elf_begin_read(int fd, const void *image, size_t size, bool map, Elf **elf,
		   struct error *error);

/* The GNU build id in the program's notes, as hex; "" if there is none. */
void elf_build_id(Elf *elf, char hex[BUILD_ID_SIZE]);

/* The end of what the headers tell of: offset in the file behind its last byte. */
uint64_t elf_extent(Elf *elf);

/* Frees what was read. */
void elf_clear(struct elf_file *file);

/* How many bytes of memory the functions take, and a way to be without them. */
uint64_t elf_functions_size(const struct elf_file *file);
void elf_drop_functions(struct elf_file *file);

/*
 * The ELF virtual address of the byte at `offset` in the file, through the
 * executable PT_LOAD that holds it. False if there is none.
 */
bool elf_vaddr(const struct elf_file *file, uint64_t offset, uint64_t *vaddr);

/*
 * The function that holds an ELF virtual address. An address behind the end of a
 * sized symbol does not belong to it. Where symbols share an address, typed ones
 * are preferred to untyped ones, then global to weak to local, then fewer leading
 * underscores, then the shorter name. Where they nest, the innermost wins.
 */
bool elf_lookup(const struct elf_file *file, uint64_t vaddr, struct symbol *symbol);

/* Where code begins: the lowest address of an executable PT_LOAD. False if there is none. */
bool elf_code_start(const struct elf_file *file, uint64_t *vaddr);

/*
 * Finds the GNU build id in ELF notes of this machine's byte order, which are
 * padded to `align` (4 or 8) bytes, and writes it as hex. False if there is none.
 */
bool build_id_from_notes(const void *notes, size_t size, size_t align, char hex[BUILD_ID_SIZE]);

#endif

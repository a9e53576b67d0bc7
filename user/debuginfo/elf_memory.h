/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The contents of an ELF file at virtual addresses, by its PT_LOAD segments: also of a file without
 * section headers. The file is not mapped: a file that shrinks has fewer bytes.
 */
#ifndef STACKBEAT_DEBUGINFO_ELF_MEMORY_H
#define STACKBEAT_DEBUGINFO_ELF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Elf Elf; /* of libelf */

struct elf_load {
	uint64_t vaddr, offset, size; /* size: in the file */
	bool is_code;
};

struct elf_memory {
	int fd;
	const void *image;
	size_t size; /* of `image` */
	struct elf_load *loads;
	size_t load_count;
};

/*
 * Takes the segments of `elf`, which was opened for `fd`, or for the `size` bytes of `image` if
 * that is not NULL. Returns 0, to be followed by elf_memory_clear(), or -ENOMEM. A broken file has
 * no segments.
 */
int elf_memory_open(struct elf_memory *memory, Elf *elf, int fd, const void *image, size_t size);

void elf_memory_clear(struct elf_memory *memory);

/* Returns the number of bytes of the file from an address to the end of its segment. */
uint64_t elf_memory_left(const struct elf_memory *memory, uint64_t vaddr);

/* Reads `size` bytes at an address. Returns false if not all are there. */
bool elf_memory_read(const struct elf_memory *memory, uint64_t vaddr, void *bytes, size_t size);

/* Returns a copy of `size` bytes at an address, which the caller frees, or NULL. */
void *elf_memory_copy(const struct elf_memory *memory, uint64_t vaddr, size_t size);

#endif

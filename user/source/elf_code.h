/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module reads of a mapped ELF file (kmod/elf.c), for a source of samples that reports
 * offsets in files only: where its code is loaded, and its build ID. The file is untrusted: bounded
 * numbers of bytes are read from it.
 */
#ifndef STACKBEAT_SOURCE_ELF_CODE_H
#define STACKBEAT_SOURCE_ELF_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#define ELF_CODE_LOADS_MAX 8u /* with code; further ones are ignored */

struct elf_code {
	size_t count;
	struct {
		uint64_t offset, size, vaddr;
	} loads[ELF_CODE_LOADS_MAX];
	uint32_t build_id_size; /* bytes; 0: none */
	uint8_t build_id[STACKBEAT_BUILD_ID_MAX];
};

/*
 * Reads the headers of a 64-bit file. Sets `code`, which are all zero for another file. Returns
 * false if it can't be read.
 */
bool elf_code_read(int fd, struct elf_code *code);

/* Sets the ELF virtual address of an offset. Returns false if it is in no segment with code. */
bool elf_code_vaddr(const struct elf_code *code, uint64_t offset, uint64_t *vaddr);

#endif

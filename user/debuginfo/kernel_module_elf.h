/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ELF files of kernel modules: relocatable objects. Their sections get addresses when the module is
 * loaded, and their DWARF must be relocated first.
 *
 * The file is not trusted: call this in a worker process, as with debug_files.h.
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_MODULE_ELF_H
#define STACKBEAT_DEBUGINFO_KERNEL_MODULE_ELF_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* A code section. */
struct kernel_module_section {
	uint64_t offset; /* from the start of the module's code in the kernel */
	uint64_t size; /* bytes */
	uint64_t vaddr; /* in the relocated DWARF */
};

struct kernel_module_elf {
	Elf *elf; /* with relocated DWARF; NULL: none */
	struct kernel_module_section *sections;
	size_t count;
	void *session; /* private */
};

/*
 * Opens a module with this build ID (hex); `fd` remains the caller's. Returns 0, to be followed by
 * kernel_module_elf_close(); or -ESTALE for another build ID, -ENODATA if it has no DWARF, -EINVAL
 * or -ENOMEM.
 */
int kernel_module_elf_open(struct kernel_module_elf *module_elf, int fd, const char *path,
			   const char *build_id, struct error *error);
void kernel_module_elf_close(struct kernel_module_elf *module_elf);

/* Gets the address in the DWARF of `offset` in the module's code. False: no section holds it. */
bool kernel_module_elf_vaddr(const struct kernel_module_elf *module_elf, uint64_t offset,
			     uint64_t *vaddr);

#endif

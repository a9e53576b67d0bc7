/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Modules of the kernel as files: relocatable objects, whose sections get their places
 * when they are loaded, and whose DWARF means nothing before.
 *
 * The file is not trusted. Call this in a process of its own, as with debug_files.h.
 */
#ifndef STACKBEAT_DEBUGINFO_KERNEL_MODULE_ELF_H
#define STACKBEAT_DEBUGINFO_KERNEL_MODULE_ELF_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

/* A section of code. */
struct kernel_module_section {
	uint64_t offset; /* from the start of the module's code, as the kernel lays it out */
	uint64_t size; /* bytes */
	uint64_t vaddr; /* where its DWARF has it */
};

struct kernel_module_elf {
	Elf *elf; /* with its DWARF relocated; NULL: there is none */
	struct kernel_module_section *sections;
	size_t count;
	void *session; /* private */
};

/*
 * Opens a module with this build id (hex), of which `fd` stays the caller's. Returns 0, and
 * kernel_module_elf_close() must follow; or -ESTALE where it is of another build, -ENODATA where
 * it has no DWARF, -EINVAL or -ENOMEM.
 */
int kernel_module_elf_open(struct kernel_module_elf *object, int fd, const char *path,
			   const char *build_id, struct error *error);
void kernel_module_elf_close(struct kernel_module_elf *object);

/* Where the DWARF has what lies at `offset` of the module's code. False: nowhere. */
bool kernel_module_elf_vaddr(const struct kernel_module_elf *object, uint64_t offset,
			     uint64_t *vaddr);

#endif

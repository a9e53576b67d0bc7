/* SPDX-License-Identifier: GPL-2.0 */
/* The functions that the stubs of a PLT jump to, by the relocations of their pointers. */
#ifndef STACKBEAT_DEBUGINFO_ELF_PLT_H
#define STACKBEAT_DEBUGINFO_ELF_PLT_H

#include <stdint.h>

typedef struct Elf Elf; /* of libelf */

/* The addresses of a stub, or of a part of it. */
struct elf_stub {
	uint64_t start, end;
	uint32_t name; /* offset in the string table of .dynsym */
	uint64_t resolver; /* address of the function that selects the target; 0: `name` is set */
};

/*
 * Calls `fn` for each stub of an x86-64 file whose target has a name or a resolver, until it does
 * not return 0. Sections: .plt, .plt.sec, .plt.got, .iplt and others of such names; relocations:
 * R_X86_64_JUMP_SLOT, _GLOB_DAT and _IRELATIVE (System V ABI, AMD64 supplement, 4.4). Returns the
 * last result of `fn`, or -ENOMEM. A broken file has fewer stubs.
 */
int elf_each_stub(Elf *elf, int (*fn)(void *arg, const struct elf_stub *stub), void *arg);

#endif

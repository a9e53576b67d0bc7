/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Unwind tables: for each address of the code of one file, how to find the caller's frame without
 * a frame pointer. The reader compiles them from DWARF call frame information, and the kernel
 * module and the reader walk user stacks by them.
 *
 * A table is one block of memory, in the byte order of the machine:
 *
 *	struct stackbeat_unwind_table	header
 *	struct stackbeat_unwind_rule	rules[rule_count]
 *	__u32				blocks[block_count + 1]
 *	__u16				row_rules[row_count]
 *	__u8				row_starts[row_count]
 *
 * Addresses are ELF virtual addresses - `start`. A row is valid from its own address up to that of
 * the next row. Block b holds the rows that start in addresses [256 b, 256 b + 256): they have the
 * numbers blocks[b] to blocks[b + 1] - 1, in ascending order of row_starts, which are the low eight
 * bits of their addresses. Row 0 starts at address 0. The row of an address is the last one that
 * starts at or before it.
 */
#ifndef STACKBEAT_UNWIND_TABLE_H
#define STACKBEAT_UNWIND_TABLE_H

#include <linux/types.h>

#define STACKBEAT_UNWIND_MAGIC 0x75626b73u /* "skbu" */

struct stackbeat_unwind_table {
	__u32 magic;
	__u32 size; /* bytes of all of it, with padding to a multiple of 8 */
	__u64 start; /* ELF virtual address of the first address */
	__u32 block_count; /* of 256 bytes of code each */
	__u32 row_count;
	__u32 rule_count; /* up to STACKBEAT_UNWIND_RULES_MAX */
	__u32 reserved; /* 0 */
};

#define STACKBEAT_UNWIND_BLOCK 256u
#define STACKBEAT_UNWIND_BLOCKS_MAX (1u << 24) /* 4 GiB of code */
#define STACKBEAT_UNWIND_ROWS_MAX (1u << 24)
#define STACKBEAT_UNWIND_RULES_MAX (1u << 16)
/* Limit of the absolute value of a CFA offset, in bytes. */
#define STACKBEAT_UNWIND_CFA_MAX (1 << 26)

enum stackbeat_unwind_kind {
	STACKBEAT_UNWIND_NONE, /* no rule is known */
	STACKBEAT_UNWIND_END, /* the outermost frame */
	STACKBEAT_UNWIND_SIGNAL, /* the return trampoline of signal handlers */
	STACKBEAT_UNWIND_CALLER, /* the rule below */
	STACKBEAT_UNWIND_KIND_COUNT
};

/*
 * The canonical frame address (CFA) is the value of rsp before the call. It is base + cfa, or, with
 * STACKBEAT_UNWIND_INDIRECT, the word at base + cfa, plus 8 * addend. The caller's rsp is the CFA.
 * Its rip is the word at CFA - 8, or, with STACKBEAT_UNWIND_RIP_IN_REGISTER, a register.
 */
struct stackbeat_unwind_rule {
	__s32 cfa; /* bytes */
	__u8 kind_base; /* kind | base << 4; base is a DWARF register number */
	__u8 flags; /* STACKBEAT_UNWIND_* below */
	__s8 rbp; /* in words from the CFA or from rbp, or a DWARF register number */
	__s8 extra; /* rbx in words from the CFA, the addend, or the register of rip */
};

#define STACKBEAT_UNWIND_RBP_SAVED 0x01u /* rbp is at CFA + 8 * rbp */
#define STACKBEAT_UNWIND_RBP_AT_RBP 0x02u /* rbp is at rbp + 8 * rbp */
#define STACKBEAT_UNWIND_RBP_IN_REGISTER 0x04u
#define STACKBEAT_UNWIND_RBX_SAVED 0x08u /* rbx is at CFA + 8 * extra */
#define STACKBEAT_UNWIND_INDIRECT 0x10u /* 8 * extra is the addend */
#define STACKBEAT_UNWIND_RIP_IN_REGISTER 0x20u /* extra is the register */

#endif

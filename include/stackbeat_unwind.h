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
	__u32 flags; /* STACKBEAT_UNWIND_FRAME_POINTERS */
};

/* Frame pointers lead to the caller at every return address in this code. */
#define STACKBEAT_UNWIND_FRAME_POINTERS 0x1u

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

/* A table with the addresses of its parts, after stackbeat_unwind_check(). */
struct stackbeat_unwind_view {
	__u64 start;
	__u64 size; /* bytes of code */
	const struct stackbeat_unwind_rule *rules;
	const __u32 *blocks;
	const __u16 *row_rules;
	const __u8 *row_starts;
};

static inline __u64 stackbeat_unwind_size(const struct stackbeat_unwind_table *table)
{
	__u64 size = sizeof(*table);

	size += (__u64)table->rule_count * sizeof(struct stackbeat_unwind_rule);
	size += ((__u64)table->block_count + 1) * sizeof(__u32);
	size += (__u64)table->row_count * (sizeof(__u16) + sizeof(__u8));
	return (size + 7) & ~7ull;
}

/* Sets the view of a table whose counts are valid. */
static inline void stackbeat_unwind_open(const struct stackbeat_unwind_table *table,
					 struct stackbeat_unwind_view *view)
{
	view->start = table->start;
	view->size = (__u64)table->block_count * STACKBEAT_UNWIND_BLOCK;
	view->rules = (const struct stackbeat_unwind_rule *)(table + 1);
	view->blocks = (const __u32 *)(view->rules + table->rule_count);
	view->row_rules = (const __u16 *)(view->blocks + table->block_count + 1);
	view->row_starts = (const __u8 *)(view->row_rules + table->row_count);
}

static inline int stackbeat_unwind_rule_is_valid(const struct stackbeat_unwind_rule *rule)
{
	__u8 places = rule->flags & (STACKBEAT_UNWIND_RBP_SAVED | STACKBEAT_UNWIND_RBP_AT_RBP |
				     STACKBEAT_UNWIND_RBP_IN_REGISTER);
	__u8 extras = rule->flags & (STACKBEAT_UNWIND_RBX_SAVED | STACKBEAT_UNWIND_INDIRECT |
				     STACKBEAT_UNWIND_RIP_IN_REGISTER);

	if ((rule->kind_base & 0xf) >= STACKBEAT_UNWIND_KIND_COUNT ||
	    rule->flags >= STACKBEAT_UNWIND_RIP_IN_REGISTER << 1)
		return 0;
	/* At most one place of rbp, and one use of `extra`. */
	if (places & (places - 1) || extras & (extras - 1))
		return 0;
	if ((places == STACKBEAT_UNWIND_RBP_IN_REGISTER && (rule->rbp & ~0xf)) ||
	    (extras == STACKBEAT_UNWIND_RIP_IN_REGISTER && (rule->extra & ~0xf)))
		return 0;
	return rule->cfa > -STACKBEAT_UNWIND_CFA_MAX && rule->cfa < STACKBEAT_UNWIND_CFA_MAX &&
	       !(rule->cfa & 7);
}

/*
 * Checks all `size` bytes of a table, in time proportional to them. Afterwards no lookup reads
 * outside the table, whatever its rules say. Returns whether the table is valid.
 */
static inline int stackbeat_unwind_check(const struct stackbeat_unwind_table *table, __u64 size)
{
	struct stackbeat_unwind_view view;
	__u32 i, row;

	if (size < sizeof(*table) || table->magic != STACKBEAT_UNWIND_MAGIC || table->flags > STACKBEAT_UNWIND_FRAME_POINTERS ||
	    !table->block_count || table->block_count > STACKBEAT_UNWIND_BLOCKS_MAX ||
	    !table->row_count || table->row_count > STACKBEAT_UNWIND_ROWS_MAX ||
	    !table->rule_count || table->rule_count > STACKBEAT_UNWIND_RULES_MAX ||
	    table->size != size || stackbeat_unwind_size(table) != size ||
	    table->start + (__u64)table->block_count * STACKBEAT_UNWIND_BLOCK < table->start)
		return 0;
	stackbeat_unwind_open(table, &view);
	for (i = 0; i < table->rule_count; i++) {
		if (!stackbeat_unwind_rule_is_valid(&view.rules[i]))
			return 0;
	}
	if (view.blocks[0] || view.blocks[table->block_count] != table->row_count ||
	    view.row_starts[0] || !view.blocks[1])
		return 0;
	for (i = 0; i < table->block_count; i++) {
		if (view.blocks[i + 1] < view.blocks[i] || view.blocks[i + 1] > table->row_count)
			return 0;
		for (row = view.blocks[i]; row < view.blocks[i + 1]; row++) {
			if (view.row_rules[row] >= table->rule_count ||
			    (row > view.blocks[i] &&
			     view.row_starts[row] <= view.row_starts[row - 1]))
				return 0;
		}
	}
	return 1;
}

/* Returns the rule of an ELF virtual address, or NULL outside the code of the table. */
static inline const struct stackbeat_unwind_rule *
stackbeat_unwind_find(const struct stackbeat_unwind_view *view, __u64 address)
{
	__u64 offset = address - view->start;
	__u32 first, count, half, low;

	if (offset >= view->size)
		return (const struct stackbeat_unwind_rule *)0;
	first = view->blocks[offset / STACKBEAT_UNWIND_BLOCK];
	count = view->blocks[offset / STACKBEAT_UNWIND_BLOCK + 1] - first;
	low = offset % STACKBEAT_UNWIND_BLOCK;
	/* The number of rows of the block that start at or before the address. */
	while (count) {
		half = count / 2;
		if (view->row_starts[first + half] <= low) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	/* Row 0 starts at offset 0, so there is a row before. */
	return &view->rules[view->row_rules[first - 1]];
}

#endif

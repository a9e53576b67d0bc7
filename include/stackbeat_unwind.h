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
 *	struct stackbeat_unwind_run	runs[run_count]
 *	__u32				blocks[block_count + 1]
 *	__u16				row_rules[row_count]
 *	__u8				row_starts[row_count]
 *
 * Addresses are ELF virtual addresses - `start`. A row is valid from its own address up to the address of
 * the next row. Block b holds the rows that start in addresses [256 b, 256 b + 256): they have the
 * numbers blocks[b] to blocks[b + 1] - 1, in ascending order of row_starts, which are the low eight
 * bits of their addresses. Row 0 starts at address 0. The row of an address is the last row that
 * starts at or before it.
 *
 * Runs are an abbreviation of rules, for code that is compiled with frame pointers: if the address before
 * a return address is in a run, its rule is STACKBEAT_UNWIND_CALLER with the CFA rbp + 16 and rbp saved at
 * CFA - 16. This says nothing about an address at which a function was interrupted: that may be in a
 * prologue, and needs its own rule. So a run holds rows of other rules, too, if no call ends in them.
 */
#ifndef STACKBEAT_UNWIND_TABLE_H
#define STACKBEAT_UNWIND_TABLE_H

#include <linux/types.h>

#define STACKBEAT_UNWIND_MAGIC 0x79626b73u /* "skby"; another one for each format */

/*
 * Where a Go program keeps the registers of the goroutines that it has left: the structures g and m of
 * its runtime. Offsets in bytes. All are 0 if they are not known.
 */
struct stackbeat_unwind_go {
	/*
	 * The pointer to the g of a thread is at the base of fs + tls. With tls_in_memory, ld.so chooses
	 * this offset in each process, and `tls` is the ELF virtual address of the word that has it: the
	 * file is a library.
	 */
	__s64 tls;
	__u16 m; /* in g: pointer to its m */
	__u16 stack_hi; /* in g: the end of its stack */
	__u16 sched_sp, sched_pc, sched_bp; /* in g: registers */
	__u16 curg; /* in m: pointer to the g of the goroutine that it runs */
	__u16 goid; /* in g: its id */
	__u16 gopc; /* in g: the return address of the go statement that has created it */
	__u16 labels; /* in g: pointer to its labels; 0: not known */
	__u16 label_slices; /* to a slice of pairs of strings (from Go 1.24 on); 0: to a map */
	__u32 tls_in_memory; /* 0 or 1; 0 if curg is not known */
};

struct stackbeat_unwind_table {
	__u32 magic;
	__u32 size; /* bytes of all of it, with padding to a multiple of 8 */
	__u64 start; /* ELF virtual address of the first address */
	__u32 block_count; /* of 256 bytes of code each */
	__u32 row_count;
	__u32 rule_count; /* up to STACKBEAT_UNWIND_RULES_MAX */
	__u32 run_count; /* up to STACKBEAT_UNWIND_RUNS_MAX */
	struct stackbeat_unwind_go go;
};

/* A run, by offsets in the code of the table: start <= offset < end. Runs ascend, and don't overlap. */
struct stackbeat_unwind_run {
	__u32 start, end;
};

#define STACKBEAT_UNWIND_BLOCK 256u
#define STACKBEAT_UNWIND_BLOCKS_MAX (1u << 24) /* 4 GiB of code */
#define STACKBEAT_UNWIND_ROWS_MAX (1u << 24)
#define STACKBEAT_UNWIND_RULES_MAX (1u << 16)
#define STACKBEAT_UNWIND_RUNS_MAX 16u
/* Bytes of a table with these counts. */
#define STACKBEAT_UNWIND_SIZE_MAX                                                                  \
	(sizeof(struct stackbeat_unwind_table) +                                                   \
	 STACKBEAT_UNWIND_RULES_MAX * sizeof(struct stackbeat_unwind_rule) +                       \
	 STACKBEAT_UNWIND_RUNS_MAX * sizeof(struct stackbeat_unwind_run) +                         \
	 (STACKBEAT_UNWIND_BLOCKS_MAX + 1) * sizeof(__u32) +                                       \
	 STACKBEAT_UNWIND_ROWS_MAX * (sizeof(__u16) + sizeof(__u8)) + 7)
/* Limit of the absolute value of a CFA offset, in bytes. */
#define STACKBEAT_UNWIND_CFA_MAX (1 << 26)

enum stackbeat_unwind_kind {
	STACKBEAT_UNWIND_NONE, /* no rule is known */
	STACKBEAT_UNWIND_END, /* the outermost frame */
	STACKBEAT_UNWIND_SIGNAL, /* the return trampoline of signal handlers */
	STACKBEAT_UNWIND_CALLER, /* the rule below */
	/*
	 * Go changes stacks: from the one of the goroutine, m.curg, to the one of the thread. The caller
	 * is on the former.
	 */
	/* As _CALLER, but the CFA is the goroutine's sched.sp + cfa, and rbp its sched.bp. */
	STACKBEAT_UNWIND_GO_SWITCH,
	/* The caller has the registers in sched. Without a goroutine, the frame is the outermost. */
	STACKBEAT_UNWIND_GO_RESUME,
	/*
	 * A call of C. As _CALLER, but the CFA is the goroutine's rsp + cfa. At rsp + 8 * extra are its
	 * distance from the end of the stack, and the g; or rsp itself and 0, if it has not changed stacks.
	 */
	STACKBEAT_UNWIND_GO_CALL,
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
	__s8 extra; /* rbx in words from the CFA, the addend, the register of rip, or as above */
};

#define STACKBEAT_UNWIND_RBP_SAVED 0x01u /* rbp is at CFA + 8 * rbp */
#define STACKBEAT_UNWIND_RBP_AT_RBP 0x02u /* rbp is at rbp + 8 * rbp */
#define STACKBEAT_UNWIND_RBP_IN_REGISTER 0x04u
#define STACKBEAT_UNWIND_RBX_SAVED 0x08u /* rbx is at CFA + 8 * extra */
#define STACKBEAT_UNWIND_INDIRECT 0x10u /* 8 * extra is the addend */
#define STACKBEAT_UNWIND_RIP_IN_REGISTER 0x20u /* extra is the register */
/* The function was not called: rip is the address of an instruction, not a return address. */
#define STACKBEAT_UNWIND_RIP_EXACT 0x40u

/* A table with the addresses of its parts, after stackbeat_unwind_check(). */
struct stackbeat_unwind_view {
	__u64 start;
	__u64 size; /* bytes of code */
	const struct stackbeat_unwind_rule *rules;
	const struct stackbeat_unwind_run *runs;
	__u32 run_count;
	const __u32 *blocks;
	const __u16 *row_rules;
	const __u8 *row_starts;
	const struct stackbeat_unwind_go *go;
};

static inline __u64 stackbeat_unwind_size(const struct stackbeat_unwind_table *table)
{
	__u64 size = sizeof(*table);

	size += (__u64)table->rule_count * sizeof(struct stackbeat_unwind_rule);
	size += (__u64)table->run_count * sizeof(struct stackbeat_unwind_run);
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
	view->runs = (const struct stackbeat_unwind_run *)(view->rules + table->rule_count);
	view->run_count = table->run_count;
	view->blocks = (const __u32 *)(view->runs + table->run_count);
	view->row_rules = (const __u16 *)(view->blocks + table->block_count + 1);
	view->row_starts = (const __u8 *)(view->row_rules + table->row_count);
	view->go = &table->go;
}

static inline int stackbeat_unwind_rule_is_valid(const struct stackbeat_unwind_rule *rule)
{
	__u8 places = rule->flags & (STACKBEAT_UNWIND_RBP_SAVED | STACKBEAT_UNWIND_RBP_AT_RBP |
				     STACKBEAT_UNWIND_RBP_IN_REGISTER);
	__u8 extras = rule->flags & (STACKBEAT_UNWIND_RBX_SAVED | STACKBEAT_UNWIND_INDIRECT |
				     STACKBEAT_UNWIND_RIP_IN_REGISTER);

	if ((rule->kind_base & 0xf) >= STACKBEAT_UNWIND_KIND_COUNT ||
	    rule->flags >= STACKBEAT_UNWIND_RIP_EXACT << 1)
		return 0;
	/* Go's rules find the CFA in their own way. */
	if ((rule->kind_base & 0xf) >= STACKBEAT_UNWIND_GO_SWITCH && extras)
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
 * The check of a table of `size` bytes: first of its header and its rules, then of its blocks, in any
 * order and in parts. Afterwards no lookup reads outside the table, whatever its rules say. The time is
 * proportional to the size; the search in a block is bounded by 256 rows.
 */
static inline int stackbeat_unwind_check_head(const struct stackbeat_unwind_table *table,
					      __u64 size)
{
	struct stackbeat_unwind_view view;
	__u32 i, end = 0;

	if (size < sizeof(*table) || table->magic != STACKBEAT_UNWIND_MAGIC ||
	    table->run_count > STACKBEAT_UNWIND_RUNS_MAX || table->go.tls_in_memory > !!table->go.curg ||
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
	for (i = 0; i < table->run_count; i++) {
		if (view.runs[i].start < end || view.runs[i].start >= view.runs[i].end ||
		    view.runs[i].end > view.size)
			return 0;
		end = view.runs[i].end;
	}
	return !view.blocks[0] && view.blocks[table->block_count] == table->row_count &&
	       !view.row_starts[0] && view.blocks[1];
}

/* Checks the blocks from `block` up to, and without, `end`. */
static inline int stackbeat_unwind_check_blocks(const struct stackbeat_unwind_table *table,
						__u32 block, __u32 end)
{
	struct stackbeat_unwind_view view;
	__u32 row;

	stackbeat_unwind_open(table, &view);
	for (; block < end; block++) {
		if (view.blocks[block + 1] < view.blocks[block] ||
		    view.blocks[block + 1] > table->row_count)
			return 0;
		for (row = view.blocks[block]; row < view.blocks[block + 1]; row++) {
			if (view.row_rules[row] >= table->rule_count ||
			    (row > view.blocks[block] &&
			     view.row_starts[row] <= view.row_starts[row - 1]))
				return 0;
		}
	}
	return 1;
}

/* Checks all of a table. Returns whether it is valid. */
static inline int stackbeat_unwind_check(const struct stackbeat_unwind_table *table, __u64 size)
{
	return stackbeat_unwind_check_head(table, size) &&
	       stackbeat_unwind_check_blocks(table, 0, table->block_count);
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

/*
 * Narrows the offsets [*low, *high) of the code of a table, of which one is `offset`, to the run with that
 * offset, or to the code between two runs. Returns whether it is a run.
 */
static inline int stackbeat_unwind_narrow(const struct stackbeat_unwind_view *view, __u64 offset,
					  __u64 *low, __u64 *high)
{
	const struct stackbeat_unwind_run *run = view->runs, *end = run + view->run_count;

	for (; run < end && run->end <= offset; run++)
		*low = run->end;
	if (run == end)
		return 0;
	if (offset < run->start) {
		*high = run->start;
		return 0;
	}
	*low = run->start;
	*high = run->end;
	return 1;
}

#endif

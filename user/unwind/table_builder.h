/* SPDX-License-Identifier: GPL-2.0 */
/* Compiles rows of call frame information into an unwind table, see stackbeat_unwind.h. */
#ifndef STACKBEAT_UNWIND_TABLE_BUILDER_H
#define STACKBEAT_UNWIND_TABLE_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat_unwind.h>

struct cfi_row;
struct table_builder;

struct table_counts {
	uint64_t rows;
	uint64_t unsupported; /* ranges whose rule a table can't express */
	uint64_t overlapping; /* ranges that were dropped: one of their source starts before */
};

/* The code of a table. */
struct table_code {
	/* Whether an instruction that begins and ends in [start, end) may be a call. */
	bool (*may_call)(void *arg, uint64_t start, uint64_t end);
	void *arg;
};

/* Returns an empty builder, or NULL without memory. table_builder_free() accepts NULL. */
struct table_builder *table_builder_new(void);
void table_builder_free(struct table_builder *builder);

/*
 * Adds the row of the addresses [start, end). A row of the frame of a signal handler replaces what
 * others say of its addresses. Returns 0, -ENOMEM, or -E2BIG beyond a limit.
 */
int table_builder_add(struct table_builder *builder, uint64_t start, uint64_t end,
		      const struct cfi_row *row);

/*
 * Ends a source of rows. Rows that are added later are used only for addresses without a row so
 * far. Returns 0 or -ENOMEM.
 */
int table_builder_end_source(struct table_builder *builder);

/*
 * Calls `fn` for each range of addresses in [start, end) without a row of a source that has ended,
 * in ascending order; it may add rows. Returns 0, or the first result of `fn` that is not 0.
 */
int table_builder_each_gap(const struct table_builder *builder, uint64_t start, uint64_t end,
			   int (*fn)(void *arg, uint64_t start, uint64_t end), void *arg);

/*
 * Calls `fn` for each range of the sources that have ended, in ascending order. A range holds whole
 * instructions if the sources are right. Returns 0, or the first result of `fn` that is not 0.
 */
int table_builder_each_range(const struct table_builder *builder,
			     int (*fn)(void *arg, uint64_t start, uint64_t end,
				       const struct stackbeat_unwind_rule *rule),
			     void *arg);

/*
 * Ends the last source, merges the rows, and sets *table to a table that the caller frees. It has
 * runs if `code` is not NULL. Gaps of fewer than 16 bytes between functions, which are padding, get
 * the rule before them. Returns 0, -ENOENT without rows, -E2BIG beyond a limit, or -ENOMEM.
 */
int table_builder_finish(struct table_builder *builder, const struct table_code *code,
			 struct stackbeat_unwind_table **table, struct table_counts *counts);

#endif

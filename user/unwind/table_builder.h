/* SPDX-License-Identifier: GPL-2.0 */
/* Compiles rows of call frame information into an unwind table, see stackbeat_unwind.h. */
#ifndef STACKBEAT_UNWIND_TABLE_BUILDER_H
#define STACKBEAT_UNWIND_TABLE_BUILDER_H

#include <stdint.h>

#include <stackbeat_unwind.h>

struct cfi_row;
struct table_builder;

struct table_counts {
	uint64_t rows;
	uint64_t unsupported; /* ranges whose rule a table can't express */
	uint64_t overlapping; /* ranges that were dropped: another one starts before */
};

/* Returns an empty builder, or NULL without memory. table_builder_free() accepts NULL. */
struct table_builder *table_builder_new(void);
void table_builder_free(struct table_builder *builder);

/* Adds the row of the addresses [start, end). Returns 0, -ENOMEM, or -E2BIG beyond a limit. */
int table_builder_add(struct table_builder *builder, uint64_t start, uint64_t end,
		      const struct cfi_row *row);

/*
 * Sorts and merges the rows, and sets *table to a table that the caller frees. Gaps of fewer than
 * 16 bytes between functions, which are padding, get the rule before them. Returns 0, -ENOENT
 * without rows, -E2BIG beyond a limit, or -ENOMEM.
 */
int table_builder_finish(struct table_builder *builder, struct stackbeat_unwind_table **table,
			 struct table_counts *counts);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Aggregates samples while they are read: unique stacks with their numbers of samples and weights.
 * Memory grows with the number of unique stacks, not of samples.
 */
#ifndef STACKBEAT_RECORD_STACK_TABLE_H
#define STACKBEAT_RECORD_STACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "record/stack.h"

struct error;
struct stack_table;
struct address_spaces;

/*
 * An empty table. `spaces` resolves the samples' address spaces, and must outlive the table.
 * Samples that differ in none of the `labels` (LABEL_SET()s) are aggregated. Returns NULL when out
 * of memory. stack_table_free() accepts NULL.
 */
struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels);
void stack_table_free(struct stack_table *table);

/*
 * Counts the samples at the beginning of `data` that repeat recently added ones: their stacks are
 * known, even if their address spaces have changed since. `data` is `available` bytes of records
 * that are not verified. Returns the bytes of the counted samples; the sample behind them is for
 * stack_table_add().
 */
uint64_t stack_table_repeat(struct stack_table *table, const void *data, uint64_t available);

/*
 * Adds a sample that stack_table_repeat() has not counted (a decode_sample_fn; `table` is a struct
 * stack_table), and requests the mapped files of its frames to be read. The sample's address space
 * must have been advanced to the sample's generation. Returns 0 or -ENOMEM.
 */
int stack_table_add(const struct stackbeat_sample *sample, void *table);

const struct sample_totals *stack_table_totals(const struct stack_table *table);

/*
 * Calls `fn` for each stack, in the order in which they were added, until it returns other than 0;
 * returns that.
 */
int stack_table_each(const struct stack_table *table,
		     int (*fn)(const struct stack *stack, void *arg), void *arg);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples, aggregated while they are read: unique stacks and what they weigh.
 * Memory grows with the number of different stacks, not of samples.
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
 * An empty profile whose address spaces are found in `spaces`, which must outlive it. Samples that
 * differ in none of the `labels` (LABEL_SET()s) are added up. NULL when out of memory.
 * stack_table_free() takes NULL too.
 */
struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels);
void stack_table_free(struct stack_table *profile);

/*
 * Adds the samples at the beginning of `data`, `available` bytes of records that nobody has
 * checked, that repeat ones that were added lately: then what they are of is known, however far
 * their spaces have gone since. Returns their bytes; the sample behind them is for
 * stack_table_add().
 */
uint64_t stack_table_repeat(struct stack_table *profile, const void *data, uint64_t available);

/*
 * Adds a sample (a decode_sample_fn; `profile` is a struct stack_table), and has the
 * objects read that it needs. Its space has gone forward to its generation. Returns 0
 * or -ENOMEM.
 */
int stack_table_add(const struct stackbeat_sample *sample, void *profile);

const struct sample_totals *stack_table_totals(const struct stack_table *profile);

/* Calls `fn` for each stack, in the order in which they were added, until it returns other than 0;
 * returns that. */
int stack_table_each(const struct stack_table *profile,
		     int (*fn)(const struct stack *stack, void *arg), void *arg);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Aggregates samples while they are read: unique stacks with their numbers of samples and weights.
 * Memory grows with the number of unique stacks of live processes, not of samples. The counts of a
 * stack leave the table by a callback: when its process is forgotten, or when the caller takes
 * them. The first sample of a stack leaves it at once, as long as at most a quarter of the stacks
 * of its process come again.
 */
#ifndef STACKBEAT_RECORD_STACK_TABLE_H
#define STACKBEAT_RECORD_STACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "record/stack.h"

struct error;
struct gone_parts;
struct mapping_view;
struct stack_table;
struct address_spaces;

/*
 * Takes the counts of a stack, which are not 0; the stack is valid during the call only. Returns 0,
 * or a negative errno value: then the counts stay in the table.
 */
typedef int fold_stack_fn(const struct stack *stack, void *arg);

/*
 * An empty table. `spaces` resolves the samples' address spaces, and must outlive the table. It has
 * no other table; the stacks of an address space that it forgets (address_spaces_on_forget()) are
 * folded: passed to `fold` with `fold_arg`, and removed. Samples that differ in none of the
 * `labels` (LABEL_SET()s) are aggregated. Returns NULL when out of memory. stack_table_free()
 * accepts NULL, and folds nothing.
 */
struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels,
				    fold_stack_fn *fold, void *fold_arg);
void stack_table_free(struct stack_table *table);

/*
 * From now on, addresses in these parts of kernel modules are replaced by aliases.
 * stack_table_parts_changed() is to be called when gone_parts_refresh() has returned true.
 */
void stack_table_use_parts(struct stack_table *table, const struct gone_parts *parts);
void stack_table_parts_changed(struct stack_table *table);

/*
 * Counts the samples at the beginning of `data` that repeat recently added ones: their stacks are
 * known, even if their address spaces have changed since. `data` is `available` bytes of records
 * that are not verified. Returns the bytes of the counted samples; the sample behind them is for
 * stack_table_add().
 */
uint64_t stack_table_repeat(struct stack_table *table, const void *data, uint64_t available);

/*
 * Adds a sample that stack_table_repeat() has not counted, and requests the mapped files of its
 * frames to be read, unless it is folded: then this is left to `fold`. The sample's address space
 * must have been advanced to the sample's generation. Returns 0 or -ENOMEM.
 */
int stack_table_add(struct stack_table *table, const struct stackbeat_sample *sample);

/* The user part of a sample, found by a copy of its stack: addresses as in struct stackbeat_sample.
 */
struct copied_frames {
	const uint64_t *addresses;
	uint16_t count; /* at most STACKBEAT_USER_FRAMES_MAX */
	uint16_t table_frames;
	uint8_t stop; /* as user_stop of struct stack */
};

/*
 * As stack_table_add(), for a sample with a copy of its stack: with `frames` instead of its own
 * user part (NULL: with that), and with the mappings of `view` (NULL: its address space's).
 */
int stack_table_add_copied(struct stack_table *table, const struct stackbeat_sample *sample,
			   const struct copied_frames *frames, const struct mapping_view *view);

/*
 * Sets whether the samples that are added from now on are kept apart (stack->moments): at first, if
 * the labels have LABEL_MOMENT.
 */
void stack_table_keep_moments(struct stack_table *table, bool keeps);

const struct sample_totals *stack_table_totals(const struct stack_table *table);

/*
 * Call after address_spaces_collect_garbage(): frees the stacks that it has removed, once they take
 * 256 KiB.
 */
void stack_table_sweep(struct stack_table *table);

/*
 * Folds all stacks, in the order in which they were added as far as none was removed. Those without
 * a sample since the last call are removed, the others stay, without counts. Returns 0, or the
 * first error of `fold`: the counts of that stack and of those behind it stay.
 */
int stack_table_fold(struct stack_table *table);

/*
 * Folds and removes all stacks, for the last time: the memory of each is free for the next one.
 * Returns the number of samples that could not be folded for lack of memory, and stay.
 */
uint64_t stack_table_fold_last(struct stack_table *table);

/*
 * Returns the bytes of memory of the stacks, without those that a sweep will free, and without the
 * overhead of malloc().
 */
size_t stack_table_bytes(const struct stack_table *table);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples with a copy of their stack: the module lacked an unwind table that the user part needs.
 * The copy is walked by the same tables here, and the frames replace those that the module has
 * found by frame pointers. A sample waits until these tables are compiled, for a limited time and
 * in limited memory: beyond them, the frames of the module are used.
 *
 * A copy holds data of the sampled program. It is overwritten as soon as it was walked.
 */
#ifndef STACKBEAT_RECORD_STACK_COPIES_H
#define STACKBEAT_RECORD_STACK_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

struct address_spaces;
struct stack_copies;
struct stack_table;
struct unwind_tables;
struct verification;

/* Bytes of all copies, with the mappings that they need. */
#define STACK_COPIES_BYTES_MAX (16u << 20)
/* How long a sample waits, ns. */
#define STACK_COPIES_WAIT_NS INT64_C(5000000000)

struct stack_copies_config {
	struct address_spaces *spaces;
	struct stack_table *stacks; /* gets the samples */
	struct unwind_tables *tables;
	struct verification *verification; /* gets the samples with an extra copy; NULL: none */
	uint16_t max_depth; /* user frames, 1 to STACKBEAT_USER_FRAMES_MAX */
	/* Of the session, unless a copy has DECODE_STACK_ASKED: a shorter one has the whole stack.
	 */
	uint32_t copy_size;
	/* Called for each walk, with what it needs (walk_result.need). NULL: not called. */
	void (*walked)(uint32_t cpu, uint64_t need, void *arg);
	void *arg;
	size_t memory; /* 0: STACK_COPIES_BYTES_MAX */
};

struct stack_copies_counts {
	uint64_t walked;
	uint64_t bytes; /* that were asked for by the copies that were walked */
	uint64_t late; /* samples whose tables were not there in time */
	uint64_t full; /* samples for whose copy there was no memory */
};

/*
 * All pointers must outlive the copies; `config` is copied. Returns NULL when out of memory.
 * stack_copies_free() accepts NULL, and drops the samples that wait.
 */
struct stack_copies *stack_copies_new(const struct stack_copies_config *config);
void stack_copies_free(struct stack_copies *copies);

/*
 * Returns a copy of `stack` for a sample that can't be added yet, which stack_copies_drop() frees;
 * NULL: there is no room for it. stack_copies_drop() accepts NULL.
 */
struct stackbeat_stack *stack_copies_keep(struct stack_copies *copies,
					  const struct stackbeat_stack *stack);
void stack_copies_drop(struct stack_copies *copies, struct stackbeat_stack *stack);

/*
 * Adds a sample with the copy of its stack (NULL: it was dropped), which stay the caller's, to the
 * stack table, or lets it wait. A sample with an extra copy has the frames of the module. Its
 * address space must have been advanced to its generation. Returns 0 or -ENOMEM.
 */
int stack_copies_add(struct stack_copies *copies, const struct stackbeat_sample *sample,
		     const struct stackbeat_stack *stack);

/*
 * Adds the samples whose tables are there by now, and those that have waited too long. Call it
 * after unwind_tables_run(). `now`: CLOCK_MONOTONIC, ns. Returns 0 or -ENOMEM.
 */
int stack_copies_run(struct stack_copies *copies, int64_t now);

/* Returns whether samples wait. */
bool stack_copies_are_waiting(const struct stack_copies *copies);

/* As mapped_files_mark(), for the files that samples which wait may need. Call it each second. */
void stack_copies_mark(const struct stack_copies *copies);

/* Returns the bytes of memory in use. */
size_t stack_copies_bytes(const struct stack_copies *copies);

void stack_copies_counts(const struct stack_copies *copies, struct stack_copies_counts *counts);

#endif

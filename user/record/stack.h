/* SPDX-License-Identifier: GPL-2.0 */
/* A unique stack, and totals over all samples. */
#ifndef STACKBEAT_RECORD_STACK_H
#define STACKBEAT_RECORD_STACK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "pprof/labels.h"

struct address_space;

/* A sample that is kept apart from the others of its stack. */
struct sample_moment {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint64_t weight; /* ns */
};

/* Samples with the same frames in the same address space, of the same origin. */
struct stack {
	struct address_space *space; /* of the process; owned by its table; NULL: removed */
	uint64_t samples;
	uint64_t weight; /* ns */
	struct sample_moment *moments; /* of the samples, in the order in which they were read */
	size_t moment_count, moment_capacity; /* 0: they are not kept apart */
	struct label_origin origin;
	uint16_t kernel_frames, user_frames;
	uint8_t kernel_stop; /* enum stackbeat_unwind_stop */
	uint8_t user_stop; /* the same, or TRUNCATION_STOP_* */
	uint16_t flags; /* STACKBEAT_SAMPLE_KERNEL, _COMPAT */
	uint16_t table_frames; /* user frames that an unwind table has found */
	bool is_copy; /* the user frames come from a copy of the stack, see stack_copies.h */
	bool has_go_creator;
	uint16_t go_label_words; /* size of the labels of the goroutine; 0: none */
	/* Of the table. */
	uint32_t hash;
	uint32_t index;
	uint32_t next_of_space; /* index of the next stack of the address space */
	struct stack *next_removed;
	/*
	 * Kernel, then user frames, leaf first. Return addresses are decremented by 1, so that
	 * they lie in the call. A user frame is an offset in its segment, see stack_segments().
	 * With has_go_creator, the go statement that has created the goroutine follows, as if it
	 * were a user frame. Then the labels of the goroutine (struct stackbeat_go_labels).
	 */
	uint64_t frames[];
};

/* The number of user frames, with the go statement. */
static inline size_t stack_user_places(const struct stack *stack)
{
	return (size_t)stack->user_frames + stack->has_go_creator;
}

/* The labels of the goroutine, sorted (source/go_labels.h); NULL: none. */
static inline const struct stackbeat_go_labels *stack_go_labels(const struct stack *stack)
{
	return stack->go_label_words
		       ? (const struct stackbeat_go_labels *)(stack->frames + stack->kernel_frames +
							      stack_user_places(stack))
		       : NULL;
}

/* The segments (see mappings/address_space.h) of the user frames, and of the go statement. */
static inline const uint32_t *stack_segments(const struct stack *stack)
{
	return (const uint32_t *)(stack->frames + stack->kernel_frames + stack_user_places(stack) +
				  stack->go_label_words);
}

/* Returns the bytes of a stack. */
static inline size_t stack_size(const struct stack *stack)
{
	const size_t places = stack_user_places(stack);

	return sizeof(*stack) +
	       (stack->kernel_frames + places + stack->go_label_words) * sizeof(uint64_t) +
	       places * sizeof(uint32_t);
}

struct sample_totals {
	uint64_t samples;
	uint64_t weight; /* ns */
	uint64_t missed; /* ticks without a sample of their own */
	/* Unique stacks. A stack that was folded at once may count again after a change of
	 * mappings. */
	uint64_t stacks;
	uint64_t moment_bytes; /* of all stacks */
	bool keeps_moments; /* samples are kept apart */
};

/* Makes room for a moment more. Returns 0 or -ENOMEM. */
int stack_grow_moments(struct stack *stack, struct sample_totals *totals);
void stack_free_moments(struct stack *stack, struct sample_totals *totals);

static inline void sample_totals_add(struct sample_totals *totals,
				     const struct stackbeat_sample *sample)
{
	totals->samples++;
	totals->weight += sample->weight;
	totals->missed += sample->missed;
}

/* Counts a sample of this stack. Returns 0, or -ENOMEM with nothing counted. */
static inline int stack_count(struct stack *stack, const struct stackbeat_sample *sample,
			      struct sample_totals *totals)
{
	if (totals->keeps_moments) {
		if (stack->moment_count == stack->moment_capacity &&
		    stack_grow_moments(stack, totals))
			return -ENOMEM;
		stack->moments[stack->moment_count++] =
			(struct sample_moment){sample->time, sample->weight};
	}
	stack->samples++;
	stack->weight += sample->weight;
	sample_totals_add(totals, sample);
	return 0;
}

#endif

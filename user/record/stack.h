/* SPDX-License-Identifier: GPL-2.0 */
/* A unique stack, and totals over all samples. */
#ifndef STACKBEAT_RECORD_STACK_H
#define STACKBEAT_RECORD_STACK_H

#include <stdint.h>

#include <stackbeat.h>

#include "pprof/labels.h"

struct address_space;

/* Samples with the same frames in the same address space, of the same origin. */
struct stack {
	struct address_space *space; /* of the sampled process; owned by its table */
	uint64_t samples;
	uint64_t weight; /* ns */
	struct label_origin origin;
	uint16_t kernel_frames, user_frames;
	uint8_t kernel_stop, user_stop; /* enum stackbeat_unwind_stop */
	uint16_t flags; /* STACKBEAT_SAMPLE_* */
	/*
	 * Kernel, then user frames, leaf first. Return addresses are decremented by 1, so that
	 * they lie in the call. A user frame is an offset in its segment, see stack_segments().
	 */
	uint64_t frames[];
};

/* The segments (see process/address_space.h) of the user frames. */
static inline const uint32_t *stack_segments(const struct stack *stack)
{
	return (const uint32_t *)(stack->frames + stack->kernel_frames + stack->user_frames);
}

struct sample_totals {
	uint64_t samples;
	uint64_t weight; /* ns */
	uint64_t missed; /* ticks without a sample of their own */
	uint64_t stacks;
};

/* Counts a sample of this stack. */
static inline void stack_count(struct stack *stack, const struct stackbeat_sample *sample,
			       struct sample_totals *totals)
{
	stack->samples++;
	stack->weight += sample->weight;
	totals->samples++;
	totals->weight += sample->weight;
	totals->missed += sample->missed;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* A unique stack, and the totals of the samples that were counted. */
#ifndef STACKBEAT_RECORD_STACK_H
#define STACKBEAT_RECORD_STACK_H

#include <stdint.h>

#include <stackbeat.h>

#include "pprof/labels.h"

struct address_space;

/* Samples with the same frames in the same address space, of the same origin. */
struct stack {
	struct address_space *space; /* that was sampled; owned by its table */
	uint64_t samples;
	uint64_t weight; /* ns */
	struct label_origin origin;
	uint16_t kernel_frames, user_frames;
	uint8_t kernel_stop, user_stop; /* enum stackbeat_unwind_stop */
	uint16_t flags; /* STACKBEAT_SAMPLE_* */
	/*
	 * Kernel, then user, each leaf first: what stands for the call, so return addresses
	 * minus 1. Of the user part the number in its place, see stack_segments().
	 */
	uint64_t frames[];
};

/* The places (see process/address_space.h) of the user frames. */
static inline const uint32_t *stack_segments(const struct stack *stack)
{
	return (const uint32_t *)(stack->frames + stack->kernel_frames + stack->user_frames);
}

struct sample_totals {
	uint64_t samples;
	uint64_t weight; /* ns */
	uint64_t missed; /* intervals without a beat of their own */
	uint64_t stacks;
};

/* Counts a sample as one of the stack. */
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

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Samples, aggregated while they are read: unique stacks and what they weigh.
 * Memory grows with the number of different stacks, not of samples.
 */
#ifndef STACKBEAT_PROFILE_H
#define STACKBEAT_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "labels.h"

struct error;
struct process;
struct processes;
struct profile;

/* Samples with the same frames in the same address space, of the same origin. */
struct stack {
	struct stack *next; /* private: in its hash bucket */
	struct process *process; /* the image that was sampled; owned by its table */
	uint64_t samples;
	uint64_t weight; /* ns */
	uint32_t hash; /* private */
	struct label_origin origin;
	uint16_t kernel_frames, user_frames;
	uint8_t kernel_end, user_end; /* enum stackbeat_end */
	uint16_t flags; /* STACKBEAT_SAMPLE_* */
	uint64_t frames[]; /* kernel, then user, each leaf first */
};

struct profile_totals {
	uint64_t samples;
	uint64_t weight; /* ns */
	uint64_t missed; /* intervals without a beat of their own */
	uint64_t stacks;
};

/*
 * An empty profile whose processes are found in `processes`, which must outlive
 * it. Samples that differ in none of the `labels` (LABEL_SET()s) are added up.
 * NULL when out of memory. profile_free() takes NULL too.
 */
struct profile *profile_new(struct processes *processes, uint32_t labels);
void profile_free(struct profile *profile);

/*
 * Adds a sample (a decode_sample_fn; `profile` is a struct profile). Returns 0
 * or -ENOMEM.
 */
int profile_add(const struct stackbeat_sample *sample, void *profile);

/* Adds no sample: begins a pass over the rings; see processes_tick(). */
void profile_tick(struct profile *profile);

const struct profile_totals *profile_totals(const struct profile *profile);

/* Calls `fn` for each stack, in no order, until it returns other than 0; returns that. */
int profile_each(const struct profile *profile, int (*fn)(const struct stack *stack, void *arg),
		 void *arg);

#endif

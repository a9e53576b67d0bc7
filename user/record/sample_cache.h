/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cache in front of the profile: raw samples, and the stacks that they belong to. Most
 * samples repeat one of a few thousand; for these, the mappings of the frames need not be
 * looked up, nor the frames be hashed: the kernel did that while it walked the stack.
 */
#ifndef STACKBEAT_RECORD_SAMPLE_CACHE_H
#define STACKBEAT_RECORD_SAMPLE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

struct profile_totals;
struct recent;
struct stack;

/*
 * An empty cache; `tid` and `cpu`: whether samples that differ in them belong to different
 * stacks. NULL when out of memory. recent_free() takes NULL too.
 */
struct recent *recent_new(bool tid, bool cpu);
void recent_free(struct recent *recent);

/*
 * Adds the samples at the beginning of `data`, `available` bytes (a multiple of 8) of records
 * that nobody has checked, to their stacks and to the totals, until one comes that was not noted:
 * what is the same as one that was noted is right. Returns their bytes.
 */
uint64_t recent_take(const struct recent *recent, const void *data, uint64_t available,
		     struct profile_totals *totals);

/*
 * Notes it: from now on, samples with the same frames of the same generation of the same
 * space and of the same thread name are of this stack. May forget others, so that all take no
 * more than some MiB; does nothing when out of memory, and for larger records than the deepest
 * stack needs.
 */
void recent_note(struct recent *recent, const struct stackbeat_sample *sample, struct stack *stack);

#endif

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

struct sample_totals;
struct sample_cache;
struct stack;

/*
 * An empty cache; `tid` and `cpu`: whether samples that differ in them belong to different
 * stacks. NULL when out of memory. sample_cache_free() takes NULL too.
 */
struct sample_cache *sample_cache_new(bool tid, bool cpu);
void sample_cache_free(struct sample_cache *recent);

/*
 * Adds the samples at the beginning of `data`, `available` bytes (a multiple of 8) of records
 * that nobody has checked, to their stacks and to the totals, until one comes that was not noted:
 * what is the same as one that was noted is right. Returns their bytes.
 */
uint64_t sample_cache_match(const struct sample_cache *recent, const void *data, uint64_t available,
			    struct sample_totals *totals);

/*
 * Notes it: from now on, samples with the same frames of the same generation of the same
 * space and of the same thread name are of this stack. May forget others, so that all take no
 * more than some MiB; does nothing when out of memory, and for larger records than the deepest
 * stack needs.
 */
void sample_cache_insert(struct sample_cache *recent, const struct stackbeat_sample *sample,
			 struct stack *stack);

#endif

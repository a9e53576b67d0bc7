/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cache in front of the stack table: raw samples and their stacks. Most samples repeat one of
 * some ten thousand. For these, the mappings of the frames are not looked up.
 *
 * A sample is represented by a keyed fingerprint (lib/fingerprint.h) of its kernel frames, its
 * first user frames, the kernel's hash of all frames, its address space with the generation, and
 * its origin. A change of the mappings makes a new generation, so entries need not be invalidated:
 * the stack of a sample at one generation stays the same. Two samples that differ in what the
 * fingerprint is of are confused with a probability of 2^-64, also if a program chooses its frames
 * for that. Two that differ in other user frames are confused with a probability of 2^-32, unless a
 * program chooses these frames, which changes callers of its own samples only. A hash is computed
 * again for each sample that is inserted: if it is another one than CRC-32C, all frames are part
 * of the fingerprints.
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
 * An empty cache. `tid`, `cpu` and `block`: samples that differ in the thread ID, in the CPU, or in
 * the block of time (pprof/blocks.h), of which nine hours have different ones, belong to different
 * stacks. Returns NULL when out of memory. sample_cache_free() accepts NULL.
 */
struct sample_cache *sample_cache_new(bool tid, bool cpu, bool block);
void sample_cache_free(struct sample_cache *cache);

/*
 * Counts the samples at the beginning of `data` in their stacks and in `totals`, up to the first
 * sample that is not in the cache, or whose stack was removed. `data` is `available` bytes (a
 * multiple of 8) of records that are not verified: of a record with the fingerprint of a cached
 * one, only the time, the weight and the missed ticks are read, which may be any numbers. Returns
 * the bytes of the counted samples.
 */
uint64_t sample_cache_match(struct sample_cache *cache, const void *data, uint64_t available,
			    struct sample_totals *totals);

/*
 * Inserts a sample: from now on, samples with the same frames, generation, address space and
 * thread name belong to `stack`, which must outlive the cache. May evict others: all take 1.5 MiB.
 * Does nothing for records larger than the deepest stack needs, and for samples with a copy of the
 * stack: another record belongs to them. A sample that sample_cache_match() has not found must not
 * change before its insertion, unless its time, its hash or its address space changes, too.
 */
void sample_cache_insert(struct sample_cache *cache, const struct stackbeat_sample *sample,
			 struct stack *stack);

/*
 * Inserts a sample without a stack: sample_cache_match() does not count samples that repeat it, but
 * they are known, as long as it is not evicted.
 */
void sample_cache_note(struct sample_cache *cache, const struct stackbeat_sample *sample);

/*
 * What sample_cache_match() has found for the sample that it has not counted; UNASKED for other
 * samples, and those with a copy of the stack.
 */
enum sample_history {
	SAMPLE_UNASKED,
	SAMPLE_FIRST, /* no equal sample */
	SAMPLE_KNOWN, /* an equal sample, which was noted, or whose stack was removed */
};
enum sample_history sample_cache_history(const struct sample_cache *cache,
					 const struct stackbeat_sample *sample);

/*
 * Removes the samples of removed stacks: those without an address space. The effort follows from
 * the number of samples in the cache.
 */
void sample_cache_forget(struct sample_cache *cache);

/* Removes all samples that have stacks. Noted samples may stay. */
void sample_cache_clear(struct sample_cache *cache);

#endif

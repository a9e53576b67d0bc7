// SPDX-License-Identifier: GPL-2.0
#include "record/sample_cache.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record/stack.h"

#define ENTRIES_BITS 13
#define ENTRIES (1u << ENTRIES_BITS)
#define BYTES_MAX (8u << 20) /* of all cached samples */
/* Bytes of one sample: a record may be larger than its frames need. */
#define SAMPLE_SIZE_MAX                                                                            \
	(sizeof(struct stackbeat_sample) +                                                         \
	 (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX) * sizeof(uint64_t))

struct entry {
	struct stack *stack;
	size_t capacity; /* bytes of the sample */
	struct stackbeat_sample sample;
};

struct sample_cache {
	bool tid, cpu;
	size_t bytes; /* capacities of all entries */
	size_t hand; /* index of the entry that is evicted next */
	struct entry *entries[ENTRIES]; /* NULL: none */
};

struct sample_cache *sample_cache_new(bool tid, bool cpu)
{
	struct sample_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->tid = tid;
	cache->cpu = cpu;
	return cache;
}

void sample_cache_free(struct sample_cache *cache)
{
	if (!cache)
		return;
	for (size_t i = 0; i < ENTRIES; i++)
		free(cache->entries[i]);
	free(cache);
}

/*
 * Fibonacci hashing: the upper bits of the product depend on all bits. Stacks often differ in one
 * frame, and so in a few bits of the kernel's hash.
 */
static size_t index_of(const struct stackbeat_sample *sample)
{
	return ((sample->hash + sample->address_space) * UINT64_C(0x9e3779b97f4a7c15)) >>
	       (64 - ENTRIES_BITS);
}

/* The depths of both parts of a stack, and why their unwinding stopped. */
static uint64_t shape_of(const struct stackbeat_sample *sample)
{
	uint64_t shape;

	memcpy(&shape, &sample->kernel_frames, sizeof(shape));
	return shape;
}

/*
 * The fields that identify a stack come last in a record, and are compared in one go: this is the
 * hot path of each sample.
 */
#define STACK_OFFSET offsetof(struct stackbeat_sample, generation)
_Static_assert(offsetof(struct stackbeat_sample, kernel_frames) + sizeof(uint64_t) == STACK_OFFSET,
	       "the shape is the word before the compared bytes");

/* Reads no more than the record header of `b` unless the headers are equal. */
static inline bool is_same_stack(const struct sample_cache *cache, const struct stackbeat_sample *a,
				 const struct stackbeat_sample *b, uint64_t available)
{
	return !memcmp(&a->record, &b->record, sizeof(a->record)) && a->record.size <= available &&
	       shape_of(a) == shape_of(b) && a->pid == b->pid &&
	       (a->tid == b->tid || (!cache->tid && a->pid != a->tid && b->pid != b->tid)) &&
	       (a->cpu == b->cpu || !cache->cpu) &&
	       !memcmp((const char *)a + STACK_OFFSET, (const char *)b + STACK_OFFSET,
		       a->record.size - STACK_OFFSET);
}

uint64_t sample_cache_match(const struct sample_cache *cache, const void *data, uint64_t available,
			    struct sample_totals *totals)
{
	const struct stackbeat_sample *sample = data;
	uint64_t left = available;

	while (left >= sizeof(*sample)) {
		const struct entry *entry = cache->entries[index_of(sample)];

		if (!entry || !is_same_stack(cache, &entry->sample, sample, left))
			break;
		stack_count(entry->stack, sample, totals);
		left -= sample->record.size;
		sample = (const void *)((const char *)sample + sample->record.size);
	}
	return available - left;
}

static void evict(struct sample_cache *cache, struct entry **slot)
{
	if (!*slot)
		return;
	cache->bytes -= (*slot)->capacity;
	free(*slot);
	*slot = NULL;
}

static struct entry *new_entry(struct sample_cache *cache, size_t size)
{
	struct entry *entry;

	while (cache->bytes + size > BYTES_MAX)
		evict(cache, &cache->entries[cache->hand++ % ENTRIES]);
	entry = malloc(offsetof(struct entry, sample) + size);
	if (!entry)
		return NULL;
	entry->capacity = size;
	cache->bytes += size;
	return entry;
}

void sample_cache_insert(struct sample_cache *cache, const struct stackbeat_sample *sample,
			 struct stack *stack)
{
	struct entry **slot = &cache->entries[index_of(sample)];
	size_t size = sample->record.size;

	if (size < sizeof(*sample) || size > SAMPLE_SIZE_MAX)
		return;
	if (!*slot || (*slot)->capacity < size) {
		evict(cache, slot);
		*slot = new_entry(cache, size);
		if (!*slot)
			return;
	}
	memcpy(&(*slot)->sample, sample, size);
	(*slot)->stack = stack;
}

void sample_cache_forget(struct sample_cache *cache)
{
	for (size_t i = 0; i < ENTRIES; i++) {
		if (cache->entries[i] && !cache->entries[i]->stack->space)
			evict(cache, &cache->entries[i]);
	}
}

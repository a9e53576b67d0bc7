// SPDX-License-Identifier: GPL-2.0
#include "recent.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ENTRIES_BITS 13
#define ENTRIES (1u << ENTRIES_BITS)
#define FRAMES_MAX 256u /* of a stack that is noted: 17 MB in all at worst */

struct entry {
	struct stack *stack; /* NULL: free */
	size_t capacity; /* bytes of the sample */
	struct stackbeat_sample *sample;
};

struct recent {
	bool tid, cpu;
	struct entry entries[ENTRIES];
};

struct recent *recent_new(bool tid, bool cpu)
{
	struct recent *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	recent->tid = tid;
	recent->cpu = cpu;
	return recent;
}

void recent_free(struct recent *recent)
{
	if (!recent)
		return;
	for (size_t i = 0; i < ENTRIES; i++)
		free(recent->entries[i].sample);
	free(recent);
}

/*
 * Mixed by a multiplication (Fibonacci hashing): its upper bits are of all bits. Stacks often
 * differ in one frame, which may have moved the kernel's hash in its upper bits alone.
 */
static size_t index_of(const struct stackbeat_sample *sample)
{
	uint64_t hash = sample->hash + sample->space * 31;

	return ((hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - ENTRIES_BITS);
}

static size_t frames_size(const struct stackbeat_sample *sample)
{
	return ((size_t)sample->kernel_frames + sample->user_frames) * sizeof(sample->frames[0]);
}

/* Both parts of a stack: how long they are and how they ended. */
static uint64_t shape_of(const struct stackbeat_sample *sample)
{
	uint64_t shape;

	memcpy(&shape, &sample->kernel_frames, sizeof(shape));
	return shape;
}

/*
 * What makes up a stack comes last in a record, and is compared in one go: each sample
 * comes by here.
 */
#define STACK_OFFSET offsetof(struct stackbeat_sample, generation)
_Static_assert(offsetof(struct stackbeat_sample, kernel_frames) + sizeof(uint64_t) == STACK_OFFSET,
	       "the shape is one word, before what is compared");

static bool is_same(const struct recent *recent, const struct stackbeat_sample *a,
		    const struct stackbeat_sample *b)
{
	return a->hash == b->hash && shape_of(a) == shape_of(b) &&
	       memcmp(&a->record, &b->record, sizeof(a->record)) == 0 && a->pid == b->pid &&
	       (a->tid == b->tid || (!recent->tid && a->pid != a->tid && b->pid != b->tid)) &&
	       (a->cpu == b->cpu || !recent->cpu) &&
	       memcmp((const char *)a + STACK_OFFSET, (const char *)b + STACK_OFFSET,
		      sizeof(*a) - STACK_OFFSET + frames_size(a)) == 0;
}

struct stack *recent_find(const struct recent *recent, const struct stackbeat_sample *sample)
{
	const struct entry *entry = &recent->entries[index_of(sample)];

	return entry->stack && is_same(recent, entry->sample, sample) ? entry->stack : NULL;
}

void recent_note(struct recent *recent, const struct stackbeat_sample *sample, struct stack *stack)
{
	struct entry *entry = &recent->entries[index_of(sample)];
	size_t size = sizeof(*sample) + frames_size(sample);

	if (size > sizeof(*sample) + FRAMES_MAX * sizeof(sample->frames[0]))
		return;
	if (entry->capacity < size) {
		free(entry->sample);
		entry->stack = NULL;
		entry->capacity = 0;
		entry->sample = malloc(size);
		if (!entry->sample)
			return;
		entry->capacity = size;
	}
	memcpy(entry->sample, sample, size);
	entry->stack = stack;
}

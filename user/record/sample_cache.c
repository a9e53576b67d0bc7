// SPDX-License-Identifier: GPL-2.0
#include "record/sample_cache.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record/stack.h"

#define ENTRIES_BITS 13
#define ENTRIES (1u << ENTRIES_BITS)
#define BYTES_MAX (8u << 20) /* of all samples that are noted */
/* Of one: a record may have more bytes than its frames take. */
#define SIZE_MAX_NOTED                                                                             \
	(sizeof(struct stackbeat_sample) +                                                         \
	 (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX) * sizeof(uint64_t))

/* A sample that was noted. */
struct note {
	struct stack *stack;
	size_t capacity; /* bytes of the sample */
	struct stackbeat_sample sample;
};

struct sample_cache {
	bool tid, cpu;
	size_t bytes; /* capacities of all notes */
	size_t hand; /* index of the note that is forgotten next */
	struct note *notes[ENTRIES]; /* NULL: none */
};

struct sample_cache *sample_cache_new(bool tid, bool cpu)
{
	struct sample_cache *recent = calloc(1, sizeof(*recent));

	if (!recent)
		return NULL;
	recent->tid = tid;
	recent->cpu = cpu;
	return recent;
}

void sample_cache_free(struct sample_cache *recent)
{
	if (!recent)
		return;
	for (size_t i = 0; i < ENTRIES; i++)
		free(recent->notes[i]);
	free(recent);
}

/*
 * Fibonacci hashing: the upper bits of the product are of all bits. Stacks often differ in one
 * frame, and so in a few bits of the kernel's hash.
 */
static size_t index_of(const struct stackbeat_sample *sample)
{
	return ((sample->hash + sample->address_space) * UINT64_C(0x9e3779b97f4a7c15)) >>
	       (64 - ENTRIES_BITS);
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

/* Of the second one, only the header of the record must be there if they are not the same. */
static inline bool is_same(const struct sample_cache *recent, const struct stackbeat_sample *a,
			   const struct stackbeat_sample *b, uint64_t available)
{
	return memcmp(&a->record, &b->record, sizeof(a->record)) == 0 &&
	       a->record.size <= available && shape_of(a) == shape_of(b) && a->pid == b->pid &&
	       (a->tid == b->tid || (!recent->tid && a->pid != a->tid && b->pid != b->tid)) &&
	       (a->cpu == b->cpu || !recent->cpu) &&
	       memcmp((const char *)a + STACK_OFFSET, (const char *)b + STACK_OFFSET,
		      a->record.size - STACK_OFFSET) == 0;
}

uint64_t sample_cache_match(const struct sample_cache *recent, const void *data, uint64_t available,
			    struct sample_totals *totals)
{
	const struct stackbeat_sample *sample = data;
	uint64_t left = available;

	while (left >= sizeof(*sample)) {
		const struct note *note = recent->notes[index_of(sample)];

		if (!note || !is_same(recent, &note->sample, sample, left))
			break;
		stack_count(note->stack, sample, totals);
		left -= sample->record.size;
		sample = (const void *)((const char *)sample + sample->record.size);
	}
	return available - left;
}

static void forget(struct sample_cache *recent, struct note **place)
{
	if (!*place)
		return;
	recent->bytes -= (*place)->capacity;
	free(*place);
	*place = NULL;
}

static struct note *make_note(struct sample_cache *recent, size_t size)
{
	struct note *note;

	while (recent->bytes + size > BYTES_MAX)
		forget(recent, &recent->notes[recent->hand++ % ENTRIES]);
	note = malloc(offsetof(struct note, sample) + size);
	if (!note)
		return NULL;
	note->capacity = size;
	recent->bytes += size;
	return note;
}

void sample_cache_insert(struct sample_cache *recent, const struct stackbeat_sample *sample,
			 struct stack *stack)
{
	struct note **place = &recent->notes[index_of(sample)];
	size_t size = sample->record.size;

	if (size < sizeof(*sample) || size > SIZE_MAX_NOTED)
		return;
	if (!*place || (*place)->capacity < size) {
		forget(recent, place);
		*place = make_note(recent, size);
		if (!*place)
			return;
	}
	memcpy(&(*place)->sample, sample, size);
	(*place)->stack = stack;
}

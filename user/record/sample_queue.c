// SPDX-License-Identifier: GPL-2.0
#include "record/sample_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "mappings/address_space.h"
#include "record/stack_copies.h"
#include "record/stack_table.h"

/* Most samples wait within one drain only: these are not copied from the ring. */
struct queued_sample {
	uint64_t space;
	uint64_t time;
	uint64_t number; /* in the order of arrival */
	const struct stackbeat_sample *in_ring; /* NULL: it is in words[] */
	const struct stackbeat_stack *stack; /* NULL: none */
	struct stackbeat_stack *kept_stack; /* `stack`, of stack_copies_keep(); NULL: in the ring */
	size_t offset; /* in words[] */
	uint32_t generation;
};

struct sample_queue {
	struct address_spaces *spaces;
	struct stack_table *stacks;
	struct stack_copies *copies; /* NULL: none are used */
	bool settled;
	uint64_t *words; /* the records that are not in the ring, one after the other */
	size_t used, capacity; /* words; there is room for `in_ring`, too */
	size_t in_ring; /* words of the queued records that are in the ring */
	size_t bytes_max; /* of the records */
	struct queued_sample *samples;
	size_t count, sample_capacity;
	uint64_t last_number;
	uint64_t early; /* see sample_queue_early() */
};

struct sample_queue *sample_queue_new(struct address_spaces *spaces, struct stack_table *stacks)
{
	struct sample_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->spaces = spaces;
	queue->stacks = stacks;
	queue->bytes_max = SAMPLE_QUEUE_BYTES_MAX;
	return queue;
}

void sample_queue_free(struct sample_queue *queue)
{
	if (!queue)
		return;
	for (size_t i = 0; i < queue->count; i++)
		stack_copies_drop(queue->copies, queue->samples[i].kept_stack);
	free(queue->words);
	free(queue->samples);
	free(queue);
}

void sample_queue_limit(struct sample_queue *queue, size_t bytes)
{
	queue->bytes_max = MIN(queue->bytes_max, bytes);
}

void sample_queue_set_copies(struct sample_queue *queue, struct stack_copies *copies)
{
	queue->copies = copies;
}

void sample_queue_begin(struct sample_queue *queue, bool settled)
{
	queue->settled = settled;
}

static int sample_queue_add(struct sample_queue *queue, const struct stackbeat_sample *sample,
			    const struct stackbeat_stack *stack)
{
	size_t words = sample->record.size / sizeof(*queue->words);

	/* sample_queue_keep() must not lack memory. */
	if (array_reserve(&queue->words, &queue->capacity, queue->used + queue->in_ring, words,
			  sizeof(*queue->words)) ||
	    array_reserve(&queue->samples, &queue->sample_capacity, queue->count, 1,
			  sizeof(*queue->samples)))
		return -ENOMEM;
	queue->samples[queue->count++] = (struct queued_sample){
		.space = sample->address_space,
		.time = sample->time,
		.number = ++queue->last_number,
		.in_ring = sample,
		.stack = stack,
		.generation = sample->generation,
	};
	queue->in_ring += words;
	return 0;
}

/* By address space, its generation, and order of arrival. */
static int compare_generations(const void *a, const void *b)
{
	const struct queued_sample *left = a, *right = b;

	if (left->space != right->space)
		return left->space < right->space ? -1 : 1;
	if (left->generation != right->generation)
		return left->generation < right->generation ? -1 : 1;
	return (left->number > right->number) - (left->number < right->number);
}

static const struct stackbeat_sample *record_of(const struct sample_queue *queue,
						const struct queued_sample *queued)
{
	return queued->in_ring ? queued->in_ring : (const void *)(queue->words + queued->offset);
}

/* Adds a sample whose mappings are known. */
static int add_ready(struct sample_queue *queue, const struct stackbeat_sample *sample,
		     const struct stackbeat_stack *stack)
{
	if (queue->copies && stack)
		return stack_copies_add(queue->copies, sample, stack);
	return stack_table_add(queue->stacks, sample);
}

static int add_to_table(struct sample_queue *queue, const struct queued_sample *queued)
{
	const struct stackbeat_sample *sample = record_of(queue, queued);
	struct address_space *space;
	int err;

	if (stack_table_repeat(queue->stacks, sample, sample->record.size))
		return 0;
	space = address_spaces_get(queue->spaces, sample->address_space, sample->pid);
	err = space ? address_space_advance(space, sample->generation) : -ENOMEM;
	return err ? err : add_ready(queue, sample, queued->stack);
}

/* Moves the remaining records to the beginning, and counts the words of those in the ring. */
static void sample_queue_compact(struct sample_queue *queue)
{
	uint64_t *words = queue->words;
	size_t used = 0;

	queue->in_ring = 0;
	for (size_t i = 0; i < queue->count; i++) {
		const struct stackbeat_sample *sample = record_of(queue, &queue->samples[i]);
		size_t size = sample->record.size / sizeof(*words);

		if (queue->samples[i].in_ring) {
			queue->in_ring += size;
			continue;
		}
		memmove(words + used, words + queue->samples[i].offset, size * sizeof(*words));
		queue->samples[i].offset = used;
		used += size;
	}
	queue->used = used;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct queued_sample *left = a, *right = b;

	return (left->number > right->number) - (left->number < right->number);
}

int sample_queue_flush(struct sample_queue *queue, uint64_t seen)
{
	int err = 0, sample_err;
	size_t kept = 0;

	if (!queue->count)
		return 0;
	qsort(queue->samples, queue->count, sizeof(*queue->samples), compare_generations);
	for (size_t i = 0; i < queue->count; i++) {
		struct queued_sample *queued = &queue->samples[i];
		bool is_seen = queued->time <= seen;

		sample_err = is_seen ? add_to_table(queue, queued) : 0;
		if (!is_seen || sample_err)
			queue->samples[kept++] = *queued;
		else
			stack_copies_drop(queue->copies, queued->kept_stack);
		err = err ? err : sample_err;
	}
	queue->count = kept;
	/* sample_queue_compact() moves each record down, over those before it. */
	if (kept)
		qsort(queue->samples, kept, sizeof(*queue->samples), compare_numbers);
	sample_queue_compact(queue);
	return err;
}

/* There is room for all of them: see sample_queue_add(). */
static void sample_queue_keep_stack(struct sample_queue *queue, struct queued_sample *queued)
{
	const size_t size = queued->in_ring->record.size;

	queued->offset = queue->used;
	memcpy(queue->words + queue->used, queued->in_ring, size);
	queue->used += size / sizeof(*queue->words);
	queue->in_ring -= size / sizeof(*queue->words);
	queued->in_ring = NULL;
	if (queued->stack && queue->copies)
		queued->kept_stack = stack_copies_keep(queue->copies, queued->stack);
	queued->stack = queued->kept_stack;
}

void sample_queue_keep(struct sample_queue *queue)
{
	size_t first = queue->count;

	/* Those in the ring arrived last. */
	while (first > 0 && queue->samples[first - 1].in_ring)
		first--;
	for (size_t i = first; i < queue->count; i++)
		sample_queue_keep_stack(queue, &queue->samples[i]);
}

uint64_t sample_queue_repeat(const void *data, uint64_t available, void *arg)
{
	return stack_table_repeat(((struct sample_queue *)arg)->stacks, data, available);
}

int sample_queue_sample(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
			void *arg)
{
	struct sample_queue *queue = arg;
	struct address_space *space =
		address_spaces_get(queue->spaces, sample->address_space, sample->pid);
	int err;

	if (!space)
		return -ENOMEM;
	if (address_space_ready(space, sample->generation, queue->settled))
		return add_ready(queue, sample, stack);
	if ((queue->used + queue->in_ring) * sizeof(*queue->words) + sample->record.size >
	    queue->bytes_max) {
		queue->early += queue->count;
		err = sample_queue_flush(queue, UINT64_MAX);
		if (err)
			return err;
	}
	return sample_queue_add(queue, sample, stack);
}

size_t sample_queue_bytes(const struct sample_queue *queue)
{
	return queue->capacity * sizeof(*queue->words) +
	       queue->sample_capacity * sizeof(*queue->samples);
}

uint64_t sample_queue_early(const struct sample_queue *queue)
{
	return queue->early;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The reader's side of a sample ring: the input is the tail, the head and the data. Decoding with
 * and without the sample cache must give the same result. A hash that is even stands for the right
 * one, which no input would have by chance.
 */
#include "fuzz.h"

#include "lib/error.h"
#include "record/sample_cache.h"
#include "record/stack_table.h"
#include "sample.h"
#include "source/ring_decode.h"

#define RING_SIZE 4096u

struct reader {
	struct sample_cache *recent; /* NULL: no cache */
	struct sample_totals totals;
	uint64_t samples; /* not matched by the cache */
	uint64_t sum; /* of their contents, which forces reading them */
	struct stack stack; /* the same for all samples */
};

static uint64_t take_repeats(const void *data, uint64_t available, void *arg)
{
	struct reader *reader = arg;

	return sample_cache_match(reader->recent, data, available, &reader->totals);
}

static int touch_sample(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
			void *arg)
{
	struct reader *reader = arg;

	for (size_t i = 0; i < (size_t)sample->kernel_frames + sample->user_frames; i++)
		reader->sum += sample->frames[i];
	reader->sum += strlen(sample->comm);
	for (size_t i = 0; stack && i < STACKBEAT_REGISTERS; i++)
		reader->sum += stack->registers[i];
	for (size_t i = 0; stack && i < stack->size; i++)
		reader->sum += stack->bytes[i];
	reader->samples++;
	if (reader->recent)
		sample_cache_insert(reader->recent, sample, &reader->stack);
	else if (!(sample->hash & 1))
		sample_set_hash((struct stackbeat_sample *)sample);
	return 0;
}

static int decode(const uint8_t *ring, uint64_t tail, uint64_t head, struct reader *reader)
{
	struct error error;
	int err = decode_records(ring, RING_SIZE, &tail, head, reader->recent ? take_repeats : NULL,
				 touch_sample, reader, &error);

	if (tail != head)
		abort();
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader plain = {0}, knowing = {0};
	uint64_t tail, head;
	uint8_t *ring;
	int err;

	if (size < sizeof(tail) + sizeof(head))
		return 0;
	memcpy(&tail, data, sizeof(tail));
	memcpy(&head, data + sizeof(tail), sizeof(head));
	data += sizeof(tail) + sizeof(head);
	size -= sizeof(tail) + sizeof(head);
	ring = calloc(1, RING_SIZE);
	if (!ring)
		abort();
	memcpy(ring, data, size < RING_SIZE ? size : RING_SIZE);
	err = decode(ring, tail, head, &plain);
	if (plain.samples > 1) {
		knowing.recent = sample_cache_new(true, true, true);
		if (!knowing.recent || decode(ring, tail, head, &knowing) != err ||
		    knowing.samples + knowing.totals.samples != plain.samples)
			abort();
		sample_cache_free(knowing.recent);
	}
	free(ring);
	return 0;
}

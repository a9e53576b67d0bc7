// SPDX-License-Identifier: GPL-2.0
#include "record/sample_queue.h"

#include "lib/array.h"
#include "process/address_space.h"
#include "record/stack_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A sample that waits. */
struct waiting {
	uint64_t space;
	uint64_t time;
	size_t offset; /* in bytes[] */
	uint32_t generation;
};

struct sample_queue {
	struct address_spaces *spaces;
	struct stack_table *profile;
	bool settled;
	uint64_t *bytes; /* records, each behind the other */
	size_t used, capacity; /* words */
	struct waiting *list;
	size_t count, list_capacity;
	uint64_t hasty;
};

struct sample_queue *sample_queue_new(struct address_spaces *spaces, struct stack_table *profile)
{
	struct sample_queue *intake = calloc(1, sizeof(*intake));

	if (!intake)
		return NULL;
	intake->spaces = spaces;
	intake->profile = profile;
	return intake;
}

void sample_queue_free(struct sample_queue *intake)
{
	if (!intake)
		return;
	free(intake->bytes);
	free(intake->list);
	free(intake);
}

void sample_queue_begin(struct sample_queue *intake, bool settled)
{
	intake->settled = settled;
}

static int wait(struct sample_queue *intake, const struct stackbeat_sample *sample)
{
	size_t words = sample->record.size / sizeof(*intake->bytes);

	if (array_reserve(&intake->bytes, &intake->capacity, intake->used, words,
			  sizeof(*intake->bytes)) ||
	    array_reserve(&intake->list, &intake->list_capacity, intake->count, 1,
			  sizeof(*intake->list)))
		return -ENOMEM;
	memcpy(intake->bytes + intake->used, sample, sample->record.size);
	intake->list[intake->count++] = (struct waiting){
		.space = sample->address_space,
		.time = sample->time,
		.offset = intake->used,
		.generation = sample->generation,
	};
	intake->used += words;
	return 0;
}

/* By space, in the order of its generations, and in that of their coming. */
static int compare_waiting(const void *a, const void *b)
{
	const struct waiting *left = a, *right = b;

	if (left->space != right->space)
		return left->space < right->space ? -1 : 1;
	if (left->generation != right->generation)
		return left->generation < right->generation ? -1 : 1;
	return (left->offset > right->offset) - (left->offset < right->offset);
}

static int add(struct sample_queue *intake, const struct waiting *waiting)
{
	const struct stackbeat_sample *sample = (const void *)(intake->bytes + waiting->offset);
	struct address_space *space =
		address_spaces_get(intake->spaces, sample->address_space, sample->pid);
	int err = space ? address_space_advance(space, sample->generation) : -ENOMEM;

	return err ? err : stack_table_add(sample, intake->profile);
}

/* Moves the samples that go on waiting to the beginning. */
static void compact(struct sample_queue *intake)
{
	uint64_t *bytes = intake->bytes;
	size_t used = 0;

	for (size_t i = 0; i < intake->count; i++) {
		const struct stackbeat_sample *sample =
			(const void *)(bytes + intake->list[i].offset);
		size_t words = sample->record.size / sizeof(*bytes);

		memmove(bytes + used, bytes + intake->list[i].offset, words * sizeof(*bytes));
		intake->list[i].offset = used;
		used += words;
	}
	intake->used = used;
}

static int compare_offsets(const void *a, const void *b)
{
	const struct waiting *left = a, *right = b;

	return (left->offset > right->offset) - (left->offset < right->offset);
}

int sample_queue_flush(struct sample_queue *intake, uint64_t seen)
{
	size_t kept = 0;
	int err = 0;

	if (!intake->count)
		return 0;
	qsort(intake->list, intake->count, sizeof(*intake->list), compare_waiting);
	for (size_t i = 0; i < intake->count && !err; i++) {
		if (intake->list[i].time <= seen)
			err = add(intake, &intake->list[i]);
		else
			intake->list[kept++] = intake->list[i];
	}
	intake->count = kept;
	/* Each is moved down, over what was before it. */
	if (kept)
		qsort(intake->list, kept, sizeof(*intake->list), compare_offsets);
	compact(intake);
	return err;
}

uint64_t sample_queue_repeat(const void *data, uint64_t available, void *arg)
{
	return stack_table_repeat(((struct sample_queue *)arg)->profile, data, available);
}

int sample_queue_sample(const struct stackbeat_sample *sample, void *arg)
{
	struct sample_queue *intake = arg;
	struct address_space *space =
		address_spaces_get(intake->spaces, sample->address_space, sample->pid);
	int err;

	if (!space)
		return -ENOMEM;
	if (address_space_ready(space, sample->generation, intake->settled))
		return stack_table_add(sample, intake->profile);
	err = wait(intake, sample);
	if (err || intake->used * sizeof(*intake->bytes) < SAMPLE_QUEUE_BYTES_MAX)
		return err;
	intake->hasty += intake->count;
	return sample_queue_flush(intake, UINT64_MAX);
}

uint64_t sample_queue_early(const struct sample_queue *intake)
{
	return intake->hasty;
}

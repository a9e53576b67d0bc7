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

struct intake {
	struct spaces *spaces;
	struct profile *profile;
	bool settled;
	uint64_t *bytes; /* records, each behind the other */
	size_t used, capacity; /* words */
	struct waiting *list;
	size_t count, list_capacity;
	uint64_t hasty;
};

struct intake *intake_new(struct spaces *spaces, struct profile *profile)
{
	struct intake *intake = calloc(1, sizeof(*intake));

	if (!intake)
		return NULL;
	intake->spaces = spaces;
	intake->profile = profile;
	return intake;
}

void intake_free(struct intake *intake)
{
	if (!intake)
		return;
	free(intake->bytes);
	free(intake->list);
	free(intake);
}

void intake_begin(struct intake *intake, bool settled)
{
	intake->settled = settled;
}

static int wait(struct intake *intake, const struct stackbeat_sample *sample)
{
	size_t words = sample->record.size / sizeof(*intake->bytes);

	if (array_reserve(&intake->bytes, &intake->capacity, intake->used, words,
			  sizeof(*intake->bytes)) ||
	    array_reserve(&intake->list, &intake->list_capacity, intake->count, 1,
			  sizeof(*intake->list)))
		return -ENOMEM;
	memcpy(intake->bytes + intake->used, sample, sample->record.size);
	intake->list[intake->count++] = (struct waiting){
		.space = sample->space,
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

static int add(struct intake *intake, const struct waiting *waiting)
{
	const struct stackbeat_sample *sample = (const void *)(intake->bytes + waiting->offset);
	struct space *space = spaces_get(intake->spaces, sample->space, sample->pid);
	int err = space ? space_advance(space, sample->generation) : -ENOMEM;

	return err ? err : profile_add(sample, intake->profile);
}

/* Moves the samples that go on waiting to the beginning. */
static void compact(struct intake *intake)
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

int intake_settle(struct intake *intake, uint64_t seen)
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

uint64_t intake_repeat(const void *data, uint64_t available, void *arg)
{
	return profile_repeat(((struct intake *)arg)->profile, data, available);
}

int intake_sample(const struct stackbeat_sample *sample, void *arg)
{
	struct intake *intake = arg;
	struct space *space = spaces_get(intake->spaces, sample->space, sample->pid);
	int err;

	if (!space)
		return -ENOMEM;
	if (space_ready(space, sample->generation, intake->settled))
		return profile_add(sample, intake->profile);
	err = wait(intake, sample);
	if (err || intake->used * sizeof(*intake->bytes) < INTAKE_BYTES_MAX)
		return err;
	intake->hasty += intake->count;
	return intake_settle(intake, UINT64_MAX);
}

uint64_t intake_hasty(const struct intake *intake)
{
	return intake->hasty;
}

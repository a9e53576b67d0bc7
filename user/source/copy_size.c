// SPDX-License-Identifier: GPL-2.0
#include "source/copy_size.h"

#include <sys/param.h>

/* A size shrinks if one in 1,024 samples needs more, at most, and grows if more than one in 256 do.
 */
#define SHRINK_SHARE 1024u
#define GROW_SHARE 256u
/* A few stacks that were cut are chance. */
#define GROW_COUNT_MIN 4u
#define PATIENCE_MIN 256u
#define PATIENCE_MAX (64u << 10)

uint32_t copy_size_bytes(unsigned int step)
{
	return COPY_SIZE_MIN << step;
}

static uint8_t copy_size_step_of(uint32_t bytes)
{
	uint8_t step = 0;

	while (step + 1 < (int)COPY_SIZE_STEPS && copy_size_bytes(step) < bytes)
		step++;
	return step;
}

void copy_size_init(struct copy_size *size, uint32_t start, uint32_t max)
{
	const uint8_t step = copy_size_step_of(start);

	*size = (struct copy_size){
		.patience = PATIENCE_MIN,
		.step = step,
		.start = step,
		.max = copy_size_step_of(max),
	};
}

void copy_size_note(struct copy_size *size, uint64_t need)
{
	size->samples++;
	for (unsigned int step = 0; step < COPY_SIZE_STEPS && need > copy_size_bytes(step); step++)
		size->above[step]++;
}

void copy_size_lost(struct copy_size *size)
{
	size->max = size->start;
}

static void copy_size_set(struct copy_size *size, uint8_t step)
{
	size->step = step;
	size->samples = 0;
	for (unsigned int i = 0; i < COPY_SIZE_STEPS; i++)
		size->above[i] = 0;
}

/*
 * What is beyond a copy is not known: a size that has shrunk goes back at once. The
 * stacks that were cut are the price of an attempt: the next one waits for four times as many.
 */
static void copy_size_grow(struct copy_size *size)
{
	const bool was_shrunk = size->has_shrunk;

	if (was_shrunk && size->patience < PATIENCE_MAX)
		size->patience *= 4;
	size->has_shrunk = false;
	copy_size_set(size, was_shrunk ? MIN(size->before, size->max) : size->step + 1);
}

/* Returns the smallest step that is enough for almost all. */
static uint8_t copy_size_enough(const struct copy_size *size)
{
	uint8_t step = 0;

	while (step < size->step && size->above[step] > size->samples / SHRINK_SHARE)
		step++;
	return step;
}

bool copy_size_choose(struct copy_size *size)
{
	const uint32_t cut = size->above[size->step];
	uint8_t enough;

	if (size->step > size->max) {
		copy_size_set(size, size->max);
		return true;
	}
	if (size->step < size->max && cut >= GROW_COUNT_MIN && cut > size->samples / GROW_SHARE) {
		copy_size_grow(size);
		return true;
	}
	if (size->samples < size->patience)
		return false;
	enough = copy_size_enough(size);
	if (enough < size->step) {
		if (!size->has_shrunk)
			size->before = size->step;
		size->has_shrunk = true;
		copy_size_set(size, enough);
		return true;
	}
	size->samples /= 2;
	for (unsigned int i = 0; i < COPY_SIZE_STEPS; i++)
		size->above[i] /= 2;
	return false;
}

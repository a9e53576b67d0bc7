/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many bytes of each user stack a CPU copies: as many as its stacks need. The sizes are
 * COPY_SIZE_MIN and its doubles. A size shrinks when almost no stack of many has needed more, and
 * grows as soon as some are cut.
 */
#ifndef STACKBEAT_SOURCE_COPY_SIZE_H
#define STACKBEAT_SOURCE_COPY_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#define COPY_SIZE_MIN (2u << 10) /* bytes */
#define COPY_SIZE_STEPS 5u

struct copy_size {
	uint32_t samples; /* since the size was chosen; older ones fade */
	uint32_t above[COPY_SIZE_STEPS]; /* of these, how many need more than the step */
	uint32_t patience; /* samples after which it may shrink */
	uint8_t step; /* COPY_SIZE_MIN << step */
	uint8_t start, max; /* steps */
	uint8_t before; /* the step from which it has shrunk */
	bool has_shrunk;
};

/* `start` and `max`: bytes, which are sizes; start <= max. */
void copy_size_init(struct copy_size *size, uint32_t start, uint32_t max);

/* Returns the bytes of a step. */
uint32_t copy_size_bytes(unsigned int step);

/* Counts a stack, of which a walk needs this many bytes. */
void copy_size_note(struct copy_size *size, uint64_t need);

/* A ring has lost samples: the size does not grow beyond its start from now on. */
void copy_size_lost(struct copy_size *size);

/* Chooses the size by what was counted. Returns whether it has changed. */
bool copy_size_choose(struct copy_size *size);

#endif

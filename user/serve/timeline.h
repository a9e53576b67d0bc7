/* SPDX-License-Identifier: GPL-2.0 */
/* CPU time by service over the equal steps of a time range, for a chart. */
#ifndef STACKBEAT_SERVE_TIMELINE_H
#define STACKBEAT_SERVE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/string_table.h"

struct services;

struct timeline_service {
	const char *name; /* NULL: the sum of others */
	int64_t sum_ns;
	int64_t *cpu_ns; /* of each step; NULL before timeline_finish() */
};

/* All zero before timeline_init(). Members are public to be read. */
struct timeline {
	int64_t from_us, until_us; /* since 1970 */
	uint32_t steps;
	struct timeline_service *items;
	size_t count, capacity;
	size_t others; /* services in the sum of others */
	/* Private. A machine may have had many services, of short times. */
	struct string_table names; /* numbered as the items, until they are sorted */
	struct timeline_part *parts;
	size_t part_count, part_capacity;
	int64_t *cpu_ns; /* of the items */
};

/* Sets the range and the number of steps, both of at least 1. */
void timeline_init(struct timeline *timeline, int64_t from_us, int64_t until_us, uint32_t steps);

/*
 * Adds the sums of a window, which may be partly outside the range. The CPU time of a window is
 * spread evenly over its time; its part inside the range is exact to a nanosecond. Returns 0 or
 * -ENOMEM; timeline_clear() is to be called in both cases.
 */
int timeline_add(struct timeline *timeline, const struct services *services, int64_t start_us,
		 int64_t end_us);

/*
 * Sorts the services by CPU time, the largest first, sums those after the first `max`, at least 1,
 * up in a last one without a name, and sets the CPU times of the steps. Nothing can be added
 * afterwards. Returns 0 or -ENOMEM.
 */
int timeline_finish(struct timeline *timeline, size_t max);
void timeline_clear(struct timeline *timeline);

#endif

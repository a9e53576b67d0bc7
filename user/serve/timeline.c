// SPDX-License-Identifier: GPL-2.0
#include "serve/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "pprof/service.h"

/* A service in a window. */
struct timeline_part {
	uint32_t service;
	int64_t cpu_ns, start_us, end_us;
};

void timeline_init(struct timeline *timeline, int64_t from_us, int64_t until_us, uint32_t steps)
{
	*timeline = (struct timeline){.from_us = from_us, .until_us = until_us, .steps = steps};
}

/* Returns the number of a service, or STRING_NONE without memory. */
static uint32_t timeline_find_service(struct timeline *timeline, const char *name)
{
	uint32_t index;

	if (array_reserve(&timeline->items, &timeline->capacity, timeline->count, 1,
			  sizeof(*timeline->items)))
		return STRING_NONE;
	index = string_table_add(&timeline->names, name, strlen(name));
	if (index == timeline->count)
		timeline->items[timeline->count++] =
			(struct timeline_service){.name = timeline->names.items[index]};
	return index;
}

/* The start of a step; the end of the last one for timeline->steps. */
static int64_t step_start(const struct timeline *timeline, size_t step)
{
	const int64_t length = timeline->until_us - timeline->from_us, steps = timeline->steps;
	const int64_t number = (int64_t)step;

	/* length * number / steps, which would overflow. */
	return timeline->from_us + length / steps * number + length % steps * number / steps;
}

/* The step of a time inside the range. */
static size_t step_of(const struct timeline *timeline, int64_t time_us)
{
	const int64_t shortest_us = (timeline->until_us - timeline->from_us) / timeline->steps;
	size_t step = timeline->steps - 1;

	if (shortest_us)
		step = MIN(step, (size_t)((time_us - timeline->from_us) / shortest_us));
	while (step && step_start(timeline, step) > time_us)
		step--;
	return step;
}

/* The CPU time of a window up to a time: differences of it have an exact sum. */
static int64_t part_until(int64_t cpu_ns, int64_t start_us, int64_t end_us, int64_t time_us)
{
	return (int64_t)((__int128)cpu_ns * (time_us - start_us) / (end_us - start_us));
}

/* A sum that would overflow stays at the maximum: the files may be damaged. */
static void timeline_add_saturated(int64_t *sum, int64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = INT64_MAX;
}

static int64_t part_between(const struct timeline_part *part, int64_t from_us, int64_t until_us)
{
	return part_until(part->cpu_ns, part->start_us, part->end_us, until_us) -
	       part_until(part->cpu_ns, part->start_us, part->end_us, from_us);
}

static int timeline_add_part(struct timeline *timeline, const struct timeline_part *part)
{
	if (array_reserve(&timeline->parts, &timeline->part_capacity, timeline->part_count, 1,
			  sizeof(*timeline->parts)))
		return -ENOMEM;
	timeline->parts[timeline->part_count++] = *part;
	timeline_add_saturated(&timeline->items[part->service].sum_ns,
			       part_between(part, MAX(part->start_us, timeline->from_us),
					    MIN(part->end_us, timeline->until_us)));
	return 0;
}

static void timeline_spread_part(const struct timeline *timeline, const struct timeline_part *part,
				 int64_t *cpu_ns)
{
	const int64_t until_us = MIN(part->end_us, timeline->until_us);
	int64_t time_us = MAX(part->start_us, timeline->from_us);

	for (size_t step = step_of(timeline, time_us); time_us < until_us; step++) {
		const int64_t next_us = MIN(step_start(timeline, step + 1), until_us);

		timeline_add_saturated(&cpu_ns[step], part_between(part, time_us, next_us));
		time_us = next_us;
	}
}

int timeline_add(struct timeline *timeline, const struct services *services, int64_t start_us,
		 int64_t end_us)
{
	int err = 0;

	if (start_us >= end_us || end_us <= timeline->from_us || start_us >= timeline->until_us)
		return 0;
	for (size_t i = 0; i < services->count && !err; i++) {
		const struct timeline_part part = {
			.service = timeline_find_service(timeline, services->items[i].name),
			.cpu_ns = services->items[i].cpu_ns,
			.start_us = start_us,
			.end_us = end_us,
		};

		err = part.service == STRING_NONE ? -ENOMEM : timeline_add_part(timeline, &part);
	}
	return err;
}

static int timeline_compare_services(const void *left, const void *right)
{
	const struct timeline_service *a = left, *b = right;

	if (a->sum_ns != b->sum_ns)
		return a->sum_ns < b->sum_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

/* Replaces the services after the first `max` by their sum. */
static void sum_others(struct timeline *timeline, size_t max)
{
	struct timeline_service others = {.name = NULL};

	for (size_t i = max; i < timeline->count; i++)
		timeline_add_saturated(&others.sum_ns, timeline->items[i].sum_ns);
	timeline->others = timeline->count - max;
	timeline->items[max] = others;
	timeline->count = max + 1;
}

/* `places`: of the services, by the numbers of their names. */
static int set_steps(struct timeline *timeline, const uint32_t *places)
{
	timeline->cpu_ns = calloc(timeline->count + 1, timeline->steps * sizeof(*timeline->cpu_ns));
	if (!timeline->cpu_ns)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->count; i++)
		timeline->items[i].cpu_ns = timeline->cpu_ns + i * timeline->steps;
	for (size_t i = 0; i < timeline->part_count; i++) {
		const struct timeline_part *part = &timeline->parts[i];
		size_t place = MIN(places[part->service], timeline->count - 1);

		timeline_spread_part(timeline, part, timeline->items[place].cpu_ns);
	}
	return 0;
}

int timeline_finish(struct timeline *timeline, size_t max)
{
	uint32_t *places = calloc(timeline->count + 1, sizeof(*places));
	int err;

	if (!places)
		return -ENOMEM;
	if (timeline->count)
		qsort(timeline->items, timeline->count, sizeof(*timeline->items),
		      timeline_compare_services);
	for (size_t i = 0; i < timeline->count; i++)
		places[string_table_find(&timeline->names, timeline->items[i].name)] = (uint32_t)i;
	if (timeline->count > max)
		sum_others(timeline, max);
	err = set_steps(timeline, places);
	free(places);
	return err;
}

void timeline_clear(struct timeline *timeline)
{
	free(timeline->items);
	free(timeline->cpu_ns);
	free(timeline->parts);
	string_table_clear(&timeline->names);
	*timeline = (struct timeline){0};
}

// SPDX-License-Identifier: GPL-2.0
#include "serve/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "pprof/service.h"

void timeline_init(struct timeline *timeline, int64_t from_us, int64_t until_us, size_t steps)
{
	*timeline = (struct timeline){.from_us = from_us, .until_us = until_us, .steps = steps};
}

/* `hint`: where it may be. Windows list their services in similar orders. */
static struct timeline_service *find_service(struct timeline *timeline, const char *name,
					     size_t hint)
{
	struct timeline_service *service;

	if (hint < timeline->count && !strcmp(timeline->items[hint].name, name))
		return &timeline->items[hint];
	for (size_t i = 0; i < timeline->count; i++) {
		if (!strcmp(timeline->items[i].name, name))
			return &timeline->items[i];
	}
	if (array_reserve(&timeline->items, &timeline->capacity, timeline->count, 1,
			  sizeof(*timeline->items)))
		return NULL;
	service = &timeline->items[timeline->count];
	service->name = strdup(name);
	service->cpu_ns = calloc(timeline->steps, sizeof(*service->cpu_ns));
	service->sum_ns = 0;
	if (!service->name || !service->cpu_ns) {
		free(service->name);
		free(service->cpu_ns);
		return NULL;
	}
	timeline->count++;
	return service;
}

/* The start of a step; the end of the last one for timeline->steps. */
static int64_t step_start(const struct timeline *timeline, size_t step)
{
	const int64_t length = timeline->until_us - timeline->from_us;

	return timeline->from_us +
	       (int64_t)((__int128)length * (int64_t)step / (int64_t)timeline->steps);
}

/* The step of a time inside the range. */
static size_t step_of(const struct timeline *timeline, int64_t time_us)
{
	const int64_t length = timeline->until_us - timeline->from_us;
	size_t step = (size_t)((__int128)(time_us - timeline->from_us) * (int64_t)timeline->steps /
			       length);

	/* step_start() is rounded down. */
	while (step + 1 < timeline->steps && step_start(timeline, step + 1) <= time_us)
		step++;
	return step;
}

/* The CPU time of a window up to a time: differences of it have an exact sum. */
static int64_t part_until(int64_t cpu_ns, int64_t start_us, int64_t end_us, int64_t time_us)
{
	return (int64_t)((__int128)cpu_ns * (time_us - start_us) / (end_us - start_us));
}

/* A sum that would overflow stays at the maximum: the files may be damaged. */
static void add_to(int64_t *sum, int64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = INT64_MAX;
}

static void spread(const struct timeline *timeline, struct timeline_service *service,
		   int64_t cpu_ns, int64_t start_us, int64_t end_us)
{
	const int64_t until_us = MIN(end_us, timeline->until_us);
	int64_t time_us = MAX(start_us, timeline->from_us);

	for (size_t step = step_of(timeline, time_us); time_us < until_us; step++) {
		const int64_t next_us = MIN(step_start(timeline, step + 1), until_us);
		const int64_t part = part_until(cpu_ns, start_us, end_us, next_us) -
				     part_until(cpu_ns, start_us, end_us, time_us);

		add_to(&service->cpu_ns[step], part);
		add_to(&service->sum_ns, part);
		time_us = next_us;
	}
}

int timeline_add(struct timeline *timeline, const struct services *services, int64_t start_us,
		 int64_t end_us)
{
	if (start_us >= end_us || end_us <= timeline->from_us || start_us >= timeline->until_us)
		return 0;
	for (size_t i = 0; i < services->count; i++) {
		struct timeline_service *service =
			find_service(timeline, services->items[i].name, i);

		if (!service)
			return -ENOMEM;
		spread(timeline, service, services->items[i].cpu_ns, start_us, end_us);
	}
	return 0;
}

static int compare_services(const void *left, const void *right)
{
	const struct timeline_service *a = left, *b = right;

	if (a->sum_ns != b->sum_ns)
		return a->sum_ns < b->sum_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

static void merge_into(const struct timeline *timeline, struct timeline_service *others,
		       struct timeline_service *service)
{
	for (size_t step = 0; step < timeline->steps; step++)
		add_to(&others->cpu_ns[step], service->cpu_ns[step]);
	add_to(&others->sum_ns, service->sum_ns);
	free(service->name);
	free(service->cpu_ns);
}

void timeline_reduce(struct timeline *timeline, size_t max)
{
	struct timeline_service *others;

	if (timeline->count)
		qsort(timeline->items, timeline->count, sizeof(*timeline->items), compare_services);
	if (timeline->count <= max)
		return;
	others = &timeline->items[max];
	timeline->others = timeline->count - max;
	for (size_t i = max + 1; i < timeline->count; i++)
		merge_into(timeline, others, &timeline->items[i]);
	free(others->name);
	others->name = NULL;
	timeline->count = max + 1;
}

void timeline_clear(struct timeline *timeline)
{
	for (size_t i = 0; i < timeline->count; i++) {
		free(timeline->items[i].name);
		free(timeline->items[i].cpu_ns);
	}
	free(timeline->items);
	*timeline = (struct timeline){0};
}

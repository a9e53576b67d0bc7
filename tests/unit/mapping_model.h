/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of mappings/mapping_history.h: the words of stackbeat.h ("Address spaces"), taken
 * literally, without regard to speed. It shares no code with the history. The unit test and the
 * fuzzer compare their lookups.
 *
 * model_simulate() plays the kernel's side: a process that maps and unmaps, and the records that
 * the kernel sends. model_find() gives the mapping of an address according to these records.
 */
#ifndef STACKBEAT_TEST_MAPPING_MODEL_H
#define STACKBEAT_TEST_MAPPING_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mappings/mapping_history.h"

#define MODEL_ADDRESSES 12u
#define MODEL_STEPS 24u
#define MODEL_RECORDS_MAX 128u
#define MODEL_SNAPSHOTS_MAX 4u
/* A step may take two generations, the first one is 1. */
#define MODEL_GENERATIONS (2 * MODEL_STEPS + 2)

/* Random choices: from the input of a fuzzer, or from a seed if `bytes` is NULL. */
struct choices {
	const uint8_t *bytes;
	size_t left; /* of `bytes`; then 0 is chosen */
	uint64_t seed;
};

static inline uint32_t below(struct choices *choices, uint32_t limit)
{
	if (choices->bytes) {
		if (!choices->left)
			return 0;
		choices->left--;
		return *choices->bytes++ % limit;
	}
	choices->seed = choices->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(choices->seed >> 33) % limit;
}

struct record {
	enum { SNAPSHOT, MAPPING, EVENT } type;
	uint32_t generation;
	uint32_t gap;
	struct mapping mapping;
};

struct model {
	struct record records[MODEL_RECORDS_MAX];
	size_t count;
};

/* The identity of the process's mappings at the end of each generation; 0: no mapping. */
struct truth {
	uint64_t identity[MODEL_GENERATIONS][MODEL_ADDRESSES];
};

static inline void model_add(struct model *model, const struct record *record)
{
	if (model->count == MODEL_RECORDS_MAX)
		abort();
	model->records[model->count++] = *record;
}

/* Adds a record to a history. Returns 0 or -ENOMEM. */
static inline int model_add_to_history(struct mapping_history *history, const struct record *record,
				       uint64_t *dropped)
{
	if (record->type == SNAPSHOT)
		return mapping_history_add_snapshot(history, record->generation, record->gap,
						    false);
	if (record->type == MAPPING)
		return mapping_history_add_mapping(history, record->generation, &record->mapping,
						   dropped);
	return mapping_history_add_event(history, record->generation, &record->mapping, dropped);
}

/* Returns what distinguishes mappings of different contents; 0 for NULL. */
static inline uint64_t mapping_identity(const struct mapping *mapping)
{
	return mapping ? mapping->bias << 8 | mapping->segment : 0;
}

/* Lookups */

static inline bool holds(const struct record *record, uint64_t address)
{
	return address >= record->mapping.start && address < record->mapping.end;
}

/* Returns the identity of the mapping of a record; 0 for NULL: no mapping, or unknown. */
static inline uint64_t identity(const struct record *record)
{
	return record ? mapping_identity(&record->mapping) : 0;
}

/* Returns the identity of an address in the snapshot at a generation. */
static inline uint64_t read_at(const struct model *model, uint32_t generation, uint64_t address)
{
	for (size_t i = 0; i < model->count; i++) {
		const struct record *record = &model->records[i];

		if (record->type == MAPPING && record->generation == generation &&
		    holds(record, address))
			return identity(record);
	}
	return 0;
}

/* Returns the latest event after `after` and up to `to` that holds an address, or NULL. */
static inline const struct record *event_between(const struct model *model, uint32_t after,
						 uint32_t to, uint64_t address)
{
	const struct record *latest = NULL;

	for (size_t i = 0; i < model->count; i++) {
		const struct record *record = &model->records[i];

		if (record->type == EVENT && record->generation > after &&
		    record->generation <= to && holds(record, address) &&
		    (!latest || record->generation > latest->generation))
			latest = record;
	}
	return latest;
}

static inline bool has_event(const struct model *model, uint32_t generation)
{
	for (size_t i = 0; i < model->count; i++) {
		if (model->records[i].type == EVENT && model->records[i].generation == generation)
			return true;
	}
	return false;
}

/* Returns the first generation after `after` that is in the gap of a snapshot, or UINT32_MAX. */
static inline uint32_t first_in_gap(const struct model *model, uint32_t after)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < model->count; i++) {
		const struct record *record = &model->records[i];

		if (record->type == SNAPSHOT && record->gap && record->generation > after &&
		    record->gap < first)
			first = record->gap;
	}
	return first > after ? first : after + 1;
}

/* Returns the first generation after `after` and up to `to` without event, or UINT32_MAX. */
static inline uint32_t first_missing(const struct model *model, uint32_t after, uint32_t to)
{
	for (uint32_t generation = after ? after + 1 : 2; generation <= to; generation++) {
		if (!has_event(model, generation))
			return generation;
	}
	return UINT32_MAX;
}

/* Finds the snapshots before and after a generation; 0 and UINT32_MAX: there is none. */
static inline void snapshots_around(const struct model *model, uint32_t generation,
				    uint32_t *before, uint32_t *after)
{
	*before = 0;
	*after = UINT32_MAX;
	for (size_t i = 0; i < model->count; i++) {
		const struct record *record = &model->records[i];

		if (record->type != SNAPSHOT)
			continue;
		if (record->generation <= generation && record->generation > *before)
			*before = record->generation;
		if (record->generation > generation && record->generation < *after)
			*after = record->generation;
	}
}

static inline uint64_t without_gap(const struct model *model, uint32_t generation, uint32_t before,
				   uint32_t after, uint64_t address)
{
	const struct record *event = event_between(model, before, generation, address);

	if (event)
		return identity(event);
	if (before)
		return read_at(model, before, address);
	if (after == UINT32_MAX || first_in_gap(model, 0) <= after ||
	    first_missing(model, 0, after) != UINT32_MAX ||
	    event_between(model, generation, after, address))
		return 0;
	return read_at(model, after, address);
}

/*
 * Returns the identity of the mapping that holds an address at a generation, as far as the records
 * show it; 0: none, or unknown.
 */
static inline uint64_t model_find(const struct model *model, uint32_t generation, uint64_t address)
{
	uint32_t before, after, gap, missing;
	uint64_t old;

	snapshots_around(model, generation, &before, &after);
	gap = first_in_gap(model, before);
	missing = first_missing(model, before, generation);
	if (gap > generation && missing > generation)
		return without_gap(model, generation, before, after, address);
	if (missing < gap)
		return 0;
	old = without_gap(model, gap - 1, before, after, address);
	if (old != read_at(model, after, address))
		return 0;
	/* Events in the gap must not contradict it. */
	for (uint32_t g = gap; g <= after; g++) {
		const struct record *event = event_between(model, g - 1, g, address);

		if (event && identity(event) != old)
			return 0;
	}
	return old;
}

/* Returns whether the records show all mappings at a generation. */
static inline bool model_is_certain(const struct model *model, uint32_t generation)
{
	uint32_t before, after;

	snapshots_around(model, generation, &before, &after);
	return before && first_in_gap(model, before) > generation &&
	       first_missing(model, before, generation) > generation;
}

/* The kernel's side */

struct kernel {
	struct choices *choices;
	struct model *model;
	struct truth *truth;
	uint64_t world[MODEL_ADDRESSES]; /* identity of the current mapping of an address */
	uint32_t generation;
	uint32_t snapshots;
	uint32_t gap; /* first lost generation, to be read again; 0: none */
	uint32_t queued; /* gap of the snapshot that is scheduled; 0: none */
};

static inline struct mapping random_mapping(struct choices *choices)
{
	struct mapping mapping = {.start = below(choices, MODEL_ADDRESSES)};

	mapping.end = mapping.start + 1 + below(choices, MODEL_ADDRESSES - (uint32_t)mapping.start);
	mapping.segment = 1 + below(choices, 3);
	mapping.bias = mapping.segment == 1 ? 0 : below(choices, 2);
	return mapping;
}

static inline void map_random_range(struct kernel *kernel, bool lost)
{
	struct record record = {.type = EVENT, .generation = ++kernel->generation};

	record.mapping = random_mapping(kernel->choices);
	for (uint64_t i = record.mapping.start; i < record.mapping.end; i++)
		kernel->world[i] = identity(&record);
	if (!lost)
		model_add(kernel->model, &record);
	else if (!kernel->gap)
		kernel->gap = record.generation;
}

static inline void take_snapshot(struct kernel *kernel)
{
	struct record record = {
		.type = SNAPSHOT, .generation = kernel->generation, .gap = kernel->queued};

	model_add(kernel->model, &record);
	for (uint64_t i = 0; i < MODEL_ADDRESSES; i++) {
		if (!kernel->world[i])
			continue;
		record = (struct record){
			.type = MAPPING,
			.generation = kernel->generation,
			.mapping = {i, i + 1, kernel->world[i] >> 8,
				    (uint32_t)kernel->world[i] & 0xff},
		};
		model_add(kernel->model, &record);
	}
	kernel->snapshots++;
	kernel->queued = 0;
}

static inline void note_truth(const struct kernel *kernel)
{
	memcpy(kernel->truth->identity[kernel->generation], kernel->world, sizeof(kernel->world));
}

/*
 * A process that maps and unmaps, and a kernel that takes snapshots now and then, and may not
 * sample the process again. If `lossy`, it loses events. Returns the last generation.
 */
static inline uint32_t model_simulate(struct choices *choices, bool lossy, struct model *model,
				      struct truth *truth)
{
	struct kernel kernel = {choices, model, truth, .generation = 1};

	model->count = 0;
	for (uint32_t step = 1; step < MODEL_STEPS; step++) {
		if (below(choices, 3))
			map_random_range(&kernel, lossy && !below(choices, 6));
		else
			kernel.world[below(choices, MODEL_ADDRESSES)] = 0; /* not reported */
		note_truth(&kernel);
		if (kernel.gap && !kernel.queued && kernel.snapshots < MODEL_SNAPSHOTS_MAX &&
		    !below(choices, 2)) {
			kernel.queued = kernel.gap;
			kernel.gap = 0;
			kernel.generation++; /* each snapshot has its own generation */
			note_truth(&kernel);
		}
		if (kernel.snapshots ? kernel.queued && below(choices, 2) : !below(choices, 4))
			take_snapshot(&kernel);
	}
	if (!kernel.snapshots || kernel.queued)
		take_snapshot(&kernel);
	return kernel.generation;
}

static inline void model_shuffle(struct choices *choices, struct model *model)
{
	for (size_t i = model->count - 1; i > 0; i--) {
		size_t j = below(choices, (uint32_t)i + 1);
		struct record other = model->records[i];

		model->records[i] = model->records[j];
		model->records[j] = other;
	}
}

#endif

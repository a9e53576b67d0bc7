// SPDX-License-Identifier: GPL-2.0
/*
 * The mapping history of an address space. The first byte of the input selects one of two kinds:
 * - choices of a simulated kernel and reader, whose lookups must match the model of the unit test;
 * - records and lookups of 8 bytes each, which may contradict each other. A mapping that is found
 *   must then be the mapping of a record with this address.
 */
#include "fuzz.h"

#include "mapping_model.h"
#include "mappings/mapping_history.h"

#include <stdbool.h>
#include <stdio.h>

/* Simulated kernels */

struct run {
	struct choices choices;
	struct mapping_history *history;
	struct model all, arrived; /* records */
	struct truth truth;
	uint32_t position; /* last generation that was looked up */
	bool late; /* a lookup came before a record that it depends on */
};

static bool any_snapshot(const struct model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		if (model->records[i].type != EVENT)
			return true;
	}
	return false;
}

/* Returns whether a snapshot has arrived in part. */
static bool is_partial(const struct run *run)
{
	for (size_t i = 0; i < run->arrived.count; i++) {
		const struct record *here = &run->arrived.records[i];

		for (size_t j = run->arrived.count; here->type != EVENT && j < run->all.count;
		     j++) {
			const struct record *missing = &run->all.records[j];

			if (missing->type != EVENT && missing->generation == here->generation)
				return true;
		}
	}
	return false;
}

/* Returns whether all records up to a generation, and gaps that begin there, have arrived. */
static bool has_arrived(const struct run *run, uint32_t generation)
{
	for (size_t i = run->arrived.count; i < run->all.count; i++) {
		const struct record *record = &run->all.records[i];

		if (record->generation <= generation || (record->gap && record->gap <= generation))
			return false;
	}
	return true;
}

static void add_next_record(struct run *run)
{
	const struct record *record = &run->all.records[run->arrived.count];
	uint64_t dropped = 0;

	run->late |= record->generation <= run->position ||
		     (record->gap && record->gap <= run->position);
	model_add(&run->arrived, record);
	if (model_add_to_history(run->history, record, &dropped) || dropped)
		abort();
}

/* Prints the records that have arrived, and what is wrong. */
static void fail(const struct run *run, uint32_t generation, uint32_t address, uint64_t found,
		 uint64_t right)
{
	for (size_t i = 0; i < run->arrived.count; i++) {
		const struct record *record = &run->arrived.records[i];

		fprintf(stderr, "type %d, generation %u, gap %u: %lu to %lu in %lx\n",
			(int)record->type, record->generation, record->gap, record->mapping.start,
			record->mapping.end, mapping_identity(&record->mapping));
	}
	fprintf(stderr, "at generation %u%s, %u is in %lx, not in %lx\n", generation,
		run->late ? " (a record was late)" : "", address, found, right);
	abort();
}

/* A late record may leave a mapping unknown, but never yields a wrong one. */
static void compare_lookups(struct run *run, uint32_t generation)
{
	bool exact = !run->late && generation >= run->position;
	bool certain = mapping_history_is_certain(run->history, generation);

	if (exact && certain != model_is_certain(&run->arrived, generation))
		abort();
	for (uint32_t address = 0; address < MODEL_ADDRESSES; address++) {
		uint64_t found =
			mapping_identity(mapping_history_find(run->history, generation, address));
		uint64_t right = model_find(&run->arrived, generation, address);

		if (found != right && (exact || (found && right)))
			fail(run, generation, address, found, right);
		if (exact && certain && !found && has_arrived(run, generation) &&
		    run->truth.identity[generation][address])
			fail(run, generation, address, 0, run->truth.identity[generation][address]);
	}
}

static void look_up(struct run *run, uint32_t generation)
{
	if (!mapping_history_ready(run->history, generation, below(&run->choices, 2)) &&
	    mapping_history_advance(run->history, generation))
		abort();
	if (!any_snapshot(&run->arrived))
		return;
	if (is_partial(run))
		run->late = true;
	else
		compare_lookups(run, generation);
	if (generation > run->position)
		run->position = generation;
}

static void run_kernel(struct run *run)
{
	uint32_t last =
		model_simulate(&run->choices, below(&run->choices, 2), &run->all, &run->truth);
	bool at_once = below(&run->choices, 2);

	run->arrived.count = 0;
	run->position = 0;
	run->late = false;
	run->history = mapping_history_new();
	if (!run->history)
		abort();
	if (below(&run->choices, 2))
		model_shuffle(&run->choices, &run->all);
	while (run->arrived.count < run->all.count) {
		add_next_record(run);
		if (!at_once && !below(&run->choices, 4))
			look_up(run, 1 + below(&run->choices, last));
	}
	for (uint32_t generation = 1; generation <= last; generation++) {
		if (below(&run->choices, 3))
			look_up(run, generation);
	}
	mapping_history_free(run->history);
}

static void run_kernels(const uint8_t *data, size_t size)
{
	struct run run = {.choices = {.bytes = data, .left = size}};

	while (run.choices.left)
		run_kernel(&run);
}

/* Contradictory records */

#define STEPS_MAX 256u

/* Small numbers, so that ranges and generations overlap. */
struct step {
	uint8_t type, generation, other, segment;
	uint8_t start, length, bias, high;
};

enum { STEP_SNAPSHOT, STEP_MAPPING, STEP_EVENT, STEP_EVENT_TOO, STEP_FIND, STEP_QUERY, STEP_TYPES };

struct steps {
	struct step list[STEPS_MAX];
	size_t count;
	struct mapping_history *history;
};

static struct mapping mapping_of(const struct step *step)
{
	/* At the end of all addresses, too. */
	uint64_t base = step->high & 1 ? 0x1000 * (uint64_t)step->start
				       : UINT64_MAX - 0x1000 * (uint64_t)step->start;
	uint64_t length = 0x1000 * ((uint64_t)step->length + 1);

	if (length > UINT64_MAX - base)
		length = UINT64_MAX - base;
	if (!length)
		base--;
	return (struct mapping){.start = base,
				.end = base + (length ? length : 1),
				.bias = step->bias,
				.segment = step->segment};
}

/* Returns whether a record of the first steps has this address in a mapping like the one found. */
static bool has_record(const struct steps *steps, size_t count, const struct mapping *found,
		       uint64_t address)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t type = steps->list[i].type % STEP_TYPES;
		const struct mapping mapping = mapping_of(&steps->list[i]);

		if ((type == STEP_MAPPING || type == STEP_EVENT || type == STEP_EVENT_TOO) &&
		    address >= mapping.start && address < mapping.end &&
		    mapping_identity(&mapping) == mapping_identity(found))
			return true;
	}
	return false;
}

static void find(const struct steps *steps, size_t at, uint32_t generation, uint64_t address)
{
	const struct mapping *found = mapping_history_find(steps->history, generation, address);

	if (found && (address < found->start || address >= found->end ||
		      !has_record(steps, at, found, address)))
		abort();
}

static void see_segment(uint32_t segment, void *arg)
{
	*(uint32_t *)arg += segment;
}

static void apply(const struct steps *steps, size_t at)
{
	const struct step *step = &steps->list[at];
	struct mapping_history *history = steps->history;
	/* Generations may be as high as they get. */
	uint32_t generation = step->high & 2 ? UINT32_MAX - step->generation : step->generation;
	const struct mapping mapping = mapping_of(step);
	uint64_t dropped = 0;
	uint32_t sum = 0;
	int err = 0;

	switch (step->type % STEP_TYPES) {
	case STEP_SNAPSHOT:
		err = mapping_history_add_snapshot(history, generation,
						   step->other > generation ? 0 : step->other,
						   step->high & 4);
		break;
	case STEP_MAPPING:
		err = mapping_history_add_mapping(history, generation, &mapping, &dropped);
		break;
	case STEP_EVENT:
	case STEP_EVENT_TOO:
		err = mapping_history_add_event(history, generation, &mapping, &dropped);
		break;
	case STEP_FIND:
		if (!mapping_history_ready(history, generation, step->high & 4))
			err = mapping_history_advance(history, generation);
		find(steps, at, generation, mapping.start);
		find(steps, at, generation, mapping.end);
		find(steps, at, generation, mapping.end - 1);
		break;
	default:
		mapping_history_each_segment(history, see_segment, &sum);
		sum += mapping_history_latest_generation(history) +
		       mapping_history_has_pending(history) +
		       mapping_history_is_certain(history, generation);
	}
	if (err)
		abort();
}

static void apply_steps(const uint8_t *data, size_t size)
{
	struct steps steps = {.history = mapping_history_new()};

	if (!steps.history)
		abort();
	steps.count = size / sizeof(struct step);
	if (steps.count > STEPS_MAX)
		steps.count = STEPS_MAX;
	memcpy(steps.list, data, steps.count * sizeof(struct step));
	for (size_t i = 0; i < steps.count; i++)
		apply(&steps, i);
	mapping_history_free(steps.history);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] & 1)
		apply_steps(data + 1, size - 1);
	else
		run_kernels(data + 1, size - 1);
	return 0;
}

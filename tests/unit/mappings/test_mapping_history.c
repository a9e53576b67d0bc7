// SPDX-License-Identifier: GPL-2.0
/* The history of one address space, compared with the model of mapping_model.h. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "mapping_model.h"
#include "mappings/mapping_history.h"
#include "steps.h"

static struct choices choices;
static struct truth truth;

static void seed(uint64_t number)
{
	choices = (struct choices){.seed = number};
}

static void add_record(struct mapping_history *history, const struct record *record,
		       uint64_t *dropped)
{
	assert_int_equal(model_add_to_history(history, record, dropped), 0);
}

static void check_at(struct mapping_history *history, const struct model *model,
		     uint32_t generation, uint64_t *known)
{
	bool certain = mapping_history_is_certain(history, generation);

	assert_int_equal(certain, model_is_certain(model, generation));
	for (uint64_t address = 0; address < MODEL_ADDRESSES; address++) {
		uint64_t found =
			mapping_identity(mapping_history_find(history, generation, address));
		uint64_t right = model_find(model, generation, address);

		if (found != right)
			fail_msg("seed %lu: at generation %u, %lu is in %lx, not in %lx",
				 choices.seed, generation, address, found, right);
		if (certain && !found)
			assert_int_equal(truth.identity[generation][address], 0);
		*known += !!found;
	}
}

static void check_model(bool lossy, uint64_t *known)
{
	struct model model = {0};
	struct mapping_history *history = mapping_history_new();
	uint32_t last = model_simulate(&choices, lossy, &model, &truth);
	uint64_t dropped = 0;

	assert_non_null(history);
	model_shuffle(&choices, &model);
	for (size_t i = 0; i < model.count; i++)
		add_record(history, &model.records[i], &dropped);
	for (uint32_t generation = 1; generation <= last; generation++) {
		/* Some generations have no sample. */
		if (!below(&choices, 3))
			continue;
		if (!mapping_history_ready(history, generation, below(&choices, 2)))
			assert_int_equal(mapping_history_advance(history, generation), 0);
		assert_true(mapping_history_ready(history, generation, true));
		check_at(history, &model, generation, known);
	}
	assert_int_equal(dropped, 0);
	mapping_history_free(history);
}

static void lookups_match_the_abi_documentation(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed(1);
	for (int i = 0; i < 20000; i++)
		check_model(false, &known);
	assert_true(known > 20000 * 50);
}

static void lookups_match_the_abi_documentation_with_lost_events(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed(2);
	for (int i = 0; i < 20000; i++)
		check_model(true, &known);
	assert_true(known > 20000 * 20);
}

/* A late record may leave a mapping unknown, but never yields a wrong one. */
static void check_late(uint64_t *known)
{
	struct model model = {0};
	struct mapping_history *history = mapping_history_new();
	uint32_t last = model_simulate(&choices, true, &model, &truth);
	uint32_t generation = below(&choices, last);
	uint64_t dropped = 0;
	size_t late;

	assert_non_null(history);
	model_shuffle(&choices, &model);
	late = below(&choices, (uint32_t)model.count);
	for (size_t i = 0; i < late; i++)
		add_record(history, &model.records[i], &dropped);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	for (size_t i = late; i < model.count; i++)
		add_record(history, &model.records[i], &dropped);
	for (generation++; generation <= last; generation++) {
		assert_int_equal(mapping_history_advance(history, generation), 0);
		for (uint64_t address = 0; address < MODEL_ADDRESSES; address++) {
			const struct mapping *mapping =
				mapping_history_find(history, generation, address);
			uint64_t found = mapping_identity(mapping);
			uint64_t right = model_find(&model, generation, address);

			if (found && right && found != right)
				fail_msg("seed %lu: at generation %u, %lu is in %lx, not in %lx",
					 choices.seed, generation, address, found, right);
			*known += !!found;
		}
	}
	mapping_history_free(history);
}

static void late_records_never_yield_a_wrong_mapping(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed(3);
	for (int i = 0; i < 20000; i++)
		check_late(&known);
	assert_true(known > 20000 * 10);
}

static void add_event(struct mapping_history *history, uint32_t generation, uint64_t start,
		      uint64_t end, uint32_t segment, uint64_t *dropped)
{
	const struct mapping mapping = {start, end, 0, segment};

	assert_int_equal(mapping_history_add_event(history, generation, &mapping, dropped), 0);
}

static void add_snapshot(struct mapping_history *history, uint32_t generation, uint32_t gap,
			 const struct mapping *mappings, size_t count)
{
	uint64_t dropped = 0;

	assert_int_equal(mapping_history_add_snapshot(history, generation, gap, false), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(
			mapping_history_add_mapping(history, generation, &mappings[i], &dropped),
			0);
	assert_int_equal(dropped, 0);
}

static struct mapping_history *started(bool incomplete)
{
	struct mapping_history *history = mapping_history_new();

	assert_non_null(history);
	assert_int_equal(mapping_history_add_snapshot(history, 1, 0, incomplete), 0);
	assert_int_equal(mapping_history_advance(history, 1), 0);
	return history;
}

static uint32_t segment_at(struct mapping_history *history, uint32_t generation, uint64_t address)
{
	const struct mapping *mapping = mapping_history_find(history, generation, address);

	return mapping ? mapping->segment : 0;
}

struct count {
	size_t segments;
};

static void count_segment(uint32_t segment, void *arg)
{
	(void)segment;
	((struct count *)arg)->segments++;
}

static size_t segment_count(struct mapping_history *history)
{
	struct count count = {0};

	mapping_history_each_segment(history, count_segment, &count);
	return count.segments;
}

/* The time line of mapping_history.h. */
static void the_example_of_the_header_is_right(void **state)
{
	enum { A = 1001, B, C, D, E, F };
	static const uint32_t found[][4] = {
		{A, 0, 0, 0}, {A, B, 0, 0}, {A, B, C, 0}, {A, B, C, D},
		{A, 0, C, D}, {A, E, C, D}, {F, E, C, D},
	};
	static const bool certain[] = {false, false, true, true, false, true, true};
	const struct mapping first[] = {
		{0x1000, 0x2000, 0, A}, {0x2000, 0x3000, 0, B}, {0x3000, 0x4000, 0, C}};
	const struct mapping second[] = {{0x1000, 0x2000, 0, A},
					 {0x2000, 0x3000, 0, E},
					 {0x3000, 0x4000, 0, C},
					 {0x4000, 0x5000, 0, D}};
	struct mapping_history *history = mapping_history_new();
	uint64_t dropped = 0;

	(void)state;
	assert_non_null(history);
	add_event(history, 2, 0x2000, 0x3000, B, &dropped);
	add_event(history, 3, 0x3000, 0x4000, C, &dropped);
	add_snapshot(history, 3, 0, first, 3);
	add_event(history, 4, 0x4000, 0x5000, D, &dropped);
	add_snapshot(history, 6, 5, second, 4);
	add_event(history, 7, 0x1000, 0x2000, F, &dropped);
	for (uint32_t i = 0; i < 7; i++) {
		assert_int_equal(mapping_history_advance(history, i + 1), 0);
		assert_int_equal(mapping_history_is_certain(history, i + 1), certain[i]);
		for (uint32_t j = 0; j < 4; j++)
			assert_int_equal(segment_at(history, i + 1, 0x1000 * (j + 1)), found[i][j]);
	}
	mapping_history_free(history);
}

static void sum_segment(uint32_t segment, void *arg)
{
	*(uint32_t *)arg += segment;
}

/* Files of pending records must be kept, too. */
static void segments_that_may_be_found_are_listed(void **state)
{
	const struct mapping first = {0x1000, 0x2000, 0, 100}, second = {0x1000, 0x2000, 0, 1000};
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;
	uint32_t sum = 0;

	(void)state;
	assert_false(mapping_history_has_pending(history));
	add_event(history, 2, 0x5000, 0x6000, 1, &dropped);
	add_event(history, 3, 0x6000, 0x7000, 10, &dropped);
	assert_true(mapping_history_has_pending(history));
	add_snapshot(history, 5, 0, &first, 1);
	add_snapshot(history, 6, 0, &second, 1);
	mapping_history_each_segment(history, sum_segment, &sum);
	assert_int_equal(sum, 1111);
	assert_int_equal(mapping_history_advance(history, 3), 0);
	sum = 0;
	mapping_history_each_segment(history, sum_segment, &sum);
	assert_int_equal(sum, 1111);
	assert_int_equal(mapping_history_latest_generation(history), 6);
	assert_true(mapping_history_has_pending(history));
	assert_int_equal(mapping_history_advance(history, 6), 0);
	assert_false(mapping_history_has_pending(history));
	sum = 0;
	mapping_history_each_segment(history, sum_segment, &sum);
	assert_int_equal(sum, 1000);
	mapping_history_free(history);
}

/* Adjacent regions of a JIT that are mapped again and again are one entry. */
static void adjacent_anonymous_mappings_are_merged(void **state)
{
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;

	(void)state;
	for (uint32_t i = 0; i < 20000; i++)
		add_event(history, 2 + i, 0x1000 * (i % 5000), 0x1000 * (i % 5000 + 1), 1,
			  &dropped);
	assert_int_equal(mapping_history_advance(history, 20001), 0);
	assert_int_equal(segment_count(history), 1);
	assert_int_equal(segment_at(history, 20001, 0x1000 * 5000 - 1), 1);
	assert_int_equal(segment_at(history, 20001, 0x1000 * 5000), 0);
	assert_int_equal(dropped, 0);
	mapping_history_free(history);
}

/* Separate regions stay separate up to a threshold; a file between them stays a file. */
static void many_anonymous_mappings_are_coalesced(void **state)
{
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;
	uint32_t generation = 1;

	(void)state;
	add_event(history, ++generation, 0x2000 * 1000 + 0x1000, 0x2000 * 1000 + 0x2000, 9,
		  &dropped);
	for (uint64_t i = 0; i < 60000; i++) {
		add_event(history, ++generation, 0x2000 * i, 0x2000 * i + 0x1000, 1, &dropped);
		if (i == 2000) {
			assert_int_equal(mapping_history_advance(history, generation), 0);
			assert_int_equal(segment_at(history, generation, 0x2000 * 7 + 0x1800), 0);
		}
	}
	assert_int_equal(mapping_history_advance(history, generation), 0);
	assert_true(segment_count(history) <= MAPPING_HISTORY_COALESCE_THRESHOLD + 2);
	for (uint64_t i = 0; i < 60000; i++)
		assert_int_equal(segment_at(history, generation, 0x2000 * i + 0x800), 1);
	assert_int_equal(segment_at(history, generation, 0x2000 * 1000 + 0x1800), 9);
	assert_int_equal(dropped, 0);
	mapping_history_free(history);
}

/* A hole may be a dropped mapping if the snapshot is incomplete: regions stay separate. */
static void incomplete_snapshots_are_not_coalesced(void **state)
{
	struct mapping_history *history = started(true);
	uint64_t dropped = 0;
	uint32_t generation = 2;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		add_event(history, generation++, 0x2000 * i, 0x2000 * i + 0x1000, 1, &dropped);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(segment_at(history, generation, 0x2000 * i + 0x1800), 0);
	mapping_history_free(history);
}

/* A dropped event leaves its range unknown, rather than with the mapping before it. */
static void events_beyond_the_bound_are_counted(void **state)
{
	struct mapping_history *history = started(false);
	const struct mapping mapping = {0x1000, 0x2000, 0, 8};
	uint64_t dropped = 0;
	uint32_t generation = 2;

	(void)state;
	for (uint32_t i = 0; i < MAPPING_HISTORY_EVENTS_MAX; i++)
		add_event(history, generation++, 0x1000, 0x2000, 7 + i % 2, &dropped);
	assert_int_equal(dropped, 0);
	add_event(history, generation++, 0x1000, 0x2000, 12, &dropped);
	assert_int_equal(dropped, 1);
	assert_int_equal(mapping_history_advance(history, generation - 2), 0);
	assert_int_equal(segment_at(history, generation - 2, 0x1000), 8);
	assert_int_equal(mapping_history_advance(history, generation - 1), 0);
	assert_int_equal(segment_at(history, generation - 1, 0x1000), 0);
	/* Until the next snapshot. */
	assert_int_equal(mapping_history_add_snapshot(history, generation, 0, false), 0);
	assert_int_equal(mapping_history_add_mapping(history, generation, &mapping, &dropped), 0);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	assert_int_equal(segment_at(history, generation, 0x1000), 8);
	mapping_history_free(history);
}

/* A sample after a lost event waits for another snapshot. */
static void missing_event_may_be_replaced_by_a_snapshot(void **state)
{
	const struct mapping mapping = {0x1000, 0x2000, 0, 8};
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;

	(void)state;
	add_event(history, 2, 0x1000, 0x2000, 8, &dropped);
	add_event(history, 4, 0x5000, 0x6000, 7, &dropped);
	assert_int_equal(mapping_history_advance(history, 4), 0);
	assert_int_equal(segment_at(history, 2, 0x1000), 8);
	assert_int_equal(segment_at(history, 3, 0x1000), 0);
	assert_false(mapping_history_is_certain(history, 4));
	assert_true(mapping_history_ready(history, 2, false));
	assert_false(mapping_history_ready(history, 4, false));
	assert_true(mapping_history_ready(history, 4, true));
	/* The snapshot arrives. */
	assert_int_equal(mapping_history_add_snapshot(history, 5, 3, false), 0);
	assert_int_equal(mapping_history_add_mapping(history, 5, &mapping, &dropped), 0);
	assert_int_equal(mapping_history_advance(history, 4), 0);
	assert_int_equal(segment_at(history, 4, 0x1000), 8);
	mapping_history_free(history);
}

/* An event before the gap arrives when the gap was entered. */
static void event_before_a_gap_may_be_late(void **state)
{
	const struct mapping mapping = {0x1000, 0x2000, 0, 7};
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;

	(void)state;
	add_event(history, 2, 0x1000, 0x2000, 7, &dropped);
	add_snapshot(history, 6, 5, &mapping, 1);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	assert_int_equal(segment_at(history, 2, 0x1000), 7);
	assert_int_equal(segment_at(history, 3, 0x1000), 0);
	assert_int_equal(segment_at(history, 5, 0x1000), 0);
	add_event(history, 3, 0x1000, 0x2000, 8, &dropped);
	add_event(history, 4, 0x5000, 0x6000, 8, &dropped);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	assert_int_equal(segment_at(history, 4, 0x1000), 0);
	assert_int_equal(mapping_history_advance(history, 6), 0);
	assert_int_equal(segment_at(history, 6, 0x1000), 7);
	mapping_history_free(history);
}

/* It arrives in the gap, and the mapping before it is the same as that after the gap. */
static void late_event_is_not_forgotten_in_a_gap(void **state)
{
	const struct mapping mapping = {0x1000, 0x2000, 0, 7};
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;

	(void)state;
	add_event(history, 2, 0x1000, 0x2000, 7, &dropped);
	add_snapshot(history, 6, 5, &mapping, 1);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	add_event(history, 3, 0x1000, 0x2000, 8, &dropped);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	assert_int_equal(mapping_history_advance(history, 6), 0);
	assert_int_equal(segment_at(history, 4, 0x1000), 0);
	assert_int_equal(segment_at(history, 6, 0x1000), 7);
	mapping_history_free(history);
}

/* The gap has removed the mapping of an event that is newer than the snapshot. */
static void late_snapshot_is_ignored_in_a_gap(void **state)
{
	const struct mapping mapping = {0x1000, 0x2000, 0, 7};
	struct mapping_history *history = mapping_history_new();
	uint64_t dropped = 0;

	(void)state;
	assert_non_null(history);
	add_event(history, 2, 0x5000, 0x6000, 9, &dropped);
	add_event(history, 3, 0x1000, 0x2000, 8, &dropped);
	add_snapshot(history, 6, 5, &mapping, 1);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	add_snapshot(history, 2, 0, &mapping, 1);
	assert_int_equal(mapping_history_advance(history, 6), 0);
	assert_int_equal(segment_at(history, 4, 0x1000), 0);
	assert_int_equal(segment_at(history, 6, 0x1000), 7);
	mapping_history_free(history);
}

/* An event is later than the snapshot after it, and anonymous mappings were merged meanwhile. */
static void event_in_merged_mappings_may_be_late(void **state)
{
	const struct mapping mapping = {0x1000, 0x3000, 0, 1};
	struct mapping_history *history = started(false);
	uint64_t dropped = 0;

	(void)state;
	add_event(history, 2, 0x1000, 0x2000, 1, &dropped);
	add_event(history, 4, 0x2000, 0x3000, 1, &dropped);
	add_snapshot(history, 5, 5, &mapping, 1);
	assert_int_equal(mapping_history_advance(history, 5), 0);
	add_event(history, 3, 0x1000, 0x2000, 7, &dropped);
	assert_int_equal(segment_at(history, 4, 0x1000), 0);
	assert_int_equal(segment_at(history, 5, 0x1000), 1);
	assert_int_equal(segment_at(history, 5, 0x2000), 1);
	mapping_history_free(history);
}

static void mappings_beyond_the_bound_are_counted(void **state)
{
	struct mapping_history *history = mapping_history_new();
	uint64_t dropped = 0;

	(void)state;
	assert_non_null(history);
	assert_int_equal(mapping_history_add_snapshot(history, 1, 0, false), 0);
	for (uint64_t i = 0; i <= MAPPING_HISTORY_MAPPINGS_MAX; i++) {
		const struct mapping mapping = {0x2000 * i, 0x2000 * i + 0x1000, 0, 7};

		assert_int_equal(mapping_history_add_mapping(history, 1, &mapping, &dropped), 0);
	}
	assert_int_equal(dropped, 1);
	assert_int_equal(mapping_history_advance(history, 1), 0);
	/* An event is dropped as well; its range is unknown then. */
	add_event(history, 2, 0x0, 0x3000, 9, &dropped);
	assert_int_equal(mapping_history_advance(history, 2), 0);
	assert_int_equal(segment_at(history, 2, 0x800), 0);
	assert_int_equal(segment_at(history, 2, 0x4800), 7);
	mapping_history_free(history);
}

/* Regions of different programs can't be coalesced: that is not tried again at each event. */
static void mappings_of_files_are_not_coalesced_at_each_event(void **state)
{
	enum { EVENTS = 1000 };
	struct mapping_history *history = started(false);
	uint64_t dropped = 0, before;

	(void)state;
	for (uint32_t i = 0; i < MAPPING_HISTORY_COALESCE_THRESHOLD + 10; i++)
		add_event(history, 2 + i, 0x2000 * i, 0x2000 * i + 0x1000, 8 + 2 * i, &dropped);
	assert_int_equal(
		mapping_history_advance(history, 2 + MAPPING_HISTORY_COALESCE_THRESHOLD + 10), 0);
	for (uint32_t i = 0; i < EVENTS; i++)
		add_event(history, 2 + MAPPING_HISTORY_COALESCE_THRESHOLD + 10 + i, 0, 0x1000,
			  8 + 2 * i, &dropped);
	before = steps;
	assert_int_equal(mapping_history_advance(history, 2 + MAPPING_HISTORY_COALESCE_THRESHOLD +
								  10 + EVENTS),
			 0);
	assert_in_range((steps - before) / EVENTS, 10, 1000);
	assert_int_equal(segment_count(history), MAPPING_HISTORY_COALESCE_THRESHOLD + 10);
	mapping_history_free(history);
}

/* A mapping that a later snapshot confirms is known since the earlier one, if it is all the same.
 */
static void confirmed_mappings_are_known_since_the_first_snapshot(void **state)
{
	enum { A = 1001, B = 1003, C = 1005 };
	const struct mapping first[] = {
		{0x1000, 0x3000, 0, A}, {0x5000, 0x6000, 0, B}, {0x8000, 0x9000, 0, C}};
	const struct mapping second[] = {
		{0x1000, 0x3000, 0, A}, {0x5000, 0x7000, 0, B}, {0x8000, 0x9000, 1, C}};
	struct mapping_history *history = mapping_history_new();

	(void)state;
	assert_non_null(history);
	add_snapshot(history, 1, 0, first, 3);
	assert_int_equal(mapping_history_advance(history, 1), 0);
	add_snapshot(history, 6, 0, second, 3);
	assert_int_equal(mapping_history_advance(history, 6), 0);
	for (uint64_t address = 0x1000; address < 0x3000; address += 0x800)
		assert_int_equal(segment_at(history, 1, address), A);
	/* B is larger now, and C is mapped at another offset. */
	assert_int_equal(segment_at(history, 1, 0x5800), 0);
	assert_int_equal(segment_at(history, 1, 0x8800), 0);
	assert_int_equal(segment_at(history, 6, 0x1000), A);
	assert_int_equal(segment_at(history, 6, 0x6800), B);
	assert_int_equal(segment_at(history, 6, 0x8800), C);
	mapping_history_free(history);
}

/* An event at a low address among the most mappings must cost little. */
static void an_event_moves_few_bytes(void **state)
{
	enum { EVENTS = 1000 };
	struct mapping_history *history = mapping_history_new();
	uint64_t dropped = 0, before;

	(void)state;
	assert_non_null(history);
	assert_int_equal(mapping_history_add_snapshot(history, 1, 0, false), 0);
	for (uint64_t i = 0; i < MAPPING_HISTORY_MAPPINGS_MAX - 1; i++) {
		const struct mapping mapping = {0x2000 * i, 0x2000 * i + 0x1000, 0, 7};

		assert_int_equal(mapping_history_add_mapping(history, 1, &mapping, &dropped), 0);
	}
	assert_int_equal(mapping_history_advance(history, 1), 0);
	for (uint32_t i = 0; i < EVENTS; i++)
		add_event(history, 2 + i, 0x0, 0x1000, i % 2 ? 7 : 0, &dropped);
	before = steps;
	assert_int_equal(mapping_history_advance(history, 1 + EVENTS), 0);
	assert_in_range((steps - before) / EVENTS, 10, 1000);
	assert_int_equal(dropped, 0);
	assert_int_equal(segment_at(history, 1 + EVENTS, 0x800), 7);
	assert_int_equal(segment_at(history, 1 + EVENTS, 0x2800), 7);
	assert_in_range(mapping_history_bytes_moved(history) / EVENTS, 1, 64 << 10);
	mapping_history_free(history);
}

/* Steps to the first generation of a process with this mapping at each even page, in the given
 * order. */
static uint64_t steps_to_start(bool ascending)
{
	struct mapping_history *history = mapping_history_new();
	struct mapping mappings[500];
	uint64_t before;

	assert_non_null(history);
	for (uint64_t i = 0; i < 500; i++) {
		uint64_t start = 0x2000 * (ascending ? i : 499 - i);

		mappings[i] = (struct mapping){start, start + 0x1000, 0, (uint32_t)(2 + i)};
	}
	add_snapshot(history, 1, 0, mappings, 500);
	before = steps;
	assert_int_equal(mapping_history_advance(history, 1), 0);
	before = steps - before;
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(segment_at(history, 1, mappings[i].start), 2 + i);
	mapping_history_free(history);
	return before;
}

/* The kernel reads mappings by address, and most processes are short. */
static void mappings_by_address_are_not_sorted(void **state)
{
	uint64_t sorted = steps_to_start(true);

	(void)state;
	assert_in_range(sorted, 1, steps_to_start(false) * 4 / 5);
}

/* Overlapping mappings are impossible, but must not crash the reader. */
static void contradictory_records_are_survived(void **state)
{
	(void)state;
	seed(4);
	for (int i = 0; i < 5000; i++) {
		struct mapping_history *history = mapping_history_new();
		uint64_t dropped = 0;

		assert_non_null(history);
		for (int j = 0; j < 30; j++) {
			uint64_t start = below(&choices, 4)
						 ? below(&choices, 100)
						 : UINT64_MAX - 100 + below(&choices, 50);
			const struct mapping mapping = {start, start + 1 + below(&choices, 40),
							below(&choices, 3), below(&choices, 4)};
			uint32_t generation = below(&choices, 4) ? below(&choices, 10)
								 : UINT32_MAX - below(&choices, 3);

			if (!below(&choices, 4))
				assert_int_equal(
					mapping_history_add_snapshot(
						history, generation,
						generation ? below(&choices, generation) : 0,
						below(&choices, 2)),
					0);
			else if (below(&choices, 2))
				assert_int_equal(mapping_history_add_mapping(history, generation,
									     &mapping, &dropped),
						 0);
			else
				assert_int_equal(mapping_history_add_event(history, generation,
									   &mapping, &dropped),
						 0);
			if (!below(&choices, 4))
				assert_int_equal(mapping_history_advance(
							 history, below(&choices, 2)
									  ? below(&choices, 10)
									  : UINT32_MAX),
						 0);
			mapping_history_find(history, below(&choices, 10), below(&choices, 140));
		}
		mapping_history_free(history);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_match_the_abi_documentation),
		cmocka_unit_test(lookups_match_the_abi_documentation_with_lost_events),
		cmocka_unit_test(late_records_never_yield_a_wrong_mapping),
		cmocka_unit_test(the_example_of_the_header_is_right),
		cmocka_unit_test(segments_that_may_be_found_are_listed),
		cmocka_unit_test(adjacent_anonymous_mappings_are_merged),
		cmocka_unit_test(many_anonymous_mappings_are_coalesced),
		cmocka_unit_test(incomplete_snapshots_are_not_coalesced),
		cmocka_unit_test(events_beyond_the_bound_are_counted),
		cmocka_unit_test(missing_event_may_be_replaced_by_a_snapshot),
		cmocka_unit_test(event_before_a_gap_may_be_late),
		cmocka_unit_test(late_event_is_not_forgotten_in_a_gap),
		cmocka_unit_test(late_snapshot_is_ignored_in_a_gap),
		cmocka_unit_test(event_in_merged_mappings_may_be_late),
		cmocka_unit_test(mappings_beyond_the_bound_are_counted),
		cmocka_unit_test(an_event_moves_few_bytes),
		cmocka_unit_test(mappings_of_files_are_not_coalesced_at_each_event),
		cmocka_unit_test(confirmed_mappings_are_known_since_the_first_snapshot),
		cmocka_unit_test(mappings_by_address_are_not_sorted),
		cmocka_unit_test(contradictory_records_are_survived),
	};

	return cmocka_run_group_tests_name("mapping_history", tests, NULL, NULL);
}

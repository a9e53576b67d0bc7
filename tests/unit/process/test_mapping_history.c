// SPDX-License-Identifier: GPL-2.0
/* The history of one address space, compared with a literal reading of stackbeat.h. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <stackbeat.h>

#include "process/mapping_history.h"

#define ADDRESSES 12u
#define STEPS 24u
#define RECORDS_MAX 128u
#define SNAPSHOTS_MAX 4u

/* The kernel's side: its mappings, and the records that it sends. */
struct record {
	enum { SNAPSHOT, MAPPING, EVENT } type;
	uint32_t generation;
	uint32_t gap;
	struct mapping mapping;
};

struct model {
	struct record records[RECORDS_MAX];
	size_t count;
};

static uint64_t seed;

static uint32_t below(uint32_t limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

static void add_record(struct mapping_history *history, const struct record *record,
		       uint64_t *dropped)
{
	if (record->type == SNAPSHOT)
		assert_int_equal(mapping_history_add_snapshot(history, record->generation,
							      record->gap, false),
				 0);
	else if (record->type == MAPPING)
		assert_int_equal(mapping_history_add_mapping(history, record->generation,
							     &record->mapping, dropped),
				 0);
	else
		assert_int_equal(mapping_history_add_event(history, record->generation,
							   &record->mapping, dropped),
				 0);
}

static bool holds(const struct record *record, uint64_t address)
{
	return address >= record->mapping.start && address < record->mapping.end;
}

/* Identity of the mapping of a record; 0 for NULL: no mapping, or unknown. */
static uint64_t identity(const struct record *record)
{
	return record ? record->mapping.bias << 8 | record->mapping.segment : 0;
}

/* Returns the identity of an address in the snapshot at a generation. */
static uint64_t read_at(const struct model *model, uint32_t generation, uint64_t address)
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
static const struct record *event_between(const struct model *model, uint32_t after, uint32_t to,
					  uint64_t address)
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

static bool has_event(const struct model *model, uint32_t generation)
{
	for (size_t i = 0; i < model->count; i++) {
		if (model->records[i].type == EVENT && model->records[i].generation == generation)
			return true;
	}
	return false;
}

/* Returns the first generation after `after` that is in the gap of a snapshot, or UINT32_MAX. */
static uint32_t first_in_gap(const struct model *model, uint32_t after)
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
static uint32_t first_missing(const struct model *model, uint32_t after, uint32_t to)
{
	for (uint32_t generation = after ? after + 1 : 2; generation <= to; generation++) {
		if (!has_event(model, generation))
			return generation;
	}
	return UINT32_MAX;
}

/* Finds the snapshots before and after a generation; 0 and UINT32_MAX: there is none. */
static void snapshots_around(const struct model *model, uint32_t generation, uint32_t *before,
			     uint32_t *after)
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

static uint64_t without_gap(const struct model *model, uint32_t generation, uint32_t before,
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

static uint64_t expected(const struct model *model, uint32_t generation, uint64_t address)
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

struct world {
	uint64_t identity[ADDRESSES]; /* of the current mapping of an address */
};

static void model_add(struct model *model, const struct record *record)
{
	assert_true(model->count < RECORDS_MAX);
	model->records[model->count++] = *record;
}

static struct mapping random_mapping(void)
{
	struct mapping mapping = {.start = below(ADDRESSES)};

	mapping.end = mapping.start + 1 + below(ADDRESSES - (uint32_t)mapping.start);
	mapping.segment = 1 + below(3);
	mapping.bias = mapping.segment == 1 ? 0 : below(2);
	return mapping;
}

static void add_snapshot_of(struct model *model, const struct world *world, uint32_t generation,
			    uint32_t gap)
{
	struct record record = {.type = SNAPSHOT, .generation = generation, .gap = gap};

	model_add(model, &record);
	for (uint64_t i = 0; i < ADDRESSES; i++) {
		if (!world->identity[i])
			continue;
		record = (struct record){
			.type = MAPPING,
			.generation = generation,
			.mapping = {i, i + 1, world->identity[i] >> 8,
				    (uint32_t)world->identity[i] & 0xff},
		};
		model_add(model, &record);
	}
}

struct kernel {
	struct world world;
	uint32_t generation;
	uint32_t snapshots;
	uint32_t gap; /* first lost generation, to be read again; 0: none */
	uint32_t queued; /* gap of the snapshot that is scheduled; 0: none */
};

static void map_random_range(struct kernel *kernel, struct model *model, bool lost)
{
	struct record record = {.type = EVENT, .generation = ++kernel->generation};

	record.mapping = random_mapping();
	for (uint64_t i = record.mapping.start; i < record.mapping.end; i++)
		kernel->world.identity[i] = identity(&record);
	if (!lost)
		model_add(model, &record);
	else if (!kernel->gap)
		kernel->gap = record.generation;
}

static void take_snapshot(struct kernel *kernel, struct model *model)
{
	add_snapshot_of(model, &kernel->world, kernel->generation, kernel->queued);
	kernel->snapshots++;
	kernel->queued = 0;
}

/*
 * A process that maps and unmaps, and a kernel that takes snapshots now and then, loses events,
 * and may not sample the process again. Returns the last generation.
 */
static uint32_t make_model(struct model *model, bool lossy)
{
	struct kernel kernel = {.generation = 1};

	model->count = 0;
	for (uint32_t step = 1; step < STEPS; step++) {
		if (below(3))
			map_random_range(&kernel, model, lossy && !below(6));
		else
			kernel.world.identity[below(ADDRESSES)] = 0; /* munmap is not reported */
		if (kernel.gap && !kernel.queued && kernel.snapshots < SNAPSHOTS_MAX && !below(2)) {
			kernel.queued = kernel.gap;
			kernel.gap = 0;
			kernel.generation++; /* each snapshot has its own generation */
		}
		if (kernel.snapshots ? kernel.queued && below(2) : !below(4))
			take_snapshot(&kernel, model);
	}
	if (!kernel.snapshots || kernel.queued)
		take_snapshot(&kernel, model);
	return kernel.generation;
}

static void shuffle(struct model *model)
{
	for (size_t i = model->count - 1; i > 0; i--) {
		size_t j = below((uint32_t)i + 1);
		struct record other = model->records[i];

		model->records[i] = model->records[j];
		model->records[j] = other;
	}
}

static void check_at(struct mapping_history *history, const struct model *model,
		     uint32_t generation)
{
	for (uint64_t address = 0; address < ADDRESSES; address++) {
		const struct mapping *mapping = mapping_history_find(history, generation, address);
		uint64_t found = mapping ? mapping->bias << 8 | mapping->segment : 0;

		if (found != expected(model, generation, address))
			fail_msg("seed %lu: at generation %u, %lu is in %lx, not in %lx", seed,
				 generation, address, found, expected(model, generation, address));
	}
}

static void check_model(bool lossy, uint64_t *known)
{
	struct model model;
	struct mapping_history *history = mapping_history_new();
	uint32_t last = make_model(&model, lossy);
	uint64_t dropped = 0;

	assert_non_null(history);
	shuffle(&model);
	for (size_t i = 0; i < model.count; i++)
		add_record(history, &model.records[i], &dropped);
	for (uint32_t generation = 1; generation <= last; generation++) {
		/* Some generations have no sample. */
		if (!below(3))
			continue;
		assert_int_equal(mapping_history_advance(history, generation), 0);
		assert_true(mapping_history_ready(history, generation, true));
		check_at(history, &model, generation);
		for (uint64_t address = 0; address < ADDRESSES; address++)
			*known += !!expected(&model, generation, address);
	}
	assert_int_equal(dropped, 0);
	mapping_history_free(history);
}

static void lookups_match_the_abi_documentation(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 1;
	for (int i = 0; i < 20000; i++)
		check_model(false, &known);
	assert_true(known > 20000 * 50);
}

static void lookups_match_the_abi_documentation_with_lost_events(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 2;
	for (int i = 0; i < 20000; i++)
		check_model(true, &known);
	assert_true(known > 20000 * 20);
}

/* A late record may leave a mapping unknown, but never yields a wrong one. */
static void check_late(uint64_t *known)
{
	struct model model;
	struct mapping_history *history = mapping_history_new();
	uint32_t last = make_model(&model, true);
	uint32_t generation = below(last);
	uint64_t dropped = 0;
	size_t late;

	assert_non_null(history);
	shuffle(&model);
	late = below((uint32_t)model.count);
	for (size_t i = 0; i < late; i++)
		add_record(history, &model.records[i], &dropped);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	for (size_t i = late; i < model.count; i++)
		add_record(history, &model.records[i], &dropped);
	for (generation++; generation <= last; generation++) {
		assert_int_equal(mapping_history_advance(history, generation), 0);
		for (uint64_t address = 0; address < ADDRESSES; address++) {
			const struct mapping *mapping =
				mapping_history_find(history, generation, address);
			uint64_t found = mapping ? mapping->bias << 8 | mapping->segment : 0;
			uint64_t right = expected(&model, generation, address);

			if (found && right && found != right)
				fail_msg("seed %lu: at generation %u, %lu is in %lx, not in %lx",
					 seed, generation, address, found, right);
			*known += !!found;
		}
	}
	mapping_history_free(history);
}

static void late_records_never_yield_a_wrong_mapping(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 3;
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

/* An event at a low address among the most mappings must cost little. */
static void an_event_moves_few_bytes(void **state)
{
	enum { EVENTS = 1000 };
	struct mapping_history *history = mapping_history_new();
	uint64_t dropped = 0;

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
	assert_int_equal(mapping_history_advance(history, 1 + EVENTS), 0);
	assert_int_equal(dropped, 0);
	assert_int_equal(segment_at(history, 1 + EVENTS, 0x800), 7);
	assert_int_equal(segment_at(history, 1 + EVENTS, 0x2800), 7);
	assert_in_range(mapping_history_bytes_moved(history) / EVENTS, 1, 64 << 10);
	mapping_history_free(history);
}

/* Overlapping mappings are impossible, but must not crash the reader. */
static void contradictory_records_are_survived(void **state)
{
	(void)state;
	seed = 4;
	for (int i = 0; i < 5000; i++) {
		struct mapping_history *history = mapping_history_new();
		uint64_t dropped = 0;

		assert_non_null(history);
		for (int j = 0; j < 30; j++) {
			uint64_t start = below(4) ? below(100) : UINT64_MAX - 100 + below(50);
			const struct mapping mapping = {start, start + 1 + below(40), below(3),
							below(4)};
			uint32_t generation = below(4) ? below(10) : UINT32_MAX - below(3);

			if (!below(4))
				assert_int_equal(mapping_history_add_snapshot(
							 history, generation,
							 generation ? below(generation) : 0,
							 below(2)),
						 0);
			else if (below(2))
				assert_int_equal(mapping_history_add_mapping(history, generation,
									     &mapping, &dropped),
						 0);
			else
				assert_int_equal(mapping_history_add_event(history, generation,
									   &mapping, &dropped),
						 0);
			if (!below(4))
				assert_int_equal(
					mapping_history_advance(history,
								below(2) ? below(10) : UINT32_MAX),
					0);
			mapping_history_find(history, below(10), below(140));
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
		cmocka_unit_test(adjacent_anonymous_mappings_are_merged),
		cmocka_unit_test(many_anonymous_mappings_are_coalesced),
		cmocka_unit_test(incomplete_snapshots_are_not_coalesced),
		cmocka_unit_test(events_beyond_the_bound_are_counted),
		cmocka_unit_test(missing_event_may_be_replaced_by_a_snapshot),
		cmocka_unit_test(mappings_beyond_the_bound_are_counted),
		cmocka_unit_test(an_event_moves_few_bytes),
		cmocka_unit_test(contradictory_records_are_survived),
	};

	return cmocka_run_group_tests_name("mapping_history", tests, NULL, NULL);
}

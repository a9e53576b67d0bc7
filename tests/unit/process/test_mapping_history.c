// SPDX-License-Identifier: GPL-2.0
/* The history of one address space against the words of stackbeat.h, taken literally. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <stackbeat.h>

#include "process/mapping_history.h"

#define ADDRESSES 12u
#define STEPS 24u
#define EVENTS_MAX 128u
#define CAPTURES_MAX 4u

/* The kernel's side: what is where, and what is told of it. */
struct told {
	enum { READ, MAPPING, CHANGE } type;
	uint32_t generation;
	uint32_t gap;
	struct span span;
};

struct model {
	struct told told[EVENTS_MAX];
	size_t count;
};

static uint64_t seed;

static uint32_t below(uint32_t limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

static void tell(struct mapping_history *history, const struct told *told, uint64_t *lost)
{
	if (told->type == READ)
		assert_int_equal(mapping_history_read(history, told->generation, told->gap, false),
				 0);
	else if (told->type == MAPPING)
		assert_int_equal(
			mapping_history_mapping(history, told->generation, &told->span, lost), 0);
	else
		assert_int_equal(
			mapping_history_event(history, told->generation, &told->span, lost), 0);
}

static bool holds(const struct told *told, uint64_t address)
{
	return address >= told->span.start && address < told->span.end;
}

/* Identity of what holds an address; 0: nothing, or not known. */
static uint64_t identity(const struct told *told)
{
	return told ? told->span.shift << 8 | told->span.place : 0;
}

/* What was read at a generation of an address. */
static uint64_t read_at(const struct model *model, uint32_t generation, uint64_t address)
{
	for (size_t i = 0; i < model->count; i++) {
		const struct told *told = &model->told[i];

		if (told->type == MAPPING && told->generation == generation && holds(told, address))
			return identity(told);
	}
	return 0;
}

/* The latest change after one generation and up to another that holds an address, or NULL. */
static const struct told *change_between(const struct model *model, uint32_t after, uint32_t to,
					 uint64_t address)
{
	const struct told *latest = NULL;

	for (size_t i = 0; i < model->count; i++) {
		const struct told *told = &model->told[i];

		if (told->type == CHANGE && told->generation > after && told->generation <= to &&
		    holds(told, address) && (!latest || told->generation > latest->generation))
			latest = told;
	}
	return latest;
}

static bool is_told(const struct model *model, uint32_t generation)
{
	for (size_t i = 0; i < model->count; i++) {
		if (model->told[i].type == CHANGE && model->told[i].generation == generation)
			return true;
	}
	return false;
}

/* The first generation after `after` that is in a gap that was told, or UINT32_MAX. */
static uint32_t first_in_gap(const struct model *model, uint32_t after)
{
	uint32_t first = UINT32_MAX;

	for (size_t i = 0; i < model->count; i++) {
		const struct told *told = &model->told[i];

		if (told->type == READ && told->gap && told->generation > after &&
		    told->gap < first)
			first = told->gap;
	}
	return first > after ? first : after + 1;
}

/* The first generation after `after` and up to `to` that is of no change, or UINT32_MAX. */
static uint32_t first_untold(const struct model *model, uint32_t after, uint32_t to)
{
	for (uint32_t generation = after ? after + 1 : 2; generation <= to; generation++) {
		if (!is_told(model, generation))
			return generation;
	}
	return UINT32_MAX;
}

/* The capture before or after a generation; 0 and UINT32_MAX: there is none. */
static void captures_around(const struct model *model, uint32_t generation, uint32_t *before,
			    uint32_t *after)
{
	*before = 0;
	*after = UINT32_MAX;
	for (size_t i = 0; i < model->count; i++) {
		const struct told *told = &model->told[i];

		if (told->type != READ)
			continue;
		if (told->generation <= generation && told->generation > *before)
			*before = told->generation;
		if (told->generation > generation && told->generation < *after)
			*after = told->generation;
	}
}

static uint64_t without_gap(const struct model *model, uint32_t generation, uint32_t before,
			    uint32_t after, uint64_t address)
{
	const struct told *change = change_between(model, before, generation, address);

	if (change)
		return identity(change);
	if (before)
		return read_at(model, before, address);
	if (after == UINT32_MAX || first_in_gap(model, 0) <= after ||
	    first_untold(model, 0, after) != UINT32_MAX ||
	    change_between(model, generation, after, address))
		return 0;
	return read_at(model, after, address);
}

static uint64_t expected(const struct model *model, uint32_t generation, uint64_t address)
{
	uint32_t before, after, gap, untold;
	uint64_t old;

	captures_around(model, generation, &before, &after);
	gap = first_in_gap(model, before);
	untold = first_untold(model, before, generation);
	if (gap > generation && untold > generation)
		return without_gap(model, generation, before, after, address);
	if (untold < gap)
		return 0;
	old = without_gap(model, gap - 1, before, after, address);
	if (old != read_at(model, after, address))
		return 0;
	/* What was told of the gap must not speak against it. */
	for (uint32_t g = gap; g <= after; g++) {
		const struct told *change = change_between(model, g - 1, g, address);

		if (change && identity(change) != old)
			return 0;
	}
	return old;
}

struct world {
	uint64_t place[ADDRESSES]; /* identity of what is there now */
};

static void add_told(struct model *model, const struct told *told)
{
	assert_true(model->count < EVENTS_MAX);
	model->told[model->count++] = *told;
}

static struct span random_span(void)
{
	struct span span = {.start = below(ADDRESSES)};

	span.end = span.start + 1 + below(ADDRESSES - (uint32_t)span.start);
	span.place = 1 + below(3);
	span.shift = span.place == 1 ? 0 : below(2);
	return span;
}

static void read_world(struct model *model, const struct world *world, uint32_t generation,
		       uint32_t gap)
{
	struct told told = {.type = READ, .generation = generation, .gap = gap};

	add_told(model, &told);
	for (uint64_t i = 0; i < ADDRESSES; i++) {
		if (!world->place[i])
			continue;
		told = (struct told){
			.type = MAPPING,
			.generation = generation,
			.span = {i, i + 1, world->place[i] >> 8, (uint32_t)world->place[i] & 0xff},
		};
		add_told(model, &told);
	}
}

struct kernel {
	struct world world;
	uint32_t generation;
	uint32_t captures;
	uint32_t gap; /* of what was lost, and will be read again; 0: nothing */
	uint32_t queued; /* gap of what is to be read again soon; 0: nothing */
};

static void map_something(struct kernel *kernel, struct model *model, bool lost)
{
	struct told told = {.type = CHANGE, .generation = ++kernel->generation};

	told.span = random_span();
	for (uint64_t i = told.span.start; i < told.span.end; i++)
		kernel->world.place[i] = identity(&told);
	if (!lost)
		add_told(model, &told);
	else if (!kernel->gap)
		kernel->gap = told.generation;
}

static void read_now(struct kernel *kernel, struct model *model)
{
	read_world(model, &kernel->world, kernel->generation, kernel->queued);
	kernel->captures++;
	kernel->queued = 0;
}

/*
 * A process that maps and unmaps, seen by a kernel that reads it now and then, loses changes, and
 * may not see it again. Returns the last generation.
 */
static uint32_t make_model(struct model *model, bool lossy)
{
	struct kernel kernel = {.generation = 1};

	model->count = 0;
	for (uint32_t step = 1; step < STEPS; step++) {
		if (below(3))
			map_something(&kernel, model, lossy && !below(6));
		else
			kernel.world.place[below(ADDRESSES)] = 0; /* nobody says */
		if (kernel.gap && !kernel.queued && kernel.captures < CAPTURES_MAX && !below(2)) {
			kernel.queued = kernel.gap;
			kernel.gap = 0;
			kernel.generation++; /* no two readings are of the same */
		}
		if (kernel.captures ? kernel.queued && below(2) : !below(4))
			read_now(&kernel, model);
	}
	if (!kernel.captures || kernel.queued)
		read_now(&kernel, model);
	return kernel.generation;
}

static void shuffle(struct model *model)
{
	for (size_t i = model->count - 1; i > 0; i--) {
		size_t j = below((uint32_t)i + 1);
		struct told other = model->told[i];

		model->told[i] = model->told[j];
		model->told[j] = other;
	}
}

static void check_at(struct mapping_history *history, const struct model *model,
		     uint32_t generation)
{
	for (uint64_t address = 0; address < ADDRESSES; address++) {
		const struct span *span = mapping_history_find(history, generation, address);
		uint64_t found = span ? span->shift << 8 | span->place : 0;

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
	uint64_t lost = 0;

	assert_non_null(history);
	shuffle(&model);
	for (size_t i = 0; i < model.count; i++)
		tell(history, &model.told[i], &lost);
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
	assert_int_equal(lost, 0);
	mapping_history_free(history);
}

static void answers_as_the_header_says(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 1;
	for (int i = 0; i < 20000; i++)
		check_model(false, &known);
	assert_true(known > 20000 * 50);
}

static void answers_as_the_header_says_with_losses(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 2;
	for (int i = 0; i < 20000; i++)
		check_model(true, &known);
	assert_true(known > 20000 * 20);
}

/* What comes too late may leave a mapping unknown, and never makes it another known one. */
static void check_late(uint64_t *known)
{
	struct model model;
	struct mapping_history *history = mapping_history_new();
	uint32_t last = make_model(&model, true);
	uint32_t generation = below(last);
	uint64_t lost = 0;
	size_t late;

	assert_non_null(history);
	shuffle(&model);
	late = below((uint32_t)model.count);
	for (size_t i = 0; i < late; i++)
		tell(history, &model.told[i], &lost);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	for (size_t i = late; i < model.count; i++)
		tell(history, &model.told[i], &lost);
	for (generation++; generation <= last; generation++) {
		assert_int_equal(mapping_history_advance(history, generation), 0);
		for (uint64_t address = 0; address < ADDRESSES; address++) {
			const struct span *span =
				mapping_history_find(history, generation, address);
			uint64_t found = span ? span->shift << 8 | span->place : 0;
			uint64_t right = expected(&model, generation, address);

			if (found && right && found != right)
				fail_msg("seed %lu: at generation %u, %lu is in %lx, not in %lx",
					 seed, generation, address, found, right);
			*known += !!found;
		}
	}
	mapping_history_free(history);
}

static void what_comes_late_misleads_nobody(void **state)
{
	uint64_t known = 0;

	(void)state;
	seed = 3;
	for (int i = 0; i < 20000; i++)
		check_late(&known);
	assert_true(known > 20000 * 10);
}

static void change(struct mapping_history *history, uint32_t generation, uint64_t start,
		   uint64_t end, uint32_t place, uint64_t *lost)
{
	const struct span span = {start, end, 0, place};

	assert_int_equal(mapping_history_event(history, generation, &span, lost), 0);
}

static struct mapping_history *started(bool left_out)
{
	struct mapping_history *history = mapping_history_new();

	assert_non_null(history);
	assert_int_equal(mapping_history_read(history, 1, 0, left_out), 0);
	assert_int_equal(mapping_history_advance(history, 1), 0);
	return history;
}

static uint32_t place_at(struct mapping_history *history, uint32_t generation, uint64_t address)
{
	const struct span *span = mapping_history_find(history, generation, address);

	return span ? span->place : 0;
}

struct count {
	size_t places;
};

static void count_place(uint32_t place, void *arg)
{
	(void)place;
	((struct count *)arg)->places++;
}

static size_t spans(struct mapping_history *history)
{
	struct count count = {0};

	mapping_history_each_segment(history, count_place, &count);
	return count.places;
}

/* Regions of a JIT side by side, and again and again, are one. */
static void anonymous_neighbours_are_one(void **state)
{
	struct mapping_history *history = started(false);
	uint64_t lost = 0;

	(void)state;
	for (uint32_t i = 0; i < 20000; i++)
		change(history, 2 + i, 0x1000 * (i % 5000), 0x1000 * (i % 5000 + 1), 1, &lost);
	assert_int_equal(mapping_history_advance(history, 20001), 0);
	assert_int_equal(spans(history), 1);
	assert_int_equal(place_at(history, 20001, 0x1000 * 5000 - 1), 1);
	assert_int_equal(place_at(history, 20001, 0x1000 * 5000), 0);
	assert_int_equal(lost, 0);
	mapping_history_free(history);
}

/* Regions that are apart stay so until there are very many; a file between them stays a file. */
static void many_anonymous_regions_are_bounded(void **state)
{
	struct mapping_history *history = started(false);
	uint64_t lost = 0;
	uint32_t generation = 1;

	(void)state;
	change(history, ++generation, 0x2000 * 1000 + 0x1000, 0x2000 * 1000 + 0x2000, 9, &lost);
	for (uint64_t i = 0; i < 60000; i++) {
		change(history, ++generation, 0x2000 * i, 0x2000 * i + 0x1000, 1, &lost);
		if (i == 2000) {
			assert_int_equal(mapping_history_advance(history, generation), 0);
			assert_int_equal(place_at(history, generation, 0x2000 * 7 + 0x1800), 0);
		}
	}
	assert_int_equal(mapping_history_advance(history, generation), 0);
	assert_true(spans(history) <= MAPPING_HISTORY_SPANS_MANY + 2);
	for (uint64_t i = 0; i < 60000; i++)
		assert_int_equal(place_at(history, generation, 0x2000 * i + 0x800), 1);
	assert_int_equal(place_at(history, generation, 0x2000 * 1000 + 0x1800), 9);
	assert_int_equal(lost, 0);
	mapping_history_free(history);
}

/* Where mappings were left out, a hole may be one of them: nothing is put into it. */
static void holes_that_may_be_mappings_stay(void **state)
{
	struct mapping_history *history = started(true);
	uint64_t lost = 0;
	uint32_t generation = 2;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++)
		change(history, generation++, 0x2000 * i, 0x2000 * i + 0x1000, 1, &lost);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(place_at(history, generation, 0x2000 * i + 0x1800), 0);
	mapping_history_free(history);
}

/* What has no room is not known; what was there before it is not taken for it. */
static void changes_beyond_the_bound_are_counted(void **state)
{
	struct mapping_history *history = started(false);
	const struct span span = {0x1000, 0x2000, 0, 8};
	uint64_t lost = 0;
	uint32_t generation = 2;

	(void)state;
	for (uint32_t i = 0; i < MAPPING_HISTORY_EVENTS_MAX; i++)
		change(history, generation++, 0x1000, 0x2000, 7 + i % 2, &lost);
	assert_int_equal(lost, 0);
	change(history, generation++, 0x1000, 0x2000, 12, &lost);
	assert_int_equal(lost, 1);
	assert_int_equal(mapping_history_advance(history, generation - 2), 0);
	assert_int_equal(place_at(history, generation - 2, 0x1000), 8);
	assert_int_equal(mapping_history_advance(history, generation - 1), 0);
	assert_int_equal(place_at(history, generation - 1, 0x1000), 0);
	/* Until they are read again. */
	assert_int_equal(mapping_history_read(history, generation, 0, false), 0);
	assert_int_equal(mapping_history_mapping(history, generation, &span, &lost), 0);
	assert_int_equal(mapping_history_advance(history, generation), 0);
	assert_int_equal(place_at(history, generation, 0x1000), 8);
	mapping_history_free(history);
}

/* A sample that comes after a loss waits for what may be read again. */
static void what_is_missing_may_still_come(void **state)
{
	const struct span span = {0x1000, 0x2000, 0, 8};
	struct mapping_history *history = started(false);
	uint64_t lost = 0;

	(void)state;
	change(history, 2, 0x1000, 0x2000, 8, &lost);
	change(history, 4, 0x5000, 0x6000, 7, &lost);
	assert_int_equal(mapping_history_advance(history, 4), 0);
	assert_int_equal(place_at(history, 2, 0x1000), 8);
	assert_int_equal(place_at(history, 3, 0x1000), 0);
	assert_false(mapping_history_is_certain(history, 4));
	assert_true(mapping_history_ready(history, 2, false));
	assert_false(mapping_history_ready(history, 4, false));
	assert_true(mapping_history_ready(history, 4, true));
	/* It is: */
	assert_int_equal(mapping_history_read(history, 5, 3, false), 0);
	assert_int_equal(mapping_history_mapping(history, 5, &span, &lost), 0);
	assert_int_equal(mapping_history_advance(history, 4), 0);
	assert_int_equal(place_at(history, 4, 0x1000), 8);
	mapping_history_free(history);
}

static void mappings_beyond_the_bound_are_counted(void **state)
{
	struct mapping_history *history = mapping_history_new();
	uint64_t lost = 0;

	(void)state;
	assert_non_null(history);
	assert_int_equal(mapping_history_read(history, 1, 0, false), 0);
	for (uint64_t i = 0; i <= MAPPING_HISTORY_SPANS_MAX; i++) {
		const struct span span = {0x2000 * i, 0x2000 * i + 0x1000, 0, 7};

		assert_int_equal(mapping_history_mapping(history, 1, &span, &lost), 0);
	}
	assert_int_equal(lost, 1);
	assert_int_equal(mapping_history_advance(history, 1), 0);
	/* A change has no room either; what it covers is not known then. */
	change(history, 2, 0x0, 0x3000, 9, &lost);
	assert_int_equal(mapping_history_advance(history, 2), 0);
	assert_int_equal(place_at(history, 2, 0x800), 0);
	assert_int_equal(place_at(history, 2, 0x4800), 7);
	mapping_history_free(history);
}

/* Low down among as many as there may be: it must not cost much more than making them has. */
static void a_change_moves_little(void **state)
{
	enum { CHANGES = 1000 };
	struct mapping_history *history = mapping_history_new();
	uint64_t lost = 0;

	(void)state;
	assert_non_null(history);
	assert_int_equal(mapping_history_read(history, 1, 0, false), 0);
	for (uint64_t i = 0; i < MAPPING_HISTORY_SPANS_MAX - 1; i++) {
		const struct span span = {0x2000 * i, 0x2000 * i + 0x1000, 0, 7};

		assert_int_equal(mapping_history_mapping(history, 1, &span, &lost), 0);
	}
	assert_int_equal(mapping_history_advance(history, 1), 0);
	for (uint32_t i = 0; i < CHANGES; i++)
		change(history, 2 + i, 0x0, 0x1000, i % 2 ? 7 : 0, &lost);
	assert_int_equal(mapping_history_advance(history, 1 + CHANGES), 0);
	assert_int_equal(lost, 0);
	assert_int_equal(place_at(history, 1 + CHANGES, 0x800), 7);
	assert_int_equal(place_at(history, 1 + CHANGES, 0x2800), 7);
	assert_in_range(mapping_history_moved(history) / CHANGES, 1, 64 << 10);
	mapping_history_free(history);
}

/* Mappings that overlap can't be; whatever they say, there is one answer. */
static void nonsense_is_survived(void **state)
{
	(void)state;
	seed = 4;
	for (int i = 0; i < 5000; i++) {
		struct mapping_history *history = mapping_history_new();
		uint64_t lost = 0;

		assert_non_null(history);
		for (int j = 0; j < 30; j++) {
			uint64_t start = below(4) ? below(100) : UINT64_MAX - 100 + below(50);
			const struct span span = {start, start + 1 + below(40), below(3), below(4)};
			uint32_t generation = below(4) ? below(10) : UINT32_MAX - below(3);

			if (!below(4))
				assert_int_equal(
					mapping_history_read(history, generation,
							     generation ? below(generation) : 0,
							     below(2)),
					0);
			else if (below(2))
				assert_int_equal(
					mapping_history_mapping(history, generation, &span, &lost),
					0);
			else
				assert_int_equal(
					mapping_history_event(history, generation, &span, &lost),
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
		cmocka_unit_test(answers_as_the_header_says),
		cmocka_unit_test(answers_as_the_header_says_with_losses),
		cmocka_unit_test(what_comes_late_misleads_nobody),
		cmocka_unit_test(anonymous_neighbours_are_one),
		cmocka_unit_test(many_anonymous_regions_are_bounded),
		cmocka_unit_test(holes_that_may_be_mappings_stay),
		cmocka_unit_test(changes_beyond_the_bound_are_counted),
		cmocka_unit_test(what_is_missing_may_still_come),
		cmocka_unit_test(mappings_beyond_the_bound_are_counted),
		cmocka_unit_test(a_change_moves_little),
		cmocka_unit_test(nonsense_is_survived),
	};

	return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}

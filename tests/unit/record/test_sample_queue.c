// SPDX-License-Identifier: GPL-2.0
/* Samples wait for what is to be told of them, and are taken in the order of what they saw. */
#include "record/sample_queue.h"

#include "fake_kernel_records.h"
#include "record/stack_table.h"
#include "sample.h"
#include "sandbox.h"

#define HERE UINT64_C(0x1234)

struct fixture {
	struct fake_files files;
	struct mapped_files *objects;
	struct address_spaces *spaces;
	struct stack_table *profile;
	struct sample_queue *intake;
	union any_sample any; /* last: it ends in an array without a size */
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct file_source source = fake_source(&fixture->files);

	fixture->objects = mapped_files_new("", &source, NULL);
	fixture->spaces = address_spaces_new("", fixture->objects, NULL);
	fixture->profile = stack_table_new(fixture->spaces, 0);
	fixture->intake = sample_queue_new(fixture->spaces, fixture->profile);
	*state = fixture;
	return fixture->intake ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	sample_queue_free(fixture->intake);
	stack_table_free(fixture->profile);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->objects);
	free(fixture);
	return 0;
}

/* A sample at HERE, of space 1. */
static void take(struct fixture *fixture, uint64_t time, uint32_t generation)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 10, "a");

	sample->address_space = 1;
	sample->generation = generation;
	sample->time = time;
	sample->weight = generation;
	sample_user(sample, HERE);
	sample->record.size = sizeof(*sample) + sizeof(uint64_t);
	assert_int_equal(sample_queue_sample(sample, fixture->intake), 0);
}

static uint64_t taken(const struct fixture *fixture)
{
	return stack_table_totals(fixture->profile)->samples;
}

static void settle(struct fixture *fixture, uint64_t seen)
{
	assert_int_equal(sample_queue_flush(fixture->intake, seen), 0);
}

/* Anonymous memory in odd generations, a file in even ones. */
static void told_turns(struct fixture *fixture, uint32_t first, uint32_t last)
{
	for (uint32_t g = first; g <= last; g++)
		fake_mapping(fixture->spaces, 1, g, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000,
			     g % 2 ? 0 : 1, 0);
}

struct sums {
	uint64_t by_kind[2], unknown; /* weights */
};

static int sum_up(const struct stack *stack, void *arg)
{
	struct sums *sums = arg;
	uint32_t where = stack_segments(stack)[0];

	if (where == SEGMENT_NONE)
		sums->unknown += stack->weight;
	else
		sums->by_kind[where == SEGMENT_ANON] += stack->weight;
	return 0;
}

static struct sums sum(const struct fixture *fixture)
{
	struct sums sums = {.unknown = 0};

	assert_int_equal(stack_table_each(fixture->profile, sum_up, &sums), 0);
	return sums;
}

static void samples_wait_until_their_space_is_told(void **state)
{
	struct fixture *fixture = *state;

	sample_queue_begin(fixture->intake, false);
	take(fixture, 100, 1);
	assert_int_equal(taken(fixture), 0);
	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	sample_queue_begin(fixture->intake, true);
	take(fixture, 200, 1);
	assert_int_equal(taken(fixture), 0);
	/* One of the same space may still come that was taken before it. */
	settle(fixture, 150);
	assert_int_equal(taken(fixture), 1);
	settle(fixture, 250);
	assert_int_equal(taken(fixture), 2);
	assert_int_equal(sum(fixture).unknown, 0);
	/* Now nothing more is to be told of this generation. */
	sample_queue_begin(fixture->intake, false);
	take(fixture, 300, 1);
	assert_int_equal(taken(fixture), 3);
	take(fixture, 300, 2);
	assert_int_equal(taken(fixture), 3);
	assert_int_equal(sample_queue_early(fixture->intake), 0);
}

/* Two CPUs, drained one after the other, saw the same changes. */
static void samples_are_taken_in_the_order_of_generations(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	told_turns(fixture, 2, 101);
	sample_queue_begin(fixture->intake, true);
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		for (uint32_t g = 1 + cpu; g <= 100; g += 1 + cpu)
			take(fixture, g, g);
	}
	settle(fixture, UINT64_MAX);
	sums = sum(fixture);
	/* 1 + 3 + ... + 99, and 2 * (2 + 4 + ... + 100). */
	assert_int_equal(sums.by_kind[1], 2500);
	assert_int_equal(sums.by_kind[0], 5100);
	assert_int_equal(sums.unknown, 0);
}

/* The space has gone on: what it was before is not known, and nothing is invented. */
static void a_straggler_is_given_nothing_wrong(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	told_turns(fixture, 2, 10);
	sample_queue_begin(fixture->intake, true);
	take(fixture, 10, 8);
	settle(fixture, 10);
	take(fixture, 5, 7);
	settle(fixture, 20);
	sums = sum(fixture);
	assert_int_equal(sums.by_kind[0], 8);
	assert_int_equal(sums.by_kind[1], 0);
	assert_int_equal(sums.unknown, 7);
}

static void samples_that_wait_are_bounded(void **state)
{
	struct fixture *fixture = *state;
	uint64_t size = sizeof(struct stackbeat_sample) + sizeof(uint64_t);
	uint64_t fit = SAMPLE_QUEUE_BYTES_MAX / size;

	sample_queue_begin(fixture->intake, false);
	for (uint64_t i = 0; i < fit; i++)
		take(fixture, i, 1);
	assert_int_equal(taken(fixture), 0);
	take(fixture, fit, 1);
	assert_int_equal(taken(fixture), fit + 1);
	assert_int_equal(sample_queue_early(fixture->intake), fit + 1);
	assert_int_equal(sum(fixture).unknown, fit + 1);
}

static void kernel_threads_do_not_wait(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 2, "kthreadd");

	sample_queue_begin(fixture->intake, false);
	sample->record.size = sizeof(*sample);
	assert_int_equal(sample_queue_sample(sample, fixture->intake), 0);
	assert_int_equal(taken(fixture), 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(samples_wait_until_their_space_is_told),
		TEST(samples_are_taken_in_the_order_of_generations),
		TEST(a_straggler_is_given_nothing_wrong),
		TEST(samples_that_wait_are_bounded),
		TEST(kernel_threads_do_not_wait),
	};

	return cmocka_run_group_tests_name("intake", tests, NULL, NULL);
}

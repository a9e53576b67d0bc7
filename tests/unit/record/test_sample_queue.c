// SPDX-License-Identifier: GPL-2.0
/* Samples wait for their metadata, and are added in the order of their generations. */
#include "record/sample_queue.h"

#include "fake_kernel_records.h"
#include "record/stack_copies.h"
#include "record/stack_table.h"
#include "sample.h"
#include "sandbox.h"

#define HERE UINT64_C(0x1234)

struct sums {
	uint64_t by_kind[2], unknown; /* weights */
};

struct fixture {
	struct sums sums; /* of the folded stacks */
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *table;
	struct sample_queue *queue;
	union any_sample any; /* last: it ends in an array without a size */
};

static int sum_up(const struct stack *stack, void *sums);

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	const struct file_source source = fake_source(&fixture->files);

	fixture->mapped = mapped_files_new("", &source, NULL);
	fixture->spaces = address_spaces_new("", fixture->mapped, NULL);
	fixture->table = stack_table_new(fixture->spaces, 0, sum_up, &fixture->sums);
	fixture->queue = sample_queue_new(fixture->spaces, fixture->table);
	*state = fixture;
	return fixture->queue ? 0 : -1;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	sample_queue_free(fixture->queue);
	stack_table_free(fixture->table);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	free(fixture);
	return 0;
}

/* The ring may have anything there from now on. */
static void release_sample(struct fixture *fixture)
{
	sample_queue_keep(fixture->queue);
	memset(&fixture->any, 0xa5, sizeof(fixture->any));
}

/* Queues a sample at HERE, of address space 1. */
static void queue_sample(struct fixture *fixture, uint64_t time, uint32_t generation)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 10, "a");

	sample->address_space = 1;
	sample->generation = generation;
	sample->time = time;
	sample->weight = generation;
	sample_user(sample, HERE);
	sample->record.size = sizeof(*sample) + sizeof(uint64_t);
	assert_int_equal(sample_queue_sample(sample, NULL, fixture->queue), 0);
	release_sample(fixture);
}

static uint64_t added_samples(const struct fixture *fixture)
{
	return stack_table_totals(fixture->table)->samples;
}

static void flush(struct fixture *fixture, uint64_t seen)
{
	assert_int_equal(sample_queue_flush(fixture->queue, seen), 0);
}

/* Anonymous memory in odd generations, a file in even ones. */
static void fake_changes(struct fixture *fixture, uint32_t first, uint32_t last)
{
	for (uint32_t g = first; g <= last; g++)
		fake_mapping(fixture->spaces, 1, g, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000,
			     g % 2 ? 0 : 1, 0);
}

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

static struct sums sum_stacks(struct fixture *fixture)
{
	fixture->sums = (struct sums){.unknown = 0};
	assert_int_equal(stack_table_fold(fixture->table), 0);
	return fixture->sums;
}

static void samples_wait_for_their_address_space(void **state)
{
	struct fixture *fixture = *state;

	sample_queue_begin(fixture->queue, false);
	queue_sample(fixture, 100, 1);
	assert_int_equal(added_samples(fixture), 0);
	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	sample_queue_begin(fixture->queue, true);
	queue_sample(fixture, 200, 1);
	assert_int_equal(added_samples(fixture), 0);
	/* An earlier sample of the same address space may still arrive. */
	flush(fixture, 150);
	assert_int_equal(added_samples(fixture), 1);
	flush(fixture, 250);
	assert_int_equal(added_samples(fixture), 2);
	assert_int_equal(sum_stacks(fixture).unknown, 0);
	/* Now the metadata of this generation is complete. */
	sample_queue_begin(fixture->queue, false);
	queue_sample(fixture, 300, 1);
	assert_int_equal(added_samples(fixture), 3);
	queue_sample(fixture, 300, 2);
	assert_int_equal(added_samples(fixture), 3);
	assert_int_equal(sample_queue_early(fixture->queue), 0);
}

/* Two CPUs, drained one after the other, saw the same changes. */
static void samples_are_added_in_order_of_generations(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	fake_changes(fixture, 2, 101);
	sample_queue_begin(fixture->queue, true);
	for (uint32_t cpu = 0; cpu < 2; cpu++) {
		for (uint32_t g = 1 + cpu; g <= 100; g += 1 + cpu)
			queue_sample(fixture, g, g);
	}
	flush(fixture, UINT64_MAX);
	sums = sum_stacks(fixture);
	/* 1 + 3 + ... + 99, and 2 * (2 + 4 + ... + 100). */
	assert_int_equal(sums.by_kind[1], 2500);
	assert_int_equal(sums.by_kind[0], 5100);
	assert_int_equal(sums.unknown, 0);
}

/* The address space has advanced: its former mappings are unknown, and none are invented. */
static void late_sample_gets_no_wrong_mapping(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	fake_changes(fixture, 2, 10);
	sample_queue_begin(fixture->queue, true);
	queue_sample(fixture, 10, 8);
	flush(fixture, 10);
	queue_sample(fixture, 5, 7);
	flush(fixture, 20);
	sums = sum_stacks(fixture);
	assert_int_equal(sums.by_kind[0], 8);
	assert_int_equal(sums.by_kind[1], 0);
	assert_int_equal(sums.unknown, 7);
}

/* Passes a sample at HERE, of address space `space`, as decode_records() does. */
static void pass_sample(struct fixture *fixture, uint64_t space, uint32_t generation,
			uint64_t weight)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 10, "a");

	sample->address_space = space;
	sample->generation = generation;
	sample->weight = weight;
	sample_user(sample, HERE);
	if (!sample_queue_repeat(sample, sample->record.size, fixture->queue))
		assert_int_equal(sample_queue_sample(sample, NULL, fixture->queue), 0);
	release_sample(fixture);
}

/* Stacks that are known by their raw frames keep the names of their generation. */
static void repeated_frames_get_the_mapping_of_their_generation(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	sample_queue_begin(fixture->queue, true);
	for (uint32_t g = 1; g <= 100; g++) {
		if (g > 1)
			fake_changes(fixture, g, g);
		/* Known from the second one on. */
		for (int i = 0; i < 3; i++) {
			pass_sample(fixture, 1, g, 1);
			flush(fixture, UINT64_MAX);
		}
		/* A late sample, from the ring of another CPU. */
		if (g > 1)
			pass_sample(fixture, 1, g - 1, 1000);
	}
	flush(fixture, UINT64_MAX);
	sums = sum_stacks(fixture);
	/* 50 generations each, and all late samples. */
	assert_int_equal(sums.by_kind[1], 50 * 3 + 50 * 1000);
	assert_int_equal(sums.by_kind[0], 50 * 3 + 49 * 1000);
	assert_int_equal(sums.unknown, 0);
	assert_int_equal(added_samples(fixture), 399);
	assert_int_equal(stack_table_totals(fixture->table)->stacks, 2);
}

/* The same frames in the address space of exec, before its mappings are known. */
static void known_frames_wait_in_a_new_address_space(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums;

	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	sample_queue_begin(fixture->queue, true);
	pass_sample(fixture, 1, 1, 1);
	flush(fixture, UINT64_MAX);
	assert_int_equal(added_samples(fixture), 1);
	sample_queue_begin(fixture->queue, false);
	pass_sample(fixture, 2, 1, 10);
	assert_int_equal(added_samples(fixture), 1);
	fake_space(fixture->spaces, 2, 10, 1, "a");
	fake_mapping(fixture->spaces, 2, 1, 0, 0x1000, 0x2000, 1, 0);
	flush(fixture, UINT64_MAX);
	pass_sample(fixture, 2, 1, 10);
	pass_sample(fixture, 1, 1, 1);
	sums = sum_stacks(fixture);
	assert_int_equal(sums.by_kind[1], 2);
	assert_int_equal(sums.by_kind[0], 20);
	assert_int_equal(sums.unknown, 0);
}

/* Samples of earlier drains were copied; samples of this drain, with their stacks, are not. */
static void samples_wait_in_the_ring_and_in_the_queue(void **state)
{
	struct fixture *fixture = *state;
	const struct stack_copies_config config = {.spaces = fixture->spaces,
						   .stacks = fixture->table};
	const struct stackbeat_stack stack = {
		.record = {.type = STACKBEAT_RECORD_STACK,
			   .flags = STACKBEAT_STACK_EXTRA,
			   .size = sizeof(stack)},
	};
	struct stack_copies *copies = stack_copies_new(&config);
	union any_sample in_ring[3];
	struct sums sums;

	sample_queue_set_copies(fixture->queue, copies);
	fake_space(fixture->spaces, 1, 10, 1, "a");
	fake_mapping(fixture->spaces, 1, 1, 0, 0x1000, 0x2000, 0, 0);
	fake_changes(fixture, 2, 10);
	sample_queue_begin(fixture->queue, true);
	queue_sample(fixture, 10, 8);
	queue_sample(fixture, 20, 5);
	for (uint32_t i = 0; i < 3; i++) {
		struct stackbeat_sample *sample = sample_begin(&in_ring[i], 10, "a");

		sample->address_space = 1;
		sample->generation = sample->weight = 9 - 3 * i;
		sample->time = 30 - 10 * i;
		sample_user(sample, HERE);
		assert_int_equal(sample_queue_sample(sample, &stack, fixture->queue), 0);
	}
	assert_int_equal(stack_copies_bytes(copies), 0);
	/* The latest one is copied. */
	flush(fixture, 20);
	assert_int_equal(added_samples(fixture), 4);
	sample_queue_keep(fixture->queue);
	memset(in_ring, 0xa5, sizeof(in_ring));
	assert_true(stack_copies_bytes(copies) >= sizeof(stack));
	flush(fixture, 30);
	assert_int_equal(stack_copies_bytes(copies), 0);
	sums = sum_stacks(fixture);
	assert_int_equal(sums.by_kind[1], 9 + 5 + 3);
	assert_int_equal(sums.by_kind[0], 8 + 6);
	assert_int_equal(sums.unknown, 0);
	sample_queue_set_copies(fixture->queue, NULL);
	stack_copies_free(copies);
}

static void queue_is_bounded(void **state)
{
	struct fixture *fixture = *state;
	uint64_t size = sizeof(struct stackbeat_sample) + sizeof(uint64_t);
	uint64_t fit = SAMPLE_QUEUE_BYTES_MAX / size;

	sample_queue_begin(fixture->queue, false);
	for (uint64_t i = 0; i < fit; i++)
		queue_sample(fixture, i, 1);
	assert_int_equal(added_samples(fixture), 0);
	queue_sample(fixture, fit, 1);
	assert_int_equal(added_samples(fixture), fit);
	assert_int_equal(sample_queue_early(fixture->queue), fit);
	assert_int_equal(sum_stacks(fixture).unknown, fit);
}

static void kernel_threads_do_not_wait(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 2, "kthreadd");

	sample_queue_begin(fixture->queue, false);
	sample->record.size = sizeof(*sample);
	assert_int_equal(sample_queue_sample(sample, NULL, fixture->queue), 0);
	assert_int_equal(added_samples(fixture), 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(samples_wait_for_their_address_space),
		TEST(samples_are_added_in_order_of_generations),
		TEST(late_sample_gets_no_wrong_mapping),
		TEST(repeated_frames_get_the_mapping_of_their_generation),
		TEST(known_frames_wait_in_a_new_address_space),
		TEST(samples_wait_in_the_ring_and_in_the_queue),
		TEST(queue_is_bounded),
		TEST(kernel_threads_do_not_wait),
	};

	return cmocka_run_group_tests_name("sample_queue", tests, NULL, NULL);
}

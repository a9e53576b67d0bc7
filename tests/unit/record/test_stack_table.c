// SPDX-License-Identifier: GPL-2.0
/* Aggregation of samples. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/gone_modules.h"
#include "failing_malloc.h"
#include "fake_kernel_records.h"
#include "lib/error.h"
#include "pprof/truncation.h"
#include "record/gone_parts.h"
#include "record/stack_table.h"
#include "sample.h"

#define KERNEL UINT64_C(0xffffffff81000000)
#define NOWHERE UINT64_C(0x10000)
#define SELF 7 /* the address space of this process */

struct fixture {
	struct stack *stack; /* a copy of the last folded stack */
	uint64_t folded; /* number of folded stacks */
	fold_stack_fn *fold; /* is called for them, with fold_arg; NULL: none */
	void *fold_arg;
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *table;
	uint32_t pid; /* this process */
	uint32_t gone; /* a process that has ended */
	union any_sample any; /* last: it ends in an array without a size */
};

static int fold(const struct stack *stack, void *arg)
{
	struct fixture *fixture = arg;
	int err = fixture->fold ? fixture->fold(stack, fixture->fold_arg) : 0;

	if (err)
		return err;
	assert_true(stack->samples > 0);
	free(fixture->stack);
	fixture->stack = malloc(stack_size(stack));
	assert_non_null(fixture->stack);
	memcpy(fixture->stack, stack, stack_size(stack));
	fixture->folded++;
	return 0;
}

static struct stack_table *new_table(struct fixture *fixture, uint32_t labels)
{
	return stack_table_new(fixture->spaces, labels, fold, fixture);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct file_source source;
	struct error error;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (!fixture || pid < 0 || waitpid(pid, NULL, 0) != pid)
		return -1;
	fixture->pid = getpid();
	fixture->gone = pid;
	source = fake_source(&fixture->files);
	fixture->mapped = mapped_files_new("", &source, &error);
	fixture->spaces = fixture->mapped ? address_spaces_new("", fixture->mapped, &error) : NULL;
	fixture->table = fixture->spaces ? new_table(fixture, LABELS_DEFAULT) : NULL;
	if (fixture->table)
		fake_self(fixture->spaces, &fixture->files, SELF, fixture->pid);
	*state = fixture;
	return fixture->table ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	stack_table_free(fixture->table);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture->stack);
	free(fixture);
	return 0;
}

/* A function of this program: an address that this process has mapped. */
static uint64_t here(void)
{
	return (uint64_t)(uintptr_t)setup;
}

/* The sample that all tests begin with: two kernel and two user frames. */
static struct stackbeat_sample *usual_sample(struct fixture *fixture)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->pid, "usual");

	sample->address_space = SELF;
	sample->generation = 1;
	sample_kernel(sample, KERNEL + 1);
	sample_kernel(sample, KERNEL + 2);
	sample_user(sample, here());
	sample_user(sample, here() + 1);
	return sample;
}

static void add_sample(struct fixture *fixture)
{
	assert_int_equal(stack_table_add(fixture->table, &fixture->any.sample), 0);
}

static uint64_t stack_count_of(const struct fixture *fixture)
{
	return stack_table_totals(fixture->table)->stacks;
}

/* Folds all stacks, and passes each to `fn`. */
static int fold_all(struct fixture *fixture, fold_stack_fn *fn, void *arg)
{
	fixture->fold = fn;
	fixture->fold_arg = arg;
	fixture->folded = 0;
	return stack_table_fold(fixture->table);
}

static const struct stack *only_stack(struct fixture *fixture)
{
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 1);
	return fixture->stack;
}

static void is_empty_at_first(void **state)
{
	struct fixture *fixture = *state;
	const struct sample_totals *totals = stack_table_totals(fixture->table);

	assert_int_equal(totals->samples + totals->weight + totals->missed + totals->stacks, 0);
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 0);
	stack_table_free(NULL);
}

static void stores_all_fields_of_a_stack(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);
	const struct stack *stack;

	sample->kernel_stop = STACKBEAT_STOP_BAD_FRAME;
	sample->user_stop = STACKBEAT_STOP_FAULT;
	sample->record.flags |= STACKBEAT_SAMPLE_COMPAT;
	add_sample(fixture);
	stack = only_stack(fixture);
	assert_int_equal(stack->origin.pid, fixture->pid);
	assert_int_equal(address_space_pid(stack->space), fixture->pid);
	assert_string_equal(stack->origin.thread, "usual");
	assert_int_equal(stack->origin.tid, 0);
	assert_int_equal(stack->origin.cpu, 0);
	assert_int_equal(stack->kernel_frames, 2);
	assert_int_equal(stack->user_frames, 2);
	assert_int_equal(stack->kernel_stop, STACKBEAT_STOP_BAD_FRAME);
	assert_int_equal(stack->user_stop, STACKBEAT_STOP_FAULT);
	assert_int_equal(stack->flags, STACKBEAT_SAMPLE_KERNEL | STACKBEAT_SAMPLE_COMPAT);
	/* Return addresses are decremented into their calls; user frames are offsets in a file. */
	assert_int_equal(stack->frames[0], KERNEL + 1);
	assert_int_equal(stack->frames[1], KERNEL + 1);
	assert_int_equal(stack->frames[2], stack->frames[3]);
	assert_int_equal(stack->frames[2] % 4096, here() % 4096);
	assert_true(stack->frames[2] < here());
	assert_true(stack_segments(stack)[0] >= SEGMENT_FILES);
	assert_int_equal(stack_segments(stack)[0], stack_segments(stack)[1]);
}

/* The same addresses, with another mapping there. */
static void mappings_distinguish_stacks(void **state)
{
	struct fixture *fixture = *state;
	uint64_t start = here() & ~UINT64_C(4095);
	uint64_t other = fake_file(fixture->mapped, &fixture->files, "/bin/sh");

	usual_sample(fixture);
	add_sample(fixture);
	fake_mapping(fixture->spaces, SELF, 2, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0, 0);
	fake_mapping(fixture->spaces, SELF, 3, STACKBEAT_MAPPING_EVENT, start, start + 4096, other,
		     0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, SELF, 0), 2), 0);
	usual_sample(fixture)->generation = 2;
	add_sample(fixture);
	assert_int_equal(stack_count_of(fixture), 1);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, SELF, 0), 3), 0);
	usual_sample(fixture)->generation = 3;
	add_sample(fixture);
	assert_int_equal(stack_count_of(fixture), 2);
}

/* The return address of a call at the end of a mapping lies behind the mapping. */
static void call_is_in_the_mapping_before_its_return_address(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 4711, "call");
	const struct stack *stack;

	fake_space(fixture->spaces, 8, 4711, 1, "call");
	fake_mapping(fixture->spaces, 8, 1, 0, 0x1000, 0x2000, 0, 0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 8, 0), 1), 0);
	sample->address_space = 8;
	sample->generation = 1;
	sample_user(sample, 0x2000);
	sample_user(sample, 0x2000);
	add_sample(fixture);
	stack = only_stack(fixture);
	assert_int_equal(stack_segments(stack)[0], SEGMENT_NONE);
	assert_int_equal(stack_segments(stack)[1], SEGMENT_ANON);
	assert_int_equal(stack->frames[1], 0x1fff);
}

/* Time, losses and, by default, CPU and thread do not distinguish stacks. */
static void equal_stacks_are_aggregated(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);
	const struct stack *stack;

	sample->tid++;
	add_sample(fixture);
	sample->time = 77;
	sample->cpu = 3;
	sample->tid++;
	sample->lost = 5;
	sample->weight = 5000000;
	sample->missed = 4;
	add_sample(fixture);
	stack = only_stack(fixture);
	assert_int_equal(stack->samples, 2);
	assert_int_equal(stack->weight, 6000000);
	assert_int_equal(stack_table_totals(fixture->table)->samples, 2);
	assert_int_equal(stack_table_totals(fixture->table)->weight, 6000000);
	assert_int_equal(stack_table_totals(fixture->table)->missed, 4);
}

/* A fold passes what was added since the one before. */
static void folded_stacks_begin_at_zero(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);

	for (uint64_t i = 1; i <= 3; i++) {
		const struct stack *stack;

		sample->weight = 1000 * i;
		add_sample(fixture);
		stack = only_stack(fixture);
		assert_int_equal(stack->samples, 1);
		assert_int_equal(stack->weight, 1000 * i);
	}
	assert_int_equal(stack_table_totals(fixture->table)->samples, 3);
	assert_int_equal(stack_table_totals(fixture->table)->weight, 6000);
}

static void other_comm(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	strcpy(sample->comm, "other");
}

static void other_process(struct fixture *fixture, struct stackbeat_sample *sample)
{
	sample->pid = fixture->gone;
}

static void other_kernel_frame(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->frames[0]++;
}

static void other_user_frame(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->frames[3]++;
}

static void other_order(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->frames[2] = here() + 1;
	sample->frames[3] = here();
}

static void one_frame_more(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample_user(sample, here());
}

static void one_frame_less(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->user_frames--;
}

/* The same addresses: the first user frame becomes the last kernel frame. */
static void other_parts(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->kernel_frames++;
	sample->user_frames--;
}

static void other_kernel_stop(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->kernel_stop = STACKBEAT_STOP_MAX_DEPTH;
}

static void other_user_stop(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->user_stop = STACKBEAT_STOP_MAX_DEPTH;
}

static void other_flags(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->record.flags |= STACKBEAT_SAMPLE_COMPAT;
}

static void different_stacks_stay_apart(void **state)
{
	static void (*const changes[])(struct fixture *, struct stackbeat_sample *) = {
		other_comm,      other_process,     other_kernel_frame, other_user_frame,
		other_order,     one_frame_more,    one_frame_less,     other_parts,
		other_user_stop, other_kernel_stop, other_flags};
	struct fixture *fixture = *state;

	usual_sample(fixture);
	add_sample(fixture);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		changes[i](fixture, usual_sample(fixture));
		add_sample(fixture);
		assert_int_equal(stack_count_of(fixture), i + 2);
		add_sample(fixture);
		assert_int_equal(stack_count_of(fixture), i + 2);
	}
	usual_sample(fixture);
	add_sample(fixture);
	assert_int_equal(stack_count_of(fixture), sizeof(changes) / sizeof(changes[0]) + 1);
}

static void other_thread(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->tid++;
}

static void other_cpu(struct fixture *fixture, struct stackbeat_sample *sample)
{
	(void)fixture;
	sample->cpu++;
}

/* Only the chosen labels distinguish stacks. */
static void chosen_labels_distinguish_stacks(void **state)
{
	static const struct {
		enum label label;
		void (*change)(struct fixture *, struct stackbeat_sample *);
	} cases[] = {
		{LABEL_COMM, other_comm},
		{LABEL_THREAD, other_comm},
		{LABEL_TID, other_thread},
		{LABEL_CPU, other_cpu},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint64_t chosen = 0; chosen < 2; chosen++) {
			stack_table_free(fixture->table);
			fixture->table = new_table(fixture, chosen ? LABEL_SET(cases[i].label) : 0);
			assert_non_null(fixture->table);
			usual_sample(fixture);
			add_sample(fixture);
			cases[i].change(fixture, usual_sample(fixture));
			add_sample(fixture);
			assert_int_equal(stack_count_of(fixture), 1 + chosen);
			assert_int_equal(stack_table_totals(fixture->table)->samples, 2);
		}
	}
}

static void the_largest_and_the_smallest_sample_fit(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->gone, "kthread");

	sample->user_stop = STACKBEAT_STOP_NO_USER_MEMORY;
	add_sample(fixture);
	/* These need more than one chunk. */
	for (uint64_t i = 0; i < 100; i++) {
		sample = sample_begin(&fixture->any, fixture->pid, "0123456789abcde");
		for (uint32_t frame = 0; frame < STACKBEAT_KERNEL_FRAMES_MAX; frame++)
			sample_kernel(sample, KERNEL + i);
		for (uint32_t frame = 0; frame < STACKBEAT_USER_FRAMES_MAX; frame++)
			sample_user(sample, here() + frame);
		add_sample(fixture);
		add_sample(fixture);
		assert_int_equal(stack_count_of(fixture), 2 + i);
	}
	assert_int_equal(stack_table_totals(fixture->table)->samples, 201);
}

/* The sample has a goroutine that a go statement before `creator` has created. */
static void set_creator(struct stackbeat_sample *sample, uint64_t creator)
{
	sample_user(sample, creator);
	sample->user_frames--;
	sample->record.flags |= STACKBEAT_SAMPLE_GO_CREATOR;
}

/* The go statement is in the stack as a user frame would be, but is none. */
static void creators_distinguish_stacks(void **state)
{
	struct fixture *fixture = *state;
	const struct stack *stack;

	for (uint64_t chosen = 0; chosen < 2; chosen++) {
		stack_table_free(fixture->table);
		fixture->table = new_table(fixture, chosen ? LABEL_SET(LABEL_GO_CREATOR) : 0);
		assert_non_null(fixture->table);
		for (uint64_t i = 0; i < 4; i++) {
			set_creator(usual_sample(fixture), here() + i % 2);
			add_sample(fixture);
		}
		assert_int_equal(stack_count_of(fixture), 1 + chosen);
	}
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	stack = fixture->stack;
	assert_true(stack->has_go_creator);
	assert_int_equal(stack->user_frames, 2);
	/* The leaf has the other address; this one is after a call, too. */
	assert_int_equal(stack->frames[4], stack->frames[2]);
	assert_int_equal(stack_segments(stack)[2], stack_segments(stack)[0]);
}

/* A program can write anything where its creator should be. */
static void forged_creators_are_dropped(void **state)
{
	const uint64_t forged[] = {1, NOWHERE, UINT64_MAX, KERNEL, 0};
	struct fixture *fixture = *state;

	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, LABEL_SET(LABEL_GO_CREATOR));
	assert_non_null(fixture->table);
	for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
		set_creator(usual_sample(fixture), forged[i]);
		add_sample(fixture);
		assert_false(only_stack(fixture)->has_go_creator);
		assert_int_equal(fixture->stack->user_frames, 2);
	}
}

/* Makes a sample with all frames and the creator of a goroutine. */
static struct stackbeat_sample *deepest_sample(struct fixture *fixture)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->pid, "deep");

	sample->address_space = SELF;
	sample->generation = 1;
	while (sample->kernel_frames < STACKBEAT_KERNEL_FRAMES_MAX)
		sample_kernel(sample, KERNEL);
	while (sample->user_frames < STACKBEAT_USER_FRAMES_MAX)
		sample_user(sample, here() + 1);
	set_creator(sample, here() + 1);
	return sample;
}

static void the_deepest_sample_has_room_for_a_creator(void **state)
{
	struct fixture *fixture = *state;

	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, LABEL_SET(LABEL_GO_CREATOR));
	assert_non_null(fixture->table);
	deepest_sample(fixture);
	add_sample(fixture);
	assert_true(only_stack(fixture)->has_go_creator);
}

/* Equal sets of labels are of one stack, whatever their order. */
static void go_labels_distinguish_stacks(void **state)
{
	struct fixture *fixture = *state;
	const struct stackbeat_go_labels *labels;
	struct stackbeat_sample *sample;

	for (uint64_t chosen = 0; chosen < 2; chosen++) {
		stack_table_free(fixture->table);
		fixture->table = new_table(fixture, chosen ? LABEL_SET(LABEL_GO_LABELS) : 0);
		assert_non_null(fixture->table);
		for (uint64_t i = 0; i < 6; i++) {
			sample = usual_sample(fixture);
			if (i % 2)
				sample_go_label(sample, "path", "/a");
			sample_go_label(sample, "kind", i < 4 ? "1" : "2");
			if (!(i % 2))
				sample_go_label(sample, "path", "/a");
			add_sample(fixture);
		}
		usual_sample(fixture);
		add_sample(fixture);
		assert_int_equal(stack_count_of(fixture), chosen ? 3 : 1);
	}
	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, LABEL_SET(LABEL_GO_LABELS));
	assert_non_null(fixture->table);
	sample = usual_sample(fixture);
	sample_go_label(sample, "k", "12");
	add_sample(fixture);
	labels = stack_go_labels(only_stack(fixture));
	assert_non_null(labels);
	assert_int_equal(labels->count, 1);
	assert_memory_equal(labels->bytes, "\1\2k12", 5);
	assert_int_equal(stack_segments(fixture->stack)[0], stack_segments(fixture->stack)[1]);
	assert_int_equal(stack_size(fixture->stack), sizeof(struct stack) +
							     fixture->stack->kernel_frames * 8u +
							     2 * (8 + 4) + 16);
}

/* As deepest_sample(), with the largest labels of the goroutine. */
static struct stackbeat_sample *largest_sample(struct fixture *fixture)
{
	struct stackbeat_sample *sample = deepest_sample(fixture);
	char value[STACKBEAT_GO_LABEL_VALUE_MAX + 1];
	char key[2] = "a";

	memset(value, 'v', sizeof(value));
	for (unsigned int i = 0; i < 4; i++, key[0]++) {
		value[i < 3 ? STACKBEAT_GO_LABEL_VALUE_MAX : 504 - 3 * 130 - 3] = '\0';
		sample_go_label(sample, key, value);
	}
	return sample;
}

static void the_deepest_sample_has_room_for_go_labels(void **state)
{
	struct fixture *fixture = *state;
	const struct stackbeat_sample *sample;

	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, LABELS_ALL);
	assert_non_null(fixture->table);
	sample = largest_sample(fixture);
	add_sample(fixture);
	assert_int_equal(only_stack(fixture)->go_label_words,
			 STACKBEAT_GO_LABELS_SIZE_MAX / sizeof(uint64_t));
	assert_true(fixture->stack->has_go_creator);
	/* The same again is found without a lookup of its frames. */
	assert_int_equal(stack_table_repeat(fixture->table, sample, sample->record.size),
			 sample->record.size);
}

/* Some of these stacks have the same hash. */
#define MANY 300000u

static void make_nth_stack(struct fixture *fixture, uint64_t i)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->gone, "many");

	/* Deeper frames differ, as in real stacks; the weight distinguishes them. */
	sample_kernel(sample, KERNEL);
	sample_kernel(sample, KERNEL + i % 317);
	sample_user(sample, NOWHERE);
	sample_user(sample, NOWHERE + 16 * i);
	sample->weight = i + 1;
	sample->missed = 1;
	add_sample(fixture);
}

struct sums {
	uint64_t stacks, samples, weight, wrong;
};

static int sum_up(const struct stack *stack, void *arg)
{
	uint64_t i = (stack->frames[3] + 1 - NOWHERE) / 16;
	struct sums *sums = arg;

	sums->stacks++;
	sums->samples += stack->samples;
	sums->weight += stack->weight;
	sums->wrong += stack->samples != 2 || stack->weight != 2 * (i + 1) ||
		       stack->frames[1] + 1 != KERNEL + i % 317;
	return 0;
}

static void grows_with_many_stacks(void **state)
{
	struct fixture *fixture = *state;
	struct sums sums = {0};
	const struct sample_totals *totals = stack_table_totals(fixture->table);
	const uint64_t weight = (uint64_t)MANY * (MANY + 1);

	for (uint64_t i = 0; i < MANY; i++)
		make_nth_stack(fixture, i);
	assert_int_equal(totals->stacks, MANY);
	for (uint64_t i = MANY; i > 0; i--)
		make_nth_stack(fixture, i - 1);
	assert_int_equal(totals->stacks, MANY);
	assert_int_equal(totals->samples, 2 * MANY);
	assert_int_equal(totals->weight, weight);
	assert_int_equal(totals->missed, 2 * MANY);

	assert_int_equal(fold_all(fixture, sum_up, &sums), 0);
	assert_int_equal(sums.stacks, MANY);
	assert_int_equal(sums.samples, 2 * MANY);
	assert_int_equal(sums.weight, weight);
	assert_int_equal(sums.wrong, 0);
}

/* An address outside all code is no caller, and neither are those after it. */
static void stack_ends_before_an_unmapped_caller(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);
	const struct stack *stack;

	sample_user(sample, NOWHERE);
	sample_user(sample, here());
	sample->user_stop = STACKBEAT_STOP_OUTERMOST;
	add_sample(fixture);
	stack = only_stack(fixture);
	assert_int_equal(stack->kernel_frames, 2);
	assert_int_equal(stack->user_frames, 2);
	assert_int_equal(stack->user_stop, STACKBEAT_STOP_BAD_FRAME);
	/* The leaf is always kept: the CPU was there. */
	sample = usual_sample(fixture);
	sample->frames[2] = NOWHERE;
	add_sample(fixture);
	assert_int_equal(stack_count_of(fixture), 2);
	/* Uncertain mappings: the frame is kept. */
	sample = usual_sample(fixture);
	sample_user(sample, NOWHERE);
	sample->generation = 0;
	add_sample(fixture);
	assert_int_equal(stack_count_of(fixture), 3);
	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, 0);
	add_sample(fixture);
	assert_int_equal(only_stack(fixture)->user_frames, 3);
}

/* Code in a mapping that is not known has no table: that is no bad frame pointer. */
static void end_in_an_unknown_mapping_has_its_own_cause(void **state)
{
	static const struct {
		bool is_known, is_certain; /* the mapping of the last frame; all mappings */
		uint16_t table_frames;
		uint8_t stop, expected;
	} cases[] = {
		{false, false, 1, STACKBEAT_STOP_BAD_FRAME, TRUNCATION_STOP_UNKNOWN_MAPPING},
		{true, true, 1, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_BAD_FRAME},
		{false, true, 1, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_BAD_FRAME},
		{false, false, 1, STACKBEAT_STOP_OUTERMOST, STACKBEAT_STOP_OUTERMOST},
		{false, false, 0, STACKBEAT_STOP_BAD_FRAME, STACKBEAT_STOP_BAD_FRAME},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct stackbeat_sample *sample = usual_sample(fixture);

		stack_table_free(fixture->table);
		fixture->table = new_table(fixture, 0);
		sample_user(sample, cases[i].is_known ? here() : NOWHERE);
		sample->table_frames = cases[i].table_frames;
		sample->user_stop = cases[i].stop;
		if (!cases[i].is_certain)
			sample->generation = 0;
		add_sample(fixture);
		assert_int_equal(only_stack(fixture)->user_stop, cases[i].expected);
	}
}

/* As of a copy: its walk ends at the leaf. */
static void leaf_in_an_unknown_mapping_has_its_own_cause(void **state)
{
	const uint64_t address = NOWHERE;
	const struct copied_frames frames = {
		.addresses = &address, .count = 1, .stop = STACKBEAT_STOP_BAD_FRAME};
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);

	assert_int_equal(stack_table_add_copied(fixture->table, sample, &frames, NULL), 0);
	assert_int_equal(only_stack(fixture)->user_stop, TRUNCATION_STOP_UNKNOWN_MAPPING);
}

static void unknown_address_space_has_no_mappings(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->gone, "gone");
	const struct stack *stack;

	sample_user(sample, here());
	add_sample(fixture);
	add_sample(fixture);
	stack = only_stack(fixture);
	assert_int_equal(stack->samples, 2);
	assert_int_equal(stack->origin.pid, fixture->gone);
	assert_int_equal(address_space_pid(stack->space), fixture->gone);
	assert_string_equal(address_space_comm(stack->space), "");
	assert_int_equal(stack_segments(stack)[0], SEGMENT_NONE);
	assert_int_equal(stack->frames[0], here());
}

/* The file of a frame is read, once, and no other. */
static void files_of_frames_are_read(void **state)
{
	struct fixture *fixture = *state;

	for (uint64_t i = 0; i < 100; i++) {
		usual_sample(fixture)->frames[1] += i;
		add_sample(fixture);
	}
	mapped_files_finish(fixture->mapped);
	assert_int_equal(fixture->files.opened, 1);
	assert_int_equal(fixture->files.released, fixture->files.count);
}

static int check_weight_is_next(const struct stack *stack, void *arg)
{
	uint64_t *weight = arg;

	assert_int_equal(stack->weight, ++*weight);
	return 0;
}

static void stacks_are_in_order_of_insertion(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);
	uint64_t weight = 0;

	for (uint64_t i = 1; i <= 5000; i++) {
		sample->frames[0] = KERNEL + i;
		sample->weight = i;
		add_sample(fixture);
	}
	assert_int_equal(fold_all(fixture, check_weight_is_next, &weight), 0);
	assert_int_equal(weight, 5000);
}

static int stop_at_third(const struct stack *stack, void *arg)
{
	(void)stack;
	return ++*(int *)arg == 3 ? -ECANCELED : 0;
}

static void iteration_can_be_stopped(void **state)
{
	struct fixture *fixture = *state;
	int seen = 0;

	for (uint64_t i = 0; i < 10; i++)
		make_nth_stack(fixture, i);
	assert_int_equal(fold_all(fixture, stop_at_third, &seen), -ECANCELED);
	assert_int_equal(seen, 3);
	/* The counts of that stack and of those behind it are not lost. */
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 8);
}

static int sum_samples(const struct stack *stack, void *arg)
{
	*(uint64_t *)arg += stack->samples;
	return 0;
}

/* Nothing is counted twice, and what comes after a fold is in the next one. */
static void folds_have_the_samples_since_the_last_one(void **state)
{
	struct fixture *fixture = *state;
	uint64_t samples = 0;

	make_nth_stack(fixture, 1);
	make_nth_stack(fixture, 2);
	assert_int_equal(fold_all(fixture, sum_samples, &samples), 0);
	assert_int_equal(samples, 2);
	make_nth_stack(fixture, 2);
	assert_int_equal(fold_all(fixture, sum_samples, &samples), 0);
	assert_int_equal(samples, 3);
	assert_int_equal(fixture->folded, 1);
	assert_int_equal(fold_all(fixture, sum_samples, &samples), 0);
	assert_int_equal(samples, 3);
	/* Its stack was removed meanwhile, and the cache must not know it. */
	make_nth_stack(fixture, 1);
	assert_int_equal(fold_all(fixture, sum_samples, &samples), 0);
	assert_int_equal(samples, 4);
}

/* Memory is given back with the stacks that are no longer sampled. */
/* A fold that lacks memory, at first. */
static struct {
	const struct stack_table *table;
	size_t bytes; /* before the call */
	unsigned int refused; /* calls that still fail */
} last_fold;

static int fold_last(const struct stack *stack, void *arg)
{
	(void)arg;
	(void)stack;
	/* The memory of the stacks before is free. */
	assert_true(stack_table_bytes(last_fold.table) <= last_fold.bytes);
	if (last_fold.refused) {
		last_fold.refused--;
		return -ENOMEM;
	}
	last_fold.bytes = stack_table_bytes(last_fold.table) - 1;
	return 0;
}

static void add_stacks(struct fixture *fixture, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		struct stackbeat_sample *sample = usual_sample(fixture);

		sample_kernel(sample, KERNEL + 100 + i);
		add_sample(fixture);
		add_sample(fixture);
	}
}

static void last_fold_gives_memory_back(void **state)
{
	struct fixture *fixture = *state;
	size_t empty = stack_table_bytes(fixture->table);

	fixture->fold = fold_last;
	last_fold.table = fixture->table;
	add_stacks(fixture, 10);
	last_fold.bytes = stack_table_bytes(fixture->table);
	/* The first one does not fit before the others are folded. */
	last_fold.refused = 1;
	assert_int_equal(stack_table_fold_last(fixture->table), 0);
	assert_int_equal(fixture->folded, 10);
	assert_true(stack_table_bytes(fixture->table) < last_fold.bytes);
	assert_in_range(stack_table_bytes(fixture->table), empty, empty + 10000);
	assert_int_equal(stack_table_fold_last(fixture->table), 0);
	assert_int_equal(fixture->folded, 10);
	assert_int_equal(stack_table_totals(fixture->table)->samples, 20);
}

static void last_fold_counts_what_is_left(void **state)
{
	struct fixture *fixture = *state;

	fixture->fold = fold_last;
	last_fold.table = fixture->table;
	add_stacks(fixture, 10);
	last_fold.bytes = stack_table_bytes(fixture->table);
	/* In the second pass, seven are folded. */
	last_fold.refused = 13;
	assert_int_equal(stack_table_fold_last(fixture->table), 3 * 2);
	assert_int_equal(fixture->folded, 7);
	/* They still belong to their address space. */
	assert_int_equal(stack_table_fold_last(fixture->table), 0);
	assert_int_equal(fixture->folded, 10);
}

static void stacks_without_samples_are_removed(void **state)
{
	struct fixture *fixture = *state;
	size_t before;

	for (uint64_t i = 0; i < 1000; i++)
		make_nth_stack(fixture, i);
	before = stack_table_bytes(fixture->table);
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(stack_table_bytes(fixture->table), before);
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_true(stack_table_bytes(fixture->table) + 1000 * sizeof(struct stack) < before);
	/* Their places are used again. */
	before = stack_table_bytes(fixture->table);
	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < 1000; i++)
			make_nth_stack(fixture, i);
		assert_int_equal(fold_all(fixture, NULL, NULL), 0);
		assert_int_equal(fold_all(fixture, NULL, NULL), 0);
		assert_int_equal(stack_table_bytes(fixture->table), before);
	}
}

/* The stacks of an address space leave the table when it is forgotten. */
static void stacks_of_ended_processes_are_folded(void **state)
{
	struct fixture *fixture = *state;
	uint64_t samples = 0;

	fixture->fold = sum_samples;
	fixture->fold_arg = &samples;
	fake_space(fixture->spaces, 8, fixture->gone, 1, "gone");
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 8, 0), 1), 0);
	for (uint64_t i = 0; i < 3; i++) {
		usual_sample(fixture)->address_space = 8;
		fixture->any.sample.frames[0] += i;
		add_sample(fixture);
		add_sample(fixture);
	}
	assert_int_equal(address_spaces_collect_garbage(fixture->spaces, 1, 2, true), 0);
	assert_int_equal(samples, 0);
	assert_int_equal(address_spaces_collect_garbage(fixture->spaces, 3, 4, false), 0);
	assert_int_equal(samples, 6);
	assert_int_equal(fixture->folded, 3);
	stack_table_sweep(fixture->table);
	/* A late sample, of an address space that is unknown now. */
	add_sample(fixture);
	assert_int_equal(fold_all(fixture, sum_samples, &samples), 0);
	assert_int_equal(fixture->folded, 1);
	assert_int_equal(samples, 7);
}

/* Samples of a process that has ended do not find its stacks, whether these are freed or not. */
static void stacks_of_ended_processes_are_not_found(void **state)
{
	static const uint64_t counts[] = {3, 4000};
	struct fixture *fixture = *state;
	const struct stackbeat_sample *sample = &fixture->any.sample;

	for (uint64_t id = 8; id < 10; id++) {
		const uint64_t count = counts[id - 8];

		fake_space(fixture->spaces, id, fixture->gone, 1, "gone");
		assert_int_equal(
			address_space_advance(address_spaces_get(fixture->spaces, id, 0), 1), 0);
		for (uint64_t i = 0; i < count; i++) {
			usual_sample(fixture)->address_space = id;
			fixture->any.sample.frames[0] += i;
			add_sample(fixture);
			assert_int_equal(
				stack_table_repeat(fixture->table, sample, sample->record.size),
				sample->record.size);
		}
		assert_int_equal(
			address_spaces_collect_garbage(fixture->spaces, 2 * id, 2 * id + 1, true),
			0);
		assert_int_equal(address_spaces_collect_garbage(fixture->spaces, 2 * id + 2,
								2 * id + 3, false),
				 0);
		stack_table_sweep(fixture->table);
		for (uint64_t i = 0; i < count; i++) {
			usual_sample(fixture)->address_space = id;
			fixture->any.sample.frames[0] += i;
			assert_int_equal(
				stack_table_repeat(fixture->table, sample, sample->record.size), 0);
		}
	}
}

/* Adds a stack in two new files. Returns the error. */
static int add_in_two_files(struct fixture *fixture)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, fixture->pid, "two");

	sample->address_space = 20;
	sample->generation = 1;
	sample_user(sample, 0x100100);
	sample_user(sample, 0x200100);
	return stack_table_add(fixture->table, sample);
}

/* Without memory for the second file, a stack is not added: later, both are opened. */
static bool stack_without_memory_is_not_added(unsigned long allocation)
{
	struct fixture *fixture;
	bool has_failed;
	void *state;

	assert_int_equal(setup(&state), 0);
	fixture = state;
	fake_space(fixture->spaces, 20, fixture->pid, 1, "two");
	fake_mapping(fixture->spaces, 20, 1, 0, 0x100000, 0x110000,
		     fake_file(fixture->mapped, &fixture->files, "/bin/sh"), 0);
	fake_mapping(fixture->spaces, 20, 1, 0, 0x200000, 0x210000,
		     fake_file(fixture->mapped, &fixture->files, "/bin/ls"), 0);
	assert_int_equal(
		address_space_advance(address_spaces_get(fixture->spaces, 20, fixture->pid), 1), 0);
	fail_malloc(allocation, false);
	has_failed = add_in_two_files(fixture);
	fail_malloc(0, false);
	assert_int_equal(stack_table_totals(fixture->table)->samples, !has_failed);
	assert_int_equal(add_in_two_files(fixture), 0);
	mapped_files_finish(fixture->mapped);
	assert_int_equal(fixture->files.opened, 2);
	teardown(&state);
	return has_failed;
}

static void files_are_held_with_their_stack(void **state)
{
	unsigned long failed = 0, last = 0;

	(void)state;
	/* Not each failure is an error: a hash table works without more memory. */
	for (unsigned long i = 1; i <= 30; i++) {
		if (!stack_without_memory_is_not_added(i))
			continue;
		failed++;
		last = i;
	}
	assert_in_range(failed, 4, 29);
	assert_in_range(last, 4, 29);
}

struct folded_moments {
	struct sample_moment items[4];
	size_t count;
	uint64_t samples;
};

static int fold_moments(const struct stack *stack, void *arg)
{
	struct folded_moments *folded = arg;

	for (size_t i = 0; i < stack->moment_count; i++)
		folded->items[folded->count++] = stack->moments[i];
	folded->samples += stack->samples;
	return 0;
}

/* By the fast path, too; they leave the table with the counts of their stack. */
static void samples_are_kept_apart(void **state)
{
	struct fixture *fixture = *state;
	struct stackbeat_sample *sample = usual_sample(fixture);
	struct folded_moments folded = {.count = 0};
	size_t bytes;

	stack_table_free(fixture->table);
	fixture->table = new_table(fixture, LABELS_DEFAULT | LABEL_SET(LABEL_MOMENT));
	sample->time = 1000;
	add_sample(fixture);
	bytes = stack_table_bytes(fixture->table);
	for (unsigned int i = 1; i < 3; i++) {
		sample->time = 1000 + i;
		sample->weight += i;
		assert_int_equal(stack_table_repeat(fixture->table, sample, sample->record.size),
				 sample->record.size);
	}
	assert_int_equal(stack_count_of(fixture), 1);
	assert_int_equal(stack_table_bytes(fixture->table) - bytes,
			 stack_table_totals(fixture->table)->moment_bytes -
				 sizeof(struct sample_moment));
	assert_int_equal(fold_all(fixture, fold_moments, &folded), 0);
	assert_int_equal(folded.samples, 3);
	assert_int_equal(folded.count, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(folded.items[i].time, 1000 + i);
	assert_int_equal(folded.items[0].weight, 1000000);
	assert_int_equal(folded.items[2].weight, 1000003);
	assert_int_equal(stack_table_totals(fixture->table)->moment_bytes, 0);

	/* Without them again. */
	stack_table_keep_moments(fixture->table, false);
	add_sample(fixture);
	folded = (struct folded_moments){.count = 0};
	assert_int_equal(fold_all(fixture, fold_moments, &folded), 0);
	assert_int_equal(folded.samples, 1);
	assert_int_equal(folded.count, 0);
}

#define MODULE_CODE UINT64_C(0xffffffffc0000000)

/* Returns the bytes of a sample in a kernel module that the cache has counted. */
static uint64_t repeat_in_module(struct fixture *fixture, uint64_t time)
{
	struct stackbeat_sample *sample = usual_sample(fixture);

	sample->frames[0] = MODULE_CODE;
	sample->time = time;
	return stack_table_repeat(fixture->table, sample, sample->record.size);
}

/* The same address, of two modules. */
static void modules_distinguish_stacks(void **state)
{
	struct fixture *fixture = *state;
	struct gone_part items[] = {
		{.serial = 1, .came = 10, .gone = 20},
		{.serial = 2, .came = 30},
	};
	const struct gone_parts parts = {
		.items = items, .count = 2, .start = MODULE_CODE, .end = MODULE_CODE + 1};

	for (size_t i = 0; i < 2; i++) {
		items[i].start = MODULE_CODE;
		items[i].end = items[i].reach = MODULE_CODE + 1;
	}
	/* Before the parts are known. The first sample is folded at once. */
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(repeat_in_module(fixture, 5), 0);
		add_sample(fixture);
	}
	assert_true(repeat_in_module(fixture, 5));
	stack_table_use_parts(fixture->table, &parts);
	stack_table_parts_changed(fixture->table);
	for (uint64_t time = 10; time <= 30; time += 20) {
		assert_int_equal(repeat_in_module(fixture, time), 0);
		add_sample(fixture);
		assert_int_equal(repeat_in_module(fixture, time), 0);
		add_sample(fixture);
	}
	assert_int_equal(stack_count_of(fixture), 3);
	/* Without the first part, the address is of one module. */
	items[0].start = items[0].end = items[0].reach = 0;
	stack_table_parts_changed(fixture->table);
	assert_int_equal(repeat_in_module(fixture, 30), 0);
	add_sample(fixture);
	assert_true(repeat_in_module(fixture, 31));
	assert_int_equal(stack_count_of(fixture), 3);
}

/* Passes a sample as the reader does. Returns whether it was folded at once. */
static bool read_sample(struct fixture *fixture)
{
	const struct stackbeat_sample *sample = &fixture->any.sample;
	const uint64_t folded = fixture->folded;

	if (!stack_table_repeat(fixture->table, sample, sample->record.size))
		add_sample(fixture);
	return fixture->folded > folded;
}

/* The first sample of a stack is not in the table; the others are counted together. */
static void first_sample_is_folded_at_once(void **state)
{
	struct fixture *fixture = *state;
	const struct sample_totals *totals = stack_table_totals(fixture->table);
	const struct stackbeat_sample *sample = usual_sample(fixture);
	size_t bytes;

	assert_true(read_sample(fixture));
	assert_int_equal(fixture->stack->samples, 1);
	assert_int_equal(fixture->stack->weight, sample->weight);
	assert_int_equal(fixture->stack->origin.pid, fixture->pid);
	assert_int_equal(fixture->stack->kernel_frames, 2);
	assert_int_equal(fixture->stack->user_frames, 2);
	bytes = stack_table_bytes(fixture->table);
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 0);
	for (unsigned int i = 0; i < 3; i++)
		assert_false(read_sample(fixture));
	assert_true(stack_table_bytes(fixture->table) > bytes);
	assert_int_equal(only_stack(fixture)->samples, 3);
	assert_int_equal(totals->samples, 4);
	assert_int_equal(totals->weight, 4 * sample->weight);
	assert_int_equal(totals->stacks, 1);
}

/* Makes the usual sample, with another caller in the kernel. */
static void set_caller(struct fixture *fixture, uint64_t caller)
{
	usual_sample(fixture)->frames[1] = caller;
	sample_set_hash(&fixture->any.sample);
}

/* Where stacks come again, their first samples are added to the table as well. */
static void stacks_that_come_again_are_not_folded_at_once(void **state)
{
	struct fixture *fixture = *state;

	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 8; i++) {
			set_caller(fixture, KERNEL + 100 + i);
			assert_int_equal(read_sample(fixture), !round);
		}
	}
	set_caller(fixture, KERNEL + 200);
	assert_false(read_sample(fixture));
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 9);
	/* In another process. */
	fake_space(fixture->spaces, 8, fixture->pid, 1, "other");
	usual_sample(fixture)->address_space = 8;
	assert_true(read_sample(fixture));
}

/* Advances this process to a generation, by a mapping elsewhere. */
static void set_generation(struct fixture *fixture, uint32_t generation)
{
	struct address_space *space = address_spaces_get(fixture->spaces, SELF, 0);

	fake_mapping(fixture->spaces, SELF, generation, STACKBEAT_MAPPING_EVENT, 0x1000, 0x2000, 0,
		     0);
	assert_int_equal(address_space_advance(space, generation), 0);
	fixture->any.sample.generation = generation;
}

/* The cache knows no sample of another generation, but the table has its stack. */
static void stacks_in_the_table_are_not_folded_at_once(void **state)
{
	struct fixture *fixture = *state;

	usual_sample(fixture);
	assert_true(read_sample(fixture));
	assert_false(read_sample(fixture));
	set_generation(fixture, 2);
	assert_false(read_sample(fixture));
	assert_int_equal(only_stack(fixture)->samples, 2);
	assert_int_equal(stack_count_of(fixture), 1);
}

/* Each change of the mappings may hide that a stack comes again. */
static void processes_that_change_mappings_have_their_stacks_in_the_table(void **state)
{
	struct fixture *fixture = *state;
	unsigned int singles = 0;

	usual_sample(fixture);
	for (uint32_t i = 2; i < 100; i++) {
		set_generation(fixture, i);
		singles += read_sample(fixture);
	}
	assert_in_range(singles, 1, 10);
}

/* An address space in the place of a forgotten one begins anew. */
static void other_process_in_the_same_place_begins_anew(void **state)
{
	struct fixture *fixture = *state;
	uint32_t index = 0;

	for (uint64_t id = 8; id < 10; id++) {
		struct address_space *space;

		fake_space(fixture->spaces, id, fixture->gone, 1, "gone");
		space = address_spaces_get(fixture->spaces, id, 0);
		assert_int_equal(address_space_advance(space, 1), 0);
		if (id == 8)
			index = address_space_index(space);
		assert_int_equal(address_space_index(space), index);
		for (unsigned int i = 0; i < 20; i++) {
			set_caller(fixture, KERNEL + 100 + i % 10);
			fixture->any.sample.address_space = id;
			assert_int_equal(read_sample(fixture), i < 10);
		}
		set_caller(fixture, KERNEL + 200);
		fixture->any.sample.address_space = id;
		assert_false(read_sample(fixture));
		for (uint64_t now = 0; now < 4; now += 2)
			assert_int_equal(address_spaces_collect_garbage(fixture->spaces,
									4 * id + now,
									4 * id + now + 1, !now),
					 0);
		stack_table_sweep(fixture->table);
	}
}

static void the_deepest_sample_is_folded_at_once(void **state)
{
	struct fixture *fixture = *state;

	stack_table_free(fixture->table);
	fixture->table =
		new_table(fixture, LABEL_SET(LABEL_GO_CREATOR) | LABEL_SET(LABEL_GO_LABELS));
	assert_non_null(fixture->table);
	largest_sample(fixture);
	assert_true(read_sample(fixture));
	assert_int_equal(fixture->stack->user_frames, STACKBEAT_USER_FRAMES_MAX);
	assert_int_equal(fixture->stack->go_label_words,
			 STACKBEAT_GO_LABELS_SIZE_MAX / sizeof(uint64_t));
	assert_true(fixture->stack->has_go_creator);
}

static int fold_fails(const struct stack *stack, void *arg)
{
	(void)stack;
	(void)arg;
	return -ENOMEM;
}

/* What the first sample needs may be known later, or need memory. */
static void other_first_samples_are_added(void **state)
{
	struct fixture *fixture = *state;
	uint64_t other = 0;

	/* An unknown process. */
	usual_sample(fixture)->address_space = 4711;
	assert_false(read_sample(fixture));
	/* Generated code. */
	fake_space(fixture->spaces, 8, fixture->pid, 1, "generated");
	fake_mapping(fixture->spaces, 8, 1, 0, 0x1000, 0x2000, 0, 0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 8, 0), 1), 0);
	usual_sample(fixture)->address_space = 8;
	fixture->any.sample.frames[2] = fixture->any.sample.frames[3] = 0x1800;
	sample_set_hash(&fixture->any.sample);
	assert_false(read_sample(fixture));
	/* A file whose headers are not known. */
	other = fake_file(fixture->mapped, &fixture->files, "/bin/sh");
	fake_space(fixture->spaces, 9, fixture->pid, 1, "offsets");
	fake_mapping(fixture->spaces, 9, 1, 0, 0x1000, 0x2000, other, 0);
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, 9, 0), 1), 0);
	usual_sample(fixture)->address_space = 9;
	fixture->any.sample.frames[2] = fixture->any.sample.frames[3] = 0x1800;
	sample_set_hash(&fixture->any.sample);
	assert_false(read_sample(fixture));
	/* A sample with a copy of its stack. */
	usual_sample(fixture)->record.flags |= STACKBEAT_SAMPLE_STACK;
	assert_false(read_sample(fixture));
	/* Times of samples. */
	stack_table_keep_moments(fixture->table, true);
	set_caller(fixture, KERNEL + 3);
	assert_false(read_sample(fixture));
	stack_table_keep_moments(fixture->table, false);
	/* No memory for the profile. */
	fixture->fold = fold_fails;
	set_caller(fixture, KERNEL + 4);
	assert_false(read_sample(fixture));
	assert_int_equal(stack_table_totals(fixture->table)->samples, 6);
	assert_int_equal(fold_all(fixture, NULL, NULL), 0);
	assert_int_equal(fixture->folded, 6);
}

#define TABLE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TABLE_TEST(is_empty_at_first),
		TABLE_TEST(stores_all_fields_of_a_stack),
		TABLE_TEST(equal_stacks_are_aggregated),
		TABLE_TEST(folded_stacks_begin_at_zero),
		TABLE_TEST(different_stacks_stay_apart),
		TABLE_TEST(chosen_labels_distinguish_stacks),
		TABLE_TEST(the_largest_and_the_smallest_sample_fit),
		TABLE_TEST(creators_distinguish_stacks),
		TABLE_TEST(forged_creators_are_dropped),
		TABLE_TEST(the_deepest_sample_has_room_for_a_creator),
		TABLE_TEST(go_labels_distinguish_stacks),
		TABLE_TEST(the_deepest_sample_has_room_for_go_labels),
		TABLE_TEST(grows_with_many_stacks),
		TABLE_TEST(mappings_distinguish_stacks),
		TABLE_TEST(call_is_in_the_mapping_before_its_return_address),
		TABLE_TEST(stack_ends_before_an_unmapped_caller),
		TABLE_TEST(end_in_an_unknown_mapping_has_its_own_cause),
		TABLE_TEST(leaf_in_an_unknown_mapping_has_its_own_cause),
		TABLE_TEST(unknown_address_space_has_no_mappings),
		TABLE_TEST(files_of_frames_are_read),
		TABLE_TEST(stacks_are_in_order_of_insertion),
		TABLE_TEST(iteration_can_be_stopped),
		TABLE_TEST(folds_have_the_samples_since_the_last_one),
		TABLE_TEST(last_fold_gives_memory_back),
		TABLE_TEST(last_fold_counts_what_is_left),
		TABLE_TEST(stacks_without_samples_are_removed),
		TABLE_TEST(stacks_of_ended_processes_are_folded),
		TABLE_TEST(stacks_of_ended_processes_are_not_found),
		TABLE_TEST(samples_are_kept_apart),
		cmocka_unit_test(files_are_held_with_their_stack),
		TABLE_TEST(modules_distinguish_stacks),
		TABLE_TEST(first_sample_is_folded_at_once),
		TABLE_TEST(stacks_that_come_again_are_not_folded_at_once),
		TABLE_TEST(stacks_in_the_table_are_not_folded_at_once),
		TABLE_TEST(processes_that_change_mappings_have_their_stacks_in_the_table),
		TABLE_TEST(other_process_in_the_same_place_begins_anew),
		TABLE_TEST(the_deepest_sample_is_folded_at_once),
		TABLE_TEST(other_first_samples_are_added),
	};

	return cmocka_run_group_tests_name("stack_table", tests, NULL, NULL);
}

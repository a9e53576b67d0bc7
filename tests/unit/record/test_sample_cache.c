// SPDX-License-Identifier: GPL-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "record/sample_cache.h"
#include "record/stack_table.h"
#include "sample.h"
#include "steps.h"

#define FRAMES 1100 /* fewer than SAMPLE_FRAMES_MAX */
#define STACKS 20

static struct stack stacks[STACKS];
static char space; /* stands for the address space of all stacks that are not removed */

static struct stack *stack_of(size_t number)
{
	assert_true(number < STACKS);
	stacks[number].space = (struct address_space *)&space;
	return &stacks[number];
}

static struct stackbeat_sample *make_sample(uint16_t frames)
{
	struct stackbeat_sample *sample =
		calloc(2, sizeof(*sample) + (SAMPLE_FRAMES_MAX + 2) * sizeof(sample->frames[0]));

	assert_non_null(sample);
	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.size = (uint32_t)(sizeof(*sample) + frames * sizeof(sample->frames[0]));
	sample->weight = 1000;
	sample->address_space = 7;
	sample->generation = 2;
	sample->pid = 100;
	sample->tid = 101;
	sample->user_frames = frames;
	strcpy(sample->comm, "worker");
	for (uint16_t i = 0; i < frames; i++)
		sample->frames[i] = 0x400000 + i;
	sample_set_hash(sample);
	return sample;
}

/* The stack that a sample is counted in, once; NULL: none. */
static struct stack *find_stack(struct sample_cache *cache, const struct stackbeat_sample *sample)
{
	struct sample_totals totals = {0};
	struct stack *found = NULL;
	uint64_t matched;

	for (size_t i = 0; i < STACKS; i++)
		stacks[i] = (struct stack){.space = stacks[i].space};
	matched = sample_cache_match(cache, sample, sample->record.size, &totals);
	for (size_t i = 0; i < STACKS; i++) {
		if (!stacks[i].samples)
			continue;
		assert_null(found);
		found = &stacks[i];
		assert_int_equal(found->samples, 1);
		assert_int_equal(found->weight, sample->weight);
	}
	assert_int_equal(matched, found ? sample->record.size : 0);
	assert_int_equal(totals.samples, !!found);
	assert_int_equal(totals.weight, found ? sample->weight : 0);
	assert_int_equal(totals.missed, found ? sample->missed : 0);
	return found;
}

static void inserted_sample_is_found(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	assert_non_null(cache);
	assert_null(find_stack(cache, sample));
	sample_cache_insert(cache, sample, stack_of(1));
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	/* The same stack at another time, in another thread, on another CPU. */
	sample->time = 5;
	sample->weight = 6;
	sample->missed = 7;
	sample->tid = 102;
	sample->cpu = 3;
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	free(sample);
	sample_cache_free(cache);
}

/* Each of these changes makes it a sample of another stack, with the same hash. */
static void different_sample_is_not_found(void **state)
{
	static const struct {
		size_t offset, size;
	} fields[] = {
#define FIELD(name)                                                                                \
	{offsetof(struct stackbeat_sample, name), sizeof(((struct stackbeat_sample *)NULL)->name)}
		FIELD(hash),        FIELD(address_space), FIELD(generation), FIELD(pid),
		FIELD(user_frames), FIELD(kernel_stop),   FIELD(user_stop),  FIELD(comm),
		FIELD(frames[0]),   FIELD(frames[2]),     FIELD(tid),        FIELD(cpu),
		FIELD(record.size), FIELD(record.flags),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		struct sample_cache *cache = sample_cache_new(true, true, true);
		struct stackbeat_sample *sample = make_sample(3);

		sample_cache_insert(cache, sample, stack_of(1));
		((uint8_t *)sample)[fields[i].offset] ^= 1;
		assert_null(find_stack(cache, sample));
		((uint8_t *)sample)[fields[i].offset] ^= 1;
		assert_ptr_equal(find_stack(cache, sample), stack_of(1));
		free(sample);
		sample_cache_free(cache);
	}
}

/* Samples of another block of time have another stack, if they are wanted apart. */
static void blocks_of_time_are_kept_apart(void **state)
{
	(void)state;
	for (int apart = 0; apart < 2; apart++) {
		struct sample_cache *cache = sample_cache_new(false, false, apart);
		struct stackbeat_sample *sample = make_sample(3);

		sample->time = UINT64_C(5) << 29;
		sample_cache_insert(cache, sample, stack_of(1));
		sample->time = (UINT64_C(6) << 29) - 1;
		assert_ptr_equal(find_stack(cache, sample), stack_of(1));
		sample->time = UINT64_C(6) << 29;
		assert_ptr_equal(find_stack(cache, sample), apart ? NULL : stack_of(1));
		free(sample);
		sample_cache_free(cache);
	}
}

/* A process has the name of its first thread at sample time: see pprof/labels.h. */
static void first_thread_is_distinguished(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	sample_cache_insert(cache, sample, stack_of(1));
	sample->tid = sample->pid;
	assert_null(find_stack(cache, sample));
	sample_cache_insert(cache, sample, stack_of(2));
	assert_ptr_equal(find_stack(cache, sample), stack_of(2));
	sample->tid++;
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	free(sample);
	sample_cache_free(cache);
}

/* An address space that has changed may have the same frames, with other names. */
static void generations_are_distinguished(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	/* More than fit in a set of the cache: earlier ones may be missing, but none is wrong. */
	for (uint32_t generation = 1; generation < STACKS; generation++) {
		sample->generation = generation;
		assert_null(find_stack(cache, sample));
		sample_cache_insert(cache, sample, stack_of(generation));
		assert_ptr_equal(find_stack(cache, sample), stack_of(generation));
	}
	for (uint32_t generation = 1; generation < STACKS; generation++) {
		struct stack *stack;

		sample->generation = generation;
		stack = find_stack(cache, sample);
		if (stack)
			assert_ptr_equal(stack, stack_of(generation));
	}
	/* The same in a later process. */
	sample->address_space++;
	for (uint32_t generation = 1; generation < STACKS; generation++) {
		sample->generation = generation;
		assert_null(find_stack(cache, sample));
	}
	free(sample);
	sample_cache_free(cache);
}

/* A sample may come after its address space was forgotten: its stack is counted no more. */
static void removed_stack_is_not_found(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	sample_cache_insert(cache, sample, stack_of(1));
	stacks[1].space = NULL;
	assert_null(find_stack(cache, sample));
	sample_cache_insert(cache, sample, stack_of(2));
	assert_ptr_equal(find_stack(cache, sample), stack_of(2));
	sample_cache_forget(cache);
	assert_ptr_equal(find_stack(cache, sample), stack_of(2));
	free(sample);
	sample_cache_free(cache);
}

/* Processes that end are forgotten often: that must not read the whole cache. */
static void forgetting_takes_the_effort_of_what_is_cached(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);
	uint64_t before, first, second;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		sample->frames[0] = i;
		sample_set_hash(sample);
		sample_cache_insert(cache, sample, stack_of(i % 2));
	}
	stacks[0].space = NULL;
	before = steps;
	sample_cache_forget(cache);
	first = steps - before;
	assert_in_range(first, 100, 5000);
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	sample->frames[0]--;
	sample_set_hash(sample);
	stacks[0].space = stacks[1].space;
	assert_null(find_stack(cache, sample));
	/* The sets of the forgotten samples are not read again. */
	stacks[1].space = NULL;
	sample_cache_forget(cache);
	before = steps;
	sample_cache_forget(cache);
	second = steps - before;
	assert_in_range(second, 1, 1000);
	/* They can be used again. */
	sample_cache_insert(cache, sample, stack_of(2));
	stacks[2].space = NULL;
	sample_cache_forget(cache);
	stacks[2].space = (struct address_space *)&space;
	assert_null(find_stack(cache, sample));
	free(sample);
	sample_cache_free(cache);
}

static void latest_stack_of_a_sample_is_found(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	sample_cache_insert(cache, sample, stack_of(1));
	sample_cache_insert(cache, sample, stack_of(2));
	assert_ptr_equal(find_stack(cache, sample), stack_of(2));
	free(sample);
	sample_cache_free(cache);
}

/* Programs can choose their frames such that the kernel's hash does not distinguish them. */
static void stacks_with_the_same_hash_are_distinguished(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *deep = make_sample(200), *shallow = make_sample(2);
	unsigned int found = 0;

	(void)state;
	sample_cache_insert(cache, shallow, stack_of(1));
	sample_cache_insert(cache, deep, stack_of(2));
	assert_ptr_equal(find_stack(cache, shallow), stack_of(1));
	assert_ptr_equal(find_stack(cache, deep), stack_of(2));
	for (uint64_t i = 3; i < STACKS; i++) {
		shallow->frames[1] = i;
		assert_null(find_stack(cache, shallow));
		sample_cache_insert(cache, shallow, stack_of(i));
		assert_ptr_equal(find_stack(cache, shallow), stack_of(i));
	}
	for (uint64_t i = 3; i < STACKS; i++) {
		struct stack *stack;

		shallow->frames[1] = i;
		stack = find_stack(cache, shallow);
		if (stack)
			assert_ptr_equal(stack, stack_of(i));
		found += stack != NULL;
	}
	assert_in_range(found, 2, 8);
	free(deep);
	free(shallow);
	sample_cache_free(cache);
}

/*
 * Changes each word of a cached sample of stack 1: with another hash it is not found, and with the
 * same hash if the word is before `first` or not before `last`.
 */
static void check_words(struct sample_cache *cache, struct stackbeat_sample *sample, size_t words,
			size_t first, size_t last)
{
	for (size_t i = 0; i < words; i++) {
		bool compared = i < first || i >= last;

		sample->frames[i] ^= UINT64_C(1) << 40;
		assert_ptr_equal(find_stack(cache, sample), compared ? NULL : stack_of(1));
		sample->hash++;
		assert_null(find_stack(cache, sample));
		sample->hash--;
		sample->frames[i] ^= UINT64_C(1) << 40;
		assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	}
}

/* Whether the cache relies on hashes. */
static bool can_compute_hashes(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("sse4.2");
#else
	return false;
#endif
}

/*
 * The hash alone distinguishes stacks that differ in other frames than kernel frames, the next four
 * or five, and, if words are behind an odd number of frames, the last one.
 */
static void most_user_frames_are_not_compared(void **state)
{
	enum { KERNEL = 4, USER = 12, BEHIND = 4 };

	(void)state;
	for (unsigned int i = 0; i < KERNEL * USER * BEHIND; i++) {
		unsigned int kernel = i % KERNEL, user = i / KERNEL % USER, frames = kernel + user;
		unsigned int behind = i / KERNEL / USER, words = frames + behind;
		unsigned int first = (kernel + 1) / 2 * 2 + 4, last = frames;
		struct sample_cache *cache = sample_cache_new(false, false, false);
		struct stackbeat_sample *sample = make_sample((uint16_t)words);

		sample->kernel_frames = (uint16_t)kernel;
		sample->user_frames = (uint16_t)user;
		sample_set_hash(sample);
		sample_cache_insert(cache, sample, stack_of(1));
		if (behind)
			last = frames / 2 * 2;
		if (first > frames || !can_compute_hashes())
			first = last = words;
		check_words(cache, sample, words, first, last);
		/* The word behind the record is not part of the sample. */
		sample->frames[words]++;
		assert_ptr_equal(find_stack(cache, sample), stack_of(1));
		free(sample);
		sample_cache_free(cache);
	}
}

/*
 * All words are compared in samples without an address space, in samples whose counts of frames
 * exceed the record, and in any once the hash of one was not CRC-32C.
 */
static void words_that_the_hash_may_not_distinguish_are_compared(void **state)
{
	enum { WORDS = 20 };

	(void)state;
	for (int i = 0; i < (can_compute_hashes() ? 3 : 2); i++) {
		struct sample_cache *cache = sample_cache_new(false, false, false);
		struct stackbeat_sample *sample = make_sample(WORDS);

		if (i == 0)
			sample->address_space = 0;
		if (i == 1)
			sample->user_frames++;
		sample_cache_insert(cache, sample, stack_of(1));
		if (i == 2) {
			sample->hash++;
			sample_cache_insert(cache, sample, stack_of(2));
			sample->hash--;
			assert_null(find_stack(cache, sample));
			sample_cache_insert(cache, sample, stack_of(1));
		}
		check_words(cache, sample, WORDS, WORDS, WORDS);
		free(sample);
		sample_cache_free(cache);
	}
}

/* Another sample at the place of a sample that was not found has a key of its own. */
static void key_of_a_sample_that_was_not_found_is_of_no_other(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct sample_cache *cache = sample_cache_new(false, false, false);
		struct stackbeat_sample *sample = make_sample(3), before = *sample;

		assert_null(find_stack(cache, sample));
		sample->time += i == 0;
		sample->hash += i == 1;
		sample->address_space += i == 2;
		sample->pid++;
		sample_cache_insert(cache, sample, stack_of(1));
		assert_ptr_equal(find_stack(cache, sample), stack_of(1));
		memcpy(sample, &before, sizeof(before));
		assert_null(find_stack(cache, sample));
		free(sample);
		sample_cache_free(cache);
	}
}

/* A noted sample has no stack, until another equal one is inserted: in its place. */
static void noted_sample_is_known(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);

	(void)state;
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_UNASKED);
	assert_null(find_stack(cache, sample));
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_FIRST);
	sample_cache_note(cache, sample);
	assert_null(find_stack(cache, sample));
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_KNOWN);
	sample_cache_insert(cache, sample, stack_of(1));
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	/* Removed stacks leave no noted sample behind. */
	stack_of(1)->space = NULL;
	assert_null(find_stack(cache, sample));
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_KNOWN);
	sample_cache_forget(cache);
	stack_of(1)->space = stack_of(2)->space;
	assert_null(find_stack(cache, sample));
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_FIRST);
	/* Another record belongs to it. */
	sample->record.flags |= STACKBEAT_SAMPLE_STACK;
	assert_null(find_stack(cache, sample));
	assert_int_equal(sample_cache_history(cache, sample), SAMPLE_UNASKED);
	free(sample);
	sample_cache_free(cache);
}

/* Sets the last frame. `before` is the hash of the frames before. */
static void set_number(struct stackbeat_sample *sample, uint64_t before, uint64_t number)
{
	sample->frames[FRAMES - 1] = number;
	sample->hash = sample_hash_word(before, number);
}

/* Fewer than 1 % of 10,000 stacks are evicted by others, however deep they are. */
static void many_deep_stacks_are_cached(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(FRAMES - 1);
	const uint64_t before = sample->hash;
	unsigned int found = 0;

	(void)state;
	sample->user_frames++;
	sample->record.size += sizeof(sample->frames[0]);
	for (uint64_t i = 0; i < 10000; i++) {
		set_number(sample, before, i);
		sample_cache_insert(cache, sample, stack_of(i % STACKS));
	}
	for (uint64_t i = 0; i < 10000; i++) {
		struct stack *stack;

		set_number(sample, before, i);
		stack = find_stack(cache, sample);
		if (stack)
			assert_ptr_equal(stack, stack_of(i % STACKS));
		found += stack != NULL;
	}
	assert_in_range(found, 9900, 10000);
	free(sample);
	sample_cache_free(cache);
}

/* A record that is larger than any the kernel writes is neither inserted nor read. */
static void too_large_sample_is_not_cached(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(SAMPLE_FRAMES_MAX);

	(void)state;
	/* The id of a goroutine, its creator and its labels follow. */
	sample->record.size += 2 * sizeof(sample->frames[0]) + STACKBEAT_GO_LABELS_SIZE_MAX;
	sample_cache_insert(cache, sample, stack_of(1));
	assert_ptr_equal(find_stack(cache, sample), stack_of(1));
	sample->record.size += sizeof(sample->frames[0]);
	sample_cache_insert(cache, sample, stack_of(1));
	assert_null(find_stack(cache, sample));
	sample->record.size = sizeof(*sample) - sizeof(sample->frames[0]);
	sample_cache_insert(cache, sample, stack_of(1));
	assert_null(find_stack(cache, sample));
	free(sample);
	sample_cache_free(cache);
}

/*
 * A loop at the leaf of a deep stack makes many stacks that differ in one frame, and so in a few
 * neighbouring bits of the hash, wherever these bits are: all of these stacks stay in the cache.
 */
static void similar_stacks_do_not_collide(void **state)
{
	struct stackbeat_sample *sample = make_sample(2);

	(void)state;
	for (unsigned int shift = 0; shift < 60; shift++) {
		struct sample_cache *cache = sample_cache_new(false, false, false);

		for (uint64_t i = 0; i < 16; i++) {
			sample->hash = UINT64_C(0x123456789abcdef) ^ i << shift;
			sample_cache_insert(cache, sample, stack_of(i + 1));
		}
		for (uint64_t i = 0; i < 16; i++) {
			sample->hash = UINT64_C(0x123456789abcdef) ^ i << shift;
			assert_ptr_equal(find_stack(cache, sample), stack_of(i + 1));
		}
		sample_cache_free(cache);
	}
	free(sample);
}

/* Samples are matched up to the first unknown one, and an incomplete one is not matched. */
static void consecutive_samples_are_matched(void **state)
{
	struct sample_cache *cache = sample_cache_new(false, false, false);
	struct stackbeat_sample *sample = make_sample(3);
	size_t size = sample->record.size;
	uint8_t *row = malloc(4 * size);
	struct sample_totals totals = {0};

	(void)state;
	assert_non_null(row);
	memset(stacks, 0, sizeof(stacks));
	sample_cache_insert(cache, sample, stack_of(1));
	for (size_t i = 0; i < 4; i++)
		memcpy(row + i * size, sample, size);
	assert_int_equal(sample_cache_match(cache, row, 4 * size, &totals), 4 * size);
	assert_int_equal(sample_cache_match(cache, row, 4 * size - 8, &totals), 3 * size);
	assert_int_equal(sample_cache_match(cache, row, size - 8, &totals), 0);
	assert_int_equal(sample_cache_match(cache, row, 8, &totals), 0);
	assert_int_equal(sample_cache_match(cache, row, 0, &totals), 0);
	((struct stackbeat_sample *)(row + 2 * size))->hash++;
	assert_int_equal(sample_cache_match(cache, row, 4 * size, &totals), 2 * size);
	assert_int_equal(totals.samples, 9);
	assert_int_equal(stacks[1].samples, 9);
	assert_int_equal(stacks[1].weight, 9 * sample->weight);
	free(row);
	free(sample);
	sample_cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_time_are_kept_apart),
		cmocka_unit_test(inserted_sample_is_found),
		cmocka_unit_test(different_sample_is_not_found),
		cmocka_unit_test(first_thread_is_distinguished),
		cmocka_unit_test(generations_are_distinguished),
		cmocka_unit_test(removed_stack_is_not_found),
		cmocka_unit_test(forgetting_takes_the_effort_of_what_is_cached),
		cmocka_unit_test(latest_stack_of_a_sample_is_found),
		cmocka_unit_test(stacks_with_the_same_hash_are_distinguished),
		cmocka_unit_test(most_user_frames_are_not_compared),
		cmocka_unit_test(words_that_the_hash_may_not_distinguish_are_compared),
		cmocka_unit_test(key_of_a_sample_that_was_not_found_is_of_no_other),
		cmocka_unit_test(noted_sample_is_known),
		cmocka_unit_test(many_deep_stacks_are_cached),
		cmocka_unit_test(too_large_sample_is_not_cached),
		cmocka_unit_test(similar_stacks_do_not_collide),
		cmocka_unit_test(consecutive_samples_are_matched),
	};

	return cmocka_run_group_tests_name("sample_cache", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include "record/stack_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "record/sample_cache.h"

#define CHUNK_SIZE (256u << 10)

/* Stacks live until the end: they are cut from chunks, with no cost each. */
struct chunk {
	struct chunk *next;
	size_t used;
	size_t size;
	uint64_t bytes[];
};

/* A sample with its frames as a stack keeps them. */
struct located {
	const struct stackbeat_sample *sample;
	struct address_space *space;
	struct label_origin origin;
	uint32_t hash;
	uint16_t user_frames;
	uint8_t user_stop;
	uint64_t frames[STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX];
	uint32_t places[STACKBEAT_USER_FRAMES_MAX];
};

struct stack_table {
	struct address_spaces *spaces;
	uint32_t labels; /* LABEL_SET()s */
	struct sample_totals totals;
	struct sample_cache *recent;
	struct stack **stacks; /* totals.stacks of them, in the order in which they came */
	size_t capacity;
	struct hash index; /* of stacks[] */
	struct chunk *chunks;
	struct located located; /* the sample that is being added */
};

struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels)
{
	struct stack_table *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	profile->spaces = spaces;
	profile->labels = labels;
	profile->recent =
		sample_cache_new(labels & LABEL_SET(LABEL_TID), labels & LABEL_SET(LABEL_CPU));
	if (!profile->recent) {
		stack_table_free(profile);
		return NULL;
	}
	return profile;
}

void stack_table_free(struct stack_table *profile)
{
	if (!profile)
		return;
	while (profile->chunks) {
		struct chunk *next = profile->chunks->next;

		free(profile->chunks);
		profile->chunks = next;
	}
	sample_cache_free(profile->recent);
	hash_clear(&profile->index);
	free(profile->stacks);
	free(profile);
}

static void *allocate(struct stack_table *profile, size_t size)
{
	struct chunk *chunk = profile->chunks;
	void *memory;

	size = (size + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
	if (!chunk || chunk->size - chunk->used < size) {
		chunk = malloc(sizeof(*chunk) + CHUNK_SIZE);
		if (!chunk)
			return NULL;
		chunk->size = CHUNK_SIZE;
		chunk->used = 0;
		chunk->next = profile->chunks;
		profile->chunks = chunk;
	}
	memory = (char *)chunk->bytes + chunk->used;
	chunk->used += size;
	return memory;
}

static size_t frame_count(const struct located *located)
{
	return (size_t)located->sample->kernel_frames + located->user_frames;
}

/*
 * The address that stands for a frame. Return addresses lie behind the call,
 * maybe in the next line, function or mapping. The interrupted address and the one
 * at which the kernel was entered are exact.
 */
static uint64_t call_address(const struct stackbeat_sample *sample, size_t i)
{
	if (i == 0 || i == sample->kernel_frames)
		return sample->frames[i];
	return sample->frames[i] - 1;
}

static void locate(struct located *located)
{
	const struct stackbeat_sample *sample = located->sample;
	bool certain = address_space_is_certain(located->space, sample->generation);
	size_t user = sample->kernel_frames;

	located->user_stop = sample->user_stop;
	for (size_t i = 0; i < user; i++)
		located->frames[i] = call_address(sample, i);
	for (size_t i = 0; i < sample->user_frames; i++) {
		uint32_t place = address_space_segment_at(located->space, sample->generation,
							  call_address(sample, user + i),
							  &located->frames[user + i]);

		/*
		 * A caller in no executable mapping is none: the walk has followed what was no
		 * frame pointer, and its stack ends before that.
		 */
		if (place == SEGMENT_NONE && i > 0 && certain) {
			located->user_frames = (uint16_t)i;
			located->user_stop = STACKBEAT_STOP_BAD_FRAME;
			return;
		}
		located->places[i] = place;
	}
	located->user_frames = sample->user_frames;
}

/* Mixes a word into a hash by the multiplication of Fibonacci hashing. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint32_t hash_sample(const struct located *located)
{
	const struct stackbeat_sample *sample = located->sample;
	uint64_t words[sizeof(located->origin) / sizeof(uint64_t)];
	uint64_t hash = (uint64_t)sample->kernel_frames << 16 | (uint64_t)sample->kernel_stop << 8 |
			located->user_stop;

	_Static_assert(sizeof(words) == sizeof(located->origin), "it is whole words");
	memcpy(words, &located->origin, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = mix(hash, words[i]);
	for (size_t i = 0; i < frame_count(located); i++)
		hash = mix(hash, located->frames[i]);
	return hash >> 32;
}

static bool is_of(const void *context, uint32_t index, const void *key)
{
	const struct stack *stack = ((const struct stack_table *)context)->stacks[index];
	const struct located *located = key;
	const struct stackbeat_sample *sample = located->sample;

	return stack->space == located->space && stack->kernel_frames == sample->kernel_frames &&
	       stack->user_frames == located->user_frames &&
	       stack->kernel_stop == sample->kernel_stop &&
	       stack->user_stop == located->user_stop && stack->flags == sample->record.flags &&
	       !memcmp(&stack->origin, &located->origin, sizeof(located->origin)) &&
	       !memcmp(stack->frames, located->frames,
		       frame_count(located) * sizeof(stack->frames[0])) &&
	       !memcmp(stack_segments(stack), located->places,
		       located->user_frames * sizeof(located->places[0]));
}

static struct stack *find(const struct stack_table *profile, const struct located *located)
{
	uint32_t index = hash_find(&profile->index, located->hash, is_of, profile, located);

	return index == HASH_NONE ? NULL : profile->stacks[index];
}

static struct stack *insert(struct stack_table *profile, const struct located *located)
{
	const struct stackbeat_sample *sample = located->sample;
	size_t size = frame_count(located) * sizeof(sample->frames[0]);
	size_t places_size = located->user_frames * sizeof(located->places[0]);
	struct stack *stack = allocate(profile, sizeof(*stack) + size + places_size);

	if (!stack ||
	    array_reserve(&profile->stacks, &profile->capacity, profile->totals.stacks, 1,
			  sizeof(struct stack *)) ||
	    hash_add(&profile->index, located->hash, (uint32_t)profile->totals.stacks))
		return NULL;
	memset(stack, 0, sizeof(*stack));
	stack->space = located->space;
	stack->origin = located->origin;
	stack->kernel_frames = sample->kernel_frames;
	stack->user_frames = located->user_frames;
	stack->kernel_stop = sample->kernel_stop;
	stack->user_stop = located->user_stop;
	stack->flags = sample->record.flags;
	memcpy(stack->frames, located->frames, size);
	memcpy((uint32_t *)stack_segments(stack), located->places, places_size);

	profile->stacks[profile->totals.stacks++] = stack;
	return stack;
}

/* Has read what tells of the code in which a stack that is new has frames. */
static int need_names(struct stack_table *profile, const struct stack *stack)
{
	struct mapped_files *objects = address_spaces_files(profile->spaces);
	const uint32_t *places = stack_segments(stack);
	struct mapped_file *object;
	bool is_offset;
	int err = 0;

	for (size_t i = 0; i < stack->user_frames && !err; i++) {
		if (i > 0 && places[i] == places[i - 1])
			continue;
		object = segment_file(objects, places[i], &is_offset);
		if (object)
			err = mapped_file_request(objects, object);
		else if (places[i] == SEGMENT_ANON && mapped_files_have_symbols(objects))
			address_space_has_jit_code(stack->space);
	}
	return err;
}

uint64_t stack_table_repeat(struct stack_table *profile, const void *data, uint64_t available)
{
	return sample_cache_match(profile->recent, data, available, &profile->totals);
}

int stack_table_add(const struct stackbeat_sample *sample, void *arg)
{
	struct stack_table *profile = arg;
	struct located *located = &profile->located;
	struct stack *stack;
	int err;

	if (stack_table_repeat(profile, sample, sample->record.size))
		return 0;
	located->sample = sample;
	located->space = address_spaces_get(profile->spaces, sample->address_space, sample->pid);
	if (!located->space)
		return -ENOMEM;
	locate(located);
	label_origin(profile->labels, address_space_comm(located->space), sample, &located->origin);
	located->hash = hash_sample(located);
	stack = find(profile, located);
	if (!stack) {
		stack = insert(profile, located);
		err = stack ? need_names(profile, stack) : -ENOMEM;
		if (err)
			return err;
	}
	sample_cache_insert(profile->recent, sample, stack);
	stack_count(stack, sample, &profile->totals);
	return 0;
}

const struct sample_totals *stack_table_totals(const struct stack_table *profile)
{
	return &profile->totals;
}

int stack_table_each(const struct stack_table *profile,
		     int (*fn)(const struct stack *stack, void *arg), void *arg)
{
	for (size_t i = 0; i < profile->totals.stacks; i++) {
		int err = fn(profile->stacks[i], arg);

		if (err)
			return err;
	}
	return 0;
}

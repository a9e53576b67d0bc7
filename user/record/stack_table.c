// SPDX-License-Identifier: GPL-2.0
#include "record/stack_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/array.h"
#include "lib/fingerprint.h"
#include "lib/hash.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "record/sample_cache.h"

#define CHUNK_SIZE (256u << 10)

/* Words of a hashed stack before its frames: see hash_sample(). */
#define HEAD_WORDS 2
#define ORIGIN_WORDS (sizeof(struct label_origin) / sizeof(uint64_t))

_Static_assert(sizeof(struct label_origin) == ORIGIN_WORDS * sizeof(uint64_t) &&
		       (HEAD_WORDS + ORIGIN_WORDS) % 2 == 0,
	       "fingerprints are of pairs of words");
_Static_assert(HEAD_WORDS + ORIGIN_WORDS + STACKBEAT_KERNEL_FRAMES_MAX +
			       STACKBEAT_USER_FRAMES_MAX <=
		       FINGERPRINT_WORDS_MAX,
	       "the key is long enough for the deepest stack");

/* Stacks live as long as the table: they are carved from chunks, with no overhead for each. */
struct chunk {
	struct chunk *next;
	size_t used;
	size_t size;
	uint64_t bytes[];
};

/* A sample with its frames as a stack stores them. */
struct resolved_sample {
	const struct stackbeat_sample *sample;
	struct address_space *space;
	struct label_origin origin;
	uint32_t hash;
	uint16_t user_frames;
	uint8_t user_stop;
	uint64_t frames[STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX];
	uint32_t segments[STACKBEAT_USER_FRAMES_MAX];
};

struct stack_table {
	struct address_spaces *spaces;
	uint32_t labels; /* LABEL_SET()s */
	struct sample_totals totals;
	struct sample_cache *cache;
	struct fingerprint_key key; /* for hash_sample() */
	struct stack **stacks; /* totals.stacks of them, in the order of insertion */
	size_t capacity;
	struct hash stack_index; /* indices into stacks[] */
	struct chunk *chunks;
	struct resolved_sample resolved; /* the sample that is being added */
};

struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels)
{
	struct stack_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->spaces = spaces;
	table->labels = labels;
	fingerprint_key_init(&table->key);
	table->cache =
		sample_cache_new(labels & LABEL_SET(LABEL_TID), labels & LABEL_SET(LABEL_CPU));
	if (!table->cache) {
		stack_table_free(table);
		return NULL;
	}
	return table;
}

void stack_table_free(struct stack_table *table)
{
	if (!table)
		return;
	while (table->chunks) {
		struct chunk *next = table->chunks->next;

		free(table->chunks);
		table->chunks = next;
	}
	sample_cache_free(table->cache);
	hash_clear(&table->stack_index);
	free(table->stacks);
	free(table);
}

static void *chunk_alloc(struct stack_table *table, size_t size)
{
	struct chunk *chunk = table->chunks;
	void *memory;

	size = (size + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
	if (!chunk || chunk->size - chunk->used < size) {
		chunk = malloc(sizeof(*chunk) + CHUNK_SIZE);
		if (!chunk)
			return NULL;
		chunk->size = CHUNK_SIZE;
		chunk->used = 0;
		chunk->next = table->chunks;
		table->chunks = chunk;
	}
	memory = (char *)chunk->bytes + chunk->used;
	chunk->used += size;
	return memory;
}

static size_t frame_count(const struct resolved_sample *resolved)
{
	return (size_t)resolved->sample->kernel_frames + resolved->user_frames;
}

/*
 * Sets the addresses by which the frames are symbolized. A return address lies behind its call,
 * maybe in the next line, function or mapping. The interrupted address and the one at which the
 * kernel was entered are exact.
 */
static void set_call_addresses(struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;
	size_t count = (size_t)sample->kernel_frames + sample->user_frames;

	for (size_t i = 0; i < count; i++)
		resolved->frames[i] = sample->frames[i] - 1;
	if (sample->kernel_frames)
		resolved->frames[0] = sample->frames[0];
	if (sample->user_frames)
		resolved->frames[sample->kernel_frames] = sample->frames[sample->kernel_frames];
}

static void resolve_mappings(struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;
	bool certain = address_space_is_certain(resolved->space, sample->generation);
	uint64_t *frames = resolved->frames + sample->kernel_frames;
	size_t done = 0;

	set_call_addresses(resolved);
	resolved->user_frames = sample->user_frames;
	resolved->user_stop = sample->user_stop;
	while (done < sample->user_frames) {
		done += address_space_segments_at(resolved->space, sample->generation,
						  frames + done, resolved->segments + done,
						  sample->user_frames - done);
		/*
		 * A caller outside all executable mappings is no caller: the unwinder has followed
		 * a word that was no frame pointer. The stack ends before it.
		 */
		if (done > 1 && resolved->segments[done - 1] == SEGMENT_NONE && certain) {
			resolved->user_frames = (uint16_t)(done - 1);
			resolved->user_stop = STACKBEAT_STOP_BAD_FRAME;
			return;
		}
	}
}

/*
 * Keyed, as sampled programs choose their frames. The address space is included: many processes
 * may have the same stack.
 */
static uint32_t hash_sample(const struct fingerprint_key *key,
			    const struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;
	const uint64_t head[] = {
		(uintptr_t)resolved->space,
		(uint64_t)sample->kernel_frames << 32 | (uint64_t)resolved->user_frames << 16 |
			(uint64_t)sample->kernel_stop << 8 | resolved->user_stop,
	};
	fingerprint sum = {0};

	sum = fingerprint_add(key, sum, 0, head, HEAD_WORDS);
	sum = fingerprint_add(key, sum, HEAD_WORDS, &resolved->origin, ORIGIN_WORDS);
	sum = fingerprint_add(key, sum, HEAD_WORDS + ORIGIN_WORDS, resolved->frames,
			      frame_count(resolved));
	return hash_bytes(HASH_START, &sum, sizeof(sum));
}

static bool stack_equals(const void *context, uint32_t index, const void *key)
{
	const struct stack *stack = ((const struct stack_table *)context)->stacks[index];
	const struct resolved_sample *resolved = key;
	const struct stackbeat_sample *sample = resolved->sample;

	return stack->space == resolved->space && stack->kernel_frames == sample->kernel_frames &&
	       stack->user_frames == resolved->user_frames &&
	       stack->kernel_stop == sample->kernel_stop &&
	       stack->user_stop == resolved->user_stop && stack->flags == sample->record.flags &&
	       !memcmp(&stack->origin, &resolved->origin, sizeof(resolved->origin)) &&
	       !memcmp(stack->frames, resolved->frames,
		       frame_count(resolved) * sizeof(stack->frames[0])) &&
	       !memcmp(stack_segments(stack), resolved->segments,
		       resolved->user_frames * sizeof(resolved->segments[0]));
}

static struct stack *find_stack(const struct stack_table *table,
				const struct resolved_sample *resolved)
{
	uint32_t index =
		hash_find(&table->stack_index, resolved->hash, stack_equals, table, resolved);

	return index == HASH_NONE ? NULL : table->stacks[index];
}

static struct stack *insert_stack(struct stack_table *table, const struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;
	size_t size = frame_count(resolved) * sizeof(sample->frames[0]);
	size_t segments_size = resolved->user_frames * sizeof(resolved->segments[0]);
	struct stack *stack = chunk_alloc(table, sizeof(*stack) + size + segments_size);

	if (!stack || table->totals.stacks >= HASH_NONE ||
	    array_reserve(&table->stacks, &table->capacity, table->totals.stacks, 1,
			  sizeof(struct stack *)) ||
	    hash_add(&table->stack_index, resolved->hash, (uint32_t)table->totals.stacks))
		return NULL;
	memset(stack, 0, sizeof(*stack));
	stack->space = resolved->space;
	stack->origin = resolved->origin;
	stack->kernel_frames = sample->kernel_frames;
	stack->user_frames = resolved->user_frames;
	stack->kernel_stop = sample->kernel_stop;
	stack->user_stop = resolved->user_stop;
	stack->flags = sample->record.flags;
	memcpy(stack->frames, resolved->frames, size);
	memcpy((uint32_t *)stack_segments(stack), resolved->segments, segments_size);

	table->stacks[table->totals.stacks++] = stack;
	return stack;
}

/* Requests the symbols of the code in which a new stack has frames. */
static int request_symbols(struct stack_table *table, const struct stack *stack)
{
	struct mapped_files *files = address_spaces_files(table->spaces);
	const uint32_t *segments = stack_segments(stack);
	struct mapped_file *file;
	bool is_offset;
	int err = 0;

	for (size_t i = 0; i < stack->user_frames && !err; i++) {
		if (i > 0 && segments[i] == segments[i - 1])
			continue;
		file = segment_file(files, segments[i], &is_offset);
		if (file)
			err = mapped_file_request(files, file);
		else if (segments[i] == SEGMENT_ANON && mapped_files_have_symbols(files))
			address_space_has_jit_code(stack->space);
	}
	return err;
}

uint64_t stack_table_repeat(struct stack_table *table, const void *data, uint64_t available)
{
	return sample_cache_match(table->cache, data, available, &table->totals);
}

int stack_table_add(const struct stackbeat_sample *sample, void *arg)
{
	struct stack_table *table = arg;
	struct resolved_sample *resolved = &table->resolved;
	struct stack *stack;
	int err;

	resolved->sample = sample;
	resolved->space = address_spaces_get(table->spaces, sample->address_space, sample->pid);
	if (!resolved->space)
		return -ENOMEM;
	resolve_mappings(resolved);
	label_origin(table->labels, address_space_comm(resolved->space), sample, &resolved->origin);
	resolved->hash = hash_sample(&table->key, resolved);
	stack = find_stack(table, resolved);
	if (!stack) {
		stack = insert_stack(table, resolved);
		err = stack ? request_symbols(table, stack) : -ENOMEM;
		if (err)
			return err;
	}
	sample_cache_insert(table->cache, sample, stack);
	stack_count(stack, sample, &table->totals);
	return 0;
}

const struct sample_totals *stack_table_totals(const struct stack_table *table)
{
	return &table->totals;
}

int stack_table_each(const struct stack_table *table,
		     int (*fn)(const struct stack *stack, void *arg), void *arg)
{
	for (size_t i = 0; i < table->totals.stacks; i++) {
		int err = fn(table->stacks[i], arg);

		if (err)
			return err;
	}
	return 0;
}

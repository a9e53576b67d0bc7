// SPDX-License-Identifier: GPL-2.0
#include "profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

#define BUCKETS_MIN 1024u
#define CHUNK_SIZE (256u << 10)

/* Stacks live until the end: they are cut from chunks, with no cost each. */
struct chunk {
	struct chunk *next;
	size_t used;
	size_t size;
	uint64_t bytes[];
};

struct profile {
	struct processes *processes;
	uint32_t labels; /* LABEL_SET()s */
	struct profile_totals totals;
	struct stack **buckets;
	size_t bucket_count; /* a power of two */
	struct chunk *chunks;
};

struct profile *profile_new(struct processes *processes, uint32_t labels)
{
	struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile)
		return NULL;
	profile->processes = processes;
	profile->labels = labels;
	profile->bucket_count = BUCKETS_MIN;
	profile->buckets = calloc(profile->bucket_count, sizeof(struct stack *));
	if (!profile->buckets) {
		free(profile);
		return NULL;
	}
	return profile;
}

void profile_free(struct profile *profile)
{
	if (!profile)
		return;
	while (profile->chunks) {
		struct chunk *next = profile->chunks->next;

		free(profile->chunks);
		profile->chunks = next;
	}
	free(profile->buckets);
	free(profile);
}

static void *allocate(struct profile *profile, size_t size)
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

static size_t frame_count(const struct stackbeat_sample *sample)
{
	return (size_t)sample->kernel_frames + sample->user_frames;
}

/* Mixes a word into a hash by the multiplication of Fibonacci hashing. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint32_t hash_sample(const struct stackbeat_sample *sample,
			    const struct label_origin *origin)
{
	uint64_t words[sizeof(*origin) / sizeof(uint64_t)];
	uint64_t hash = (uint64_t)sample->kernel_frames << 16 | (uint64_t)sample->kernel_end << 8 |
			sample->user_end;

	_Static_assert(sizeof(words) == sizeof(*origin), "it is whole words");
	memcpy(words, origin, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = mix(hash, words[i]);
	for (size_t i = 0; i < frame_count(sample); i++)
		hash = mix(hash, sample->frames[i]);
	return hash >> 32;
}

static bool is_of(const struct stack *stack, const struct stackbeat_sample *sample,
		  const struct label_origin *origin, uint32_t hash, const struct process *process)
{
	return stack->hash == hash && stack->process == process &&
	       stack->kernel_frames == sample->kernel_frames &&
	       stack->user_frames == sample->user_frames &&
	       stack->kernel_end == sample->kernel_end && stack->user_end == sample->user_end &&
	       stack->flags == sample->record.flags &&
	       !memcmp(&stack->origin, origin, sizeof(*origin)) &&
	       !memcmp(stack->frames, sample->frames,
		       frame_count(sample) * sizeof(sample->frames[0]));
}

static struct stack *find(const struct profile *profile, const struct stackbeat_sample *sample,
			  const struct label_origin *origin, uint32_t hash,
			  const struct process *process)
{
	struct stack *stack = profile->buckets[hash & (profile->bucket_count - 1)];

	while (stack && !is_of(stack, sample, origin, hash, process))
		stack = stack->next;
	return stack;
}

/* Twice as many buckets; without memory for them, longer chains will do. */
static void grow(struct profile *profile)
{
	size_t count = profile->bucket_count * 2;
	struct stack **buckets = calloc(count, sizeof(struct stack *));

	if (!buckets)
		return;
	for (size_t i = 0; i < profile->bucket_count; i++) {
		struct stack *stack, *next;

		for (stack = profile->buckets[i]; stack; stack = next) {
			next = stack->next;
			stack->next = buckets[stack->hash & (count - 1)];
			buckets[stack->hash & (count - 1)] = stack;
		}
	}
	free(profile->buckets);
	profile->buckets = buckets;
	profile->bucket_count = count;
}

static struct stack *insert(struct profile *profile, const struct stackbeat_sample *sample,
			    const struct label_origin *origin, uint32_t hash,
			    struct process *process)
{
	size_t size = frame_count(sample) * sizeof(sample->frames[0]);
	struct stack *stack = allocate(profile, sizeof(*stack) + size);
	struct stack **bucket;

	if (!stack)
		return NULL;
	memset(stack, 0, sizeof(*stack));
	stack->process = process;
	stack->hash = hash;
	stack->origin = *origin;
	stack->kernel_frames = sample->kernel_frames;
	stack->user_frames = sample->user_frames;
	stack->kernel_end = sample->kernel_end;
	stack->user_end = sample->user_end;
	stack->flags = sample->record.flags;
	memcpy(stack->frames, sample->frames, size);

	if (profile->totals.stacks++ == profile->bucket_count)
		grow(profile);
	bucket = &profile->buckets[hash & (profile->bucket_count - 1)];
	stack->next = *bucket;
	*bucket = stack;
	return stack;
}

/*
 * The process image to which a stack that was not seen before belongs: where
 * its addresses are in no known mapping, the process has mapped something
 * since, or has become another program.
 */
static struct process *image_of(struct profile *profile, const struct stackbeat_sample *sample,
				struct process *process)
{
	for (size_t i = sample->kernel_frames; i < frame_count(sample); i++) {
		uint64_t address = sample->frames[i];

		if (!process_covers(process, &address, 1))
			return processes_refresh(profile->processes, process);
	}
	return process;
}

int profile_add(const struct stackbeat_sample *sample, void *arg)
{
	struct profile *profile = arg;
	struct process *process = processes_get(profile->processes, sample->pid, sample->comm);
	struct label_origin origin;
	struct stack *stack;
	uint32_t hash;

	if (!process)
		return -ENOMEM;
	label_origin(profile->labels, process_comm(process), sample, &origin);
	hash = hash_sample(sample, &origin);
	stack = find(profile, sample, &origin, hash, process);
	if (!stack) {
		process = image_of(profile, sample, process);
		if (!process)
			return -ENOMEM;
		stack = find(profile, sample, &origin, hash, process);
	}
	if (!stack)
		stack = insert(profile, sample, &origin, hash, process);
	if (!stack)
		return -ENOMEM;

	stack->samples++;
	stack->weight += sample->weight;
	profile->totals.samples++;
	profile->totals.weight += sample->weight;
	profile->totals.missed += sample->missed;
	return 0;
}

void profile_tick(struct profile *profile)
{
	processes_tick(profile->processes);
}

const struct profile_totals *profile_totals(const struct profile *profile)
{
	return &profile->totals;
}

int profile_each(const struct profile *profile, int (*fn)(const struct stack *stack, void *arg),
		 void *arg)
{
	for (size_t i = 0; i < profile->bucket_count; i++) {
		for (const struct stack *stack = profile->buckets[i]; stack; stack = stack->next) {
			int err = fn(stack, arg);

			if (err)
				return err;
		}
	}
	return 0;
}

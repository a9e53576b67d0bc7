// SPDX-License-Identifier: GPL-2.0
#include "record/sample_cache.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

#include "lib/fingerprint.h"
#include "pprof/blocks.h"
#include "record/stack.h"

/* 65,536 samples take 1.5 MiB, of which only the pages in use are resident. */
#define SETS_BITS 14
#define SETS (1u << SETS_BITS)
#define WAYS 4
/* The id of a goroutine, its creator and its labels. */
#define GOROUTINE_WORDS (2 + STACKBEAT_GO_LABELS_SIZE_MAX / sizeof(uint64_t))
/* Bytes of one sample: a record may be larger than its frames need. */
#define SAMPLE_SIZE_MAX                                                                            \
	(sizeof(struct stackbeat_sample) +                                                         \
	 (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX + GOROUTINE_WORDS) *             \
		 sizeof(uint64_t))

struct sample_cache_entry {
	uint64_t fingerprint[2];
	struct stack *stack; /* NULL: none, or it was removed */
};

struct sample_cache_key {
	fingerprint fingerprint;
	size_t set;
};

/* The last sample that was not found. */
struct missed_sample {
	const struct stackbeat_sample *sample; /* NULL: none */
	uint64_t time, address_space, hash; /* another one may be in its place */
	struct sample_cache_key key;
	enum sample_history history;
};

struct sample_cache_options {
	bool tid, cpu, block;
	bool all_frames; /* are compared: hashes are not CRC-32C of the frames */
};

struct sample_cache {
	struct fingerprint_key key;
	struct sample_cache_options options;
	struct missed_sample missed; /* is mostly inserted next */
	uint64_t used[SETS / 64]; /* a bit for each set: it may have entries */
	struct sample_cache_entry sets[SETS][WAYS]; /* the latest first */
};

/* Fields of a sample that a fingerprint begins with, in words: see key_of(). */
#define HEAD_WORDS 4
/* From here on, all fields of a sample identify its stack. */
#define TAIL_OFFSET offsetof(struct stackbeat_sample, address_space)
#define FRAMES_INDEX                                                                               \
	(HEAD_WORDS + (offsetof(struct stackbeat_sample, frames) - TAIL_OFFSET) / sizeof(uint64_t))
/*
 * User frames that are part of the fingerprint, at least. The sample's hash distinguishes stacks
 * that differ in other frames. Two stacks with the same number of frames have different hashes if
 * all bits that differ are among 32 neighbouring bits; otherwise their hashes are equal with a
 * probability of 2^-32.
 */
#define USER_FRAMES_COMPARED 4

_Static_assert(FRAMES_INDEX % 2 == 0 && TAIL_OFFSET % sizeof(uint64_t) == 0,
	       "fingerprints are of pairs of words");
_Static_assert(FRAMES_INDEX + STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX +
			       GOROUTINE_WORDS <=
		       FINGERPRINT_WORDS_MAX,
	       "the key is long enough for the deepest stack");

struct sample_cache *sample_cache_new(bool tid, bool cpu, bool block)
{
	struct sample_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	fingerprint_key_init(&cache->key);
	cache->options = (struct sample_cache_options){tid, cpu, block, true};
#ifdef __x86_64__
	cache->options.all_frames = !__builtin_cpu_supports("sse4.2");
#endif
	return cache;
}

void sample_cache_free(struct sample_cache *cache)
{
	free(cache);
}

static inline uint64_t sample_cache_word(const void *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, (const char *)bytes + offset, sizeof(word));
	return word;
}

/*
 * Sets the words for the fields before TAIL_OFFSET that identify the stack of a sample. The first
 * one holds the size of the record.
 */
static inline void set_head(struct sample_cache_options options,
			    const struct stackbeat_sample *sample, uint64_t head[HEAD_WORDS])
{
	/* Without thread ids, the first thread of a process is still distinguished from others. */
	uint32_t thread = options.tid ? sample->tid : sample->tid == sample->pid;
	uint64_t frames = sample->kernel_frames | (uint32_t)sample->user_frames << 16;

	head[0] = sample_cache_word(sample, offsetof(struct stackbeat_sample, record));
	head[1] = sample->pid | (uint64_t)thread << 32;
	head[2] = frames | (uint64_t)(options.cpu ? sample->cpu : 0) << 32;
	if (options.block)
		head[2] ^= block_of_time(sample->time) << 48;
	/* The reasons why unwinding stopped, and the generation. */
	head[3] = sample_cache_word(sample, offsetof(struct stackbeat_sample, kernel_stop));
	_Static_assert(offsetof(struct stackbeat_sample, kernel_stop) + sizeof(head[3]) ==
			       TAIL_OFFSET,
		       "no field is left out");
}

/* Adds the words from sample->frames[] on. Parts of a sequence begin at even indices. */
__attribute__((always_inline)) static inline fingerprint
add_frames(const struct fingerprint_key *key, struct sample_cache_options options, fingerprint sum,
	   const struct stackbeat_sample *sample, size_t words, fingerprint_fn *add)
{
	const uint64_t *frames = (const uint64_t *)sample->frames;
	size_t kernel = ((size_t)sample->kernel_frames + 1) & ~(size_t)1;
	size_t hashed = (size_t)sample->kernel_frames + sample->user_frames;

	/* Without an address space, execve() and a new process with the same PID change no field.
	 */
	if (options.all_frames || !sample->address_space || hashed > words ||
	    kernel + USER_FRAMES_COMPARED > hashed)
		return add(key, sum, FRAMES_INDEX, frames, words);
	if (kernel)
		sum = add(key, sum, FRAMES_INDEX, frames, kernel);
	sum = add(key, sum, FRAMES_INDEX + kernel, frames + kernel, USER_FRAMES_COMPARED);
	if (hashed < words) {
		hashed &= ~(size_t)1;
		sum = add(key, sum, FRAMES_INDEX + hashed, frames + hashed, words - hashed);
	}
	return sum;
}

/*
 * The set depends on the fields before the frames, and on the kernel's hash of the frames: the CPU
 * fetches it while the frames are read. Programs can choose stacks of the same set: these evict
 * each other, as any new stacks do. `sample->record.size` must be in range.
 */
__attribute__((always_inline)) static inline struct sample_cache_key
key_of(const struct sample_cache *cache, struct sample_cache_options options,
       const struct stackbeat_sample *sample, fingerprint_fn *add)
{
	const char *tail = (const char *)sample + TAIL_OFFSET;
	size_t words = (sample->record.size - sizeof(*sample)) / sizeof(sample->frames[0]);
	uint64_t head[HEAD_WORDS];
	struct sample_cache_key key;

	set_head(options, sample, head);
	key.fingerprint = add(&cache->key, (fingerprint){0}, 0, head, HEAD_WORDS);
	key.fingerprint =
		add(&cache->key, key.fingerprint, HEAD_WORDS, tail, FRAMES_INDEX - HEAD_WORDS);
	/* Fibonacci hashing: the upper bits of the product depend on all bits. */
	key.set = ((key.fingerprint[0] ^ key.fingerprint[1]) * UINT64_C(0x9e3779b97f4a7c15)) >>
		  (64 - SETS_BITS);
	__builtin_prefetch(cache->sets[key.set]);
	key.fingerprint = add_frames(&cache->key, options, key.fingerprint, sample, words, add);
	return key;
}

__attribute__((always_inline)) static inline struct stack *
sample_cache_find_stack(struct sample_cache *cache, struct sample_cache_options options,
			const struct stackbeat_sample *sample, fingerprint_fn *add)
{
	const struct sample_cache_key key = key_of(cache, options, sample, add);
	const struct sample_cache_entry *set = cache->sets[key.set];
	unsigned int i = 0;

	for (; i < WAYS; i++) {
		if (set[i].fingerprint[0] == key.fingerprint[0] &&
		    set[i].fingerprint[1] == key.fingerprint[1]) {
			if (set[i].stack && set[i].stack->space)
				return set[i].stack;
			break;
		}
	}
	cache->missed = (struct missed_sample){
		.sample = sample,
		.time = sample->time,
		.address_space = sample->address_space,
		.hash = sample->hash,
		.key = key,
		.history = i == WAYS ? SAMPLE_FIRST : SAMPLE_KNOWN,
	};
	return NULL;
}

__attribute__((always_inline)) static inline uint64_t
sample_cache_match_by(struct sample_cache *cache, struct sample_cache_options options,
		      const void *data, uint64_t available, struct sample_totals *totals,
		      fingerprint_fn *add)
{
	const struct stackbeat_sample *sample = data;
	uint64_t left = available;

	while (left >= sizeof(*sample)) {
		uint32_t size = sample->record.size;
		struct stack *stack;

		if (size > left || size < sizeof(*sample) || size > SAMPLE_SIZE_MAX)
			break;
		stack = sample_cache_find_stack(cache, options, sample, add);
		/* Without memory for the sample, the slow path says so. */
		if (!stack || stack_count(stack, sample, totals))
			break;
		left -= size;
		sample = (const void *)((const char *)sample + size);
	}
	return available - left;
}

#ifdef __x86_64__
__attribute__((target("avx,pclmul"))) static uint64_t match_carry_less(struct sample_cache *cache,
								       const void *data,
								       uint64_t available,
								       struct sample_totals *totals)
{
	const struct sample_cache_options options = cache->options;

	/* Constants: the usual options take no instructions. */
	if (!options.tid && !options.cpu && !options.block && !options.all_frames)
		return sample_cache_match_by(cache, (struct sample_cache_options){.tid = false},
					     data, available, totals, fingerprint_carry_less);
	return sample_cache_match_by(cache, options, data, available, totals,
				     fingerprint_carry_less);
}
#endif

uint64_t sample_cache_match(struct sample_cache *cache, const void *data, uint64_t available,
			    struct sample_totals *totals)
{
#ifdef __x86_64__
	if (cache->key.carry_less)
		return match_carry_less(cache, data, available, totals);
#endif
	return sample_cache_match_by(cache, cache->options, data, available, totals,
				     fingerprint_nh);
}

#ifdef __x86_64__
/*
 * Returns whether the hash of a sample is CRC-32C of its frames. perf_device.c computes another
 * hash, and the module does if the kernel does not use SSE4.2 (clearcpuid=). The size of the record
 * must be valid.
 */
__attribute__((target("sse4.2"))) static bool hash_is_crc(const struct stackbeat_sample *sample)
{
	size_t words = (sample->record.size - sizeof(*sample)) / sizeof(sample->frames[0]);
	size_t count = (size_t)sample->kernel_frames + sample->user_frames;
	uint64_t crc = 0;

	/* Counts that exceed the record are wrong, and all of its words are compared. */
	if (count > words)
		return true;
	for (size_t i = 0; i < count; i++)
		crc = _mm_crc32_u64(crc, sample->frames[i]);
	return crc == sample->hash;
}

/* Once the hash of a sample is not CRC-32C, all frames of all samples are compared. */
static void check_hash(struct sample_cache *cache, const struct stackbeat_sample *sample)
{
	if (!cache->options.all_frames && !hash_is_crc(sample)) {
		cache->options.all_frames = true;
		cache->missed.sample = NULL;
		sample_cache_clear(cache);
	}
}
#else
static void check_hash(struct sample_cache *cache, const struct stackbeat_sample *sample)
{
	(void)cache;
	(void)sample;
}
#endif

static bool is_missed(const struct missed_sample *missed, const struct stackbeat_sample *sample)
{
	return missed->sample == sample && missed->time == sample->time &&
	       missed->address_space == sample->address_space && missed->hash == sample->hash;
}

enum sample_history sample_cache_history(const struct sample_cache *cache,
					 const struct stackbeat_sample *sample)
{
	if (!is_missed(&cache->missed, sample) || sample->record.flags & STACKBEAT_SAMPLE_STACK)
		return SAMPLE_UNASKED;
	return cache->missed.history;
}

void sample_cache_note(struct sample_cache *cache, const struct stackbeat_sample *sample)
{
	sample_cache_insert(cache, sample, NULL);
}

void sample_cache_insert(struct sample_cache *cache, const struct stackbeat_sample *sample,
			 struct stack *stack)
{
	struct sample_cache_entry *set;
	struct sample_cache_key key;
	unsigned int i = 0;

	if (sample->record.size < sizeof(*sample) || sample->record.size > SAMPLE_SIZE_MAX ||
	    sample->record.flags & STACKBEAT_SAMPLE_STACK)
		return;
	check_hash(cache, sample);
	if (is_missed(&cache->missed, sample)) {
		key = cache->missed.key;
		i = cache->missed.history == SAMPLE_FIRST ? WAYS - 1 : 0;
	} else {
		key = key_of(cache, cache->options, sample, fingerprint_add);
	}
	set = cache->sets[key.set];
	/* In the place of an equal sample, or of the oldest one. */
	while (i < WAYS - 1 && (set[i].fingerprint[0] != key.fingerprint[0] ||
				set[i].fingerprint[1] != key.fingerprint[1]))
		i++;
	for (; i; i--)
		set[i] = set[i - 1];
	set[0] = (struct sample_cache_entry){{key.fingerprint[0], key.fingerprint[1]}, stack};
	cache->used[key.set / 64] |= UINT64_C(1) << key.set % 64;
}

/*
 * Returns whether stacks are left. A sample that was noted stays; at the worst, the next one is not
 * the first.
 */
static bool forget_in_set(struct sample_cache_entry set[WAYS])
{
	bool are_left = false;

	for (unsigned int i = 0; i < WAYS; i++) {
		if (set[i].stack && !set[i].stack->space)
			set[i] = (struct sample_cache_entry){.stack = NULL};
		are_left |= set[i].stack != NULL;
	}
	return are_left;
}

void sample_cache_forget(struct sample_cache *cache)
{
	for (size_t i = 0; i < SETS / 64; i++) {
		/* Mostly, few sets are used: processes that run have them. */
		for (uint64_t left = cache->used[i]; left; left &= left - 1) {
			unsigned int bit = (unsigned int)__builtin_ctzll(left);

			if (!forget_in_set(cache->sets[i * 64 + bit]))
				cache->used[i] &= ~(UINT64_C(1) << bit);
		}
	}
}

void sample_cache_clear(struct sample_cache *cache)
{
	/* Pages of sets that were never used stay untouched. */
	for (size_t i = 0; i < SETS / 64; i++) {
		for (uint64_t left = cache->used[i]; left; left &= left - 1) {
			unsigned int bit = (unsigned int)__builtin_ctzll(left);

			memset(cache->sets[i * 64 + bit], 0, sizeof(cache->sets[0]));
		}
	}
	memset(cache->used, 0, sizeof(cache->used));
}

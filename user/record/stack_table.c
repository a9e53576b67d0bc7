// SPDX-License-Identifier: GPL-2.0
#include "record/stack_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "lib/array.h"
#include "lib/fingerprint.h"
#include "lib/hash.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "pprof/truncation.h"
#include "record/gone_parts.h"
#include "record/sample_cache.h"
#include "source/go_labels.h"

#define NO_STACK UINT32_MAX
/* The cache is read completely to forget removed stacks, so they are collected up to this size. */
#define REMOVED_BYTES_MAX ((size_t)256 << 10)

/* As many stacks of a process may come again before the share of these matters: see is_single(). */
#define REPEATED_MIN 4

/* Words of a hashed stack before its frames: see hash_sample(). */
#define HEAD_WORDS 2
#define ORIGIN_WORDS (sizeof(struct label_origin) / sizeof(uint64_t))
#define GO_LABELS_WORDS (STACKBEAT_GO_LABELS_SIZE_MAX / sizeof(uint64_t))

_Static_assert(sizeof(struct label_origin) == ORIGIN_WORDS * sizeof(uint64_t) &&
		       (HEAD_WORDS + ORIGIN_WORDS) % 2 == 0,
	       "fingerprints are of pairs of words");
_Static_assert(HEAD_WORDS + ORIGIN_WORDS + STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX +
			       1 + GO_LABELS_WORDS <=
		       FINGERPRINT_WORDS_MAX,
	       "the key is long enough for the deepest stack");

/* A sample with its frames as a stack stores them. */
struct resolved_sample {
	const struct stackbeat_sample *sample;
	struct address_space *space;
	struct label_origin origin;
	uint32_t hash;
	uint16_t user_frames, table_frames;
	uint8_t user_stop;
	bool is_copy, has_go_creator;
	uint16_t go_label_words;
	uint64_t frames[STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX + 1 +
			GO_LABELS_WORDS];
	uint32_t segments[STACKBEAT_USER_FRAMES_MAX + 1];
};

struct stack_table {
	const struct gone_parts *parts; /* NULL: none */
	struct address_spaces *spaces;
	uint32_t labels; /* LABEL_SET()s */
	struct sample_totals totals;
	struct sample_cache *cache;
	struct fingerprint_key key; /* for hash_sample() */
	struct stack_slot *slots; /* in the order of insertion, as long as none is used again */
	size_t slot_count, slot_capacity;
	uint32_t unused; /* the first unused slot, or NO_STACK */
	struct hash stack_index; /* indices of `slots` */
	struct space_stacks *of_space; /* by index of the address space */
	size_t space_count, space_capacity;
	struct stack *removed; /* linked by next_removed, until the cache forgets them */
	size_t removed_bytes;
	size_t stack_bytes; /* of all stacks */
	fold_stack_fn *fold;
	void *fold_arg;
	struct resolved_sample resolved; /* the sample that is being added */
	struct stack *single; /* the stack that is being folded at once; has room for the deepest */
};

struct space_stacks {
	uint32_t latest; /* the index of the last stack that was added; NO_STACK: none */
	uint32_t singles; /* stacks that were folded at once */
	uint32_t repeated; /* stacks that came again, or might have: see note_generation() */
	uint32_t generation; /* of the last sample */
};

/* `stack`, or NULL and the next unused slot. */
struct stack_slot {
	struct stack *stack;
	uint32_t next_unused; /* NO_STACK: none */
};

static int stack_table_forget_space(struct address_space *space, void *arg);

struct stack_table *stack_table_new(struct address_spaces *spaces, uint32_t labels,
				    fold_stack_fn *fold, void *fold_arg)
{
	struct stack_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->spaces = spaces;
	table->labels = labels;
	table->fold = fold;
	table->fold_arg = fold_arg;
	table->unused = NO_STACK;
	table->totals.keeps_moments = labels & LABEL_SET(LABEL_MOMENT);
	fingerprint_key_init(&table->key);
	table->cache =
		sample_cache_new(labels & LABEL_SET(LABEL_TID), labels & LABEL_SET(LABEL_CPU),
				 labels & LABEL_SET(LABEL_BLOCK));
	table->single = malloc(sizeof(*table->single) + sizeof(table->resolved.frames) +
			       sizeof(table->resolved.segments));
	if (!table->cache || !table->single) {
		stack_table_free(table);
		return NULL;
	}
	address_spaces_on_forget(spaces, stack_table_forget_space, table);
	return table;
}

static void free_removed(struct stack_table *table)
{
	while (table->removed) {
		struct stack *next = table->removed->next_removed;

		free(table->removed);
		table->removed = next;
	}
	table->removed_bytes = 0;
}

void stack_table_free(struct stack_table *table)
{
	if (!table)
		return;
	address_spaces_on_forget(table->spaces, NULL, NULL);
	for (size_t i = 0; i < table->slot_count; i++) {
		if (table->slots[i].stack)
			stack_free_moments(table->slots[i].stack, &table->totals);
		free(table->slots[i].stack);
	}
	free_removed(table);
	sample_cache_free(table->cache);
	hash_clear(&table->stack_index);
	free(table->single);
	free(table->slots);
	free(table->of_space);
	free(table);
}

/* As stack_user_places(). */
static size_t user_places(const struct resolved_sample *resolved)
{
	return (size_t)resolved->user_frames + resolved->has_go_creator;
}

static size_t frame_count(const struct resolved_sample *resolved)
{
	return resolved->sample->kernel_frames + user_places(resolved);
}

/* The words of `frames`: with the labels of the goroutine. */
static size_t word_count(const struct resolved_sample *resolved)
{
	return frame_count(resolved) + resolved->go_label_words;
}

/*
 * Sets the addresses by which the frames are symbolized. A return address lies behind its call,
 * maybe in the next line, function or mapping. The interrupted address and the one at which the
 * kernel was entered are exact.
 */
static void set_call_addresses(uint64_t *to, const void *from, size_t count)
{
	const char *next = from;

	if (!count)
		return;
	memcpy(to, next, sizeof(*to));
	for (size_t i = 1; i < count; i++) {
		memcpy(&to[i], next + i * sizeof(*to), sizeof(*to));
		to[i]--;
	}
}

/* Sets all but the segments. `frames`: see stack_table_add_copied(). */
static void set_frames(struct resolved_sample *resolved, const struct copied_frames *frames)
{
	const struct stackbeat_sample *sample = resolved->sample;
	const void *addresses = sample->frames + sample->kernel_frames;

	if (frames)
		addresses = frames->addresses;
	resolved->user_frames = frames ? frames->count : sample->user_frames;
	resolved->table_frames = frames ? frames->table_frames : sample->table_frames;
	resolved->user_stop = frames ? frames->stop : sample->user_stop;
	resolved->is_copy = frames;
	set_call_addresses(resolved->frames, sample->frames, sample->kernel_frames);
	set_call_addresses(resolved->frames + sample->kernel_frames, addresses,
			   resolved->user_frames);
}

/* Returns whether an equal sample at another time has the same stack. */
static bool set_aliases(const struct stack_table *table, struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;

	return !table->parts || gone_parts_set_aliases(table->parts, sample->time, resolved->frames,
						       sample->kernel_frames);
}

/* `view`: see stack_table_add_copied(). */
static void resolve_mappings(struct resolved_sample *resolved, const struct mapping_view *view)
{
	const struct stackbeat_sample *sample = resolved->sample;
	uint64_t *frames = resolved->frames + sample->kernel_frames;
	uint32_t *segments = resolved->segments;
	size_t count = resolved->user_frames, done = 0;

	while (done < count) {
		done += view ? mapping_view_segments(view, frames + done, segments + done,
						     count - done)
			     : address_space_segments_at(resolved->space, sample->generation,
							 frames + done, segments + done,
							 count - done);
		/*
		 * A caller outside all executable mappings is no caller: the unwinder has followed
		 * a word that was no frame pointer. The stack ends before it.
		 */
		if (done > 1 && segments[done - 1] == SEGMENT_NONE &&
		    (view ? view->is_certain
			  : address_space_is_certain(resolved->space, sample->generation))) {
			resolved->user_frames = (uint16_t)(done - 1);
			resolved->table_frames = MIN(resolved->table_frames, resolved->user_frames);
			resolved->user_stop = STACKBEAT_STOP_BAD_FRAME;
			return;
		}
	}
	/* By frame pointers alone, the mapping of the last frame does not matter. */
	if (count && segments[count - 1] == SEGMENT_NONE &&
	    resolved->user_stop == STACKBEAT_STOP_BAD_FRAME &&
	    (resolved->is_copy || resolved->table_frames))
		resolved->user_stop = TRUNCATION_STOP_UNKNOWN_MAPPING;
}

/* Adds the go statement, unless the program has made up an address that is not in a file's code. */
static void resolve_go_creator(struct resolved_sample *resolved, const struct mapping_view *view)
{
	const struct stackbeat_sample *sample = resolved->sample;
	uint64_t *address = resolved->frames + sample->kernel_frames + resolved->user_frames;
	uint32_t *segment = resolved->segments + resolved->user_frames;

	resolved->has_go_creator = false;
	if (!resolved->origin.go_creator)
		return;
	*address = resolved->origin.go_creator - 1;
	if (view)
		mapping_view_segments(view, address, segment, 1);
	else
		address_space_segments_at(resolved->space, sample->generation, address, segment, 1);
	resolved->has_go_creator = *segment >= SEGMENT_FILES;
}

static void stack_table_add_go_labels(struct resolved_sample *resolved, uint32_t chosen)
{
	const struct stackbeat_go_labels *labels = label_go_labels(chosen, resolved->sample);
	void *to = resolved->frames + frame_count(resolved);

	resolved->go_label_words =
		labels ? (uint16_t)(go_labels_sort(labels, to) / sizeof(uint64_t)) : 0;
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
		(uintptr_t)resolved->space ^ (uint64_t)resolved->go_label_words << 56,
		(uint64_t)resolved->table_frames << 48 | (uint64_t)resolved->is_copy << 47 |
			(uint64_t)resolved->has_go_creator << 46 |
			(uint64_t)sample->kernel_frames << 32 |
			(uint64_t)resolved->user_frames << 16 | (uint64_t)sample->kernel_stop << 8 |
			resolved->user_stop,
	};
	fingerprint sum = {0};

	sum = fingerprint_add(key, sum, 0, head, HEAD_WORDS);
	sum = fingerprint_add(key, sum, HEAD_WORDS, &resolved->origin, ORIGIN_WORDS);
	sum = fingerprint_add(key, sum, HEAD_WORDS + ORIGIN_WORDS, resolved->frames,
			      word_count(resolved));
	return hash_number(hash_number(HASH_START, sum[0]), sum[1]);
}

_Static_assert(STACKBEAT_KERNEL_FRAMES_MAX < 1 << 14 && GO_LABELS_WORDS < 1 << 8,
	       "the fields of hash_sample() fit");

/* Flags that say only what the record has besides, do not distinguish stacks. */
static uint16_t stack_flags(const struct stackbeat_sample *sample)
{
	return sample->record.flags & ~(STACKBEAT_SAMPLE_STACK | STACKBEAT_SAMPLE_GOROUTINE |
					STACKBEAT_SAMPLE_GO_CREATOR | STACKBEAT_SAMPLE_GO_LABELS);
}

static bool stack_equals(const void *context, uint32_t index, const void *key)
{
	const struct stack *stack = ((const struct stack_table *)context)->slots[index].stack;
	const struct resolved_sample *resolved = key;
	const struct stackbeat_sample *sample = resolved->sample;

	return stack->space == resolved->space && stack->kernel_frames == sample->kernel_frames &&
	       stack->user_frames == resolved->user_frames &&
	       stack->kernel_stop == sample->kernel_stop &&
	       stack->user_stop == resolved->user_stop && stack->flags == stack_flags(sample) &&
	       stack->table_frames == resolved->table_frames &&
	       stack->is_copy == resolved->is_copy &&
	       stack->has_go_creator == resolved->has_go_creator &&
	       stack->go_label_words == resolved->go_label_words &&
	       !memcmp(&stack->origin, &resolved->origin, sizeof(resolved->origin)) &&
	       !memcmp(stack->frames, resolved->frames,
		       word_count(resolved) * sizeof(stack->frames[0])) &&
	       !memcmp(stack_segments(stack), resolved->segments,
		       user_places(resolved) * sizeof(resolved->segments[0]));
}

static struct stack *stack_table_find(const struct stack_table *table,
				      const struct resolved_sample *resolved)
{
	uint32_t index =
		hash_find(&table->stack_index, resolved->hash, stack_equals, table, resolved);

	return index == HASH_NONE ? NULL : table->slots[index].stack;
}

/* Returns the index of an unused slot, which stays unused; NO_STACK: out of memory. */
static uint32_t stack_table_reserve(struct stack_table *table)
{
	if (table->unused != NO_STACK)
		return table->unused;
	if (table->slot_count >= HASH_NONE ||
	    array_reserve(&table->slots, &table->slot_capacity, table->slot_count, 1,
			  sizeof(*table->slots)))
		return NO_STACK;
	table->unused = (uint32_t)table->slot_count++;
	table->slots[table->unused] = (struct stack_slot){NULL, NO_STACK};
	return table->unused;
}

static const struct space_stacks no_stacks = {.latest = NO_STACK};

/* Reserves an entry of `of_space`. Returns 0 or -ENOMEM. */
static int reserve_space(struct stack_table *table, uint32_t index)
{
	if (index < table->space_count)
		return 0;
	if (array_reserve(&table->of_space, &table->space_capacity, table->space_count,
			  index + 1 - table->space_count, sizeof(*table->of_space)))
		return -ENOMEM;
	while (table->space_count <= index)
		table->of_space[table->space_count++] = no_stacks;
	return 0;
}

static void link_to_space(struct stack_table *table, struct stack *stack)
{
	struct space_stacks *of_space = &table->of_space[address_space_index(stack->space)];

	stack->next_of_space = of_space->latest;
	of_space->latest = stack->index;
}

/* Sets all but the fields of the table. The stack has room for the frames. */
static void set_stack(struct stack *stack, const struct resolved_sample *resolved)
{
	const struct stackbeat_sample *sample = resolved->sample;
	size_t size = word_count(resolved) * sizeof(sample->frames[0]);
	size_t segments_size = user_places(resolved) * sizeof(resolved->segments[0]);

	memset(stack, 0, sizeof(*stack));
	stack->space = resolved->space;
	stack->origin = resolved->origin;
	stack->kernel_frames = sample->kernel_frames;
	stack->user_frames = resolved->user_frames;
	stack->kernel_stop = sample->kernel_stop;
	stack->user_stop = resolved->user_stop;
	stack->table_frames = resolved->table_frames;
	stack->is_copy = resolved->is_copy;
	stack->has_go_creator = resolved->has_go_creator;
	stack->go_label_words = resolved->go_label_words;
	stack->flags = stack_flags(sample);
	memcpy(stack->frames, resolved->frames, size);
	memcpy((uint32_t *)stack_segments(stack), resolved->segments, segments_size);
}

static struct stack *new_stack(const struct resolved_sample *resolved)
{
	struct stack *stack =
		malloc(sizeof(*stack) + word_count(resolved) * sizeof(resolved->frames[0]) +
		       user_places(resolved) * sizeof(resolved->segments[0]));

	if (!stack)
		return NULL;
	set_stack(stack, resolved);
	stack->hash = resolved->hash;
	return stack;
}

/* Releases the files of the first `count` user frames of a stack, which may include the go
 * statement. */
static void stack_table_release_files(struct stack_table *table, const struct stack *stack,
				      size_t count)
{
	struct mapped_files *files = address_spaces_files(table->spaces);
	const uint32_t *segments = stack_segments(stack);
	struct mapped_file *file;
	bool is_offset;

	for (size_t i = 0; i < count; i++) {
		if (i > 0 && segments[i] == segments[i - 1])
			continue;
		file = segment_file(files, segments[i], &is_offset);
		if (file)
			mapped_file_release(files, file);
	}
}

/*
 * Holds the files in which a new stack has frames, once for each run of frames in a file. Returns
 * 0, or -ENOMEM with none held.
 */
static int stack_table_hold_files(struct stack_table *table, const struct stack *stack)
{
	struct mapped_files *files = address_spaces_files(table->spaces);
	const uint32_t *segments = stack_segments(stack);
	struct mapped_file *file;
	bool is_offset;

	for (size_t i = 0; i < stack_user_places(stack); i++) {
		if (i > 0 && segments[i] == segments[i - 1])
			continue;
		file = segment_file(files, segments[i], &is_offset);
		if (file && mapped_file_hold(files, file)) {
			stack_table_release_files(table, stack, i);
			return -ENOMEM;
		}
		if ((segments[i] == SEGMENT_ANON ||
		     (file && !*file->build_id &&
		      segment_is_of_kind(segments[i], SEGMENT_OFFSETS))) &&
		    mapped_files_have_symbols(files))
			address_space_has_jit_code(stack->space);
	}
	return 0;
}

static struct stack *insert_stack(struct stack_table *table, const struct resolved_sample *resolved)
{
	uint32_t index = stack_table_reserve(table);
	struct stack *stack;

	if (index == NO_STACK)
		return NULL;
	stack = new_stack(resolved);
	if (!stack || stack_table_hold_files(table, stack)) {
		free(stack);
		return NULL;
	}
	if (hash_add(&table->stack_index, resolved->hash, index)) {
		stack_table_release_files(table, stack, stack_user_places(stack));
		free(stack);
		return NULL;
	}
	table->stack_bytes += stack_size(stack);
	stack->index = index;
	link_to_space(table, stack);
	table->unused = table->slots[index].next_unused;
	table->slots[index].stack = stack;
	return stack;
}

void stack_table_use_parts(struct stack_table *table, const struct gone_parts *parts)
{
	table->parts = parts;
}

void stack_table_parts_changed(struct stack_table *table)
{
	sample_cache_clear(table->cache);
}

uint64_t stack_table_repeat(struct stack_table *table, const void *data, uint64_t available)
{
	return sample_cache_match(table->cache, data, available, &table->totals);
}

/*
 * Returns whether the frames can be named by what is known now. Generated code can't: its names are
 * in a file that is looked for from now on.
 */
static bool has_no_generated_code(const struct resolved_sample *resolved)
{
	const size_t count = user_places(resolved);
	uint32_t last = SEGMENT_NONE;

	for (size_t i = 0; i < count; i++) {
		const uint32_t segment = resolved->segments[i];

		if (segment == last)
			continue;
		last = segment;
		if (segment_is_jit(segment) || segment_is_of_kind(segment, SEGMENT_OFFSETS))
			return false;
	}
	return true;
}

/* Folds the stack of a sample without adding it to the table. Returns as fold_stack_fn. */
static int fold_single(struct stack_table *table, const struct resolved_sample *resolved)
{
	struct stack *stack = table->single;
	int err;

	set_stack(stack, resolved);
	stack->samples = 1;
	stack->weight = resolved->sample->weight;
	err = table->fold(stack, table->fold_arg);
	if (err)
		return err;
	sample_totals_add(&table->totals, resolved->sample);
	table->totals.stacks++;
	return 0;
}

/*
 * After a change of the mappings, the cache knows no stack: each change counts as a stack that came
 * again, so that a process that often changes them has its stacks in the table.
 */
static void note_generation(struct space_stacks *of_space, uint32_t generation)
{
	of_space->repeated += of_space->generation != generation;
	of_space->generation = generation;
}

/*
 * Returns whether the stack of a sample that the cache does not know is to be folded at once: if at
 * most a few, or a quarter, of the stacks of its process came again. Most stacks of processes that
 * soon end have one sample. To add and to remove these takes more than to fold the first sample of
 * each stack by itself.
 */
static bool is_single(const struct stack_table *table, const struct resolved_sample *resolved,
		      const struct space_stacks *of_space)
{
	return of_space->repeated <= REPEATED_MIN + of_space->singles / 4 &&
	       !table->totals.keeps_moments && address_space_is_announced(resolved->space) &&
	       has_no_generated_code(resolved);
}

/*
 * Sets the hash of a sample whose address space has stacks, and finds its stack, which the cache
 * may have lost. Returns NULL if there is none.
 */
static struct stack *find_stack_of_space(const struct stack_table *table,
					 struct resolved_sample *resolved,
					 const struct space_stacks *of_space)
{
	if (of_space->latest == NO_STACK)
		return NULL;
	resolved->hash = hash_sample(&table->key, resolved);
	return stack_table_find(table, resolved);
}

int stack_table_add_copied(struct stack_table *table, const struct stackbeat_sample *sample,
			   const struct copied_frames *frames, const struct mapping_view *view)
{
	const enum sample_history history = sample_cache_history(table->cache, sample);
	struct resolved_sample *resolved = &table->resolved;
	struct space_stacks *of_space;
	struct stack *stack;
	bool lasts;

	resolved->sample = sample;
	resolved->space = address_spaces_get(table->spaces, sample->address_space, sample->pid);
	if (!resolved->space || reserve_space(table, address_space_index(resolved->space)))
		return -ENOMEM;
	of_space = &table->of_space[address_space_index(resolved->space)];
	set_frames(resolved, frames);
	lasts = set_aliases(table, resolved);
	resolve_mappings(resolved, view);
	label_origin(table->labels, address_space_comm(resolved->space), sample, &resolved->origin);
	resolve_go_creator(resolved, view);
	stack_table_add_go_labels(resolved, table->labels);
	stack = find_stack_of_space(table, resolved, of_space);
	note_generation(of_space, sample->generation);
	/* Without memory for the profile, there may be some for the table. */
	if (!stack && lasts && history == SAMPLE_FIRST && is_single(table, resolved, of_space) &&
	    !fold_single(table, resolved)) {
		of_space->singles++;
		sample_cache_note(table->cache, sample);
		return 0;
	}
	of_space->repeated += history == SAMPLE_KNOWN;
	if (of_space->latest == NO_STACK)
		resolved->hash = hash_sample(&table->key, resolved);
	if (!stack) {
		stack = insert_stack(table, resolved);
		if (!stack)
			return -ENOMEM;
		table->totals.stacks += history != SAMPLE_KNOWN;
	}
	if (lasts)
		sample_cache_insert(table->cache, sample, stack);
	return stack_count(stack, sample, &table->totals);
}

int stack_table_add(struct stack_table *table, const struct stackbeat_sample *sample)
{
	return stack_table_add_copied(table, sample, NULL, NULL);
}

void stack_table_keep_moments(struct stack_table *table, bool keeps)
{
	table->totals.keeps_moments = keeps;
}

const struct sample_totals *stack_table_totals(const struct stack_table *table)
{
	return &table->totals;
}

/* Folding */

/* Removes a stack from the table; the cache may refer to it until sample_cache_forget(). */
static void remove_stack(struct stack_table *table, struct stack *stack)
{
	stack_table_release_files(table, stack, stack_user_places(stack));
	hash_remove(&table->stack_index, stack->hash, stack->index);
	table->slots[stack->index] = (struct stack_slot){NULL, table->unused};
	table->unused = stack->index;
	table->stack_bytes -= stack_size(stack);
	table->removed_bytes += stack_size(stack);
	stack->space = NULL;
	stack->next_removed = table->removed;
	table->removed = stack;
}

static int stack_table_fold_stack(struct stack_table *table, struct stack *stack)
{
	int err = stack->samples ? table->fold(stack, table->fold_arg) : 0;

	if (err)
		return err;
	stack->samples = 0;
	stack->weight = 0;
	if (stack->moment_capacity)
		stack_free_moments(stack, &table->totals);
	return 0;
}

/* Folds the stacks of an address space, and removes them (a forget_address_space_fn). */
static int stack_table_forget_space(struct address_space *space, void *arg)
{
	uint32_t index = address_space_index(space), *next;
	struct stack_table *table = arg;

	if (index >= table->space_count)
		return 0;
	for (next = &table->of_space[index].latest; *next != NO_STACK;) {
		struct stack *stack = table->slots[*next].stack;
		int err = stack_table_fold_stack(table, stack);

		if (err)
			return err;
		*next = stack->next_of_space;
		remove_stack(table, stack);
	}
	table->of_space[index] = no_stacks;
	return 0;
}

static void stack_table_sweep_stacks(struct stack_table *table)
{
	if (!table->removed)
		return;
	sample_cache_forget(table->cache);
	free_removed(table);
}

void stack_table_sweep(struct stack_table *table)
{
	if (table->removed_bytes >= REMOVED_BYTES_MAX)
		stack_table_sweep_stacks(table);
}

int stack_table_fold(struct stack_table *table)
{
	int err = 0;

	for (size_t i = 0; i < table->space_count; i++)
		table->of_space[i].latest = NO_STACK;
	for (size_t i = 0; i < table->slot_count; i++) {
		struct stack *stack = table->slots[i].stack;

		if (!stack)
			continue;
		if (!stack->samples) {
			remove_stack(table, stack);
			continue;
		}
		link_to_space(table, stack);
		if (!err)
			err = stack_table_fold_stack(table, stack);
	}
	stack_table_sweep_stacks(table);
	return err;
}

uint64_t stack_table_fold_last(struct stack_table *table)
{
	uint64_t left;

	sample_cache_clear(table->cache);
	for (size_t i = 0; i < table->space_count; i++)
		table->of_space[i].latest = NO_STACK;
	/* The second time with the memory of what was folded the first time. */
	for (unsigned int pass = 0; pass < 2; pass++) {
		left = 0;
		for (size_t i = 0; i < table->slot_count; i++) {
			struct stack *stack = table->slots[i].stack;

			if (!stack)
				continue;
			if (stack_table_fold_stack(table, stack)) {
				left += stack->samples;
				continue;
			}
			remove_stack(table, stack);
			free_removed(table);
		}
	}
	for (size_t i = 0; i < table->slot_count; i++) {
		if (table->slots[i].stack)
			link_to_space(table, table->slots[i].stack);
	}
	return left;
}

size_t stack_table_bytes(const struct stack_table *table)
{
	return table->stack_bytes + table->totals.moment_bytes +
	       table->slot_capacity * sizeof(*table->slots) +
	       table->space_capacity * sizeof(*table->of_space) +
	       table->stack_index.capacity * HASH_SLOT_SIZE;
}

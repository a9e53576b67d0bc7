// SPDX-License-Identifier: GPL-2.0
#include "record/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/hash.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "mappings/mapping_history.h"
#include "pprof/profile_merge.h"
#include "pprof/truncation.h"
#include "record/stack.h"
#include "runtime/perf_map_watcher.h"

#define FRAMES_MAX (STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX)

/*
 * What the last stacks have found in the profile: adjacent stacks are mostly of one process, and
 * share frames and labels. The numbers stay valid as long as the profile. The entries of mappings
 * and locations are direct-mapped, by a hash without a key: a program that chooses its addresses
 * can only make its own stacks miss.
 */
#define LOCATION_ENTRIES 2048u
#define MAPPING_ENTRIES 64u
/* Of the threads of a process. */
#define LABEL_ENTRIES 16u
/* Longer paths of control groups are not remembered. */
#define CGROUP_PATH_SIZE 512u

struct location_entry {
	uint64_t address;
	uint32_t mapping;
	uint32_t location; /* 0: the entry is empty */
};

struct mapping_entry {
	uint32_t segment;
	uint32_t mapping; /* 0: the entry is empty */
};

/* What the labels of a stack follow from, without labels of goroutines. */
struct label_entry {
	const struct labels *labels; /* NULL: the entry is empty */
	struct label_origin origin;
	uint32_t ns_pid;
	enum truncation cause;
	uint32_t last_segment; /* of the user frames; its path is a part of some causes */
	char comm[STACKBEAT_COMM_SIZE];
	char cgroup_path[CGROUP_PATH_SIZE];
	uint32_t label_set;
};

/* A frame of the last stack. */
struct added_frame {
	uint64_t address;
	uint32_t segment; /* SEGMENT_NONE: no other stack may share the location */
	uint32_t location;
};

struct window_cache {
	struct added_frame last[FRAMES_MAX]; /* the frames of the last stack, from the root on */
	size_t last_depth;
	struct location_entry locations[LOCATION_ENTRIES];
	struct mapping_entry mappings[MAPPING_ENTRIES];
	struct label_entry labels[LABEL_ENTRIES];
};

int window_init(struct window *window, struct mapped_files *files)
{
	*window = (struct window){.profile = profile_new(), .files = files};
	if (!window->profile)
		return -ENOMEM;
	profile_set_recorded_types(window->profile);
	return window->profile->error;
}

void window_set_perf_maps(struct window *window, struct perf_map_fd *maps, size_t count)
{
	for (size_t i = 0; i < window->perf_map_count; i++)
		close(window->perf_maps[i].fd);
	free(window->perf_maps);
	window->perf_maps = maps;
	window->perf_map_count = count;
}

static void window_release_files(struct window *window)
{
	for (size_t i = 0; i < window->held_count; i++)
		mapped_file_release(window->files,
				    mapped_files_at(window->files, window->held_files[i]));
	free(window->held_files);
	window->held_files = NULL;
	window->held_count = window->held_capacity = 0;
}

void window_clear(struct window *window)
{
	window_set_perf_maps(window, NULL, 0);
	window_release_files(window);
	profile_free(window->profile);
	free(window->cache);
	*window = (struct window){0};
}

int window_take(struct window *window, struct window *taken)
{
	struct window empty;
	int err = window_init(&empty, window->files);

	if (err) {
		window_clear(&empty);
		*taken = (struct window){0};
		return err;
	}
	*taken = *window;
	*window = empty;
	return 0;
}

size_t window_bytes(const struct window *window)
{
	return profile_bytes(window->profile) + (window->cache ? sizeof(*window->cache) : 0) +
	       window->held_capacity * sizeof(*window->held_files) +
	       window->perf_map_count * sizeof(*window->perf_maps);
}

/* Adding */

/* Returns 0 or -ENOMEM. */
static int hold_file(struct window *window, struct mapped_file *file)
{
	if (array_reserve(&window->held_files, &window->held_capacity, window->held_count, 1,
			  sizeof(*window->held_files)) ||
	    mapped_file_hold(window->files, file))
		return -ENOMEM;
	window->held_files[window->held_count++] = file->index;
	return 0;
}

/* Adds a mapping to the profile, and holds its file if it is new. */
static uint32_t window_add_mapping(struct window *window, const struct profile_mapping *mapping)
{
	struct profile *profile = window->profile;
	struct mapped_file *file = NULL;
	size_t known = profile->mappings.count;
	uint32_t number;
	bool is_offset;

	if (window->files)
		file = segment_file(window->files, mapping->place.segment, &is_offset);
	/* Before the mapping is known, as no later stack would hold the file. */
	if (file && hold_file(window, file)) {
		profile->error = -ENOMEM;
		return 0;
	}
	number = profile_mapping(profile, mapping);
	if (file && profile->mappings.count == known) {
		mapped_file_release(window->files, file);
		window->held_count--;
	}
	return number;
}

static uint32_t segment_of(const struct stack *stack, size_t i)
{
	return i < stack->kernel_frames ? SEGMENT_KERNEL
					: stack_segments(stack)[i - stack->kernel_frames];
}

/* What is asked once for all frames of a stack: it takes long. */
struct jit_search {
	bool knows_map;
	uint32_t perf_map; /* 0: the process has none */
	uint32_t segment; /* of `mapping`, as the frames have it */
	const struct mapping *mapping; /* of the last frame that was found; NULL: none */
};

static uint32_t jit_perf_map(struct jit_search *search, const struct stack *stack)
{
	if (!search->knows_map)
		search->perf_map = address_space_perf_map(stack->space);
	search->knows_map = true;
	return search->perf_map;
}

/* Changes an offset to its address. Generated code is often all in one mapping. */
static bool jit_address(struct jit_search *search, const struct stack *stack, uint32_t segment,
			uint64_t *address)
{
	const struct mapping *mapping = search->mapping;

	if (!mapping || search->segment != segment ||
	    !mapping_contains(mapping, *address - mapping->bias))
		mapping = address_space_mapping_of(stack->space, segment, *address);
	if (!mapping)
		return false;
	search->mapping = mapping;
	search->segment = segment;
	*address -= mapping->bias;
	return true;
}

__attribute__((noinline)) static uint32_t mapping_of_new(struct window *window,
							 const struct stack *stack,
							 struct jit_search *search,
							 uint32_t segment)
{
	const bool is_jit = segment_is_jit(segment);
	struct profile_mapping mapping = {0};
	uint32_t number;

	if (segment == SEGMENT_NONE)
		return 0;
	mapping.place = (struct frame_place){.segment = segment,
					     .perf_map = is_jit ? jit_perf_map(search, stack) : 0};
	number = window_add_mapping(window, &mapping);
	if (window->cache && !is_jit)
		window->cache->mappings[segment % MAPPING_ENTRIES] =
			(struct mapping_entry){segment, number};
	return number;
}

/* The cache has no mapping that depends on the process. */
static inline uint32_t mapping_of(struct window *window, const struct stack *stack,
				  struct jit_search *search, uint32_t segment)
{
	const struct mapping_entry *entry =
		window->cache ? &window->cache->mappings[segment % MAPPING_ENTRIES] : NULL;

	if (entry && entry->segment == segment && entry->mapping)
		return entry->mapping;
	return mapping_of_new(window, stack, search, segment);
}

static inline size_t location_index(uint32_t mapping, uint64_t address)
{
	const uint64_t at =
		(address ^ mapping * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0x9e3779b97f4a7c15);

	return (at >> 32) % LOCATION_ENTRIES;
}

static inline bool location_entry_equals(const struct location_entry *entry, uint32_t mapping,
					 uint64_t address)
{
	return entry->address == address && entry->mapping == mapping && entry->location;
}

static uint32_t location_of(struct window *window, uint32_t mapping, uint64_t address)
{
	struct location_entry *entry;

	if (!window->cache)
		return profile_location(window->profile, mapping, address, NULL, 0);
	entry = &window->cache->locations[location_index(mapping, address)];
	if (!location_entry_equals(entry, mapping, address))
		*entry = (struct location_entry){
			address, mapping,
			profile_location(window->profile, mapping, address, NULL, 0)};
	return entry->location;
}

static bool segment_may_be_jit(uint32_t segment)
{
	return segment_is_jit(segment) || segment_is_of_kind(segment, SEGMENT_OFFSETS);
}

/* Whether code in a segment was generated: in a file that is no ELF file, with a perf map. */
static bool window_has_jit(const struct window *window, const struct stack *stack,
			   struct jit_search *search, uint32_t segment)
{
	bool is_offset;

	return segment_is_of_kind(segment, SEGMENT_OFFSETS) && window->files &&
	       !mapped_file_may_be_elf(segment_file(window->files, segment, &is_offset)) &&
	       jit_perf_map(search, stack);
}

/*
 * Sets the locations of the outermost frames that the last stack had, too: callers are hashed once
 * for all stacks below them. Returns the number of frames that are left.
 */
static size_t window_share_callers(const struct window_cache *cache, const struct stack *stack,
				   size_t depth, uint32_t *locations)
{
	const size_t most = MIN(depth, cache->last_depth), kernel = stack->kernel_frames;
	const uint32_t *segments = stack_segments(stack);
	const struct added_frame *last = cache->last;
	size_t left = depth;

	for (const struct added_frame *end = last + most; last < end; last++, left--) {
		const size_t i = left - 1;
		const uint32_t segment = i < kernel ? SEGMENT_KERNEL : segments[i - kernel];

		if (last->address != stack->frames[i] || last->segment != segment ||
		    segment == SEGMENT_NONE)
			break;
		locations[i] = last->location;
	}
	return left;
}

/* Returns the end of the frames from `i` on, and before `end`, that are in one segment. */
static size_t segment_end(const struct stack *stack, size_t i, size_t end)
{
	const uint32_t *segments = stack_segments(stack);
	const size_t kernel = stack->kernel_frames;
	size_t at = i + 1;

	if (i < kernel)
		return MIN(end, kernel);
	while (at < end && segments[at - kernel] == segments[i - kernel])
		at++;
	return at;
}

/* Frames from `begin` on, before `end`, in one segment. */
struct frame_run {
	size_t begin, end;
	uint32_t segment;
	uint32_t shared; /* the segment of the cached frames; SEGMENT_NONE: not shared */
};

/*
 * Adds frames of which some may be in generated code. `last` is the entry of the innermost frame in
 * the cache, behind the entries of its callers; NULL: there is no cache.
 */
static void window_add_jit(struct window *window, const struct stack *stack,
			   struct jit_search *search, const struct frame_run *run,
			   struct added_frame *last, uint32_t *locations)
{
	uint32_t moved = SEGMENT_NONE, mapping = 0;

	for (size_t i = run->begin; i < run->end; i++) {
		uint64_t address = stack->frames[i];
		uint32_t to = run->segment;

		if (jit_address(search, stack, run->segment, &address))
			to += SEGMENT_ADDRESSES - SEGMENT_OFFSETS;
		if (to != moved)
			mapping = mapping_of(window, stack, search, to);
		moved = to;
		locations[i] = location_of(window, mapping, address);
		if (last)
			last[-(ptrdiff_t)i] =
				(struct added_frame){stack->frames[i], run->shared, locations[i]};
	}
}

/* Sets the locations of frames from `i` on that are in the cache. Returns the end of them. */
__attribute__((noinline)) static size_t
window_add_known(const struct window_cache *cache, const uint64_t *frames, size_t i, size_t end,
		 uint32_t mapping, uint32_t shared, struct added_frame *last, uint32_t *locations)
{
	for (; i < end; i++) {
		const uint64_t address = frames[i];
		const struct location_entry *entry =
			&cache->locations[location_index(mapping, address)];
		const uint32_t location = entry->location;

		if (!location_entry_equals(entry, mapping, address))
			break;
		locations[i] = location;
		last[-(ptrdiff_t)i] = (struct added_frame){address, shared, location};
	}
	return i;
}

/* Adds frames of one mapping. `last` is as in window_add_jit(). */
static void window_add_run(struct window *window, const struct stack *stack,
			   const struct frame_run *run, uint32_t mapping, struct added_frame *last,
			   uint32_t *locations)
{
	for (size_t i = run->begin; i < run->end; i++) {
		if (last)
			i = window_add_known(window->cache, stack->frames, i, run->end, mapping,
					     run->shared, last, locations);
		if (i == run->end)
			return;
		locations[i] = location_of(window, mapping, stack->frames[i]);
		if (last)
			last[-(ptrdiff_t)i] =
				(struct added_frame){stack->frames[i], run->shared, locations[i]};
	}
}

/* Adds the frames before `end`, of a stack of `depth` frames. */
static void window_add_locations(struct window *window, const struct stack *stack, size_t depth,
				 size_t end, uint32_t *locations)
{
	struct added_frame *last = window->cache && depth ? window->cache->last + depth - 1 : NULL;
	struct jit_search search = {.mapping = NULL};
	struct frame_run run;

	/* Adjacent frames are often in the same file. */
	for (run.begin = 0; run.begin < end; run.begin = run.end) {
		run.segment = segment_of(stack, run.begin);
		run.end = segment_end(stack, run.begin, end);
		/* What may be in a perf map belongs to one process. */
		run.shared = segment_may_be_jit(run.segment) ? SEGMENT_NONE : run.segment;
		if (window_has_jit(window, stack, &search, run.segment))
			window_add_jit(window, stack, &search, &run, last, locations);
		else
			window_add_run(window, stack, &run,
				       mapping_of(window, stack, &search, run.segment), last,
				       locations);
	}
}

/* Adds the frame that has created the goroutine, which comes behind the stack. */
static uint32_t add_creator(struct window *window, const struct stack *stack)
{
	const size_t i = (size_t)stack->kernel_frames + stack->user_frames;
	struct jit_search search = {.mapping = NULL};
	const uint32_t mapping = mapping_of(window, stack, &search, segment_of(stack, i));

	return profile_location(window->profile, mapping, stack->frames[i], NULL, 0);
}

/* Returns the segment of the last user frame, or SEGMENT_NONE. */
static uint32_t last_segment(const struct stack *stack)
{
	return stack->user_frames ? stack_segments(stack)[stack->user_frames - 1] : SEGMENT_NONE;
}

/* Returns the path of the object of a segment; "": none, or unknown. */
static const char *segment_path(const struct mapped_files *files, uint32_t segment)
{
	const struct mapped_file *file;
	bool is_offset;

	if (!files)
		return "";
	if (segment == SEGMENT_ANON)
		return "[anon]";
	file = segment_file(files, segment, &is_offset);
	return file ? file->path : "";
}

/* Returns the entry that may have the labels of a stack; NULL: there is none. */
static struct label_entry *label_entry_of(struct window *window, const struct stack *stack)
{
	uint64_t name;

	if (!window->cache || stack->has_go_creator || stack_go_labels(stack))
		return NULL;
	memcpy(&name, stack->origin.thread, sizeof(name));
	name = (name ^ stack->origin.tid ^ stack->origin.cpu ^ stack->origin.first) *
	       UINT64_C(0x9e3779b97f4a7c15);
	return &window->cache->labels[(name >> 32) % LABEL_ENTRIES];
}

static bool label_entry_equals(const struct label_entry *entry, const struct labels *labels,
			       const struct stack *stack, enum truncation cause)
{
	return entry->labels == labels && entry->cause == cause &&
	       entry->last_segment == last_segment(stack) &&
	       !memcmp(&entry->origin, &stack->origin, sizeof(entry->origin)) &&
	       entry->ns_pid == address_space_ns_pid(stack->space) &&
	       !strcmp(entry->comm, address_space_comm(stack->space)) &&
	       !strcmp(entry->cgroup_path, address_space_cgroup_path(stack->space));
}

/* A label set that could not be added, or whose strings have no room, is not kept. */
static void label_entry_set(struct label_entry *entry, const struct labels *labels,
			    const struct stack *stack, enum truncation cause, uint32_t label_set)
{
	const char *comm = address_space_comm(stack->space);
	const char *cgroup_path = address_space_cgroup_path(stack->space);

	entry->labels = NULL;
	if (!label_set || strlen(comm) >= sizeof(entry->comm) ||
	    strlen(cgroup_path) >= sizeof(entry->cgroup_path))
		return;
	entry->labels = labels;
	entry->origin = stack->origin;
	entry->ns_pid = address_space_ns_pid(stack->space);
	entry->cause = cause;
	entry->last_segment = last_segment(stack);
	strcpy(entry->comm, comm);
	strcpy(entry->cgroup_path, cgroup_path);
	entry->label_set = label_set;
}

static uint32_t intern_labels(struct window *window, const struct labels *labels,
			      const struct stack *stack, enum truncation cause)
{
	char truncated[TRUNCATION_LABEL_SIZE];
	const struct label_process process = {
		.truncated = truncated,
		.comm = address_space_comm(stack->space),
		.cgroup_path = address_space_cgroup_path(stack->space),
		.ns_pid = address_space_ns_pid(stack->space),
		.go_labels = stack_go_labels(stack),
	};
	struct labels with_truncated = *labels;
	struct label_values values;

	truncation_label(cause, segment_path(window->files, last_segment(stack)), truncated);
	with_truncated.chosen |= LABEL_SET(LABEL_TRUNCATED);
	label_values(&with_truncated, &stack->origin, &process, &values);
	if (stack->has_go_creator)
		label_set_go_creator(&values.items[values.count++], add_creator(window, stack));
	return labels_intern(window->profile, values.items, values.count);
}

static uint32_t window_add_labels(struct window *window, const struct labels *labels,
				  const struct stack *stack)
{
	const enum truncation cause = truncation_of((enum stackbeat_unwind_stop)stack->kernel_stop,
						    stack->user_stop, !stack->user_frames);
	struct label_entry *entry = label_entry_of(window, stack);
	uint32_t label_set;

	if (entry && label_entry_equals(entry, labels, stack, cause))
		return entry->label_set;
	label_set = intern_labels(window, labels, stack, cause);
	if (entry)
		label_entry_set(entry, labels, stack, cause, label_set);
	return label_set;
}

static void count_callers(struct window *window, const struct stack *stack)
{
	uint64_t callers = stack->user_frames > 0 ? stack->user_frames - 1u : 0;
	uint64_t by_table = MIN(stack->table_frames, callers);

	if (stack->is_copy) {
		window->callers.by_copy += stack->samples * callers;
		return;
	}
	window->callers.by_table += stack->samples * by_table;
	window->callers.by_frame_pointer += stack->samples * (callers - by_table);
}

/* Its time is of CLOCK_MONOTONIC until export_profile(). */
static void window_add_moment(struct profile *profile, uint32_t sample,
			      const struct sample_moment *moment)
{
	const int64_t values[PROFILE_RECORDED_TYPES] = {
		[PROFILE_SAMPLES] = 1,
		[PROFILE_CPU] = (int64_t)moment->weight,
	};

	profile_add_moment(profile, sample, (int64_t)moment->time, values);
}

int window_add(struct window *window, const struct labels *labels, const struct stack *stack)
{
	const size_t depth = (size_t)stack->kernel_frames + stack->user_frames;
	const int64_t values[PROFILE_RECORDED_TYPES] = {
		[PROFILE_SAMPLES] = (int64_t)stack->samples,
		[PROFILE_CPU] = (int64_t)stack->weight,
	};
	struct profile *profile = window->profile;
	uint32_t locations[FRAMES_MAX], sample;
	size_t left = depth;
	int err;

	/* Without memory for the cache, all is looked up. */
	if (!window->cache)
		window->cache = calloc(1, sizeof(*window->cache));
	if (window->cache)
		left = window_share_callers(window->cache, stack, depth, locations);
	window_add_locations(window, stack, depth, left, locations);
	if (window->cache)
		window->cache->last_depth = profile->error ? 0 : depth;
	/* First, so that a sample never lacks a part of its moments. */
	if (stack->moment_count)
		profile_reserve_moments(profile, stack->moment_count);
	sample = profile_add(profile, profile_stack(profile, locations, depth),
			     window_add_labels(window, labels, stack), values);
	for (size_t i = 0; i < stack->moment_count; i++)
		window_add_moment(profile, sample, &stack->moments[i]);
	err = profile->error;
	if (!err) {
		window->samples += stack->samples;
		count_callers(window, stack);
	}
	/* What the window has stays valid, and there may be memory later. */
	profile->error = 0;
	return err;
}

/* Reducing */

/* What a sample loses. Each level includes those before. */
enum loss { LOSS_NOTHING, LOSS_THREAD, LOSS_CALLERS, LOSS_LABELS, LOSS_STACK, LOSS_COUNT };

struct reduction {
	struct profile *into;
	const struct profile *from;
	const struct labels *labels;
	struct profile_translation translation;
};

/* The location that stands for the callers that a stack has lost. */
static uint32_t window_merged_location(struct profile *profile)
{
	const struct profile_mapping mapping = {.place.segment = SEGMENT_MERGED};
	const uint32_t name = profile_string(profile, "[merged]");
	const struct profile_function function = {.name = name, .system_name = name};
	const struct profile_line line = {.function = profile_function(profile, &function)};

	return profile_location(profile, profile_mapping(profile, &mapping), 0, &line, 1);
}

/* Sets *lost if the stack loses frames. */
static uint32_t reduce_stack(struct reduction *reduction, uint32_t stack, enum loss loss,
			     bool *lost)
{
	const struct profile_sequence *sequence = &reduction->from->stacks.items[stack];
	const uint32_t *from = profile_stack_locations(reduction->from, stack);
	size_t kept = sequence->count, depth = 0;
	uint32_t locations[FRAMES_MAX];

	if (loss >= LOSS_CALLERS && kept > 1)
		kept = 1;
	if (loss >= LOSS_STACK)
		kept = 0;
	for (; depth < kept; depth++)
		locations[depth] = profile_translate_location(&reduction->translation, from[depth]);
	if (kept < sequence->count) {
		locations[depth++] = window_merged_location(reduction->into);
		*lost = true;
	}
	return profile_stack(reduction->into, locations, depth);
}

static bool loses_label(const struct labels *labels, const char *key, enum loss loss)
{
	switch (label_of_key(key)) {
	case LABEL_PID:
	case LABEL_TID:
	case LABEL_THREAD:
	case LABEL_GOROUTINE:
	case LABEL_GO_CREATOR:
	case LABEL_GO_LABELS:
	case LABEL_CPU:
		return loss >= LOSS_THREAD;
	case LABEL_TRUNCATED:
		/* The unwinder did not truncate what remains. */
		return loss >= LOSS_CALLERS;
	case LABEL_COMM:
	case LABEL_CGROUP:
	case LABEL_CONTAINER:
		return loss >= LOSS_LABELS;
	case LABEL_MERGED:
		return loss >= LOSS_CALLERS;
	default:
		/* A label of a goroutine, or a label that all samples have. */
		return loss >= LOSS_THREAD && !labels_have_added(labels, key);
	}
}

static uint32_t translate_label(struct reduction *reduction, uint32_t number)
{
	const struct profile_label *label = &reduction->from->labels.items[number];
	struct profile_label creator = *label;

	if (!label_is_go_creator_location(reduction->from, number))
		return profile_translate_label(&reduction->translation, number);
	creator.key = profile_translate_string(&reduction->translation, label->key);
	creator.unit = profile_translate_string(&reduction->translation, label->unit);
	creator.number =
		profile_translate_location(&reduction->translation, (uint32_t)label->number);
	return profile_label(reduction->into, &creator);
}

/*
 * A sample that loses something gets LABEL_MERGED. A sample that has lost callers before loses what
 * stands for them, which is a caller, too.
 */
static uint32_t reduce_labels(struct reduction *reduction, uint32_t label_set, enum loss loss,
			      bool lost_callers)
{
	const struct profile_sequence *sequence = &reduction->from->label_sets.items[label_set];
	const uint32_t *from = profile_set_labels(reduction->from, label_set);
	struct profile_label merged = {0};
	uint32_t set[LABELS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < sequence->count; i++) {
		const struct profile_label *label = &reduction->from->labels.items[from[i]];
		const char *key = profile_text(reduction->from, label->key);

		if (!loses_label(reduction->labels, key, loss))
			set[count++] = translate_label(reduction, from[i]);
	}
	if (lost_callers || count < sequence->count) {
		merged.key = profile_string(reduction->into, LABEL_MERGED_KEY);
		merged.text = profile_string(reduction->into,
					     lost_callers ? MERGED_CALLERS : MERGED_LABELS);
		set[count++] = profile_label(reduction->into, &merged);
	}
	return profile_label_set(reduction->into, set, count);
}

static void reduce_sample(struct reduction *reduction, size_t i, enum loss loss)
{
	const struct profile_sample *sample = &reduction->from->samples.items[i];
	bool lost_callers = false;
	uint32_t stack = reduce_stack(reduction, sample->stack, loss, &lost_callers);

	profile_translate_sample(&reduction->translation, i, stack,
				 reduce_labels(reduction, sample->label_set, loss, lost_callers));
}

static int64_t window_sample_weight(const struct profile *profile, size_t sample)
{
	return profile_values(profile, sample)[PROFILE_CPU];
}

/* Holds the files of the mappings of a window that was reduced. Returns 0 or -ENOMEM. */
static int window_hold_files(struct window *window)
{
	const struct profile *profile = window->profile;
	bool is_offset;
	int err = 0;

	for (size_t i = 1; window->files && i < profile->mappings.count && !err; i++) {
		uint32_t segment = profile->mappings.items[i].place.segment;
		struct mapped_file *file = segment_file(window->files, segment, &is_offset);

		if (file)
			err = hold_file(window, file);
	}
	return err;
}

/*
 * Makes a copy of a window's stacks: samples of at most the weight `light` lose `loss`, the others
 * one level less. Returns 0 or -ENOMEM.
 */
static int reduce_profile(const struct window *window, const struct labels *labels, enum loss loss,
			  int64_t light, struct window *into)
{
	const struct profile *from = window->profile;
	struct reduction reduction = {.from = from, .labels = labels};
	int err = window_init(into, window->files);

	if (!err) {
		reduction.into = into->profile;
		err = profile_translation_init(&reduction.translation, into->profile, from);
	}
	for (size_t i = 0; i < from->samples.count && !err; i++) {
		reduce_sample(&reduction, i,
			      window_sample_weight(from, i) <= light ? loss : loss - 1);
		err = into->profile->error;
	}
	if (!err) {
		profile_translate_moments(&reduction.translation);
		err = into->profile->error;
	}
	profile_translation_clear(&reduction.translation);
	if (!err)
		err = window_hold_files(into);
	if (err)
		window_clear(into);
	return err;
}

/* Moves the stacks of `from` to a window, and frees the old ones. */
static void replace_stacks(struct window *window, struct window *from)
{
	window_release_files(window);
	window->held_files = from->held_files;
	window->held_count = from->held_count;
	window->held_capacity = from->held_capacity;
	profile_swap(window->profile, from->profile);
	profile_free(from->profile);
	free(window->cache);
	window->cache = NULL;
}

static int compare_weights(const void *a, const void *b)
{
	const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

	return (left > right) - (left < right);
}

/* Returns the sorted weights of all samples, which the caller frees, or NULL. */
static int64_t *sort_weights(const struct profile *profile)
{
	const size_t count = profile->samples.count;
	int64_t *weights = calloc(count + 1, sizeof(*weights));

	if (!weights)
		return NULL;
	for (size_t i = 0; i < count; i++)
		weights[i] = window_sample_weight(profile, i);
	qsort(weights, count, sizeof(*weights), compare_weights);
	return weights;
}

int window_reduce(struct window *window, const struct labels *labels, size_t bytes)
{
	const size_t count = window->profile->samples.count;
	int64_t *weights = sort_weights(window->profile);
	int err = weights ? 0 : -ENOMEM;

	/* Steps of a level: the lightest half, three quarters, seven eighths, all. */
	for (int step = 0; !err && count && step < 4 * (LOSS_COUNT - 1); step++) {
		const size_t heavy = count >> (step % 4 + 1);
		const int64_t light = step % 4 < 3 ? weights[count - 1 - heavy] : INT64_MAX;
		struct window reduced;

		if (window_bytes(window) <= bytes)
			break;
		err = reduce_profile(window, labels, LOSS_THREAD + step / 4, light, &reduced);
		if (err)
			break;
		window->merged_stacks +=
			window->profile->samples.count - reduced.profile->samples.count;
		replace_stacks(window, &reduced);
	}
	free(weights);
	return err;
}

void window_count_merged(const struct window *window, struct window_merged *merged)
{
	const struct profile *profile = window->profile;

	*merged = (struct window_merged){.stacks = window->merged_stacks};
	for (size_t i = 0; i < profile->samples.count && window->merged_stacks; i++) {
		const uint32_t set = profile->samples.items[i].label_set;
		const uint32_t *labels = profile_set_labels(profile, set);

		for (size_t j = 0; j < profile->label_sets.items[set].count; j++) {
			const struct profile_label *label = &profile->labels.items[labels[j]];
			uint64_t samples = (uint64_t)profile_values(profile, i)[PROFILE_SAMPLES];

			if (label_of_key(profile_text(profile, label->key)) != LABEL_MERGED)
				continue;
			if (!strcmp(profile_text(profile, label->text), MERGED_CALLERS))
				merged->callers += samples;
			else
				merged->labels += samples;
		}
	}
}

// SPDX-License-Identifier: GPL-2.0
/* Windows: what is merged when a budget of memory is exceeded. */
#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_kernel_records.h"
#include "lib/error.h"
#include "mappings/opened_files.h"
#include "patience.h"
#include "pprof/labels.h"
#include "record/stack_table.h"
#include "record/window.h"
#include "runtime/perf_map_watcher.h"
#include "sample.h"
#include "steps.h"

#define PROCESSES 500u
#define KERNEL UINT64_C(0xffffffff81000000)

struct fixture {
	struct fake_files files;
	struct mapped_files *mapped;
	struct address_spaces *spaces;
	struct stack_table *stacks;
	struct labels labels;
	struct window window;
	int64_t samples, weight;
	union any_sample any; /* last: it ends in an array without a size */
};

static int fold(const struct stack *stack, void *arg)
{
	struct fixture *fixture = arg;

	return window_add(&fixture->window, &fixture->labels, stack);
}

/* Processes of three programs, with a few stacks each; the weight grows with the process. */
static void add_samples(struct fixture *fixture)
{
	for (uint32_t i = 0; i < PROCESSES; i++) {
		char comm[16];

		snprintf(comm, sizeof(comm), "program%u", i % 3);
		fake_space(fixture->spaces, i + 1, i + 1, 1, comm);
		for (uint32_t j = 0; j < 4; j++) {
			struct stackbeat_sample *sample = sample_begin(&fixture->any, i + 1, comm);

			sample->address_space = i + 1;
			sample->generation = 1;
			sample->weight = 1000 * (i + 1) + j;
			sample->user_stop = STACKBEAT_STOP_BAD_FRAME;
			sample_kernel(sample, KERNEL + i % 3);
			for (uint32_t frame = 0; frame < 20; frame++)
				sample_kernel(sample, KERNEL + 100 * frame + i % 50 + j);
			assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
			fixture->samples++;
			fixture->weight += (int64_t)sample->weight;
		}
	}
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct file_source source;

	if (!fixture || window_init(&fixture->window, NULL))
		return -1;
	source = fake_source(&fixture->files);
	fixture->labels.chosen = LABELS_DEFAULT;
	fixture->mapped = mapped_files_new("", &source, NULL);
	fixture->spaces = address_spaces_new("", fixture->mapped, NULL);
	fixture->stacks = stack_table_new(fixture->spaces, LABELS_DEFAULT, fold, fixture);
	*state = fixture;
	if (!fixture->stacks)
		return -1;
	add_samples(fixture);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	window_clear(&fixture->window);
	stack_table_free(fixture->stacks);
	address_spaces_free(fixture->spaces);
	mapped_files_free(fixture->mapped);
	fake_clear(&fixture->files);
	free(fixture);
	return 0;
}

static void expect_sums(const struct fixture *fixture)
{
	const struct profile *profile = fixture->window.profile;
	int64_t samples = 0, weight = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		samples += profile_values(profile, i)[PROFILE_SAMPLES];
		weight += profile_values(profile, i)[PROFILE_CPU];
	}
	assert_int_equal(samples, fixture->samples);
	assert_int_equal(weight, fixture->weight);
	assert_int_equal(fixture->window.samples, fixture->samples);
}

static bool has_label(const struct profile *profile, size_t sample, enum label wanted)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	for (size_t i = 0; i < profile->label_sets.items[set].count; i++) {
		const uint32_t label = profile_set_labels(profile, set)[i];

		if (label_of_key(profile_text(profile, profile->labels.items[label].key)) == wanted)
			return true;
	}
	return false;
}

static bool has_key(const struct profile *profile, size_t sample, const char *key)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	for (size_t i = 0; i < profile->label_sets.items[set].count; i++) {
		const uint32_t label = profile_set_labels(profile, set)[i];

		if (!strcmp(profile_text(profile, profile->labels.items[label].key), key))
			return true;
	}
	return false;
}

static size_t depth_of(const struct profile *profile, size_t sample)
{
	return profile->stacks.items[profile->samples.items[sample].stack].count;
}

static void window_that_is_small_stays(void **state)
{
	struct fixture *fixture = *state;
	struct window_merged merged;
	const size_t bytes = window_bytes(&fixture->window);

	assert_int_equal(window_reduce(&fixture->window, &fixture->labels, bytes), 0);
	assert_int_equal(window_bytes(&fixture->window), bytes);
	window_count_merged(&fixture->window, &merged);
	assert_int_equal(merged.stacks + merged.labels + merged.callers, 0);
	expect_sums(fixture);
}

/* The lightest lose their pid first; the heaviest lose nothing. */
static void lightest_samples_lose_labels_first(void **state)
{
	struct fixture *fixture = *state;
	struct window_merged merged;
	int64_t lightest_kept = INT64_MAX;
	const struct profile *profile;
	uint64_t without = 0;

	assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
				       window_bytes(&fixture->window) - 1),
			 0);
	expect_sums(fixture);
	profile = fixture->window.profile;
	for (size_t i = 0; i < profile->samples.count; i++) {
		const int64_t *values = profile_values(profile, i);

		assert_int_equal(depth_of(profile, i), 21);
		assert_true(has_label(profile, i, LABEL_COMM));
		if (!has_label(profile, i, LABEL_PID)) {
			assert_true(has_label(profile, i, LABEL_MERGED));
			without += (uint64_t)values[PROFILE_SAMPLES];
		} else if (values[PROFILE_CPU] < lightest_kept) {
			lightest_kept = values[PROFILE_CPU];
		}
	}
	assert_in_range(lightest_kept, 1000 * PROCESSES / 2, 1000 * PROCESSES);
	window_count_merged(&fixture->window, &merged);
	assert_true(merged.stacks > 0);
	assert_int_equal(merged.labels, without);
	assert_int_equal(merged.callers, 0);
	assert_int_equal(without, fixture->samples / 2);
}

/* Labels that programs have given are lost with the labels of the thread; the user's are not. */
static void labels_of_programs_are_lost_before_callers(void **state)
{
	struct fixture *fixture = *state;
	const struct profile *profile = fixture->window.profile;
	struct error error;
	size_t with = 0;

	assert_int_equal(labels_add(&fixture->labels, "region=eu", &error), 0);
	fixture->labels.chosen = LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_GO_LABELS);
	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, NULL), 0);
	stack_table_free(fixture->stacks);
	fixture->stacks = stack_table_new(fixture->spaces, fixture->labels.chosen, fold, fixture);
	assert_non_null(fixture->stacks);
	for (unsigned int i = 0; i < 400; i++) {
		struct stackbeat_sample *sample = sample_begin(&fixture->any, 1, "go");
		char request[16];

		snprintf(request, sizeof(request), "%u", i);
		for (uint32_t frame = 0; frame < 20; frame++)
			sample_kernel(sample, KERNEL + 100 * frame);
		sample_go_label(sample, "request", request);
		sample->weight = 1000 + i;
		assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
	}
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	profile = fixture->window.profile;
	assert_int_equal(profile->samples.count, 400);
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
				       window_bytes(&fixture->window) - 1),
			 0);
	profile = fixture->window.profile;
	assert_int_equal(profile->samples.count, 201);
	for (size_t i = 0; i < profile->samples.count; i++) {
		assert_int_equal(depth_of(profile, i), 20);
		with += has_key(profile, i, "request");
		assert_true(has_key(profile, i, "region"));
		assert_true(has_key(profile, i, "comm"));
		assert_int_equal(has_label(profile, i, LABEL_MERGED),
				 !has_key(profile, i, "request"));
	}
	assert_int_equal(with, 200);
}

/* If half of the samples is not enough, three quarters of them lose labels. */
static void more_samples_lose_labels_if_half_is_not_enough(void **state)
{
	struct fixture *fixture = *state;
	struct window_merged merged;
	size_t half;

	assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
				       window_bytes(&fixture->window) - 1),
			 0);
	half = window_bytes(&fixture->window);
	teardown(state);
	assert_int_equal(setup(state), 0);
	fixture = *state;
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels, half - 1), 0);
	expect_sums(fixture);
	window_count_merged(&fixture->window, &merged);
	assert_int_equal(merged.labels, fixture->samples * 3 / 4);
	assert_int_equal(merged.callers, 0);
}

/* With less and less memory, each level is reached; sums stay exact. */
static void smaller_windows_keep_the_leaf_longest(void **state)
{
	struct fixture *fixture = *state;
	struct window_merged merged;
	const struct profile *profile;
	size_t bytes;

	for (bytes = window_bytes(&fixture->window); bytes > 4096; bytes -= bytes / 8) {
		assert_int_equal(window_reduce(&fixture->window, &fixture->labels, bytes), 0);
		expect_sums(fixture);
	}
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels, 0), 0);
	expect_sums(fixture);
	profile = fixture->window.profile;
	/* All is one sample of one frame. */
	assert_int_equal(profile->samples.count, 1);
	assert_int_equal(depth_of(profile, 0), 1);
	assert_false(has_label(profile, 0, LABEL_COMM));
	window_count_merged(&fixture->window, &merged);
	assert_int_equal(merged.callers, fixture->samples);
	assert_int_equal(merged.stacks, 4 * PROCESSES - 1);
}

static void taken_window_is_empty_afterwards(void **state)
{
	struct fixture *fixture = *state;
	struct window taken;

	assert_int_equal(window_take(&fixture->window, &taken), 0);
	assert_int_equal(taken.samples, fixture->samples);
	assert_int_equal(fixture->window.samples, 0);
	assert_int_equal(fixture->window.profile->samples.count, 0);
	window_clear(&taken);
}

/* Adds a sample with as many user frames, in unknown code, for which no address space is known. */
static void add_user_sample(struct fixture *fixture, uint16_t frames, uint16_t table_frames,
			    bool is_copy)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, 1u << 30, "user");
	const uint64_t addresses[8] = {0x1000, 0x2000, 0x3000, 0x4000};
	const struct copied_frames copied = {
		.addresses = addresses, .count = frames, .table_frames = table_frames};

	for (uint16_t i = 0; i < frames && !is_copy; i++)
		sample_user(sample, 0x5000u + i);
	sample->table_frames = table_frames;
	assert_int_equal(
		stack_table_add_copied(fixture->stacks, sample, is_copy ? &copied : NULL, NULL), 0);
}

/* A stack of no frames has no callers to lose. */
static void stack_without_frames_stays_empty(void **state)
{
	struct fixture *fixture = *state;
	const struct profile *profile;
	struct window_merged merged;
	size_t depths = 0;

	add_user_sample(fixture, 0, 0, false);
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels, 0), 0);
	profile = fixture->window.profile;
	/* All others are one sample of one frame. */
	assert_int_equal(profile->samples.count, 2);
	for (size_t i = 0; i < 2; i++) {
		const bool is_empty = !depth_of(profile, i);

		depths += depth_of(profile, i);
		assert_int_equal(profile_values(profile, i)[PROFILE_SAMPLES],
				 is_empty ? 1 : fixture->samples);
	}
	assert_int_equal(depths, 1);
	window_count_merged(&fixture->window, &merged);
	assert_int_equal(merged.callers, fixture->samples);
	assert_int_equal(merged.labels, 1);
}

/* They are not forgotten before the window is symbolized. */
static void files_are_held_until_the_window_is_cleared(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t space = PROCESSES + 1;
	struct stackbeat_sample *sample;
	struct mapped_file *file[2];

	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, fixture->mapped), 0);
	fake_space(fixture->spaces, space, PROCESSES + 1, 1, "two");
	for (uint64_t i = 0; i < 2; i++) {
		const uint64_t id =
			fake_file(fixture->mapped, &fixture->files, i ? "/bin/sh" : "/bin/ls");

		file[i] = mapped_files_get(fixture->mapped, id);
		fake_mapping(fixture->spaces, space, 1, 0, 0x100000 * (i + 1),
			     0x100000 * (i + 1) + 0x1000, id, 0);
	}
	assert_int_equal(address_space_advance(address_spaces_get(fixture->spaces, space, 0), 1),
			 0);
	sample = sample_begin(&fixture->any, PROCESSES + 1, "two");
	sample->address_space = space;
	sample->generation = 1;
	sample_user(sample, 0x100100);
	sample_user(sample, 0x200100);
	assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
	/* The second time, the table drops the stack. */
	for (int i = 0; i < 2; i++)
		assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_true(mapped_file_is_held(file[0]));
	assert_true(mapped_file_is_held(file[1]));
	window_clear(&fixture->window);
	assert_false(mapped_file_is_held(file[0]));
	assert_false(mapped_file_is_held(file[1]));
	assert_int_equal(window_init(&fixture->window, NULL), 0);
}

/* Returns the place of the location at an address. */
static struct frame_place place_at(const struct profile *profile, uint64_t address)
{
	for (size_t i = 1; i < profile->locations.count; i++) {
		const struct profile_location *location = &profile->locations.items[i];

		if (location->address == address)
			return profile->mappings.items[location->mapping].place;
	}
	fail_msg("no location at %#" PRIx64, address);
	return (struct frame_place){0};
}

/* Generated code in a file has its address, by which the perf map of its process names it. */
static void code_in_no_elf_file_has_its_address(void **state)
{
	static const char *const paths[] = {"/etc/passwd", "/bin/sh", "/etc/group"};
	struct fixture *fixture = *state;
	const uint64_t process = PROCESSES + 1;
	struct mapped_file *file[3];
	struct address_space *space;
	struct stackbeat_sample *sample;
	const struct profile *profile;
	uint32_t perf_map;

	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, fixture->mapped), 0);
	fake_space(fixture->spaces, process, (uint32_t)getpid(), 1, "jit");
	for (uint64_t i = 0; i < 3; i++) {
		/* Of the last one, the kernel knows that it is none. */
		const uint64_t id =
			i < 2 ? fake_file(fixture->mapped, &fixture->files, paths[i])
			      : fake_other_file(fixture->mapped, &fixture->files, paths[i]);

		file[i] = mapped_files_get(fixture->mapped, id);
		fake_mapping(fixture->spaces, process, 1, 0, 0x100000 * (i + 1),
			     0x100000 * (i + 1) + 0x1000, id, 0x5000 * (i + 1));
	}
	space = address_spaces_get(fixture->spaces, process, 0);
	assert_int_equal(address_space_advance(space, 1), 0);
	sample = sample_begin(&fixture->any, (uint32_t)getpid(), "jit");
	sample->address_space = process;
	sample->generation = 1;
	for (uint64_t i = 0; i < 3; i++)
		sample_user(sample, 0x100100 + 0x100000 * i);
	assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
	assert_true(mapped_file_may_be_elf(file[0]));
	wait_until((mapped_files_collect(fixture->mapped), !mapped_file_may_be_elf(file[0])));
	assert_true(mapped_file_may_be_elf(file[1]));
	assert_false(mapped_file_may_be_elf(file[2]));
	perf_map = address_space_perf_map(space);
	assert_int_not_equal(perf_map, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(stack_table_fold(fixture->stacks), 0);
	profile = fixture->window.profile;
	for (int i = 0; i < 3; i++) {
		static const uint64_t addresses[] = {0x100100, 0xa0ff, 0x3000ff};
		const enum segment_kind kind = i == 1 ? SEGMENT_OFFSETS : SEGMENT_ADDRESSES;
		const struct frame_place place = {
			.segment = segment_of_file(file[i]->index, kind),
			.perf_map = i == 1 ? 0 : perf_map,
		};

		assert_true(frame_place_equal(place_at(profile, addresses[i]), place));
	}
	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, NULL), 0);
}

#define CODE_MAPPINGS 1000u
#define CODE_FRAMES 100u

/* A file of generated code may be mapped often: it is searched once for all frames of a stack. */
static void mapping_of_generated_code_is_searched_once(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t process = PROCESSES + 1, last = 0x100000 + 0x2000 * (CODE_MAPPINGS - 1);
	struct stackbeat_sample *sample;
	struct address_space *space;
	struct frame_place place;
	uint64_t id, before;

	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, fixture->mapped), 0);
	fake_space(fixture->spaces, process, (uint32_t)getpid(), 1, "jit");
	id = fake_other_file(fixture->mapped, &fixture->files, "/etc/group");
	for (uint64_t i = 0; i < CODE_MAPPINGS; i++)
		fake_mapping(fixture->spaces, process, 1, 0, 0x100000 + 0x2000 * i,
			     0x101000 + 0x2000 * i, id, 0x1000 * i);
	space = address_spaces_get(fixture->spaces, process, 0);
	assert_int_equal(address_space_advance(space, 1), 0);
	sample = sample_begin(&fixture->any, (uint32_t)getpid(), "jit");
	sample->address_space = process;
	sample->generation = 1;
	for (uint64_t i = 0; i < CODE_FRAMES; i++)
		sample_user(sample, last + 0x10 * i);
	assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
	before = steps;
	for (int i = 0; i < 2; i++)
		assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_in_range(steps - before, CODE_MAPPINGS, 2 * CODE_MAPPINGS * CODE_FRAMES);
	place = (struct frame_place){
		.segment = segment_of_file(mapped_files_get(fixture->mapped, id)->index,
					   SEGMENT_ADDRESSES),
		.perf_map = address_space_perf_map(space),
	};
	assert_int_not_equal(place.perf_map, 0);
	assert_true(frame_place_equal(place_at(fixture->window.profile, last), place));
	assert_true(frame_place_equal(place_at(fixture->window.profile, last + 0x62f), place));
	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, NULL), 0);
}

/* The leaf has no caller that was found. */
static void callers_are_counted_by_how_they_were_found(void **state)
{
	struct fixture *fixture = *state;
	const struct window_callers *callers = &fixture->window.callers;

	assert_int_equal(callers->by_table + callers->by_frame_pointer + callers->by_copy, 0);
	for (int i = 0; i < 3; i++)
		add_user_sample(fixture, 6, 3, false);
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_int_equal(callers->by_table, 3 * 3);
	assert_int_equal(callers->by_frame_pointer, 3 * 2);
	/* The table has found the caller of the last frame, too, or its end. */
	add_user_sample(fixture, 4, 4, false);
	add_user_sample(fixture, 1, 0, false);
	add_user_sample(fixture, 2, 0, false);
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_int_equal(callers->by_table, 3 * 3 + 3);
	assert_int_equal(callers->by_frame_pointer, 3 * 2 + 1);
	assert_int_equal(callers->by_copy, 0);
	add_user_sample(fixture, 4, 2, true);
	add_user_sample(fixture, 4, 2, true);
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	assert_int_equal(callers->by_copy, 2 * 3);
	assert_int_equal(callers->by_table, 3 * 3 + 3);
	assert_int_equal(callers->by_frame_pointer, 3 * 2 + 1);
}

/* A window owns its perf maps, and counts them. */
static void perf_maps_are_replaced(void **state)
{
	struct fixture *fixture = *state;
	const size_t before = window_bytes(&fixture->window);
	struct perf_map_fd *maps = calloc(5, sizeof(*maps));
	struct perf_map_fd *other = calloc(1, sizeof(*other));
	int fds[6];

	assert_non_null(maps);
	assert_non_null(other);
	for (int i = 0; i < 6; i++) {
		fds[i] = dup(STDERR_FILENO);
		*(i < 5 ? &maps[i] : other) = (struct perf_map_fd){1 + (uint32_t)i, fds[i]};
	}
	window_set_perf_maps(&fixture->window, maps, 5);
	assert_int_equal(window_bytes(&fixture->window), before + 5 * sizeof(*maps));
	window_set_perf_maps(&fixture->window, other, 1);
	assert_int_equal(window_bytes(&fixture->window), before + sizeof(*maps));
	for (int i = 0; i < 6; i++)
		assert_int_equal(fcntl(fds[i], F_GETFD) >= 0, i == 5);
	window_clear(&fixture->window);
	assert_int_equal(fcntl(fds[5], F_GETFD), -1);
	assert_int_equal(window_init(&fixture->window, NULL), 0);
}

/* Samples of one weight have no lightest one: all of them lose a level at once. */
static void reduced_samples_keep_what_the_level_allows(void **state)
{
	struct fixture *fixture = *state;
	const struct profile *profile;
	uint64_t levels[4] = {0};

	/* Until some have lost their callers. */
	do {
		assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
					       window_bytes(&fixture->window) - 1),
				 0);
		profile = fixture->window.profile;
		memset(levels, 0, sizeof(levels));
		for (size_t i = 0; i < profile->samples.count; i++) {
			const bool is_short = depth_of(profile, i) < 21;
			const bool has_comm = has_label(profile, i, LABEL_COMM);

			/* The leaf, and what stands for its callers; or the latter only. */
			if (is_short)
				assert_int_equal(depth_of(profile, i), has_comm ? 2 : 1);
			assert_false(is_short && has_label(profile, i, LABEL_PID));
			assert_false(is_short && has_label(profile, i, LABEL_TRUNCATED));
			assert_true(has_label(profile, i, LABEL_MERGED) ==
				    !has_label(profile, i, LABEL_PID));
			levels[is_short ? has_comm ? 2 : 3 : has_label(profile, i, LABEL_PID)]++;
		}
		expect_sums(fixture);
	} while (!levels[2]);
	/* No sample has lost two levels more than another one. */
	assert_int_equal(levels[3], 0);
	assert_int_equal(levels[1], 0);
}

/* The label of a creator is a location until it is symbolized; locations get other numbers. */
static void creators_keep_their_location(void **state)
{
	const int64_t heavy[PROFILE_RECORDED_TYPES] = {1, INT64_MAX / 4};
	struct fixture *fixture = *state;
	struct profile *profile = fixture->window.profile;
	const struct profile_label *label;
	struct label_value value;
	uint32_t location, set;
	size_t found = 0;

	for (uint64_t i = 0; i < 100; i++)
		location = profile_location(profile, 0, 0x401000 + i, NULL, 0);
	label_set_go_creator(&value, location);
	set = labels_intern(profile, &value, 1);
	profile_add(profile, profile_stack(profile, &location, 1), set, heavy);
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
				       window_bytes(&fixture->window) - 1),
			 0);
	profile = fixture->window.profile;
	for (uint32_t i = 1; i < profile->labels.count; i++) {
		if (!label_is_go_creator_location(profile, i))
			continue;
		label = &profile->labels.items[i];
		assert_true(label->number != location);
		assert_int_equal(profile->locations.items[label->number].address, 0x401000 + 99);
		found++;
	}
	assert_int_equal(found, 1);
}

static const char *label_text(const struct profile *profile, size_t sample, const char *key)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	for (size_t i = 0; i < profile->label_sets.items[set].count; i++) {
		const struct profile_label *label =
			&profile->labels.items[profile_set_labels(profile, set)[i]];

		if (!strcmp(profile_text(profile, label->key), key))
			return profile_text(profile, label->text);
	}
	return "";
}

/* Returns the number of samples with a leaf, a name, and a cause of truncation. */
static int64_t count_samples(const struct profile *profile, uint64_t leaf, const char *comm,
			     const char *truncated)
{
	int64_t count = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		const uint32_t location =
			profile_stack_locations(profile, profile->samples.items[i].stack)[0];

		if (profile->locations.items[location].address == leaf &&
		    !strcmp(label_text(profile, i, "comm"), comm) &&
		    !strcmp(label_text(profile, i, "truncated"), truncated))
			count += profile_values(profile, i)[PROFILE_SAMPLES];
	}
	return count;
}

/* Adds a sample of a thread other than the first one: its process alone has the name. */
static void add_thread_sample(struct fixture *fixture, uint32_t process, uint64_t leaf,
			      uint8_t user_stop)
{
	struct stackbeat_sample *sample = sample_begin(&fixture->any, process, "");

	sample->address_space = process;
	sample->generation = 1;
	sample->tid = process + 1;
	sample->user_stop = user_stop;
	sample_user(sample, leaf);
	assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
}

/*
 * Stacks that follow each other, of which the next one has something else: the process, the leaf,
 * the cause of the truncation. In each round, the window is another one.
 */
static void adjacent_stacks_are_not_confused(void **state)
{
	static const struct {
		const char *comm, *truncated;
		uint32_t process;
		uint64_t leaf;
		uint8_t stop;
	} cases[] = {
		{"alpha", "", 10001, 0x1000, STACKBEAT_STOP_OUTERMOST},
		{"beta", "", 10002, 0x1000, STACKBEAT_STOP_OUTERMOST},
		{"beta", "bad-frame-pointer", 10002, 0x1000, STACKBEAT_STOP_BAD_FRAME},
		{"beta", "max-depth", 10002, 0x2000, STACKBEAT_STOP_MAX_DEPTH},
		{"alpha", "", 10001, 0x2000, STACKBEAT_STOP_OUTERMOST},
	};
	enum { CASES = sizeof(cases) / sizeof(cases[0]), ROUNDS = 4 };
	struct fixture *fixture = *state;
	struct window taken;

	fixture->labels.chosen = LABEL_SET(LABEL_COMM);
	stack_table_free(fixture->stacks);
	fixture->stacks = stack_table_new(fixture->spaces, fixture->labels.chosen, fold, fixture);
	assert_non_null(fixture->stacks);
	fake_space(fixture->spaces, 10001, 10001, 1, "alpha");
	fake_space(fixture->spaces, 10002, 10002, 1, "beta");
	for (int round = 0; round < ROUNDS; round++) {
		assert_int_equal(window_take(&fixture->window, &taken), 0);
		window_clear(&taken);
		for (size_t i = 0; i < CASES; i++) {
			for (int repeat = 0; repeat <= round; repeat++)
				add_thread_sample(fixture, cases[i].process, cases[i].leaf,
						  cases[i].stop);
		}
		for (size_t i = 0; i < CASES; i++)
			assert_int_equal(count_samples(fixture->window.profile, cases[i].leaf,
						       cases[i].comm, cases[i].truncated),
					 1 + round);
	}
}

/* Returns how many samples have a stack of these return addresses, all of them in a file. */
static int count_stacks_in_file(const struct profile *profile, const uint64_t *addresses,
				size_t depth, const struct mapped_file *file)
{
	const struct frame_place place = {.segment = segment_of_file(file->index, SEGMENT_VADDRS)};
	int found = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		const uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		size_t equal = 0;

		if (profile->stacks.items[stack].count != depth)
			continue;
		for (size_t j = 0; j < depth; j++) {
			const struct profile_location *location =
				&profile->locations.items[locations[j]];

			equal += location->address == addresses[j] - (j > 0) &&
				 frame_place_equal(profile->mappings.items[location->mapping].place,
						   place);
		}
		found += equal == depth;
	}
	return found;
}

/* Stacks that differ in their leaf, their depth, a caller in the middle, or only in the file. */
static void stacks_with_shared_callers_keep_their_frames(void **state)
{
	static const char *const paths[] = {"/bin/true", "/bin/sh"};
	static const struct {
		size_t depth;
		uint64_t addresses[5];
	} cases[] = {
		{4, {0x100100, 0x100200, 0x100300, 0x100400}},
		{4, {0x100110, 0x100200, 0x100300, 0x100400}},
		{5, {0x100110, 0x100100, 0x100200, 0x100300, 0x100400}},
		{2, {0x100300, 0x100400}},
		{4, {0x100100, 0x100210, 0x100300, 0x100400}},
		{1, {0x100400}},
		{4, {0x100100, 0x100200, 0x100300, 0x100410}},
	};
	enum { CASES = sizeof(cases) / sizeof(cases[0]) };
	struct fixture *fixture = *state;
	struct mapped_file *file[2];

	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, fixture->mapped), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const uint64_t id = fake_file(fixture->mapped, &fixture->files, paths[i]);
		const uint32_t process = 10001 + i;

		file[i] = mapped_files_get(fixture->mapped, id);
		fake_space(fixture->spaces, process, process, 1, "shared");
		fake_mapping(fixture->spaces, process, 1, STACKBEAT_MAPPING_VADDR, 0x100000,
			     0x101000, id, 0x100000);
		assert_int_equal(
			address_space_advance(address_spaces_get(fixture->spaces, process, 0), 1),
			0);
	}
	/* Folded one by one: in this order, and of both processes in turns. */
	for (size_t i = 0; i < 2 * CASES; i++) {
		struct stackbeat_sample *sample =
			sample_begin(&fixture->any, 10001 + i % 2, "shared");

		sample->address_space = 10001 + i % 2;
		sample->generation = 1;
		for (size_t j = 0; j < cases[i / 2].depth; j++)
			sample_user(sample, cases[i / 2].addresses[j]);
		assert_int_equal(stack_table_add(fixture->stacks, sample), 0);
		if (i % 3)
			assert_int_equal(stack_table_fold(fixture->stacks), 0);
	}
	assert_int_equal(stack_table_fold(fixture->stacks), 0);
	for (size_t i = 0; i < 2 * CASES; i++)
		assert_int_equal(count_stacks_in_file(fixture->window.profile,
						      cases[i / 2].addresses, cases[i / 2].depth,
						      file[i % 2]),
				 1);
	window_clear(&fixture->window);
	assert_int_equal(window_init(&fixture->window, NULL), 0);
}

/* Numbers of the profile from before a reduction have another meaning afterwards. */
static void stacks_are_found_again_after_a_reduction(void **state)
{
	struct fixture *fixture = *state;
	const int64_t before = fixture->samples;

	assert_int_equal(window_reduce(&fixture->window, &fixture->labels, 0), 0);
	add_samples(fixture);
	expect_sums(fixture);
	assert_int_equal(fixture->samples, 2 * before);
	for (size_t i = 0; i < fixture->window.profile->samples.count; i++) {
		if (has_label(fixture->window.profile, i, LABEL_MERGED))
			continue;
		assert_int_equal(depth_of(fixture->window.profile, i), 21);
		assert_true(has_label(fixture->window.profile, i, LABEL_PID));
		assert_true(has_label(fixture->window.profile, i, LABEL_COMM));
	}
}

/* The moments of merged samples are of the sample that they have become. */
static void reduced_windows_keep_moments(void **state)
{
	struct fixture *fixture = *state;
	const struct profile *profile;
	int64_t *samples, *weights;

	stack_table_keep_moments(fixture->stacks, true);
	add_samples(fixture);
	assert_int_equal(fixture->window.profile->moments.count, 4 * PROCESSES);
	assert_int_equal(window_reduce(&fixture->window, &fixture->labels,
				       window_bytes(&fixture->window) / 2),
			 0);
	expect_sums(fixture);
	profile = fixture->window.profile;
	assert_true(fixture->window.merged_stacks > 0);
	assert_int_equal(profile->moments.count, 4 * PROCESSES);
	samples = calloc(profile->samples.count, sizeof(*samples));
	weights = calloc(profile->samples.count, sizeof(*weights));
	for (size_t i = 0; i < profile->moments.count; i++) {
		samples[profile->moments.items[i].sample] += profile_moment_values(profile, i)[0];
		weights[profile->moments.items[i].sample] += profile_moment_values(profile, i)[1];
	}
	/* The others were added before. */
	for (size_t i = 0; i < profile->samples.count; i++) {
		assert_int_equal(2 * samples[i], profile_values(profile, i)[0]);
		assert_int_equal(2 * weights[i], profile_values(profile, i)[1]);
	}
	free(samples);
	free(weights);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(window_that_is_small_stays),
		TEST(lightest_samples_lose_labels_first),
		TEST(reduced_windows_keep_moments),
		TEST(labels_of_programs_are_lost_before_callers),
		TEST(more_samples_lose_labels_if_half_is_not_enough),
		TEST(smaller_windows_keep_the_leaf_longest),
		TEST(taken_window_is_empty_afterwards),
		TEST(stack_without_frames_stays_empty),
		TEST(files_are_held_until_the_window_is_cleared),
		TEST(mapping_of_generated_code_is_searched_once),
		TEST(callers_are_counted_by_how_they_were_found),
		TEST(code_in_no_elf_file_has_its_address),
		TEST(perf_maps_are_replaced),
		TEST(reduced_samples_keep_what_the_level_allows),
		TEST(creators_keep_their_location),
		TEST(adjacent_stacks_are_not_confused),
		TEST(stacks_with_shared_callers_keep_their_frames),
		TEST(stacks_are_found_again_after_a_reduction),
	};

	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}

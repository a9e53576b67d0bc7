// SPDX-License-Identifier: GPL-2.0
/* From the rings to windows: what remains of processes that have ended, and how much memory. */
#include "unit.h"

#include <stdlib.h>

#include "record/collector.h"

#include "fake_device.h"
#include "lib/clock.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "pprof/labels.h"
#include "record/sample_queue.h"
#include "record/stack_table.h"
#include "sample.h"

/* Above the largest process id: these processes have ended. */
#define NOBODY 2000000000u
#define PROGRAMS 4u
#define STACKS 20u /* different ones, of each program */
#define DEPTH 30u
#define TEXT UINT64_C(0x400000)

static struct collector collector;
static struct labels labels;
static struct error error;

/* Of the sanitizer: gcc does not install its header. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *memory);

/* Bytes of malloc() in use, and the most at any time. */
static struct {
	bool counts;
	int64_t used, peak;
} heap;

static void on_malloc(const volatile void *memory, size_t size)
{
	(void)memory;
	if (!heap.counts)
		return;
	heap.used += (int64_t)size;
	if (heap.used > heap.peak)
		heap.peak = heap.used;
}

static void on_free(const volatile void *memory)
{
	if (heap.counts && memory)
		heap.used -= (int64_t)__sanitizer_get_allocated_size(memory);
}

static int set_up(void **state)
{
	(void)state;
	fake_device_init();
	labels = (struct labels){.chosen = LABELS_DEFAULT};
	heap.used = heap.peak = 0;
	heap.counts = true;
	if (collector_init(&collector, &labels, NULL, NULL, true, &error))
		return -1;
	collector_start(&collector, &fake_device, true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	collector_clear(&collector);
	heap.counts = false;
	fake_device_clear();
	return 0;
}

static void put_sample(uint64_t space, uint32_t pid, const char *comm, uint32_t stack)
{
	static union any_sample any;
	struct stackbeat_sample *sample = sample_begin(&any, pid, comm);

	sample->address_space = space;
	sample->generation = 1;
	sample->time = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC);
	sample->user_stop = STACKBEAT_STOP_OUTERMOST;
	for (uint64_t i = 0; i < DEPTH; i++)
		sample_user(sample, (i % 3 ? TEXT : 2 * TEXT) + 0x100 * (stack + 1) + 0x10 * i);
	fake_put(&fake_device.samples, sample, sample->record.size);
}

/* A process that calls exec, has one to three samples, and exits. */
static void run_process(uint32_t i)
{
	const uint32_t program = i % PROGRAMS;
	char comm[16];

	snprintf(comm, sizeof(comm), "program%u", program + 1);
	if (i % 5 == 0) {
		/* Between fork and exec. */
		fake_put_space(2 * (uint64_t)i + 1, NOBODY + i, "make");
		fake_put_mapping(2 * (uint64_t)i + 1, TEXT, PROGRAMS + 1);
		fake_put_mapping(2 * (uint64_t)i + 1, 2 * TEXT, PROGRAMS + 1);
		put_sample(2 * (uint64_t)i + 1, NOBODY + i, "make", 0);
	}
	fake_put_space(2 * (uint64_t)i + 2, NOBODY + i, comm);
	fake_put_mapping(2 * (uint64_t)i + 2, TEXT, program + 1);
	fake_put_mapping(2 * (uint64_t)i + 2, 2 * TEXT, PROGRAMS + 1);
	for (uint32_t j = 0; j <= i % 3; j++)
		put_sample(2 * (uint64_t)i + 2, NOBODY + i, comm, (i / 7 + j) % STACKS);
}

static void drain(void)
{
	/* A check for processes that have ended, which is otherwise once a second. */
	collector.next_check = collector.next_watch = 0;
	assert_int_equal(collector_drain(&collector, &fake_device, &error), 0);
}

/* Without it, samples of the last millisecond wait for their metadata. */
static void finish(void)
{
	struct error warning;

	assert_int_equal(collector_finish(&collector, &fake_device, &warning, &error), 0);
	assert_string_equal(warning.text, "");
}

static const char *label_text(const struct profile *profile, size_t sample, const char *key,
			      int64_t *number)
{
	const uint32_t set = profile->samples.items[sample].label_set;

	for (size_t i = 0; i < profile->label_sets.items[set].count; i++) {
		const struct profile_label *label =
			&profile->labels.items[profile_set_labels(profile, set)[i]];

		if (strcmp(profile_text(profile, label->key), key))
			continue;
		if (number)
			*number = label->number;
		return profile_text(profile, label->text);
	}
	return "";
}

/* The file of a location, by its number in fake_put_file(). */
static uint64_t file_of(const struct profile *profile, uint32_t location)
{
	const uint32_t mapping = profile->locations.items[location].mapping;
	bool is_offset;
	const struct mapped_file *file = segment_file(
		collector.files, profile->mappings.items[mapping].place.segment, &is_offset);

	assert_non_null(file);
	assert_false(is_offset);
	return strtoull(file->path + strlen("/bin/program"), NULL, 10);
}

/* Checks labels, files and addresses of all samples. Returns the number of samples by process. */
static uint8_t *check_samples(const struct profile *profile, uint32_t processes)
{
	uint8_t *counts = calloc(processes, 1);

	assert_non_null(counts);
	for (size_t i = 0; i < profile->samples.count; i++) {
		const uint32_t stack = profile->samples.items[i].stack;
		const uint32_t *locations = profile_stack_locations(profile, stack);
		const char *comm = label_text(profile, i, "comm", NULL);
		int64_t pid = 0;
		uint32_t process;

		label_text(profile, i, "pid", &pid);
		process = (uint32_t)(pid - NOBODY);
		assert_in_range(process, 0, processes - 1);
		assert_string_equal(label_text(profile, i, "cgroup", NULL), "/build");
		assert_int_equal(profile->stacks.items[stack].count, DEPTH);
		if (!strcmp(comm, "make")) {
			assert_int_equal(file_of(profile, locations[1]), PROGRAMS + 1);
			assert_int_equal(profile_values(profile, i)[PROFILE_SAMPLES], 1);
			continue;
		}
		assert_int_equal(strncmp(comm, "program", 7), 0);
		assert_int_equal(strtoul(comm + 7, NULL, 10), process % PROGRAMS + 1);
		assert_int_equal(file_of(profile, locations[1]), process % PROGRAMS + 1);
		assert_int_equal(file_of(profile, locations[0]), PROGRAMS + 1);
		counts[process] += profile_values(profile, i)[PROFILE_SAMPLES];
	}
	return counts;
}

static void short_processes_take_little_memory(void **state)
{
	const uint32_t processes = 60000, batch = 2000;
	struct window window;
	uint8_t *counts;

	(void)state;
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < processes; i++) {
		run_process(i);
		if (i % batch == batch - 1)
			drain();
	}
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	print_message("peak: %.1f MiB for %u processes\n", (double)heap.peak / (1 << 20),
		      processes);
	assert_true(heap.peak < 32 << 20);

	counts = check_samples(window.profile, processes);
	for (uint32_t i = 0; i < processes; i++)
		assert_int_equal(counts[i], i % 3 + 1);
	free(counts);
	assert_int_equal(window.samples, stack_table_totals(collector.stacks)->samples);
	/* The stacks of the programs and of make are shared. */
	assert_int_equal(window.profile->stacks.count, 1 + PROGRAMS * STACKS + 1);
	window_clear(&window);
}

/* With windows, memory does not grow with the processes at all. */
static void memory_is_flat_with_windows(void **state)
{
	int64_t used = 0;
	uint64_t samples = 0;
	struct window window;

	(void)state;
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < 60000; i++) {
		run_process(i);
		if (i % 200 == 199)
			drain();
		if (i % 10000 != 9999)
			continue;
		assert_int_equal(collector_take(&collector, &window, &error), 0);
		samples += window.samples;
		window_clear(&window);
		if (i / 10000 == 1)
			used = heap.used;
		/* Tables that are a little fuller grow once. */
		if (i / 10000 > 1)
			assert_true(heap.used < used + used / 10);
	}
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	samples += window.samples;
	window_clear(&window);
	assert_int_equal(samples, stack_table_totals(collector.stacks)->samples);
}

/* Nor do files that no process maps any more take memory, each of a program of its own. */
static void files_of_ended_processes_are_forgotten(void **state)
{
	const uint32_t rounds = 12, batch = 200;
	struct window window;
	int64_t used = 0;

	(void)state;
	for (uint32_t i = 0; i < rounds * batch; i++) {
		fake_put_file(i + 1);
		fake_put_space(i + 1, NOBODY + i, "program");
		fake_put_mapping(i + 1, TEXT, i + 1);
		fake_put_mapping(i + 1, 2 * TEXT, i + 1);
		put_sample(i + 1, NOBODY + i, "program", i);
		if (i % batch != batch - 1)
			continue;
		/* Files are forgotten after some checks. */
		for (int j = 0; j < 8; j++) {
			drain();
			assert_true(collector.next_check > 0);
		}
		assert_int_equal(collector_take(&collector, &window, &error), 0);
		window_clear(&window);
		if (i / batch == rounds / 2)
			used = heap.used;
	}
	/* Threads open files, and may have some left. */
	for (int i = 0; i < 60000 && heap.used >= used + used / 10; i++) {
		drain();
		usleep(1000);
	}
	assert_true(heap.used < used + used / 10);
}

/* Each window has what was recorded since the last one, of live and of ended processes. */
static void windows_have_no_gap_and_no_overlap(void **state)
{
	const uint32_t processes = 5000;
	uint8_t *sums = calloc(processes, 1);
	struct window window;
	struct window *peek;

	(void)state;
	assert_non_null(sums);
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < processes; i++) {
		run_process(i);
		if (i % 100 == 99)
			drain();
		if (i % 777 == 776 || i == processes - 1) {
			uint64_t peeked;
			uint8_t *counts;

			if (i == processes - 1)
				finish();
			/* A look takes nothing. */
			assert_int_equal(collector_peek(&collector, &peek, &error), 0);
			peeked = peek->samples;
			assert_int_equal(collector_take(&collector, &window, &error), 0);
			assert_int_equal(window.samples, peeked);
			counts = check_samples(window.profile, processes);
			for (uint32_t j = 0; j < processes; j++)
				sums[j] += counts[j];
			free(counts);
			window_clear(&window);
		}
	}
	for (uint32_t i = 0; i < processes; i++)
		assert_int_equal(sums[i], i % 3 + 1);
	free(sums);
}

/* The budget is kept by merging; sums stay exact. */
static void budget_is_kept(void **state)
{
	const size_t budget = 8 << 20;
	struct window_merged merged;
	struct window window;
	int64_t samples = 0;
	int64_t weight = 0;

	(void)state;
	collector_limit_memory(&collector, budget, false);
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < 60000; i++) {
		run_process(i);
		if (i % 500 == 499)
			drain();
	}
	finish();
	assert_true(heap.peak < (int64_t)budget);
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	window_count_merged(&window, &merged);
	assert_true(merged.stacks > 0);
	assert_true(merged.labels > 0);
	assert_int_equal(merged.callers, 0);
	for (size_t i = 0; i < window.profile->samples.count; i++) {
		samples += profile_values(window.profile, i)[PROFILE_SAMPLES];
		weight += profile_values(window.profile, i)[PROFILE_CPU];
	}
	assert_int_equal(samples, stack_table_totals(collector.stacks)->samples);
	assert_int_equal(weight, stack_table_totals(collector.stacks)->weight);
	window_clear(&window);
}

/* With --rotate, a window is reduced only if it is not taken. */
static void full_window_is_to_be_taken(void **state)
{
	struct window_merged merged;
	struct window window;
	uint32_t i = 0;

	(void)state;
	collector_limit_memory(&collector, 16 << 20, true);
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (; !collector_is_full(&collector); i++) {
		run_process(i);
		if (i % 500 == 499)
			drain();
		assert_true(i < 200000);
	}
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	window_count_merged(&window, &merged);
	assert_int_equal(merged.stacks, 0);
	assert_int_equal(window.samples, stack_table_totals(collector.stacks)->samples);
	window_clear(&window);
	assert_false(collector_is_full(&collector));
}

/* Samples of a few stacks, until a sixth of the budget has their times. */
static void fill_moments(size_t budget)
{
	collector_limit_memory(&collector, budget, false);
	stack_table_keep_moments(collector.stacks, true);
	fake_put_file(1);
	fake_put_space(1, NOBODY, "program1");
	fake_put_mapping(1, TEXT, 1);
	for (uint32_t i = 0; i < 400000; i++) {
		put_sample(1, NOBODY, "program1", i % 100);
		if (i % 500 == 499)
			drain();
	}
}

/* Later samples have no times, but are counted, and no stack is merged. */
static void times_of_samples_are_limited(void **state)
{
	const size_t budget = 16 << 20;
	struct window_merged merged;
	struct window window;
	size_t moments;

	(void)state;
	fill_moments(budget);
	assert_true(collector.moments_are_full);
	assert_false(collector_is_full(&collector));
	assert_true(heap.peak < (int64_t)budget / 2);
	/* The process has ended: samples without a space wait for a millisecond. */
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	window_count_merged(&window, &merged);
	assert_int_equal(merged.stacks, 0);
	assert_int_equal(window.samples, 400000);
	moments = window.profile->moments.count;
	print_message("samples with times: %zu\n", moments);
	assert_in_range(moments, budget / 6 / 48, budget / 6 / 16);
	window_clear(&window);
	/* The next window has times from its start. */
	assert_false(collector.moments_are_full);
	put_sample(1, NOBODY, "program1", 1);
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	assert_int_equal(window.samples, 1);
	assert_int_equal(window.profile->moments.count, 1);
	window_clear(&window);
}

/* With --rotate, a new file begins instead. */
static void times_of_samples_end_windows(void **state)
{
	(void)state;
	collector_limit_memory(&collector, 16 << 20, true);
	collector.moments_are_full = true;
	assert_true(collector_is_full(&collector));
}

/* Metadata may be pending at every drain: the budget is kept all the same. */
static void budget_is_kept_while_metadata_is_pending(void **state)
{
	const size_t budget = 16 << 20;
	struct window_merged merged;
	struct window window;
	uint64_t early;

	(void)state;
	collector_limit_memory(&collector, budget, false);
	fake_put_file(1);
	fake_put_space(1, NOBODY, "program1");
	fake_put_mapping(1, TEXT, 1);
	drain();
	fake_device.pending = true;
	for (uint32_t i = 0; i < 100000; i++) {
		put_sample(1, NOBODY, "program1", i);
		if (i % 500 == 499)
			drain();
	}
	early = sample_queue_early(collector.queue);
	fake_device.pending = false;
	finish();
	print_message("peak: %.1f MiB, %u samples early\n", (double)heap.peak / (1 << 20),
		      (unsigned int)early);
	assert_true(heap.peak < (int64_t)budget);
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	window_count_merged(&window, &merged);
	assert_true(merged.stacks > 0);
	assert_int_equal(window.samples, 100000);
	assert_true(window.samples == stack_table_totals(collector.stacks)->samples);
	window_clear(&window);
}

/* The mappings of others are too much for the budget: that must not cost all stacks. */
static void mappings_do_not_cost_all_stacks(void **state)
{
	struct window_merged merged;
	struct window window;

	(void)state;
	collector_limit_memory(&collector, 16 << 20, false);
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < 40000; i++) {
		run_process(i);
		if (i % 500 == 499)
			drain();
	}
	collector.next_watch = INT64_MAX;
	collector.other_bytes = 16 << 20;
	assert_int_equal(collector_drain(&collector, &fake_device, &error), 0);
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	window_count_merged(&window, &merged);
	assert_true(merged.labels > 0);
	assert_int_equal(merged.callers, 0);
	window_clear(&window);
}

/* Nor are windows taken for them, as that would give nothing back. */
static void mappings_do_not_make_windows(void **state)
{
	(void)state;
	collector_limit_memory(&collector, 16 << 20, true);
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	run_process(0);
	drain();
	assert_false(collector_is_full(&collector));
	collector.other_bytes = 16 << 20;
	assert_true(collector_is_full(&collector));
	assert_false(collector_take_is_due(&collector));
	for (uint32_t i = 1; i < 60000; i++) {
		run_process(i);
		if (i % 500 == 499)
			drain();
	}
	collector.other_bytes = 16 << 20;
	assert_true(collector_take_is_due(&collector));
}

/* The list of mapped files is a part of the budget. */
static void files_take_memory(void **state)
{
	size_t before, files;

	(void)state;
	collector_limit_memory(&collector, 16 << 20, true);
	drain();
	before = collector.other_bytes;
	files = mapped_files_bytes(collector.files);
	for (uint64_t id = 1; id <= 2000; id++)
		fake_put_file(id);
	drain();
	files = mapped_files_bytes(collector.files) - files;
	assert_true(files > 2000 * 100);
	assert_true(collector.other_bytes >= before + files);
}

/* A window counts the files that it holds, and releases the files of stacks that were merged. */
static void reduced_window_holds_no_other_files(void **state)
{
	struct window window;

	(void)state;
	for (uint64_t id = 1; id <= PROGRAMS + 1; id++)
		fake_put_file(id);
	for (uint32_t i = 0; i < 100; i++)
		run_process(i);
	drain();
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	assert_int_equal(window.held_count, PROGRAMS + 1);
	assert_true(window_bytes(&window) > profile_bytes(window.profile));
	assert_int_equal(window_reduce(&window, &labels, window_bytes(&window) - 1), 0);
	assert_int_equal(window.held_count, PROGRAMS + 1);
	assert_int_equal(window_reduce(&window, &labels, 0), 0);
	assert_int_equal(window.held_count, 0);
	window_clear(&window);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(short_processes_take_little_memory),
		TEST(memory_is_flat_with_windows),
		TEST(files_of_ended_processes_are_forgotten),
		TEST(windows_have_no_gap_and_no_overlap),
		TEST(budget_is_kept),
		TEST(times_of_samples_are_limited),
		TEST(times_of_samples_end_windows),
		TEST(full_window_is_to_be_taken),
		TEST(budget_is_kept_while_metadata_is_pending),
		TEST(mappings_do_not_cost_all_stacks),
		TEST(mappings_do_not_make_windows),
		TEST(files_take_memory),
		TEST(reduced_window_holds_no_other_files),
	};

	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
	return cmocka_run_group_tests_name("collector", tests, NULL, NULL);
}

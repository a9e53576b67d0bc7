// SPDX-License-Identifier: GPL-2.0
/* What a collector waits for: metadata, and the unwind tables that copies of stacks need. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/collector.h"

#include "fake_device.h"
#include "lib/clock.h"
#include "mappings/mapped_files.h"
#include "patience.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "record/sample_queue.h"
#include "record/stack_copies.h"
#include "record/stack_table.h"
#include "record/table_jobs.h"
#include "record/verification.h"
#include "sample.h"
#include "worker_server.h"

#define TEXT UINT64_C(0x400000)
#define COPY_SIZE 64u

static struct collector collector;
static struct labels labels;
static struct error error, warning;
static unsigned int messages;

/* A clock that advances by this many seconds at each look, and not with the machine's. */
static time_t step_s;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	static struct timespec monotonic;

	if (clock != CLOCK_MONOTONIC || !monotonic.tv_sec) {
		if (syscall(SYS_clock_gettime, clock, time))
			return -1;
	}
	if (clock == CLOCK_MONOTONIC) {
		if (!monotonic.tv_sec)
			monotonic = *time;
		monotonic.tv_sec += step_s;
		*time = monotonic;
	}
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	worker_server();
	fake_device_init();
	labels = (struct labels){.chosen = LABELS_DEFAULT};
	messages = 0;
	if (collector_init(&collector, &labels, NULL, NULL, false, &error))
		return -1;
	collector_start(&collector, &fake_device, true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	collector_clear(&collector);
	fake_device_clear();
	return 0;
}

static union any_sample any;

/* A sample of long ago with one frame, of a process that is alive. */
static struct stackbeat_sample *make_sample(uint64_t address)
{
	struct stackbeat_sample *sample = sample_begin(&any, (uint32_t)getpid(), "test");

	sample->address_space = 1;
	sample->generation = 1;
	sample->time = 1;
	sample->user_stop = STACKBEAT_STOP_BAD_FRAME;
	sample_user(sample, address);
	return sample;
}

static void put_sample(uint64_t address)
{
	struct stackbeat_sample *sample = make_sample(address);

	fake_put(&fake_device.samples, sample, sample->record.size);
}

static void put_process(void)
{
	fake_put_space(1, (uint32_t)getpid(), "test");
	fake_put_mapping(1, TEXT, 1);
	fake_put_file(1);
}

static uint64_t samples(void)
{
	return stack_table_totals(collector.stacks)->samples;
}

static void drain(void)
{
	assert_int_equal(collector_drain(&collector, &fake_device, &error), 0);
}

static void finish(void)
{
	assert_int_equal(collector_finish(&collector, &fake_device, &warning, &error), 0);
}

/* Takes the samples, all of which are in the file. */
static void expect_samples_in_the_file(uint64_t count)
{
	struct window window;

	assert_int_equal(collector_take(&collector, &window, &error), 0);
	assert_int_equal(window.samples, count);
	assert_int_equal(window.held_count, 1);
	window_clear(&window);
}

/* Metadata that is pending at first, and has arrived afterwards, is read in the same drain. */
static void metadata_settles_while_it_is_read(void **state)
{
	(void)state;
	put_process();
	put_sample(TEXT + 1);
	fake_device.pending_calls = 1;
	drain();
	assert_int_equal(samples(), 1);
	finish();
	expect_samples_in_the_file(1);
}

static void sample_waits_for_its_metadata(void **state)
{
	(void)state;
	put_sample(TEXT + 1);
	fake_device.pending = true;
	for (int i = 0; i < 5; i++)
		drain();
	assert_int_equal(samples(), 0);
	put_process();
	fake_device.pending = false;
	drain();
	assert_int_equal(samples(), 1);
	assert_int_equal(sample_queue_early(collector.queue), 0);
	finish();
	expect_samples_in_the_file(1);
}

static void put_generation(uint32_t generation, uint64_t file)
{
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = STACKBEAT_MAPPING_VADDR | STACKBEAT_MAPPING_EVENT,
			   .size = sizeof(mapping)},
		.address_space = 1,
		.start = TEXT,
		.end = TEXT + 0x100000,
		.vaddr = 0x1000,
		.file = file,
		.generation = generation,
	};

	fake_put_file(file);
	fake_put(&fake_device.metadata, &mapping, sizeof(mapping));
}

/* Samples of several CPUs come in any order, each with the mappings of its time. */
static void samples_are_handled_by_generation(void **state)
{
	struct window window;

	(void)state;
	for (uint32_t generation = 3; generation > 0; generation--) {
		struct stackbeat_sample *sample = make_sample(TEXT + 1);

		sample->generation = generation;
		fake_put(&fake_device.samples, sample, sample->record.size);
	}
	fake_device.pending = true;
	drain();
	put_process();
	put_generation(2, 2);
	put_generation(3, 3);
	fake_device.pending = false;
	drain();
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	assert_int_equal(window.samples, 3);
	assert_int_equal(window.held_count, 3);
	window_clear(&window);
}

/* The stacks of a profile are in the order of their samples. */
static void samples_of_a_generation_stay_in_order(void **state)
{
	const struct profile *profile;
	struct window window;

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		put_sample(TEXT + i);
	fake_device.pending = true;
	drain();
	put_process();
	fake_device.pending = false;
	drain();
	finish();
	assert_int_equal(collector_take(&collector, &window, &error), 0);
	profile = window.profile;
	assert_int_equal(profile->samples.count, 10);
	for (uint64_t i = 0; i < 10; i++) {
		const uint32_t *locations =
			profile_stack_locations(profile, profile->samples.items[i].stack);

		assert_int_equal(profile->locations.items[locations[0]].address, 0x1000 + i);
	}
	window_clear(&window);
}

/* A sample may be written before its time is over: it waits for the next drain. */
static void sample_of_now_waits(void **state)
{
	struct stackbeat_sample *sample = make_sample(TEXT + 1);

	(void)state;
	sample->time = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC) + 60 * NS_PER_SECOND;
	fake_put(&fake_device.samples, sample, sample->record.size);
	drain();
	assert_int_equal(samples(), 0);
	finish();
	assert_int_equal(samples(), 1);
}

/* Metadata that arrives after the stop. */
static void last_metadata_is_waited_for(void **state)
{
	(void)state;
	put_sample(TEXT + 1);
	fake_device.pending = true;
	drain();
	fake_device.pending = false;
	put_process();
	fake_device.pending_calls = 4;
	finish();
	assert_string_equal(warning.text, "");
	assert_int_equal(fake_device.pending_calls, 0);
	expect_samples_in_the_file(1);
}

static void metadata_that_never_arrives_ends_with_a_warning(void **state)
{
	(void)state;
	put_sample(TEXT + 1);
	fake_device.pending = true;
	step_s = 1;
	finish();
	step_s = 0;
	assert_non_null(strstr(warning.text, "has not sent the mappings of all samples within"));
	assert_int_equal(samples(), 1);
}

static void count_message(const char *text, void *arg)
{
	assert_ptr_equal(arg, &messages);
	assert_non_null(strstr(text, "unwind table of [vdso]"));
	messages++;
}

/* The process runs in the vdso, whose table is compiled by a worker. */
static void put_copy(uint16_t flags)
{
	const uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = STACKBEAT_MAPPING_VDSO,
			   .size = sizeof(mapping)},
		.address_space = 1,
		.start = vdso,
		.end = vdso + 0x2000,
		.generation = 1,
	};
	union {
		struct stackbeat_stack stack;
		uint8_t bytes[sizeof(struct stackbeat_stack) + COPY_SIZE];
	} copy = {.stack = {
			  .record = {.type = STACKBEAT_RECORD_STACK,
				     .flags = flags,
				     .size = sizeof(copy)},
			  .size = COPY_SIZE,
		  }};
	struct stackbeat_sample *sample = make_sample(vdso);

	fake_put_space(1, (uint32_t)getpid(), "test");
	fake_put(&fake_device.metadata, &mapping, sizeof(mapping));
	copy.stack.registers[STACKBEAT_REGISTER_RIP] = vdso;
	copy.stack.registers[STACKBEAT_REGISTER_RSP] = 0x1000;
	sample->record.flags |= STACKBEAT_SAMPLE_STACK;
	fake_put(&fake_device.samples, sample, sample->record.size);
	fake_put(&fake_device.samples, &copy, sizeof(copy));
}

static void use_tables(uint32_t copy_size, bool verifies)
{
	const struct collector_unwinding unwinding = {
		.sandbox = worker_server(),
		.max_depth = 100,
		.copy_size = copy_size,
		.verifies = verifies,
		.message = count_message,
		.arg = &messages,
	};

	assert_int_equal(collector_use_tables(&collector, &unwinding, &error), 0);
}

static void copies_are_waited_for(void **state)
{
	struct stack_copies_counts counts;
	struct pollfd fds[COLLECTOR_FDS];

	(void)state;
	assert_int_equal(collector_poll(&collector, fds), 0);
	use_tables(COPY_SIZE, false);
	assert_true(collector_poll(&collector, fds) > 0);
	put_copy(0);
	drain();
	assert_int_equal(samples(), 0);
	assert_true(stack_copies_are_waiting(collector.copies));
	finish();
	assert_false(stack_copies_are_waiting(collector.copies));
	assert_int_equal(samples(), 1);
	stack_copies_counts(collector.copies, &counts);
	assert_int_equal(counts.walked, 1);
	assert_int_equal(counts.late, 0);
	assert_int_equal(messages, 1);
	assert_true(unwind_tables_bytes(collector.tables) > 0);
	assert_int_equal(collector_poll(&collector, fds), 0);
	/* Twice does no harm. */
	collector_stop(&collector);
}

/* Without copies of stacks, no table is kept, and none is waited for. */
static void tables_without_copies_are_not_kept(void **state)
{
	(void)state;
	use_tables(0, false);
	assert_null(collector.copies);
	assert_null(collector.verification);
	wait_until((drain(), messages));
	drain();
	assert_int_equal(unwind_tables_bytes(collector.tables), 0);
	collector_verify(&collector, worker_server(), 60);
	finish();
}

/* What is known of the tables of files is a part of the budget, as the list of the files is. */
static void list_of_tables_takes_memory(void **state)
{
	const struct collector_unwinding unwinding = {.sandbox = worker_server(), .max_depth = 100};
	size_t before, lists;

	(void)state;
	assert_int_equal(collector_use_tables(&collector, &unwinding, &error), 0);
	collector.next_watch = 0;
	drain();
	before = collector.other_bytes;
	lists = mapped_files_bytes(collector.files) + unwind_tables_list_bytes(collector.tables);
	for (uint64_t id = 1; id <= 1000; id++)
		fake_put_file(id);
	drain();
	collector.next_watch = 0;
	drain();
	lists = mapped_files_bytes(collector.files) + unwind_tables_list_bytes(collector.tables) -
		lists;
	/* The two that are being opened may get their problems at any time. */
	assert_true(lists > 1000 * 64);
	assert_in_range(collector.other_bytes - before, lists - 4096, lists + 4096);
}

/* A copy beyond those that the unwinder needs is for the second opinion. */
static void extra_copies_are_verified(void **state)
{
	struct verification_result result;

	(void)state;
	use_tables(COPY_SIZE, true);
	put_copy(STACKBEAT_STACK_EXTRA);
	drain();
	assert_int_equal(samples(), 1);
	finish();
	collector_verify(&collector, worker_server(), 60);
	verification_result(collector.verification, &result);
	assert_int_equal(result.results[COMPARED_EQUAL] + result.results[COMPARED_SHORTER] +
				 result.results[COMPARED_LONGER],
			 1);
	assert_int_equal(result.failed + result.dropped, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(metadata_settles_while_it_is_read),
		TEST(sample_waits_for_its_metadata),
		TEST(samples_are_handled_by_generation),
		TEST(samples_of_a_generation_stay_in_order),
		TEST(sample_of_now_waits),
		TEST(last_metadata_is_waited_for),
		TEST(metadata_that_never_arrives_ends_with_a_warning),
		TEST(copies_are_waited_for),
		TEST(tables_without_copies_are_not_kept),
		TEST(list_of_tables_takes_memory),
		TEST(extra_copies_are_verified),
	};

	return cmocka_run_group_tests_name("collector_waits", tests, NULL, NULL);
}

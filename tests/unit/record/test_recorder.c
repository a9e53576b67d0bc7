// SPDX-License-Identifier: GPL-2.0
/* The windows of a recording, and what remains of it after each kind of error. */
#include "unit.h"

/* Hundreds of sessions take a time in which their memory counts. */
#define FAKE_RING_SIZE (1u << 20)

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/recorder.h"

#include "failing_malloc.h"
#include "fake_device.h"
#include "lib/clock.h"
#include "pprof/labels.h"
#include "record/stack_table.h"
#include "sample.h"

#define DRAINS 50u
/* Above the largest process id. */
#define NOBODY 2000000000u
#define TEXT UINT64_C(0x400000)

static struct recorder *recorder;
static struct labels labels;
static struct session_config session = {.rate = 99};

/* Sums over all windows. */
static struct {
	uint64_t windows, samples, lost, missed, ticks, reader_ns;
	int64_t weight, duration_ns, next_start_ns;
	bool takes; /* in each `drained` */
	unsigned int fail_at; /* the drain from which on the device fails */
	int *fail; /* the device's error to set then */
	int err;
	bool bad_record;
	bool skips_empty; /* the windows without samples */
	bool skips_time; /* by recorder_skip_empty() */
	int64_t skipped_ns;
	uint64_t put; /* samples */
	unsigned long
		fail_malloc; /* the allocation that fails, from the drain `fail_at`; 0: none */
	bool memory_stays_out;
	bool has_failed;
} sums;

/* ns; all 0: the clocks of this machine are read. */
static struct {
	int64_t passed, suspended, set;
} clocks;

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = clocks.passed;

	if (!clocks.passed ||
	    (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME))
		return (int)syscall(SYS_clock_gettime, clock, time);
	if (clock != CLOCK_MONOTONIC)
		ns += clocks.suspended;
	if (clock == CLOCK_REALTIME)
		ns += clocks.set;
	*time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

/* How long the reader would sleep before each drain, ns: by its timeout. */
static int64_t sleeps[DRAINS + 1];

__attribute__((visibility("hidden"))) int
ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	struct timespec time = *timeout;

	if (fake_device.drains < DRAINS)
		sleeps[fake_device.drains] = timeout->tv_sec * NS_PER_SECOND + timeout->tv_nsec;
	return (int)syscall(SYS_ppoll, fds, count, &time, mask, sizeof(uint64_t));
}

static int set_up(void **state)
{
	(void)state;
	memset(&clocks, 0, sizeof(clocks));
	memset(sleeps, 0, sizeof(sleeps));
	fake_device_init();
	labels = (struct labels){.chosen = LABELS_DEFAULT};
	session.cpus = NULL;
	memset(&sums, 0, sizeof(sums));
	recorder = calloc(1, sizeof(*recorder));
	return recorder ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	recorder_free(recorder);
	free(recorder);
	fake_device_clear();
	return 0;
}

static void put_sample(struct device *device, uint32_t pid)
{
	static union any_sample any;
	struct stackbeat_sample *sample = sample_begin(&any, pid, "test");

	sums.put++;
	sample_kernel(sample, 0xffffffff81000000 + pid % 7);
	sample->weight = 1000 + pid;
	sample->time = (uint64_t)kernel_now_ns(CLOCK_MONOTONIC);
	fake_put(&device->samples, sample, sample->record.size);
}

/* Samples come, and counters advance, all the time. */
static void advance(struct device *device)
{
	if (sums.fail && device->drains == sums.fail_at)
		*sums.fail = sums.err;
	for (uint32_t i = 0; i < 10; i++)
		put_sample(device, 1 + i + device->drains % 3);
	device->counters.stats[STACKBEAT_S_LOST_FULL] += 3;
	device->counters.stats[STACKBEAT_S_MISSED_TICKS] += 2;
	device->counters.stats[STACKBEAT_S_TICKS] += 15;
	if (sums.bad_record && device->drains == sums.fail_at) {
		static const struct stackbeat_record bad = {
			.type = STACKBEAT_RECORD_SAMPLE,
			.size = 8,
		};

		fake_put(&device->samples, &bad, sizeof(bad));
	}
}

/* A new program, whose code is in two files. */
static void put_program(struct device *device)
{
	static union any_sample any;
	const uint64_t id = device->drains + 1;
	struct stackbeat_sample *sample;

	fake_put_space(id, NOBODY + (uint32_t)id, "program");
	fake_put_file(2 * id);
	fake_put_file(2 * id + 1);
	fake_put_mapping(id, TEXT, 2 * id);
	fake_put_mapping(id, 2 * TEXT, 2 * id + 1);
	for (uint64_t i = 0; i < 20; i++) {
		sample = sample_begin(&any, NOBODY + (uint32_t)id, "program");
		sample->address_space = id;
		sample->generation = 1;
		/* The last ones wait in the queue for metadata. */
		if (i > 15)
			sample->generation = 2;
		sample->time = 1;
		for (uint64_t frame = 0; frame < 20; frame++)
			sample_user(sample, (frame % 2 + 1) * TEXT + 0x100 * i + 0x10 * frame);
		fake_put(&device->samples, sample, sample->record.size);
		sums.put++;
	}
}

static void advance_programs(struct device *device)
{
	for (int i = 0; i < 3; i++)
		put_sample(device, 1 + device->drains % 3);
	put_program(device);
	if (device->drains == sums.fail_at)
		fail_malloc(sums.fail_malloc, sums.memory_stays_out);
}

/* A program maps code in anonymous memory, before the drains 5, 6 and 40. */
static void advance_anonymous_code(struct device *device)
{
	const unsigned int drain = device->drains;

	if (!drain)
		fake_put_space(1, NOBODY, "program");
	if (drain == 5 || drain == 6 || drain == 40)
		fake_put_anonymous(1, TEXT, drain + 1);
	clocks.passed += NS_PER_SECOND / 100;
	put_sample(device, 1);
}

static bool stop_requested(void *arg)
{
	(void)arg;
	return fake_device.drains >= (sums.fail_malloc ? 30 : DRAINS);
}

static bool never_stop(void *arg)
{
	(void)arg;
	return false;
}

static void take(void)
{
	struct recording recording;
	struct window window;
	struct error error;
	int err = recorder_take(recorder, &window, &recording, &error);

	/* Then, the samples are in the next one. */
	if (err == -ENOMEM && sums.fail_malloc) {
		assert_null(window.profile);
		return;
	}
	assert_int_equal(err, 0);
	if (sums.skips_empty && !window.samples) {
		if (sums.skips_time) {
			recorder_skip_empty(recorder);
			sums.skipped_ns += recording.duration_ns;
			sums.next_start_ns = recording.start_ns + recording.duration_ns;
			sums.windows++;
		}
		window_clear(&window);
		return;
	}
	for (size_t i = 0; i < window.profile->samples.count; i++)
		sums.weight += profile_values(window.profile, i)[PROFILE_CPU];
	/* Each one begins where the last one has ended. */
	if (sums.windows)
		assert_int_equal(recording.start_ns, sums.next_start_ns);
	sums.next_start_ns = recording.start_ns + recording.duration_ns;
	sums.windows++;
	sums.samples += window.samples;
	sums.lost += recording.counts[STACKBEAT_S_LOST_FULL];
	sums.missed += recording.counts[STACKBEAT_S_MISSED_TICKS];
	sums.ticks += recording.counts[STACKBEAT_S_TICKS];
	sums.duration_ns += recording.duration_ns;
	sums.reader_ns += recording.counts[COUNTER_READER_OVERHEAD_NS];
	window_clear(&window);
}

static void drained(void *arg)
{
	struct window *window;
	struct recording recording;
	struct error error;

	(void)arg;
	if (!sums.takes || fake_device.drains % 7)
		return;
	/* A look between the windows changes nothing. */
	if (!sums.fail_malloc)
		assert_int_equal(recorder_peek(recorder, &window, &recording, &error), 0);
	take();
}

static void warn(const char *text, void *arg)
{
	(void)arg;
	fail_msg("%s", text);
}

static int record_with(void (*before_drain)(struct device *device), struct error *error)
{
	const struct recorder_config config = {
		.session = &session,
		.labels = &labels,
		.no_symbolize = true,
		.wake_fd = -1,
		.stop_requested = stop_requested,
		.drained = drained,
		.warning = warn,
	};
	int err;

	fake_device.before_drain = before_drain;
	assert_int_equal(recorder_open(recorder, &config, error), 0);
	/* The collector opens files through it. */
	assert_ptr_equal(recorder->collector.device, recorder->session.device);
	err = recorder_run(recorder, &config, error);
	sums.has_failed = malloc_has_failed();
	fail_malloc(0, false);
	fake_device.get_err = 0;
	recorder_close(recorder);
	return err;
}

static int record_all(struct error *error)
{
	return record_with(advance, error);
}

/* The windows have all samples and counters, each once. */
static void windows_sum_up_to_the_recording(void **state)
{
	const struct sample_totals *totals;
	struct error error;

	(void)state;
	sums.takes = true;
	assert_int_equal(record_all(&error), 0);
	take();
	totals = stack_table_totals(recorder->collector.stacks);
	assert_int_equal(sums.windows, DRAINS / 7 + 1);
	assert_int_equal(sums.samples, 10 * (DRAINS + 1));
	assert_int_equal(sums.samples, totals->samples);
	assert_int_equal(sums.weight, totals->weight);
	assert_int_equal(sums.lost, 3 * (DRAINS + 1));
	assert_int_equal(sums.missed, 2 * (DRAINS + 1));
	assert_int_equal(sums.ticks, 15 * (DRAINS + 1));
	assert_int_equal(sums.duration_ns, recorder->recording.duration_ns);
	assert_int_equal(sums.reader_ns, recorder->recording.counts[COUNTER_READER_OVERHEAD_NS]);
	/* Nothing is left. */
	take();
	assert_int_equal(sums.samples, totals->samples);
}

static void one_window_is_the_whole_recording(void **state)
{
	struct error error;

	(void)state;
	assert_int_equal(record_all(&error), 0);
	take();
	assert_int_equal(sums.samples, 10 * (DRAINS + 1));
	assert_int_equal(sums.lost, 3 * (DRAINS + 1));
}

/* Samples come in the second half only; counters all the time. */
static void lose_then_sample(struct device *device)
{
	if (device->drains > DRAINS / 2)
		put_sample(device, 1);
	device->counters.stats[STACKBEAT_S_LOST_FULL] += 3;
}

/* The counters of windows without samples, which no profile has, are in the next one. */
static void empty_windows_keep_their_counters(void **state)
{
	struct recording recording;
	struct window window;
	struct error error;

	(void)state;
	sums.skips_empty = sums.takes = true;
	assert_int_equal(record_with(lose_then_sample, &error), 0);
	assert_int_equal(recorder_take(recorder, &window, &recording, &error), 0);
	assert_true(window.samples > 0);
	assert_int_equal(sums.lost + recording.counts[STACKBEAT_S_LOST_FULL], 3 * (DRAINS + 1));
	assert_int_equal(sums.duration_ns + recording.duration_ns, recorder->recording.duration_ns);
	window_clear(&window);
}

static void empty_windows_may_keep_their_time(void **state)
{
	struct recording recording;
	struct window window;
	struct error error;

	(void)state;
	sums.skips_empty = sums.takes = sums.skips_time = true;
	assert_int_equal(record_with(lose_then_sample, &error), 0);
	assert_int_equal(recorder_take(recorder, &window, &recording, &error), 0);
	assert_true(window.samples > 0);
	assert_int_equal(sums.lost + recording.counts[STACKBEAT_S_LOST_FULL], 3 * (DRAINS + 1));
	assert_true(sums.skipped_ns > 0);
	assert_int_equal(recording.start_ns, sums.next_start_ns);
	assert_int_equal(sums.skipped_ns + sums.duration_ns + recording.duration_ns,
			 recorder->recording.duration_ns);
	window_clear(&window);
}

/* Each counter has a value of its own. */
static void set_counters(struct device *device)
{
	if (!device->drains)
		put_sample(device, 1);
	for (uint64_t i = 0; i < STACKBEAT_S_COUNT; i++)
		device->counters.stats[i] = 1000 * (i + 1) + device->drains;
}

static void counters_are_those_of_the_session(void **state)
{
	const struct recording *recording = &recorder->recording;
	struct recording taken;
	struct window window;
	struct error error;

	(void)state;
	recorder->taken.counts[STACKBEAT_S_THROTTLED] = 11;
	recorder->taken.counts[STACKBEAT_S_ADDRESS_SPACES] = UINT64_MAX;
	assert_int_equal(record_with(set_counters, &error), 0);
	const uint64_t *stats = fake_device.counters.stats;

	assert_memory_equal(recording->counts, stats, STACKBEAT_S_COUNT * sizeof(*stats));
	assert_int_equal(counters_lost(recording->counts),
			 stats[STACKBEAT_S_LOST_FULL] + stats[STACKBEAT_S_LOST_BAD_TAIL]);
	assert_int_equal(counters_kernel_overhead_ns(recording->counts),
			 stats[STACKBEAT_S_OVERHEAD_NS] + stats[STACKBEAT_S_WORKER_OVERHEAD_NS] +
				 stats[STACKBEAT_S_PROBE_OVERHEAD_NS]);
	assert_int_equal(recording->rate, 99);
	assert_int_equal(recording->cpus, sysconf(_SC_NPROCESSORS_ONLN));
	assert_false(recording->unwinds_by_tables);
	/* The counts of a window are differences, but not below 0. */
	assert_int_equal(recorder_take(recorder, &window, &taken, &error), 0);
	assert_int_equal(taken.counts[STACKBEAT_S_THROTTLED],
			 recording->counts[STACKBEAT_S_THROTTLED] - 11);
	assert_int_equal(taken.counts[STACKBEAT_S_ADDRESS_SPACES], 0);
	assert_int_equal(taken.counts[STACKBEAT_S_TICKS], recording->counts[STACKBEAT_S_TICKS]);
	window_clear(&window);
	assert_int_equal(recorder_take(recorder, &window, &taken, &error), 0);
	for (size_t i = 0; i < STACKBEAT_S_COUNT; i++)
		assert_int_equal(taken.counts[i], counter_table[i].is_level ? stats[i] : 0);
	window_clear(&window);
}

/* What is recorded is a share of the time of these CPUs alone. */
static void cpus_are_the_chosen_ones(void **state)
{
	char cpu[16];
	struct error error;

	(void)state;
	snprintf(cpu, sizeof(cpu), "%d", sched_getcpu());
	session.cpus = cpu;
	assert_int_equal(cpulist_parse(cpu, &session.cpulist, &error), 0);
	assert_int_equal(record_all(&error), 0);
	assert_int_equal(recorder->recording.cpus, 1);
}

/* What happens to the clocks between two windows of 20 s, and within the second one. */
static const struct clock_change {
	int64_t set_s, suspended_s; /* at the start */
	int64_t later_set_s, later_suspended_s; /* after 10 s */
	const char *message; /* NULL: none */
} clock_changes[] = {
	{0, 0, 0, 0, NULL},
	{3600, 0, 0, 0, "the clock was set ahead by 3600.0 s"},
	{-7200, 0, 0, 0, "the clock was set back by 7200.0 s"},
	{0, 0, 20 * 86400, 0, "the clock was set ahead by 1728000.0 s"},
	{0, 0, -20 * 86400, 0, "the clock was set back by 1728000.0 s"},
	{0, 5 * 3600, 0, 0, NULL},
	{0, 0, 0, 5 * 3600, NULL},
	{-60, 300, 0, 0, "the clock was set back by 60.0 s"},
	{0, 0, 0, 0, NULL},
};

#define CLOCK_CHANGES (sizeof(clock_changes) / sizeof(clock_changes[0]))

static size_t change;
static const char *wanted_message;

static void change_clocks(int64_t set_s, int64_t suspended_s)
{
	clocks.set += set_s * NS_PER_SECOND;
	clocks.suspended += suspended_s * NS_PER_SECOND;
}

static void expect_message(const char *text, void *arg)
{
	(void)arg;
	assert_non_null(wanted_message);
	assert_ptr_equal(strstr(text, wanted_message), text);
	wanted_message = NULL;
}

/*
 * A window has the times at which it was taken: by the clock as it is set at its end, which is
 * right more often than before, and from its own start on, also if the machine was suspended
 * meanwhile.
 */
static void take_while_clocks_change(void *arg)
{
	const struct clock_change *now = &clock_changes[change];
	struct recording recording;
	struct window window;
	struct error error;
	int64_t start;

	(void)arg;
	assert_null(wanted_message);
	if (change == CLOCK_CHANGES)
		return;
	change_clocks(now->set_s, 0);
	start = clocks.passed + clocks.suspended + clocks.set + now->later_set_s * NS_PER_SECOND;
	change_clocks(0, now->suspended_s);
	clocks.passed += 10 * NS_PER_SECOND;
	change_clocks(now->later_set_s, now->later_suspended_s);
	clocks.passed += 10 * NS_PER_SECOND;
	assert_int_equal(recorder_take(recorder, &window, &recording, &error), 0);
	assert_int_equal(recording.start_ns, start);
	assert_int_equal(recording.duration_ns, 20 * NS_PER_SECOND);
	assert_true(window.samples > 0);
	window_clear(&window);
	/* It comes with the next drain. */
	wanted_message = now->message;
	change++;
}

static void windows_have_the_time_at_which_they_were_taken(void **state)
{
	const struct recorder_config config = {
		.session = &session,
		.labels = &labels,
		.no_symbolize = true,
		.wake_fd = -1,
		.stop_requested = stop_requested,
		.drained = take_while_clocks_change,
		.warning = expect_message,
	};
	struct error error;

	(void)state;
	clocks.passed = 1000 * NS_PER_SECOND;
	clocks.suspended = 70 * NS_PER_SECOND;
	clocks.set = 1700000000 * NS_PER_SECOND;
	change = 0;
	fake_device.before_drain = advance;
	assert_int_equal(recorder_open(recorder, &config, &error), 0);
	assert_int_equal(recorder_run(recorder, &config, &error), 0);
	assert_int_equal(change, CLOCK_CHANGES);
	assert_int_equal(recorder->clock_steps, 5);
}

/* The reader comes back 50 ms later, when the program has copied its text, and has samples. */
static void moved_text_is_compared_soon(void **state)
{
	struct error error;

	(void)state;
	clocks.passed = NS_PER_SECOND;
	assert_int_equal(record_with(advance_anonymous_code, &error), 0);
	for (unsigned int drain = 0; drain < DRAINS; drain++) {
		/* Each drain takes 10 ms. Its event is read in the drain before. */
		const unsigned int last = drain > 40 ? 40 : 5;
		const bool is_soon = drain > last && drain <= last + 5;

		assert_int_equal(sleeps[drain],
				 is_soon ? NS_PER_SECOND / 20 -
						   (drain - last - 1) * NS_PER_SECOND / 100
					 : NS_PER_SECOND);
	}
}

/* A recording without an end of its own ends with its time, or with the session. */
static void recording_ends_with_its_time(void **state)
{
	const struct recorder_config config = {
		.session = &session,
		.seconds = 0.2,
		.labels = &labels,
		.no_symbolize = true,
		.wake_fd = -1,
		.stop_requested = never_stop,
		.warning = warn,
	};
	struct error error;
	eventfd_t value;

	(void)state;
	/* Nothing wakes the recorder. */
	assert_int_equal(eventfd_read(fake_device.event, &value), 0);
	assert_int_equal(recorder_open(recorder, &config, &error), 0);
	assert_int_equal(recorder_run(recorder, &config, &error), 0);
	assert_true(recorder->recording.duration_ns >= NS_PER_SECOND / 5);
	assert_true(recorder->recording.start_ns > 1000000000 * NS_PER_SECOND);
	assert_int_equal(fake_device.drains, 2);
}

static void recording_ends_with_its_session(void **state)
{
	const struct recorder_config config = {
		.session = &session,
		.labels = &labels,
		.no_symbolize = true,
		.wake_fd = -1,
		.stop_requested = never_stop,
		.warning = warn,
	};
	struct error error;
	int ends[2];

	(void)state;
	/* POLLHUP */
	assert_int_equal(pipe(ends), 0);
	close(ends[1]);
	close(fake_device.event);
	fake_device.event = ends[0];
	assert_int_equal(recorder_open(recorder, &config, &error), 0);
	assert_int_equal(recorder_run(recorder, &config, &error), 0);
	assert_int_equal(fake_device.drains, 2);
	assert_true(recorder->is_ended_by_others);
}

/* After an error, the recording ends, with its reason, and has all samples up to then. */
static void expect_profile_after(int err, const char *reason, uint64_t samples)
{
	struct error error = {""};

	assert_int_equal(record_all(&error), err);
	assert_non_null(strstr(error.text, reason));
	take();
	assert_int_equal(sums.samples, samples);
}

static void ring_that_cannot_be_mapped_loses_nothing(void **state)
{
	(void)state;
	sums.fail = &fake_device.map_err;
	sums.fail_at = 20;
	sums.err = -ENOMEM;
	/* The drains before, and what is in the rings at the stop. */
	expect_profile_after(-ENOMEM, "can't map the ring of CPU 1", 10 * 22);
}

static void damaged_ring_loses_nothing_before(void **state)
{
	(void)state;
	sums.bad_record = true;
	sums.fail_at = 30;
	expect_profile_after(-EBADMSG, "", 10 * 32);
}

static void refused_stop_loses_nothing(void **state)
{
	(void)state;
	fake_device.stop_err = -EPERM;
	expect_profile_after(-EPERM, "can't stop", 10 * (DRAINS + 1));
}

static void unreadable_counters_lose_no_samples(void **state)
{
	(void)state;
	fake_device.get_err = -EIO;
	expect_profile_after(-EIO, "can't read the counters", 10 * (DRAINS + 1));
	assert_int_equal(sums.lost, 0);
}

/* Fails the allocation with a number from 1, and maybe all later ones. Returns false if there is
 * none. */
static bool records_without_memory(unsigned long number, bool stays)
{
	const unsigned int fail_at = 20;
	struct error error = {""};
	bool has_failed;
	int err;

	assert_int_equal(set_up(NULL), 0);
	sums.takes = true;
	sums.fail_at = fail_at;
	sums.fail_malloc = number;
	sums.memory_stays_out = stays;
	err = record_with(advance_programs, &error);
	has_failed = sums.has_failed;
	sums.fail_malloc = 0;
	take();

	if (err) {
		assert_int_equal(err, -ENOMEM);
		assert_non_null(strstr(error.text, "Cannot allocate memory"));
	}
	/* Without memory for the rest of the recording, what was drained before. */
	if (stays && err)
		assert_in_range(sums.samples, fail_at * 23, sums.put);
	else /* one if it is the very last drain */
		assert_in_range(sums.samples, sums.put - 1, sums.put);
	assert_int_equal(sums.samples, stack_table_totals(recorder->collector.stacks)->samples);
	tear_down(NULL);
	return has_failed;
}

/* Wherever memory is missing while the rings are drained. */
static void lack_of_memory_loses_nothing(void **state)
{
	unsigned long number = 1;

	(void)state;
	while (records_without_memory(number, false))
		number++;
	print_message("%lu allocations failed\n", number - 1);
	assert_true(number > 50);
}

static void end_of_memory_loses_nothing_before(void **state)
{
	unsigned long number = 1;

	(void)state;
	while (records_without_memory(number, true))
		number++;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(windows_sum_up_to_the_recording),
		TEST(one_window_is_the_whole_recording),
		TEST(empty_windows_keep_their_counters),
		TEST(empty_windows_may_keep_their_time),
		TEST(counters_are_those_of_the_session),
		TEST(cpus_are_the_chosen_ones),
		TEST(windows_have_the_time_at_which_they_were_taken),
		TEST(moved_text_is_compared_soon),
		TEST(recording_ends_with_its_time),
		TEST(recording_ends_with_its_session),
		TEST(ring_that_cannot_be_mapped_loses_nothing),
		TEST(damaged_ring_loses_nothing_before),
		TEST(refused_stop_loses_nothing),
		TEST(unreadable_counters_lose_no_samples),
		cmocka_unit_test(lack_of_memory_loses_nothing),
		cmocka_unit_test(end_of_memory_loses_nothing_before),
	};

	return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}

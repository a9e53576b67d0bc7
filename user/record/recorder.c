// SPDX-License-Identifier: GPL-2.0
#include "record/recorder.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "lib/file_limit.h"
#include "lib/pidfd.h"
#include "mappings/address_space.h"
#include "record/reader_rights.h"
#include "record/sample_queue.h"
#include "record/stack_copies.h"
#include "record/stack_table.h"
#include "record/table_jobs.h"
#include "source/device.h"

/* For the last drain and the export of the profile. */
#define RESERVE_BYTES (16 << 20)

/*
 * How often the rings are drained when nothing wakes the reader. The kernel wakes it when a ring
 * is filling, or when address spaces are new; the processes of -p have to be polled.
 */
#define DRAIN_INTERVAL_NS INT64_C(1000000000)
#define PIDS_INTERVAL_NS INT64_C(250000000)
#define PROGRESS_INTERVAL_NS INT64_C(1000000000)
/*
 * After an event of code in anonymous memory, the rings are drained once more: then a program that
 * has moved its text has samples there, by which the text is compared. Not more often than
 * COMPARE_INTERVAL_NS, as programs can cause it.
 */
#define COMPARE_DELAY_NS INT64_C(50000000)
#define COMPARE_INTERVAL_NS INT64_C(250000000)
/* Until a server of workers that has not answered is asked again. */
#define SANDBOX_PAUSE_NS INT64_C(60000000000)

/*
 * What this process has used since the last call was for `part`. The command is a child, too, but
 * it does not work for the profile, and processes for files are counted on their own.
 */
static void count_own_cpu(struct recorder *recorder, enum cpu_part part)
{
	int64_t used = cpu_time_own() - recorder->command.cpu_ns - recorder->forked_cpu_ns;

	for (size_t i = 0; i < CPU_PARTS; i++)
		used -= recorder->own_cpu_ns[i];
	recorder->own_cpu_ns[part] += MAX(used, 0);
}

/*
 * A server that does not answer keeps its last numbers, and is not asked again for a while: the
 * rings are not drained while this process waits for it.
 */
static void ask_sandbox(struct recorder *recorder)
{
	struct sandbox_cpu cpu;

	if (!recorder->sandbox || now_ns(CLOCK_MONOTONIC) < recorder->sandbox_asked_after)
		return;
	if (sandbox_server_cpu(recorder->sandbox, &cpu)) {
		recorder->sandbox_asked_after = now_ns(CLOCK_MONOTONIC) + SANDBOX_PAUSE_NS;
		return;
	}
	recorder->sandbox_cpu.server = MAX(recorder->sandbox_cpu.server, cpu.server);
	/* What a worker has used is read with less precision when it has ended. */
	for (enum worker_kind kind = 0; kind < WORKER_KINDS; kind++)
		recorder->sandbox_cpu.workers[kind] =
			MAX(recorder->sandbox_cpu.workers[kind], cpu.workers[kind]);
}

/* It keeps its last number when it has ended. */
static void ask_helper(struct recorder *recorder)
{
	int64_t cpu = recorder->helper ? cpu_time_of_process(recorder->helper) : -1;

	if (cpu >= 0)
		recorder->helper_cpu_ns =
			MAX(recorder->helper_cpu_ns, cpu + cpu_time_of_children(recorder->helper));
}

static int64_t worker_cpu_ns(const struct recorder *recorder, enum worker_kind kind)
{
	return recorder->sandbox_cpu.workers[kind] - recorder->sandbox_before.workers[kind];
}

/* Sets the CPU time of all processes since the start. */
static void count_cpu(struct recorder *recorder, enum cpu_part part, uint64_t counts[COUNTER_COUNT])
{
	static const enum worker_kind for_tables[] = {
		WORKER_UNWIND_TABLE, WORKER_URGENT_UNWIND_TABLE, WORKER_GO_PROGRAM, WORKER_VERIFY};
	int64_t all, workers = 0, tables = 0;

	ask_sandbox(recorder);
	ask_helper(recorder);
	count_own_cpu(recorder, part);
	for (enum worker_kind kind = 0; kind < WORKER_KINDS; kind++)
		workers += worker_cpu_ns(recorder, kind);
	for (size_t i = 0; i < sizeof(for_tables) / sizeof(*for_tables); i++)
		tables += worker_cpu_ns(recorder, for_tables[i]);
	all = recorder->sandbox_cpu.server - recorder->sandbox_before.server + workers +
	      recorder->helper_cpu_ns + recorder->forked_cpu_ns;
	for (size_t i = 0; i < CPU_PARTS; i++)
		all += recorder->own_cpu_ns[i];
	counts[COUNTER_READER_OVERHEAD_NS] = all;
	counts[COUNTER_TABLES_CPU_NS] = tables;
	counts[COUNTER_SYMBOLS_CPU_NS] = workers - tables + recorder->helper_cpu_ns +
					 recorder->own_cpu_ns[CPU_SYMBOLS] +
					 recorder->forked_symbols_ns;
	counts[COUNTER_WRITING_CPU_NS] = recorder->own_cpu_ns[CPU_WRITING] +
					 recorder->forked_cpu_ns - recorder->forked_symbols_ns;
}

void recorder_count_cpu(struct recorder *recorder, struct recording *recording, enum cpu_part part)
{
	static const enum reader_counter counters[] = {
		COUNTER_READER_OVERHEAD_NS, COUNTER_TABLES_CPU_NS, COUNTER_SYMBOLS_CPU_NS,
		COUNTER_WRITING_CPU_NS};
	uint64_t *counts = recorder->recording.counts, before[COUNTER_COUNT];

	memcpy(before, counts, sizeof(before));
	count_cpu(recorder, part, counts);
	for (size_t i = 0; i < sizeof(counters) / sizeof(*counters); i++) {
		const uint64_t more = counts[counters[i]] - before[counters[i]];

		recording->counts[counters[i]] += more;
		recorder->taken.counts[counters[i]] += more;
	}
}

static int drain_rings(struct recorder *recorder, struct error *error)
{
	int err = session_map(&recorder->session, error);

	return err ? err : collector_drain(&recorder->collector, recorder->session.device, error);
}

/* After the stop: reads the rest of the rings, and the metadata that is still pending. */
static int drain_last(struct recorder *recorder, const struct recorder_config *config,
		      struct error *error)
{
	struct error warning, later = {""};
	int err = session_map(&recorder->session, error);
	int later_err =
		collector_finish(&recorder->collector, recorder->session.device, &warning, &later);

	error_keep_first(&err, error, later_err, &later);
	if (*warning.text)
		config->warning(warning.text, config->arg);
	return err;
}

static int recorder_read_stats(struct recorder *recorder, struct error *error)
{
	struct netlink_session *session = malloc(sizeof(*session));
	int err;

	if (!session)
		return error_errno(error, ENOMEM, "can't read the counters");
	err = session_get(&recorder->session, session, error);
	if (!err) {
		memcpy(recorder->stats, session->stats, sizeof(recorder->stats));
		memcpy(recorder->recording.counts, session->stats, sizeof(recorder->stats));
	}
	free(session);
	return err;
}

static void count_tables(const struct collector *collector, struct recording *recording)
{
	struct unwind_tables_counts tables;
	struct stack_copies_counts copies = {0};

	recording->unwinds_by_tables = collector->tables;
	if (!collector->tables)
		return;
	unwind_tables_counts(collector->tables, &tables);
	recording->counts[COUNTER_TABLES_COMPILED] = tables.compiled;
	recording->counts[COUNTER_TABLES_CACHED] = tables.cached;
	recording->counts[COUNTER_TABLES_NONE] = tables.without;
	recording->counts[COUNTER_TABLES_FAILED] = tables.failed;
	recording->counts[COUNTER_TABLES_REFUSED] = tables.refused;
	recording->counts[COUNTER_TABLES_UNSUPPORTED] = tables.unsupported;
	recording->table_refusal = unwind_tables_refusal(collector->tables);
	recording->unknown_go = tables.unknown_go;
	if (collector->copies)
		stack_copies_counts(collector->copies, &copies);
	recording->counts[COUNTER_STACK_COPIES_WALKED] = copies.walked;
	recording->counts[COUNTER_STACK_COPY_BYTES] = copies.bytes;
	recording->counts[COUNTER_STACK_COPIES_GIVEN_UP] = copies.late + copies.full;
}

/* Adds what the reader itself has dropped. */
static void add_own_counts(struct recorder *recorder)
{
	struct recording *recording = &recorder->recording;
	struct address_space_counts counts;

	count_tables(&recorder->collector, recording);
	address_spaces_counts(recorder->collector.spaces, &counts);
	recording->counts[STACKBEAT_S_MAPPINGS_DROPPED] =
		recorder->stats[STACKBEAT_S_MAPPINGS_DROPPED] + counts.mappings_dropped;
	recording->counts[COUNTER_PERF_MAPS_DROPPED] = counts.perf_maps_dropped;
	recording->counts[COUNTER_KERNEL_NAMES_DROPPED] =
		collector_names_dropped(&recorder->collector);
	recording->counts[COUNTER_SAMPLES_EARLY] = sample_queue_early(recorder->collector.queue);
}

/* Progress without up-to-date counters is not worth the end of a recording: it is skipped. */
static void recorder_report_progress(struct recorder *recorder,
				     const struct recorder_config *config, int64_t elapsed)
{
	struct recording *recording = &recorder->recording;
	struct error error;

	if (recorder_read_stats(recorder, &error))
		return;
	recording->duration_ns = elapsed;
	count_cpu(recorder, CPU_READING, recording->counts);
	config->progress(recording, stack_table_totals(recorder->collector.stacks), config->arg);
}

/* The times of the windows follow the clock, which is known when they are taken. */
static void recorder_note_clock(struct recorder *recorder, const struct recorder_config *config)
{
	struct error message;
	int64_t step;

	wall_clock_update(&recorder->clock);
	step = wall_clock_take_step(&recorder->clock);
	if (!step)
		return;
	recorder->clock_steps++;
	error_set(&message, 0, "the clock was set %s by %.1f s: times of profiles follow it",
		  step > 0 ? "ahead" : "back", (double)llabs(step) / (double)NS_PER_SECOND);
	config->warning(message.text, config->arg);
}

static void recorder_follow_moved_text(struct recorder *recorder, int64_t now)
{
	const uint64_t events = address_spaces_anonymous_code(recorder->collector.spaces);

	if (now >= recorder->compare_at)
		recorder->compare_at = 0;
	if (events != recorder->anonymous_code && now >= recorder->compare_next) {
		recorder->compare_at = now + COMPARE_DELAY_NS;
		recorder->compare_next = now + COMPARE_INTERVAL_NS;
	}
	recorder->anonymous_code = events;
}

/* Until when the reader may sleep. */
static int64_t recorder_next_drain(const struct recorder *recorder, int64_t end)
{
	int64_t next = end;

	if (recorder->wake_at && recorder->wake_at < next)
		next = recorder->wake_at;
	if (recorder->compare_at && recorder->compare_at < next)
		next = recorder->compare_at;
	return next;
}

/* Samples until something ends it: the command, the duration, the caller, an error. */
static int sample_until_end(struct recorder *recorder, const struct recorder_config *config,
			    int64_t start, struct error *error)
{
	int64_t end = config->seconds > 0
			      ? start + (int64_t)(config->seconds * (double)NS_PER_SECOND)
			      : INT64_MAX;
	int64_t interval = config->session->pid_count ? PIDS_INTERVAL_NS : DRAIN_INTERVAL_NS;
	int64_t next_progress = start + PROGRESS_INTERVAL_NS;
	bool ended = false;
	int err = 0;

	while (!err && !ended) {
		struct pollfd fds[2 + COLLECTOR_FDS] = {
			{.fd = device_fd(recorder->session.device), .events = POLLIN},
			{.fd = config->wake_fd, .events = POLLIN},
		};
		size_t count = 2 + collector_poll(&recorder->collector, fds + 2);
		int64_t now = now_ns(CLOCK_MONOTONIC);
		int64_t until = recorder_next_drain(recorder, end);
		int64_t wait = until - now < interval ? until - now : interval;
		struct timespec timeout = {.tv_sec = wait > 0 ? wait / NS_PER_SECOND : 0,
					   .tv_nsec = wait > 0 ? wait % NS_PER_SECOND : 0};

		if (ppoll(fds, count, &timeout, NULL) < 0 && errno != EINTR)
			return error_errno(error, errno, "can't wait for samples");
		err = drain_rings(recorder, error);
		recorder_note_clock(recorder, config);
		ended = config->stop_requested(config->arg);
		if (!err && config->drained)
			config->drained(config->arg);
		child_command_reap(&recorder->command);
		now = now_ns(CLOCK_MONOTONIC);
		recorder_follow_moved_text(recorder, now);
		ended = ended || recorder->command.ended || now >= end;
		/* POLLHUP: the session was stopped. */
		recorder->is_ended_by_others = !ended && (fds[0].revents & POLLHUP);
		ended = ended || recorder->is_ended_by_others ||
			(config->session->pid_count && process_watch_has_ended(&recorder->targets));
		if (!err && config->progress && now >= next_progress) {
			recorder_report_progress(recorder, config, now - recorder->start);
			next_progress = now + PROGRESS_INTERVAL_NS;
		}
	}
	return err;
}

static void release_reserve(struct recorder *recorder)
{
	free(recorder->reserve);
	recorder->reserve = NULL;
}

/* From start to stop of the timers; all samples and counters are read then. */
static int run_session(struct recorder *recorder, const struct recorder_config *config,
		       struct error *error)
{
	struct recording *recording = &recorder->recording;
	struct error later = {""};
	int later_err;
	int err;

	/* Before the timers start: no sample is older than the profile says. */
	recorder->start = now_ns(CLOCK_MONOTONIC);
	wall_clock_start(&recorder->clock);
	recorder->taken_suspended_ns = recorder->clock.suspended_ns;
	recording->start_ns =
		wall_clock_ns(&recorder->clock, recorder->start, recorder->taken_suspended_ns);
	err = session_set_state(&recorder->session, STACKBEAT_STATE_RUNNING, error);
	if (err)
		return err;
	if (config->command)
		err = child_command_release(&recorder->command, config->command[0], error);
	if (err)
		return err;
	err = sample_until_end(recorder, config, now_ns(CLOCK_MONOTONIC), error);
	release_reserve(recorder);
	/* An error loses nothing that was recorded before it: all of these steps run. */
	later_err = session_set_state(&recorder->session, STACKBEAT_STATE_STOPPED, &later);
	error_keep_first(&err, error, later_err, &later);
	recording->duration_ns = now_ns(CLOCK_MONOTONIC) - recorder->start;
	recorder_note_clock(recorder, config);
	recorder->wake_at = 0;
	later_err = drain_last(recorder, config, &later);
	error_keep_first(&err, error, later_err, &later);
	later_err = recorder_read_stats(recorder, &later);
	error_keep_first(&err, error, later_err, &later);
	add_own_counts(recorder);
	collector_verify(&recorder->collector, config->sandbox, config->verify_timeout_s);
	count_cpu(recorder, CPU_READING, recording->counts);
	recorder->stopped = true;
	return err;
}

int recorder_measure(struct recorder *recorder, struct recording *recording, struct error *error)
{
	int err;

	/* After the stop, the counters are as at the stop. */
	if (!recorder->stopped) {
		err = recorder_read_stats(recorder, error);
		if (err)
			return err;
		add_own_counts(recorder);
		recorder->recording.duration_ns = now_ns(CLOCK_MONOTONIC) - recorder->start;
		wall_clock_update(&recorder->clock);
		count_cpu(recorder, CPU_READING, recorder->recording.counts);
	}
	*recording = recorder->recording;
	return 0;
}

/* Sets the times and counters of the period since the last recorder_take(). */
static int measure_window(struct recorder *recorder, struct recording *recording,
			  struct error *error)
{
	int err = recorder_measure(recorder, recording, error);

	if (err)
		return err;
	counters_subtract(recording->counts, recorder->taken.counts);
	recording->gone = &recorder->collector.gone;
	recording->main_path = address_spaces_main_path(recorder->collector.spaces);
	recording->start_ns =
		wall_clock_ns(&recorder->clock, recorder->start + recorder->taken.duration_ns,
			      recorder->taken_suspended_ns);
	recording->clock_ns = wall_clock_ns(&recorder->clock, 0, recorder->taken_suspended_ns);
	recording->duration_ns -= recorder->taken.duration_ns;
	return 0;
}

static int recorder_take_window(struct recorder *recorder, bool last, struct window *window,
				struct recording *recording, struct error *error)
{
	int err = measure_window(recorder, recording, error);

	*window = (struct window){0};
	if (!err && last)
		err = collector_take_last(&recorder->collector, window, error);
	else if (!err)
		err = collector_take(&recorder->collector, window, error);
	/* The counters of an empty window are for the next one. */
	if (!err && window->samples) {
		recorder->taken = recorder->recording;
		recorder->taken_suspended_ns = recorder->clock.suspended_ns;
	}
	return err;
}

int recorder_take(struct recorder *recorder, struct window *window, struct recording *recording,
		  struct error *error)
{
	return recorder_take_window(recorder, false, window, recording, error);
}

int recorder_take_last(struct recorder *recorder, struct window *window,
		       struct recording *recording, struct error *error)
{
	return recorder_take_window(recorder, true, window, recording, error);
}

void recorder_skip_empty(struct recorder *recorder)
{
	recorder->taken.duration_ns = recorder->recording.duration_ns;
	recorder->taken_suspended_ns = recorder->clock.suspended_ns;
}

int recorder_peek(struct recorder *recorder, struct window **window, struct recording *recording,
		  struct error *error)
{
	int err = measure_window(recorder, recording, error);

	return err ? err : collector_peek(&recorder->collector, window, error);
}

int recorder_open(struct recorder *recorder, const struct recorder_config *config,
		  struct error *error)
{
	int err = collector_init(&recorder->collector, config->labels, config->save_binaries,
				 config->sandbox, config->no_symbolize, error);

	if (err)
		return err;
	collector_limit_memory(&recorder->collector, config->memory, config->takes_when_full);
	recorder->sandbox = config->sandbox;
	recorder->helper = config->helper;
	if (config->shares_sandbox) {
		ask_sandbox(recorder);
		recorder->sandbox_before = recorder->sandbox_cpu;
	}
	err = session_open(&recorder->session, config->session->source, error);
	if (!err)
		collector_start(&recorder->collector, recorder->session.device,
				recorder->session.same_pid_ns);
	return err;
}

static int use_tables(struct recorder *recorder, const struct recorder_config *config,
		      struct error *error)
{
	const struct collector_unwinding unwinding = {
		.sandbox = config->sandbox,
		.max_depth = (uint16_t)config->session->max_depth,
		.copy_size = recorder->session.stack_copy,
		.verifies = config->session->verify,
		.cache = config->cache,
		.message = config->table,
		.arg = config->arg,
	};

	if (!recorder->session.unwind_tables)
		return 0;
	return collector_use_tables(&recorder->collector, &unwinding, error);
}

/* The program that is recorded; where all are, none of them is more than another one. */
static void recorder_follow_main(struct recorder *recorder, const struct session_config *config)
{
	if (recorder->command.pid && !config->system_wide)
		address_spaces_follow_main(recorder->collector.spaces,
					   (uint32_t)recorder->command.pid);
	else if (config->pid_count == 1)
		address_spaces_follow_main(recorder->collector.spaces, config->pids[0]);
}

int recorder_run(struct recorder *recorder, const struct recorder_config *config,
		 struct error *error)
{
	int err = 0;

	/* It takes address space only, as nothing writes to it. */
	recorder->reserve = malloc(RESERVE_BYTES);
	if (!recorder->reserve)
		return error_errno(error, ENOMEM, "can't record");
	if (config->command)
		err = child_command_prepare(&recorder->command, config->command,
					    &config->command_setup, error);
	if (!err)
		recorder_follow_main(recorder, config->session);
	/* After the fork of the command, which inherits the limit of open files. */
	if (!err && process_watch_open(&recorder->targets, config->session->pids,
				       config->session->pid_count))
		err = error_errno(error, ENOMEM, "can't watch the processes");
	if (!err)
		err = session_configure(&recorder->session, config->session, recorder->command.pid,
					error);
	if (!err)
		err = use_tables(recorder, config, error);
	if (!err && recorder->session.parts & STACKBEAT_PART_KERNEL)
		collector_name_generated(&recorder->collector, recorder->session.is_perf,
					 &recorder->session.cpulist);
	if (!err)
		err = reader_rights_reduce(error);
	if (err)
		return err;
	/* Mapped files are kept open. */
	raise_file_limit(FILE_LIMIT_MAX);
	recorder->recording.rate = recorder->session.rate;
	recorder->recording.source = recorder->session.source;
	recorder->recording.is_perf = recorder->session.is_perf;
	recorder->recording.cpus = cpulist_count_online("", &recorder->session.cpulist);
	if (config->configured)
		config->configured(&recorder->session, config->arg);
	return run_session(recorder, config, error);
}

void recorder_close(struct recorder *recorder)
{
	collector_stop(&recorder->collector);
	process_watch_close(&recorder->targets);
	session_close(&recorder->session);
	recorder->stopped = true;
}

void recorder_free(struct recorder *recorder)
{
	child_command_end(&recorder->command);
	recorder_close(recorder);
	release_reserve(recorder);
	collector_clear(&recorder->collector);
}

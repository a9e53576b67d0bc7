// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/symbolize_messages.h"
#include "lib/atomic_file.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/pidfd.h"
#include "pprof/truncation.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "record/child_command.h"
#include "record/collector.h"
#include "record/profile_export.h"
#include "record/sample_queue.h"
#include "record/stack_table.h"
#include "session/device.h"
#include "session/session.h"
#include "symbolize/symbol_cache.h"
#include "symbolize/symbolizer.h"

/*
 * How often the rings are drained when nothing wakes the reader: the kernel does, when there
 * is much, or when address spaces are new. Whether the processes of -p live has to be asked.
 */
#define DRAIN_INTERVAL_NS INT64_C(1000000000)
#define PIDS_INTERVAL_NS INT64_C(250000000)
#define PROGRESS_INTERVAL_NS INT64_C(1000000000)

static const char usage[] =
	"Usage: stackbeat record [OPTION]... [--] [COMMAND [ARG]...]\n"
	"\n"
	"Samples kernel and user stacks and writes a pprof profile: of COMMAND and what it\n"
	"forks, of processes (-p), or else of the whole system, until COMMAND ends, the\n"
	"duration is over, or SIGINT (Ctrl-C) or SIGTERM comes.\n"
	"\n"
	"  -F, --frequency HZ    samples a second and CPU, 1 to 20000, or max (default 99)\n"
	"  -a, --all-cpus        the whole system, also while COMMAND runs\n"
	"  -p, --pid PID[,...]   these processes and what they fork from now on\n"
	"  -t, --tid TID[,...]   these threads\n"
	"  -G, --cgroup PATH     this control group (version 2) and all below it; repeatable\n"
	"      --no-inherit      not what the processes fork\n"
	"      --exclude-comm N  not threads of this name; repeatable\n"
	"  -C, --cpu LIST        these CPUs, as in 0,2-3 (default: all that are neither isolated\n"
	"                        nor nohz_full)\n"
	"  -d, --duration SEC    stop after this many seconds\n"
	"      --labels LIST     labels of the samples: all, none, or some of comm, thread, pid,\n"
	"                        tid, cpu, cgroup, container, truncated (default: all but tid, "
	"cpu)\n"
	"      --label KEY=VALUE one more, on every sample; repeatable\n"
	"      --save-binaries DIR\n"
	"                        keep programs and libraries in DIR/.build-id, to name later\n"
	"      --no-symbolize    addresses alone; 'stackbeat symbolize' names them, also later "
	"and\n"
	"                        elsewhere, and 'stackbeat archive' collects what it needs\n"
	"      --no-cache        neither take names from those of earlier runs nor keep them\n"
	"  -o, --output FILE     default " RECORD_OUTPUT_DEFAULT "; - for standard output\n"
	"      --user            user part of the stacks only\n"
	"      --kernel          kernel part of the stacks only\n"
	"      --max-depth N     user frames a stack, 1 to 1023 (default 255)\n"
	"      --ring-size SIZE  buffer a CPU, a power of two, 64K to 64M (default 512K)\n"
	"      --no-jitter           equal intervals instead of random ones: blind for what runs "
	"in\n"
	"                        step with them\n"
	"      --budget PERCENT  of a CPU that all sampling there may take before its rate is\n"
	"                        halved, 0.1 to 50 (default 5)\n"
	"  -q, --quiet           no progress, no closing line\n"
	"  -h, --help            this text\n"
	"\n"
	"-g is accepted: stacks are always recorded. The exit status is COMMAND's if that is not\n"
	"0; else 0 when a profile with samples was written, 3 when there were no samples, 1 for\n"
	"another failure, 2 for a wrong command line.\n";

struct record {
	struct record_options options;
	struct session session;
	struct collector collector;
	struct child_command target;
	struct recording recording;
	sigset_t old_signals;
	int signals; /* signalfd; 0: none */
	int64_t own_cpu_start; /* ns of CPU time before the recording */
	bool progress;
	bool progress_shown;
	const char *why_ended;
};

/* CPU time that this command has taken since the recording began. */
static uint64_t own_cost_ns(const struct record *record)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID) - record->own_cpu_start;
}

/* The signals that end a recording, or tell that COMMAND has ended, are read. */
static int catch_signals(struct record *record, struct error *error)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &record->old_signals);
	record->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (record->signals < 0) {
		record->signals = 0;
		return error_errno(error, errno, "can't wait for signals");
	}
	return 0;
}

/* While names are looked for, what would end the recording ends that. */
static void await_interruption(const struct record *record)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	signalfd(record->signals, &set, 0);
}

static void read_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		record->why_ended = "signal";
	}
	child_command_reap(&record->target);
	if (record->target.ended)
		record->why_ended = "the command ended";
}

/* Whether all processes given by -p have ended. */
static bool pids_have_ended(const struct record_options *options)
{
	for (size_t i = 0; i < options->session.pid_count; i++) {
		if (!process_exits_within((pid_t)options->session.pids[i], 0))
			return false;
	}
	return options->session.pid_count;
}

static int drain(struct record *record, struct error *error)
{
	int err = session_map(&record->session, error);

	return err ? err : collector_drain(&record->collector, record->session.device, error);
}

/* After the stop: what is still in the rings, and what is still to be told. */
static int drain_last(struct record *record, struct error *error)
{
	struct error warning;
	int err = session_map(&record->session, error);

	if (!err)
		err = collector_finish(&record->collector, record->session.device, &warning, error);
	if (!err && *warning.text)
		fprintf(stderr, "stackbeat: %s\n", warning.text);
	return err;
}

static int read_stats(struct record *record, struct error *error)
{
	struct recording *recording = &record->recording;
	struct netlink_session *session = malloc(sizeof(*session));
	int err;

	if (!session)
		return error_errno(error, ENOMEM, "can't read the counters");
	err = session_get(&record->session, session, error);
	if (!err) {
		recording->lost_full = session->stats[STACKBEAT_S_LOST_FULL];
		recording->lost_tail = session->stats[STACKBEAT_S_LOST_BAD_TAIL];
		recording->missed = session->stats[STACKBEAT_S_MISSED_TICKS];
		recording->idle = session->stats[STACKBEAT_S_IDLE];
		recording->filtered = session->stats[STACKBEAT_S_FILTERED];
		recording->kernel_overhead_ns = session->stats[STACKBEAT_S_OVERHEAD_NS] +
						session->stats[STACKBEAT_S_WORKER_OVERHEAD_NS] +
						session->stats[STACKBEAT_S_PROBE_OVERHEAD_NS];
		recording->ticks = session->stats[STACKBEAT_S_TICKS];
		recording->tick_time_ns = session->stats[STACKBEAT_S_TICK_TIME_NS];
		recording->throttled = session->stats[STACKBEAT_S_THROTTLED];
		recording->spaces = session->stats[STACKBEAT_S_ADDRESS_SPACES];
		recording->samples_without_space =
			session->stats[STACKBEAT_S_SAMPLES_WITHOUT_SPACE];
		recording->spaces_unread = session->stats[STACKBEAT_S_SPACES_UNREAD];
		recording->mmap_events_lost = session->stats[STACKBEAT_S_MMAP_EVENTS_LOST];
		recording->mappings_dropped = session->stats[STACKBEAT_S_MAPPINGS_DROPPED];
		recording->mappings_without_file =
			session->stats[STACKBEAT_S_MAPPINGS_WITHOUT_FILE];
	}
	free(session);
	return err;
}

/* What the reader itself has left out. */
static void add_own_counts(struct record *record)
{
	struct address_space_counts counts;

	address_spaces_counts(record->collector.spaces, &counts);
	record->recording.mappings_dropped += counts.left_out;
	record->recording.perf_maps_dropped = counts.perf_maps_dropped;
	record->recording.samples_early = sample_queue_early(record->collector.intake);
}

static int show_progress(struct record *record, int64_t elapsed, struct error *error)
{
	const struct sample_totals *totals = stack_table_totals(record->collector.profile);
	struct recording *recording = &record->recording;
	int err = read_stats(record, error);

	if (err)
		return err;
	recording->duration_ns = elapsed;
	recording->reader_overhead_ns = own_cost_ns(record);
	fprintf(stderr,
		"\r%.0f s, %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64
		" unique stacks, cost %.2f %%\033[K",
		(double)elapsed / NS_PER_SECOND, totals->samples,
		recording->lost_full + recording->lost_tail, totals->stacks,
		recording_overhead_percent(recording));
	record->progress_shown = true;
	return 0;
}

/* Samples until something ends it: the command, the duration, a signal, an error. */
static int sample(struct record *record, int64_t start, struct error *error)
{
	const struct record_options *options = &record->options;
	int64_t end = options->seconds > 0
			      ? start + (int64_t)(options->seconds * (double)NS_PER_SECOND)
			      : INT64_MAX;
	int64_t interval = options->session.pid_count ? PIDS_INTERVAL_NS : DRAIN_INTERVAL_NS;
	int64_t next_progress = record->progress ? start + PROGRESS_INTERVAL_NS : INT64_MAX;
	int err = 0;

	while (!err && !record->why_ended) {
		struct pollfd fds[] = {
			{.fd = device_fd(record->session.device), .events = POLLIN},
			{.fd = record->signals, .events = POLLIN},
		};
		int64_t now = now_ns(CLOCK_MONOTONIC);
		int64_t wait = end - now < interval ? end - now : interval;
		struct timespec timeout = {.tv_sec = wait > 0 ? wait / NS_PER_SECOND : 0,
					   .tv_nsec = wait > 0 ? wait % NS_PER_SECOND : 0};

		if (ppoll(fds, 2, &timeout, NULL) < 0 && errno != EINTR)
			return error_errno(error, errno, "can't wait for samples");
		err = drain(record, error);
		read_signals(record);
		now = now_ns(CLOCK_MONOTONIC);
		if (now >= end)
			record->why_ended = "the duration is over";
		else if (fds[0].revents & POLLHUP)
			record->why_ended = "the session was stopped";
		else if (pids_have_ended(options))
			record->why_ended = "the processes have ended";
		if (!err && now >= next_progress) {
			err = show_progress(record, now - start, error);
			next_progress = now + PROGRESS_INTERVAL_NS;
		}
	}
	return err;
}

/* From start to stop of the timers; all samples and counters are in hand then. */
static int run_session(struct record *record, struct error *error)
{
	struct recording *recording = &record->recording;
	int64_t start;
	int err = session_set_state(&record->session, STACKBEAT_STATE_RUNNING, error);

	if (err)
		return err;
	record->own_cpu_start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	recording->start_ns = now_ns(CLOCK_REALTIME);
	start = now_ns(CLOCK_MONOTONIC);
	if (record->options.command)
		err = child_command_release(&record->target, record->options.command[0], error);
	if (!err)
		err = sample(record, start, error);
	if (!err)
		err = session_set_state(&record->session, STACKBEAT_STATE_STOPPED, error);
	recording->duration_ns = now_ns(CLOCK_MONOTONIC) - start;
	if (!err)
		err = drain_last(record, error);
	if (!err)
		err = read_stats(record, error);
	if (!err)
		add_own_counts(record);
	recording->reader_overhead_ns = own_cost_ns(record);
	if (record->progress_shown)
		fputs("\r\033[K", stderr);
	return err;
}

static int record_session(struct record *record, struct error *error)
{
	const struct record_options *options = &record->options;
	int err;

	/* A profile that can't be written should be known before it is taken. */
	err = atomic_file_check(options->output, error);
	if (err)
		return err;
	err = collector_init(&record->collector, options->labels.chosen, options->save_binaries,
			     options->nameless, error);
	if (err)
		return err;
	err = session_open(&record->session, error);
	if (*record->session.loaded && !options->quiet)
		fprintf(stderr, "stackbeat: loaded %s\n", record->session.loaded);
	if (err)
		return err;
	collector_start(&record->collector, record->session.device, record->session.same_pid_ns);
	err = catch_signals(record, error);
	if (err)
		return err;
	if (options->command) {
		err = child_command_prepare(&record->target, options->command, &record->old_signals,
					    error);
		if (err)
			return err;
	}
	err = session_configure(&record->session, &options->session, record->target.pid, error);
	if (err)
		return err;
	record->recording.rate = record->session.rate;
	record->recording.cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return run_session(record, error);
}

static void print_count(uint64_t count, const char *of, const char **separator)
{
	if (!count)
		return;
	fprintf(stderr, "%s%s %" PRIu64, *separator, of, count);
	*separator = ", ";
}

static void print_summary(const struct record *record, const struct truncation_counts *counts,
			  uint64_t size)
{
	const struct sample_totals *totals = stack_table_totals(record->collector.profile);
	const struct recording *recording = &record->recording;
	uint64_t lost = recording->lost_full + recording->lost_tail;
	const char *separator = " (";

	fprintf(stderr, "stackbeat: %" PRIu64 " samples in %.1f s, %" PRIu64 " lost",
		totals->samples, (double)recording->duration_ns / NS_PER_SECOND, lost);
	print_count(recording->lost_full, "ring full", &separator);
	print_count(recording->lost_tail, "bad reader position", &separator);
	fprintf(stderr, "%s, %" PRIu64 " truncated", lost ? ")" : "", truncation_total(counts));
	separator = " (";
	for (enum truncation cause = 0; cause < TRUNCATED_COUNT; cause++)
		print_count(counts->samples[cause], truncation_name(cause), &separator);
	fputs(truncation_total(counts) ? ")" : "", stderr);
	if (recording->throttled)
		fprintf(stderr, ", throttled %" PRIu64 " times", recording->throttled);
	separator = "; incomplete: ";
	print_count(recording->samples_without_space, "samples without an address space",
		    &separator);
	print_count(recording->spaces_unread, "address spaces not read", &separator);
	print_count(recording->mmap_events_lost, "mapping events lost", &separator);
	print_count(recording->mappings_dropped, "mappings dropped", &separator);
	print_count(recording->mappings_without_file, "mappings without a file", &separator);
	print_count(recording->perf_maps_dropped, "perf maps dropped", &separator);
	print_count(recording->samples_early, "samples resolved before their mappings arrived",
		    &separator);
	if (counts->unmapped)
		fprintf(stderr, "%suser frames outside all mappings %" PRIu64 " of %" PRIu64,
			separator, counts->unmapped, counts->user_frames);
	fprintf(stderr, "; %s, %.1f kB; overhead %.2f %% of %u CPUs\n", record->options.output,
		(double)size / 1000, recording_overhead_percent(recording), recording->cpus);
}

static void print_kept(const struct record *record)
{
	const struct mapped_files *objects = record->collector.objects;
	struct mapped_files_counts counts;

	mapped_files_counts(objects, &counts);
	if (!record->options.quiet)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries saved in %s\n", counts.kept,
			record->options.save_binaries);
	if (counts.without_id)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries not saved: no build ID\n",
			counts.without_id);
	if (counts.not_kept)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries not saved: %s\n", counts.not_kept,
			mapped_files_save_problem(objects));
}

/* Why there is nothing to write, from what the counters say. */
static void explain_no_samples(const struct record *record, struct error *error)
{
	const struct recording *recording = &record->recording;

	if (recording->lost_full + recording->lost_tail)
		error_set(error, ENODATA, "no samples: all %" PRIu64 " were lost",
			  recording->lost_full + recording->lost_tail);
	else if (recording->filtered)
		error_set(error, ENODATA,
			  "no samples: nothing that the filter selects was running at any of the "
			  "%" PRIu64 " ticks",
			  recording->filtered + recording->idle);
	else if (recording->idle)
		error_set(error, ENODATA, "no samples: the CPUs were idle at all %" PRIu64 " ticks",
			  recording->idle);
	else
		error_set(error, ENODATA,
			  "no samples: the recording ended before the first tick, which comes "
			  "after 1/%u s; "
			  "a higher -F gives more",
			  recording->rate);
}

static int write_profile(struct record *record, struct error *error)
{
	struct symbolize_messages log = {.progress = record->progress};
	char cache[PATH_MAX];
	const struct symbolize_options naming = {
		.cache = !record->options.no_cache && symbol_cache_directory(cache) ? cache : NULL,
		.problem = symbolize_messages_problem,
		.progress = symbolize_messages_progress,
		.stop = record->signals,
		.interrupted = symbolize_messages_interrupted,
		.arg = &log,
	};
	struct error warning;
	struct truncation_counts counts;
	uint64_t size;
	int err;

	if (!stack_table_totals(record->collector.profile)->samples) {
		explain_no_samples(record, error);
		return -ENODATA;
	}
	await_interruption(record);
	record->recording.nameless = record->options.nameless;
	record->recording.naming = record->options.nameless ? NULL : &naming;
	err = export_profile(record->collector.profile, record->collector.objects,
			     &record->recording, record->options.output, &counts, &size, &warning,
			     error);
	record->recording.naming = NULL;
	symbolize_messages_end(&log);
	if (err)
		return err;
	if (*warning.text && (record->session.parts & STACKBEAT_PART_KERNEL))
		fprintf(stderr, "stackbeat: kernel functions have no names: %s\n", warning.text);
	if (!record->options.quiet)
		print_summary(record, &counts, size);
	if (record->options.save_binaries)
		print_kept(record);
	return 0;
}

/* The command line in one line, for the profile's comments. */
static char *join_words(int argc, char **argv)
{
	size_t size = sizeof("stackbeat");
	char *line, *end;

	for (int i = 0; i < argc; i++)
		size += strlen(argv[i]) + 1;
	line = malloc(size);
	if (!line)
		return NULL;
	end = stpcpy(line, "stackbeat");
	for (int i = 0; i < argc; i++) {
		*end++ = ' ';
		end = stpcpy(end, argv[i]);
	}
	return line;
}

static void record_free(struct record *record)
{
	child_command_end(&record->target);
	collector_stop(&record->collector);
	session_close(&record->session);
	collector_clear(&record->collector);
	if (record->signals)
		close(record->signals);
	free((char *)record->recording.command_line);
}

int cmd_record(int argc, char **argv)
{
	struct record *record = calloc(1, sizeof(*record));
	struct error error = {""};
	int status = 0, err;
	bool pass_status;

	if (!record) {
		fputs("stackbeat record: out of memory\n", stderr);
		return STATUS_FAILED;
	}
	err = record_options_parse(argc, argv, &record->options, &error);
	if (err) {
		fprintf(stderr, "stackbeat record: %s\n", error.text);
		free(record);
		return STATUS_USAGE;
	}
	if (record->options.help) {
		fputs(usage, stdout);
		free(record);
		return 0;
	}

	record->progress = isatty(STDERR_FILENO) && !record->options.quiet;
	record->recording.labels = &record->options.labels;
	record->recording.command_line = join_words(argc, argv);
	err = record->recording.command_line ? record_session(record, &error)
					     : error_errno(&error, ENOMEM, "can't record");
	/* The session is over: its timers, rings and files are not needed to write. */
	collector_stop(&record->collector);
	session_close(&record->session);
	/* What it ended with by itself counts; not what ending it here makes of it. */
	pass_status = record->target.ended && record->target.status;
	if (!err) {
		child_command_end(&record->target);
		err = write_profile(record, &error);
	}
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		status = err == -ENODATA ? STATUS_NO_SAMPLES : STATUS_FAILED;
	}
	record_free(record);
	if (pass_status && (!err || err == -ENODATA))
		status = child_command_pass_status(&record->target);
	free(record);
	return status;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "commands.h"
#include "control.h"
#include "device.h"
#include "encode.h"
#include "error.h"
#include "file.h"
#include "module.h"
#include "options.h"
#include "process.h"
#include "profile.h"
#include "target.h"

/*
 * How often the rings are drained when nothing else wakes the reader: often
 * enough to find the mappings of processes that do not live for long.
 */
#define DRAIN_INTERVAL_NS INT64_C(250000000)
#define PROGRESS_INTERVAL_NS INT64_C(1000000000)
#define NS_PER_SECOND INT64_C(1000000000)

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
	"  -C, --cpu LIST        these CPUs, as in 0,2-3 (default: all)\n"
	"  -d, --duration SEC    stop after this many seconds\n"
	"  -o, --output FILE     default " RECORD_OUTPUT_DEFAULT "; - for standard output\n"
	"      --user            user part of the stacks only\n"
	"      --kernel          kernel part of the stacks only\n"
	"      --max-depth N     user frames a stack, 1 to 1023 (default 255)\n"
	"      --ring-size SIZE  buffer a CPU, a power of two, 64K to 64M (default 512K)\n"
	"  -q, --quiet           no progress, no closing line\n"
	"  -h, --help            this text\n"
	"\n"
	"-g is accepted: stacks are always recorded. The exit status is COMMAND's, or 0 when a\n"
	"profile with samples was written, 1 when not, 2 for a wrong command line.\n";

struct record {
	struct record_options options;
	struct device *device;
	struct control *control;
	struct processes *processes;
	struct profile *profile;
	struct target target;
	struct recording recording;
	sigset_t old_signals;
	int signals; /* signalfd; 0: none */
	int64_t own_cpu_start; /* ns of CPU time before the recording */
	bool progress;
	bool progress_shown;
	const char *why_ended;
};

static int64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * NS_PER_SECOND + time.tv_nsec;
}

/* CPU time that this command has taken since the recording began. */
static uint64_t own_cost_ns(const struct record *record)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID) - record->own_cpu_start;
}

static int open_session(struct record *record, struct error *error)
{
	char path[PATH_MAX];
	int err = device_open(&record->device, error);

	if (err == -ENOENT) {
		err = module_load(NULL, path, error);
		if (err)
			return err;
		if (*path && !record->options.quiet)
			fprintf(stderr, "stackbeat: loaded %s\n", path);
		err = device_open(&record->device, error);
	}
	if (!err)
		err = control_open(&record->control, error);
	return err;
}

static int set_rate(struct record *record, struct error *error)
{
	struct control_module module;
	int err = control_module(record->control, &module, error);

	if (err)
		return err;
	if (!record->options.rate)
		record->options.rate = module.rate_max;
	if (record->options.rate > module.rate_max)
		return error_set(error, ERANGE,
				 "-F %u: the module was loaded with rate_max=%u; try 'stackbeat "
				 "unload', then 'stackbeat load rate_max=%u'",
				 record->options.rate, module.rate_max, record->options.rate);
	return 0;
}

static int configure_session(struct record *record, struct error *error)
{
	const struct record_options *options = &record->options;
	uint32_t child = record->target.pid;
	struct control_settings settings = {
		.set = 1u << STACKBEAT_A_RATE | 1u << STACKBEAT_A_PARTS |
		       1u << STACKBEAT_A_MAX_DEPTH | 1u << STACKBEAT_A_RING_SIZE |
		       1u << STACKBEAT_A_CPUS,
		.parts = options->parts,
		.max_depth = options->max_depth,
		.ring_size = options->ring_size,
		.cpus = options->cpus,
		.pids = options->pids,
		.pid_count = options->pid_count,
	};
	int err = set_rate(record, error);

	if (err)
		return err;
	settings.rate = options->rate;
	if (!settings.pid_count && child && !options->system_wide) {
		settings.pids = &child;
		settings.pid_count = 1;
	}
	if (settings.pid_count)
		settings.set |= 1u << STACKBEAT_A_PIDS;
	err = control_set(record->control, device_session(record->device), &settings, error);
	if (err)
		return err;
	return device_map(record->device, &options->cpulist, error);
}

static int set_state(struct record *record, uint32_t state, struct error *error)
{
	const struct control_settings settings = {
		.set = 1u << STACKBEAT_A_STATE,
		.state = state,
	};

	return control_set(record->control, device_session(record->device), &settings, error);
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

static void read_signals(struct record *record)
{
	struct signalfd_siginfo info;

	while (read(record->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			continue;
		record->why_ended = "signal";
	}
	target_reap(&record->target);
	if (record->target.ended)
		record->why_ended = "the command ended";
}

/* A process that has ended still has its id until its parent has looked; its pidfd tells. */
static bool has_ended(uint32_t pid)
{
	struct pollfd process = {.fd = pidfd_open((pid_t)pid, 0), .events = POLLIN};
	bool ended;

	if (process.fd < 0)
		return errno == ESRCH;
	ended = poll(&process, 1, 0) == 1;
	close(process.fd);
	return ended;
}

/* Whether all processes given by -p have ended. */
static bool pids_have_ended(const struct record_options *options)
{
	for (size_t i = 0; i < options->pid_count; i++) {
		if (!has_ended(options->pids[i]))
			return false;
	}
	return options->pid_count;
}

static int drain(struct record *record, struct error *error)
{
	int err = device_map(record->device, &record->options.cpulist, error);

	if (err)
		return err;
	profile_tick(record->profile);
	err = device_drain(record->device, profile_add, record->profile, error);
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "can't keep the samples");
	return err;
}

static int read_stats(struct record *record, struct error *error)
{
	struct recording *recording = &record->recording;
	struct control_session *session = malloc(sizeof(*session));
	int err;

	if (!session)
		return error_errno(error, ENOMEM, "can't read the counters");
	err = control_get(record->control, device_session(record->device), session, error);
	if (!err) {
		recording->lost_full = session->stats[STACKBEAT_S_LOST_FULL];
		recording->lost_tail = session->stats[STACKBEAT_S_LOST_TAIL];
		recording->missed = session->stats[STACKBEAT_S_MISSED];
		recording->idle = session->stats[STACKBEAT_S_IDLE];
		recording->filtered = session->stats[STACKBEAT_S_FILTERED];
		recording->kernel_cost_ns = session->stats[STACKBEAT_S_COST];
	}
	free(session);
	return err;
}

static int show_progress(struct record *record, int64_t elapsed, struct error *error)
{
	const struct profile_totals *totals = profile_totals(record->profile);
	struct recording *recording = &record->recording;
	int err = read_stats(record, error);

	if (err)
		return err;
	recording->duration_ns = elapsed;
	recording->reader_cost_ns = own_cost_ns(record);
	fprintf(stderr,
		"\r%.0f s, %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64
		" unique stacks, cost %.2f %%\033[K",
		(double)elapsed / NS_PER_SECOND, totals->samples,
		recording->lost_full + recording->lost_tail, totals->stacks,
		recording_cost_percent(recording));
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
	int64_t next_progress = record->progress ? start + PROGRESS_INTERVAL_NS : INT64_MAX;
	int err = 0;

	while (!err && !record->why_ended) {
		struct pollfd fds[] = {
			{.fd = device_fd(record->device), .events = POLLIN},
			{.fd = record->signals, .events = POLLIN},
		};
		int64_t now = now_ns(CLOCK_MONOTONIC);
		int64_t wait = end - now < DRAIN_INTERVAL_NS ? end - now : DRAIN_INTERVAL_NS;
		struct timespec timeout = {.tv_nsec = wait > 0 ? wait : 0};

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
	int err = set_state(record, STACKBEAT_STATE_RUNNING, error);

	if (err)
		return err;
	record->own_cpu_start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	recording->start_ns = now_ns(CLOCK_REALTIME);
	start = now_ns(CLOCK_MONOTONIC);
	if (record->options.command)
		err = target_release(&record->target, record->options.command[0], error);
	if (!err)
		err = sample(record, start, error);
	if (!err)
		err = set_state(record, STACKBEAT_STATE_STOPPED, error);
	recording->duration_ns = now_ns(CLOCK_MONOTONIC) - start;
	if (!err)
		err = drain(record, error);
	if (!err)
		err = read_stats(record, error);
	recording->reader_cost_ns = own_cost_ns(record);
	if (record->progress_shown)
		fputs("\r\033[K", stderr);
	return err;
}

static int record_session(struct record *record, struct error *error)
{
	const struct record_options *options = &record->options;
	struct file file;
	int err;

	/* A profile that can't be written should be known before it is taken. */
	err = file_create(&file, options->output, error);
	if (err)
		return err;
	file_discard(&file);

	record->processes = processes_new("", error);
	if (!record->processes)
		return -ENOMEM;
	record->profile = profile_new(record->processes);
	if (!record->profile)
		return error_errno(error, ENOMEM, "can't record");
	err = open_session(record, error);
	if (err)
		return err;
	err = catch_signals(record, error);
	if (err)
		return err;
	if (options->command) {
		err = target_prepare(&record->target, options->command, &record->old_signals,
				     error);
		if (err)
			return err;
	}
	err = configure_session(record, error);
	if (err)
		return err;
	record->recording.rate = options->rate;
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

static void print_summary(const struct record *record, const struct cuts *cuts, uint64_t size)
{
	const struct profile_totals *totals = profile_totals(record->profile);
	const struct recording *recording = &record->recording;
	uint64_t lost = recording->lost_full + recording->lost_tail;
	const char *separator = " (";

	fprintf(stderr, "stackbeat: %" PRIu64 " samples in %.1f s, %" PRIu64 " lost",
		totals->samples, (double)recording->duration_ns / NS_PER_SECOND, lost);
	print_count(recording->lost_full, "ring full", &separator);
	print_count(recording->lost_tail, "wrong tail", &separator);
	fprintf(stderr, "%s, %" PRIu64 " cut", lost ? ")" : "", cuts_total(cuts));
	separator = " (";
	print_count(cuts->depth, "depth limit", &separator);
	print_count(cuts->frame, "frame pointer", &separator);
	print_count(cuts->memory, "unreadable memory", &separator);
	print_count(cuts->kernel, "kernel part", &separator);
	fprintf(stderr, "%s; %s, %.1f kB; profiling took %.2f %% of %u CPUs\n",
		cuts_total(cuts) ? ")" : "", record->options.output, (double)size / 1000,
		recording_cost_percent(recording), recording->cpus);
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
			  "no samples: what was to be sampled was not running at any of the "
			  "%" PRIu64 " beats",
			  recording->filtered + recording->idle);
	else if (recording->idle)
		error_set(error, ENODATA, "no samples: the CPUs were idle at all %" PRIu64 " beats",
			  recording->idle);
	else
		error_set(error, ENODATA,
			  "no samples: it ended before the first beat, which comes after 1/%u s; "
			  "a higher -F gives more",
			  recording->rate);
}

static int write_profile(struct record *record, struct error *error)
{
	struct error warning;
	struct cuts cuts;
	uint64_t size;
	int err;

	if (!profile_totals(record->profile)->samples) {
		explain_no_samples(record, error);
		return -ENODATA;
	}
	err = encode_profile(record->profile, &record->recording, record->options.output, &cuts,
			     &size, &warning, error);
	if (err)
		return err;
	if (*warning.text && (record->options.parts & STACKBEAT_PART_KERNEL))
		fprintf(stderr, "stackbeat: kernel functions have no names: %s\n", warning.text);
	if (!record->options.quiet)
		print_summary(record, &cuts, size);
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
	target_end(&record->target);
	control_close(record->control);
	device_close(record->device);
	profile_free(record->profile);
	processes_free(record->processes);
	if (record->signals)
		close(record->signals);
	free((char *)record->recording.command_line);
}

int cmd_record(int argc, char **argv)
{
	struct record *record = calloc(1, sizeof(*record));
	struct error error = {""};
	int status = 0, err;

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
	record->recording.command_line = join_words(argc, argv);
	err = record->recording.command_line ? record_session(record, &error)
					     : error_errno(&error, ENOMEM, "can't record");
	/* The session is over: its timers and rings are not needed to write. */
	device_close(record->device);
	record->device = NULL;
	if (!err) {
		target_end(&record->target);
		err = write_profile(record, &error);
	}
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		status = STATUS_FAILED;
	}
	record_free(record);
	if (record->target.ended && (!err || err == -ENODATA) && record->target.status)
		status = target_pass_status(&record->target);
	free(record);
	return status;
}

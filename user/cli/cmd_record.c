// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/symbolize_messages.h"
#include "lib/atomic_file.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/truncation.h"
#include "process/mapped_files.h"
#include "record/child_command.h"
#include "record/recorder.h"
#include "record/stack_table.h"
#include "symbolize/symbolizer.h"

struct record {
	struct record_options options;
	struct recorder recorder;
	struct reader_sandbox sandbox;
	sigset_t old_signals;
	int signals; /* signalfd; 0: none */
	bool progress; /* standard error is a terminal */
	bool progress_shown;
	uint32_t hangup; /* SIGHUP or SIGQUIT that has ended the recording; 0: none */
};

/* Lets a signalfd receive the signals that end a recording, and SIGCHLD of COMMAND. */
static int catch_signals(struct record *record, struct error *error)
{
	struct sigaction hangup;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGCHLD);
	/* nohup(1) ignores SIGHUP, and a blocked signal is received even if it is ignored. */
	sigaction(SIGHUP, NULL, &hangup);
	if (hangup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &record->old_signals);
	record->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (record->signals < 0) {
		record->signals = 0;
		return error_errno(error, errno, "can't wait for signals");
	}
	return 0;
}

/* From now on, SIGINT and SIGTERM interrupt the symbolization; SIGHUP and SIGQUIT do nothing. */
static void catch_interruption(const struct record *record)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	signalfd(record->signals, &set, 0);
}

/* Reads the signals that have come; true if one of them ends the recording. */
static bool stop_requested(void *arg)
{
	struct record *record = arg;
	struct signalfd_siginfo info;
	bool requested = false;

	while (read(record->signals, &info, sizeof(info)) == sizeof(info)) {
		requested = requested || info.ssi_signo != SIGCHLD;
		if (info.ssi_signo == SIGHUP || info.ssi_signo == SIGQUIT)
			record->hangup = info.ssi_signo;
	}
	return requested;
}

static void print_warning(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "stackbeat: %s\n", text);
}

static void show_progress(const struct recording *recording, const struct sample_totals *totals,
			  void *arg)
{
	((struct record *)arg)->progress_shown = true;
	fprintf(stderr,
		"\r%.0f s, %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64
		" unique stacks, overhead %.2f %%\033[K",
		(double)recording->duration_ns / NS_PER_SECOND, totals->samples,
		recording->lost_full + recording->lost_tail, totals->stacks,
		recording_overhead_percent(recording));
}

static int record_session(struct record *record, struct error *error)
{
	const struct record_options *options = &record->options;
	struct recorder_config config = {
		.session = &options->session,
		.seconds = options->seconds,
		.labels = options->labels.chosen,
		.save_binaries = options->save_binaries,
		.no_symbolize = options->no_symbolize,
		.command = options->command,
		.command_signals = &record->old_signals,
		.stop_requested = stop_requested,
		.warning = print_warning,
		.progress = record->progress ? show_progress : NULL,
		.arg = record,
	};
	int err;

	err = reader_sandbox_start(&record->sandbox, &options->sandbox, !options->no_symbolize,
				   error);
	if (err)
		return err;
	/* An output file that can't be written should fail before the recording. */
	err = atomic_file_check(options->output, error);
	if (err)
		return err;
	err = recorder_open(&record->recorder, &config, error);
	if (*record->recorder.session.loaded && !options->quiet)
		fprintf(stderr, "stackbeat: loaded %s\n", record->recorder.session.loaded);
	if (!err)
		err = catch_signals(record, error);
	if (err)
		return err;
	config.wake_fd = record->signals;
	err = recorder_run(&record->recorder, &config, error);
	if (record->progress_shown)
		fputs("\r\033[K", stderr);
	if (!err && record->hangup)
		err = error_set(error, EINTR, "%s has ended the recording",
				record->hangup == SIGHUP ? "SIGHUP" : "SIGQUIT");
	return err;
}

static void print_count(uint64_t count, const char *name, const char **separator)
{
	if (!count)
		return;
	fprintf(stderr, "%s%s %" PRIu64, *separator, name, count);
	*separator = ", ";
}

static void print_summary(const struct record *record, const char *output,
			  const struct truncation_counts *counts, uint64_t size)
{
	const struct sample_totals *totals = stack_table_totals(record->recorder.collector.stacks);
	const struct recording *recording = &record->recorder.recording;
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
	print_count(recording->samples_without_address_space, "samples without an address space",
		    &separator);
	print_count(recording->address_spaces_unread, "address spaces not read", &separator);
	print_count(recording->mmap_events_lost, "mapping events lost", &separator);
	print_count(recording->mappings_dropped, "mappings dropped", &separator);
	print_count(recording->mappings_without_file, "mappings without a file", &separator);
	print_count(recording->perf_maps_dropped, "perf maps dropped", &separator);
	print_count(recording->samples_early, "samples resolved before their mappings arrived",
		    &separator);
	if (counts->unmapped)
		fprintf(stderr, "%suser frames outside all mappings %" PRIu64 " of %" PRIu64,
			separator, counts->unmapped, counts->user_frames);
	fprintf(stderr, "; %s, %.1f kB; overhead %.2f %% of %u CPUs\n", output, (double)size / 1000,
		recording_overhead_percent(recording), recording->cpus);
}

static void print_saved(const struct record *record)
{
	const struct mapped_files *files = record->recorder.collector.files;
	struct mapped_files_counts counts;

	mapped_files_counts(files, &counts);
	if (!record->options.quiet)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries saved in %s\n", counts.saved,
			record->options.save_binaries);
	if (counts.without_id)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries not saved: no build ID\n",
			counts.without_id);
	if (counts.not_saved)
		fprintf(stderr, "stackbeat: %" PRIu64 " binaries not saved: %s\n", counts.not_saved,
			mapped_files_save_problem(files));
}

/* Explains by the counters why there are no samples. */
static void explain_no_samples(const struct record *record, struct error *error)
{
	const struct recording *recording = &record->recorder.recording;

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

/*
 * Writes a profile that could not be written to its output file to one in TMPDIR, by default
 * /var/tmp: with a name that other users can't predict, and readable by its owner only. Returns 0
 * or a negative errno value.
 */
static int export_elsewhere(const struct recorder *recorder, char path[PATH_MAX],
			    struct truncation_counts *counts, uint64_t *size, struct error *warning,
			    struct error *error)
{
	const char *directory = getenv("TMPDIR");
	uint64_t number;
	mode_t mask;
	int err;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return error_errno(error, errno, "can't name another file");
	snprintf(path, PATH_MAX, "%s/stackbeat-%016" PRIx64 ".pb.gz",
		 directory && *directory ? directory : "/var/tmp", number);
	mask = umask(077);
	err = export_profile(recorder->collector.stacks, recorder->collector.files,
			     &recorder->recording, path, counts, size, warning, error);
	umask(mask);
	return err;
}

static int write_profile(struct record *record, struct error *error)
{
	struct recorder *recorder = &record->recorder;
	struct symbolize_messages messages = {.progress = record->progress};
	struct symbolize_options symbolize = {
		.problem = symbolize_messages_problem,
		.progress = symbolize_messages_progress,
		.stop = record->signals,
		.interrupted = symbolize_messages_interrupted,
		.timed_out = symbolize_messages_timed_out,
		.arg = &messages,
	};
	const char *output = record->options.output;
	char fallback[PATH_MAX];
	struct error warning;
	struct truncation_counts counts;
	uint64_t size;
	int err;

	if (!stack_table_totals(recorder->collector.stacks)->samples) {
		explain_no_samples(record, error);
		return -ENODATA;
	}
	reader_sandbox_use(&record->sandbox, &record->options.sandbox, &symbolize);
	catch_interruption(record);
	recorder->recording.no_symbolize = record->options.no_symbolize;
	recorder->recording.symbolize = record->options.no_symbolize ? NULL : &symbolize;
	err = export_profile(recorder->collector.stacks, recorder->collector.files,
			     &recorder->recording, output, &counts, &size, &warning, error);
	if (err && err != -ENOMEM && strcmp(output, "-")) {
		fprintf(stderr, "stackbeat: %s\n", error->text);
		output = fallback;
		err = export_elsewhere(recorder, fallback, &counts, &size, &warning, error);
	}
	recorder->recording.symbolize = NULL;
	symbolize_messages_end(&messages);
	if (err)
		return err;
	if (*warning.text && (recorder->session.parts & STACKBEAT_PART_KERNEL))
		fprintf(stderr, "stackbeat: kernel functions have no symbols: %s\n", warning.text);
	if (!record->options.quiet)
		print_summary(record, output, &counts, size);
	if (!record->options.quiet)
		reader_sandbox_print_missing(&record->sandbox);
	if (record->options.save_binaries)
		print_saved(record);
	if (output == fallback)
		return error_set(error, EIO, "the profile is in %s instead", fallback);
	return 0;
}

/* The command line as one string, for the profile's comments; to be freed. */
static char *join_arguments(int argc, char **argv)
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

/*
 * Writes the profile: after an error of the recording, that of the samples before it. Returns the
 * exit status.
 */
static int end_recording(struct record *record, int err, const struct error *reason)
{
	struct recorder *recorder = &record->recorder;
	struct error error;
	int write_err;

	if (err) {
		fprintf(stderr, "stackbeat: %s\n", reason->text);
		if (!recorder->collector.stacks ||
		    !stack_table_totals(recorder->collector.stacks)->samples)
			return STATUS_FAILED;
		recorder->recording.ended_by = reason->text;
	}
	child_command_end(&recorder->command);
	write_err = write_profile(record, &error);
	if (write_err)
		fprintf(stderr, "stackbeat: %s\n", error.text);
	if (write_err == -ENODATA)
		return STATUS_NO_SAMPLES;
	return err || write_err ? STATUS_FAILED : 0;
}

static void record_free(struct record *record)
{
	recorder_free(&record->recorder);
	reader_sandbox_stop(&record->sandbox);
	if (record->signals)
		close(record->signals);
	free((char *)record->recorder.recording.command_line);
}

int cmd_record(int argc, char **argv)
{
	struct record *record = calloc(1, sizeof(*record));
	struct error error = {""};
	struct recorder *recorder;
	bool pass_status;
	int status, err;

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
		print_command_help(&record_help, stdout);
		free(record);
		return 0;
	}

	record->progress = isatty(STDERR_FILENO) && !record->options.quiet;
	recorder = &record->recorder;
	recorder->recording.labels = &record->options.labels;
	recorder->recording.command_line = join_arguments(argc, argv);
	err = recorder->recording.command_line ? record_session(record, &error)
					       : error_errno(&error, ENOMEM, "can't record");
	/* Timers, rings and files of the session are not needed to write the profile. */
	recorder_close(recorder);
	/* The status counts only if the command has ended by itself. */
	pass_status = recorder->command.ended && recorder->command.status;
	status = end_recording(record, err, &error);
	record_free(record);
	if (pass_status && (!status || status == STATUS_NO_SAMPLES))
		status = child_command_pass_status(&recorder->command);
	free(record);
	return status;
}

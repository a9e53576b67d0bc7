// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cache_option.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/record_options.h"
#include "cli/record_output.h"
#include "cli/record_signals.h"
#include "cli/record_summary.h"
#include "cli/symbolize_messages.h"
#include "cli/terminal.h"
#include "debuginfo/file_cache.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/mapped_files.h"
#include "mappings/opened_files.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "record/child_command.h"
#include "record/exporter.h"
#include "record/recorder.h"
#include "record/stack_table.h"
#include "record/verification.h"
#include "symbolize/symbolize_options.h"

struct record {
	struct record_options options;
	struct recorder recorder;
	struct signal_handling old_signals;
	int signals; /* signalfd; 0: none */
	bool progress; /* standard error is a terminal */
	bool progress_shown;
	const char *ending; /* signal that has ended the recording, and is an error; NULL: none */
	struct reader_sandbox sandbox;
	struct file_cache *cache; /* NULL: none */
	struct output_room room;
	struct file_exporter exporter; /* of --snapshot and --rotate */
	bool is_exporter; /* this is the process that writes a file */
	char path[PATH_MAX]; /* of the file that is being written */
	char fallback[PATH_MAX]; /* where it is written instead */
};

/* Returns the name of a signal that ends a recording as an error does, or NULL. */
static const char *ending_signal(uint32_t number)
{
	switch (number) {
	case SIGHUP:
		return "SIGHUP";
	case SIGQUIT:
		return "SIGQUIT";
	case SIGXCPU:
		return "SIGXCPU";
	default:
		return NULL;
	}
}

static bool ends_recording(uint32_t number)
{
	return number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2;
}

/* Reads the signals that have come; true if one of them ends the recording. */
static bool cmd_record_is_stopped(void *arg)
{
	struct record *record = arg;
	struct signalfd_siginfo info;
	bool requested = false;

	while (read(record->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGUSR2)
			record->exporter.is_requested = true;
		requested = requested || ends_recording(info.ssi_signo);
		record->ending = ending_signal(info.ssi_signo) ?: record->ending;
	}
	return requested;
}

static void cmd_record_print_warning(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "stackbeat: %s\n", text);
}

/* The module is the rule; of another source, the user should know what it lacks. */
static void show_source(const struct session *session, void *arg)
{
	const struct record *record = arg;

	if (session->is_perf && !record->options.quiet)
		fprintf(stderr, "stackbeat: source: %s\n", session->source);
	if (*session->module_problem.text && record->options.verbose)
		fprintf(stderr, "stackbeat: the module is not used: %s\n",
			session->module_problem.text);
}

static void show_progress(const struct recording *recording, const struct sample_totals *totals,
			  void *arg)
{
	((struct record *)arg)->progress_shown = true;
	fprintf(stderr,
		"\r%.0f s, %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64
		" unique stacks, overhead %.2f %%\033[K",
		(double)recording->duration_ns / NS_PER_SECOND, totals->samples,
		counters_lost(recording->counts), totals->stacks,
		recording_overhead_percent(recording));
}

static void cmd_record_print_saved(const struct record *record)
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

struct symbolized_window {
	struct recorder *recorder;
	struct recording *recording;
};

static void cmd_record_count_symbols(void *arg)
{
	const struct symbolized_window *window = arg;

	recorder_count_cpu(window->recorder, window->recording, CPU_SYMBOLS);
}

/*
 * Symbolizes a window, and writes it to its file, or else to another place. Returns 0 or a negative
 * errno value: also if it is in the other place, or written without symbols for lack of memory.
 */
static int cmd_record_write_window(struct record *record, const struct window_file *file,
				   struct error *error)
{
	struct symbolize_messages messages = {.progress = record->progress && !record->is_exporter,
					      .verbose = record->options.verbose};
	struct symbolize_options symbolize = {
		.cache = record->cache,
		.problem = symbolize_messages_problem,
		.progress = symbolize_messages_progress,
		.names_progress = symbolize_messages_names,
		.stop = record->signals,
		.interrupted = symbolize_messages_interrupted,
		.timed_out = symbolize_messages_timed_out,
		.arg = &messages,
	};
	struct symbolized_window symbolized = {&record->recorder, file->recording};
	struct truncation_counts counts;
	const char *output = record->path;
	struct error warning, missing;
	int err, export_err;
	uint64_t size;

	reader_sandbox_use(&record->sandbox, &record->options.sandbox, &symbolize);
	file->recording->sandbox = &record->sandbox.server;
	file->recording->symbolize =
		record->options.no_symbolize || file->no_symbols ? NULL : &symbolize;
	file->recording->hides_go_runtime = record->options.hides_go_runtime;
	/* A process that writes a file is counted by its parent, when it has ended. */
	if (!record->is_exporter) {
		file->recording->symbolized = cmd_record_count_symbols;
		file->recording->symbolized_arg = &symbolized;
	}
	export_err = export_profile(file->window, record->recorder.collector.files, file->recording,
				    &counts, &warning, &missing);
	file->recording->symbolize = NULL;
	file->recording->symbolized = NULL;
	symbolize_messages_end(&messages);
	err = pprof_write(file->window->profile, output, &size, error);
	if (err && err != -ENOMEM && !file->is_snapshot) {
		fprintf(stderr, "stackbeat: %s\n", error->text);
		output = record->fallback;
		err = output_write_elsewhere(file->window->profile, record->fallback, &size, error);
	}
	if (err)
		return err;
	if (!file->is_snapshot && *warning.text &&
	    (record->recorder.session.parts & STACKBEAT_PART_KERNEL))
		fprintf(stderr, "stackbeat: kernel functions have no symbols: %s\n", warning.text);
	if (!record->is_exporter)
		recorder_count_cpu(&record->recorder, file->recording, CPU_WRITING);
	if (!file->is_snapshot && !record->options.quiet)
		print_record_summary(file->window, file->recording, &counts, output, size,
				     terminal_columns(STDERR_FILENO), stderr);
	if (!file->is_snapshot && record->options.verbose)
		print_record_cpu(file->recording, stderr);
	if (!file->is_snapshot && !record->options.quiet && !record->options.rotate &&
	    strcmp(output, "-") && isatty(STDERR_FILENO))
		print_next_command(output, stderr);
	if (output != record->fallback)
		return export_err ? error_set(error, ENOMEM, "%s", missing.text) : 0;
	if (export_err)
		cmd_record_print_warning(missing.text, NULL);
	return error_set(error, EIO, "the profile is in %s instead", record->fallback);
}

/* Sets the path of the file of a window. */
static void choose_path(struct record *record, const struct recording *recording)
{
	if (record->options.rotate)
		output_rotated_path(record->options.output, recording->start_ns, record->path);
	else
		snprintf(record->path, PATH_MAX, "%s", record->options.output);
}

/*
 * Writes a file while it records. Of the signals, only those that end the recording interrupt it:
 * in a child, not Ctrl-C, as the recording waits for the child.
 */
static int cmd_record_fork_writer(const struct window_file *file, bool is_child, void *arg)
{
	struct record *record = arg;
	int signals = record->signals, err;
	struct error error;

	record->is_exporter = is_child;
	choose_path(record, file->recording);
	/* An fd of its own, as the signals of the other one are for both. */
	record->signals = record_signals_interruption(!is_child);
	err = cmd_record_write_window(record, file, &error);
	if (err)
		fprintf(stderr, "stackbeat: %s%s\n", file->is_snapshot ? "snapshot: " : "",
			error.text);
	if (record->signals)
		close(record->signals);
	record->signals = signals;
	return err;
}

static void write_if_due(void *arg)
{
	file_exporter_write_if_due(&((struct record *)arg)->exporter);
}

/* Waits until the last file is written; SIGINT and SIGTERM shorten that. */
static void wait_for_exporter(struct record *record)
{
	struct file_exporter *exporter = &record->exporter;

	while (exporter->child.pid)
		file_exporter_note_end(exporter,
				       !record_signals_wait(record->signals, &exporter->child));
}

static int record_session(struct record *record, struct error *error)
{
	const struct record_options *options = &record->options;
	struct recorder_config config = {
		.session = &options->session,
		.seconds = options->seconds,
		.labels = &options->labels,
		.memory = options->memory,
		.takes_when_full = options->rotate > 0,
		.save_binaries = options->save_binaries,
		.no_symbolize = options->no_symbolize,
		.verify_timeout_s = symbolize_timeout_s(&options->sandbox),
		.sandbox = &record->sandbox.server,
		.helper = record->sandbox.has_debuginfod ? record->sandbox.debuginfod.pid : 0,
		.command = options->command,
		.command_setup = {.signals = &record->old_signals,
				  .prints_to_stderr = output_is_stdout(options->output)},
		.stop_requested = cmd_record_is_stopped,
		.drained = record->exporter.interval ? write_if_due : NULL,
		.configured = show_source,
		.warning = cmd_record_print_warning,
		.table = options->verbose ? cmd_record_print_warning : NULL,
		.progress = record->progress ? show_progress : NULL,
		.arg = record,
	};
	int err, fd;

	err = reader_sandbox_start(&record->sandbox, &options->sandbox, !options->no_symbolize,
				   error);
	if (err)
		return err;
	err = cache_option_open(&options->cache, &record->cache, error);
	if (err)
		return err;
	if (*error->text && options->verbose)
		cmd_record_print_warning(error->text, NULL);
	config.cache = record->cache;
	/* An output file that can't be written should fail before the recording. */
	err = output_hold_room(&record->room, options->output, options->rotate > 0, error);
	if (err)
		return err;
	err = recorder_open(&record->recorder, &config, error);
	if (*record->recorder.session.loaded && !options->quiet)
		fprintf(stderr, "stackbeat: loaded %s\n", record->recorder.session.loaded);
	if (err)
		return err;
	fd = record_signals_open(&record->old_signals, error);
	if (fd < 0)
		return fd;
	record->signals = config.wake_fd = fd;
	err = recorder_run(&record->recorder, &config, error);
	if (record->progress_shown)
		fputs("\r\033[K", stderr);
	if (!err && record->ending)
		err = error_set(error, EINTR, "%s has ended the recording", record->ending);
	return err;
}

static void show_verification(const struct record *record)
{
	struct verification_result result;

	if (!record->recorder.collector.verification)
		return;
	verification_result(record->recorder.collector.verification, &result);
	print_verification(&result, stderr);
}

/* Writes what was not written yet. */
static int cmd_record_write_profile(struct record *record, struct error *error)
{
	struct recording recording;
	struct window window;
	struct window_file file = {.window = &window, .recording = &recording};
	struct error missing;
	int err = 0, take_err;

	take_err = recorder_take_last(&record->recorder, &window, &recording, &missing);
	if (window.samples) {
		if (take_err && !recording.ended_by)
			recording.ended_by = missing.text;
		/* SIGHUP and SIGQUIT do nothing any more. */
		record_signals_restrict(record->signals);
		output_release_room(&record->room);
		choose_path(record, &recording);
		err = cmd_record_write_window(record, &file, error);
		if (take_err && err)
			cmd_record_print_warning(missing.text, NULL);
	} else if (!take_err && record->exporter.files) {
		print_lost_at_end(&recording, stderr);
	} else if (!take_err) {
		err = explain_no_samples(&record->recorder.recording, error);
	}
	if (take_err && !err)
		err = error_set(error, -take_err, "%s", missing.text);
	window_clear(&window);
	if (!err && !record->options.quiet)
		reader_sandbox_print_missing(&record->sandbox);
	if (!err && !record->options.quiet)
		show_verification(record);
	if (!err && record->options.save_binaries)
		cmd_record_print_saved(record);
	return err;
}

/* The command line as one string, for the profile's comments; to be freed. */
static char *cmd_record_command_line(int argc, char **argv)
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

/* Whether a file of an earlier recording stays, which a reader of profiles takes for this one's. */
static bool has_old_output(const struct record *record)
{
	const char *output = record->options.output;
	struct stat status;

	/* The signals are opened when the recording begins; earlier errors are about its start. */
	return record->signals && !record->options.rotate && !record->exporter.files &&
	       !output_is_stdout(output) && !stat(output, &status) && S_ISREG(status.st_mode);
}

static void print_without_profile(const struct record *record, const struct error *reason)
{
	if (has_old_output(record))
		fprintf(stderr, "stackbeat: %s; %s is as it was before\n", reason->text,
			record->options.output);
	else
		fprintf(stderr, "stackbeat: %s\n", reason->text);
}

/*
 * Writes the profile: after an error of the recording, the profile of the samples before it.
 * Returns the exit status.
 */
static int end_recording(struct record *record, int err, const struct error *reason)
{
	struct recorder *recorder = &record->recorder;
	struct error error;
	const bool has_samples = recorder->collector.stacks &&
				 stack_table_totals(recorder->collector.stacks)->samples;
	int write_err;

	if (err && has_samples)
		fprintf(stderr, "stackbeat: %s\n", reason->text);
	else if (err)
		print_without_profile(record, reason);
	child_command_end(&recorder->command);
	/* It needs the sandbox of this process. */
	wait_for_exporter(record);
	if (err && !has_samples)
		return STATUS_FAILED;
	if (err)
		recorder->recording.ended_by = reason->text;
	write_err = cmd_record_write_profile(record, &error);
	if (write_err == -ENODATA) {
		print_without_profile(record, &error);
		return STATUS_NO_SAMPLES;
	}
	if (write_err)
		fprintf(stderr, "stackbeat: %s\n", error.text);
	return err || write_err || record->exporter.has_failed ? STATUS_FAILED : 0;
}

static void record_free(struct record *record)
{
	recorder_free(&record->recorder);
	file_cache_close(record->cache);
	reader_sandbox_stop(&record->sandbox);
	output_release_room(&record->room);
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
	if (!err && !record->options.help)
		err = terminal_check_binary(record->options.output, &error);
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

	record->exporter = (struct file_exporter){
		.recorder = &record->recorder,
		.interval = (int64_t)((record->options.snapshot + record->options.rotate) *
				      (double)NS_PER_SECOND),
		.rotates = record->options.rotate > 0,
		.write = cmd_record_fork_writer,
		.warning = cmd_record_print_warning,
		.arg = record,
	};
	record->progress = isatty(STDERR_FILENO) && !record->options.quiet;
	recorder = &record->recorder;
	recorder->recording.labels = &record->options.labels;
	recorder->recording.command_line = cmd_record_command_line(argc, argv);
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

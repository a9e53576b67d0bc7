// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "cli/symbolize_messages.h"
#include "cli/terminal.h"
#include "inspect/go_process.h"
#include "inspect/goroutine_labels.h"
#include "inspect/goroutine_profile.h"
#include "inspect/goroutines.h"
#include "lib/atomic_file.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "runtime/go_layout.h"
#include "symbolize/normalize.h"
#include "symbolize/symbol_source.h"
#include "symbolize/symbolizer.h"

#define GOROUTINES_DEFAULT "goroutines.pb.gz"

struct dump {
	uint32_t pid;
	const char *output; /* NULL: the default */
	bool text, shows_system, no_symbolize, quiet, help;
	struct sandbox_options sandbox_options;
	struct reader_sandbox sandbox;
	struct symbolize_messages messages;
	struct go_process process;
	struct goroutines goroutines;
	struct goroutine_labels labels;
	struct goroutine_profile made;
	int64_t read_ns; /* time that reading the memory took */
};

/* clang-format off */
static const struct cli_option options[] = {
	{'p', "pid", "PID", "the process; also without -p",
	 OPTION_NUMBER(struct dump, pid, 1, INT32_MAX)},
	{'o', "output", "FILE",
	 "output file (default: goroutines.pb.gz; with --text: standard output); - for standard output",
	 OPTION_PATH(struct dump, output)},
	{0, "text", NULL,
	 "write text: each goroutine with its state and stack, like runtime/pprof with debug=2",
	 OPTION_FLAG(struct dump, text)},
	{0, "system", NULL,
	 "include the goroutines of Go's runtime, and with --text its functions",
	 OPTION_FLAG(struct dump, shows_system)},
	{0, "no-symbolize", NULL,
	 "write addresses without symbols, for 'stackbeat symbolize'",
	 OPTION_FLAG(struct dump, no_symbolize)},
	SYMBOLIZE_TIMEOUT_OPTION(struct dump, sandbox_options),
	SANDBOX_OPTION(struct dump, sandbox_options),
	{'q', "quiet", NULL, "print no summary",
	 OPTION_FLAG(struct dump, quiet)},
	{'v', "verbose", NULL, "list all problems with files, not only the first five",
	 OPTION_FLAG(struct dump, messages.verbose)},
	HELP_OPTION(struct dump, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat goroutines [-p] PID [OPTION]...",
	.description =
		"Write the stacks of all goroutines of a running Go program (Go 1.18 and later, "
		"also stripped) as pprof, type goroutine/count. The program is not stopped and "
		"needs no preparation: its memory is read from outside. The kernel module is "
		"not needed.",
	.options = options,
	.notes =
		"Goroutines that run, or that change whenever they are read, have no stack: the "
		"summary and the comments of the profile count them. Reading needs the rights to "
		"trace "
		"the process, see ptrace(2). Exit status: 0 if the output was written; 1 if it was "
		"not; 2 for a wrong command line.",
};

static int cmd_goroutines_parse(int argc, char **argv, struct dump *dump, struct error *error)
{
	int first, err = options_parse(argc, argv, options, false, dump, &first, error);

	if (err || dump->help)
		return err;
	err = options_pid(argc, argv, first, &dump->pid, error);
	if (err)
		return err;
	if (dump->text && dump->no_symbolize)
		return error_set(error, EINVAL, "--text and --no-symbolize can't be combined");
	if (!dump->output)
		dump->output = dump->text ? "-" : GOROUTINES_DEFAULT;
	return dump->text ? 0 : terminal_check_binary(dump->output, error);
}

static void cmd_goroutines_report_problem(void *arg, const char *path, const char *text)
{
	symbolize_messages_problem(&((struct dump *)arg)->messages, path, text);
}

static void cmd_goroutines_report_names(void *arg, size_t done, size_t total, int64_t elapsed_ms)
{
	symbolize_messages_names(&((struct dump *)arg)->messages, done, total, elapsed_ms);
}

static void cmd_goroutines_report_progress(void *arg, const char *path, uint64_t done,
					   uint64_t total)
{
	symbolize_messages_progress(&((struct dump *)arg)->messages, path, done, total);
}

static void cmd_goroutines_report_timeout(void *arg, unsigned int timeout_s, size_t files)
{
	symbolize_messages_timed_out(&((struct dump *)arg)->messages, timeout_s, files);
}

static int cmd_goroutines_symbolize(struct dump *dump, struct error *error)
{
	struct symbolize_options symbolize = {
		.problem = cmd_goroutines_report_problem,
		.progress = cmd_goroutines_report_progress,
		.names_progress = cmd_goroutines_report_names,
		.timed_out = cmd_goroutines_report_timeout,
		.arg = dump,
	};
	struct symbolize_counts counts;
	struct symbol_source source;
	int err;

	reader_sandbox_use(&dump->sandbox, &dump->sandbox_options, &symbolize);
	go_process_symbols(&dump->process, &source);
	err = symbolize_profile(dump->made.profile, &source, &symbolize, &counts, error);
	symbolize_messages_end(&dump->messages);
	return err;
}

static int cmd_goroutines_read(struct dump *dump, struct error *error)
{
	const struct go_process *process = &dump->process;
	struct goroutines_source source;
	int64_t begin = now_ns(CLOCK_MONOTONIC);
	struct error reason;
	int err;

	go_process_source(process, &source);
	err = goroutines_read(&source, &dump->goroutines, &reason);
	if (!err && goroutine_labels_read(&source, &dump->goroutines, &dump->labels))
		err = error_errno(&reason, ENOMEM, "the labels can't be read");
	dump->read_ns = now_ns(CLOCK_MONOTONIC) - begin;
	/* If the program has ended, that is the reason. */
	if (go_process_check(&dump->process, error))
		return -ESRCH;
	return err ? error_set(error, -err, "process %d: %s", process->pid, reason.text) : 0;
}

/* Writes the text to an atomic file. */
struct text_file {
	struct atomic_file file;
	struct error error;
	int err;
};

static ssize_t cmd_goroutines_write(void *cookie, const char *bytes, size_t size)
{
	struct text_file *text = cookie;

	if (!text->err)
		text->err = atomic_file_write(&text->file, bytes, size, &text->error);
	return text->err ? 0 : (ssize_t)size;
}

static int write_as_text(struct dump *dump, const struct goroutine_view *view, uint64_t *size,
			 struct error *error)
{
	struct text_file text = {.err = 0};
	FILE *out;
	int err = atomic_file_create(&text.file, dump->output, error);

	if (err)
		return err;
	out = fopencookie(&text, "w", (cookie_io_functions_t){.write = cmd_goroutines_write});
	if (!out) {
		atomic_file_discard(&text.file);
		return error_errno(error, ENOMEM, "%s", dump->output);
	}
	goroutine_text_print(view, &dump->made, out);
	fclose(out);
	if (text.err) {
		*error = text.error;
		atomic_file_discard(&text.file);
		return text.err;
	}
	err = atomic_file_commit(&text.file, error);
	*size = text.file.size;
	return err;
}

static int write_as_pprof(struct dump *dump, uint64_t *size, struct error *error)
{
	struct truncation_counts truncated;

	if (normalize_profile(dump->made.profile, false, &truncated))
		return error_errno(error, ENOMEM, "can't make the profile");
	return pprof_write(dump->made.profile, dump->output, size, error);
}

static void cmd_goroutines_print_summary(const struct dump *dump, const struct goroutine_view *view,
					 uint64_t size)
{
	const struct goroutines *goroutines = &dump->goroutines;
	uint64_t hidden = goroutine_view_hidden(view);

	fprintf(stderr, "stackbeat: %" PRIu64 " goroutines", goroutines->count - hidden);
	if (hidden)
		fprintf(stderr, " (and %" PRIu64 " of the runtime)", hidden);
	fprintf(stderr, ", %" PRIu64 " running, %" PRIu64 " changed whenever read",
		goroutines->running, goroutines->moving);
	if (goroutines->unread)
		fprintf(stderr, ", %" PRIu64 " not read", goroutines->unread);
	fprintf(stderr, "; read in %.1f ms; %s, %.1f kB\n", (double)dump->read_ns / 1e6,
		dump->output, (double)size / 1000);
}

static int write_output(struct dump *dump, struct error *error)
{
	const struct goroutine_view view = {
		.process = &dump->process,
		.goroutines = &dump->goroutines,
		.labels = &dump->labels,
		.shows_system = dump->shows_system,
	};
	uint64_t size = 0;
	int err = goroutine_profile_make(&view, dump->text, &dump->made);

	if (err)
		return error_errno(error, ENOMEM, "can't make the profile");
	if (!dump->no_symbolize)
		err = cmd_goroutines_symbolize(dump, error);
	if (!err)
		err = dump->text ? write_as_text(dump, &view, &size, error)
				 : write_as_pprof(dump, &size, error);
	if (!err && !dump->quiet)
		cmd_goroutines_print_summary(dump, &view, size);
	return err;
}

static int dump_goroutines(struct dump *dump, struct error *error)
{
	int err = reader_sandbox_start(&dump->sandbox, &dump->sandbox_options, !dump->no_symbolize,
				       error);

	if (!err)
		err = go_process_open(&dump->sandbox.server, (pid_t)dump->pid, &dump->process,
				      error);
	if (err)
		return err;
	if (dump->process.is_newer)
		fprintf(stderr,
			"stackbeat: %s is newer than this version of stackbeat: its goroutines are "
			"read "
			"as in Go 1.%u\n",
			dump->process.runtime.program.version, dump->process.layout->last);
	err = cmd_goroutines_read(dump, error);
	if (!err)
		err = write_output(dump, error);
	if (!err && !dump->quiet)
		reader_sandbox_print_missing(&dump->sandbox);
	return err;
}

int cmd_goroutines(int argc, char **argv)
{
	struct dump dump = {.messages.progress = isatty(STDERR_FILENO), .process.runtime.fd = -1};
	struct error error;
	int err;

	if (cmd_goroutines_parse(argc, argv, &dump, &error)) {
		fprintf(stderr, "stackbeat goroutines: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (dump.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	err = dump_goroutines(&dump, &error);
	goroutine_profile_clear(&dump.made);
	goroutine_labels_clear(&dump.labels);
	goroutines_clear(&dump.goroutines);
	go_process_close(&dump.process);
	reader_sandbox_stop(&dump.sandbox);
	if (!err)
		return STATUS_OK;
	fprintf(stderr, "stackbeat goroutines: %s\n", error.text);
	return STATUS_FAILED;
}

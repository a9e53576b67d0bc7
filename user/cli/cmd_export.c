// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/view_options.h"
#include "lib/atomic_file.h"
#include "lib/error.h"
#include "pprof/profile.h"
#include "report/firefox.h"
#include "report/perfetto.h"
#include "report/speedscope.h"
#include "report/trace.h"
#include "report/units.h"

enum export_format { EXPORT_FIREFOX, EXPORT_PERFETTO, EXPORT_SPEEDSCOPE, EXPORT_NONE };

static const char *const format_names[] = {[EXPORT_FIREFOX] = "firefox",
					   [EXPORT_PERFETTO] = "perfetto",
					   [EXPORT_SPEEDSCOPE] = "speedscope",
					   NULL};

/* The output by default. */
static const char *const format_files[] = {
	[EXPORT_FIREFOX] = "stackbeat.firefox.json",
	[EXPORT_PERFETTO] = "stackbeat.perfetto-trace",
	[EXPORT_SPEEDSCOPE] = "stackbeat.speedscope.json",
};

struct export_arguments {
	struct view_options view;
	enum export_format format;
	const char *output;
};

/* clang-format off */
static const struct cli_option options[] = {
	{0, "format", "FORMAT",
	 "firefox (JSON for the Firefox Profiler, profiler.firefox.com), perfetto (protobuf for "
	 "ui.perfetto.dev and trace_processor) or speedscope (JSON for speedscope.app)",
	 OPTION_CHOICE(struct export_arguments, format, format_names)},
	{'o', "output", "FILE",
	 "output file (default: stackbeat.firefox.json, stackbeat.perfetto-trace or "
	 "stackbeat.speedscope.json); - for standard output",
	 OPTION_PATH(struct export_arguments, output)},
	INPUT_OPTION(struct export_arguments),
	SAMPLE_TYPE_OPTION(struct export_arguments, view.sample_type),
	FILTER_OPTIONS(struct export_arguments),
	GO_HIDE_RUNTIME_OPTION(struct export_arguments, view.hides_go_runtime),
	HELP_OPTION(struct export_arguments, view.help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat export --format FORMAT [OPTION]... [FILE]...",
	.description = "Write a pprof FILE of 'stackbeat record --timestamps' (-: standard input; "
		       "default: " OUTPUT_DEFAULT
		       "), or the sum of several, for a viewer that shows threads and CPUs in "
		       "order of time.",
	.options = options,
	.notes = "Without timestamps, speedscope shows the sums of stacks. Exit status: 0; 1 if "
		 "FILE can't be exported or the output can't be written; 2 for a wrong command "
		 "line.",
};

static int cmd_export_parse(struct export_arguments *arguments, int argc, char **argv,
			    struct error *error)
{
	int err = view_options_parse(argc, argv, options, arguments, &arguments->view, error);

	if (err || arguments->view.help)
		return err;
	if (arguments->format == EXPORT_NONE)
		return error_set(error, EINVAL,
				 "--format is missing: firefox, perfetto or speedscope");
	if (!arguments->output)
		arguments->output = format_files[arguments->format];
	/* The other formats are JSON. */
	return arguments->format == EXPORT_PERFETTO
		       ? terminal_check_binary(arguments->output, error)
		       : 0;
}

static int export_trace(const struct export_arguments *arguments, const struct trace *trace,
			FILE *out)
{
	const char *path = arguments->view.file;
	const char *name = strcmp(path, "-") ? basename(path) : "stackbeat";

	switch (arguments->format) {
	case EXPORT_FIREFOX:
		return print_firefox(trace, name, out);
	case EXPORT_PERFETTO:
		return write_perfetto(trace, out);
	default:
		return print_speedscope_trace(trace, name, out);
	}
}

/* What has no time has no place in a trace. */
static void note_left_out(const struct trace *trace, size_t type)
{
	const struct profile *profile = trace->profile;
	char text[UNIT_TEXT_MAX];

	if (trace->left_out)
		fprintf(stderr,
			"stackbeat export: samples without timestamps are left out: %s in all\n",
			unit_format_best(text, trace->left_out,
					 profile_text(profile, profile->types.items[type].unit)));
}

static int export_timed(const struct export_arguments *arguments, const struct profile *profile,
			size_t type, FILE *out)
{
	struct trace trace;
	int err = trace_make(&trace, profile, type);

	if (!err)
		err = export_trace(arguments, &trace, out);
	if (!err)
		note_left_out(&trace, type);
	trace_clear(&trace);
	return err;
}

/* Exports to a stream in memory: a file that can't be exported leaves nothing behind. */
static int export_profile_to(const struct export_arguments *arguments,
			     const struct profile *profile, FILE *out, struct error *error)
{
	size_t type;
	int err = profile_find_type(profile, arguments->view.sample_type, &type, error);

	if (err)
		return err;
	if (profile->moments.count)
		err = export_timed(arguments, profile, type, out);
	else if (arguments->format == EXPORT_SPEEDSCOPE)
		err = print_speedscope(profile, type, out);
	else
		return error_set(error, EINVAL,
				 "%s: its samples have no timestamps, which the format needs: use "
				 "'stackbeat record --timestamps'",
				 arguments->view.file);
	return err ? error_errno(error, -err, "%s", arguments->view.file) : 0;
}

static int export_files(const struct export_arguments *arguments, struct error *error)
{
	struct viewed viewed;
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	int err = view_read(&arguments->view, &viewed, error);

	if (err)
		return err;
	if (*viewed.note.text)
		fprintf(stderr, "stackbeat export: %s\n", viewed.note.text);
	out = open_memstream(&text, &size);
	err = out ? export_profile_to(arguments, viewed.profile, out, error)
		  : error_errno(error, ENOMEM, "%s", arguments->view.file);
	if (out && fclose(out) && !err)
		err = error_errno(error, ENOMEM, "%s", arguments->view.file);
	if (!err)
		err = atomic_file_store(arguments->output, text, size, error);
	if (!err && strcmp(arguments->output, "-"))
		printf("%s: %zu samples in order of time, %zu kB\n", arguments->output,
		       viewed.profile->moments.count, (size + 512) / 1024);
	free(text);
	viewed_clear(&viewed);
	return err;
}

int cmd_export(int argc, char **argv)
{
	struct export_arguments arguments = {.view.keeps_moments = true, .format = EXPORT_NONE};
	struct error error;

	if (cmd_export_parse(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat export: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.view.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (export_files(&arguments, &error)) {
		fprintf(stderr, "stackbeat export: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "cli/symbolize_messages.h"
#include "cli/terminal.h"
#include "debuginfo/debug_files.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "symbolize/binary_archive.h"
#include "symbolize/find_binary.h"
#include "symbolize/libarchive.h"

#define SUFFIX ".archive.tar.zst"

struct archive_arguments {
	const char *input, *output, *binaries;
	bool no_debug, quiet, help;
	struct sandbox_options sandbox_options;
};

/* clang-format off */
static const struct cli_option options[] = {
	{'o', "output", "ARCHIVE",
	 "output file (default: FILE with " SUFFIX " instead of .pb.gz); - for standard output",
	 OPTION_PATH(struct archive_arguments, output)},
	{0, "binaries", "DIR",
	 "look for programs and libraries there first: a directory that was filled by 'stackbeat "
	 "record' with --save-binaries",
	 OPTION_PATH(struct archive_arguments, binaries)},
	{0, "no-debug", NULL, "collect no debug files",
	 OPTION_FLAG(struct archive_arguments, no_debug)},
	SANDBOX_OPTION(struct archive_arguments, sandbox_options),
	{'q', "quiet", NULL, "print no summary",
	 OPTION_FLAG(struct archive_arguments, quiet)},
	HELP_OPTION(struct archive_arguments, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat archive [OPTION]... FILE",
	.description = "Collect the files that symbolize a pprof FILE (-: standard input): "
		       "programs and libraries, their debug files, and the symbols of the "
		       "running kernel. The archive can be used on another machine: stackbeat "
		       "symbolize --binaries ARCHIVE FILE.",
	.options = options,
	.notes = "Exit status: 0 if the archive was written, even if files are missing; "
		 "1 if it was not; 2 for a wrong command line.",
};

static int cmd_archive_parse(struct archive_arguments *arguments, int argc, char **argv,
			     struct error *error)
{
	int first, err = options_parse(argc, argv, options, false, arguments, &first, error);

	if (err || arguments->help)
		return err;
	err = options_file(argc, argv, first, &arguments->input, error);
	if (err)
		return err;
	if (!strcmp(arguments->input, "-") && !arguments->output)
		return error_set(error, EINVAL,
				 "-o: missing, and standard input has no name for the archive");
	return arguments->output ? terminal_check_binary(arguments->output, error) : 0;
}

/* FILE without .gz and .pb, and with SUFFIX; to be freed. NULL when out of memory. */
static char *default_output(const char *input)
{
	static const char *const endings[] = {".gz", ".pb"};
	size_t length = strlen(input);
	char *output = malloc(length + sizeof(SUFFIX));

	if (!output)
		return NULL;
	strcpy(output, input);
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t ending = strlen(endings[i]);

		if (length > ending && !strcmp(output + length - ending, endings[i]))
			output[length -= ending] = '\0';
	}
	strcpy(output + length, SUFFIX);
	return output;
}

static void cmd_archive_report_missing(void *arg, const char *path, const char *text)
{
	(void)arg;
	symbolize_messages_line(path, text);
}

static int write_archive(const struct archive_arguments *arguments,
			 const struct reader_sandbox *sandbox, const char *output,
			 struct error *error)
{
	static const char *const directories[] = {DEBUG_DIRECTORY};
	struct profile *profile = pprof_read(arguments->input, error);
	struct binary_finder search = {.directory = arguments->binaries};
	const struct archive_plan plan = {
		.sandbox = &sandbox->server,
		.search = &search,
		.directories = directories,
		.directory_count = 1,
		.without_debug = arguments->no_debug,
		.missing = cmd_archive_report_missing,
	};
	struct binary_archive_counts counts;
	int err;

	if (!profile)
		return -EINVAL;
	search.time = profile->time_ns;
	err = binary_archive_create(&plan, profile, output, &counts, error);
	if (!err && !arguments->quiet)
		fprintf(stderr,
			"stackbeat: %zu binaries and %zu debug files, %zu missing; %s, %.1f MB\n",
			counts.binaries, counts.debug_files, counts.missing, output,
			(double)counts.size / 1e6);
	if (!err && !arguments->quiet)
		reader_sandbox_print_missing(sandbox);
	profile_free(profile);
	return err;
}

int cmd_archive(int argc, char **argv)
{
	struct archive_arguments arguments = {0};
	struct reader_sandbox sandbox = {.started = false};
	char *default_name = NULL;
	struct error error;
	int err;

	if (cmd_archive_parse(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat archive: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (!arguments.output) {
		default_name = default_output(arguments.input);
		arguments.output = default_name;
	}
	err = arguments.output ? libarchive_load(&error)
			       : error_errno(&error, ENOMEM, "can't make the archive's name");
	if (!err)
		err = reader_sandbox_start(&sandbox, &arguments.sandbox_options, false, &error);
	if (!err)
		err = write_archive(&arguments, &sandbox, arguments.output, &error);
	reader_sandbox_stop(&sandbox);
	free(default_name);
	if (!err)
		return STATUS_OK;
	fprintf(stderr, "stackbeat archive: %s\n", error.text);
	return STATUS_FAILED;
}

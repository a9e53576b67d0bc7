// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/symbolize_messages.h"
#include "debuginfo/debug_files.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "symbolize/binary_archive.h"
#include "symbolize/find_binary.h"

#define SUFFIX ".archive.tar.zst"

static const char usage[] =
	"Usage: stackbeat archive [OPTION]... FILE\n"
	"\n"
	"Collects what the addresses of a pprof FILE need to be named, while it is there: "
	"programs\n"
	"and libraries, their debug files, and the symbols of the running kernel. The archive can\n"
	"be carried to another machine: stackbeat symbolize --binaries ARCHIVE FILE.\n"
	"A FILE of - is the standard input.\n"
	"\n"
	"  -o, --output ARCHIVE  default: FILE without .pb.gz, and with " SUFFIX ";\n"
	"                        - for standard output\n"
	"      --binaries DIR     look for programs and libraries there first, as they were kept\n"
	"                        by record --save-binaries\n"
	"      --no-debug        no debug files\n"
	"  -q, --quiet           no closing line\n"
	"  -h, --help            this text\n"
	"\n"
	"Exit status: 0 when it was written, also where something is missing; 1 when not; 2 for\n"
	"wrong arguments.\n";

enum {
	OPTION_OBJECTS = 256,
	OPTION_NO_DEBUG,
};

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"binaries", required_argument, NULL, OPTION_OBJECTS},
	{"no-debug", no_argument, NULL, OPTION_NO_DEBUG},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *input, *output, *objects;
	bool no_debug, quiet, help;
};

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct arguments *arguments = arg;

	if (value && !*value)
		return error_set(error, EINVAL, "a path is empty");
	switch (option) {
	case 'o':
		arguments->output = value;
		return 0;
	case OPTION_OBJECTS:
		arguments->objects = value;
		return 0;
	case OPTION_NO_DEBUG:
		arguments->no_debug = true;
		return 0;
	case 'q':
		arguments->quiet = true;
		return 0;
	default:
		arguments->help = true;
		return 0;
	}
}

static int parse(struct arguments *arguments, int argc, char **argv, struct error *error)
{
	int first, err = options_parse(argc, argv, ":o:qh", long_options, parse_option, arguments,
				       &first, error);

	if (err || arguments->help)
		return err;
	err = options_file(argc, argv, first, &arguments->input, error);
	if (err)
		return err;
	if (!strcmp(arguments->input, "-") && !arguments->output)
		return error_set(error, EINVAL, "-o: the standard input gives the archive no name");
	return 0;
}

/* FILE without .gz and .pb; to be freed. NULL when out of memory. */
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

static void report_missing(void *arg, const char *path, const char *text)
{
	(void)arg;
	symbolize_messages_line(path, text);
}

static int collect(const struct arguments *arguments, const char *output, struct error *error)
{
	static const char *const directories[] = {DEBUG_DIRECTORY};
	struct pprof_profile *profile = pprof_read(arguments->input, error);
	struct binary_finder search = {.directory = arguments->objects};
	const struct archive_plan plan = {
		.search = &search,
		.directories = directories,
		.directory_count = 1,
		.without_debug = arguments->no_debug,
		.missing = report_missing,
	};
	struct binary_archive_counts counts;
	int err;

	if (!profile)
		return -EINVAL;
	search.time = profile->message->time_nanos;
	err = binary_archive_create(&plan, profile, output, &counts, error);
	if (!err && !arguments->quiet)
		fprintf(stderr,
			"stackbeat: %zu objects and %zu debug files, %zu missing; %s, %.1f MB\n",
			counts.objects, counts.debug_files, counts.missing, output,
			(double)counts.size / 1e6);
	pprof_profile_free(profile);
	return err;
}

int cmd_archive(int argc, char **argv)
{
	struct arguments arguments = {0};
	char *made = NULL;
	struct error error;
	int err;

	if (parse(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat archive: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.help) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	if (!arguments.output) {
		made = default_output(arguments.input);
		arguments.output = made;
	}
	err = arguments.output ? collect(&arguments, arguments.output, &error)
			       : error_errno(&error, ENOMEM, "can't make the archive's name");
	free(made);
	if (!err)
		return STATUS_OK;
	fprintf(stderr, "stackbeat archive: %s\n", error.text);
	return STATUS_FAILED;
}

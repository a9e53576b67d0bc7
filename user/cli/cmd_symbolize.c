// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/symbolize_messages.h"
#include "debuginfo/debug_files.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "symbolize/binary_archive.h"
#include "symbolize/find_binary.h"
#include "symbolize/offline.h"
#include "symbolize/symbol_cache.h"

#define DIRECTORIES_MAX 16u

static const char usage[] =
	"Usage: stackbeat symbolize [OPTION]... FILE\n"
	"\n"
	"Names the addresses of a pprof FILE (\"-\": the standard input) that have no names: of "
	"one\n"
	"that was recorded with --no-symbolize, perhaps on another machine, or of which files\n"
	"were missing. A file is used only if it has the build id that FILE tells.\n"
	"\n"
	"  -o, --output FILE     where to write it (default: FILE itself); - for standard output\n"
	"      --binaries WHERE   look for programs and libraries there first: a directory, as\n"
	"                        record --save-binaries fills it, or a file of stackbeat archive\n"
	"      --kallsyms FILE   the symbols of the kernel: a copy of its /proc/kallsyms\n"
	"      --debug-dir DIR   look for debug files in DIR/.build-id too; repeatable\n"
	"      --no-cache        neither take names from those of earlier runs nor keep them\n"
	"  -q, --quiet           no closing lines\n"
	"  -h, --help            this text\n"
	"\n"
	"debuginfod is asked for debug files where DEBUGINFOD_URLS is set. Exit status: 0 when it\n"
	"was written, also where names are still missing; 1 when not; 2 for wrong arguments.\n";

enum {
	OPTION_OBJECTS = 256,
	OPTION_KALLSYMS,
	OPTION_DEBUG_DIR,
	OPTION_NO_CACHE,
};

static const struct option long_options[] = {
	{"output", required_argument, NULL, 'o'},
	{"binaries", required_argument, NULL, OPTION_OBJECTS},
	{"kallsyms", required_argument, NULL, OPTION_KALLSYMS},
	{"debug-dir", required_argument, NULL, OPTION_DEBUG_DIR},
	{"no-cache", no_argument, NULL, OPTION_NO_CACHE},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct symbolize {
	const char *input, *output, *objects, *kallsyms_path;
	const char *directories[DIRECTORIES_MAX + 2]; /* of debug files */
	size_t directory_count;
	bool no_cache, quiet, help;
	struct binary_archive bundle; /* unpacked, where `objects` is a file */
	struct kallsyms *kallsyms;
	struct kernel *kernel;
	struct symbolize_messages log;
	size_t missing; /* mappings */
};

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct symbolize *symbolize = arg;

	if (value && !*value)
		return error_set(error, EINVAL, "a path is empty");
	switch (option) {
	case 'o':
		symbolize->output = value;
		return 0;
	case OPTION_OBJECTS:
		symbolize->objects = value;
		return 0;
	case OPTION_KALLSYMS:
		symbolize->kallsyms_path = value;
		return 0;
	case OPTION_DEBUG_DIR:
		if (symbolize->directory_count == DIRECTORIES_MAX)
			return error_set(error, EINVAL, "--debug-dir: more than %u directories",
					 DIRECTORIES_MAX);
		symbolize->directories[symbolize->directory_count++] = value;
		return 0;
	case OPTION_NO_CACHE:
		symbolize->no_cache = true;
		return 0;
	case 'q':
		symbolize->quiet = true;
		return 0;
	default:
		symbolize->help = true;
		return 0;
	}
}

static int parse(struct symbolize *symbolize, int argc, char **argv, struct error *error)
{
	int first, err = options_parse(argc, argv, ":o:qh", long_options, parse_option, symbolize,
				       &first, error);

	if (err || symbolize->help)
		return err;
	err = options_file(argc, argv, first, &symbolize->input, error);
	if (!symbolize->output)
		symbolize->output = symbolize->input;
	return err;
}

static void report_missing(void *arg, const char *path, const char *build_id, size_t count)
{
	struct symbolize *symbolize = arg;

	symbolize->missing++;
	if (symbolize->quiet)
		return;
	fputs("stackbeat: ", stderr);
	utf8_print(stderr, path);
	if (*build_id) {
		fputs(" (build id ", stderr);
		utf8_print(stderr, build_id);
		fputc(')', stderr);
	}
	fprintf(stderr, ": %zu address%s still without names\n", count, count == 1 ? "" : "es");
}

static void report_problem(void *arg, const char *path, const char *text)
{
	symbolize_messages_problem(&((struct symbolize *)arg)->log, path, text);
}

static void report_progress(void *arg, const char *path, uint64_t done, uint64_t total)
{
	symbolize_messages_progress(&((struct symbolize *)arg)->log, path, done, total);
}

/* Makes a directory of --binaries, and finds the symbols of the kernel. */
static int prepare(struct symbolize *symbolize, struct error *error)
{
	struct stat st;
	int err;

	if (symbolize->objects) {
		if (stat(symbolize->objects, &st))
			return error_errno(error, errno, "%s", symbolize->objects);
		if (!S_ISDIR(st.st_mode)) {
			err = binary_archive_unpack(&symbolize->bundle, symbolize->objects, error);
			if (err)
				return err;
			symbolize->objects = symbolize->bundle.directory;
		}
		symbolize->directories[symbolize->directory_count++] = symbolize->objects;
	}
	symbolize->directories[symbolize->directory_count++] = DEBUG_DIRECTORY;
	return 0;
}

static int read_kernel(struct symbolize *symbolize, struct error *error)
{
	const char *root = "";
	char path[PATH_MAX];
	struct error why;
	int err;

	if (symbolize->kallsyms_path) {
		symbolize->kernel = kernel_from_kallsyms(symbolize->kallsyms_path);
		if (!symbolize->kernel)
			return error_errno(error, ENOMEM, "%s", symbolize->kallsyms_path);
		return kallsyms_read(symbolize->kallsyms_path, &symbolize->kallsyms, error);
	}
	if (symbolize->objects &&
	    snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, symbolize->objects) <
		    (int)sizeof(path) &&
	    !access(path, R_OK))
		root = symbolize->objects;
	snprintf(path, sizeof(path), "%s" KALLSYMS_PATH, root);
	symbolize->kernel = kernel_new(root);
	if (!symbolize->kernel)
		return error_errno(error, ENOMEM, "can't read the modules");
	err = kallsyms_read(path, &symbolize->kallsyms, &why);
	if (err == -ENOMEM)
		return error_errno(error, ENOMEM, "%s", path);
	/* Not all profiles have a part of the kernel. */
	return 0;
}

static int name(struct symbolize *symbolize, struct pprof_profile *profile, struct error *error)
{
	const struct binary_finder search = {
		.directory = symbolize->objects,
		.time = profile->message->time_nanos,
	};
	char cache[PATH_MAX];
	const struct offline_symbolizer renaming = {
		.options.cache =
			!symbolize->no_cache && symbol_cache_directory(cache) ? cache : NULL,
		.search = &search,
		.kallsyms = symbolize->kallsyms,
		.kernel = symbolize->kernel,
		.options.directories = symbolize->directories,
		.options.directory_count = symbolize->directory_count,
		.options.problem = report_problem,
		.options.progress = report_progress,
		.options.arg = symbolize,
		.missing = report_missing,
	};
	struct offline_counts counts;
	uint64_t size;
	int err = offline_symbolize(&renaming, profile, &counts, error);

	symbolize_messages_end(&symbolize->log);
	if (!err)
		err = pprof_write_profile(profile, symbolize->output, &size, error);
	if (!err && !symbolize->quiet)
		fprintf(stderr,
			"stackbeat: %zu of %zu addresses without names have names now; %s, "
			"%.1f kB\n",
			counts.named, counts.nameless, symbolize->output, (double)size / 1000);
	return err;
}

static int run(struct symbolize *symbolize, struct error *error)
{
	struct pprof_profile *profile = pprof_read(symbolize->input, error);
	int err = profile ? prepare(symbolize, error) : -EINVAL;

	if (!err)
		err = read_kernel(symbolize, error);
	if (!err)
		err = name(symbolize, profile, error);
	pprof_profile_free(profile);
	kallsyms_free(symbolize->kallsyms);
	kernel_free(symbolize->kernel);
	binary_archive_remove(&symbolize->bundle);
	return err;
}

int cmd_symbolize(int argc, char **argv)
{
	struct symbolize symbolize = {.log.progress = isatty(STDERR_FILENO)};
	struct error error;

	if (parse(&symbolize, argc, argv, &error)) {
		fprintf(stderr, "stackbeat symbolize: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (symbolize.help) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	if (!run(&symbolize, &error))
		return STATUS_OK;
	fprintf(stderr, "stackbeat symbolize: %s\n", error.text);
	return STATUS_FAILED;
}

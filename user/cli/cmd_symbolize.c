// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/read_progress.h"
#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "cli/symbolize_messages.h"
#include "cli/terminal.h"
#include "cli/view_options.h"
#include "debuginfo/debug_files.h"
#include "debuginfo/kallsyms.h"
#include "debuginfo/kernel_image.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/origin.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "symbolize/archive_reader.h"
#include "symbolize/find_binary.h"
#include "symbolize/go_creators.h"
#include "symbolize/go_runtime.h"
#include "symbolize/libarchive.h"
#include "symbolize/normalize.h"
#include "symbolize/offline_source.h"
#include "symbolize/symbolizer.h"

#define DIRECTORIES_MAX 16u

struct symbolize {
	const char *input, *output, *binaries, *kallsyms_path;
	const char *directories[DIRECTORIES_MAX + 2]; /* of debug files */
	size_t directory_count;
	bool hides_go_runtime, quiet, help;
	struct sandbox_options sandbox_options;
	struct reader_sandbox sandbox;
	struct archive_reader *archive; /* if --binaries is a file; NULL: none */
	struct kallsyms *kallsyms;
	struct kernel *kernel;
	struct symbolize_messages messages;
	size_t missing; /* mappings */
};

static int add_debug_directory(const struct cli_option *option, char *value, void *arg,
			       struct error *error)
{
	struct symbolize *symbolize = arg;

	(void)option;
	if (!*value)
		return error_set(error, EINVAL, "--debug-dir: the directory is empty");
	if (symbolize->directory_count == DIRECTORIES_MAX)
		return error_set(error, EINVAL, "--debug-dir: more than %u directories",
				 DIRECTORIES_MAX);
	symbolize->directories[symbolize->directory_count++] = value;
	return 0;
}

/* clang-format off */
static const struct cli_option options[] = {
	{'o', "output", "FILE", "output file (default: FILE itself); - for standard output",
	 OPTION_PATH(struct symbolize, output)},
	{0, "binaries", "WHERE",
	 "look for programs and libraries there first: a directory that was filled by 'stackbeat "
	 "record' with --save-binaries, or an archive of 'stackbeat archive'",
	 OPTION_PATH(struct symbolize, binaries)},
	{0, "kallsyms", "FILE",
	 "symbols of the kernel: a copy of its /proc/kallsyms",
	 OPTION_PATH(struct symbolize, kallsyms_path)},
	{0, "debug-dir", "DIR",
	 "look for debug files in DIR/.build-id too; repeatable",
	 OPTION_CALL(add_debug_directory)},
	GO_HIDE_RUNTIME_OPTION(struct symbolize, hides_go_runtime),
	SYMBOLIZE_TIMEOUT_OPTION(struct symbolize, sandbox_options),
	SANDBOX_OPTION(struct symbolize, sandbox_options),
	{'q', "quiet", NULL, "print no summary and no list of missing binaries",
	 OPTION_FLAG(struct symbolize, quiet)},
	{'v', "verbose", NULL, "list all problems with files, not only the first five",
	 OPTION_FLAG(struct symbolize, messages.verbose)},
	HELP_OPTION(struct symbolize, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat symbolize [OPTION]... FILE",
	.description = "Symbolize the addresses of a pprof FILE (-: standard input) that have "
		       "no symbols yet: it was recorded with --no-symbolize, perhaps on "
		       "another machine, or binaries were missing. A binary is used only if it "
		       "has the build ID that FILE names.",
	.options = options,
	.notes = "Debug files are also fetched from the debuginfod servers in "
		 "DEBUGINFOD_URLS. Exit status: 0 if the profile was written, even if "
		 "symbols are still missing; 1 if it was not; 2 for a wrong command "
		 "line.",
};

static int cmd_symbolize_parse(struct symbolize *symbolize, int argc, char **argv,
			       struct error *error)
{
	int first, err = options_parse(argc, argv, options, false, symbolize, &first, error);

	if (err || symbolize->help)
		return err;
	err = options_file(argc, argv, first, &symbolize->input, error);
	if (err)
		return err;
	if (!symbolize->output)
		symbolize->output = symbolize->input;
	return terminal_check_binary(symbolize->output, error);
}

static void cmd_symbolize_report_missing(void *arg, const char *path, const char *build_id,
					 size_t count)
{
	struct symbolize *symbolize = arg;

	symbolize->missing++;
	if (symbolize->quiet)
		return;
	fputs("stackbeat: ", stderr);
	utf8_print(stderr, path);
	if (*build_id) {
		fputs(" (build ID ", stderr);
		utf8_print(stderr, build_id);
		fputc(')', stderr);
	}
	fprintf(stderr, ": %zu address%s still without symbols\n", count, count == 1 ? "" : "es");
}

static void cmd_symbolize_report_problem(void *arg, const char *path, const char *text)
{
	symbolize_messages_problem(&((struct symbolize *)arg)->messages, path, text);
}

static void cmd_symbolize_report_names(void *arg, size_t done, size_t total, int64_t elapsed_ms)
{
	symbolize_messages_names(&((struct symbolize *)arg)->messages, done, total, elapsed_ms);
}

static void cmd_symbolize_report_progress(void *arg, const char *path, uint64_t done,
					  uint64_t total)
{
	symbolize_messages_progress(&((struct symbolize *)arg)->messages, path, done, total);
}

static void cmd_symbolize_report_timeout(void *arg, unsigned int timeout_s, size_t files)
{
	symbolize_messages_timed_out(&((struct symbolize *)arg)->messages, timeout_s, files);
}

/* Opens the archive or directory of --binaries, and lists the directories of debug files. */
static int open_binaries(struct symbolize *symbolize, const struct profile *profile,
			 struct error *error)
{
	struct stat st;
	int err = 0;

	if (symbolize->binaries) {
		if (stat(symbolize->binaries, &st))
			return error_errno(error, errno, "%s", symbolize->binaries);
		if (S_ISDIR(st.st_mode)) {
			symbolize->directories[symbolize->directory_count++] = symbolize->binaries;
		} else {
			err = archive_reader_open(&symbolize->sandbox.server, symbolize->binaries,
						  profile, &symbolize->archive, error);
			symbolize->binaries = NULL;
		}
	}
	symbolize->directories[symbolize->directory_count++] = DEBUG_DIRECTORY;
	return err;
}

/* Names in an archive have no slash at the start. */
static bool archived_path(const void *archive, const char *name, char path[PATH_MAX])
{
	return archive_reader_path(archive, name + 1, path);
}

/*
 * Reads the kernel of the archive, the directory or this machine: the first that has symbols.
 * Writes the path of the symbols.
 */
static struct kernel *cmd_symbolize_open_kernel(const struct symbolize *symbolize,
						char path[PATH_MAX])
{
	if (symbolize->archive && archived_path(symbolize->archive, KALLSYMS_PATH, path))
		return kernel_from_files(archived_path, symbolize->archive);
	if (symbolize->binaries &&
	    snprintf(path, PATH_MAX, "%s" KALLSYMS_PATH, symbolize->binaries) < PATH_MAX &&
	    !access(path, R_OK))
		return kernel_new(symbolize->binaries);
	strcpy(path, KALLSYMS_PATH);
	return kernel_new("");
}

static int cmd_symbolize_read_kernel(struct symbolize *symbolize, struct error *error)
{
	char path[PATH_MAX];
	struct error why;
	int err;

	if (symbolize->kallsyms_path) {
		symbolize->kernel = kernel_from_kallsyms(symbolize->kallsyms_path);
		if (!symbolize->kernel)
			return error_errno(error, ENOMEM, "%s", symbolize->kallsyms_path);
		return kallsyms_read(symbolize->kallsyms_path, &symbolize->kallsyms, error);
	}
	symbolize->kernel = cmd_symbolize_open_kernel(symbolize, path);
	if (!symbolize->kernel)
		return error_errno(error, ENOMEM, "can't read the modules");
	err = kallsyms_read(path, &symbolize->kallsyms, &why);
	if (err == -ENOMEM)
		return error_errno(error, ENOMEM, "%s", path);
	/* Without kernel symbols: not every profile has kernel frames. */
	return 0;
}

static int cmd_symbolize_find(struct symbolize *symbolize, struct profile *profile,
			      struct symbolize_counts *counts, struct error *error)
{
	const struct binary_finder search = {
		.directory = symbolize->binaries,
		.archive = symbolize->archive,
		.time = profile->time_ns,
	};
	struct symbolize_options options = {
		.directories = symbolize->directories,
		.directory_count = symbolize->directory_count,
		.archive = symbolize->archive,
		.missing = cmd_symbolize_report_missing,
		.problem = cmd_symbolize_report_problem,
		.progress = cmd_symbolize_report_progress,
		.names_progress = cmd_symbolize_report_names,
		.timed_out = cmd_symbolize_report_timeout,
		.arg = symbolize,
	};
	struct truncation_counts truncated;
	struct symbol_source source;
	int err;

	reader_sandbox_use(&symbolize->sandbox, &symbolize->sandbox_options, &options);
	offline_source_init(&source, profile, &search, symbolize->kallsyms, symbolize->kernel);
	if (origin_is_own(profile) && go_creators_locate(profile))
		return error_errno(error, ENOMEM, "can't symbolize the profile");
	err = symbolize_profile(profile, &source, &options, counts, error);
	if (!err && origin_is_own(profile) && normalize_profile(profile, false, &truncated))
		err = error_errno(error, ENOMEM, "can't symbolize the profile");
	if (!err && symbolize->hides_go_runtime && go_runtime_hide(profile))
		err = error_errno(error, ENOMEM, "can't symbolize the profile");
	return err;
}

/* Whether the output would be its own input without a new symbol. */
static bool changes_nothing(const struct symbolize *symbolize,
			    const struct symbolize_counts *counts)
{
	return !counts->named && !symbolize->hides_go_runtime && strcmp(symbolize->output, "-") &&
	       !strcmp(symbolize->output, symbolize->input);
}

static int symbolize_and_write(struct symbolize *symbolize, struct profile *profile,
			       struct error *error)
{
	struct symbolize_counts counts = {0};
	uint64_t size;
	int err = cmd_symbolize_find(symbolize, profile, &counts, error);

	symbolize_messages_end(&symbolize->messages);
	if (!err && changes_nothing(symbolize, &counts)) {
		if (!symbolize->quiet)
			fprintf(stderr,
				"stackbeat: symbolized none of %zu addresses without symbols; %s "
				"is unchanged\n",
				counts.unsymbolized, symbolize->output);
	} else if (!err) {
		err = pprof_write(profile, symbolize->output, &size, error);
		if (err || symbolize->quiet)
			return err;
		fprintf(stderr,
			"stackbeat: symbolized %zu of %zu addresses without symbols; %s, "
			"%.1f kB\n",
			counts.named, counts.unsymbolized, symbolize->output, (double)size / 1000);
	}
	if (!err && !symbolize->quiet)
		reader_sandbox_print_missing(&symbolize->sandbox);
	return err;
}

static int cmd_symbolize_file(struct symbolize *symbolize, struct error *error)
{
	struct profile *profile;
	struct stat st;
	/* Of an archive, for the workers, which can't load it. */
	bool is_file =
		symbolize->binaries && !stat(symbolize->binaries, &st) && !S_ISDIR(st.st_mode);
	int err = is_file ? libarchive_load(error) : 0;

	if (!err)
		err = reader_sandbox_start(&symbolize->sandbox, &symbolize->sandbox_options, true,
					   error);
	if (err) {
		reader_sandbox_stop(&symbolize->sandbox);
		return err;
	}
	profile = read_progress_profile(symbolize->input, true, error);
	err = profile ? open_binaries(symbolize, profile, error) : -EINVAL;
	if (!err)
		err = cmd_symbolize_read_kernel(symbolize, error);
	if (!err)
		err = symbolize_and_write(symbolize, profile, error);
	profile_free(profile);
	kallsyms_free(symbolize->kallsyms);
	kernel_free(symbolize->kernel);
	archive_reader_close(symbolize->archive);
	reader_sandbox_stop(&symbolize->sandbox);
	return err;
}

int cmd_symbolize(int argc, char **argv)
{
	struct symbolize symbolize = {.messages.progress = isatty(STDERR_FILENO)};
	struct error error;

	if (cmd_symbolize_parse(&symbolize, argc, argv, &error)) {
		fprintf(stderr, "stackbeat symbolize: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (symbolize.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (!cmd_symbolize_file(&symbolize, &error))
		return STATUS_OK;
	fprintf(stderr, "stackbeat symbolize: %s\n", error.text);
	return STATUS_FAILED;
}

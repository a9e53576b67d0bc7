// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
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
#include "lib/error.h"
#include "lib/suggest.h"
#include "pprof/profile.h"
#include "report/annotation.h"
#include "report/annotation_json.h"
#include "report/annotation_text.h"
#include "report/frame_name.h"
#include "symbolize/find_binary.h"
#include "symbolize/offline_source.h"
#include "symbolize/symbolizer.h"

#define DIRECTORIES_MAX 16u

struct code_reader {
	struct symbolize_messages messages; /* the first, for callbacks of the messages */
	/* The first problem while code is read: if there is no code, it is why. NULL: none. */
	char *path, *problem;
};

struct annotate {
	const char *input, *binaries;
	const char *directories[DIRECTORIES_MAX + 2]; /* of debug files */
	size_t directory_count;
	struct annotation_query query;
	struct annotation_text_options text;
	struct sandbox_options sandbox_options;
	struct reader_sandbox sandbox;
	struct code_reader reader;
	bool json, help;
};

static int annotate_option_style(const struct cli_option *option, char *value, void *arg,
				 struct error *error)
{
	struct annotate *annotate = arg;

	(void)option;
	if (strcmp(value, "att") && strcmp(value, "intel"))
		return error_set(error, EINVAL, "-M: '%s' is neither att nor intel", value);
	annotate->query.syntax = *value == 'i' ? SYNTAX_INTEL : SYNTAX_ATT;
	return 0;
}

static int annotate_option_directory(const struct cli_option *option, char *value, void *arg,
				     struct error *error)
{
	struct annotate *annotate = arg;

	(void)option;
	if (!*value)
		return error_set(error, EINVAL, "--debug-dir: the directory is empty");
	if (annotate->directory_count == DIRECTORIES_MAX)
		return error_set(error, EINVAL, "--debug-dir: more than %u directories",
				 DIRECTORIES_MAX);
	annotate->directories[annotate->directory_count++] = value;
	return 0;
}

/* clang-format off */
static const struct cli_option options[] = {
	{'i', "input", "FILE", "the profile, as a second argument (default: " OUTPUT_DEFAULT ")",
	 OPTION_PATH(struct annotate, input)},
	{'s', "symbol", "FUNC", "the function, as the first argument",
	 OPTION_PATH(struct annotate, query.name)},
	{'d', "dso", "NAME", "only functions of this program or library",
	 OPTION_PATH(struct annotate, query.file)},
	{'l', "print-line", NULL,
	 "print file and line before each source line, and all lines in the summary",
	 OPTION_FLAG(struct annotate, text.places)},
	{0, "cum", NULL,
	 "print a second column: what the function has called, by the instruction that called it",
	 OPTION_FLAG(struct annotate, text.cum)},
	{0, "asm-raw", NULL, "print the bytes of instructions",
	 OPTION_FLAG(struct annotate, text.bytes)},
	{0, "no-source", NULL, "print instructions only",
	 OPTION_FLAG(struct annotate, text.no_source)},
	{'M', "disassembler-style", "STYLE", "att (default) or intel",
	 OPTION_CALL(annotate_option_style)},
	SAMPLE_TYPE_OPTION(struct annotate, query.sample_type),
	{0, "binaries", "DIR",
	 "look for programs and libraries there first, as symbolize does: copies of record "
	 "--save-binaries DIR, after a rebuild",
	 OPTION_PATH(struct annotate, binaries)},
	{0, "debug-dir", "DIR",
	 "look for debug files in DIR/.build-id too; repeatable",
	 OPTION_CALL(annotate_option_directory)},
	{0, "json", NULL, "print a JSON document, for programs",
	 OPTION_FLAG(struct annotate, json)},
	{0, "stdio", NULL, "accepted, as for perf: the output is always text",
	 OPTION_CALL(option_ignore)},
	SYMBOLIZE_TIMEOUT_OPTION(struct annotate, sandbox_options),
	SANDBOX_OPTION(struct annotate, sandbox_options),
	{'v', "verbose", NULL, "list all problems with files, not only the first five",
	 OPTION_FLAG(struct annotate, reader.messages.verbose)},
	HELP_OPTION(struct annotate, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat annotate [OPTION]... FUNC [FILE]",
	.description = "Print source and instructions of a function, with the share of its "
		       "samples that each has, from a pprof FILE (-: standard input; "
		       "default: " OUTPUT_DEFAULT
		       "). A binary is used only if it has the build ID that FILE "
		       "names.",
	.options = options,
	.notes = "FUNC is a name of report, or its linker name; parameters may be left out. If "
		 "several functions have it, all are printed. Inlined code is printed where it is; "
		 "if FUNC is always inlined, the functions that have it are printed. It needs "
		 "libcapstone. Exit status: 0; 1 if there is no such function or its code can't be "
		 "read; 2 for a wrong command line.",
};

static int cmd_annotate_parse(struct annotate *annotate, int argc, char **argv, struct error *error)
{
	int first, err = options_parse(argc, argv, options, false, annotate, &first, error);

	if (err || annotate->help)
		return err;
	if (!annotate->query.name && first < argc)
		annotate->query.name = argv[first++];
	if (!annotate->input && first < argc)
		annotate->input = argv[first++];
	if (!annotate->query.name || !*annotate->query.name)
		return error_set(error, EINVAL,
				 "no function: 'stackbeat report' lists the functions of a file");
	if (first < argc)
		return error_set(error, EINVAL, "unexpected argument '%s'", argv[first]);
	if (!annotate->input)
		annotate->input = OUTPUT_DEFAULT;
	return 0;
}

/* Suggestions */

static const char *annotate_function_name(const void *context, size_t index)
{
	const struct profile *profile = context;

	return index + 1 < profile->functions.count ? function_name(profile, (uint32_t)index + 1)
						    : NULL;
}

/* Returns a function whose name has the name that was typed, or is similar; NULL: there is none. */
static const char *similar_function(const struct profile *profile, const char *typed)
{
	const char *similar = suggest_word(typed, annotate_function_name, profile), *name;

	for (size_t i = 0; !similar && (name = annotate_function_name(profile, i)); i++) {
		if (strcasestr(name, typed))
			similar = name;
	}
	return similar;
}

static void suggest_function(const struct profile *profile, const char *typed, struct error *error)
{
	const char *similar = similar_function(profile, typed);
	const struct error problem = *error;

	/* It is there, but not in the file of -d. */
	if (similar && !strcmp(similar, typed))
		error_set(error, ENOENT, "%s; without -d, other files have it", problem.text);
	else if (similar)
		error_set(error, ENOENT, "%s; did you mean '%s'?", problem.text, similar);
	else
		error_set(error, ENOENT, "%s; 'stackbeat report' lists them", problem.text);
}

/* Problems with files */

static void annotate_keep_problem(void *arg, const char *path, const char *text)
{
	struct code_reader *reader = arg;

	if (!reader->problem) {
		free(reader->path);
		reader->path = strdup(path);
		reader->problem = reader->path ? strdup(text) : NULL;
		if (reader->problem)
			return;
	}
	symbolize_messages_problem(&reader->messages, path, text);
}

/* Puts the problem that was kept in the place of `error`, if there is no code, or prints it. */
static void annotate_use_problem(struct annotate *annotate, int err, struct error *error)
{
	struct code_reader *reader = &annotate->reader;

	if (reader->problem && err == -ENXIO) {
		/* Some problems begin with the path of the file that was found. */
		const bool has_path = !strncmp(reader->problem, reader->path, strlen(reader->path));

		error_set(error, ENXIO,
			  "the code of '%s' can't be read: %s%s%s; if it was rebuilt or removed "
			  "since the recording, --binaries DIR reads the copy that 'record "
			  "--save-binaries DIR' has made",
			  annotate->query.name, has_path ? "" : reader->path, has_path ? "" : ": ",
			  reader->problem);
	} else if (reader->problem) {
		symbolize_messages_problem(&reader->messages, reader->path, reader->problem);
	}
	free(reader->path);
	free(reader->problem);
	reader->path = reader->problem = NULL;
}

/* Run */

static int symbolize_if_needed(struct profile *profile, const struct symbol_source *source,
			       const struct symbolize_options *symbolize, struct error *error)
{
	struct symbolize_counts counts;

	return symbolize_profile(profile, source, symbolize, &counts, error);
}

static int print_annotation(struct annotate *annotate, const struct annotation *annotation,
			    const struct profile *profile, struct error *error)
{
	struct pager pager = {0};
	int err;

	annotate->text.colors = terminal_has_colors(STDOUT_FILENO);
	if (annotation->is_inlined)
		fprintf(stderr, "stackbeat: '%s' is always inlined: where it is, follows\n",
			annotate->query.name);
	if (*annotation->left_out.text)
		fprintf(stderr, "stackbeat: functions of the kernel named '%s' are left out: %s\n",
			annotate->query.name, annotation->left_out.text);
	pager_start(&pager);
	err = annotate->json ? annotation_print_json(annotation, profile, stdout)
			     : annotation_print(annotation, profile, &annotate->text, stdout);
	if (err)
		error_errno(error, -err, "can't print");
	errno = 0;
	if (!err && (fflush(stdout) || ferror(stdout)))
		err = error_errno(error, errno ? errno : EIO, "standard output");
	/* Who quits the pager has seen enough. */
	if (err == -EPIPE && pager.pid)
		err = 0;
	pager_wait(&pager);
	return err;
}

static int annotate_profile(struct annotate *annotate, struct profile *profile, struct error *error)
{
	const struct binary_finder search = {
		.directory = annotate->binaries,
		.time = profile->time_ns,
	};
	struct symbolize_options symbolize = {
		.directories = annotate->directories,
		.directory_count = annotate->directory_count,
		.problem = symbolize_messages_problem,
		.progress = symbolize_messages_progress,
		.names_progress = symbolize_messages_names,
		.timed_out = symbolize_messages_timed_out,
		.arg = &annotate->reader,
	};
	struct annotation annotation = {0};
	struct symbol_source source;
	int err;

	reader_sandbox_use(&annotate->sandbox, &annotate->sandbox_options, &symbolize);
	offline_source_init(&source, profile, &search, NULL, NULL);
	err = symbolize_if_needed(profile, &source, &symbolize, error);
	symbolize.problem = annotate_keep_problem;
	if (!err)
		err = annotation_make(profile, &annotate->query, &source, &symbolize, &annotation,
				      error);
	annotate_use_problem(annotate, err, error);
	symbolize_messages_end(&annotate->reader.messages);
	if (err == -ENOENT)
		suggest_function(profile, annotate->query.name, error);
	if (!err)
		err = print_annotation(annotate, &annotation, profile, error);
	annotation_clear(&annotation);
	return err;
}

static int annotate_file(struct annotate *annotate, struct error *error)
{
	struct profile *profile = NULL;
	int err = disassembler_load(error);

	if (!err)
		err = reader_sandbox_start(&annotate->sandbox, &annotate->sandbox_options, true,
					   error);
	if (!err) {
		profile = read_progress_profile(annotate->input, false, error);
		err = profile ? annotate_profile(annotate, profile, error) : -EINVAL;
	}
	profile_free(profile);
	reader_sandbox_stop(&annotate->sandbox);
	return err;
}

int cmd_annotate(int argc, char **argv)
{
	struct annotate annotate = {
		.query.syntax = SYNTAX_ATT,
		.query.advice = "; --binaries names a place of it",
		.reader.messages.progress = isatty(STDERR_FILENO),
	};
	struct error error;

	if (cmd_annotate_parse(&annotate, argc, argv, &error)) {
		fprintf(stderr, "stackbeat annotate: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (annotate.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (annotate.binaries)
		annotate.directories[annotate.directory_count++] = annotate.binaries;
	annotate.directories[annotate.directory_count++] = DEBUG_DIRECTORY;
	if (!annotate_file(&annotate, &error))
		return STATUS_OK;
	fprintf(stderr, "stackbeat annotate: %s\n", error.text);
	return STATUS_FAILED;
}

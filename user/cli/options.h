/* SPDX-License-Identifier: GPL-2.0 */
/* The options of all subcommands, and the command line of `stackbeat record`. */
#ifndef STACKBEAT_CLI_OPTIONS_H
#define STACKBEAT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cache_option.h"
#include "pprof/labels.h"
#include "session/session.h"

struct error;
struct profile;

/* An option of a subcommand: how it is parsed, and its entry in --help. */
struct cli_option {
	int id; /* the letter of the short option, or from OPTION_LONG_ONLY on; 0: end of table */
	const char *name; /* of the long option; NULL: it has none */
	const char *value; /* the value's name in --help; NULL: the option takes none */
	const char *help; /* one paragraph */
};

/* Ids of options without a letter: of a subcommand, of struct view_options, and of those below;
 * from 0x3000 on, of cache_option.h. */
enum {
	OPTION_LONG_ONLY = 0x100,
	OPTION_VIEW = 0x1000,
	OPTION_SANDBOX = 0x2000,
};

/* The last entries of each table. */
/* clang-format off */
#define HELP_OPTION {'h', "help", NULL, "show this help"}, {0}
/* clang-format on */

/* The text of --help. Paragraphs have no line breaks. */
struct command_help {
	const char *synopsis; /* the command line */
	const char *description; /* one paragraph */
	const struct cli_option *options;
	const char *notes; /* one paragraph; NULL: none */
};

void print_command_help(const struct command_help *help, FILE *stream);

/* How untrusted files are read (reader_sandbox.h). */
struct sandbox_options {
	bool require; /* refuse to work without a complete sandbox */
	uint32_t timeout_s; /* of the symbolization; 0: not given */
};

/* Entries for a table of options. */
enum {
	SANDBOX_MODE = OPTION_SANDBOX,
	SANDBOX_TIMEOUT,
};

/* clang-format off */
#define SANDBOX_OPTION                                                                             \
	{SANDBOX_MODE, "sandbox", "WHEN",                                                          \
	 "require: fail if the processes that read untrusted files can't be confined completely; " \
	 "try (default): print what is missing"}
#define SYMBOLIZE_TIMEOUT_OPTION                                                                   \
	{SANDBOX_TIMEOUT, "symbolize-timeout", "SEC",                                              \
	 "stop symbolizing after this many seconds, and use the symbols found so far "             \
	 "(default: 120)"}
/* clang-format on */

/* Handles an option of these entries. Returns 0 or -EINVAL. */
int sandbox_option_parse(int id, const char *value, struct sandbox_options *options,
			 struct error *error);

struct record_options {
	struct session_config session;
	double seconds; /* 0: until stopped */
	struct labels labels;
	const char *save_binaries; /* directory, or NULL */
	bool no_symbolize;
	bool hides_go_runtime; /* see symbolize/go_runtime.h */
	struct sandbox_options sandbox;
	struct cache_options cache;
	const char *output;
	double snapshot; /* seconds between two writes of the profile so far; 0: none */
	double rotate; /* seconds of each file; 0: one file */
	uint64_t memory; /* bytes for what is recorded */
	bool quiet;
	bool verbose;
	bool help;
	char **command; /* NULL-terminated, in argv; NULL: none */
};

extern const struct command_help record_help;

/* The output of record, and the input of the subcommands that show a file. */
#define OUTPUT_DEFAULT "stackbeat.pb.gz"

#define STACK_COPY_DEFAULT (8u << 10) /* bytes */
#define MEMORY_DEFAULT (UINT64_C(256) << 20)
#define MEMORY_MIN (UINT64_C(16) << 20)
#define MEMORY_MAX (UINT64_C(1) << 40)

/*
 * Parses argv (argv[0] is the subcommand). Strings stay in argv. Returns 0, or
 * -EINVAL with one line that names the option and what is wrong with it.
 */
int record_options_parse(int argc, char **argv, struct record_options *options,
			 struct error *error);

/* Handles an option, by its id, and its value, NULL if it has none. Returns 0 or -EINVAL. */
typedef int option_fn(int id, char *value, void *arg, struct error *error);

/*
 * Calls `fn` for each option of argv (argv[0] is the subcommand), until it returns other than 0.
 * Options may follow arguments, unless `stop_at_argument`. Sets *first to the index of the first
 * argument. Returns 0, or -EINVAL with one line that names the problem.
 */
int options_parse(int argc, char **argv, const struct cli_option *options, bool stop_at_argument,
		  option_fn *fn, void *arg, int *first, struct error *error);

/*
 * The only argument of argv; `first` is the index that options_parse() has set. Returns 0 or
 * -EINVAL.
 */
int options_file(int argc, char **argv, int first, const char **file, struct error *error);

/*
 * The process of a subcommand: `pid` if -p has set it, or else the only argument of argv; `first`
 * is the index that options_parse() has set. Returns 0 or -EINVAL.
 */
int options_pid(int argc, char **argv, int first, uint32_t *pid, struct error *error);

/* Regular expressions of struct profile_view. */
enum view_pattern { VIEW_FOCUS, VIEW_IGNORE, VIEW_HIDE, VIEW_SHOW, VIEW_PATTERNS };

/* The common part of the subcommands that show a pprof file. */
struct view_options {
	const char *file; /* the first of the files */
	char **files; /* in argv, or the default */
	int file_count;
	const char *sample_type, *group; /* NULL: not given */
	char *base; /* file to compare with; NULL: none */
	bool absolute; /* with `base`: do not scale to its total */
	const char *patterns[VIEW_PATTERNS]; /* regular expressions; NULL: none */
	bool lines; /* names with source lines */
	const char *sort; /* keys, with commas; NULL: functions */
	bool hides_go_runtime; /* see symbolize/go_runtime.h */
	bool help;
};

/* Entries for a table of options. */
enum {
	VIEW_SAMPLE_TYPE = OPTION_VIEW,
	VIEW_GROUP,
	VIEW_DIFF,
	VIEW_ABSOLUTE,
	VIEW_GO_HIDE_RUNTIME,
	VIEW_LINES,
	VIEW_PATTERN, /* and the others of enum view_pattern behind it */
};

/* clang-format off */
#define SAMPLE_TYPE_OPTION                                                                         \
	{VIEW_SAMPLE_TYPE, "sample-type", "NAME",                                                  \
	 "value to show (default: the default of FILE, or its last)"}
#define GO_HIDE_RUNTIME_OPTION(id)                                                                 \
	{id, "go-hide-runtime", NULL,                                                              \
	 "leave out the functions of Go's runtime at the leaf end: their time is the caller's"}
#define FILTER_OPTIONS                                                                             \
	{VIEW_PATTERN + VIEW_FOCUS, "focus", "REGEX",                                              \
	 "show only samples with a frame whose function, source file or file matches"},            \
	{VIEW_PATTERN + VIEW_IGNORE, "ignore", "REGEX", "leave out samples with such a frame"},    \
	{VIEW_PATTERN + VIEW_HIDE, "hide", "REGEX",                                                \
	 "leave out such frames: their time is the caller's"},                                     \
	{VIEW_PATTERN + VIEW_SHOW, "show", "REGEX", "show only such frames"},                      \
	{VIEW_LINES, "lines", NULL, "divide functions by source lines"}
#define GROUP_OPTION(help) {VIEW_GROUP, "group", "LABEL", help}
#define DIFF_OPTIONS                                                                               \
	{VIEW_DIFF, "diff", "BASE", "show how FILE differs from the pprof file BASE, as shares of "    \
				    "their totals"},                                               \
	{VIEW_ABSOLUTE, "absolute", NULL,                                                          \
	 "with --diff: do not scale FILE to the total of BASE"}
/* clang-format on */

/*
 * As options_parse(), for a subcommand with SAMPLE_TYPE_OPTION, GROUP_OPTION, DIFF_OPTIONS,
 * FILTER_OPTIONS and GO_HIDE_RUNTIME_OPTION, which are stored in `view`, and files, by default
 * OUTPUT_DEFAULT; `fn` handles the other options.
 */
int view_options_parse(int argc, char **argv, const struct cli_option *options, option_fn *fn,
		       void *arg, struct view_options *view, struct error *error);

/*
 * Reads the files into one profile, and the base if there is one, else NULL. The caller frees both.
 * Returns 0, or -EINVAL or -ENOMEM with both NULL.
 */
int view_read(const struct view_options *view, struct profile **profile, struct profile **base,
	      struct error *error);

/*
 * Parses a number of bytes, or of KiB, MiB or GiB with the suffix K, M or G. Returns false if it is
 * none, or more than `max`.
 */
bool parse_size(const char *text, uint64_t max, uint64_t *size);

/*
 * Parses a decimal number from `min` to `max`. Returns 0, or -EINVAL; `what` begins the message.
 */
int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The common part of the subcommands that show a pprof file: what they show of it. */
#ifndef STACKBEAT_CLI_VIEW_OPTIONS_H
#define STACKBEAT_CLI_VIEW_OPTIONS_H

#include <stdbool.h>

#include "cli/options.h"
#include "lib/error.h"

struct profile;

/* The output of record, and the input of the subcommands that show a file. */
#define OUTPUT_DEFAULT "stackbeat.pb.gz"

/* Regular expressions of struct profile_view. */
enum view_pattern { VIEW_FOCUS, VIEW_IGNORE, VIEW_HIDE, VIEW_SHOW, VIEW_PATTERNS };

/* The common part of the subcommands that show a pprof file. */
struct view_options {
	const char *file; /* the first of the files */
	char **files; /* in argv, or the file of --input, or the default */
	char *input; /* as perf's option; NULL: not given */
	int file_count;
	const char *sample_type, *group; /* NULL: not given */
	const char *base; /* file to compare with; NULL: none */
	bool absolute; /* with `base`: do not scale to its total */
	bool relative; /* percentages of what is shown */
	const char *patterns[VIEW_PATTERNS]; /* regular expressions; NULL: none */
	bool lines; /* names with source lines */
	bool folds_irqs_off; /* leaves that enable interrupts are a part of their callers */
	const char *sort; /* keys, with commas; NULL: functions */
	bool separates_keys; /* see struct profile_view */
	bool hides_go_runtime; /* see symbolize/go_runtime.h */
	bool keeps_moments; /* of samples: see struct pprof_read_options */
	bool help;
};

/* The regular expression of a pattern, as an OPTION_TEXT. */
option_fn option_pattern;

/* A file name, in a char *. */
option_fn option_input;

/* absolute or relative, in a bool: relative. */
option_fn option_percentage;

/* Rows for the table of a subcommand with a struct view_options in its member `view`. */
/* clang-format off */
#define SAMPLE_TYPE_OPTION(type, member)                                                           \
	{0, "sample-type", "NAME",                                                                 \
	 "value to show (default: the default of FILE, or its last)",                              \
	 OPTION_TEXT(type, member)}
#define INPUT_OPTION(type)                                                                         \
	{'i', "input", "FILE", "the profile, as an argument (default: " OUTPUT_DEFAULT ")",        \
	 .parse = option_input, OPTION_TARGET(char *, type, view.input)}
#define GO_HIDE_RUNTIME_OPTION(type, member)                                                       \
	{0, "go-hide-runtime", NULL,                                                               \
	 "leave out the functions of Go's runtime at the leaf end: their time is the caller's",    \
	 OPTION_FLAG(type, member)}
#define PATTERN_OPTION(type, name, pattern, help)                                                  \
	{0, name, "REGEX", help,                                                                   \
	 OPTION_CALL(option_pattern), OPTION_TARGET(const char *, type, view.patterns[pattern])}
#define FILTER_OPTIONS(type)                                                                       \
	PATTERN_OPTION(type, "focus", VIEW_FOCUS,                                                  \
		       "show only samples with a frame whose function, source file or file "       \
		       "matches"),                                                                 \
	PATTERN_OPTION(type, "ignore", VIEW_IGNORE, "leave out samples with such a frame"),        \
	PATTERN_OPTION(type, "hide", VIEW_HIDE,                                                    \
		       "leave out such frames: their time is the caller's"),                       \
	PATTERN_OPTION(type, "show", VIEW_SHOW, "show only such frames"),                          \
	{0, "lines", NULL, "divide functions by source lines", OPTION_FLAG(type, view.lines)},          \
	{0, "fold-irqs-off", NULL,                                                                 \
	 "leave out kernel functions at the leaf end that enable interrupts: their time is the "   \
	 "caller's",                                                                               \
	 OPTION_FLAG(type, view.folds_irqs_off)}
#define PERCENTAGE_OPTIONS(type)                                                                   \
	{0, "percentage", "KIND",                                                                  \
	 "of what percentages are after --focus and such: absolute: of all samples (default), or " \
	 "relative: of the shown ones",                                                            \
	 OPTION_CALL(option_percentage), OPTION_TARGET(bool, type, view.relative)},                \
	{0, "relative-percentages", NULL, "as --percentage relative",                              \
	 OPTION_FLAG(type, view.relative)}
#define GROUP_OPTION(type, help)                                                                   \
	{0, "group", "LABEL", help, OPTION_TEXT(type, view.group)}
#define DIFF_OPTIONS(type)                                                                         \
	{0, "diff", "BASE",                                                                        \
	 "show how FILE differs from the pprof file BASE, as shares of their totals",              \
	 OPTION_TEXT(type, view.base)},                                                            \
	{0, "absolute", NULL, "with --diff: do not scale FILE to the total of BASE",               \
	 OPTION_FLAG(type, view.absolute)}
/* clang-format on */

/*
 * As options_parse(), for a subcommand with files, by default OUTPUT_DEFAULT; `view` is the member
 * of `options`.
 */
int view_options_parse(int argc, char **argv, const struct cli_option *table, void *options,
		       struct view_options *view, struct error *error);

/* What the options choose of the files. */
struct viewed {
	struct profile *profile;
	struct profile *base; /* NULL: none */
	int64_t total, base_total; /* of the shown type, before samples were chosen */
	struct error note; /* on options without an effect; "": none */
};

/*
 * Reads the files into one profile, and the base if there is one; viewed_clear() frees them.
 * Returns 0, or -EINVAL or -ENOMEM with nothing to free. That nothing is left of the samples is an
 * error, too.
 */
int view_read(const struct view_options *view, struct viewed *viewed, struct error *error);
void viewed_clear(struct viewed *viewed);

/*
 * Checks the label of --group: a label of the viewed files, or one of `others`, a list with ", "
 * between them. Returns 0, or -EINVAL with a message that lists both.
 */
int view_check_group(const char *group, const char *others, const struct viewed *viewed,
		     struct error *error);

#endif

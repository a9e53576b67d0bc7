// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/view_options.h"
#include "pprof/profile.h"
#include "report/call_tree.h"
#include "report/folded.h"
#include "report/machine_report.h"
#include "report/profile_diff.h"
#include "report/speedscope.h"
#include "report/text_report.h"

#define ROWS_DEFAULT 30
#define MIN_PERCENT_DEFAULT 0.5
#define LIMITS_MAX 16u

enum report_form { FORM_TOP, FORM_TREE, FORM_FOLDED, FORM_SPEEDSCOPE };

enum report_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_CSV };

struct report_arguments {
	struct view_options view;
	struct report_options report;
	uint32_t rows;
	uint32_t form; /* enum report_form */
	uint32_t format; /* enum report_format */
	bool rows_given, limit_given;
	regex_t regexes[LIMITS_MAX];
	struct profile_diff_limit limits[LIMITS_MAX];
	size_t limit_count;
};

static int report_option_function(const struct cli_option *option, char *value, void *options,
				  struct error *error)
{
	struct report_arguments *arguments = options;

	(void)error;
	arguments->report.function = value;
	arguments->report.callers = option->constant;
	return 0;
}

static int report_option_format(const struct cli_option *option, char *value, void *options,
				struct error *error)
{
	struct report_arguments *arguments = options;

	(void)value;
	if (arguments->format && arguments->format != option->constant)
		return error_set(error, EINVAL, "--json and --csv can't be combined");
	arguments->format = option->constant;
	return 0;
}

/* Parses "REGEX>+P%" or "REGEX<-P%". The last such sign ends the regular expression. */
static int report_option_fail_if(const struct cli_option *option, char *text, void *options,
				 struct error *error)
{
	struct report_arguments *arguments = options;
	struct profile_diff_limit *limit = &arguments->limits[arguments->limit_count];
	regex_t *regex = &arguments->regexes[arguments->limit_count];
	size_t length = strlen(text);
	char *pattern, *end = NULL;
	int err;

	(void)option;
	while (length && text[length - 1] != '<' && text[length - 1] != '>')
		length--;
	if (length)
		limit->percent = strtod(text + length, &end);
	if (length < 2 || strcmp(end, "%") ||
	    (text[length - 1] == '<') != !!signbit(limit->percent) ||
	    !(limit->percent >= -100 && limit->percent <= 10000))
		return error_set(error, EINVAL,
				 "--fail-if: '%s' is not REGEX>+P%% or REGEX<-P%%, such as "
				 "'^parse>+5%%'",
				 text);
	if (arguments->limit_count == LIMITS_MAX)
		return error_set(error, EINVAL, "--fail-if: more than %u limits", LIMITS_MAX);
	pattern = strndup(text, length - 1);
	err = pattern ? regcomp(regex, pattern, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;
	free(pattern);
	if (err)
		return error_set(error, EINVAL, "--fail-if: '%.*s' is not a regular expression",
				 (int)length - 1, text);
	limit->text = text;
	limit->regex = regex;
	arguments->limit_count++;
	return 0;
}

/* clang-format off */
static const struct cli_option options[] = {
	{0, "top", NULL, "print functions, most expensive first (default)",
	 OPTION_CONSTANT(struct report_arguments, form, FORM_TOP)},
	{0, "tree", NULL, "print the call tree, from the root to the leaves",
	 OPTION_CONSTANT(struct report_arguments, form, FORM_TREE)},
	{0, "folded", NULL, "print a line for each stack, as for flamegraph.pl",
	 OPTION_CONSTANT(struct report_arguments, form, FORM_FOLDED)},
	{0, "speedscope", NULL, "print a JSON document for speedscope",
	 OPTION_CONSTANT(struct report_arguments, form, FORM_SPEEDSCOPE)},
	{0, "json", NULL, "print the table or tree for programs, as JSON, with all rows",
	 OPTION_CALL(report_option_format), .constant = FORMAT_JSON},
	{0, "csv", NULL, "the same, as CSV",
	 OPTION_CALL(report_option_format), .constant = FORMAT_CSV},
	{0, "callers", "FUNC",
	 "print what calls a function; with --tree: the call tree above it",
	 OPTION_CALL(report_option_function), .constant = true},
	{0, "callees", "FUNC",
	 "print what a function calls; with --tree: the call tree below it",
	 OPTION_CALL(report_option_function), .constant = false},
	INPUT_OPTION(struct report_arguments),
	{0, "stdio", NULL, "accepted, as for perf: the output is always text",
	 OPTION_CALL(option_ignore)},
	{'n', "rows", "N",
	 "print at most N rows; 0: all (default: 30 with --top, all with --tree)",
	 OPTION_NUMBER(struct report_arguments, rows, 0, UINT32_MAX),
	 OPTION_GIVEN(struct report_arguments, rows_given)},
	SAMPLE_TYPE_OPTION(struct report_arguments, view.sample_type),
	{0, "min-percent", "P",
	 "with --tree: omit calls below P % of the total (default: 0.5)",
	 OPTION_PERCENT(struct report_arguments, report.min_percent),
	 OPTION_GIVEN(struct report_arguments, limit_given)},
	{0, "percent-limit", "P",
	 "as --min-percent, also for --top: omit functions whose cum is below P %",
	 OPTION_PERCENT(struct report_arguments, report.min_percent),
	 OPTION_GIVEN(struct report_arguments, report.limits_top)},
	{'s', "sort", "KEY[,...]",
	 "print rows by dso, sym, line, service, comm, pid, tid, cpu or any other label instead of by "
	 "function",
	 OPTION_TEXT(struct report_arguments, view.sort)},
	GROUP_OPTION(struct report_arguments,
		     "print a table for each value of a label of the samples, such as comm or "
		     "container; with --tree: divide the root by it"),
	DIFF_OPTIONS(struct report_arguments),
	{0, "all", NULL, "with --diff: print functions whose difference is noise, too",
	 OPTION_FLAG(struct report_arguments, report.all)},
	{0, "fail-if", "LIMIT",
	 "with --diff: exit with status 3 if the cum of a function differs by more than noise and more "
	 "than LIMIT: REGEX>+P% or REGEX<-P%, P % of the total of BASE; repeatable",
	 OPTION_CALL(report_option_fail_if)},
	FILTER_OPTIONS(struct report_arguments),
	PERCENTAGE_OPTIONS(struct report_arguments),
	GO_HIDE_RUNTIME_OPTION(struct report_arguments, view.hides_go_runtime),
	{'v', "verbose", NULL, "print all comments of FILE, not only what it lacks",
	 OPTION_FLAG(struct report_arguments, report.verbose)},
	{0, "raw-values", NULL,
	 "print integers in the unit of FILE, for programs",
	 OPTION_FLAG(struct report_arguments, report.raw_values)},
	HELP_OPTION(struct report_arguments, view.help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat report [OPTION]... [FILE]...",
	.description = "Print a pprof FILE (-: standard input; default: " OUTPUT_DEFAULT
		       "), or the sum of several, as text.",
	.options = options,
	.notes = "flat is the value of a function itself, cum the value of the function and "
		 "all functions it called. On a terminal, names are shortened to its width, and "
		 "$PAGER "
		 "(default: less) shows the text. Exit status: 0; 1 if FILE can't be shown; 2 "
		 "for a wrong command line; 3 if a difference is beyond a limit of --fail-if.",
};

static bool is_text(const struct report_arguments *arguments)
{
	return arguments->form == FORM_TOP || arguments->form == FORM_TREE;
}

static int cmd_report_parse(struct report_arguments *arguments, int argc, char **argv,
			    struct error *error)
{
	int err = view_options_parse(argc, argv, options, arguments, &arguments->view, error);

	if (err)
		return err;
	arguments->report.sample_type = arguments->view.sample_type;
	arguments->report.group = arguments->view.group;
	arguments->report.absolute = arguments->view.absolute;
	arguments->report.rows = arguments->rows;
	if (!arguments->rows_given && arguments->form == FORM_TOP && !arguments->format)
		arguments->report.rows = ROWS_DEFAULT;
	if (!arguments->limit_given && !arguments->report.limits_top && arguments->format)
		arguments->report.min_percent = 0;
	/* As for comments. */
	arguments->report.all |= arguments->report.verbose;
	if (arguments->limit_count && (!arguments->view.base || arguments->form != FORM_TOP))
		return error_set(error, EINVAL,
				 "--fail-if needs --diff and the table of functions");
	if (arguments->view.group && arguments->view.base && arguments->form == FORM_TOP)
		return error_set(error, EINVAL, "--group with --diff needs --tree");
	if (!is_text(arguments) && arguments->format)
		return error_set(error, EINVAL, "--json and --csv are for --top and --tree");
	/* Rows of functions alone have a column for each key. */
	if (arguments->format && arguments->form == FORM_TOP && !arguments->report.function &&
	    !arguments->view.base && arguments->view.sort) {
		const char *column = machine_report_column_among(arguments->view.sort);

		if (column)
			return error_set(error, EINVAL,
					 "--sort: --json and --csv have another column '%s'",
					 column);
		arguments->view.separates_keys = true;
		arguments->report.keys = arguments->view.sort;
	}
	if (!is_text(arguments) &&
	    (arguments->rows_given || arguments->view.group || arguments->view.base))
		return error_set(error, EINVAL,
				 "--rows, --group and --diff are for --top and --tree");
	if (arguments->report.function && (!is_text(arguments) || arguments->view.base))
		return error_set(error, EINVAL,
				 "--callers and --callees are for --top and --tree, "
				 "without --diff");
	if (arguments->report.function && arguments->form == FORM_TOP && arguments->view.group)
		return error_set(error, EINVAL, "--callers and --callees with --group need --tree");
	return 0;
}

/* Errors of buffered writes show only at flush. */
static int flush_output(struct error *error)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	return error_errno(error, errno ? errno : EIO, "standard output");
}

static int print_stacks(const struct report_arguments *arguments, const struct profile *profile,
			struct error *error)
{
	size_t type;
	int err = profile_find_type(profile, arguments->view.sample_type, &type, error);

	if (err)
		return err;
	if (arguments->form == FORM_FOLDED)
		return print_folded(profile, type, stdout, error);
	err = print_speedscope(profile, type, stdout);
	return err ? error_errno(error, -err, "can't print") : 0;
}

/* What the text is for: a terminal, or a pipe or file, where names are whole. */
static void describe_output(struct report_options *options)
{
	options->columns = terminal_columns(STDOUT_FILENO);
	options->colors = terminal_has_colors(STDOUT_FILENO);
	options->ascii = !terminal_has_utf8();
}

static int print_for_programs(const struct report_arguments *arguments,
			      const struct profile *profile, const struct report_options *options,
			      struct error *error)
{
	const enum machine_format format =
		arguments->format == FORMAT_JSON ? MACHINE_JSON : MACHINE_CSV;

	if (arguments->form == FORM_TREE)
		return machine_report_tree(profile, options, format, stdout, error);
	if (options->function)
		return machine_report_calls(profile, options, format, stdout, error);
	if (options->base)
		return machine_report_diff(profile, options, format, stdout, error);
	return machine_report_top(profile, options, format, stdout, error);
}

static int print_text(const struct report_arguments *arguments, const struct profile *profile,
		      const struct report_options *options, struct error *error)
{
	if (!is_text(arguments))
		return print_stacks(arguments, profile, error);
	if (arguments->format)
		return print_for_programs(arguments, profile, options, error);
	if (arguments->form == FORM_TREE)
		return report_tree(profile, options, stdout, error);
	if (options->function)
		return report_calls(profile, options, stdout, error);
	if (options->base)
		return report_diff(profile, options, stdout, error);
	return report_top(profile, options, stdout, error);
}

/* Sets *exceeded to the number of differences beyond a limit. */
static int print_report(const struct report_arguments *arguments, size_t *exceeded,
			struct error *error)
{
	struct report_options options = arguments->report;
	struct pager pager = {0};
	struct viewed viewed;
	int err = view_read(&arguments->view, &viewed, error);

	if (err)
		return err;
	if (arguments->view.group)
		err = view_check_group(arguments->view.group, GROUP_SERVICE, &viewed, error);
	if (err) {
		viewed_clear(&viewed);
		return err;
	}
	if (*viewed.note.text)
		fprintf(stderr, "stackbeat report: %s\n", viewed.note.text);
	options.base = viewed.base;
	options.limits = arguments->limits;
	options.limit_count = arguments->limit_count;
	options.exceeded = exceeded;
	if (!arguments->view.relative) {
		options.whole = viewed.total;
		options.base_whole = viewed.base_total;
	}
	describe_output(&options);
	/* A row of several keys is no name of a function, which could be shortened. */
	if (arguments->view.sort)
		options.columns = 0;
	if (!arguments->format)
		pager_start(&pager);
	err = print_text(arguments, viewed.profile, &options, error);
	viewed_clear(&viewed);
	if (!err)
		err = flush_output(error);
	/* Who quits the pager has seen enough. */
	if (err == -EPIPE && pager.pid)
		err = 0;
	pager_wait(&pager);
	return err;
}

static int run_report(int argc, char **argv, struct report_arguments *arguments)
{
	size_t exceeded = 0;
	struct error error;

	if (cmd_report_parse(arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments->view.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (print_report(arguments, &exceeded, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_FAILED;
	}
	return exceeded ? STATUS_REGRESSION : STATUS_OK;
}

int cmd_report(int argc, char **argv)
{
	struct report_arguments arguments = {.report.min_percent = MIN_PERCENT_DEFAULT,
					     .form = FORM_TOP};
	int status = run_report(argc, argv, &arguments);

	for (size_t i = 0; i < arguments.limit_count; i++)
		regfree(&arguments.regexes[i]);
	return status;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "pprof/profile.h"
#include "report/folded.h"
#include "report/speedscope.h"
#include "report/text_report.h"

#define ROWS_DEFAULT 30
#define MIN_PERCENT_DEFAULT 0.5

enum {
	OPTION_TOP = OPTION_LONG_ONLY,
	OPTION_TREE,
	OPTION_FOLDED,
	OPTION_SPEEDSCOPE,
	OPTION_MIN_PERCENT,
	OPTION_RAW_VALUES,
	OPTION_SORT,
	OPTION_PERCENT_LIMIT,
};

/* clang-format off */
static const struct cli_option options[] = {
	{OPTION_TOP, "top", NULL, "print functions, most expensive first (default)"},
	{OPTION_TREE, "tree", NULL, "print the call tree, from the root to the leaves"},
	{OPTION_FOLDED, "folded", NULL, "print a line for each stack, as for flamegraph.pl"},
	{OPTION_SPEEDSCOPE, "speedscope", NULL, "print a JSON document for speedscope"},
	{'n', "rows", "N",
	 "print at most N rows; 0: all (default: 30 with --top, all with --tree)"},
	SAMPLE_TYPE_OPTION,
	{OPTION_MIN_PERCENT, "min-percent", "P",
	 "with --tree: omit calls below P % of the total (default: 0.5)"},
	{OPTION_PERCENT_LIMIT, "percent-limit", "P",
	 "as --min-percent, also for --top: omit functions whose cum is below P %"},
	{OPTION_SORT, "sort", "KEY[,...]",
	 "print rows by dso, sym, line, service, comm, pid, tid, cpu or any other label instead of by "
	 "function"},
	GROUP_OPTION("with --tree: divide the root by a label of the samples, such as comm or "
		     "container"),
	DIFF_OPTIONS,
	FILTER_OPTIONS,
	GO_HIDE_RUNTIME_OPTION(VIEW_GO_HIDE_RUNTIME),
	{'v', "verbose", NULL, "print all comments of FILE, not only what it lacks"},
	{OPTION_RAW_VALUES, "raw-values", NULL,
	 "print integers in the unit of FILE, for programs"},
	HELP_OPTION,
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
		 "for a wrong command line.",
};

struct report_arguments {
	struct view_options view;
	struct report_options report;
	uint32_t rows;
	int form; /* the option that selects it */
	bool rows_given;
};

static int parse_percentage(const char *text, const char *option, double *percentage,
			    struct error *error)
{
	double percent;
	char *end;

	percent = strtod(text, &end);
	if (end == text || *end || !(percent >= 0 && percent <= 100))
		return error_set(error, EINVAL, "%s: '%s' is not a percentage from 0 to 100",
				 option, text);
	*percentage = percent;
	return 0;
}

static int parse_report_option(int id, char *value, void *arg, struct error *error)
{
	struct report_arguments *arguments = arg;

	switch (id) {
	case OPTION_MIN_PERCENT:
		return parse_percentage(value, "--min-percent", &arguments->report.min_percent,
					error);
	case OPTION_PERCENT_LIMIT:
		if (parse_percentage(value, "--percent-limit", &arguments->report.min_percent,
				     error))
			return -EINVAL;
		arguments->report.limits_top = true;
		return 0;
	case OPTION_SORT:
		arguments->view.sort = value;
		return 0;
	case OPTION_RAW_VALUES:
		arguments->report.raw_values = true;
		return 0;
	case 'v':
		arguments->report.verbose = true;
		return 0;
	case 'n':
		arguments->rows_given = true;
		return parse_number(value, "-n", 0, UINT32_MAX, &arguments->rows, error);
	default:
		arguments->form = id;
		return 0;
	}
}

static bool is_text(const struct report_arguments *arguments)
{
	return arguments->form == OPTION_TOP || arguments->form == OPTION_TREE;
}

static int cmd_report_parse(struct report_arguments *arguments, int argc, char **argv,
			    struct error *error)
{
	int err = view_options_parse(argc, argv, options, parse_report_option, arguments,
				     &arguments->view, error);

	if (err)
		return err;
	arguments->report.sample_type = arguments->view.sample_type;
	arguments->report.group = arguments->view.group;
	arguments->report.absolute = arguments->view.absolute;
	arguments->report.rows = arguments->rows;
	if (!arguments->rows_given)
		arguments->report.rows = arguments->form == OPTION_TREE ? 0 : ROWS_DEFAULT;
	if (!is_text(arguments) &&
	    (arguments->rows_given || arguments->view.group || arguments->view.base))
		return error_set(error, EINVAL,
				 "--rows, --group and --diff are for --top and --tree");
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
	if (arguments->form == OPTION_FOLDED)
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

static int print_report(const struct report_arguments *arguments, struct error *error)
{
	struct report_options options = arguments->report;
	struct pager pager = {0};
	struct profile *profile, *base;
	int err = view_read(&arguments->view, &profile, &base, error);

	if (err)
		return err;
	options.base = base;
	describe_output(&options);
	/* A row of several keys is no name of a function, which could be shortened. */
	if (arguments->view.sort)
		options.columns = 0;
	pager_start(&pager);
	if (!is_text(arguments))
		err = print_stacks(arguments, profile, error);
	else if (arguments->form == OPTION_TREE)
		err = report_tree(profile, &options, stdout, error);
	else
		err = report_top(profile, &options, stdout, error);
	profile_free(profile);
	profile_free(base);
	if (!err)
		err = flush_output(error);
	/* Who quits the pager has seen enough. */
	if (err == -EPIPE && pager.pid)
		err = 0;
	pager_wait(&pager);
	return err;
}

int cmd_report(int argc, char **argv)
{
	struct report_arguments arguments = {.report.min_percent = MIN_PERCENT_DEFAULT,
					     .form = OPTION_TOP};
	struct error error;

	if (cmd_report_parse(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.view.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	if (print_report(&arguments, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

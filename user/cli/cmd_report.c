// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "report/text_report.h"

#define ROWS_DEFAULT 30
#define MIN_PERCENT_DEFAULT 0.5

static const char help[] =
	"Usage: stackbeat report [OPTIONS] FILE\n"
	"Print what is in a pprof file (\"-\": the standard input).\n"
	"\n"
	"  --top                 functions, most expensive first (default)\n"
	"  --tree                calls, from the root to the leaves\n"
	"  -n, --rows N          at most N rows; 0: all (default: 30 with --top, all with --tree)\n"
	"  --sample-type NAME    the value to show (default: the one that FILE names, or its "
	"last)\n"
	"  --min-percent P       with --tree: leave out calls below P % of the total (default: "
	"0.5)\n"
	"  --group LABEL         with --tree: divide the root by a label, as comm or container\n"
	"  --raw-values          integers in the unit of FILE, for programs\n"
	"  -h, --help            print this\n"
	"\n"
	"flat is what was spent in a function itself, cum what was spent in it and in all that\n"
	"it called. Exit status: 0, 1 if FILE can't be shown, 2 for wrong arguments.\n";

enum {
	OPTION_TOP = 256,
	OPTION_TREE,
	OPTION_MIN_PERCENT,
	OPTION_RAW_VALUES,
};

static const struct option long_options[] = {
	{"top", no_argument, NULL, OPTION_TOP},
	{"tree", no_argument, NULL, OPTION_TREE},
	{"rows", required_argument, NULL, 'n'},
	{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
	{"raw-values", no_argument, NULL, OPTION_RAW_VALUES},
	VIEW_LONG_OPTIONS,
	{0},
};

struct arguments {
	struct view_options view;
	struct report_options report;
	uint32_t rows;
	bool tree, rows_given;
};

static int parse_min_percent(const char *text, double *min_percent, struct error *error)
{
	double percent;
	char *end;

	percent = strtod(text, &end);
	if (end == text || *end || !(percent >= 0 && percent <= 100))
		return error_set(error, EINVAL,
				 "--min-percent: '%s' is no percentage from 0 to 100", text);
	*min_percent = percent;
	return 0;
}

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct arguments *arguments = arg;

	switch (option) {
	case OPTION_MIN_PERCENT:
		return parse_min_percent(value, &arguments->report.min_percent, error);
	case OPTION_RAW_VALUES:
		arguments->report.raw_values = true;
		return 0;
	case 'n':
		arguments->rows_given = true;
		return parse_number(value, "-n", 0, UINT32_MAX, &arguments->rows, error);
	default:
		arguments->tree = option == OPTION_TREE;
		return 0;
	}
}

static int parse_arguments(struct arguments *arguments, int argc, char **argv, struct error *error)
{
	int err = view_options_parse(argc, argv, ":n:h", long_options, parse_option, arguments,
				     &arguments->view, error);

	if (err)
		return err;
	arguments->report.sample_type = arguments->view.sample_type;
	arguments->report.group = arguments->view.group;
	arguments->report.rows = arguments->rows;
	if (!arguments->rows_given)
		arguments->report.rows = arguments->tree ? 0 : ROWS_DEFAULT;
	return 0;
}

/* Nothing is as silent as an error of a buffered write. */
static int flush_output(struct error *error)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	return error_errno(error, errno ? errno : EIO, "standard output");
}

static int show(const struct arguments *arguments, struct error *error)
{
	struct pprof_profile *profile = pprof_read(arguments->view.file, error);
	int ret;

	if (!profile)
		return -EINVAL;
	if (arguments->tree)
		ret = report_tree(profile, &arguments->report, stdout, error);
	else
		ret = report_top(profile, &arguments->report, stdout, error);
	pprof_profile_free(profile);
	return ret ? ret : flush_output(error);
}

int cmd_report(int argc, char **argv)
{
	struct arguments arguments = {.report.min_percent = MIN_PERCENT_DEFAULT};
	struct error error;

	if (parse_arguments(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.view.help) {
		fputs(help, stdout);
		return STATUS_OK;
	}
	if (show(&arguments, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "options.h"
#include "report.h"

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
	"  --group LABEL         with --tree: divide the root by a label, such as comm or pid\n"
	"  --raw-values          integers in the unit of FILE, for programs\n"
	"  -h, --help            print this\n"
	"\n"
	"flat is what was spent in a function itself, cum what was spent in it and in all that\n"
	"it called. Exit status: 0, 1 if FILE can't be shown, 2 for wrong arguments.\n";

enum {
	OPTION_TOP = 256,
	OPTION_TREE,
	OPTION_SAMPLE_TYPE,
	OPTION_MIN_PERCENT,
	OPTION_GROUP,
	OPTION_RAW_VALUES,
};

static const struct option long_options[] = {
	{"top", no_argument, NULL, OPTION_TOP},
	{"tree", no_argument, NULL, OPTION_TREE},
	{"rows", required_argument, NULL, 'n'},
	{"sample-type", required_argument, NULL, OPTION_SAMPLE_TYPE},
	{"min-percent", required_argument, NULL, OPTION_MIN_PERCENT},
	{"group", required_argument, NULL, OPTION_GROUP},
	{"raw-values", no_argument, NULL, OPTION_RAW_VALUES},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *file;
	struct report_options report;
	bool tree, rows_given, help;
};

static int parse_rows(struct arguments *arguments, const char *text)
{
	struct error error;
	uint32_t rows;

	if (parse_number(text, "-n", 0, UINT32_MAX, &rows, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_USAGE;
	}
	arguments->report.rows = rows;
	arguments->rows_given = true;
	return STATUS_OK;
}

static int parse_min_percent(struct arguments *arguments, const char *text)
{
	struct error error;
	double percent;
	char *end;

	percent = strtod(text, &end);
	if (end == text || *end || !(percent >= 0 && percent <= 100)) {
		error_set(&error, EINVAL, "--min-percent: '%s' is no percentage from 0 to 100",
			  text);
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_USAGE;
	}
	arguments->report.min_percent = percent;
	return STATUS_OK;
}

static int parse_option(struct arguments *arguments, int option)
{
	switch (option) {
	case OPTION_TOP:
	case OPTION_TREE:
		arguments->tree = option == OPTION_TREE;
		return STATUS_OK;
	case OPTION_SAMPLE_TYPE:
		arguments->report.sample_type = optarg;
		return STATUS_OK;
	case OPTION_MIN_PERCENT:
		return parse_min_percent(arguments, optarg);
	case OPTION_GROUP:
		arguments->report.group = optarg;
		return STATUS_OK;
	case OPTION_RAW_VALUES:
		arguments->report.raw_values = true;
		return STATUS_OK;
	case 'n':
		return parse_rows(arguments, optarg);
	case 'h':
		arguments->help = true;
		return STATUS_OK;
	default:
		return STATUS_USAGE;
	}
}

static int parse_arguments(struct arguments *arguments, int argc, char **argv)
{
	struct error error;
	int option, status;

	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":n:h", long_options, NULL)) != -1) {
		if (option == ':' || option == '?') {
			option_error(option, argv, long_options, &error);
			fprintf(stderr, "stackbeat report: %s\n", error.text);
			return STATUS_USAGE;
		}
		status = parse_option(arguments, option);
		if (status)
			return status;
	}
	if (arguments->help)
		return STATUS_OK;
	if (argc - optind != 1) {
		fprintf(stderr, "stackbeat report: %s (see stackbeat report --help)\n",
			argc == optind ? "which file?" : "one file at a time");
		return STATUS_USAGE;
	}
	arguments->file = argv[optind];
	if (!arguments->rows_given)
		arguments->report.rows = arguments->tree ? 0 : ROWS_DEFAULT;
	return STATUS_OK;
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
	struct pprof_profile *profile = pprof_read(arguments->file, error);
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
	int status = parse_arguments(&arguments, argc, argv);

	if (status)
		return status;
	if (arguments.help) {
		fputs(help, stdout);
		return STATUS_OK;
	}
	if (show(&arguments, &error)) {
		fprintf(stderr, "stackbeat report: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

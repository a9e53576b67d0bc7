// SPDX-License-Identifier: GPL-2.0
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"

#define SECONDS_MAX (365.0 * 24 * 3600)

enum {
	OPTION_USER = 256,
	OPTION_KERNEL,
	OPTION_MAX_DEPTH,
	OPTION_RING_SIZE,
	OPTION_NO_JITTER,
	OPTION_BUDGET,
	OPTION_NO_INHERIT,
	OPTION_EXCLUDE_COMM,
	OPTION_LABELS,
	OPTION_LABEL,
	OPTION_SAVE_BINARIES,
	OPTION_NO_SYMBOLIZE,
	OPTION_NO_CACHE,
};

static const struct option long_options[] = {
	{"frequency", required_argument, NULL, 'F'},
	{"all-cpus", no_argument, NULL, 'a'},
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, 't'},
	{"cgroup", required_argument, NULL, 'G'},
	{"exclude-comm", required_argument, NULL, OPTION_EXCLUDE_COMM},
	{"no-inherit", no_argument, NULL, OPTION_NO_INHERIT},
	{"no-jitter", no_argument, NULL, OPTION_NO_JITTER},
	{"budget", required_argument, NULL, OPTION_BUDGET},
	{"cpu", required_argument, NULL, 'C'},
	{"duration", required_argument, NULL, 'd'},
	{"labels", required_argument, NULL, OPTION_LABELS},
	{"label", required_argument, NULL, OPTION_LABEL},
	{"save-binaries", required_argument, NULL, OPTION_SAVE_BINARIES},
	{"no-symbolize", no_argument, NULL, OPTION_NO_SYMBOLIZE},
	{"no-cache", no_argument, NULL, OPTION_NO_CACHE},
	{"output", required_argument, NULL, 'o'},
	{"user", no_argument, NULL, OPTION_USER},
	{"kernel", no_argument, NULL, OPTION_KERNEL},
	{"max-depth", required_argument, NULL, OPTION_MAX_DEPTH},
	{"ring-size", required_argument, NULL, OPTION_RING_SIZE},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error)
{
	unsigned long long value = 0;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)*text))
		value = strtoull(text, &end, 10);
	if (!end || *end || errno || value < min || value > max)
		return error_set(error, EINVAL, "%s: '%s' is not a number from %u to %u", what,
				 text, min, max);
	*number = value;
	return 0;
}

static int parse_rate(const char *text, uint32_t *rate, struct error *error)
{
	if (!strcmp(text, "max")) {
		*rate = 0;
		return 0;
	}
	return parse_number(text, "-F (samples a second)", STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX,
			    rate, error);
}

static int parse_seconds(const char *text, double *seconds, struct error *error)
{
	char *end;

	*seconds = strtod(text, &end);
	/* strtod() takes much more than people mean by a number of seconds. */
	if (end == text || *end || text[strspn(text, "0123456789.")] || *seconds <= 0 ||
	    *seconds > SECONDS_MAX)
		return error_set(error, EINVAL,
				 "-d: '%s' is not a number of seconds above 0, at most %.0f", text,
				 SECONDS_MAX);
	return 0;
}

/* Adds the ids of a list to `ids`; `option` and `what` are for the message. */
static int parse_ids(const char *text, const char *option, const char *what, uint32_t *ids,
		     size_t *count, struct error *error)
{
	char number[16];
	char name[32];
	int err;

	snprintf(name, sizeof(name), "%s (%s)", option, what);
	do {
		size_t length = strcspn(text, ",");

		if (*count == STACKBEAT_PIDS_MAX)
			return error_set(error, EINVAL, "%s: more than %u %ss", option,
					 STACKBEAT_PIDS_MAX, what);
		if (length >= sizeof(number))
			return error_set(error, EINVAL, "%s: '%.*s' is not a %s", option,
					 (int)length, text, what);
		memcpy(number, text, length);
		number[length] = '\0';
		err = parse_number(number, name, 1, INT32_MAX, &ids[*count], error);
		if (err)
			return err;
		++*count;
		text += length;
	} while (*text++ == ',');
	return 0;
}

static int parse_cgroup(const char *text, struct record_options *options, struct error *error)
{
	if (!*text)
		return error_set(error, EINVAL, "-G: the path is empty");
	if (options->session.cgroup_count == STACKBEAT_CGROUPS_MAX)
		return error_set(error, EINVAL, "-G: more than %u control groups",
				 STACKBEAT_CGROUPS_MAX);
	options->session.cgroups[options->session.cgroup_count++] = text;
	return 0;
}

static int parse_comm(char *text, struct record_options *options, struct error *error)
{
	if (!*text || strlen(text) >= STACKBEAT_COMM_SIZE)
		return error_set(error, EINVAL,
				 "--exclude-comm: '%s' is not a thread name of 1 to %u characters",
				 text, STACKBEAT_COMM_SIZE - 1);
	if (options->session.excluded_comm_count == STACKBEAT_COMMS_MAX)
		return error_set(error, EINVAL, "--exclude-comm: more than %u names",
				 STACKBEAT_COMMS_MAX);
	options->session.excluded_comms[options->session.excluded_comm_count++] = text;
	return 0;
}

/* A percentage, kept in thousandths. */
static int parse_budget(const char *text, uint32_t *budget, struct error *error)
{
	char *end;
	double percent = strtod(text, &end);

	if (end == text || *end || text[strspn(text, "0123456789.")] ||
	    percent * 10 < STACKBEAT_BUDGET_MIN || percent * 10 > STACKBEAT_BUDGET_MAX)
		return error_set(error, EINVAL, "--budget: '%s' is not a percentage from %g to %g",
				 text, STACKBEAT_BUDGET_MIN / 10.0, STACKBEAT_BUDGET_MAX / 10.0);
	*budget = (uint32_t)(percent * 10 + 0.5);
	return 0;
}

static int parse_cpus(const char *text, struct record_options *options, struct error *error)
{
	struct error reason;

	if (!*text)
		return error_set(error, EINVAL, "-C: the list of CPUs is empty");
	if (strlen(text) >= STACKBEAT_CPULIST_MAX)
		return error_set(error, EINVAL, "-C: the list of CPUs is longer than %u characters",
				 STACKBEAT_CPULIST_MAX - 1);
	if (cpulist_parse(text, &options->session.cpulist, &reason))
		return error_set(error, EINVAL, "-C: %s", reason.text);
	options->session.cpus = text;
	return 0;
}

/* Bytes, or KiB and MiB with K and M behind. */
static int parse_ring_size(const char *text, uint32_t *size, struct error *error)
{
	unsigned long long bytes = 0;
	char *end = NULL;

	if (isdigit((unsigned char)*text))
		bytes = strtoull(text, &end, 10);
	if (end && *end && bytes <= STACKBEAT_RING_SIZE_MAX) {
		if (*end == 'K' || *end == 'k')
			bytes <<= 10, end++;
		else if (*end == 'M' || *end == 'm')
			bytes <<= 20, end++;
	}
	if (!end || *end || bytes < STACKBEAT_RING_SIZE_MIN || bytes > STACKBEAT_RING_SIZE_MAX ||
	    (bytes & (bytes - 1)))
		return error_set(error, EINVAL,
				 "--ring-size: '%s' is not a power of two from 64K to 64M", text);
	*size = bytes;
	return 0;
}

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct record_options *options = arg;

	switch (option) {
	case 'F':
		options->session.rate_given = true;
		return parse_rate(value, &options->session.rate, error);
	case 'a':
		options->session.system_wide = true;
		return 0;
	case 'p':
		return parse_ids(value, "-p", "process id", options->session.pids,
				 &options->session.pid_count, error);
	case 't':
		return parse_ids(value, "-t", "thread id", options->session.tids,
				 &options->session.tid_count, error);
	case 'G':
		return parse_cgroup(value, options, error);
	case OPTION_EXCLUDE_COMM:
		return parse_comm(value, options, error);
	case OPTION_NO_INHERIT:
		options->session.no_inherit = true;
		return 0;
	case OPTION_NO_JITTER:
		options->session.no_jitter = true;
		return 0;
	case OPTION_BUDGET:
		return parse_budget(value, &options->session.budget, error);
	case 'C':
		return parse_cpus(value, options, error);
	case 'd':
		return parse_seconds(value, &options->seconds, error);
	case OPTION_LABELS:
		return labels_choose(&options->labels, value, error);
	case OPTION_LABEL:
		return labels_add(&options->labels, value, error);
	case 'g':
		return 0; /* stacks are always recorded */
	case 'o':
		if (!*value)
			return error_set(error, EINVAL, "-o: the file name is empty");
		options->output = value;
		return 0;
	case OPTION_SAVE_BINARIES:
		if (!*value)
			return error_set(error, EINVAL, "--save-binaries: the directory is empty");
		options->save_binaries = value;
		return 0;
	case OPTION_NO_SYMBOLIZE:
		options->nameless = true;
		return 0;
	case OPTION_NO_CACHE:
		options->no_cache = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case OPTION_USER:
	case OPTION_KERNEL:
		if (options->session.parts != STACKBEAT_PARTS_ALL)
			return error_set(error, EINVAL,
					 "--user and --kernel: give one of them, once");
		options->session.parts =
			option == OPTION_USER ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL;
		return 0;
	case OPTION_MAX_DEPTH:
		return parse_number(value, "--max-depth", 1, STACKBEAT_USER_FRAMES_MAX,
				    &options->session.max_depth, error);
	case OPTION_RING_SIZE:
		return parse_ring_size(value, &options->session.ring_size, error);
	default:
		return error_set(error, EINVAL, "unknown option");
	}
}

/* Says what getopt_long() has found wrong where it returned `result`, ':' or '?'. */
static int option_error(int result, char *const *argv, const struct option *known,
			struct error *error)
{
	const char *word = argv[optind - 1];

	if (result == ':')
		return error_set(error, EINVAL, "%s: its value is missing", word);
	if (!optopt)
		return error_set(error, EINVAL, "unknown or ambiguous option '%s'", word);
	/* A short option that there is not, or a long one that there is. */
	for (; known->name; known++) {
		if (known->val == optopt)
			return error_set(error, EINVAL, "'%s': takes no value", word);
	}
	return error_set(error, EINVAL, "unknown option '-%c'", optopt);
}

int options_parse(int argc, char **argv, const char *short_options,
		  const struct option *long_options, option_fn *fn, void *arg, int *first,
		  struct error *error)
{
	int option, err = 0;

	optind = 0;
	opterr = 0;
	while (!err &&
	       (option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (option == ':' || option == '?')
			err = option_error(option, argv, long_options, error);
		else
			err = fn(option, optarg, arg, error);
	}
	*first = optind;
	return err;
}

int options_file(int argc, char **argv, int first, const char **file, struct error *error)
{
	if (argc - first != 1)
		return error_set(error, EINVAL, "%s (see stackbeat %s --help)",
				 argc == first ? "which file?" : "one file at a time", argv[0]);
	*file = argv[first];
	return 0;
}

struct view_parser {
	struct view_options *view;
	option_fn *fn; /* for other options */
	void *arg;
};

static int parse_view_option(int option, char *value, void *arg, struct error *error)
{
	const struct view_parser *parser = arg;

	switch (option) {
	case VIEW_SAMPLE_TYPE:
		parser->view->sample_type = value;
		return 0;
	case VIEW_GROUP:
		parser->view->group = value;
		return 0;
	case 'h':
		parser->view->help = true;
		return 0;
	default:
		return parser->fn(option, value, parser->arg, error);
	}
}

int view_options_parse(int argc, char **argv, const char *short_options,
		       const struct option *long_options, option_fn *fn, void *arg,
		       struct view_options *view, struct error *error)
{
	struct view_parser parser = {view, fn, arg};
	int first, err;

	*view = (struct view_options){0};
	err = options_parse(argc, argv, short_options, long_options, parse_view_option, &parser,
			    &first, error);
	return err || view->help ? err : options_file(argc, argv, first, &view->file, error);
}

int record_options_parse(int argc, char **argv, struct record_options *options, struct error *error)
{
	int first, err;

	*options = (struct record_options){
		.session.rate = STACKBEAT_RATE_DEFAULT,
		.session.cpus = "",
		.session.cpulist.all = true,
		.output = RECORD_OUTPUT_DEFAULT,
		.session.parts = STACKBEAT_PARTS_ALL,
		.session.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.session.ring_size = STACKBEAT_RING_SIZE_DEFAULT,
		.session.budget = STACKBEAT_BUDGET_DEFAULT,
		.labels.chosen = LABELS_DEFAULT,
	};
	/* "+": what follows the first word that is no option belongs to COMMAND. */
	err = options_parse(argc, argv, "+:F:ap:t:G:C:d:go:qh", long_options, parse_option, options,
			    &first, error);
	if (err)
		return err;
	if (first < argc)
		options->command = argv + first;
	if (options->session.system_wide &&
	    (options->session.pid_count || options->session.tid_count ||
	     options->session.cgroup_count))
		return error_set(error, EINVAL, "-a and -p, -t or -G: give one of them");
	return 0;
}

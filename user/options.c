// SPDX-License-Identifier: GPL-2.0
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define SECONDS_MAX (365.0 * 24 * 3600)

enum {
	OPTION_USER = 256,
	OPTION_KERNEL,
	OPTION_MAX_DEPTH,
	OPTION_RING_SIZE,
};

static const struct option long_options[] = {
	{"frequency", required_argument, NULL, 'F'},
	{"all-cpus", no_argument, NULL, 'a'},
	{"pid", required_argument, NULL, 'p'},
	{"cpu", required_argument, NULL, 'C'},
	{"duration", required_argument, NULL, 'd'},
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

static int parse_pids(const char *text, struct record_options *options, struct error *error)
{
	char number[16];
	int err;

	do {
		size_t length = strcspn(text, ",");

		if (options->pid_count == STACKBEAT_PIDS_MAX)
			return error_set(error, EINVAL, "-p: more than %u process ids",
					 STACKBEAT_PIDS_MAX);
		if (length >= sizeof(number))
			return error_set(error, EINVAL, "-p: '%.*s' is not a process id",
					 (int)length, text);
		memcpy(number, text, length);
		number[length] = '\0';
		err = parse_number(number, "-p (process id)", 1, INT32_MAX,
				   &options->pids[options->pid_count], error);
		if (err)
			return err;
		options->pid_count++;
		text += length;
	} while (*text++ == ',');
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
	if (cpulist_parse(text, &options->cpulist, &reason))
		return error_set(error, EINVAL, "-C: %s", reason.text);
	options->cpus = text;
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

static int parse_option(int option, const char *value, struct record_options *options,
			struct error *error)
{
	switch (option) {
	case 'F':
		return parse_rate(value, &options->rate, error);
	case 'a':
		options->system_wide = true;
		return 0;
	case 'p':
		return parse_pids(value, options, error);
	case 'C':
		return parse_cpus(value, options, error);
	case 'd':
		return parse_seconds(value, &options->seconds, error);
	case 'g':
		return 0; /* stacks are always recorded */
	case 'o':
		if (!*value)
			return error_set(error, EINVAL, "-o: the file name is empty");
		options->output = value;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case OPTION_USER:
	case OPTION_KERNEL:
		if (options->parts != STACKBEAT_PARTS_ALL)
			return error_set(error, EINVAL,
					 "--user and --kernel: give one of them, once");
		options->parts =
			option == OPTION_USER ? STACKBEAT_PART_USER : STACKBEAT_PART_KERNEL;
		return 0;
	case OPTION_MAX_DEPTH:
		return parse_number(value, "--max-depth", 1, STACKBEAT_USER_FRAMES_MAX,
				    &options->max_depth, error);
	case OPTION_RING_SIZE:
		return parse_ring_size(value, &options->ring_size, error);
	default:
		return error_set(error, EINVAL, "unknown option");
	}
}

int option_error(int result, char *const *argv, const struct option *known, struct error *error)
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

int record_options_parse(int argc, char **argv, struct record_options *options, struct error *error)
{
	int option, err;

	*options = (struct record_options){
		.rate = STACKBEAT_RATE_DEFAULT,
		.cpus = "",
		.cpulist.all = true,
		.output = RECORD_OUTPUT_DEFAULT,
		.parts = STACKBEAT_PARTS_ALL,
		.max_depth = STACKBEAT_USER_FRAMES_DEFAULT,
		.ring_size = STACKBEAT_RING_SIZE_DEFAULT,
	};
	optind = 0;
	opterr = 0;
	/* "+": what follows the first word that is no option belongs to COMMAND. */
	while ((option = getopt_long(argc, argv, "+:F:ap:C:d:go:qh", long_options, NULL)) != -1) {
		if (option == ':' || option == '?')
			return option_error(option, argv, long_options, error);
		err = parse_option(option, optarg, options, error);
		if (err)
			return err;
	}
	if (optind < argc)
		options->command = argv + optind;
	if (options->system_wide && options->pid_count)
		return error_set(error, EINVAL, "-a and -p: give one of them");
	return 0;
}

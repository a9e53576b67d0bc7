/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of `stackbeat record`, and what all command lines share. */
#ifndef STACKBEAT_OPTIONS_H
#define STACKBEAT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stackbeat.h>

#include "cpulist.h"

struct error;
struct option;

struct record_options {
	uint32_t rate; /* Hz; 0: the highest that the module allows */
	uint32_t pids[STACKBEAT_PIDS_MAX];
	size_t pid_count;
	const char *cpus; /* the text of cpulist, "" for all */
	struct cpulist cpulist;
	double seconds; /* 0: until stopped */
	const char *output;
	uint32_t parts; /* STACKBEAT_PART_* */
	uint32_t max_depth; /* user frames */
	uint32_t ring_size; /* bytes a CPU */
	bool system_wide; /* -a */
	bool quiet;
	bool help;
	char **command; /* NULL-terminated, in argv; NULL: none */
};

#define RECORD_OUTPUT_DEFAULT "stackbeat.pb.gz"

/*
 * Parses argv (argv[0] is the subcommand). Strings stay in argv. Returns 0, or
 * -EINVAL with one line that names the option and what is wrong with it.
 */
int record_options_parse(int argc, char **argv, struct record_options *options,
			 struct error *error);

/*
 * Says what getopt_long() has found wrong where it returned `result`, ':' or '?', and returns
 * -EINVAL. `known` are its long options; the short ones begin with ":" (or "+:"), and opterr is 0.
 */
int option_error(int result, char *const *argv, const struct option *known, struct error *error);

/* A whole decimal number from `min` to `max`, or -EINVAL with `what` in the message. */
int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error);

#endif

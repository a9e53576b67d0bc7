/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of `stackbeat record`, and what all command lines share. */
#ifndef STACKBEAT_CLI_OPTIONS_H
#define STACKBEAT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pprof/labels.h"
#include "session/session.h"

struct error;
struct option;

struct record_options {
	struct session_config session;
	double seconds; /* 0: until stopped */
	struct labels labels;
	const char *save_binaries; /* directory, or NULL */
	bool nameless; /* --no-symbolize */
	bool no_cache;
	const char *output;
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

/* Takes an option, as getopt_long() names it, and its value. Returns 0 or -EINVAL. */
typedef int option_fn(int option, char *value, void *arg, struct error *error);

/*
 * Hands each option of argv (argv[0] is the subcommand) to `fn`, with `arg`, until it returns
 * other than 0. `short_options` begin with ":" or "+:", as getopt_long() has it. Leaves in *first
 * the index of the first word that is no option. Returns 0, or -EINVAL with one line that
 * names what is wrong.
 */
int options_parse(int argc, char **argv, const char *short_options,
		  const struct option *long_options, option_fn *fn, void *arg, int *first,
		  struct error *error);

/*
 * The only word of argv that is no option; `first` is as options_parse() has left it. Returns 0
 * or -EINVAL.
 */
int options_file(int argc, char **argv, int first, const char **file, struct error *error);

/* What the subcommands have in common that show a pprof file. */
struct view_options {
	const char *file;
	const char *sample_type, *group; /* NULL: not given */
	bool help;
};

enum {
	VIEW_SAMPLE_TYPE = 0x1000,
	VIEW_GROUP,
};

/* Their entries in a table of long options. */
/* clang-format off */
#define VIEW_LONG_OPTIONS                                                                          \
	{"sample-type", required_argument, NULL, VIEW_SAMPLE_TYPE},                                \
	{"group", required_argument, NULL, VIEW_GROUP},                                            \
	{"help", no_argument, NULL, 'h'}
/* clang-format on */

/*
 * As options_parse(), for a subcommand with VIEW_LONG_OPTIONS, which come into `view`, and one
 * file; `fn` gets the others. With --help, the file may be missing.
 */
int view_options_parse(int argc, char **argv, const char *short_options,
		       const struct option *long_options, option_fn *fn, void *arg,
		       struct view_options *view, struct error *error);

/* A whole decimal number from `min` to `max`, or -EINVAL with `what` in the message. */
int parse_number(const char *text, const char *what, uint32_t min, uint32_t max, uint32_t *number,
		 struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of `stackbeat record`. */
#ifndef STACKBEAT_CLI_RECORD_OPTIONS_H
#define STACKBEAT_CLI_RECORD_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cache_option.h"
#include "cli/sandbox_option.h"
#include "pprof/labels.h"
#include "source/session_config.h"

struct command_help;
struct error;

struct record_options {
	struct session_config session;
	double seconds; /* 0: until stopped */
	struct labels labels;
	const char *save_binaries; /* directory, or NULL */
	bool no_symbolize;
	bool timestamps; /* samples are kept apart */
	bool blocks; /* samples have the label of their block of time */
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

#define MEMORY_DEFAULT (UINT64_C(256) << 20)
#define MEMORY_MIN (UINT64_C(16) << 20)
#define MEMORY_MAX (UINT64_C(1) << 40)

/*
 * Parses argv (argv[0] is the subcommand). Strings stay in argv. Returns 0, or
 * -EINVAL with one line that names the option and what is wrong with it.
 */
int record_options_parse(int argc, char **argv, struct record_options *options,
			 struct error *error);

/*
 * Parts of record_options_parse(), for subcommands that sample, too: the defaults, the targets
 * together, and options of targets, rate and event, for a struct that begins with a struct
 * record_options.
 */
void record_options_default(struct record_options *options);
int record_targets_check(const struct session_config *session, struct error *error);
option_fn record_parse_rate, record_parse_pids, record_parse_tids, record_parse_cgroup,
	record_parse_cpus, record_parse_event;
/* For OPTION_CHOICE of a session's source. */
extern const char *const session_source_names[];

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of the subcommands that act on one session. */
#ifndef STACKBEAT_CLI_SESSION_OPTION_H
#define STACKBEAT_CLI_SESSION_OPTION_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"

struct error;

/* The table of their options. */
extern const struct cli_option session_options[];

struct session_option {
	uint32_t session; /* -s, --session; 0: not given */
	bool help; /* -h, --help */
};

/*
 * Parses the options, and sets *first to the index of the first argument. Returns 0, or -EINVAL
 * with one line that names the problem.
 */
int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error);

#endif

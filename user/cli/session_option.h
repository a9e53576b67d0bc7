/* SPDX-License-Identifier: GPL-2.0 */
/* The command line of the commands that act on one session. */
#ifndef STACKBEAT_CLI_SESSION_OPTION_H
#define STACKBEAT_CLI_SESSION_OPTION_H

#include <stdbool.h>
#include <stdint.h>

struct error;

struct session_option {
	uint32_t session; /* -s, --session; 0: not given */
	bool help; /* -h, --help */
};

/*
 * Parses options, and leaves in *first the index of the first word that is none.
 * Returns 0, or -EINVAL with one line that names what is wrong.
 */
int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error);

#endif

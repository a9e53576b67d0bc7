// SPDX-License-Identifier: GPL-2.0
#include "cli/session_option.h"

#include <getopt.h>
#include <stddef.h>

#include "cli/options.h"
#include "lib/error.h"

static int parse_option(int option, char *value, void *arg, struct error *error)
{
	struct session_option *session = arg;

	if (option == 's')
		return parse_number(value, "--session", 1, UINT32_MAX, &session->session, error);
	session->help = true;
	return 0;
}

int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error)
{
	static const struct option long_options[] = {
		{"session", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};

	*option = (struct session_option){0};
	return options_parse(argc, argv, ":s:h", long_options, parse_option, option, first, error);
}

// SPDX-License-Identifier: GPL-2.0
#include "session_option.h"

#include <getopt.h>
#include <stddef.h>

#include "error.h"
#include "options.h"

int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error)
{
	static const struct option long_options[] = {
		{"session", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int letter, err = 0;

	*option = (struct session_option){0};
	opterr = 0;
	optind = 0;
	while (!err && (letter = getopt_long(argc, argv, ":s:h", long_options, NULL)) != -1) {
		if (letter == 's')
			err = parse_number(optarg, "--session", 1, UINT32_MAX, &option->session,
					   error);
		else if (letter == 'h')
			option->help = true;
		else
			err = option_error(letter, argv, long_options, error);
	}
	*first = optind;
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include "cli/session_option.h"

#include <stddef.h>

#include "cli/options.h"
#include "lib/error.h"

const struct cli_option session_options[] = {
	{'s', "session", "N", "ID of the session, as in 'stackbeat status'"},
	HELP_OPTION,
};

static int parse_session_option(int id, char *value, void *arg, struct error *error)
{
	struct session_option *option = arg;

	if (id == 's')
		return parse_number(value, "--session", 1, UINT32_MAX, &option->session, error);
	option->help = true;
	return 0;
}

int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error)
{
	*option = (struct session_option){0};
	return options_parse(argc, argv, session_options, false, parse_session_option, option,
			     first, error);
}

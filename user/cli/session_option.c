// SPDX-License-Identifier: GPL-2.0
#include "cli/session_option.h"

#include <stddef.h>

#include "cli/options.h"
#include "lib/error.h"

/* clang-format off */
const struct cli_option session_options[] = {
	{'s', "session", "N", "ID of the session, as in 'stackbeat status'",
	 OPTION_NUMBER(struct session_option, session, 1, UINT32_MAX)},
	HELP_OPTION(struct session_option, help),
};
/* clang-format on */

int session_option_parse(int argc, char **argv, struct session_option *option, int *first,
			 struct error *error)
{
	*option = (struct session_option){0};
	return options_parse(argc, argv, session_options, false, option, first, error);
}

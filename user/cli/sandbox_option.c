// SPDX-License-Identifier: GPL-2.0
#include "cli/sandbox_option.h"

#include <errno.h>
#include <string.h>

#include "lib/error.h"

int option_sandbox(const struct cli_option *option, char *value, void *options, struct error *error)
{
	bool *require = option_target(option, options);

	*require = !strcmp(value, "require");
	if (*require || !strcmp(value, "try"))
		return 0;
	return error_set(error, EINVAL, "--sandbox: '%s' is neither 'try' nor 'require'", value);
}

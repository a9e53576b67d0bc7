// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session_option.h"
#include "lib/error.h"
#include "source/netlink.h"

static const struct command_help pause_help = {
	.synopsis = "stackbeat pause [--session N]",
	.description = "Pause a recording: no samples are taken until 'stackbeat resume'. The "
		       "session may be omitted if only one is open.",
	.options = session_options,
};

static const struct command_help resume_help = {
	.synopsis = "stackbeat resume [--session N]",
	.description = "Resume a recording that was paused by 'stackbeat pause'. The session "
		       "may be omitted if only one is open.",
	.options = session_options,
};

static int set_state(uint32_t session, uint32_t state, struct error *error)
{
	const struct netlink_settings settings = {
		.set = NETLINK_SET(STACKBEAT_A_STATE),
		.state = state,
	};
	struct netlink *control;
	int err = netlink_open(&control, error);

	if (err)
		return err;
	err = netlink_select(control, session, &session, error);
	if (!err)
		err = netlink_set(control, session, &settings, error);
	netlink_close(control);
	return err;
}

static int run_state_command(int argc, char **argv, uint32_t state, const struct command_help *help)
{
	struct session_option option;
	struct error error;
	int first;
	int err = session_option_parse(argc, argv, &option, &first, &error);

	if (!err && first < argc)
		err = error_set(&error, 1, "takes no arguments, not '%s'", argv[first]);
	if (err) {
		fprintf(stderr, "stackbeat %s: %s\n", argv[0], error.text);
		return STATUS_USAGE;
	}
	if (option.help) {
		print_command_help(help, stdout);
		return STATUS_OK;
	}
	if (set_state(option.session, state, &error)) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

int cmd_pause(int argc, char **argv)
{
	return run_state_command(argc, argv, STACKBEAT_STATE_PAUSED, &pause_help);
}

int cmd_resume(int argc, char **argv)
{
	return run_state_command(argc, argv, STACKBEAT_STATE_RUNNING, &resume_help);
}

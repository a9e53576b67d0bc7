// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>

#include "cli/commands.h"
#include "cli/session_option.h"
#include "lib/error.h"
#include "session/netlink.h"

static const char pause_usage[] =
	"Usage: stackbeat pause [--session N]\n"
	"\n"
	"Pauses a recording: no samples are taken until 'stackbeat resume'. The session need\n"
	"not be named where only one is open.\n"
	"\n"
	"  -s, --session N  the session, as 'stackbeat status' lists it\n"
	"  -h, --help       this text\n";

static const char resume_usage[] =
	"Usage: stackbeat resume [--session N]\n"
	"\n"
	"Goes on with a recording that was paused by 'stackbeat pause'. The session need not be\n"
	"named where only one is open.\n"
	"\n"
	"  -s, --session N  the session, as 'stackbeat status' lists it\n"
	"  -h, --help       this text\n";

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

static int run(int argc, char **argv, uint32_t state, const char *usage)
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
		fputs(usage, stdout);
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
	return run(argc, argv, STACKBEAT_STATE_PAUSED, pause_usage);
}

int cmd_resume(int argc, char **argv)
{
	return run(argc, argv, STACKBEAT_STATE_RUNNING, resume_usage);
}

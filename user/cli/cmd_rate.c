// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/session_option.h"
#include "lib/error.h"
#include "source/netlink.h"

static const struct command_help help = {
	.synopsis = "stackbeat rate [HZ] [--session N]",
	.description = "Show the sampling rates of the open sessions, or set the rate of one "
		       "while it records. The session may be omitted if only one is open.",
	.options = session_options,
};

struct rate_options {
	struct session_option common;
	uint32_t rate; /* Hz; 0: show */
};

static int cmd_rate_parse(int argc, char **argv, struct rate_options *options, struct error *error)
{
	int first;
	int err = session_option_parse(argc, argv, &options->common, &first, error);

	if (err || first == argc)
		return err;
	if (argc - first > 1)
		return error_set(error, EINVAL, "more than one rate: '%s'", argv[first + 1]);
	return parse_number(argv[first], "the rate in Hz", STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX,
			    &options->rate, error);
}

static int show_session(const struct netlink_session *session, void *arg)
{
	const struct rate_options *options = arg;

	if (!options->common.session || options->common.session == session->id)
		printf("session %u: %u Hz\n", session->id, session->rate);
	return 0;
}

static int set_rate(struct netlink *control, const struct rate_options *options,
		    struct error *error)
{
	const struct netlink_settings settings = {
		.set = NETLINK_SET(STACKBEAT_A_RATE),
		.rate = options->rate,
	};
	uint32_t session;
	int err = netlink_select(control, options->common.session, &session, error);

	return err ? err : netlink_set(control, session, &settings, error);
}

int cmd_rate(int argc, char **argv)
{
	struct rate_options options = {0};
	struct netlink *control = NULL;
	struct error error;
	int err;

	if (cmd_rate_parse(argc, argv, &options, &error)) {
		fprintf(stderr, "stackbeat rate: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (options.common.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	err = netlink_open(&control, &error);
	if (!err)
		err = options.rate ? set_rate(control, &options, &error)
				   : netlink_list(control, show_session, &options, &error);
	netlink_close(control);
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

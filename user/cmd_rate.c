// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "commands.h"
#include "control.h"
#include "error.h"
#include "options.h"

static const char usage[] =
	"Usage: stackbeat rate [HZ] [--session N]\n"
	"\n"
	"Shows the rates of the open sessions, or sets one, while it records. A session need\n"
	"not be named where only one is open; 'stackbeat status' lists them.\n"
	"\n"
	"  -s, --session N  the session\n"
	"  -h, --help       this text\n";

struct rate_options {
	uint32_t rate; /* Hz; 0: show */
	uint32_t session; /* 0: the only one */
	bool help;
};

static int parse(int argc, char **argv, struct rate_options *options, struct error *error)
{
	static const struct option long_options[] = {
		{"session", required_argument, NULL, 's'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option, err = 0;

	opterr = 0;
	optind = 0;
	while (!err && (option = getopt_long(argc, argv, ":s:h", long_options, NULL)) != -1) {
		if (option == 's')
			err = parse_number(optarg, "--session", 1, UINT32_MAX, &options->session,
					   error);
		else if (option == 'h')
			options->help = true;
		else
			err = option_error(option, argv, long_options, error);
	}
	if (err || optind == argc)
		return err;
	if (argc - optind > 1)
		return error_set(error, EINVAL, "one rate, not '%s' too", argv[optind + 1]);
	return parse_number(argv[optind], "the rate in Hz", STACKBEAT_RATE_MIN, STACKBEAT_RATE_MAX,
			    &options->rate, error);
}

struct only {
	uint32_t count;
	uint32_t session;
};

static int count_session(const struct control_session *session, void *arg)
{
	struct only *only = arg;

	only->count++;
	only->session = session->id;
	return 0;
}

static int show_session(const struct control_session *session, void *arg)
{
	const struct rate_options *options = arg;

	if (!options->session || options->session == session->id)
		printf("session %u: %u Hz\n", session->id, session->rate);
	return 0;
}

static int set_rate(struct control *control, const struct rate_options *options,
		    struct error *error)
{
	const struct control_settings settings = {
		.set = 1u << STACKBEAT_A_RATE,
		.rate = options->rate,
	};
	struct only only = {.session = options->session};
	int err;

	if (!options->session) {
		err = control_list(control, count_session, &only, error);
		if (err)
			return err;
		if (!only.count)
			return error_set(error, ENODEV, "no session is open");
		if (only.count > 1)
			return error_set(
				error, EINVAL,
				"%u sessions are open; name one with --session ('stackbeat "
				"status' lists them)",
				only.count);
	}
	return control_set(control, only.session, &settings, error);
}

int cmd_rate(int argc, char **argv)
{
	struct rate_options options = {0};
	struct control *control = NULL;
	struct error error;
	int err;

	if (parse(argc, argv, &options, &error)) {
		fprintf(stderr, "stackbeat rate: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (options.help) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	err = control_open(&control, &error);
	if (!err)
		err = options.rate ? set_rate(control, &options, &error)
				   : control_list(control, show_session, &options, &error);
	control_close(control);
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

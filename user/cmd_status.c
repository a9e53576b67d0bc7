// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "control.h"
#include "error.h"

static const char usage[] =
	"Usage: stackbeat status\n"
	"\n"
	"Shows the module and its open sessions: id, owner, rate, state, CPUs, and counters.\n"
	"COST is the CPU time that the session's timer callbacks have taken.\n";

static const char *state_name(uint32_t state)
{
	static const char *const names[STACKBEAT_STATE_COUNT] = {
		[STACKBEAT_STATE_NEW] = "new",
		[STACKBEAT_STATE_RUNNING] = "running",
		[STACKBEAT_STATE_STOPPED] = "stopped",
	};

	return state < STACKBEAT_STATE_COUNT ? names[state] : "?";
}

static int print_session(const struct control_session *session, void *arg)
{
	const uint64_t *stats = session->stats;
	char owner[48];
	int *count = arg;

	if (!(*count)++)
		printf("%7s  %-22s %8s  %-8s %-8s %12s %10s %10s %10s %9s\n", "SESSION", "OWNER",
		       "RATE", "STATE", "CPUS", "SAMPLES", "LOST", "FILTERED", "IDLE", "COST");
	snprintf(owner, sizeof(owner), "%s (%u)", session->owner_comm, session->owner);
	printf("%7u  %-22s %5u Hz  %-8s %-8s %12" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64
	       " %6.1f ms\n",
	       session->id, owner, session->rate, state_name(session->state),
	       *session->cpus ? session->cpus : "all", stats[STACKBEAT_S_SAMPLES],
	       stats[STACKBEAT_S_LOST_FULL] + stats[STACKBEAT_S_LOST_TAIL],
	       stats[STACKBEAT_S_FILTERED], stats[STACKBEAT_S_IDLE],
	       (double)stats[STACKBEAT_S_COST] / 1e6);
	return 0;
}

int cmd_status(int argc, char **argv)
{
	struct control_module module = {0};
	struct control *control = NULL;
	struct error error;
	int err, count = 0;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	if (argc > 1) {
		error_set(&error, EINVAL, "takes no arguments, not '%s'", argv[1]);
		fprintf(stderr, "stackbeat status: %s\n", error.text);
		return STATUS_USAGE;
	}
	err = control_open(&control, &error);
	if (!err)
		err = control_module(control, &module, &error);
	if (!err) {
		printf("module %s, interface %u, rate_max %u Hz, %u session%s\n", module.version,
		       module.abi, module.rate_max, module.sessions,
		       module.sessions == 1 ? "" : "s");
		err = control_list(control, print_session, &count, &error);
	}
	control_close(control);
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

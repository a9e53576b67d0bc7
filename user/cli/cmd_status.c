// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "record/counters.h"
#include "source/netlink.h"

struct status_arguments {
	bool json, help;
};

/* clang-format off */
static const struct cli_option options[] = {
	{'j', "json", NULL, "print one JSON object with all counters",
	 OPTION_FLAG(struct status_arguments, json)},
	HELP_OPTION(struct status_arguments, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat status [--json]",
	.description =
		"Show the module and its open sessions: ID, owner, rate, state, "
		"CPUs, and counters. CURRENT is the effective rate on the slowest CPU: "
		"lower than RATE if the session is throttled to keep its budget. "
		"OVERHEAD is the CPU time of its timer interrupts and of cancelling its "
		"timers on idle CPUs, ADDRSPACES the number of address spaces read, FILES "
		"the mapped files kept open, TABLES the unwind tables in use and their size.",
	.options = options,
};

static int print_session(const struct netlink_session *session, void *arg)
{
	const uint64_t *stats = session->stats;
	char owner[48];
	int *count = arg;

	if (!(*count)++)
		printf("%7s  %-22s %8s %8s  %-8s %-8s %12s %10s %10s %10s %12s %10s %7s %18s\n",
		       "SESSION", "OWNER", "RATE", "CURRENT", "STATE", "CPUS", "SAMPLES", "LOST",
		       "FILTERED", "IDLE", "OVERHEAD", "ADDRSPACES", "FILES", "TABLES");
	snprintf(owner, sizeof(owner), "%s (%u)", session->owner_comm, session->owner);
	printf("%7u  %-22s %5u Hz %5" PRIu64 " Hz  %-8s %-8s %12" PRIu64 " %10" PRIu64 " %10" PRIu64
	       " %10" PRIu64 " %9.1f ms %10" PRIu64 " %7" PRIu64 " %7" PRIu64 ", %6.1f MB\n",
	       session->id, owner, session->rate, stats[STACKBEAT_S_RATE],
	       session_state_name(session->state), *session->cpus ? session->cpus : "all",
	       stats[STACKBEAT_S_SAMPLES],
	       stats[STACKBEAT_S_LOST_FULL] + stats[STACKBEAT_S_LOST_BAD_TAIL],
	       stats[STACKBEAT_S_FILTERED], stats[STACKBEAT_S_IDLE],
	       (double)stats[STACKBEAT_S_OVERHEAD_NS] / 1e6, stats[STACKBEAT_S_ADDRESS_SPACES],
	       stats[STACKBEAT_S_FILES], stats[STACKBEAT_S_UNWIND_TABLES],
	       (double)stats[STACKBEAT_S_UNWIND_TABLE_BYTES] / 1e6);
	return 0;
}

static void status_add_number(json_object *object, const char *key, uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

static void status_add_string(json_object *object, const char *key, const char *value)
{
	json_object_object_add(object, key, json_object_new_string(value));
}

static void add_flag(json_object *object, const char *key, bool value)
{
	json_object_object_add(object, key, json_object_new_boolean(value));
}

static int add_session(const struct netlink_session *session, void *arg)
{
	json_object *object = json_object_new_object();

	status_add_number(object, "session", session->id);
	status_add_string(object, "owner_comm", session->owner_comm);
	status_add_number(object, "owner_pid", session->owner);
	status_add_number(object, "rate", session->rate);
	status_add_string(object, "state", session_state_name(session->state));
	status_add_string(object, "cpus", session->cpus);
	status_add_number(object, "max_depth", session->max_depth);
	status_add_number(object, "ring_size", session->ring_size);
	status_add_number(object, "watermark", session->watermark);
	status_add_number(object, "budget_permille", session->budget);
	add_flag(object, "kernel", session->parts & STACKBEAT_PART_KERNEL);
	add_flag(object, "user", session->parts & STACKBEAT_PART_USER);
	add_flag(object, "no_jitter", session->no_jitter);
	add_flag(object, "use_unwind_tables", session->unwind_tables);
	add_flag(object, "goroutines", session->goroutines & STACKBEAT_GOROUTINE_ID);
	add_flag(object, "go_creators", session->goroutines & STACKBEAT_GOROUTINE_CREATOR);
	add_flag(object, "go_labels", session->goroutines & STACKBEAT_GOROUTINE_LABELS);
	status_add_number(object, "stack_copy", session->stack_copy);
	status_add_number(object, "stack_copy_every", session->stack_copy_every);
	add_flag(object, "restricted", session->restricted);
	for (int i = 0; i < STACKBEAT_S_COUNT; i++) {
		if (counter_table[i].key)
			status_add_number(object, counter_table[i].key, session->stats[i]);
	}
	json_object_array_add(arg, object);
	return 0;
}

static int print_json(struct netlink *control, const struct netlink_module *module,
		      struct error *error)
{
	json_object *object = json_object_new_object();
	json_object *sessions = json_object_new_array();
	int err;

	status_add_string(object, "version", module->version);
	status_add_number(object, "abi", module->abi);
	status_add_number(object, "rate_max", module->rate_max);
	json_object_object_add(object, "sessions", sessions);
	err = netlink_list(control, add_session, sessions, error);
	if (!err) {
		utf8_print_json(stdout,
				json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
		putchar('\n');
	}
	json_object_put(object);
	return err;
}

static int print_table(struct netlink *control, const struct netlink_module *module,
		       struct error *error)
{
	int count = 0;

	printf("module %s, interface %u, rate_max %u Hz, %u session%s\n", module->version,
	       module->abi, module->rate_max, module->sessions, module->sessions == 1 ? "" : "s");
	return netlink_list(control, print_session, &count, error);
}

int cmd_status(int argc, char **argv)
{
	struct netlink_module module = {0};
	struct netlink *control = NULL;
	struct status_arguments arguments = {0};
	struct error error;
	int first, err;

	err = options_parse(argc, argv, options, false, &arguments, &first, &error);
	if (!err && !arguments.help && first < argc)
		err = error_set(&error, EINVAL, "takes no arguments, not '%s'", argv[first]);
	if (err) {
		fprintf(stderr, "stackbeat status: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	err = netlink_open(&control, &error);
	if (!err)
		err = netlink_module(control, &module, &error);
	if (!err)
		err = (arguments.json ? print_json : print_table)(control, &module, &error);
	netlink_close(control);
	if (err) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

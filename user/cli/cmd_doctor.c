// SPDX-License-Identifier: GPL-2.0
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "doctor/doctor.h"
#include "lib/error.h"
#include "lib/utf8.h"

struct doctor_arguments {
	bool json, help;
};

/* clang-format off */
static const struct cli_option doctor_options[] = {
	{'j', "json", NULL, "print one JSON object",
	 OPTION_FLAG(struct doctor_arguments, json)},
	HELP_OPTION(struct doctor_arguments, help),
};
/* clang-format on */

static const struct command_help doctor_help = {
	.synopsis = "stackbeat doctor [--json]",
	.description =
		"Check what keeps this machine from good profiles, and print what helps: kernel, "
		"module, rights, settings, debug information of the programs with most CPU "
		"time, and the set-up of running Java, Node.js and Python programs.",
	.options = doctor_options,
	.notes = "It changes nothing. Root sees the programs of all users. The exit status is 0 if "
		 "a "
		 "recording is possible, and 1 if not.",
};

static const char *const finding_statuses[] = {
	[FINDING_OK] = "ok", [FINDING_WARNING] = "warning", [FINDING_PROBLEM] = "problem"};

static void print_finding(void *arg, const struct finding *finding)
{
	(void)arg;
	printf("%-8s %-20s %s\n", finding_statuses[finding->status], finding->check, finding->text);
	if (*finding->remedy)
		printf("%-8s %-20s   -> %s\n", "", "", finding->remedy);
}

static void add_finding(void *arg, const struct finding *finding)
{
	json_object *object = json_object_new_object();

	json_object_object_add(object, "check", json_object_new_string(finding->check));
	json_object_object_add(object, "status",
			       json_object_new_string(finding_statuses[finding->status]));
	json_object_object_add(object, "text", json_object_new_string(finding->text));
	if (*finding->remedy)
		json_object_object_add(object, "remedy", json_object_new_string(finding->remedy));
	json_object_array_add(arg, object);
}

static bool print_doctor_json(const struct doctor_machine *machine)
{
	json_object *object = json_object_new_object(), *findings = json_object_new_array();
	const bool possible = doctor_run(machine, add_finding, findings);

	json_object_object_add(object, "can_record", json_object_new_boolean(possible));
	json_object_object_add(object, "findings", findings);
	utf8_print_json(stdout, json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
	putchar('\n');
	json_object_put(object);
	return possible;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_machine machine = {.root = ""};
	struct doctor_arguments arguments = {0};
	char command[PATH_MAX] = "", *slash;
	struct error error;
	int err, first;

	err = options_parse(argc, argv, doctor_options, false, &arguments, &first, &error);
	if (!err && first < argc)
		err = error_set(&error, 1, "unexpected argument '%s'", argv[first]);
	if (err) {
		fprintf(stderr, "stackbeat doctor: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.help) {
		print_command_help(&doctor_help, stdout);
		return STATUS_OK;
	}
	/* The module is beside the command in the build tree. */
	if (readlink("/proc/self/exe", command, sizeof(command) - 1) > 0) {
		slash = strrchr(command, '/');
		if (slash)
			*slash = '\0';
	}
	machine.build_tree = command;
	if (arguments.json)
		return print_doctor_json(&machine) ? STATUS_OK : STATUS_FAILED;
	return doctor_run(&machine, print_finding, NULL) ? STATUS_OK : STATUS_FAILED;
}

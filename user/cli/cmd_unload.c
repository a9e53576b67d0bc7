// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "source/module.h"

static const char usage[] = "Usage: stackbeat unload\n"
			    "\n"
			    "Unload the kernel module. Fails while a session is open.\n";

int cmd_unload(int argc, char **argv)
{
	struct error error;

	if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		fputs(usage, stdout);
		return STATUS_OK;
	}
	if (argc > 1) {
		error_set(&error, EINVAL, "takes no arguments, not '%s'", argv[1]);
		fprintf(stderr, "stackbeat unload: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (module_unload(&error)) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

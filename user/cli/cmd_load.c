// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "lib/error.h"
#include "source/module.h"

static const char usage[] =
	"Usage: stackbeat load [NAME=VALUE]...\n"
	"\n"
	"Load the kernel module built for the running kernel, from the build tree of\n"
	"this command or from /lib/modules. NAME=VALUE are module parameters:\n"
	"\n"
	"  kernel_stack_check=N\n"
	"                  one in N kernel stacks that are found by learnt rules is\n"
	"                  compared with the stack of the kernel's unwinder; 0: kernel\n"
	"                  stacks are found by the unwinder (default: 1000)\n"
	"  rate_max=HZ     maximum rate of a session, 1 to 20000 (default: 20000)\n"
	"  unwind_memory=MIB\n"
	"                  memory of all unwind tables, 0 to 4096 (default: 64)\n"
	"  unprivileged=1  users who may open /dev/stackbeat may profile the user part of\n"
	"                  their own processes without CAP_PERFMON (default: 0)\n";

int cmd_load(int argc, char **argv)
{
	char path[PATH_MAX];
	struct error error;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			fputs(usage, stdout);
			return STATUS_OK;
		}
		if (*argv[i] == '-' || *argv[i] == '=' || !strchr(argv[i], '=') ||
		    strpbrk(argv[i], " \t\n\"")) {
			error_set(&error, EINVAL, "'%s' is not of the form NAME=VALUE", argv[i]);
			fprintf(stderr, "stackbeat load: %s\n", error.text);
			return STATUS_USAGE;
		}
	}
	if (module_load(argv + 1, path, &error)) {
		fprintf(stderr, "stackbeat: %s\n", error.text);
		return STATUS_FAILED;
	}
	if (*path)
		printf("loaded %s\n", path);
	else
		puts("the module is already loaded");
	return STATUS_OK;
}

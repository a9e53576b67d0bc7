/* SPDX-License-Identifier: GPL-2.0 */
/* The sandbox of subcommands that read untrusted files. */
#ifndef STACKBEAT_CLI_READER_SANDBOX_H
#define STACKBEAT_CLI_READER_SANDBOX_H

#include <stdbool.h>

#include "debuginfo/debuginfod_helper.h"
#include "sandbox/fork_server.h"

struct error;
struct sandbox_options;
struct symbolize_options;

/* The processes that read untrusted files. All zero: not started. */
struct reader_sandbox {
	bool started;
	struct sandbox_server server;
	struct debuginfod_helper debuginfod;
	bool has_debuginfod;
};

/*
 * Starts the sandbox, with a helper that downloads debug files if `downloads` and the user has set
 * a server. Call it before anything else is opened. Returns 0 or a negative errno value, -EPERM if
 * a part is missing and the options require it.
 */
int reader_sandbox_start(struct reader_sandbox *sandbox, const struct sandbox_options *options,
			 bool downloads, struct error *error);
void reader_sandbox_stop(struct reader_sandbox *sandbox);

/* Prints which parts are missing, if any. */
void reader_sandbox_print_missing(const struct reader_sandbox *sandbox);

/* Returns the seconds of --symbolize-timeout, or its default. */
unsigned int symbolize_timeout_s(const struct sandbox_options *options);

/* Sets the sandbox, the helper and the time-out. */
void reader_sandbox_use(const struct reader_sandbox *sandbox, const struct sandbox_options *options,
			struct symbolize_options *symbolize);

#endif

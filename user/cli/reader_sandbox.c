// SPDX-License-Identifier: GPL-2.0
#include "cli/reader_sandbox.h"

#include <errno.h>
#include <stdio.h>

#include "cli/sandbox_option.h"
#include "debuginfo/debuginfod.h"
#include "lib/error.h"
#include "symbolize/symbolize_options.h"
#include "symbolize/worker.h"

#define SYMBOLIZE_TIMEOUT_S 120u

int reader_sandbox_start(struct reader_sandbox *sandbox, const struct sandbox_options *options,
			 bool downloads, struct error *error)
{
	char missing[SANDBOX_MISSING_SIZE];
	int err = sandbox_server_start(&sandbox->server, worker_main, error);

	if (err)
		return err;
	sandbox->started = true;
	if (downloads && debuginfod_is_enabled()) {
		err = debuginfod_helper_start(&sandbox->debuginfod, error);
		if (err)
			return err;
		sandbox->has_debuginfod = true;
		if (sandbox->debuginfod.unconfined)
			sandbox->server.missing |= SANDBOX_NO_CONFINED_HELPER;
	}
	if (!options->require || !sandbox->server.missing)
		return 0;
	sandbox_missing_text(sandbox->server.missing, missing);
	return error_set(error, EPERM, "--sandbox=require: the sandbox is incomplete: %s", missing);
}

void reader_sandbox_stop(struct reader_sandbox *sandbox)
{
	if (sandbox->started)
		sandbox_server_stop(&sandbox->server);
	if (sandbox->has_debuginfod)
		debuginfod_helper_stop(&sandbox->debuginfod);
	*sandbox = (struct reader_sandbox){.started = false};
}

void reader_sandbox_print_missing(const struct reader_sandbox *sandbox)
{
	char missing[SANDBOX_MISSING_SIZE];

	if (!sandbox->server.missing)
		return;
	sandbox_missing_text(sandbox->server.missing, missing);
	fprintf(stderr, "stackbeat: sandbox: %s\n", missing);
}

unsigned int symbolize_timeout_s(const struct sandbox_options *options)
{
	return options->timeout_s ? options->timeout_s : SYMBOLIZE_TIMEOUT_S;
}

void reader_sandbox_use(const struct reader_sandbox *sandbox, const struct sandbox_options *options,
			struct symbolize_options *symbolize)
{
	symbolize->sandbox = &sandbox->server;
	symbolize->debuginfod = sandbox->has_debuginfod ? &sandbox->debuginfod : NULL;
	symbolize->timeout_s = symbolize_timeout_s(options);
}

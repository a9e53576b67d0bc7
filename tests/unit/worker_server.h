/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The server of workers of a unit test, which starts on first use and dies with the test. The first
 * use must be before threads are started.
 */
#ifndef STACKBEAT_TEST_WORKER_SERVER_H
#define STACKBEAT_TEST_WORKER_SERVER_H

#include <stdio.h>
#include <stdlib.h>

#include "lib/error.h"
#include "symbolize/worker.h"

static inline const struct sandbox_server *worker_server(void)
{
	static struct sandbox_server server;
	struct error error;

	if (server.pid)
		return &server;
	if (sandbox_server_start(&server, worker_main, &error)) {
		fprintf(stderr, "%s\n", error.text);
		abort();
	}
	return &server;
}

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process of `stackbeat serve` that answers HTTP requests and keeps the store. It has no
 * rights, and reads no profile itself: jobs do (sandbox/child.h).
 */
#ifndef STACKBEAT_SERVE_HTTP_H
#define STACKBEAT_SERVE_HTTP_H

#include "serve/http_config.h"

struct error;

/*
 * Serves until the sampler ends, and stores the last window. Signals that end a process are to be
 * blocked: the sampler gets them, too. Returns 0 or a negative errno value.
 */
int http_run(const struct http_config *config, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The text of /metrics, in the exposition format of Prometheus. */
#ifndef STACKBEAT_SERVE_METRICS_H
#define STACKBEAT_SERVE_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "serve/protocol.h"
#include "store/store.h"

struct metrics {
	struct sampler_counters sampler;
	struct store_counts store;
	uint64_t windows, window_bytes; /* in the store */
	int64_t newest_us; /* the end of the newest window, since 1970; 0: none is known */
	uint64_t slices_dropped; /* that were not stored */
	uint64_t jobs_killed[2]; /* of queries, and of the store */
	uint64_t requests, requests_failed, requests_refused;
	uint64_t connections; /* now */
	uint64_t restarts; /* of this process, after a crash */
	uint64_t resident_bytes; /* of the process that serves HTTP */
	uint64_t cpu_ns; /* of this process, those before it, and those that it forked */
};

/* The caller checks `out` for write errors. */
void print_metrics(const struct metrics *metrics, FILE *out);

#endif

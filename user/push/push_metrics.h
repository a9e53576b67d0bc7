/* SPDX-License-Identifier: GPL-2.0 */
/* What was pushed from a store, as a file in the exposition format of Prometheus. */
#ifndef STACKBEAT_PUSH_PUSH_METRICS_H
#define STACKBEAT_PUSH_PUSH_METRICS_H

#include <stdbool.h>

struct error;
struct push_state;
struct push_store_counts;

/* A file; all zero but for `path`: nothing is written yet. */
struct push_metrics {
	const char *path;
	char *text; /* private: what was written last */
};

/*
 * Writes the file unless it would have the same contents; readers see the old one or the new one.
 * `waits`: the server has not accepted what was tried last. Returns 0 or a negative errno value.
 */
int push_metrics_write(struct push_metrics *metrics, const struct push_store_counts *counts,
		       const struct push_state *state, bool waits, struct error *error);
void push_metrics_clear(struct push_metrics *metrics);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The process of `stackbeat top` that samples: it sends what was sampled, with symbols, at each
 * interval. The process that shows it stays responsive while files are read, and restores the
 * terminal whatever happens here.
 */
#ifndef STACKBEAT_TOP_TOP_SAMPLER_H
#define STACKBEAT_TOP_TOP_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/child.h"
#include "top/top_window.h"

struct error;
struct file_cache;
struct labels;
struct profile;
struct sandbox_server;
struct session_config;
struct symbolize_options;

/* Nothing is owned; all must outlive top_sampler_start(). */
struct top_sampler_config {
	const struct session_config *session;
	const struct labels *labels;
	const struct sandbox_server *sandbox;
	const struct symbolize_options *symbolize;
	struct file_cache *cache; /* NULL: none */
	int64_t interval_ns;
	size_t memory; /* bytes for what is recorded */
};

struct top_sampler {
	struct child child;
	int socket; /* readable when there is something for top_sampler_receive() */
};

/* Starts the process. Returns 0 or a negative errno value. top_sampler_stop() is to be called. */
int top_sampler_start(struct top_sampler *sampler, const struct top_sampler_config *config,
		      struct error *error);

enum top_event_kind {
	TOP_NOTHING, /* yet */
	TOP_SLICE, /* what was sampled since the last one */
	TOP_SOURCE, /* `text` names the source of the samples: once, if it is not the module */
	TOP_WARNING, /* `text` is a problem that does not end it */
	TOP_ENDED, /* all processes of the session have ended */
	TOP_FAILED, /* `text` is the reason; `err` a negative errno value */
};

#define TOP_TEXT_SIZE 512

struct top_event {
	enum top_event_kind kind;
	int err;
	char text[TOP_TEXT_SIZE];
	struct top_counts counts; /* of TOP_SLICE */
	struct profile *profile; /* of TOP_SLICE: the caller's; NULL: no samples */
};

/* Receives one event without waiting. After TOP_ENDED and TOP_FAILED, there are no others. */
void top_sampler_receive(struct top_sampler *sampler, struct top_event *event);

/* Ends the process: it is killed if it does not end soon. */
void top_sampler_stop(struct top_sampler *sampler);

#endif

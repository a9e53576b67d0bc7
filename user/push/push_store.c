// SPDX-License-Identifier: GPL-2.0
#include "push/push_store.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/error.h"
#include "store/store.h"

/* What push_window() returns to end the query. */
#define STOPPED 1

struct store_push {
	struct http_client *client;
	const struct push_options *options;
	struct push_state *state;
	struct push_store_counts *counts;
	enum http_result result;
	struct error *error;
};

static int push_window(const struct profile *profile, const struct window_name *name, void *arg)
{
	struct store_push *push = arg;
	struct push_state *state = push->state;
	enum http_result result;

	/* A part of it may have been pushed before it was merged. */
	if (name->start_us < state->next_us)
		return 0;
	if (name->start_us != state->next_us)
		state->done = 0;
	state->next_us = name->start_us;
	result = push_profile(push->client, push->options, profile, &state->done,
			      &push->counts->pushed, push->error);
	if (result != HTTP_ACCEPTED)
		push->result = result;
	if (result == HTTP_UNAVAILABLE)
		return STOPPED;
	push->counts->windows++;
	/* Other windows start later. */
	state->next_us++;
	state->done = 0;
	return 0;
}

enum http_result push_store(struct http_client *client, const struct push_options *options,
			    const char *path, struct push_state *state,
			    struct push_store_counts *counts, struct error *error)
{
	const struct push_state before = *state;
	struct store_push push = {client, options, state, counts, HTTP_ACCEPTED, error};
	struct store_query query;
	struct error other;
	int err = store_query(path, state->next_us, INT64_MAX, NULL, push_window, &push, &query,
			      &other);

	/* If it was stopped, push_profile() has set the message. */
	if (err < 0) {
		push.result = HTTP_UNAVAILABLE;
		*error = other;
	}
	if (push.result == HTTP_ACCEPTED && query.unreadable) {
		push.result = HTTP_REFUSED;
		error_set(error, EBADMSG, "%s: windows that could not be read: %zu", path,
			  query.unreadable);
	}
	if ((state->next_us != before.next_us || state->done != before.done) &&
	    push_state_write(state, &other)) {
		*error = other;
		push.result = HTTP_UNAVAILABLE;
	}
	return push.result;
}

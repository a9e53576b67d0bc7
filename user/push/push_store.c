// SPDX-License-Identifier: GPL-2.0
#include "push/push_store.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include "lib/clock.h"
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
	bool waits; /* the next window has its delay */
};

/* Whether a window is younger than the delay. One of the future is not: the clock was set back. */
static bool must_wait(struct store_push *push, const struct window_name *name)
{
	const int64_t now_us = now_ns(CLOCK_REALTIME) / 1000, end_us = window_end(name);

	push->state->wait_us = end_us + push->options->delay_us;
	return now_us >= end_us && now_us < push->state->wait_us;
}

static int push_window(const struct profile *profile, const struct window_name *name, void *arg)
{
	struct store_push *push = arg;
	struct push_state *state = push->state;
	enum http_result result;

	/* A part of it may have been pushed before it was merged. */
	if (name->start_us < state->next_us)
		return 0;
	push->waits = must_wait(push, name);
	if (push->waits)
		return STOPPED;
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
	const int64_t left_us = state->wait_us - now_ns(CLOCK_REALTIME) / 1000;
	const struct push_state before = *state;
	const uint64_t windows = counts->windows;
	struct store_push push = {client, options, state, counts, HTTP_ACCEPTED, error, false};
	struct store_query query;
	struct error other;
	int err;

	/* Unless the clock was set back. */
	if (left_us > 0 && left_us <= options->delay_us)
		return HTTP_NONE;
	err = store_query(path, state->next_us, INT64_MAX, NULL, push_window, &push, &query,
			  &other);
	/* If it was stopped by an answer, push_profile() has set the message. */
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
	if (push.result == HTTP_ACCEPTED && push.waits && counts->windows == windows)
		return HTTP_NONE;
	return push.result;
}

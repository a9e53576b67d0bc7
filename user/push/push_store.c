// SPDX-License-Identifier: GPL-2.0
#include "push/push_store.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "store/store.h"

/* What push_window() returns to end the query. */
#define STOPPED 1
/* A window that was pushed is older than now. A clock that is set back by less skips so much. */
#define AHEAD_US (60 * US_PER_SECOND)

struct store_push {
	struct http_client *client;
	const struct push_options *options;
	struct push_state *state;
	struct push_store_counts *counts;
	enum http_result result;
	struct error *error;
	int64_t now_us;
	int64_t past_us; /* the position behind the windows that are not of the future */
	bool waits; /* the next window has its delay */
	bool is_stuck; /* the server has failed for the next window for long */
};

/* Whether a window is younger than the delay. One of the future is not: the clock was set back. */
static bool must_wait(struct store_push *push, const struct window_name *name)
{
	const int64_t now_us = now_ns(CLOCK_REALTIME) / 1000, end_us = window_end(name);
	const int64_t wait_us = end_us + push->options->delay_us;

	/* The window before it, for which the server fails, does not wait. */
	if (!push->is_stuck)
		push->state->wait_us = wait_us;
	return now_us >= end_us && now_us < wait_us;
}

/* After the clock was ahead */

/* Whether a window is an early one, or was merged with one since. */
static bool is_early(const struct push_state *state, const struct window_name *name)
{
	for (size_t i = 0; i < state->early_count; i++) {
		const struct window_name *early = &state->early[i];

		if (early->start_us == name->start_us && early->seconds == name->seconds)
			return true;
		if (early->seconds < name->seconds && early->start_us >= name->start_us &&
		    early->start_us < window_end(name))
			return true;
	}
	return false;
}

/* Whether a window was pushed, as far as the state says; without a list, all early ones were. */
static bool was_pushed(const struct push_state *state, const struct window_name *name)
{
	if (name->start_us < state->next_us)
		return true;
	return name->start_us < state->ahead_us &&
	       (!state->early_is_known || is_early(state, name));
}

/*
 * Lists the windows that were pushed, although they begin later than now: by then, others may have
 * come between them. Sets *last_us to the last start of another window; -1: there is none.
 */
static int list_early(struct push_state *state, const char *path, int64_t now_us, int64_t *last_us,
		      struct error *error)
{
	struct window_name *early;
	struct store store;
	size_t count = 0;
	int err = store_list(&store, path, error);

	early = err ? NULL : calloc(store.count + 1, sizeof(*early));
	if (!err && !early)
		err = error_errno(error, ENOMEM, "%s", path);
	*last_us = -1;
	for (size_t i = 0; i < store.count && !err; i++) {
		const struct window_name *name = &store.windows[i].name;

		if (name->start_us <= now_us)
			*last_us = name->start_us;
		else if (was_pushed(state, name))
			early[count++] = *name;
	}
	store_close(&store);
	if (err)
		return err;
	free(state->early);
	state->early = early;
	state->early_count = count;
	state->early_is_known = true;
	return 0;
}

/* Goes back to next_us, after the windows that were pushed from there on have been listed. */
static void set_back(struct push_state *state, int64_t next_us)
{
	/* Without any, there is nothing to be kept in mind. */
	state->ahead_us = state->early_count ? MAX(state->ahead_us, state->next_us) : 0;
	state->next_us = next_us;
	state->done = 0;
}

/*
 * Without this, nothing would be pushed until the time of the last window that was. What is stored
 * up to now counts as pushed; in the middle of it may be that in which the clock was set back.
 */
static int go_back(struct store_push *push, const char *path, int64_t now_us)
{
	struct push_state *state = push->state;
	int64_t last_us;
	int err = list_early(state, path, now_us, &last_us, push->error);

	if (err)
		return err;
	set_back(state, last_us + 1);
	push->counts->went_back++;
	return 0;
}

/*
 * Windows of the future are pushed when the clock goes back, and the server may stop that in the
 * middle of them. What is stored until then has not been pushed, so it goes on before them.
 */
static int leave_future(struct store_push *push, const char *path, int64_t now_us, int64_t past_us)
{
	int64_t last_us;
	int err = list_early(push->state, path, now_us, &last_us, push->error);

	if (!err)
		set_back(push->state, past_us);
	return err;
}

/* Sets *until_us to the time before which windows are to be pushed. */
static int push_store_note_clock(struct store_push *push, const char *path, int64_t now_us,
				 int64_t *until_us)
{
	struct push_state *state = push->state;
	int64_t last_us;

	*until_us = INT64_MAX;
	if (state->next_us > now_us + AHEAD_US)
		return go_back(push, path, now_us);
	if (state->next_us >= state->ahead_us) {
		state->ahead_us = 0;
		state->early_count = 0;
	}
	if (!state->ahead_us)
		return 0;
	/* The others were read when it went back, and need not be read each time. */
	*until_us = now_us + 1;
	return state->early_is_known ? 0 : list_early(state, path, now_us, &last_us, push->error);
}

/*
 * Pushes the rest of the window of the state. A server that fails for it and accepts a later window
 * is not away: it would hold up this machine for good.
 */
static enum http_result push_rest(struct store_push *push, const struct profile *profile)
{
	struct push_store_counts *counts = push->counts;
	enum http_result result = push_profile(push->client, push->options, profile,
					       &push->state->done, &counts->pushed, push->error);

	push->is_stuck = result == HTTP_UNAVAILABLE && push_profile_fails_long(&counts->pushed);
	if (result != HTTP_ACCEPTED)
		push->result = result;
	return result;
}

/* Returns whether the server accepts a service of this window: the one before it is given up. */
static bool push_behind(struct store_push *push, const struct profile *profile,
			const struct window_name *name)
{
	size_t done;

	if (push_profile_behind(push->client, push->options, profile, &done,
				&push->counts->pushed) == HTTP_UNAVAILABLE)
		return false;
	push->result = HTTP_REFUSED;
	push->counts->windows++;
	push->state->next_us = name->start_us;
	push->state->done = done;
	return true;
}

static int push_window(const struct profile *profile, const struct window_name *name, void *arg)
{
	struct store_push *push = arg;
	struct push_state *state = push->state;

	/* A part of it may have been pushed before it was merged. */
	if (name->start_us < state->next_us || is_early(state, name))
		return 0;
	if (must_wait(push, name)) {
		push->waits = !push->is_stuck;
		return STOPPED;
	}
	if (push->is_stuck && !push_behind(push, profile, name))
		return STOPPED;
	if (name->start_us != state->next_us)
		state->done = 0;
	state->next_us = name->start_us;
	if (push_rest(push, profile) == HTTP_UNAVAILABLE)
		return push->is_stuck ? 0 : STOPPED;
	push->counts->windows++;
	/* Other windows start later. */
	state->next_us++;
	state->done = 0;
	if (name->start_us <= push->now_us)
		push->past_us = state->next_us;
	return 0;
}

enum http_result push_store(struct http_client *client, const struct push_options *options,
			    const char *path, struct push_state *state,
			    struct push_store_counts *counts, struct error *error)
{
	const int64_t now_us = now_ns(CLOCK_REALTIME) / 1000, left_us = state->wait_us - now_us;
	const struct push_state before = *state;
	const uint64_t windows = counts->windows;
	struct store_push push = {client, options, state, counts, HTTP_ACCEPTED,
				  error,  now_us,  0,     false,  false};
	struct store_query query;
	struct error other;
	int64_t until_us;

	/* Unless the clock was set back. */
	if (left_us > 0 && left_us <= options->delay_us)
		return HTTP_NONE;
	if (push_store_note_clock(&push, path, now_us, &until_us))
		return HTTP_UNAVAILABLE;
	push.past_us = state->next_us;
	/* If it was stopped by an answer, push_profile() has set the message. */
	if (store_query(path, state->next_us, until_us, NULL, push_window, &push, &query, &other) <
	    0) {
		push.result = HTTP_UNAVAILABLE;
		*error = other;
	}
	if (push.result == HTTP_ACCEPTED && query.unreadable) {
		push.result = HTTP_REFUSED;
		error_set(error, EBADMSG, "%s: windows that could not be read: %zu", path,
			  query.unreadable);
	}
	if (state->next_us > now_us + AHEAD_US && push.past_us <= now_us + 1 &&
	    leave_future(&push, path, now_us, push.past_us))
		push.result = HTTP_UNAVAILABLE;
	if ((state->next_us != before.next_us || state->done != before.done ||
	     state->ahead_us != before.ahead_us ||
	     state->early_is_known != before.early_is_known) &&
	    push_state_write(state, &other)) {
		*error = other;
		push.result = HTTP_UNAVAILABLE;
	}
	if (push.result == HTTP_ACCEPTED && push.waits && counts->windows == windows)
		return HTTP_NONE;
	return push.result;
}

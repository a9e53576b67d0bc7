// SPDX-License-Identifier: GPL-2.0
#include "serve/store_query.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"
#include "serve/query.h"

#define SLICE_BYTES_MAX (UINT64_C(64) << 20) /* that wait for a store that does not work */
/* A window ends this long after a full minute: a clock that is adjusted cuts no tiny window. */
#define WINDOW_MARGIN_NS (50 * INT64_C(1000000))
/* For the job that runs when the server ends: a service manager does not wait for ever. */
#define LAST_JOB_NS (20 * NS_PER_SECOND)

static int64_t next_window(const struct http *http, int64_t now)
{
	int64_t length = http->config->store.window_s * NS_PER_SECOND;
	int64_t real = now_ns(CLOCK_REALTIME);

	return now + length - real % length + WINDOW_MARGIN_NS;
}

void store_query_begin(struct http *http, int64_t now)
{
	http->store = (struct query){
		.http = http,
		.kind = QUERY_STORE,
		.id = ++http->next_id,
		.state = STATE_WAIT_TIME,
		.recorded.file = -1,
		.job.file = -1,
		.until = next_window(http, now),
	};
}

/* With the slices of the last cut that are not stored: see query_collect_window(). */
static void begin_rest_of_window(struct http *http, int64_t now)
{
	struct query *query = &http->store;

	store_query_begin(http, now);
	query->first = http->stored + 1;
	query->last = http->cut;
	query->state = STATE_WAIT_SLICES;
	query->until = now + SAMPLER_TIMEOUT_NS;
}

static void add_counts(struct store_counts *sum, const struct store_counts *counts)
{
	sum->written += counts->written;
	sum->merged += counts->merged;
	sum->removed_old += counts->removed_old;
	sum->removed_size += counts->removed_size;
	sum->removed_full += counts->removed_full;
	sum->dropped += counts->dropped;
	sum->unreadable += counts->unreadable;
}

/*
 * Returns whether the sampler was sent what is stored. If not, it has to be before another window
 * is stored: after a crash, one window can be replaced, see store_add_again().
 */
static bool send_stored(struct http *http)
{
	const struct ask ask = {.type = ASK_STORED, .slice = http->stored};

	if (http->stored_sent == http->stored)
		return true;
	if (send(http->config->socket, &ask, sizeof(ask), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
	    errno == EAGAIN)
		return false;
	http->stored_sent = http->stored;
	return true;
}

static void note_stored(struct http *http, uint32_t slice)
{
	http->stored = slice;
	send_stored(http);
}

/* A store that does not work gets the slices again, with the slices of the next window. */
static void end_store_job(struct http *http, int64_t now)
{
	struct query *query = &http->store;
	const struct job_result *result = (const struct job_result *)query->job.result;
	const bool is_written = result && result->store.counts.written;
	const bool is_stored = query->status == MHD_HTTP_OK || is_written;
	char text[256];

	if (result && (result->child.done || is_written || result->store.damaged.merging.seconds)) {
		add_counts(&http->metrics.store, &result->store.counts);
		http->metrics.windows = result->store.windows;
		http->metrics.window_bytes = result->store.window_bytes;
		http->metrics.newest_us = result->store.newest_us;
		http->damaged = result->store.damaged;
	}
	if (query->status != MHD_HTTP_OK) {
		snprintf(text, sizeof(text), "store: %s", query->message);
		http->config->message(text);
	}
	/* Even if it is not known to be there, the window may be. */
	http->again = !is_stored;
	if (is_stored) {
		note_stored(http, MAX(http->stored, query->last));
	} else if (http->slices.bytes > SLICE_BYTES_MAX && query->last > http->stored) {
		http->metrics.slices_dropped += query->last - http->stored;
		note_stored(http, query->last);
	}
	query_clear(query);
	if (is_stored && http->cut > http->stored)
		begin_rest_of_window(http, now);
	else
		store_query_begin(http, now);
}

void store_query_advance(struct http *http, int64_t now)
{
	if (!http->config->store.path)
		return;
	while (send_stored(http)) {
		query_advance(&http->store, now);
		if (http->store.state != STATE_ANSWERED)
			break;
		end_store_job(http, now);
	}
}

/* Closes the slices that no query needs. */
void store_query_drop_slices(struct http *http)
{
	uint32_t needed = http->config->store.path ? http->stored + 1 : UINT32_MAX;

	for (const struct query *query = http->queries; query; query = query->next) {
		if (query->first && query->state != STATE_ANSWERED)
			needed = MIN(needed, query->first);
	}
	slices_drop(&http->slices, needed);
}

/* Stores the next slices up to `last` as a window. What can't be stored is reported, and lost. */
static void store_window(struct http *http, uint32_t last)
{
	struct query *query = &http->store;
	struct job_result result = {.child.done = false};
	struct child here = {.file = -1, .result = &result.child};
	struct error error;

	query->first = http->stored + 1;
	query->last = last;
	query_collect_window(query);
	if (query->slices && query_run(query, &here, &error))
		http->config->message(error.text);
	query_clear(query);
	http->stored = query->last;
	http->again = false;
}

/* Waits for the job, which has a lower priority. What it has not stored in time is stored here. */
static void await_last_job(struct http *http)
{
	struct pollfd polled = {.fd = http->signals, .events = POLLIN};
	const int64_t end = now_ns(CLOCK_MONOTONIC) + LAST_JOB_NS;
	struct signalfd_siginfo info;
	bool is_stopped = false;

	while (!child_has_ended(&http->store.job, false)) {
		const int64_t left = end - now_ns(CLOCK_MONOTONIC);

		if (left <= 0 && !is_stopped) {
			child_stop(&http->store.job);
			is_stopped = true;
		}
		poll(&polled, 1, is_stopped ? -1 : (int)(left / NS_PER_MS) + 1);
		while (read(http->signals, &info, sizeof(info)) == sizeof(info))
			;
	}
}

/* The sampler has ended: stores the slices that are there. */
void store_query_store_rest(struct http *http)
{
	struct query *query = &http->store;
	uint32_t last = http->stored;

	if (!http->config->store.path)
		return;
	if (query->state == STATE_RUNNING)
		await_last_job(http);
	if (query->state == STATE_RUNNING) {
		query_end_job(query);
		end_store_job(http, now_ns(CLOCK_MONOTONIC));
	}
	for (size_t i = 0; i < http->slices.count; i++)
		last = MAX(last, http->slices.items[i].number);
	while (http->stored < last)
		store_window(http, last);
}

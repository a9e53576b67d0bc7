// SPDX-License-Identifier: GPL-2.0
#include "serve/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "sandbox/fd_passing.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"

#define JOBS_MAX 6u /* at a time, beside the job of the store */
/* Places that are kept from requests for profiles, and as many from requests over TCP. */
#define QUERIES_KEPT 8u
#define JOBS_KEPT 1u
/* Of answers that wait for their clients, but for small ones. */
#define ANSWERS_BYTES_MAX (UINT64_C(768) << 20)
#define ANSWERS_BYTES_KEPT (UINT64_C(256) << 20) /* from clients over TCP */
#define SMALL_ANSWER ((uint64_t)1 << 20)
#define SERVER_IDS (UINT32_C(1) << 24) /* of the asks of one server; the next one has others */

void query_fail(struct query *query, unsigned int status, const char *message)
{
	query->status = status;
	snprintf(query->message, sizeof(query->message), "%s", message);
	query->state = STATE_ANSWERED;
}

/* Returns whether the current slice may be for the store alone: no request has a part of it. */
static bool is_for_store(const struct query *asking)
{
	for (const struct query *query = asking->http->queries; query; query = query->next) {
		if (query->kind == QUERY_PROFILE && query->state >= STATE_WAIT_START &&
		    query->state <= STATE_WAIT_END &&
		    !(query == asking && query->state == STATE_WAIT_START))
			return false;
	}
	return true;
}

static void query_ask(struct query *query, enum ask_type type, enum query_state next)
{
	struct ask ask = {
		.type = type,
		.id = query->id,
		.rate = query->request.rate,
		.seconds = query->request.seconds,
	};

	query->state = next;
	ask.for_store = is_for_store(query);
	if (send(query->http->config->socket, &ask, sizeof(ask), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the sampler does not answer");
}

void query_begin(struct query *query, int64_t now)
{
	struct http *http = query->http;

	query->id = ++http->next_id;
	query->until = now + SAMPLER_TIMEOUT_NS;
	if (query->kind == QUERY_COUNTERS) {
		query_ask(query, ASK_COUNTERS, STATE_WAIT_REPLY);
	} else if (query->kind == QUERY_PROFILE && query->request.rate > http->config->rate) {
		query->until += query->request.seconds * NS_PER_SECOND;
		query_ask(query, ASK_RECORD, STATE_WAIT_REPLY);
	} else if (query->kind == QUERY_PROFILE) {
		query_ask(query, ASK_CUT, STATE_WAIT_START);
	} else {
		query->state = STATE_WAIT_JOB;
	}
}

int query_run(void *arg, struct child *job, struct error *error)
{
	struct query *query = arg;
	const struct store_config *store = &query->http->config->store;
	struct store_config knowing = *store;
	const int file = job->file;

	switch (query->kind) {
	case QUERY_PROFILE:
		return answer_slices(query->slices ? query->slices : &query->recorded,
				     query->slice_count, &query->request, file, error);
	case QUERY_RANGE:
		return answer_range(store->path, &query->request, file, error);
	case QUERY_WINDOWS:
		return answer_windows(store->path, &query->request, file, error);
	case QUERY_SERVICES:
		return answer_services(store->path, &query->request, file, error);
	case QUERY_TIMELINE:
		return answer_timeline(store->path, &query->request, file, error);
	case QUERY_TARGETS:
		return answer_targets(store->path, &query->request, query->host, file, error);
	case QUERY_ANNOTATION:
		return answer_annotation(store->path, &query->request,
					 query->http->config->annotation, file, error);
	case QUERY_STORE:
		knowing.damaged = &query->http->damaged;
		return store_slices(&knowing, query->slices, query->slice_count, query->http->again,
				    &((struct job_result *)job->result)->store, error);
	default:
		return error_set(error, EINVAL, "there is no such job");
	}
}

/* Of `places`, a query may have those that are not kept from it; `kept` is one kind of them. */
static size_t places_for(const struct query *query, size_t places, size_t kept)
{
	const bool is_profile = query->kind == QUERY_PROFILE || query->kind == QUERY_RANGE ||
				query->kind == QUERY_ANNOTATION;

	return places - (is_profile ? kept : 0) - (query->is_tcp ? kept : 0);
}

/* Returns whether a query that is not counted yet may wait with the others. */
bool query_may_wait(const struct query *asking)
{
	size_t count = 0;

	for (const struct query *query = asking->http->queries; query; query = query->next)
		count += query->state != STATE_NEW;
	return count < places_for(asking, QUERIES_MAX, QUERIES_KEPT);
}

bool query_may_start_job(const struct query *asking)
{
	size_t count = 0;

	for (const struct query *query = asking->http->queries; query; query = query->next)
		count += query->state == STATE_RUNNING;
	return asking->kind == QUERY_STORE || count < places_for(asking, JOBS_MAX, JOBS_KEPT);
}

static void query_start_job(struct query *query)
{
	if (!query_may_start_job(query))
		return;
	query->state = STATE_RUNNING;
	if (!child_prepare(&query->job, CHILD_JOB, sizeof(struct job_result)) &&
	    !child_start(&query->job, query_run, query))
		return;
	child_release(&query->job);
	query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, "no process can be created");
}

static void collect_slices(struct query *query)
{
	query->slice_count =
		slices_find(&query->http->slices, query->first, query->last, &query->slices);
	query->state = STATE_WAIT_JOB;
	if (!query->slices)
		query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

/* The answers are in memory until their clients have taken them. */
static bool may_keep_answer(const struct query *answered)
{
	const uint64_t kept = answered->is_tcp ? ANSWERS_BYTES_KEPT : 0;
	uint64_t bytes = answered->answer_bytes;

	for (const struct query *query = answered->http->queries; query; query = query->next)
		bytes += query != answered ? query->answer_bytes : 0;
	return answered->answer_bytes <= SMALL_ANSWER || bytes <= ANSWERS_BYTES_MAX - kept;
}

static void end_successful_job(struct query *query)
{
	struct stat status;

	query->answer_bytes = fstat(query->job.file, &status) ? 0 : (uint64_t)status.st_size;
	if (may_keep_answer(query)) {
		query->status = MHD_HTTP_OK;
		query->state = STATE_ANSWERED;
		return;
	}
	query->answer_bytes = 0;
	child_release(&query->job);
	query->http->metrics.requests_refused++;
	query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE,
		   "other answers have to be read by their clients before");
}

/* After a step of the clock, the slices before it are a window of their own. */
void query_collect_window(struct query *query)
{
	query->http->cut = query->last;
	query->last = slices_connected(&query->http->slices, query->first, query->last);
	collect_slices(query);
}

void query_end_job(struct query *query)
{
	const struct child_result *result = query->job.result;

	if (result->done && !result->err) {
		end_successful_job(query);
		return;
	}
	/* Unless this process has killed it. */
	if (!result->done && !query->is_gone)
		query->http->metrics.jobs_killed[query->kind == QUERY_STORE]++;
	query_fail(query,
		   result->done && result->err == -ENODATA ? MHD_HTTP_NOT_FOUND
							   : MHD_HTTP_INTERNAL_SERVER_ERROR,
		   result->done ? result->error
				: "the answer takes too much memory or too much time");
}

/* A client that has gone leaves its place to others. */
static void query_give_up(struct query *query)
{
	/* Until it has ended, it is one of those that run. */
	if (query->state == STATE_RUNNING)
		child_stop(&query->job);
	else if (query->state != STATE_ANSWERED)
		query_fail(query, MHD_HTTP_BAD_REQUEST, "the client has closed the connection");
}

/* Takes all steps that are possible now. */
void query_advance(struct query *query, int64_t now)
{
	if (query->is_gone)
		query_give_up(query);
	if (query->state == STATE_WAIT_TIME && now >= query->until) {
		query->until = now + SAMPLER_TIMEOUT_NS;
		query_ask(query, ASK_CUT, STATE_WAIT_END);
	}
	if (query->state == STATE_WAIT_SLICES &&
	    slices_have(&query->http->slices, query->first, query->last)) {
		if (query->kind == QUERY_STORE)
			query_collect_window(query);
		else
			collect_slices(query);
	}
	if (query->state == STATE_WAIT_JOB)
		query_start_job(query);
	if (query->state == STATE_RUNNING && child_has_ended(&query->job, false))
		query_end_job(query);
	if (query->state != STATE_RUNNING && query->state != STATE_WAIT_JOB &&
	    query->state != STATE_ANSWERED && now >= query->until)
		query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the sampler does not answer");
}

/* Frees what a query has beside itself. */
void query_clear(struct query *query)
{
	if (query->recorded.file >= 0)
		close(query->recorded.file);
	query->recorded.file = -1;
	free(query->slices);
	query->slices = NULL;
	query->slice_count = 0;
	child_release(&query->job);
}

/* Replies of the sampler */

static void handle_cut(struct query *query, uint32_t slice, int64_t now)
{
	if (query->state == STATE_WAIT_START) {
		query->first = slice + 1;
		query->state = STATE_WAIT_TIME;
		query->until = now + query->request.seconds * NS_PER_SECOND;
	} else if (query->state == STATE_WAIT_END) {
		if (query->kind == QUERY_STORE)
			query->first = query->http->stored + 1;
		query->last = slice;
		query->state = STATE_WAIT_SLICES;
		query->until = now + SAMPLER_TIMEOUT_NS;
	}
}

static void handle_recorded(struct query *query, const struct reply *reply, int *file)
{
	if (reply->err) {
		query_fail(query,
			   reply->err == -EAGAIN ? MHD_HTTP_SERVICE_UNAVAILABLE
						 : MHD_HTTP_INTERNAL_SERVER_ERROR,
			   reply->error);
		return;
	}
	query->recorded = (struct slice_file){*file, reply->start_ns, reply->duration_ns, false};
	*file = -1;
	query->slice_count = 1;
	query->state = STATE_WAIT_JOB;
}

static void handle_query_reply(struct query *query, const struct reply *reply, int *file,
			       int64_t now)
{
	if (reply->id != query->id || query->state == STATE_ANSWERED)
		return;
	if (reply->type == REPLY_CUT)
		handle_cut(query, reply->slice, now);
	if (query->state != STATE_WAIT_REPLY)
		return;
	if (reply->type == REPLY_RECORDED)
		handle_recorded(query, reply, file);
	if (reply->type == REPLY_COUNTERS && reply->err) {
		query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, reply->error);
	} else if (reply->type == REPLY_COUNTERS) {
		query->status = MHD_HTTP_OK;
		query->state = STATE_ANSWERED;
	}
}

/* The ID of the first ask of this server. */
uint32_t query_first_id(const struct http *http)
{
	return http->config->restarts * SERVER_IDS;
}

static void handle_reply(struct http *http, const struct reply *reply, int file, int64_t now)
{
	const struct slice_file slice = {file, reply->start_ns, reply->duration_ns,
					 reply->is_window};

	if (!http->ready && (reply->type != REPLY_READY || reply->id != query_first_id(http))) {
		if (file >= 0)
			close(file);
		return;
	}
	switch ((enum reply_type)reply->type) {
	case REPLY_READY:
		http->ready = true;
		http->stored = http->stored_sent = reply->slice;
		break;
	case REPLY_END:
		http->ended = true;
		break;
	case REPLY_SLICE:
		/* A lost slice was counted by the sampler. */
		if (slices_add(&http->slices, reply->slice, &slice) ||
		    (file < 0 && reply->samples && !reply->err))
			http->metrics.slices_dropped++;
		file = -1;
		break;
	case REPLY_COUNTERS:
		if (!reply->err)
			http->metrics.sampler = reply->counters;
		/* fallthrough */
	case REPLY_CUT:
	case REPLY_RECORDED:
		handle_query_reply(&http->store, reply, &file, now);
		for (struct query *query = http->queries; query; query = query->next)
			handle_query_reply(query, reply, &file, now);
		break;
	}
	if (file >= 0)
		close(file);
}

void query_read_replies(struct http *http, int64_t now)
{
	struct reply reply;
	ssize_t got;
	int file;

	while ((got = receive_fd(http->config->socket, &reply, sizeof(reply), &file)) ==
	       sizeof(reply)) {
		http->probed_ns = 0;
		handle_reply(http, &reply, file, now);
	}
	if (got != -EAGAIN)
		http->ended = true;
}

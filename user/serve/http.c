// SPDX-License-Identifier: GPL-2.0
#include "serve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "serve/access.h"
#include "serve/metrics.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"
#include "serve/request.h"
#include "serve/slices.h"
#include "serve/web_page.h"

#define CONNECTIONS_MAX 256u
#define QUERIES_MAX 64u /* that wait, or have a job */
#define JOBS_MAX 6u /* at a time, beside the job of the store */
/* Places that are kept from requests for profiles, and as many from requests over TCP. */
#define QUERIES_KEPT 8u
#define JOBS_KEPT 1u
/* Of answers that wait for their clients, but for small ones. */
#define ANSWERS_BYTES_MAX (UINT64_C(768) << 20)
#define ANSWERS_BYTES_KEPT (UINT64_C(256) << 20) /* from clients over TCP */
#define SMALL_ANSWER ((uint64_t)1 << 20)
#define HEADER_BYTES_MAX ((size_t)32 << 10) /* of a connection, with its parameters */
#define BODY_BYTES_MAX ((uint64_t)1 << 20)
#define HEADER_TIMEOUT_NS (10 * NS_PER_SECOND) /* for a complete request */
#define ANSWER_TIMEOUT_NS (60 * NS_PER_SECOND) /* for a client to take its answer */
#define SAMPLER_TIMEOUT_NS (150 * NS_PER_SECOND) /* for the sampler, which symbolizes */
#define HEALTH_TIMEOUT_NS (60 * NS_PER_SECOND) /* for the sampler to answer at all */
#define SLICE_BYTES_MAX (UINT64_C(64) << 20) /* that wait for a store that does not work */
#define SERVER_IDS (UINT32_C(1) << 24) /* of the asks of one server; the next one has others */
/* A window ends this long after a full minute: a clock that is adjusted cuts no tiny window. */
#define WINDOW_MARGIN_NS (50 * INT64_C(1000000))

enum query_kind {
	QUERY_NONE,
	QUERY_PROFILE,
	QUERY_COUNTERS,
	QUERY_RANGE,
	QUERY_WINDOWS,
	QUERY_SERVICES,
	QUERY_TIMELINE,
	QUERY_TARGETS,
	QUERY_STORE,
};

enum query_state {
	STATE_NEW,
	STATE_WAIT_START, /* for the first cut */
	STATE_WAIT_TIME,
	STATE_WAIT_END, /* for the last cut */
	STATE_WAIT_SLICES,
	STATE_WAIT_REPLY, /* for counters, or for a recording */
	STATE_WAIT_JOB, /* for room to start it */
	STATE_RUNNING,
	STATE_ANSWERED, /* all is there for the answer */
};

/* A connection, from its start on. */
struct client {
	struct MHD_Connection *connection;
	int64_t deadline; /* CLOCK_MONOTONIC, ns: it is closed then */
	bool is_trusted; /* the handshake has checked the certificate that clients need, if any */
	struct client *next;
};

/* A request; that of the store has no connection. */
struct query {
	struct http *http;
	struct MHD_Connection *connection;
	struct query *next;
	enum query_kind kind;
	enum query_state state;
	bool is_tcp;
	struct request request;
	uint32_t id;
	uint32_t first, last; /* slices */
	int64_t until; /* CLOCK_MONOTONIC, ns: the end of the waiting */
	struct slice_file recorded; /* of a session of its own */
	struct slice_file *slices; /* of the job; NULL: `recorded` */
	size_t slice_count;
	struct child job;
	uint64_t answer_bytes; /* in the file of the job */
	unsigned int status; /* HTTP status of the answer; 0: not known yet */
	char message[200]; /* of an error */
	uint64_t body; /* bytes that were received */
	bool is_suspended;
	short hangup; /* poll() says so, or with POLLHUP, when the client has gone */
	bool is_gone;
	char host[256];
};

struct daemon {
	struct MHD_Daemon *daemon;
	struct http *http;
	const struct http_listener *listener;
};

struct http {
	const struct http_config *config;
	struct daemon daemons[LISTENERS_MAX];
	struct client *clients;
	struct query *queries; /* with a connection */
	struct query store;
	struct slices slices;
	uint32_t stored; /* slices up to this one are in the store */
	uint32_t stored_sent; /* the sampler was sent this */
	uint32_t cut; /* the last slice of the windows that are being stored */
	uint32_t next_id;
	int signals;
	bool ready, ended;
	bool has_closed; /* connections since the last look at new ones */
	int64_t probed_ns; /* CLOCK_MONOTONIC: counters were asked for, and no reply has come since;
			      0: none */
	bool again; /* the first ones of the next slices may be stored already */
	struct metrics metrics;
	struct store_damaged damaged; /* windows of the store */
	char host_name[HOST_NAME_MAX + 1]; /* of this machine */
};

/* Queries: what they wait for */

static void fail_query(struct query *query, unsigned int status, const char *message)
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

static void ask(struct query *query, enum ask_type type, enum query_state next)
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
		fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the sampler does not answer");
}

static void begin_query(struct query *query, int64_t now)
{
	struct http *http = query->http;

	query->id = ++http->next_id;
	query->until = now + SAMPLER_TIMEOUT_NS;
	if (query->kind == QUERY_COUNTERS) {
		ask(query, ASK_COUNTERS, STATE_WAIT_REPLY);
	} else if (query->kind == QUERY_PROFILE && query->request.rate > http->config->rate) {
		query->until += query->request.seconds * NS_PER_SECOND;
		ask(query, ASK_RECORD, STATE_WAIT_REPLY);
	} else if (query->kind == QUERY_PROFILE) {
		ask(query, ASK_CUT, STATE_WAIT_START);
	} else {
		query->state = STATE_WAIT_JOB;
	}
}

static int run_query(void *arg, struct child *job, struct error *error)
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
	const bool is_profile = query->kind == QUERY_PROFILE || query->kind == QUERY_RANGE;

	return places - (is_profile ? kept : 0) - (query->is_tcp ? kept : 0);
}

/* Returns whether a query that is not counted yet may wait with the others. */
static bool may_wait(const struct query *asking)
{
	size_t count = 0;

	for (const struct query *query = asking->http->queries; query; query = query->next)
		count += query->state != STATE_NEW;
	return count < places_for(asking, QUERIES_MAX, QUERIES_KEPT);
}

static bool may_start_job(const struct query *asking)
{
	size_t count = 0;

	for (const struct query *query = asking->http->queries; query; query = query->next)
		count += query->state == STATE_RUNNING;
	return asking->kind == QUERY_STORE || count < places_for(asking, JOBS_MAX, JOBS_KEPT);
}

static void start_job(struct query *query)
{
	if (!may_start_job(query))
		return;
	query->state = STATE_RUNNING;
	if (!child_prepare(&query->job, CHILD_JOB, sizeof(struct job_result)) &&
	    !child_start(&query->job, run_query, query))
		return;
	child_release(&query->job);
	fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, "no process can be created");
}

static void collect_slices(struct query *query)
{
	query->slice_count =
		slices_find(&query->http->slices, query->first, query->last, &query->slices);
	query->state = STATE_WAIT_JOB;
	if (!query->slices)
		fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
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
	fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE,
		   "other answers have to be read by their clients before");
}

/* After a step of the clock, the slices before it are a window of their own. */
static void collect_window(struct query *query)
{
	query->http->cut = query->last;
	query->last = slices_connected(&query->http->slices, query->first, query->last);
	collect_slices(query);
}

static void end_job(struct query *query)
{
	const struct child_result *result = query->job.result;

	if (result->done && !result->err) {
		end_successful_job(query);
		return;
	}
	/* Unless this process has killed it. */
	if (!result->done && !query->is_gone)
		query->http->metrics.jobs_killed[query->kind == QUERY_STORE]++;
	fail_query(query,
		   result->done && result->err == -ENODATA ? MHD_HTTP_NOT_FOUND
							   : MHD_HTTP_INTERNAL_SERVER_ERROR,
		   result->done ? result->error
				: "the answer takes too much memory or too much time");
}

/* A client that has gone leaves its place to others. */
static void give_up(struct query *query)
{
	/* Until it has ended, it is one of those that run. */
	if (query->state == STATE_RUNNING)
		child_stop(&query->job);
	else if (query->state != STATE_ANSWERED)
		fail_query(query, MHD_HTTP_BAD_REQUEST, "the client has closed the connection");
}

/* Takes all steps that are possible now. */
static void advance_query(struct query *query, int64_t now)
{
	if (query->is_gone)
		give_up(query);
	if (query->state == STATE_WAIT_TIME && now >= query->until) {
		query->until = now + SAMPLER_TIMEOUT_NS;
		ask(query, ASK_CUT, STATE_WAIT_END);
	}
	if (query->state == STATE_WAIT_SLICES &&
	    slices_have(&query->http->slices, query->first, query->last)) {
		if (query->kind == QUERY_STORE)
			collect_window(query);
		else
			collect_slices(query);
	}
	if (query->state == STATE_WAIT_JOB)
		start_job(query);
	if (query->state == STATE_RUNNING && child_has_ended(&query->job, false))
		end_job(query);
	if (query->state != STATE_RUNNING && query->state != STATE_WAIT_JOB &&
	    query->state != STATE_ANSWERED && now >= query->until)
		fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the sampler does not answer");
}

/* Frees what a query has beside itself. */
static void clear_query(struct query *query)
{
	if (query->recorded.file >= 0)
		close(query->recorded.file);
	query->recorded.file = -1;
	free(query->slices);
	query->slices = NULL;
	query->slice_count = 0;
	child_release(&query->job);
}

/* The store */

static int64_t next_window(const struct http *http, int64_t now)
{
	int64_t length = http->config->store.window_s * NS_PER_SECOND;
	int64_t real = now_ns(CLOCK_REALTIME);

	return now + length - real % length + WINDOW_MARGIN_NS;
}

static void begin_window(struct http *http, int64_t now)
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

/* With the slices of the last cut that are not stored: see collect_window(). */
static void begin_rest_of_window(struct http *http, int64_t now)
{
	struct query *query = &http->store;

	begin_window(http, now);
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

/* A store that does not work gets the slices again, with those of the next window. */
static void end_store_job(struct http *http, int64_t now)
{
	struct query *query = &http->store;
	const struct job_result *result = (const struct job_result *)query->job.result;
	const bool is_written = result && result->store.counts.written;
	const bool is_stored = query->status == MHD_HTTP_OK || is_written;
	char text[256];

	if (result && (result->child.done || is_written)) {
		add_counts(&http->metrics.store, &result->store.counts);
		http->metrics.windows = result->store.windows;
		http->metrics.window_bytes = result->store.window_bytes;
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
	clear_query(query);
	if (is_stored && http->cut > http->stored)
		begin_rest_of_window(http, now);
	else
		begin_window(http, now);
}

static void advance_store(struct http *http, int64_t now)
{
	if (!http->config->store.path)
		return;
	while (send_stored(http)) {
		advance_query(&http->store, now);
		if (http->store.state != STATE_ANSWERED)
			break;
		end_store_job(http, now);
	}
}

/* Closes the slices that no query needs. */
static void drop_slices(struct http *http)
{
	uint32_t needed = http->config->store.path ? http->stored + 1 : UINT32_MAX;

	for (const struct query *query = http->queries; query; query = query->next) {
		if (query->first && query->state != STATE_ANSWERED)
			needed = MIN(needed, query->first);
	}
	slices_drop(&http->slices, needed);
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
		fail_query(query,
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
		fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, reply->error);
	} else if (reply->type == REPLY_COUNTERS) {
		query->status = MHD_HTTP_OK;
		query->state = STATE_ANSWERED;
	}
}

/* The ID of the first ask of this server. */
static uint32_t first_id(const struct http *http)
{
	return http->config->restarts * SERVER_IDS;
}

static void handle_reply(struct http *http, const struct reply *reply, int file, int64_t now)
{
	const struct slice_file slice = {file, reply->start_ns, reply->duration_ns,
					 reply->is_window};

	if (!http->ready && (reply->type != REPLY_READY || reply->id != first_id(http))) {
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
		/* One that is lost was counted by the sampler. */
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

static void read_replies(struct http *http, int64_t now)
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

/* Requests */

static const struct route {
	const char *path;
	enum query_kind kind;
} routes[] = {
	{"/debug/pprof/profile", QUERY_PROFILE}, {"/metrics", QUERY_COUNTERS},
	{"/api/profile", QUERY_RANGE},           {"/api/windows", QUERY_WINDOWS},
	{"/api/services", QUERY_SERVICES},       {"/api/targets", QUERY_TARGETS},
	{"/api/timeline", QUERY_TIMELINE},
};

static const char index_page[] =
	"<!doctype html>\n<meta charset=\"utf-8\">\n<title>stackbeat</title>\n"
	"<h1>stackbeat</h1>\n<p><a href=\"/\">CPU time of the past</a>\n<ul>\n"
	"<li><a href=\"/debug/pprof/profile?seconds=30\">profile</a>: CPU profile of this machine "
	"for 30 seconds; hz, pid, cgroup, container, service, labels, symbols, format\n"
	"<li><a href=\"/debug/pprof/cmdline\">cmdline</a>\n"
	"<li><a href=\"/debug/pprof/symbol\">symbol</a>\n"
	"<li><a href=\"/api/windows\">windows</a> of the store: from, until\n"
	"<li><a href=\"/api/services\">services</a> of a time range: from, until\n"
	"<li><a href=\"/api/timeline\">timeline</a> of the services: from, until, steps\n"
	"<li><a href=\"/api/profile\">profile of a time range</a>: from, until, and as above; with "
	"format=flamegraph also group, base_from, base_until, base_service\n"
	"<li><a href=\"/api/targets\">targets</a>: one for each service\n"
	"<li><a href=\"/metrics\">metrics</a>\n</ul>\n";

static enum MHD_Result queue(struct http *http, struct MHD_Connection *connection,
			     unsigned int status, struct MHD_Response *response, const char *type)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	mhd.add_response_header(response, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	mhd.add_response_header(response, "Content-Security-Policy", web_page_policy(type));
	/* One request a connection, so that each has a time-out. */
	mhd.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	/* As net/http/pprof: pprof prints the text of such an error. */
	if (status != MHD_HTTP_OK)
		mhd.add_response_header(response, "X-Go-Pprof", "1");
	if (!strcmp(type, "application/octet-stream"))
		mhd.add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION,
					"attachment; filename=\"profile\"");
	/* A browser asks for a password. */
	if (status == MHD_HTTP_UNAUTHORIZED) {
		mhd.add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					"Basic realm=\"stackbeat\", charset=\"UTF-8\"");
		mhd.add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					"Bearer realm=\"stackbeat\"");
	}
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		mhd.add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	http->metrics.requests++;
	http->metrics.requests_failed += status >= 400;
	result = mhd.queue_response(connection, status, response);
	mhd.destroy_response(response);
	return result;
}

static enum MHD_Result queue_bytes(struct http *http, struct MHD_Connection *connection,
				   unsigned int status, const void *bytes, size_t size,
				   const char *type)
{
	return queue(http, connection, status,
		     mhd.create_response_from_buffer(size, (void *)bytes, MHD_RESPMEM_MUST_COPY),
		     type);
}

static enum MHD_Result queue_error(struct http *http, struct MHD_Connection *connection,
				   unsigned int status, const char *message)
{
	char text[300];

	snprintf(text, sizeof(text), "%s\n", message);
	return queue_bytes(http, connection, status, text, strlen(text),
			   "text/plain; charset=utf-8");
}

static enum MHD_Result queue_metrics(struct http *http, struct MHD_Connection *connection)
{
	enum MHD_Result result = MHD_NO;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return MHD_NO;
	http->metrics.cpu_ns = (uint64_t)(http->config->cpu_before_ns + cpu_time_own());
	print_metrics(&http->metrics, out);
	if (!fclose(out))
		result = queue_bytes(http, connection, MHD_HTTP_OK, text, size,
				     "text/plain; version=0.0.4; charset=utf-8");
	free(text);
	return result;
}

static const char *content_type(const struct query *query)
{
	static const char *const content_types[] = {
		[REQUEST_PPROF] = "application/octet-stream",
		[REQUEST_FOLDED] = "text/plain; charset=utf-8",
		[REQUEST_SPEEDSCOPE] = "application/json",
		[REQUEST_FLAMEGRAPH] = "image/svg+xml",
	};

	if (query->kind != QUERY_PROFILE && query->kind != QUERY_RANGE)
		return "application/json";
	return content_types[query->request.format];
}

static enum MHD_Result queue_answer(struct query *query)
{
	struct http *http = query->http;
	struct MHD_Response *response;
	struct stat status;
	int file;

	if (query->status != MHD_HTTP_OK)
		return queue_error(http, query->connection, query->status, query->message);
	if (query->kind == QUERY_COUNTERS)
		return queue_metrics(http, query->connection);
	file = fcntl(query->job.file, F_DUPFD_CLOEXEC, 0);
	if (file < 0 || fstat(file, &status)) {
		if (file >= 0)
			close(file);
		return queue_error(http, query->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				   "too many open files");
	}
	/* It closes the file. */
	response = mhd.create_response_from_fd((uint64_t)status.st_size, file);
	if (!response)
		close(file);
	return queue(http, query->connection, MHD_HTTP_OK, response, content_type(query));
}

struct parameters {
	struct request *request;
	struct error *error;
	int err;
};

static bool has_nul(const char *text, size_t size)
{
	return text && memchr(text, '\0', size);
}

static enum MHD_Result add_parameter(void *arg, enum MHD_ValueKind kind, const char *key,
				     size_t key_size, const char *value, size_t value_size)
{
	struct parameters *parameters = arg;

	(void)kind;
	/* The string would end there. */
	if (has_nul(key, key_size) || has_nul(value, value_size))
		parameters->err =
			error_set(parameters->error, EINVAL, "a parameter contains a NUL byte");
	else
		parameters->err =
			request_parameter(parameters->request, key, value, parameters->error);
	return parameters->err ? MHD_NO : MHD_YES;
}

static enum request_purpose purpose_of(enum query_kind kind)
{
	switch (kind) {
	case QUERY_PROFILE:
		return REQUEST_SESSION;
	case QUERY_RANGE:
		return REQUEST_RANGE;
	case QUERY_TIMELINE:
		return REQUEST_TIMELINE;
	case QUERY_WINDOWS:
	case QUERY_SERVICES:
	case QUERY_TARGETS:
		return REQUEST_LIST;
	default:
		return REQUEST_OTHER;
	}
}

static int parse_request(struct query *query, struct error *error)
{
	struct parameters parameters = {.request = &query->request, .error = error};

	request_init(&query->request, now_ns(CLOCK_REALTIME) / 1000);
	mhd.get_connection_values_n(query->connection, MHD_GET_ARGUMENT_KIND, add_parameter,
				    &parameters);
	return parameters.err ? parameters.err
			      : request_check(&query->request, purpose_of(query->kind), error);
}

static enum query_kind find_route(const char *path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (!strcmp(routes[i].path, path))
			return routes[i].kind;
	}
	return QUERY_NONE;
}

/*
 * Returns whether the sampler answers. It is asked here, so that nothing wakes it if nobody wants
 * to know: a sampler that hangs is found by a later request.
 */
static bool is_healthy(struct http *http)
{
	const struct ask ask = {.type = ASK_COUNTERS, .id = ++http->next_id};
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (http->probed_ns)
		return now - http->probed_ns < HEALTH_TIMEOUT_NS;
	/* In a full socket, the asks before wait for an answer. */
	send(http->config->socket, &ask, sizeof(ask), MSG_NOSIGNAL | MSG_DONTWAIT);
	http->probed_ns = now;
	return true;
}

/* Answers that need nothing of others. */
static enum MHD_Result answer_at_once(struct http *http, struct MHD_Connection *connection,
				      const char *path)
{
	static const char symbol[] = "num_symbols: 0\n", health[] = "ok\n";
	const char *const plain = "text/plain; charset=utf-8";

	if (!strcmp(path, "/debug/pprof") || !strcmp(path, "/debug/pprof/"))
		return queue_bytes(http, connection, MHD_HTTP_OK, index_page,
				   sizeof(index_page) - 1, "text/html; charset=utf-8");
	if (!strcmp(path, "/debug/pprof/cmdline"))
		return queue_bytes(http, connection, MHD_HTTP_OK, http->config->cmdline,
				   http->config->cmdline_size, plain);
	/* Profiles have their symbols; pprof asks for those of addresses without one. */
	if (!strcmp(path, "/debug/pprof/symbol"))
		return queue_bytes(http, connection, MHD_HTTP_OK, symbol, sizeof(symbol) - 1,
				   plain);
	if (!strcmp(path, "/healthz") && !is_healthy(http))
		return queue_error(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				   "the sampler does not answer");
	if (!strcmp(path, "/healthz"))
		return queue_bytes(http, connection, MHD_HTTP_OK, health, sizeof(health) - 1,
				   plain);
	return queue_error(http, connection, MHD_HTTP_NOT_FOUND, "there is no such page");
}

static const char *host_of(struct MHD_Connection *connection)
{
	const char *host =
		mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

	return host ? host : "";
}

static int socket_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

/*
 * At a Unix socket, a client may send no more and wait for its answer. TCP has the same sign for a
 * client that has closed the connection.
 */
static short hangup_of(struct MHD_Connection *connection)
{
	int domain = AF_UNSPEC;
	socklen_t size = sizeof(domain);

	getsockopt(socket_of(connection), SOL_SOCKET, SO_DOMAIN, &domain, &size);
	return domain == AF_UNIX ? 0 : POLLRDHUP;
}

static bool is_granted(const struct access *access, struct MHD_Connection *connection)
{
	const char *authorization = mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
								MHD_HTTP_HEADER_AUTHORIZATION);
	char *password = NULL;
	char *user = mhd.basic_auth_get_username_password(connection, &password);
	bool granted = access_is_granted(access, authorization, password);

	mhd.free(user);
	mhd.free(password);
	return granted;
}

static bool has_body(struct MHD_Connection *connection)
{
	const char *length = mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);

	return (length && strtoull(length, NULL, 10)) ||
	       mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
					   MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static bool has_tls(const struct daemon *daemon)
{
	return daemon->http->config->access->certificate &&
	       http_listener_is_remote(daemon->listener);
}

/*
 * A browser may be led to believe that a page of another host comes from here (DNS rebinding). Such
 * a page has no certificate and no token for its own name.
 */
static bool is_host_served(const struct daemon *daemon, struct MHD_Connection *connection)
{
	const struct http *http = daemon->http;

	if (!http_listener_is_remote(daemon->listener))
		return request_is_to_loopback(host_of(connection));
	return has_tls(daemon) || http->config->access->token ||
	       request_is_to_machine(host_of(connection), http->host_name);
}

/* Why a request is not answered; status 0: it is. */
struct refusal {
	unsigned int status;
	const char *message;
};

/* Whatever a request sends later, a client without rights takes no place of others with it. */
static struct refusal check_headers(const struct daemon *daemon, struct MHD_Connection *connection,
				    const char *path, const char *method)
{
	bool is_get = !strcmp(method, MHD_HTTP_METHOD_GET), is_head = !strcmp(method, "HEAD");
	bool is_symbol = !strcmp(path, "/debug/pprof/symbol");

	if (!is_host_served(daemon, connection))
		return (struct refusal){MHD_HTTP_FORBIDDEN, "the request is to another host"};
	if (daemon->listener->is_tcp && !is_granted(daemon->http->config->access, connection))
		return (struct refusal){MHD_HTTP_UNAUTHORIZED,
					"this needs the token: as a bearer token, or as the "
					"password of any user"};
	/* Other sites may link to the page, which has no data. */
	if (!((is_get || is_head) && web_page_find(path)) &&
	    request_is_of_other_site(
		    mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site")))
		return (struct refusal){MHD_HTTP_FORBIDDEN,
					"the request is of a page of another site"};
	if (!is_get && !is_head && !(is_symbol && !strcmp(method, MHD_HTTP_METHOD_POST)))
		return (struct refusal){MHD_HTTP_METHOD_NOT_ALLOWED, "the method is not allowed"};
	if (!is_symbol && has_body(connection))
		return (struct refusal){MHD_HTTP_BAD_REQUEST, "the request has a body"};
	return (struct refusal){0, NULL};
}

/* Its headers are checked. */
static enum MHD_Result handle_request(struct query *query, const char *path, const char *method)
{
	bool is_head = !strcmp(method, "HEAD");
	const struct web_file *file = web_page_find(path);
	struct http *http = query->http;
	struct error error;

	if (file)
		return queue_bytes(http, query->connection, MHD_HTTP_OK, file->text,
				   strlen(file->text), file->type);
	query->kind = find_route(path);
	if (query->kind == QUERY_NONE)
		return answer_at_once(http, query->connection, path);
	if (query->kind >= QUERY_RANGE && !http->config->store.path)
		return queue_error(http, query->connection, MHD_HTTP_NOT_FOUND,
				   "there is no store");
	if (parse_request(query, &error))
		return queue_error(http, query->connection, MHD_HTTP_BAD_REQUEST, error.text);
	if (is_head)
		return queue_bytes(http, query->connection, MHD_HTTP_OK, "", 0,
				   content_type(query));
	if (!may_wait(query)) {
		http->metrics.requests_refused++;
		return queue_error(http, query->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				   "too many requests are being answered");
	}
	snprintf(query->host, sizeof(query->host), "%s", host_of(query->connection));
	begin_query(query, now_ns(CLOCK_MONOTONIC));
	if (query->state == STATE_ANSWERED)
		return queue_answer(query);
	query->hangup = hangup_of(query->connection);
	query->is_suspended = true;
	mhd.suspend_connection(query->connection);
	return MHD_YES;
}

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static enum MHD_Result begin_request(const struct daemon *daemon, struct MHD_Connection *connection,
				     const char *path, const char *method, void **context)
{
	const struct refusal refusal = check_headers(daemon, connection, path, method);
	struct http *http = daemon->http;
	struct query *query;

	if (refusal.status)
		return queue_error(http, connection, refusal.status, refusal.message);
	query = calloc(1, sizeof(*query));
	if (!query)
		return MHD_NO;
	query->http = http;
	query->connection = connection;
	query->is_tcp = daemon->listener->is_tcp;
	query->recorded.file = query->job.file = -1;
	query->next = http->queries;
	http->queries = query;
	*context = query;
	return MHD_YES;
}

static enum MHD_Result access_handler(void *arg, struct MHD_Connection *connection,
				      const char *path, const char *method, const char *version,
				      const char *data, size_t *size, void **context)
{
	const struct daemon *daemon = arg;
	struct client *client = client_of(connection);
	struct query *query = *context;

	(void)version;
	(void)data;
	if (!client || !client->is_trusted)
		return MHD_NO;
	if (!query)
		return begin_request(daemon, connection, path, method, context);
	if (*size) {
		query->body += *size;
		*size = 0;
		return query->body <= BODY_BYTES_MAX ? MHD_YES : MHD_NO;
	}
	client->deadline = now_ns(CLOCK_MONOTONIC) + ANSWER_TIMEOUT_NS;
	if (query->state == STATE_ANSWERED)
		return queue_answer(query);
	if (query->state != STATE_NEW)
		return MHD_NO;
	if (handle_request(query, path, method) == MHD_NO)
		return MHD_NO;
	/* A request that waits has its own bounds. */
	if (query->state != STATE_NEW && query->state != STATE_ANSWERED)
		client->deadline = INT64_MAX;
	return MHD_YES;
}

static void request_completed(void *arg, struct MHD_Connection *connection, void **context,
			      enum MHD_RequestTerminationCode reason)
{
	struct query *query = *context, **next;

	(void)arg;
	(void)connection;
	(void)reason;
	if (!query)
		return;
	for (next = &query->http->queries; *next != query; next = &(*next)->next)
		;
	*next = query->next;
	clear_query(query);
	free(query);
	*context = NULL;
}

/* Connections */

/*
 * Makes the handshake fail for clients without a certificate of the authorities: libmicrohttpd asks
 * for one, but accepts all.
 */
static bool require_certificate(struct MHD_Connection *connection)
{
	static gnutls_typed_vdata_st purpose = {
		.type = GNUTLS_DT_KEY_PURPOSE_OID,
		.data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT,
	};
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

	if (!info || !info->tls_session)
		return false;
	gnutls.certificate_server_set_request(info->tls_session, GNUTLS_CERT_REQUIRE);
	gnutls.session_set_verify_cert2(info->tls_session, &purpose, 1, 0);
	return true;
}

static void note_connection(void *arg, struct MHD_Connection *connection, void **context,
			    enum MHD_ConnectionNotificationCode code)
{
	const struct daemon *daemon = arg;
	struct http *http = daemon->http;
	struct client *client = *context, **next;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client = calloc(1, sizeof(*client));
		*context = client;
		if (!client)
			return;
		client->connection = connection;
		client->is_trusted = !has_tls(daemon) || !http->config->access->client_ca ||
				     require_certificate(connection);
		client->deadline = now_ns(CLOCK_MONOTONIC) + HEADER_TIMEOUT_NS;
		client->next = http->clients;
		http->clients = client;
		http->metrics.connections++;
	} else if (client) {
		for (next = &http->clients; *next != client; next = &(*next)->next)
			;
		*next = client->next;
		http->metrics.connections--;
		http->has_closed = true;
		free(client);
		*context = NULL;
	}
}

/* The time-out of libmicrohttpd begins again with each byte. */
static void close_late_clients(struct http *http, int64_t now)
{
	for (struct client *client = http->clients; client; client = client->next) {
		if (now < client->deadline)
			continue;
		client->deadline = now + HEADER_TIMEOUT_NS;
		shutdown(socket_of(client->connection), SHUT_RDWR);
	}
}

/* The loop */

#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

#define TLS_OPTIONS 5 /* with the end */

/* Sets the options of TLS, and returns its flag. */
static unsigned int set_tls(const struct access *access, struct MHD_OptionItem options[TLS_OPTIONS])
{
	size_t count = 0;

	options[count++] =
		(struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, access->certificate};
	options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, access->key};
	options[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, TLS_VERSIONS};
	if (access->client_ca)
		options[count++] =
			(struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, access->client_ca};
	options[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
	return MHD_USE_TLS;
}

/* Returns whether a server can be started with the keys. */
static bool can_use_tls(const struct access *access)
{
	struct MHD_OptionItem options[TLS_OPTIONS];
	struct MHD_Daemon *daemon = mhd.start_daemon(
		set_tls(access, options) | MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL,
		access_handler, NULL, MHD_OPTION_ARRAY, options, MHD_OPTION_END);

	if (daemon)
		mhd.stop_daemon(daemon);
	return daemon;
}

/* libmicrohttpd accepts a text without certificates, too: there are no clients then. */
static bool has_certificates(const char *text)
{
	const gnutls_datum_t datum = {(unsigned char *)text, (unsigned int)strlen(text)};
	gnutls_certificate_credentials_t credentials;
	int count;

	if (gnutls.certificate_allocate_credentials(&credentials) < 0)
		return false;
	count = gnutls.certificate_set_x509_trust_mem(credentials, &datum, GNUTLS_X509_FMT_PEM);
	gnutls.certificate_free_credentials(credentials);
	return count > 0;
}

int http_check_tls(const struct access *access, struct error *error)
{
	struct access own = *access;

	own.client_ca = NULL;
	if (!can_use_tls(&own))
		return error_set(error, EINVAL,
				 "--tls-cert: it is no certificate in PEM, or --tls-key is not its "
				 "key");
	if (access->client_ca && (!has_certificates(access->client_ca) || !can_use_tls(access)))
		return error_set(error, EINVAL, "--tls-client-ca: it has no certificate in PEM");
	return 0;
}

static int start_daemon(struct daemon *daemon, struct error *error)
{
	const struct http_listener *listener = daemon->listener;
	const struct access *access = daemon->http->config->access;
	struct MHD_OptionItem options[TLS_OPTIONS] = {{MHD_OPTION_END, 0, NULL}};
	unsigned int flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

	if (has_tls(daemon))
		flags |= set_tls(access, options);
	daemon->daemon = mhd.start_daemon(
		flags, 0, NULL, NULL, access_handler, daemon, MHD_OPTION_LISTEN_SOCKET,
		listener->socket, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)(HEADER_TIMEOUT_NS / NS_PER_SECOND),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT,
		1, MHD_OPTION_NOTIFY_COMPLETED, request_completed, daemon,
		MHD_OPTION_NOTIFY_CONNECTION, note_connection, daemon, MHD_OPTION_ARRAY, options,
		MHD_OPTION_END);
	return daemon->daemon ? 0 : error_set(error, EIO, "can't start the HTTP server");
}

static int start_daemons(struct http *http, struct error *error)
{
	int err = 0;

	for (size_t i = 0; i < http->config->listener_count && !err; i++) {
		http->daemons[i] =
			(struct daemon){.http = http, .listener = &http->config->listeners[i]};
		err = start_daemon(&http->daemons[i], error);
	}
	return err;
}

static void stop_daemons(struct http *http)
{
	for (size_t i = 0; i < http->config->listener_count; i++) {
		if (http->daemons[i].daemon)
			mhd.stop_daemon(http->daemons[i].daemon);
	}
}

static void run_daemons(struct http *http)
{
	for (size_t i = 0; i < http->config->listener_count; i++) {
		if (http->daemons[i].daemon)
			mhd.run(http->daemons[i].daemon);
	}
}

static int64_t next_time(const struct http *http, int64_t now)
{
	int64_t next = INT64_MAX;

	if (http->config->store.path && http->store.state < STATE_WAIT_REPLY &&
	    http->stored_sent == http->stored)
		next = MIN(next, http->store.until);
	for (const struct query *query = http->queries; query; query = query->next) {
		if (query->state > STATE_NEW && query->state <= STATE_WAIT_REPLY)
			next = MIN(next, query->until);
		/* The request has come, or a job has ended, since its turn to start one. */
		if (query->state == STATE_WAIT_JOB && may_start_job(query))
			next = now;
	}
	for (const struct client *client = http->clients; client; client = client->next)
		next = MIN(next, client->deadline);
	for (size_t i = 0; i < http->config->listener_count; i++) {
		MHD_UNSIGNED_LONG_LONG milliseconds;

		if (http->daemons[i].daemon &&
		    mhd.get_timeout(http->daemons[i].daemon, &milliseconds) == MHD_YES &&
		    milliseconds < INT32_MAX)
			next = MIN(next, now + (int64_t)milliseconds * 1000000);
	}
	return next;
}

/* libmicrohttpd does not look at the clients of requests that wait. */
static bool is_watched(const struct query *query)
{
	return query->is_suspended && !query->is_gone;
}

static nfds_t watch_clients(const struct http *http, struct pollfd *fds)
{
	nfds_t count = 0;

	for (const struct query *query = http->queries; query; query = query->next) {
		if (is_watched(query) && count < QUERIES_MAX)
			fds[count++] = (struct pollfd){
				.fd = socket_of(query->connection),
				.events = query->hangup,
			};
	}
	return count;
}

static void note_gone_clients(struct http *http, const struct pollfd *fds, nfds_t count)
{
	const struct pollfd *end = fds + count;

	for (struct query *query = http->queries; query && fds < end; query = query->next) {
		if (is_watched(query))
			query->is_gone = (fds++)->revents;
	}
}

/* Waits for events, at most until `until`. */
static int wait_for_events(struct http *http, int64_t until, struct error *error)
{
	struct pollfd fds[LISTENERS_MAX + 2 + QUERIES_MAX] = {
		{.fd = http->ended ? -1 : http->config->socket,
		 .events = http->stored_sent == http->stored ? POLLIN : POLLIN | POLLOUT},
		{.fd = http->signals, .events = POLLIN},
	};
	struct signalfd_siginfo info;
	nfds_t count = 2, clients;
	int64_t wait = until - now_ns(CLOCK_MONOTONIC);
	/* Rounded up, so that it is time afterwards. */
	int milliseconds = wait <= 0 ? 0 : (int)MIN(wait / 1000000 + 1, 3600000);

	for (size_t i = 0; i < http->config->listener_count; i++) {
		const union MHD_DaemonInfo *daemon =
			http->daemons[i].daemon ? mhd.get_daemon_info(http->daemons[i].daemon,
								      MHD_DAEMON_INFO_EPOLL_FD)
						: NULL;

		if (daemon)
			fds[count++] = (struct pollfd){.fd = daemon->epoll_fd, .events = POLLIN};
	}
	clients = watch_clients(http, fds + count);
	if (poll(fds, count + clients, milliseconds) >= 0)
		note_gone_clients(http, fds + count, clients);
	else if (errno != EINTR)
		return error_errno(error, errno, "can't wait for requests");
	while (read(http->signals, &info, sizeof(info)) == sizeof(info))
		;
	return 0;
}

static uint64_t resident_bytes(int statm)
{
	char text[128] = "";
	char *resident;

	if (pread(statm, text, sizeof(text) - 1, 0) <= 0)
		return 0;
	resident = strchr(text, ' ');
	return (resident ? strtoull(resident, NULL, 10) : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The answers of queries that are ready are sent by libmicrohttpd. */
static void advance_queries(struct http *http, int64_t now)
{
	for (struct query *query = http->queries; query; query = query->next) {
		if (!query->is_suspended)
			continue;
		advance_query(query, now);
		if (query->state != STATE_ANSWERED)
			continue;
		if (query->kind == QUERY_COUNTERS)
			http->metrics.resident_bytes = resident_bytes(http->config->statm);
		query->is_suspended = false;
		mhd.resume_connection(query->connection);
	}
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
	collect_window(query);
	if (query->slices && run_query(query, &here, &error))
		http->config->message(error.text);
	clear_query(query);
	http->stored = query->last;
	http->again = false;
}

/* The sampler has ended: stores the slices that are there. */
static void store_rest(struct http *http)
{
	struct query *query = &http->store;
	uint32_t last = http->stored;

	if (!http->config->store.path)
		return;
	while (query->state == STATE_RUNNING && !child_has_ended(&query->job, false)) {
		struct pollfd polled = {.fd = http->signals, .events = POLLIN};
		struct signalfd_siginfo info;

		poll(&polled, 1, -1);
		while (read(http->signals, &info, sizeof(info)) == sizeof(info))
			;
	}
	if (query->state == STATE_RUNNING) {
		end_job(query);
		end_store_job(http, now_ns(CLOCK_MONOTONIC));
	}
	for (size_t i = 0; i < http->slices.count; i++)
		last = MAX(last, http->slices.items[i].number);
	while (http->stored < last)
		store_window(http, last);
}

static void fail_all(struct http *http)
{
	for (struct query *query = http->queries; query; query = query->next) {
		if (!query->is_suspended)
			continue;
		fail_query(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the recording has ended");
		query->is_suspended = false;
		mhd.resume_connection(query->connection);
	}
}

static int serve(struct http *http, struct error *error)
{
	bool started = false;
	int err = 0;

	while (!err && !http->ended) {
		int64_t now = now_ns(CLOCK_MONOTONIC), until;

		read_replies(http, now);
		if (http->ready && !started) {
			err = start_daemons(http, error);
			started = true;
		}
		run_daemons(http);
		now = now_ns(CLOCK_MONOTONIC);
		advance_store(http, now);
		advance_queries(http, now);
		drop_slices(http);
		close_late_clients(http, now);
		run_daemons(http);
		/* At its limit, libmicrohttpd looks for new connections in a later run only. */
		until = http->has_closed ? now : next_time(http, now);
		http->has_closed = false;
		if (!err && !http->ended)
			err = wait_for_events(http, until, error);
	}
	fail_all(http);
	run_daemons(http);
	return err;
}

/* The sampler sends the REPLY_READY of the first server by itself. */
static int begin(struct http *http, struct error *error)
{
	const struct ask ask = {.type = ASK_BEGIN, .id = first_id(http)};

	if (http->config->restarts &&
	    send(http->config->socket, &ask, sizeof(ask), MSG_NOSIGNAL) < 0 && errno != EPIPE)
		return error_errno(error, errno, "the sampler does not answer");
	return 0;
}

int http_run(const struct http_config *config, struct error *error)
{
	struct http *http = calloc(1, sizeof(*http));
	sigset_t set;
	int err;

	if (!http)
		return error_errno(error, ENOMEM, "can't serve");
	http->config = config;
	/* A name that was cut has no end. */
	if (gethostname(http->host_name, sizeof(http->host_name) - 1))
		http->host_name[0] = '\0';
	http->next_id = first_id(http);
	http->again = config->restarts;
	http->metrics.restarts = config->restarts;
	if (config->store.path)
		begin_window(http, now_ns(CLOCK_MONOTONIC));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	http->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	err = http->signals < 0 || fcntl(config->socket, F_SETFL, O_NONBLOCK)
		      ? error_errno(error, errno, "can't wait for requests")
		      : begin(http, error);
	if (!err)
		err = serve(http, error);
	if (!err && !http->ready && config->restarts)
		err = error_set(error, EIO, "the profiles that were not stored yet are lost");
	store_rest(http);
	stop_daemons(http);
	slices_clear(&http->slices);
	if (http->signals >= 0)
		close(http->signals);
	free(http);
	return err;
}

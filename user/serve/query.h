/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Requests of clients, and the request of the server itself that stores a window: what each waits
 * for, of the sampler and of its job.
 */
#ifndef STACKBEAT_SERVE_QUERY_H
#define STACKBEAT_SERVE_QUERY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/clock.h"
#include "sandbox/child.h"
#include "serve/http_config.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "serve/slices.h"

struct MHD_Connection;
struct MHD_Daemon;
struct error;

#define QUERIES_MAX 64u /* that wait, or have a job */
#define SAMPLER_TIMEOUT_NS (150 * NS_PER_SECOND) /* for the sampler, which symbolizes */

enum query_kind {
	QUERY_NONE,
	QUERY_PROFILE,
	QUERY_COUNTERS,
	QUERY_RANGE,
	QUERY_WINDOWS,
	QUERY_SERVICES,
	QUERY_TIMELINE,
	QUERY_TARGETS,
	QUERY_ANNOTATION,
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

/* A request; the store's request has no connection. */
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

/* The query is answered, with an error: an HTTP status. */
void query_fail(struct query *query, unsigned int status, const char *message);
/* Returns whether a query that is not counted yet may wait with the others. */
bool query_may_wait(const struct query *asking);
bool query_may_start_job(const struct query *asking);
/* Asks the sampler, if the query needs it. */
void query_begin(struct query *query, int64_t now);
/* Takes all steps that are possible now. */
void query_advance(struct query *query, int64_t now);
/* Takes the slices up to query->last, or up to a step of the clock. */
void query_collect_window(struct query *query);
/* The work of a job: a child_function. */
int query_run(void *arg, struct child *job, struct error *error);
/* Takes the result of a job that has ended. */
void query_end_job(struct query *query);
/* Frees what a query has beside itself. */
void query_clear(struct query *query);

/* Returns the ID of the first ask of this server. */
uint32_t query_first_id(const struct http *http);
/* Reads what the sampler has sent. */
void query_read_replies(struct http *http, int64_t now);

#endif

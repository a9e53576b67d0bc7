// SPDX-License-Identifier: GPL-2.0
#include "serve/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "serve/connections.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"
#include "serve/query.h"
#include "serve/store_query.h"

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
		if (query->state == STATE_WAIT_JOB && query_may_start_job(query))
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
				.fd = mhd_socket_of(query->connection),
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

static uint64_t http_resident_bytes(int statm)
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
		query_advance(query, now);
		if (query->state != STATE_ANSWERED)
			continue;
		if (query->kind == QUERY_COUNTERS)
			http->metrics.resident_bytes = http_resident_bytes(http->config->statm);
		query->is_suspended = false;
		mhd.resume_connection(query->connection);
	}
}

static void fail_all(struct http *http)
{
	for (struct query *query = http->queries; query; query = query->next) {
		if (!query->is_suspended)
			continue;
		query_fail(query, MHD_HTTP_SERVICE_UNAVAILABLE, "the recording has ended");
		query->is_suspended = false;
		mhd.resume_connection(query->connection);
	}
}

static int http_serve(struct http *http, struct error *error)
{
	bool started = false;
	int err = 0;

	while (!err && !http->ended) {
		int64_t now = now_ns(CLOCK_MONOTONIC), until;

		query_read_replies(http, now);
		if (http->ready && !started) {
			err = connections_start(http, error);
			started = true;
		}
		connections_run(http);
		now = now_ns(CLOCK_MONOTONIC);
		store_query_advance(http, now);
		advance_queries(http, now);
		store_query_drop_slices(http);
		connections_close_late(http, now);
		connections_run(http);
		/* At its limit, libmicrohttpd looks for new connections in a later run only. */
		until = http->has_closed ? now : next_time(http, now);
		http->has_closed = false;
		if (!err && !http->ended)
			err = wait_for_events(http, until, error);
	}
	fail_all(http);
	connections_run(http);
	return err;
}

/* The sampler sends the REPLY_READY of the first server by itself. */
static int http_begin(struct http *http, struct error *error)
{
	const struct ask ask = {.type = ASK_BEGIN, .id = query_first_id(http)};

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
	http->next_id = query_first_id(http);
	http->again = config->restarts;
	http->metrics.restarts = config->restarts;
	if (config->store.path)
		store_query_begin(http, now_ns(CLOCK_MONOTONIC));
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	http->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	err = http->signals < 0 || fcntl(config->socket, F_SETFL, O_NONBLOCK)
		      ? error_errno(error, errno, "can't wait for requests")
		      : http_begin(http, error);
	if (!err)
		err = http_serve(http, error);
	if (!err && !http->ready && config->restarts)
		err = error_set(error, EIO, "the profiles that were not stored yet are lost");
	store_query_store_rest(http);
	connections_stop(http);
	slices_clear(&http->slices);
	if (http->signals >= 0)
		close(http->signals);
	free(http);
	return err;
}

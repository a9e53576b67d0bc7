// SPDX-License-Identifier: GPL-2.0
#include "serve/routes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "serve/access.h"
#include "serve/protocol.h"
#include "serve/query.h"
#include "serve/web_page.h"

#define HEALTH_TIMEOUT_NS (60 * NS_PER_SECOND) /* for the sampler to answer at all */

static const struct route {
	const char *path;
	enum query_kind kind;
} routes[] = {
	{"/debug/pprof/profile", QUERY_PROFILE}, {"/metrics", QUERY_COUNTERS},
	{"/api/profile", QUERY_RANGE},           {"/api/windows", QUERY_WINDOWS},
	{"/api/services", QUERY_SERVICES},       {"/api/targets", QUERY_TARGETS},
	{"/api/timeline", QUERY_TIMELINE},       {"/api/annotate", QUERY_ANNOTATION},
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
	"<li>/api/annotate: a function of a time range by instruction and line: function, file, "
	"from, "
	"until, service, container, cgroup, pid\n"
	"<li><a href=\"/api/targets\">targets</a>: one for each service\n"
	"<li><a href=\"/metrics\">metrics</a>\n</ul>\n";

static enum MHD_Result http_queue(struct http *http, struct MHD_Connection *connection,
				  unsigned int status, struct MHD_Response *response,
				  const char *type)
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
	return http_queue(
		http, connection, status,
		mhd.create_response_from_buffer(size, (void *)bytes, MHD_RESPMEM_MUST_COPY), type);
}

enum MHD_Result route_queue_error(struct http *http, struct MHD_Connection *connection,
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

enum MHD_Result route_queue_answer(struct query *query)
{
	struct http *http = query->http;
	struct MHD_Response *response;
	struct stat status;
	int file;

	if (query->status != MHD_HTTP_OK)
		return route_queue_error(http, query->connection, query->status, query->message);
	if (query->kind == QUERY_COUNTERS)
		return queue_metrics(http, query->connection);
	file = fcntl(query->job.file, F_DUPFD_CLOEXEC, 0);
	if (file < 0 || fstat(file, &status)) {
		if (file >= 0)
			close(file);
		return route_queue_error(http, query->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					 "too many open files");
	}
	/* It closes the file. */
	response = mhd.create_response_from_fd((uint64_t)status.st_size, file);
	if (!response)
		close(file);
	return http_queue(http, query->connection, MHD_HTTP_OK, response, content_type(query));
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
	case QUERY_ANNOTATION:
		return REQUEST_ANNOTATION;
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
	/* Profiles have their symbols; pprof asks for symbols of addresses without one. */
	if (!strcmp(path, "/debug/pprof/symbol"))
		return queue_bytes(http, connection, MHD_HTTP_OK, symbol, sizeof(symbol) - 1,
				   plain);
	if (!strcmp(path, "/healthz") && !is_healthy(http))
		return route_queue_error(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					 "the sampler does not answer");
	if (!strcmp(path, "/healthz"))
		return queue_bytes(http, connection, MHD_HTTP_OK, health, sizeof(health) - 1,
				   plain);
	return route_queue_error(http, connection, MHD_HTTP_NOT_FOUND, "there is no such page");
}

static const char *host_of(struct MHD_Connection *connection)
{
	const char *host =
		mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

	return host ? host : "";
}

/*
 * At a Unix socket, a client may send no more and wait for its answer. TCP has the same sign for a
 * client that has closed the connection.
 */
static short hangup_of(struct MHD_Connection *connection)
{
	int domain = AF_UNSPEC;
	socklen_t size = sizeof(domain);

	getsockopt(mhd_socket_of(connection), SOL_SOCKET, SO_DOMAIN, &domain, &size);
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

bool daemon_has_tls(const struct daemon *daemon)
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
	return daemon_has_tls(daemon) || http->config->access->token ||
	       request_is_to_machine(host_of(connection), http->host_name);
}

/* Whatever a request sends later, a client without rights takes no place of others with it. */
struct refusal route_check_headers(const struct daemon *daemon, struct MHD_Connection *connection,
				   const char *path, const char *method)
{
	bool is_get = !strcmp(method, MHD_HTTP_METHOD_GET), is_head = !strcmp(method, "HEAD");
	bool is_symbol = !strcmp(path, "/debug/pprof/symbol");

	if (!is_host_served(daemon, connection))
		return (struct refusal){
			MHD_HTTP_FORBIDDEN,
			http_listener_is_remote(daemon->listener)
				? "the request is to another host: use an address or the name of "
				  "this machine"
				: "the request is to another host: use localhost, 127.0.0.1 or "
				  "[::1]"};
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
enum MHD_Result route_handle_request(struct query *query, const char *path, const char *method)
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
		return route_queue_error(http, query->connection, MHD_HTTP_NOT_FOUND,
					 "there is no store");
	if (parse_request(query, &error))
		return route_queue_error(http, query->connection, MHD_HTTP_BAD_REQUEST, error.text);
	if (is_head)
		return queue_bytes(http, query->connection, MHD_HTTP_OK, "", 0,
				   content_type(query));
	if (!query_may_wait(query)) {
		http->metrics.requests_refused++;
		return route_queue_error(http, query->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					 "too many requests are being answered");
	}
	snprintf(query->host, sizeof(query->host), "%s", host_of(query->connection));
	query_begin(query, now_ns(CLOCK_MONOTONIC));
	if (query->state == STATE_ANSWERED)
		return route_queue_answer(query);
	query->hangup = hangup_of(query->connection);
	query->is_suspended = true;
	mhd.suspend_connection(query->connection);
	return MHD_YES;
}

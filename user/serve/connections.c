// SPDX-License-Identifier: GPL-2.0
#include "serve/connections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "serve/access.h"
#include "serve/microhttpd.h"
#include "serve/query.h"
#include "serve/routes.h"

#define CONNECTIONS_MAX 256u
#define HEADER_BYTES_MAX ((size_t)32 << 10) /* of a connection, with its parameters */
#define BODY_BYTES_MAX ((uint64_t)1 << 20)
#define HEADER_TIMEOUT_NS (10 * NS_PER_SECOND) /* for a complete request */
#define ANSWER_TIMEOUT_NS (60 * NS_PER_SECOND) /* for a client to take its answer */

/* Requests of connections */

static struct client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static enum MHD_Result begin_request(const struct daemon *daemon, struct MHD_Connection *connection,
				     const char *path, const char *method, void **context)
{
	const struct refusal refusal = route_check_headers(daemon, connection, path, method);
	struct http *http = daemon->http;
	struct query *query;

	if (refusal.status)
		return route_queue_error(http, connection, refusal.status, refusal.message);
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
		return route_queue_answer(query);
	if (query->state != STATE_NEW)
		return MHD_NO;
	if (route_handle_request(query, path, method) == MHD_NO)
		return MHD_NO;
	/* While a request waits, its query's deadline applies instead. */
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
	query_clear(query);
	free(query);
	*context = NULL;
}

/* From start to end */

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
		client->is_trusted = !daemon_has_tls(daemon) || !http->config->access->client_ca ||
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
void connections_close_late(struct http *http, int64_t now)
{
	for (struct client *client = http->clients; client; client = client->next) {
		if (now < client->deadline)
			continue;
		client->deadline = now + HEADER_TIMEOUT_NS;
		shutdown(mhd_socket_of(client->connection), SHUT_RDWR);
	}
}

/* Listeners */

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

int connections_check_tls(const struct access *access, struct error *error)
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

	if (daemon_has_tls(daemon))
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

int connections_start(struct http *http, struct error *error)
{
	int err = 0;

	for (size_t i = 0; i < http->config->listener_count && !err; i++) {
		http->daemons[i] =
			(struct daemon){.http = http, .listener = &http->config->listeners[i]};
		err = start_daemon(&http->daemons[i], error);
	}
	return err;
}

void connections_stop(struct http *http)
{
	for (size_t i = 0; i < http->config->listener_count; i++) {
		if (http->daemons[i].daemon)
			mhd.stop_daemon(http->daemons[i].daemon);
	}
}

void connections_run(struct http *http)
{
	for (size_t i = 0; i < http->config->listener_count; i++) {
		if (http->daemons[i].daemon)
			mhd.run(http->daemons[i].daemon);
	}
}

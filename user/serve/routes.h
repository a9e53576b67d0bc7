/* SPDX-License-Identifier: GPL-2.0 */
/* Requests: what they ask for, whether they are answered, and the answers as libmicrohttpd sends
 * them. */
#ifndef STACKBEAT_SERVE_ROUTES_H
#define STACKBEAT_SERVE_ROUTES_H

#include <stdbool.h>

#include "serve/microhttpd.h"

struct daemon;
struct http;
struct query;

/* Why a request is not answered; status 0: it is. */
struct refusal {
	unsigned int status;
	const char *message;
};

/* Returns whether clients of a listener have to use TLS. */
bool daemon_has_tls(const struct daemon *daemon);
struct refusal route_check_headers(const struct daemon *daemon, struct MHD_Connection *connection,
				   const char *path, const char *method);
/* Answers a request whose headers are checked, or suspends its connection. */
enum MHD_Result route_handle_request(struct query *query, const char *path, const char *method);
/* Sends the answer of a query in STATE_ANSWERED. */
enum MHD_Result route_queue_answer(struct query *query);
enum MHD_Result route_queue_error(struct http *http, struct MHD_Connection *connection,
				  unsigned int status, const char *message);

#endif

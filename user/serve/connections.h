/* SPDX-License-Identifier: GPL-2.0 */
/* The listeners of the HTTP server, and the connections of its clients. */
#ifndef STACKBEAT_SERVE_CONNECTIONS_H
#define STACKBEAT_SERVE_CONNECTIONS_H

#include <stdint.h>

struct access;
struct error;
struct http;

/*
 * Checks that the certificate, the key, and the authorities of clients can be used; for the latter,
 * gnutls_load() comes first. Returns 0 or -EINVAL.
 */
int connections_check_tls(const struct access *access, struct error *error);

/* Returns 0 or a negative errno value; connections_stop() is to be called in both cases. */
int connections_start(struct http *http, struct error *error);
void connections_stop(struct http *http);
/* Handles what has come. */
void connections_run(struct http *http);
/* Closes connections after their time. The time-out of libmicrohttpd begins again with each byte.
 */
void connections_close_late(struct http *http, int64_t now);

#endif

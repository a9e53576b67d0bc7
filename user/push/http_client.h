/* SPDX-License-Identifier: GPL-2.0 */
/* POST requests to one HTTP server, by libcurl, which is loaded when it is needed. */
#ifndef STACKBEAT_PUSH_HTTP_CLIENT_H
#define STACKBEAT_PUSH_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_PROTOBUF "application/x-protobuf"
#define HTTP_ANSWER_MAX ((size_t)64 << 10)
#define HTTP_RETRY_AFTER_MAX_S 600u

struct error;

struct http_options {
	const char *url; /* http:// or https://; paths of requests are appended */
	const char *header_file; /* a header a line, as in "Authorization: Bearer X"; or NULL */
	const char *ca_file; /* certificates that are trusted; NULL: the system's */
	const char *
		certificate_file; /* of this client, PEM, with its issuers' certificates; or NULL */
	const char *key_file; /* PEM, not encrypted; NULL: in the file of the certificate */
	bool insecure; /* send the headers of the file without TLS */
	bool (*stop)(void); /* when it returns true, what is not sent yet is not sent; or NULL */
};

/* What became of a request. */
enum http_result {
	HTTP_ACCEPTED,
	HTTP_UNAVAILABLE, /* no answer, or an answer that says to try again, or to authenticate */
	HTTP_FAILED, /* an error within the server, which may be due to this request */
	HTTP_REFUSED, /* the server will never accept this request */
	HTTP_NONE, /* there was nothing to request yet */
};

struct http_request {
	const char *path; /* appended to the URL */
	const char *type, *encoding; /* of the body; NULL: no encoding */
	const void *body;
	size_t size;
	/* As in OTLP: statuses from 500 on refuse the request, but for 502, 503 and 504. */
	bool errors_refuse;
};

struct http_client;

/*
 * Returns a client, which the caller frees with http_client_free(), or NULL with a message in
 * `error`: a wrong URL or header file, or no library. The URL may have no user and password, as
 * other users can see command lines. All files but `ca_file` are read here; the rights that
 * this needs can be given up afterwards. A header file that has changed is read again before a
 * request, if that is permitted then.
 */
struct http_client *http_client_new(const struct http_options *options, struct error *error);
void http_client_free(struct http_client *client);

/*
 * Sends a request, and reads at most HTTP_ANSWER_MAX bytes of the answer: its status counts,
 * whatever is behind them. Redirections are not followed. Sets `error` unless the request is
 * accepted: with the reason in the answer, unless that is a message of protobuf.
 */
enum http_result http_client_post(struct http_client *client, const struct http_request *request,
				  struct error *error);

/*
 * Returns the first bytes of the answer to the last request, up to HTTP_ANSWER_MAX; *size is their
 * number. They stay until the next request. Sets *is_protobuf if that is their type.
 */
const void *http_client_answer(const struct http_client *client, size_t *size, bool *is_protobuf);

/*
 * Returns the seconds that the server has asked for before the request is repeated (Retry-After,
 * RFC 9110, section 10.2.3), at most HTTP_RETRY_AFTER_MAX_S; 0: it has not, or the last request is
 * not to be repeated.
 */
unsigned int http_client_retry_after_s(const struct http_client *client);

/* Returns what an HTTP status means. */
enum http_result http_result_of_status(long status);

/* Returns whether a URL is http:// to this machine by its loopback address or "localhost". */
bool http_is_local(const char *url);

#endif

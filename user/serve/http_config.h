/* SPDX-License-Identifier: GPL-2.0 */
/* What the HTTP server serves, and where. */
#ifndef STACKBEAT_SERVE_HTTP_CONFIG_H
#define STACKBEAT_SERVE_HTTP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "serve/answer.h"

struct access;
struct annotation_server;

#define LISTENERS_MAX 8u

/* At Unix sockets and at the loopback, requests to names of this machine alone are answered. */
struct http_listener {
	int socket; /* bound and listening */
	bool is_tcp; /* clients need the token, if there is one; clients of Unix sockets do not */
	bool is_loopback; /* TCP without TLS */
	uint16_t port; /* of TCP, if this process has bound it; 0: of other sockets */
	const char *path; /* of the Unix socket, if this process has made it; NULL: none */
	dev_t device; /* of the file at `path` */
	ino_t inode;
};

/* Returns whether clients of other machines can reach it: with TLS, if there is a certificate. */
static inline bool http_listener_is_remote(const struct http_listener *listener)
{
	return listener->is_tcp && !listener->is_loopback;
}

struct http_config {
	struct http_listener listeners[LISTENERS_MAX];
	size_t listener_count;
	const struct access *access;
	const struct annotation_server *annotation; /* reads code; NULL: none does */
	int socket; /* to the sampler, SOCK_SEQPACKET, of protocol.h */
	int statm; /* /proc/self/statm of this process, or -1 */
	struct store_config store;
	uint32_t rate; /* Hz, of the continuous session */
	uint32_t restarts; /* servers of this session that have crashed before */
	int64_t cpu_before_ns; /* CPU time of them, and of the process that starts them */
	const char *cmdline; /* arguments, each with a NUL */
	size_t cmdline_size;
	void (*message)(const char *text); /* of a problem */
};

#endif

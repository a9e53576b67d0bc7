/* SPDX-License-Identifier: GPL-2.0 */
/*
 * libmicrohttpd, loaded on demand: it needs gnutls, whose libraries would be loaded and relocated
 * by every command, and are needed by the process that serves HTTP alone.
 */
#ifndef STACKBEAT_SERVE_MICROHTTPD_H
#define STACKBEAT_SERVE_MICROHTTPD_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <microhttpd.h>

struct error;

/* The functions that are used, without their prefix. */
#define MICROHTTPD_FUNCTIONS(FUNCTION)                                                             \
	FUNCTION(add_response_header)                                                              \
	FUNCTION(basic_auth_get_username_password)                                                 \
	FUNCTION(create_response_from_buffer)                                                      \
	FUNCTION(create_response_from_fd)                                                          \
	FUNCTION(destroy_response)                                                                 \
	FUNCTION(free)                                                                             \
	FUNCTION(get_connection_info)                                                              \
	FUNCTION(get_connection_values_n)                                                          \
	FUNCTION(get_daemon_info)                                                                  \
	FUNCTION(get_timeout)                                                                      \
	FUNCTION(lookup_connection_value)                                                          \
	FUNCTION(queue_response)                                                                   \
	FUNCTION(resume_connection)                                                                \
	FUNCTION(run)                                                                              \
	FUNCTION(start_daemon)                                                                     \
	FUNCTION(stop_daemon)                                                                      \
	FUNCTION(suspend_connection)

/* The functions of gnutls. */
#define GNUTLS_FUNCTIONS(FUNCTION)                                                                 \
	FUNCTION(certificate_allocate_credentials)                                                 \
	FUNCTION(certificate_free_credentials)                                                     \
	FUNCTION(certificate_server_set_request)                                                   \
	FUNCTION(certificate_set_x509_trust_mem)                                                   \
	FUNCTION(session_set_verify_cert2)

#define GNUTLS_POINTER(name) __typeof__(gnutls_##name) *(name);
#define MICROHTTPD_POINTER(name) __typeof__(MHD_##name) *(name);

struct microhttpd {
	MICROHTTPD_FUNCTIONS(MICROHTTPD_POINTER)
};

struct gnutls {
	GNUTLS_FUNCTIONS(GNUTLS_POINTER)
};

#undef MICROHTTPD_POINTER
#undef GNUTLS_POINTER

/* All NULL before microhttpd_load(). */
extern struct microhttpd mhd;
/* All NULL before gnutls_load(). */
extern struct gnutls gnutls;

/*
 * Loads the library, once, for this process and those that are forked from it. Returns 0, or
 * -EOPNOTSUPP if it is missing or too old.
 */
int microhttpd_load(struct error *error);

/*
 * Finds functions of the library that libmicrohttpd uses for TLS, which certificates of clients
 * need. microhttpd_load() comes first. Returns 0 or -EOPNOTSUPP.
 */
int gnutls_load(struct error *error);

/* Returns the socket of a connection, or -1. */
int mhd_socket_of(struct MHD_Connection *connection);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "serve/microhttpd.h"

#include <dlfcn.h>
#include <errno.h>

#include "lib/error.h"
#include "lib/optional_library.h"

#define LIBRARY "libmicrohttpd.so.12"
#define PACKAGE "libmicrohttpd12" /* of Debian; libmicrohttpd12t64 from version 13 on */
#define TLS_LIBRARY "libgnutls.so.30"
#define MICROHTTPD_NAME(name) "MHD_" #name,
#define GNUTLS_NAME(name) "gnutls_" #name,

struct microhttpd mhd;
struct gnutls gnutls;

int microhttpd_load(struct error *error)
{
	static const char *const names[] = {MICROHTTPD_FUNCTIONS(MICROHTTPD_NAME)};
	static const struct optional_library library = {
		.files = {LIBRARY},
		.names = names,
		.count = sizeof(names) / sizeof(names[0]),
		.missing = "there is no " LIBRARY
			   ", which serves HTTP: install it (in Debian: package " PACKAGE ")",
		.too_old = LIBRARY " is too old for stackbeat",
	};

	return optional_library_load(&library, &mhd, error) ? 0 : -EOPNOTSUPP;
}

int gnutls_load(struct error *error)
{
	static const char problem[] = "--tls-client-ca: " LIBRARY " does not use " TLS_LIBRARY
				      ", which checks certificates, or it is too old";
	static const char *const names[] = {GNUTLS_FUNCTIONS(GNUTLS_NAME)};
	static const struct optional_library library = {
		.files = {TLS_LIBRARY},
		.names = names,
		.count = sizeof(names) / sizeof(names[0]),
		.missing = problem,
		.too_old = problem,
		/* The library that libmicrohttpd has loaded: its sessions are changed. */
		.flags = RTLD_NOLOAD,
	};

	return optional_library_load(&library, &gnutls, error) ? 0 : -EOPNOTSUPP;
}

int mhd_socket_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

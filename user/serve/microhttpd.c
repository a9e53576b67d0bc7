// SPDX-License-Identifier: GPL-2.0
#include "serve/microhttpd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "lib/error.h"

#define LIBRARY "libmicrohttpd.so.12"
#define PACKAGE "libmicrohttpd12" /* of Debian; libmicrohttpd12t64 from version 13 on */
#define TLS_LIBRARY "libgnutls.so.30"

struct microhttpd mhd;
struct gnutls gnutls;

static bool find_functions(void *library)
{
	bool found = true;

#define FIND(name)                                                                                 \
	mhd.name = (__typeof__(mhd.name))dlsym(library, "MHD_" #name);                             \
	found = found && mhd.name;
	MICROHTTPD_FUNCTIONS(FIND)
#undef FIND
	return found;
}

int microhttpd_load(struct error *error)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return error_set(error, EOPNOTSUPP,
				 "there is no " LIBRARY ", which serves HTTP: install it (in "
				 "Debian: package " PACKAGE ")");
	if (find_functions(library))
		return 0;
	mhd = (struct microhttpd){0};
	dlclose(library);
	return error_set(error, EOPNOTSUPP, LIBRARY " is too old for stackbeat");
}

int gnutls_load(struct error *error)
{
	/* The one that libmicrohttpd has loaded: its sessions are changed. */
	void *library = dlopen(TLS_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	bool found = library;

#define FIND(name)                                                                                 \
	gnutls.name = library ? (__typeof__(gnutls.name))dlsym(library, "gnutls_" #name) : NULL;   \
	found = found && gnutls.name;
	GNUTLS_FUNCTIONS(FIND)
#undef FIND
	if (found)
		return 0;
	gnutls = (struct gnutls){0};
	if (library)
		dlclose(library);
	return error_set(error, EOPNOTSUPP,
			 "--tls-client-ca: " LIBRARY " does not use " TLS_LIBRARY
			 ", which checks certificates, or it is too old");
}

int mhd_socket_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

// SPDX-License-Identifier: GPL-2.0
#include "serve/microhttpd.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "lib/error.h"

#define LIBRARY "libmicrohttpd.so.12"
#define PACKAGE "libmicrohttpd12" /* of Debian; libmicrohttpd12t64 from version 13 on */

struct microhttpd mhd;

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

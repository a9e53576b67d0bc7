/* SPDX-License-Identifier: GPL-2.0 */
/* Libraries that few commands need: loaded on demand, so others neither need nor map them. */
#ifndef STACKBEAT_LIB_OPTIONAL_LIBRARY_H
#define STACKBEAT_LIB_OPTIONAL_LIBRARY_H

#include <stddef.h>

struct error;

struct optional_library {
	const char *files[3]; /* names of the library, NULL-terminated: the first that exists */
	const char *const *names; /* of its functions */
	size_t count;
	const char *missing; /* message if there is no such library */
	const char *too_old; /* message if a function is missing */
	int flags; /* of dlopen(), in addition */
};

/*
 * Loads a library, and sets the pointers of a structure that has one for each name, in their order;
 * all are NULL if that fails. Returns the handle, for dlclose(), or NULL with `error` set
 * (EOPNOTSUPP).
 */
void *optional_library_load(const struct optional_library *library, void *functions,
			    struct error *error);

#endif

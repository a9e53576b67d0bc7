/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of a window: a profile for each of its services, in a file beside it, so that a query
 * for a service need not read the samples of others. It can be made from the window again. It is
 * valid for the contents of one window, of which it has the size and the end, the checksum of gzip.
 */
#ifndef STACKBEAT_STORE_PARTS_H
#define STACKBEAT_STORE_PARTS_H

#include <stdint.h>

struct error;
struct profile;
struct services;

/* Follows the name of the window. */
#define PARTS_SUFFIX ".parts"

/* Windows with more services have no parts. */
#define PARTS_MAX 512u

/*
 * Writes the parts of the window at `path`, which has the contents of `profile`. Sets *size to
 * their size in bytes. Returns 0, -E2BIG for too many services, or another negative errno value.
 */
int parts_write(const struct profile *profile, const char *path, uint64_t *size,
		struct error *error);

/*
 * Reads the samples of a service from the file of parts. Returns a profile, without samples if the
 * window has none of the service, which the caller frees; or NULL if the parts do not belong to the
 * window, are damaged, or memory ran out.
 */
struct profile *parts_read(int parts, int window, const char *service);

/*
 * Adds the sums of all services. Returns 0, -EBADMSG with nothing added if the parts are not those
 * of the window or are damaged, or -ENOMEM.
 */
int parts_add_services(int parts, int window, struct services *services);

#endif

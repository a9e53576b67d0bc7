/* SPDX-License-Identifier: GPL-2.0 */
/* Control groups, version 2. */
#ifndef STACKBEAT_SESSION_CGROUP_H
#define STACKBEAT_SESSION_CGROUP_H

#include <stdint.h>

struct error;

/*
 * The id of the control group at `path`: as /proc/PID/cgroup writes it ("/a/b"),
 * without the first slash, or as a directory below the mount point. Returns 0 or
 * a negative errno value: -ENOENT when there is none; -ENOTSUP when version 2 is
 * not mounted.
 */
int cgroup_id_of(const char *path, uint64_t *id, struct error *error);

#endif

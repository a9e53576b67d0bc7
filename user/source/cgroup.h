/* SPDX-License-Identifier: GPL-2.0 */
/* Control groups (cgroup v2). */
#ifndef STACKBEAT_SOURCE_CGROUP_H
#define STACKBEAT_SOURCE_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct error;

/*
 * Finds the id of the control group at `path`: a path as in /proc/PID/cgroup ("/a/b"), with or
 * without the first slash, or a directory below the mount point. Returns 0 or a negative errno
 * value: -ENOENT when there is no such group, -ENOTSUP when cgroup v2 is not mounted.
 */
int cgroup_id_of(const char *path, uint64_t *id, struct error *error);

/*
 * Sets the directory of such a group, without symbolic links. Returns 0 or a negative errno value
 * as above.
 */
int cgroup_resolve(const char *path, char directory[PATH_MAX], struct error *error);

/* Returns whether the resolved directory of a group is `above`, or below it. */
bool cgroup_path_is_below(const char *directory, const char *above);

/* Opens the directory of such a group. Returns an fd, or a negative errno value as above. */
int cgroup_open(const char *path, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Gives up capabilities and users. */
#ifndef STACKBEAT_SANDBOX_CAPABILITIES_H
#define STACKBEAT_SANDBOX_CAPABILITIES_H

#include <stdint.h>
#include <sys/types.h>

/* The user "nobody" of most systems: the overflow user of the kernel, who owns no files. */
#define SANDBOX_UID 65534u

#define CAPABILITY(number) (UINT64_C(1) << (number))

/*
 * Clears the bounding set of the calling thread, if it has CAP_SETPCAP. Without it, no_new_privs
 * has the same effect.
 */
void capabilities_clear_bounding_set(void);

/*
 * Restricts the calling thread to the capabilities that are in `kept` (CAPABILITY()s), and
 * clears the inheritable, ambient and bounding sets. Threads that it creates
 * later inherit that. Returns 0 or a negative errno value.
 */
int capabilities_keep(uint64_t kept);

/*
 * Changes all user and group IDs of the process to `id`, and drops the supplementary groups. It
 * needs CAP_SETUID and CAP_SETGID. Returns 0 or a negative errno value.
 */
int become_user(uid_t id);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Processes without a file system, network and IPC. */
#ifndef STACKBEAT_SANDBOX_NAMESPACES_H
#define STACKBEAT_SANDBOX_NAMESPACES_H

/*
 * Moves the process, which needs no rights for that, into a user namespace of its own, and into
 * mount, network, IPC and UTS namespaces; without an IPC namespace where only that is refused.
 * Returns 0 or a negative errno value.
 */
int unshare_as_user(void);

/*
 * Replaces the root and working directory of a process with its own mount namespace by an empty
 * directory that can't be written. Returns 0 or a negative errno value.
 */
int enter_empty_root(void);

#endif

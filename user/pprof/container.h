/* SPDX-License-Identifier: GPL-2.0 */
/* Finds the container of a control group by its path. */
#ifndef STACKBEAT_PPROF_CONTAINER_H
#define STACKBEAT_PPROF_CONTAINER_H

#define CONTAINER_ID_SIZE 288 /* bytes of the longest id: a name with a prefix and its NUL */

/*
 * Sets `id` to the owner of the control group at `path`, a path from the root of the cgroup v2
 * hierarchy; "" if the path names no owner. The owner is the first of these that is in the path:
 *	a container: the id (64 hex digits) of docker, containerd, podman or CRI-O, or the name
 *	of a container of LXC or of a machine of systemd-machined
 *	a pod of Kubernetes: its uid
 *	a unit of systemd: the name of a service, scope, socket, mount or swap
 * Of several containers or pods, the innermost counts; of several units, the outermost. What is in
 * the groups of a user (user@UID.service of systemd), who may give them any name, has the prefix
 * "user-UID/": no user names what is not the user's. Monitors of a container outside of it
 * (conmon, lxc.monitor) do not belong to it. The path is untrusted: it may have any bytes, and so
 * may the id.
 */
void container_id(const char *path, char id[CONTAINER_ID_SIZE]);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* Which container a control group belongs to, told by its path. */
#ifndef STACKBEAT_PPROF_CONTAINER_H
#define STACKBEAT_PPROF_CONTAINER_H

#define CONTAINER_ID_SIZE 256 /* bytes of the longest id with its NUL */

/*
 * Puts into `id` what the owner of the control group at `path` (from the root of the
 * hierarchy of version 2) is known by; "" where nothing tells. It is, of the innermost
 * part of the path that names one,
 *	the id of a container of docker, containerd, podman or CRI-O, 64 hex digits; the
 *	name of one of LXC, or of a machine of systemd-machined
 * or, in none of these, the uid of a pod of Kubernetes
 * or, in none, the name of the unit of systemd: a service, scope, socket, mount or swap.
 * What watches over a container from outside (conmon, lxc.monitor) is not in it.
 * The path may be any bytes, and so may the id.
 */
void container_id(const char *path, char id[CONTAINER_ID_SIZE]);

#endif

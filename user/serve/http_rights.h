/* SPDX-License-Identifier: GPL-2.0 */
/* The rights of the process that serves HTTP, and of the process that reads code for it. */
#ifndef STACKBEAT_SERVE_HTTP_RIGHTS_H
#define STACKBEAT_SERVE_HTTP_RIGHTS_H

#include <sys/types.h>

struct error;

/*
 * Gives up all rights of this process but to use files: it becomes the user and group `id` if it is
 * root, loses all capabilities and the way to get others, and can start no program, trace or signal
 * no process, and connect to nothing: it has the sockets that are open, and accepts clients.
 * Returns 0 or a negative errno value.
 */
int http_rights_reduce(uid_t id, struct error *error);

/*
 * Then, permits only open files and those below `store` (NULL: none). Where the kernel has no
 * Landlock, the process can read the files of other users that all may read. Returns 0 or a
 * negative errno value.
 */
int http_rights_confine(const char *store, struct error *error);

/*
 * Of a process that reads files: as http_rights_reduce(), but it may start a server of workers
 * (sandbox/fork_server.h).
 */
int code_rights_reduce(uid_t id, struct error *error);

/*
 * Then, when that server was started: permits what http_rights_reduce() does, and no change of a
 * file or of its attributes. Where the kernel has no Landlock, the process can write to the files
 * of its user. Returns 0 or a negative errno value.
 */
int code_rights_confine(struct error *error);

#endif

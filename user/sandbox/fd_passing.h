/* SPDX-License-Identifier: GPL-2.0 */
/* Open files, with a few bytes, from one process to another. */
#ifndef STACKBEAT_SANDBOX_FD_PASSING_H
#define STACKBEAT_SANDBOX_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends bytes, one or more, with the file `fd` (-1: none) by a socket of type SOCK_SEQPACKET. `fd`
 * stays the caller's. Returns 0 or a negative errno value, -EPIPE where nobody listens.
 */
int send_fd(int socket, const void *bytes, size_t size, int fd);

/*
 * Receives up to `size` bytes, and *fd, the caller's (close-on-exec), -1 if there came none.
 * Returns how many bytes; 0 when there comes nothing more, or a negative errno value.
 */
ssize_t receive_fd(int socket, void *bytes, size_t size, int *fd);

#endif

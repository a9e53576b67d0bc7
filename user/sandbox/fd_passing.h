/* SPDX-License-Identifier: GPL-2.0 */
/* Passes file descriptors with messages between processes (SCM_RIGHTS). */
#ifndef STACKBEAT_SANDBOX_FD_PASSING_H
#define STACKBEAT_SANDBOX_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends a message of one or more bytes with `fd` (-1: none) on a SOCK_SEQPACKET socket. The caller
 * keeps `fd`. Returns 0 or a negative errno value: -EPIPE when the peer has closed the socket.
 */
int send_fd(int socket, const void *bytes, size_t size, int fd);

/*
 * Receives a message of up to `size` bytes and its *fd, which the caller closes (close-on-exec);
 * -1 if the message has none. Returns the number of bytes, 0 at the end of the connection, or a
 * negative errno value.
 */
ssize_t receive_fd(int socket, void *bytes, size_t size, int *fd);

#endif

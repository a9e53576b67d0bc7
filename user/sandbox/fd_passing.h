/* SPDX-License-Identifier: GPL-2.0 */
/* Passes file descriptors with messages between processes (SCM_RIGHTS). */
#ifndef STACKBEAT_SANDBOX_FD_PASSING_H
#define STACKBEAT_SANDBOX_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define PASSED_FDS_MAX 6u

/*
 * Sends a message of one or more bytes with `count` fds, at most PASSED_FDS_MAX, on a
 * SOCK_SEQPACKET socket. The caller keeps the fds. Returns 0 or a negative errno value: -EPIPE when
 * the peer has closed the socket.
 */
int send_fds(int socket, const void *bytes, size_t size, const int fds[], size_t count);

/* As send_fds(), with one fd, or none if `fd` is -1. */
int send_fd(int socket, const void *bytes, size_t size, int fd);

/*
 * Receives a message of up to `size` bytes and its fds (close-on-exec), at most `*count`, which the
 * caller closes. Sets *count to their number. Returns the number of bytes, 0 at the end of the
 * connection, or a negative errno value.
 */
ssize_t receive_fds(int socket, void *bytes, size_t size, int fds[], size_t *count);

/* As receive_fds(), with one fd; *fd is -1 if the message has none. */
ssize_t receive_fd(int socket, void *bytes, size_t size, int *fd);

#endif

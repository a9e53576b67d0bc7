/* SPDX-License-Identifier: GPL-2.0 */
/* A sandbox for processes that parse untrusted files. */
#ifndef STACKBEAT_SANDBOX_SECCOMP_FILTER_H
#define STACKBEAT_SANDBOX_SECCOMP_FILTER_H

/*
 * Restricts this process, which must have one thread, to reading. It may allocate memory, open
 * files for reading, get their status, send to and receive from `ends` (two fds of pipes or
 * sockets; -1: none), and exit. Other system calls fail with EPERM; system calls of another ABI
 * kill the process. Closes all fds except `ends` and `file` (-1: none). If the kernel has no
 * seccomp filters, or a container forbids them, the process continues without a filter.
 */
void sandbox_enter(const int ends[2], int file);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* A sandbox for processes that look into files which nobody trusts. */
#ifndef STACKBEAT_SANDBOX_SECCOMP_FILTER_H
#define STACKBEAT_SANDBOX_SECCOMP_FILTER_H

/*
 * From here on this process can only read: it has memory, may open files for reading and ask for
 * their state, may write to and receive from `ends` (two fds, pipes or sockets; -1: none), and end.
 * Other system calls fail with EPERM, those of another ABI kill it. All other fds are closed, but
 * for `file` (-1: none). It has one thread. Where the kernel has no such filters, or a container
 * forbids them, the process goes on without.
 */
void sandbox_enter(const int ends[2], int file);

#endif

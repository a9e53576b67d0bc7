/* SPDX-License-Identifier: GPL-2.0 */
/* Filters of system calls. Forbidden calls fail with EPERM; calls of another ABI kill the process.
 */
#ifndef STACKBEAT_SANDBOX_SECCOMP_FILTER_H
#define STACKBEAT_SANDBOX_SECCOMP_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sock_filter;

#define WORKER_ENDS_MAX 4u
#define WORKER_FILTERS_MAX 8u

/* A filter for workers that have the same `ends`. */
struct worker_filter {
	struct sock_filter *program; /* NULL: none */
	uint16_t length; /* in instructions */
	uint16_t pid_at; /* of the instruction that has the worker's process ID */
	size_t count;
	int ends[WORKER_ENDS_MAX];
};

/*
 * The filters that a process keeps for the workers that it forks: it takes as long to make one as
 * all else that a small worker does.
 */
struct worker_filters {
	int file; /* where programs are written; -1: none is kept */
	struct worker_filter items[WORKER_FILTERS_MAX];
	size_t next; /* to be replaced */
};

/* Without memory, no filter is kept. */
void worker_filters_open(struct worker_filters *filters);
void worker_filters_close(struct worker_filters *filters);

/*
 * Returns the filter of a worker with these `ends`, which is to be forked, valid until the next
 * call; NULL: none can be kept.
 */
const struct worker_filter *worker_filters_prepare(struct worker_filters *filters, const int ends[],
						   size_t count);

/*
 * Restricts this process, which must have one thread, to its memory and to open files: it may
 * allocate memory, read and map what is open, send to and receive from `ends` (`count` fds of pipes
 * or sockets), and exit. It can't open a file. Closes all fds except `ends`. `kept` was prepared by
 * the parent for the same `ends`, or is NULL. Returns 0, or a negative errno value if the kernel
 * has no seccomp filters, or a container forbids them; the process has no filter then.
 */
int seccomp_confine_worker(const struct worker_filter *kept, const int ends[], size_t count);

/*
 * Restricts a process that forks such workers: it may do what they may, fork without new
 * namespaces, wait, signal, send and receive, and make filters. Returns as
 * seccomp_confine_worker().
 */
int seccomp_confine_server(void);

/*
 * Forbids a process that uses the internet and files to execute programs, to trace, signal or limit
 * other processes, to connect to services of this machine (Unix sockets), to type into a terminal,
 * to make namespaces, and to use the kernel's interfaces for administration, keys, BPF and
 * io_uring. Returns as seccomp_confine_worker().
 */
int seccomp_confine_network_client(void);

/*
 * As seccomp_confine_network_client(), of a process that serves connections which it accepts from
 * sockets that listen already: it can make no socket but pairs of streams or packets, and connect
 * none. Returns as seccomp_confine_worker().
 */
int seccomp_confine_acceptor(void);

/*
 * As seccomp_confine_acceptor(), of a process that starts a server of workers: it may make
 * namespaces, mount and unmount in them, and signal. Returns as seccomp_confine_worker().
 */
int seccomp_confine_reader(void);

/*
 * Forbids, in addition, to change the mode, owner, times, attributes and length of files by name.
 * Returns as seccomp_confine_worker().
 */
int seccomp_forbid_attributes(void);

/* Closes all fds except those in `kept` (-1: none). */
void close_other_fds(const int kept[], size_t count);

/*
 * Replaces the standard files by /dev/null: messages of libraries must not get into a pipe that has
 * the number of stderr, and a terminal must not be reachable.
 */
void replace_standard_files(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opens the files of one job for its worker, which can't. An opener is a process with the rights of
 * the reader, which serves workers one after another; it may hang on a file system, and is killed
 * then. It parses nothing but the requests of its worker (worker_protocol.h), which may be
 * compromised: that gets the candidates of its job, debug files of the archive, and regular ELF
 * files by the rules of debuginfo/debug_paths.h. Of the last, those that a file names must be
 * readable by all users, or belong to the owner of that file, if the owners are known
 * (lib/regular_file.h).
 *
 * With a cache, the worker also gets what an earlier one has read of the same files, and gives what
 * it has read itself. The key has all files that the worker was given, in their order: a worker
 * that one of them has taken over decides what is kept for those that are given the same files, and
 * for no others.
 */
#ifndef STACKBEAT_SYMBOLIZE_OPENER_H
#define STACKBEAT_SYMBOLIZE_OPENER_H

#include <stdint.h>
#include <sys/types.h>

#include "debuginfo/debug_paths.h"
#include "lib/regular_file.h"
#include "symbolize/worker_protocol.h"

#define OWNER_UNKNOWN FILE_UID_ANY

struct archive_reader;
struct file_cache;
struct kept_symbols;

struct opener {
	const struct worker_job *job;
	struct debug_paths paths;
	const struct archive_reader *archive; /* searched for debug files first; NULL: none */
	struct file_cache *cache; /* of what workers have read; NULL: none */
	/*
	 * Memory shared with the parent: the owner of the job, or of the files that were opened; if
	 * they have several, the first owner that is not root: the files that a file names may
	 * belong to others. OWNER_UNKNOWN at first, and for file systems that can report any owner.
	 */
	volatile uint32_t *owner;
};

/* Serves requests until the worker closes the socket, which the caller closes. Keeps nothing. */
void opener_serve(const struct opener *opener, int socket);

/*
 * Requests a file, in a worker. Returns the fd, or the negative errno value in `response`; -EPIPE
 * if the opener is gone.
 */
int opener_request(int socket, const struct open_request *request, struct open_response *response);

/*
 * Gives symbols to keep, in a worker that OPEN_KEPT has answered with -ENOENT: of KEPT_SYMBOLS_MAX
 * bytes at most. Returns 0 or a negative errno value.
 */
int opener_keep(int socket, const struct kept_symbols *kept);

#endif

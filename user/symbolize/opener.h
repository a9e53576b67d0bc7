/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opens the files of one job for its worker, which can't. An opener is a process with the rights of
 * the reader, which serves workers one after another; it may hang on a file system, and is killed
 * then. It parses nothing but the requests of its worker (worker_protocol.h), which may be
 * compromised: that gets the candidates of its job, debug files of the archive, and regular ELF
 * files by the rules of debuginfo/debug_paths.h. Of the last, those that a file names must be
 * readable by all users, or belong to the owner of that file, if the owners are known
 * (lib/regular_file.h).
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

struct opener {
	const struct worker_job *job;
	struct debug_paths paths;
	const struct archive_reader *archive; /* searched for debug files first; NULL: none */
	/*
	 * Memory shared with the parent: the owner of the job, or of the files that were opened; if
	 * they have several, the first one that is not root: the files that a file names may belong
	 * to others. OWNER_UNKNOWN at first, and for file systems that can report any owner.
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

#endif

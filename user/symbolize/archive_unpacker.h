/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unpacks an archive in a worker process, as it is untrusted. The worker sends each entry through a
 * socket, and the parent replies whether it wants the contents.
 */
#ifndef STACKBEAT_SYMBOLIZE_ARCHIVE_UNPACKER_H
#define STACKBEAT_SYMBOLIZE_ARCHIVE_UNPACKER_H

#include <stddef.h>
#include <stdint.h>

/* The header of a message, followed by `size` bytes, UNPACK_BYTES_MAX at most. */
struct unpack_message {
	uint32_t type; /* enum unpack_message_type */
	uint32_t size;
	uint64_t number;
	int64_t seconds, nanoseconds;
};

enum unpack_message_type {
	/*
	 * A file: the bytes are its path, `number` its size, and the rest its mtime. The parent
	 * replies with a byte, 0 or 1: whether UNPACK_DATA shall follow.
	 */
	UNPACK_ENTRY,
	/* Of the last entry, not empty; `number` is the offset. Gaps are holes, no byte comes
	   twice. */
	UNPACK_DATA,
	UNPACK_ERROR, /* the bytes are the reason; the last message */
	UNPACK_END, /* of the archive; the last message */
};

#define UNPACK_BYTES_MAX (64u << 10)

/* The work of the worker (WORKER_UNPACK): an archive, and a stream socket for the messages. */
void run_unpack_worker(const int fds[], size_t count);

#endif

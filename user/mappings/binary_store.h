/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A store of binaries by build ID, for offline symbolization.
 *
 * A build ID is a claim of the file. Files that only trusted users can have written are in
 * DIRECTORY/.build-id/ab/cdef...; files of another user are in
 * DIRECTORY/.untrusted/UID/.build-id/ab/cdef..., where they can replace files of that user only
 * ("any" instead of UID: on a file system that can report any owner). The path alone conveys
 * trust: all copies belong to the user who has made the store.
 */
#ifndef STACKBEAT_MAPPINGS_BINARY_STORE_H
#define STACKBEAT_MAPPINGS_BINARY_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct binary_store;
struct error;
struct file_owner;

/* Size limit of one file. */
#define BINARY_STORE_BYTES_MAX ((off_t)4 << 30)
/* Bytes on the disk that the files of one untrusted owner may take, of those that are added. */
#define BINARY_STORE_OWNER_BYTES_MAX (UINT64_C(4) << 30)

/*
 * Makes DIRECTORY and its .build-id, unless they exist. Returns the store, or NULL with `error` set
 * and errno a code. binary_store_free() accepts NULL.
 */
struct binary_store *binary_store_new(const char *directory, struct error *error);
void binary_store_free(struct binary_store *store);

/*
 * Adds a copy of an open file, with its holes, unless the store has one with its build ID (hex) and
 * trust. Adds the copied bytes to *progress, see sparse_copy(). Threads may add files at the same
 * time. Returns 0, or a negative errno value with nothing added: -EFBIG if the file is too large,
 * -EDQUOT if its owner has too many.
 */
int binary_store_add(struct binary_store *store, const char *build_id, int fd,
		     const struct file_owner *owner, uint64_t *progress, struct error *error);

#endif

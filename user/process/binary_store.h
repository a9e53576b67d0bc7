/* SPDX-License-Identifier: GPL-2.0 */
/* A store of binaries by build ID, for offline symbolization: DIRECTORY/.build-id/ab/cdef... */
#ifndef STACKBEAT_PROCESS_BINARY_STORE_H
#define STACKBEAT_PROCESS_BINARY_STORE_H

#include <stddef.h>
#include <sys/types.h>

struct error;

/* Makes DIRECTORY and its .build-id, unless they exist. Returns 0 or a negative errno value. */
int binary_store_prepare(const char *directory, struct error *error);

/* Size limit of one file. */
#define BINARY_STORE_BYTES_MAX ((off_t)4 << 30)

/*
 * Adds a copy of an ELF file, unless the store has one with its build ID (hex). The copy keeps
 * holes, and ends with the last section or segment. If `image` is not NULL, its `size` bytes are
 * copied instead of `fd`. Returns 0, or a negative errno value with nothing added: -EFBIG if the
 * file is too large.
 */
int binary_store_add(const char *directory, const char *build_id, int fd, const void *image,
		     size_t size, struct error *error);

#endif

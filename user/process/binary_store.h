/* SPDX-License-Identifier: GPL-2.0 */
/* A cache of files by build id: DIRECTORY/.build-id/ab/cdef..., for naming addresses later. */
#ifndef STACKBEAT_PROCESS_BINARY_STORE_H
#define STACKBEAT_PROCESS_BINARY_STORE_H

#include <stddef.h>
#include <sys/types.h>

struct error;

/* Makes DIRECTORY and what has to be in it. Returns 0 or a negative errno value. */
int binary_store_prepare(const char *directory, struct error *error);

/* Of one file. */
#define BINARY_STORE_BYTES_MAX ((off_t)4 << 30)

/*
 * Copies an ELF file, without its holes and what is behind its last section and segment, or the
 * `size` bytes of `image` where that is not NULL, unless there is one of its build id (hex)
 * already. Returns 0 or a negative errno value, -EFBIG where it is too large, and then
 * nothing was added.
 */
int binary_store_add(const char *directory, const char *build_id, int fd, const void *image,
		     size_t size, struct error *error);

#endif

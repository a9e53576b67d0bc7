/* SPDX-License-Identifier: GPL-2.0 */
/* Copies the contents of files. */
#ifndef STACKBEAT_LIB_SPARSE_COPY_H
#define STACKBEAT_LIB_SPARSE_COPY_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Copies the first `size` bytes of the file `from` to the empty file `to`, whose size is `size`
 * then. Holes stay holes. `from` may be shared with other readers: its offset is 0 afterwards.
 * Adds the bytes to *progress as it copies them, for other threads; NULL: nothing is added. Returns
 * 0 or a negative errno value.
 */
int sparse_copy(int to, int from, off_t size, uint64_t *progress);

#endif

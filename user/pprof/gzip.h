/* SPDX-License-Identifier: GPL-2.0 */
/* gzip: a stream into a file, and a whole file into memory. */
#ifndef STACKBEAT_PPROF_GZIP_H
#define STACKBEAT_PPROF_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/atomic_file.h"
#include "lib/error.h"

struct gzip_writer;

/*
 * Begins a gzip stream into `file`, which must outlive it, as must `error`: it gets the
 * text of the first failure. Returns NULL when there is no memory.
 */
struct gzip_writer *gzip_writer_new(struct atomic_file *file, struct error *error);

/* Adds `data`. A failure shows in gzip_writer_finish(). */
void gzip_write(struct gzip_writer *writer, const void *data, size_t size);

/* Ends the stream. Returns 0 or the first failure, a negative errno value. */
int gzip_writer_finish(struct gzip_writer *writer);

void gzip_writer_free(struct gzip_writer *writer);

/* Tells whether `data` begins as gzip does. */
bool gzip_detect(const void *data, size_t size);

/*
 * Expands `data`, one gzip stream or several in a row, into *expanded, which the caller
 * frees, and *expanded_size. Returns 0, -ENOMEM, -EFBIG if that would be more than `limit`
 * bytes, or -EBADMSG if it is damaged or cut short. `name` is what errors call it.
 */
int gzip_expand(const void *data, size_t size, size_t limit, const char *name, void **expanded,
		size_t *expanded_size, struct error *error);

#endif

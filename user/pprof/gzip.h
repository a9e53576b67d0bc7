/* SPDX-License-Identifier: GPL-2.0 */
/* gzip: compresses a stream into a file, and expands a file into memory. */
#ifndef STACKBEAT_PPROF_GZIP_H
#define STACKBEAT_PPROF_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/atomic_file.h"
#include "lib/error.h"

struct gzip_writer;

/*
 * Begins a gzip stream into `file`. The first failure sets the message of `error`. Both must
 * outlive the writer, which the caller frees. Returns NULL when memory runs out.
 */
struct gzip_writer *gzip_writer_new(struct atomic_file *file, struct error *error);

/* Compresses `data`. gzip_writer_finish() returns its failures. */
void gzip_write(struct gzip_writer *writer, const void *data, size_t size);

/* Ends the stream. Returns 0 or the negative errno value of the first failure. */
int gzip_writer_finish(struct gzip_writer *writer);

/* Frees the writer, which may be NULL, but not its file. */
void gzip_writer_free(struct gzip_writer *writer);

/* Returns whether `data` begins with the magic bytes of gzip. */
bool gzip_detect(const void *data, size_t size);

/*
 * Expands `data`, one or several gzip streams, into *expanded, which the caller frees, of
 * *expanded_size bytes. Returns 0; -ENOMEM; -EFBIG for more than `limit` expanded bytes; or
 * -EBADMSG for damaged or truncated data. `name` is the name of the data in messages.
 */
int gzip_expand(const void *data, size_t size, size_t limit, const char *name, void **expanded,
		size_t *expanded_size, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* gzip: compresses a stream into a file, and expands bytes in memory, part by part. */
#ifndef STACKBEAT_PPROF_GZIP_H
#define STACKBEAT_PPROF_GZIP_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/atomic_file.h"
#include "lib/error.h"

struct gzip_writer;

enum gzip_effort {
	GZIP_DEFAULT,
	GZIP_FAST, /* a third of the time, about a tenth larger */
	GZIP_NONE, /* the bytes as they are, without a stream */
};

/*
 * Begins a gzip stream into `file`. The first failure sets the message of `error`. Both must
 * outlive the writer, which the caller frees. Returns NULL when memory runs out.
 */
struct gzip_writer *gzip_writer_new(struct atomic_file *file, enum gzip_effort effort,
				    struct error *error);

/* Compresses `data`. gzip_writer_finish() returns its failures. */
void gzip_write(struct gzip_writer *writer, const void *data, size_t size);

/* Ends the stream. Returns 0 or the negative errno value of the first failure. */
int gzip_writer_finish(struct gzip_writer *writer);

/* Frees the writer, which may be NULL, but not its file. */
void gzip_writer_free(struct gzip_writer *writer);

struct gzip_reader;

/*
 * Begins to read `size` bytes: gzip streams, which are expanded, or anything else, which is passed
 * through. `data` and `name`, the name of the data in messages, must outlive the reader, which the
 * caller frees. Returns NULL when memory runs out.
 */
struct gzip_reader *gzip_reader_new(const void *data, size_t size, size_t limit, const char *name);

/*
 * Reads up to `size` bytes, which is not 0. Returns their number, 0 at the end, or a negative errno
 * value: -ENOMEM; -EFBIG for more than `limit` bytes in total; -EBADMSG for damaged or truncated
 * data.
 */
ssize_t gzip_read(struct gzip_reader *reader, void *buffer, size_t size, struct error *error);

/* Returns how many bytes of the data were read, since its beginning. */
size_t gzip_position(const struct gzip_reader *reader);

/* Continues at the beginning. */
void gzip_rewind(struct gzip_reader *reader);

/* Frees the reader, which may be NULL, but not its data. */
void gzip_reader_free(struct gzip_reader *reader);

#endif

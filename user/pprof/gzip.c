// SPDX-License-Identifier: GPL-2.0
#include "pprof/gzip.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "lib/array.h"

#define CHUNK (64u << 10)
#define WINDOW_BITS (15 + 16) /* the largest window, with the header of gzip */
#define MEMORY_LEVEL 8

struct gzip_writer {
	struct atomic_file *file;
	struct error *error;
	z_stream stream;
	int result; /* 0, or the negative errno value that ended the writing */
	size_t used; /* bytes in `input` */
	unsigned char input[CHUNK];
	unsigned char output[CHUNK];
};

struct gzip_writer *gzip_writer_new(struct atomic_file *file, struct error *error)
{
	struct gzip_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	if (deflateInit2(&writer->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS,
			 MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(writer);
		return NULL;
	}
	writer->file = file;
	writer->error = error;
	return writer;
}

static void compress_input(struct gzip_writer *writer, int flush)
{
	z_stream *stream = &writer->stream;

	stream->next_in = writer->input;
	stream->avail_in = writer->used;
	writer->used = 0;
	if (writer->result)
		return;
	do {
		stream->next_out = writer->output;
		stream->avail_out = CHUNK;
		/* deflate() can't fail: the state is valid, and there is room for output. */
		deflate(stream, flush);
		writer->result = atomic_file_write(writer->file, writer->output,
						   CHUNK - stream->avail_out, writer->error);
	} while (!writer->result && !stream->avail_out);
}

void gzip_write(struct gzip_writer *writer, const void *data, size_t size)
{
	const unsigned char *next = data;
	size_t part;

	while (size) {
		part = CHUNK - writer->used;
		if (part > size)
			part = size;
		memcpy(writer->input + writer->used, next, part);
		writer->used += part;
		next += part;
		size -= part;
		if (writer->used == CHUNK)
			compress_input(writer, Z_NO_FLUSH);
	}
}

int gzip_writer_finish(struct gzip_writer *writer)
{
	compress_input(writer, Z_FINISH);
	return writer->result;
}

void gzip_writer_free(struct gzip_writer *writer)
{
	if (!writer)
		return;
	deflateEnd(&writer->stream);
	free(writer);
}

bool gzip_detect(const void *data, size_t size)
{
	static const unsigned char magic[] = {0x1f, 0x8b};

	return size >= sizeof(magic) && !memcmp(data, magic, sizeof(magic));
}

struct output {
	unsigned char *bytes;
	size_t size, capacity, limit;
};

/* Expands one chunk. Returns 0, 1 at the end of a stream, or a negative errno value. */
static int expand_step(z_stream *stream, struct output *output, const char *name,
		       struct error *error)
{
	size_t room;
	int result;

	if (array_reserve(&output->bytes, &output->capacity, output->size, CHUNK, 1))
		return error_errno(error, ENOMEM, "%s", name);
	room = output->capacity - output->size;
	if (room > UINT_MAX)
		room = UINT_MAX;
	stream->next_out = output->bytes + output->size;
	stream->avail_out = room;
	result = inflate(stream, Z_NO_FLUSH);
	output->size += room - stream->avail_out;
	if (output->size > output->limit)
		return error_set(error, EFBIG, "%s: larger than %zu MiB when expanded", name,
				 output->limit >> 20);
	if (result == Z_MEM_ERROR)
		return error_errno(error, ENOMEM, "%s", name);
	if (result == Z_STREAM_END)
		return 1;
	if (result == Z_OK)
		return 0;
	if (result == Z_BUF_ERROR)
		return error_set(error, EBADMSG, "%s: truncated: its gzip stream has no end", name);
	return error_set(error, EBADMSG, "%s: damaged: its gzip stream is broken (%s)", name,
			 stream->msg ? stream->msg : "no reason given");
}

static int expand_streams(z_stream *stream, struct output *output, const char *name,
			  struct error *error)
{
	int err;

	do {
		err = expand_step(stream, output, name, error);
		if (err < 0)
			return err;
		if (err && stream->avail_in)
			inflateReset(stream);
	} while (!err || stream->avail_in);
	return 0;
}

int gzip_expand(const void *data, size_t size, size_t limit, const char *name, void **expanded,
		size_t *expanded_size, struct error *error)
{
	struct output output = {.limit = limit};
	z_stream stream = {.next_in = (unsigned char *)data};
	int err;

	if (size > UINT_MAX)
		return error_errno(error, EFBIG, "%s", name);
	stream.avail_in = size;
	if (inflateInit2(&stream, WINDOW_BITS) != Z_OK)
		return error_errno(error, ENOMEM, "%s", name);
	err = expand_streams(&stream, &output, name, error);
	inflateEnd(&stream);
	if (err) {
		free(output.bytes);
		return err;
	}
	*expanded = output.bytes;
	*expanded_size = output.size;
	return 0;
}

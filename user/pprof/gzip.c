// SPDX-License-Identifier: GPL-2.0
#include "pprof/gzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <zlib.h>

#define CHUNK (64u << 10)
#define WINDOW_BITS (15 + 16) /* the largest window, with the header of gzip */
#define MEMORY_LEVEL 8

struct gzip_writer {
	struct atomic_file *file;
	struct error *error;
	bool has_stream;
	z_stream stream;
	int result; /* 0, or the negative errno value that ended the writing */
	size_t used; /* bytes in `input` */
	unsigned char input[CHUNK];
	unsigned char output[CHUNK];
};

struct gzip_writer *gzip_writer_new(struct atomic_file *file, enum gzip_effort effort,
				    struct error *error)
{
	struct gzip_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->has_stream = effort != GZIP_NONE;
	if (writer->has_stream &&
	    deflateInit2(&writer->stream,
			 effort == GZIP_FAST ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION, Z_DEFLATED,
			 WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
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
	if (!writer->has_stream) {
		writer->result = atomic_file_write(writer->file, writer->input, stream->avail_in,
						   writer->error);
		return;
	}
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
	if (writer->has_stream)
		deflateEnd(&writer->stream);
	free(writer);
}

struct gzip_reader {
	const unsigned char *data;
	size_t size, limit;
	const char *name;
	bool is_gzip;
	bool ended;
	size_t total; /* bytes read so far */
	z_stream stream;
};

static bool is_gzip(const void *data, size_t size)
{
	static const unsigned char magic[] = {0x1f, 0x8b};

	return size >= sizeof(magic) && !memcmp(data, magic, sizeof(magic));
}

struct gzip_reader *gzip_reader_new(const void *data, size_t size, size_t limit, const char *name)
{
	struct gzip_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->data = data;
	reader->size = size;
	reader->limit = limit;
	reader->name = name;
	reader->is_gzip = is_gzip(data, size);
	if (reader->is_gzip && inflateInit2(&reader->stream, WINDOW_BITS) != Z_OK) {
		free(reader);
		return NULL;
	}
	gzip_rewind(reader);
	return reader;
}

size_t gzip_position(const struct gzip_reader *reader)
{
	return reader->size - reader->stream.avail_in;
}

void gzip_rewind(struct gzip_reader *reader)
{
	if (reader->is_gzip)
		inflateReset(&reader->stream);
	reader->stream.next_in = (unsigned char *)reader->data;
	reader->stream.avail_in = (unsigned int)reader->size;
	reader->total = 0;
	reader->ended = false;
}

void gzip_reader_free(struct gzip_reader *reader)
{
	if (!reader)
		return;
	if (reader->is_gzip)
		inflateEnd(&reader->stream);
	free(reader);
}

/* Expands one part into the output of the stream. Returns 0 or a negative errno value. */
static int expand_part(struct gzip_reader *reader, struct error *error)
{
	z_stream *stream = &reader->stream;
	int result = inflate(stream, Z_NO_FLUSH);

	if (result == Z_STREAM_END) {
		reader->ended = !stream->avail_in;
		if (!reader->ended)
			inflateReset(stream);
		return 0;
	}
	if (result == Z_OK)
		return 0;
	if (result == Z_MEM_ERROR)
		return error_errno(error, ENOMEM, "%s", reader->name);
	if (result == Z_BUF_ERROR)
		return error_set(error, EBADMSG, "%s: truncated: its gzip stream has no end",
				 reader->name);
	return error_set(error, EBADMSG, "%s: damaged: its gzip stream is broken (%s)",
			 reader->name, stream->msg ? stream->msg : "no reason given");
}

static void copy_part(struct gzip_reader *reader)
{
	z_stream *stream = &reader->stream;
	unsigned int size = MIN(stream->avail_in, stream->avail_out);

	memcpy(stream->next_out, stream->next_in, size);
	stream->next_in += size;
	stream->avail_in -= size;
	stream->avail_out -= size;
	reader->ended = !stream->avail_in;
}

ssize_t gzip_read(struct gzip_reader *reader, void *buffer, size_t size, struct error *error)
{
	const unsigned int room = (unsigned int)MIN(size, CHUNK);
	int err = 0;

	reader->stream.next_out = buffer;
	reader->stream.avail_out = room;
	while (!err && !reader->ended && reader->stream.avail_out == room) {
		if (reader->is_gzip)
			err = expand_part(reader, error);
		else
			copy_part(reader);
	}
	reader->total += room - reader->stream.avail_out;
	if (err)
		return err;
	if (reader->total > reader->limit)
		return error_set(error, EFBIG, "%s: larger than %zu MiB when expanded",
				 reader->name, reader->limit >> 20);
	return room - reader->stream.avail_out;
}

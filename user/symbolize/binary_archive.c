// SPDX-License-Identifier: GPL-2.0
#include "symbolize/binary_archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/atomic_file.h"
#include "lib/error.h"
#include "lib/string_table.h"
#include "symbolize/archive_contents.h"
#include "symbolize/archive_reader.h"
#include "symbolize/find_binary.h"
#include "symbolize/libarchive.h"

#define BLOCK_SIZE (64u << 10)
/* Bytes of a file in /proc or /sys: kallsyms has about 20 MB. */
#define KERNEL_FILE_MAX (256u << 20)

static double archive_gib(uint64_t bytes)
{
	return (double)bytes / (double)(UINT64_C(1) << 30);
}

/* Writing */

struct archive_writer {
	const struct archive_plan *plan;
	struct binary_archive_counts *counts;
	struct archive *archive;
	struct atomic_file file;
	struct error *error;
	int err; /* of `file` */
	bool discard; /* ignore further writes */
	struct string_table names; /* of entries written */
	uint64_t bytes; /* of all entries, uncompressed */
};

static la_ssize_t write_block(struct archive *archive, void *arg, const void *block, size_t size)
{
	struct archive_writer *writer = arg;

	(void)archive;
	if (writer->discard)
		return (la_ssize_t)size;
	writer->err = atomic_file_write(&writer->file, block, size, writer->error);
	return writer->err ? -1 : (la_ssize_t)size;
}

static int archive_failed(struct archive_writer *writer)
{
	const char *why = libarchive.error_string(writer->archive);

	if (writer->err)
		return writer->err;
	return error_set(writer->error, EIO, "%s: %s", writer->file.path,
			 why ? why : "it can't be written");
}

static bool has_entry(const struct archive_writer *writer, const char *name)
{
	return string_table_find(&writer->names, name) != STRING_NONE;
}

/* `time` is the mtime of the entry (see find_binary.h), or NULL. */
static int archive_add_header(struct archive_writer *writer, const char *name, uint64_t size,
			      const struct timespec *time)
{
	struct archive_entry *entry = libarchive.entry_new();
	int err = 0;

	if (!entry || string_table_add(&writer->names, name, strlen(name)) == STRING_NONE) {
		libarchive.entry_free(entry);
		return error_errno(writer->error, ENOMEM, "%s", writer->file.path);
	}
	libarchive.entry_set_pathname(entry, name);
	libarchive.entry_set_size(entry, (la_int64_t)size);
	libarchive.entry_set_filetype(entry, AE_IFREG);
	libarchive.entry_set_perm(entry, 0644);
	if (time)
		libarchive.entry_set_mtime(entry, time->tv_sec, time->tv_nsec);
	if (libarchive.write_header(writer->archive, entry) != ARCHIVE_OK)
		err = archive_failed(writer);
	libarchive.entry_free(entry);
	writer->bytes += size;
	return err;
}

static int add_bytes(struct archive_writer *writer, const void *bytes, size_t size)
{
	if (libarchive.write_data(writer->archive, bytes, size) != (la_ssize_t)size)
		return archive_failed(writer);
	return 0;
}

static void archive_report_missing(void *arg, const char *path, const char *text)
{
	struct archive_writer *writer = arg;

	writer->counts->missing++;
	writer->plan->missing(writer->plan->arg, path, text);
}

/* Whether an entry of this size fits into the archive; reports `path` as missing if not. */
static bool archive_file_fits(struct archive_writer *writer, const char *path, const char *name,
			      uint64_t size)
{
	struct error error;

	if (size <= BINARY_ARCHIVE_FILE_MAX && size <= BINARY_ARCHIVE_BYTES_MAX - writer->bytes)
		return true;
	error_set(&error, EFBIG,
		  "%s, of %.1f GiB, is left out: there may be %.0f GiB of a file, and %.0f of all",
		  name, archive_gib(size), archive_gib(BINARY_ARCHIVE_FILE_MAX),
		  archive_gib(BINARY_ARCHIVE_BYTES_MAX));
	archive_report_missing(writer, path, error.text);
	return false;
}

/* Pads a file that was truncated meanwhile with zeros, to match the size in the header. */
static int add_file_bytes(struct archive_writer *writer, const char *name, int fd,
			  const struct stat *st)
{
	static const unsigned char zeros[BLOCK_SIZE];
	unsigned char block[BLOCK_SIZE];
	uint64_t at = 0, size = (uint64_t)st->st_size;
	int err = archive_add_header(writer, name, size, &st->st_mtim);

	while (!err && at < size) {
		size_t want = size - at < sizeof(block) ? (size_t)(size - at) : sizeof(block);
		ssize_t got = pread(fd, block, want, (off_t)at);

		if (got > 0)
			err = add_bytes(writer, block, (size_t)got);
		else
			err = add_bytes(writer, zeros, want);
		at += got > 0 ? (size_t)got : want;
	}
	return err;
}

/* Adds a file, and counts it if it is in the archive afterwards. */
static int archive_add_file(struct archive_writer *writer, const char *path, const char *name,
			    int fd, size_t *count)
{
	struct stat st;
	int err = 0;

	if (fstat(fd, &st) != 0)
		return 0;
	if (!has_entry(writer, name)) {
		if (!archive_file_fits(writer, path, name, (uint64_t)st.st_size))
			return 0;
		err = add_file_bytes(writer, name, fd, &st);
	}
	++*count;
	return err;
}

/* Reads a file of /proc or /sys, of unknown size. Returns false if it can't be read. */
static bool read_kernel_file(const char *path, char **bytes, size_t *size)
{
	size_t capacity = 0;
	ssize_t got = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*bytes = NULL;
	*size = 0;
	if (fd < 0)
		return false;
	while (*size < KERNEL_FILE_MAX &&
	       array_reserve(bytes, &capacity, *size, BLOCK_SIZE, 1) == 0) {
		got = read(fd, *bytes + *size, BLOCK_SIZE);
		if (got <= 0)
			break;
		*size += (size_t)got;
	}
	close(fd);
	return got == 0;
}

/* The sink of archive_contents_collect() */

static int add_binary(void *arg, const char *path, const char *name, int fd)
{
	struct archive_writer *writer = arg;

	return archive_add_file(writer, path, name, fd, &writer->counts->binaries);
}

static int archive_add_found_file(void *arg, const char *path, const char *name, int fd)
{
	struct archive_writer *writer = arg;

	return archive_add_file(writer, path, name, fd, &writer->counts->debug_files);
}

static int add_kernel_file(void *arg, const char *path)
{
	struct archive_writer *writer = arg;
	char *bytes = NULL;
	size_t size;
	int err = 0;

	if (!has_entry(writer, path + 1) && read_kernel_file(path, &bytes, &size) &&
	    archive_file_fits(writer, path, path + 1, size)) {
		err = archive_add_header(writer, path + 1, size, NULL);
		if (!err)
			err = add_bytes(writer, bytes, size);
	}
	free(bytes);
	return err;
}

static int open_archive(struct archive_writer *writer)
{
	writer->archive = libarchive.write_new();
	if (!writer->archive)
		return error_errno(writer->error, ENOMEM, "%s", writer->file.path);
	if (libarchive.write_set_format_pax_restricted(writer->archive) != ARCHIVE_OK ||
	    libarchive.write_add_filter_zstd(writer->archive) != ARCHIVE_OK ||
	    libarchive.write_set_bytes_in_last_block(writer->archive, 1) != ARCHIVE_OK ||
	    libarchive.write_open(writer->archive, writer, NULL, write_block, NULL) != ARCHIVE_OK)
		return archive_failed(writer);
	return 0;
}

int binary_archive_create(const struct archive_plan *plan, const struct profile *profile,
			  const char *path, struct binary_archive_counts *counts,
			  struct error *error)
{
	struct archive_writer writer = {.plan = plan, .counts = counts, .error = error};
	const struct archive_sink sink = {
		.binary = add_binary,
		.debug_file = archive_add_found_file,
		.kernel_file = add_kernel_file,
		.missing = archive_report_missing,
		.arg = &writer,
	};
	int err;

	*counts = (struct binary_archive_counts){0};
	err = atomic_file_create(&writer.file, path, error);
	if (err)
		return err;
	err = open_archive(&writer);
	if (!err)
		err = archive_contents_collect(plan, profile, &sink);
	if (err == -ENOMEM)
		error_errno(error, ENOMEM, "%s", path);
	if (!err && !writer.names.count)
		err = error_set(error, ENOENT, "there is nothing to collect");
	if (!err && libarchive.write_close(writer.archive) != ARCHIVE_OK)
		err = archive_failed(&writer);
	/* Otherwise archive_write_free() would complete a partial archive. */
	writer.discard = true;
	libarchive.write_free(writer.archive);
	string_table_clear(&writer.names);
	if (err)
		atomic_file_discard(&writer.file);
	else
		err = atomic_file_commit(&writer.file, error);
	counts->size = writer.file.size;
	return err;
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/archive_unpacker.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "symbolize/libarchive.h"

#define BLOCK_SIZE (64u << 10)

static bool unpacker_write(int socket, const char *bytes, size_t size)
{
	ssize_t written;

	while (size) {
		written = write(socket, bytes, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		bytes += written;
		size -= (size_t)written;
	}
	return true;
}

/* Returns false if the parent has closed the socket. */
static bool unpacker_send_message(int socket, struct unpack_message message, const void *bytes,
				  size_t size)
{
	message.size = (uint32_t)size;
	return unpacker_write(socket, (const char *)&message, sizeof(message)) &&
	       unpacker_write(socket, bytes, size);
}

static void send_error(int socket, const char *text)
{
	unpacker_send_message(socket, (struct unpack_message){.type = UNPACK_ERROR}, text,
			      strnlen(text, UNPACK_BYTES_MAX));
}

/* Accepts regular files with a relative path, as binary_archive_create() writes them. */
static bool is_own_entry(struct archive_entry *entry)
{
	const char *name = libarchive.entry_pathname(entry), *part = name;

	if (!name || !*name || *name == '/' || strlen(name) >= PATH_MAX ||
	    libarchive.entry_filetype(entry) != AE_IFREG || libarchive.entry_hardlink(entry) ||
	    libarchive.entry_symlink(entry) || !libarchive.entry_size_is_set(entry) ||
	    libarchive.entry_size(entry) < 0)
		return false;
	for (; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2]))
			return false;
	}
	return true;
}

/* Returns whether the parent wants the contents; *gone: it has closed the socket. */
static bool offer_entry(int socket, struct archive_entry *entry, bool *gone)
{
	const char *name = libarchive.entry_pathname(entry);
	const struct unpack_message message = {
		.type = UNPACK_ENTRY,
		.number = (uint64_t)libarchive.entry_size(entry),
		.seconds = libarchive.entry_mtime(entry),
		.nanoseconds = libarchive.entry_mtime_nsec(entry),
	};
	char reply = 0;

	*gone = !unpacker_send_message(socket, message, name, strlen(name)) ||
		read(socket, &reply, 1) != 1;
	return reply;
}

static bool send_block(int socket, const char *bytes, size_t size, uint64_t offset)
{
	while (size) {
		size_t part = size < UNPACK_BYTES_MAX ? size : UNPACK_BYTES_MAX;

		if (!unpacker_send_message(
			    socket, (struct unpack_message){.type = UNPACK_DATA, .number = offset},
			    bytes, part))
			return false;
		bytes += part;
		size -= part;
		offset += part;
	}
	return true;
}

/* Returns ARCHIVE_OK, or the status of an error. */
static int send_contents(struct archive *archive, int socket, bool *gone)
{
	const void *bytes;
	la_int64_t offset;
	size_t size;
	int status;

	while ((status = libarchive.read_data_block(archive, &bytes, &size, &offset)) ==
	       ARCHIVE_OK) {
		if (!send_block(socket, bytes, size, (uint64_t)offset)) {
			*gone = true;
			return ARCHIVE_OK;
		}
	}
	return status == ARCHIVE_EOF ? ARCHIVE_OK : status;
}

static void send_entries(struct archive *archive, int socket)
{
	struct archive_entry *entry;
	int status = ARCHIVE_OK;
	bool gone = false;

	while (status == ARCHIVE_OK && !gone) {
		status = libarchive.read_next_header(archive, &entry);
		if (status == ARCHIVE_EOF) {
			unpacker_send_message(socket, (struct unpack_message){.type = UNPACK_END},
					      "", 0);
			return;
		}
		if (status != ARCHIVE_OK)
			break;
		if (!is_own_entry(entry)) {
			send_error(socket, "not an archive of stackbeat's");
			return;
		}
		/* The next header skips contents that are not read. */
		if (offer_entry(socket, entry, &gone))
			status = send_contents(archive, socket, &gone);
	}
	if (!gone)
		send_error(socket, libarchive.error_string(archive)
					   ? libarchive.error_string(archive)
					   : "it can't be unpacked");
}

static void unpack_archive(int file, int socket)
{
	struct archive *archive = libarchive.read_new();

	if (!archive) {
		send_error(socket, "out of memory");
		return;
	}
	libarchive.read_support_filter_zstd(archive);
	libarchive.read_support_filter_gzip(archive);
	libarchive.read_support_format_tar(archive);
	if (libarchive.read_open_fd(archive, file, BLOCK_SIZE) == ARCHIVE_OK)
		send_entries(archive, socket);
	else
		send_error(socket, "neither a directory nor an archive");
	libarchive.read_free(archive);
}

void run_unpack_worker(const int fds[], size_t count)
{
	if (count == 2)
		unpack_archive(fds[0], fds[1]);
}

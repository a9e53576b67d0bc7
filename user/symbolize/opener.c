// SPDX-License-Identifier: GPL-2.0
#include "symbolize/opener.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "debuginfo/file_cache.h"
#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "sandbox/fd_passing.h"
#include "symbolize/archive_reader.h"
#include "symbolize/kept_symbols.h"

/* What was opened. */
struct opened {
	/* Paths of the debug files, as only they may be in `beside`. */
	char **paths;
	size_t count, capacity;
	bool has_owner;
	uint32_t owner; /* of the first file that root does not own; else 0 */
	struct file_key keys[CACHE_KEY_FILES_MAX]; /* of all files */
	size_t key_count;
	bool has_unknown; /* a file without a key, or one more than there is room for */
	bool has_kept; /* symbols of these files */
};

/* Returns the path if the worker may ask for files beside it, or NULL. */
static const char *checked_path(const struct opener *opener, const struct opened *opened,
				const char *path)
{
	if (!strcmp(path, opener->job->path))
		return opener->job->path;
	for (size_t i = 0; i < opened->count; i++) {
		if (!strcmp(path, opened->paths[i]))
			return opened->paths[i];
	}
	return NULL;
}

static int opener_open_binary(const struct opener *opener, const struct open_request *request,
			      struct open_response *response)
{
	struct error problem = {""};
	char link[64];
	ssize_t length;
	int fd = -ENOENT;

	response->candidate = request->candidate + 1;
	if (opener->job->open)
		fd = opener->job->open(opener->job->arg, request->candidate, &problem);
	snprintf(response->problem, sizeof(response->problem), "%s", problem.text);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, response->path, sizeof(response->path) - 1);
	response->path[length > 0 ? length : 0] = '\0';
	return fd;
}

/* Opens candidate 0 of the debug files if there is an archive. */
static int open_archived(const struct opener *opener, const struct open_request *request,
			 struct open_response *response)
{
	int fd = request->kind == DEBUG_BUILD_ID
			 ? archive_reader_debug_file(opener->archive, request->name)
			 : -ENOENT;

	if (fd < 0)
		return fd;
	if (!is_elf_file(fd)) {
		close(fd);
		return -ENOENT;
	}
	response->candidate = request->candidate + 1;
	/* The name is a valid build ID. */
	snprintf(response->path, sizeof(response->path), ".build-id/%.2s/%.*s.debug", request->name,
		 BUILD_ID_SIZE, request->name + 2);
	return fd;
}

/*
 * Returns whether a file may be opened because another file names it. That other file may be
 * malicious: who has not the right to read the file must not read it by naming it. An unknown
 * owner is no owner: two files of it may belong to two users.
 */
static bool may_be_named(const struct opened *opened, int fd)
{
	struct file_owner owner;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	file_owner_read(&owner, fd);
	return st.st_mode & S_IROTH ||
	       (opened->has_owner && owner.uid != OWNER_UNKNOWN && owner.uid == opened->owner);
}

static int opener_open_debug_file(const struct opener *opener, struct opened *opened,
				  const struct open_request *request,
				  struct open_response *response)
{
	unsigned int candidate = request->candidate, first = opener->archive ? 1 : 0;
	char *path;
	int fd;

	if (candidate < first) {
		fd = open_archived(opener, request, response);
		if (fd >= 0)
			return fd;
		candidate = first;
	}
	candidate -= first;
	fd = debug_paths_open(&opener->paths, (enum debug_name)request->kind, request->name,
			      checked_path(opener, opened, request->beside), &candidate, &path);
	response->candidate = candidate + first;
	if (!path)
		return fd;
	if (fd >= 0 && request->kind != DEBUG_BUILD_ID && !may_be_named(opened, fd)) {
		close(fd);
		fd = -EACCES;
	}
	snprintf(response->path, sizeof(response->path), "%s", path);
	/* Without memory, files beside it are not found. */
	if (fd >= 0)
		(void)array_add_string(&opened->paths, &opened->capacity, &opened->count,
				       response->path);
	free(path);
	return fd;
}

static void note_owner(const struct opener *opener, struct opened *opened, int fd)
{
	struct file_owner owner;

	if (opened->has_owner && opened->owner)
		return;
	file_owner_read(&owner, fd);
	opened->has_owner = true;
	opened->owner = owner.uid;
	*opener->owner = owner.uid;
}

static bool opener_identify(const struct worker_job *job, uint32_t kind, int fd,
			    struct file_key *key)
{
	if (kind != OPEN_BINARY)
		return file_key_of(fd, key);
	return job->identify && job->identify(job->arg, fd, key);
}

/* With an archive, a debug file may be from there: nothing proves what that has. */
static void note_key(const struct opener *opener, struct opened *opened,
		     const struct open_request *request, int fd)
{
	if (opened->key_count < CACHE_KEY_FILES_MAX && !opener->archive &&
	    opener_identify(opener->job, request->kind, fd, &opened->keys[opened->key_count]))
		opened->key_count++;
	else
		opened->has_unknown = true;
}

/* Kept symbols */

static struct cache_key cache_key_of(const struct opened *opened)
{
	return (struct cache_key){CACHE_FILE_SYMBOLS, opened->keys, opened->key_count};
}

static bool can_be_kept(const struct opener *opener, const struct opened *opened)
{
	return opener->cache && opened->key_count && !opened->has_unknown;
}

static int open_kept(const struct opener *opener, const struct opened *opened)
{
	const struct cache_key key = cache_key_of(opened);

	return can_be_kept(opener, opened) ? file_cache_open_entry(opener->cache, &key) : -ENOTSUP;
}

/* Receives the bytes that follow a request. Returns NULL if there are fewer, or without memory. */
static char *receive_bytes(int socket, size_t size)
{
	char *bytes = malloc(size);
	size_t at = 0;
	ssize_t got = 1;
	int fd;

	for (; bytes && at < size && got > 0; at += got > 0 ? (size_t)got : 0) {
		got = receive_fd(socket, bytes + at, MIN(size - at, KEEP_MESSAGE_MAX), &fd);
		if (fd >= 0)
			close(fd);
	}
	if (at == size)
		return bytes;
	free(bytes);
	return NULL;
}

/* A worker that was taken over must not fill the disk: symbols of the same files are kept once. */
static int opener_keep_symbols(const struct opener *opener, struct opened *opened, int socket,
			       uint64_t size)
{
	const struct cache_key key = cache_key_of(opened);
	struct iovec part;
	char *bytes;
	int err;

	if (!can_be_kept(opener, opened) || opened->has_kept || !size || size > KEPT_SYMBOLS_MAX ||
	    size % sizeof(uint64_t))
		return -EINVAL;
	bytes = receive_bytes(socket, size);
	if (!bytes)
		return -EPIPE;
	opened->has_kept = true;
	part = (struct iovec){bytes, size};
	err = file_cache_store(opener->cache, &key, &part, 1);
	free(bytes);
	return err;
}

/* Returns false if the worker is gone, or if its next message may be no request. */
static bool opener_handle_request(const struct opener *opener, struct opened *opened, int socket,
				  struct open_request *request)
{
	struct open_response response = {0};
	bool is_file = false;
	int fd, err;

	request->name[sizeof(request->name) - 1] = '\0';
	request->beside[sizeof(request->beside) - 1] = '\0';
	if (request->kind == OPEN_KEPT) {
		fd = open_kept(opener, opened);
	} else if (request->kind == KEEP_SYMBOLS) {
		fd = opener_keep_symbols(opener, opened, socket, request->size);
	} else {
		fd = request->kind == OPEN_BINARY
			     ? opener_open_binary(opener, request, &response)
			     : opener_open_debug_file(opener, opened, request, &response);
		is_file = fd >= 0;
	}
	if (is_file) {
		note_owner(opener, opened, fd);
		note_key(opener, opened, request, fd);
		opened->has_kept = false;
	}
	response.result = fd < 0 ? fd : 0;
	if (request->kind == KEEP_SYMBOLS)
		fd = -1;
	err = send_fd(socket, &response, sizeof(response), fd);
	if (fd >= 0)
		close(fd);
	/* What follows KEEP_SYMBOLS was not read. */
	if (request->kind == KEEP_SYMBOLS &&
	    (response.result == -EINVAL || response.result == -EPIPE))
		return false;
	return !err;
}

void opener_serve(const struct opener *opener, int socket)
{
	struct opened opened = {
		.has_owner = opener->job->has_owner,
		.owner = opener->job->owner,
	};
	struct open_request request;
	unsigned int count = 0;
	int fd;

	if (opened.has_owner)
		*opener->owner = opened.owner;
	while (count++ < OPEN_REQUESTS_MAX &&
	       receive_fd(socket, &request, sizeof(request), &fd) == sizeof(request)) {
		if (fd >= 0)
			close(fd);
		if (!opener_handle_request(opener, &opened, socket, &request))
			break;
	}
	for (size_t i = 0; i < opened.count; i++)
		free(opened.paths[i]);
	free(opened.paths);
}

int opener_request(int socket, const struct open_request *request, struct open_response *response)
{
	int fd = -1, err = send_fd(socket, request, sizeof(*request), -1);

	if (!err && receive_fd(socket, response, sizeof(*response), &fd) != sizeof(*response))
		err = -EPIPE;
	if (err) {
		*response = (struct open_response){.result = err};
		return err;
	}
	response->path[sizeof(response->path) - 1] = '\0';
	response->problem[sizeof(response->problem) - 1] = '\0';
	if (fd >= 0)
		return fd;
	if (response->result >= 0)
		response->result = -EPIPE;
	return response->result;
}

static int send_bytes(void *arg, const void *bytes, size_t size)
{
	const int *socket = arg;
	const char *next = bytes;
	int err = 0;

	for (size_t part; size && !err; size -= part, next += part) {
		part = MIN(size, KEEP_MESSAGE_MAX);
		err = send_fd(*socket, next, part, -1);
	}
	return err;
}

int opener_keep(int socket, const struct kept_symbols *kept)
{
	const struct open_request request = {
		.kind = KEEP_SYMBOLS,
		.size = kept_symbols_size(kept),
	};
	struct open_response response;
	int fd, err = send_fd(socket, &request, sizeof(request), -1);

	if (!err)
		err = kept_symbols_write(kept, send_bytes, &socket);
	if (!err && receive_fd(socket, &response, sizeof(response), &fd) != sizeof(response))
		err = -EPIPE;
	return err ? err : response.result;
}

// SPDX-License-Identifier: GPL-2.0
#include "symbolize/opener.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/array.h"
#include "lib/build_id.h"
#include "lib/error.h"
#include "lib/regular_file.h"
#include "sandbox/fd_passing.h"
#include "symbolize/archive_reader.h"

/* What was opened. */
struct opened {
	/* Paths of the debug files, as only they may be in `beside`. */
	char **paths;
	size_t count, capacity;
	bool has_owner;
	uint32_t owner; /* of the first file that root does not own; else 0 */
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

static int open_binary(const struct opener *opener, const struct open_request *request,
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

static int open_debug_file(const struct opener *opener, struct opened *opened,
			   const struct open_request *request, struct open_response *response)
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

/* Returns false if the worker is gone. */
static bool handle_request(const struct opener *opener, struct opened *opened, int socket,
			   struct open_request *request)
{
	struct open_response response = {0};
	int fd, err;

	request->name[sizeof(request->name) - 1] = '\0';
	request->beside[sizeof(request->beside) - 1] = '\0';
	if (request->kind == OPEN_BINARY)
		fd = open_binary(opener, request, &response);
	else
		fd = open_debug_file(opener, opened, request, &response);
	if (fd >= 0)
		note_owner(opener, opened, fd);
	response.result = fd < 0 ? fd : 0;
	err = send_fd(socket, &response, sizeof(response), fd);
	if (fd >= 0)
		close(fd);
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
		if (!handle_request(opener, &opened, socket, &request))
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

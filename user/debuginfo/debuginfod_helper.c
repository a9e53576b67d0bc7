// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod_helper.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/debuginfod.h"
#include "lib/build_id.h"
#include "sandbox/fd_passing.h"
#include "sandbox/worker_limits.h"

/* A message of the helper: progress, or the result with the fd of the file. */
struct message {
	int is_progress; /* not 0: more messages follow */
	int result; /* 0 or a negative errno value */
	long done, total;
	char text[PATH_MAX]; /* path of the file, or error message */
};

/* The helper process */

static int send_progress(void *arg, long done, long total)
{
	const struct message message = {.is_progress = 1, .done = done, .total = total};

	return send_fd(*(const int *)arg, &message, sizeof(message), -1);
}

static void handle_request(int socket, const char *build_id)
{
	struct message message = {0};
	struct error error = {""};
	char *path = NULL;
	int fd;

	/* The requesting worker may be compromised: validate its input. */
	if (!build_id_valid(build_id))
		fd = error_set(&error, EINVAL, "debuginfod: %s is no build ID", build_id);
	else
		fd = debuginfod_fetch(build_id, send_progress, &socket, &path, &error);
	message.result = fd < 0 ? fd : 0;
	snprintf(message.text, sizeof(message.text), "%s", fd < 0 ? error.text : path);
	/* On failure, the requesting process is gone. */
	if (send_fd(socket, &message, sizeof(message), fd) != 0)
		_exit(1);
	free(path);
	if (fd >= 0)
		close(fd);
}

static void serve_requests(int socket)
{
	char build_id[BUILD_ID_SIZE];
	ssize_t got;
	int fd;

	while ((got = receive_fd(socket, build_id, sizeof(build_id) - 1, &fd)) > 0) {
		build_id[got] = '\0';
		handle_request(socket, build_id);
	}
}

int debuginfod_helper_start(struct debuginfod_helper *helper, int close_fd)
{
	pid_t parent = getpid();
	int ends[2];

	*helper = (struct debuginfod_helper){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	helper->pid = fork();
	if (helper->pid == 0) {
		limit_worker(parent);
		close(ends[0]);
		close(close_fd);
		serve_requests(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	if (helper->pid < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	helper->socket = ends[0];
	return 0;
}

/* The requesting process */

/* Does not wait: the helper may be busy for long. It exits with this process or before. */
static void disconnect(struct debuginfod_helper *helper)
{
	close(helper->socket);
	helper->socket = -1;
}

void debuginfod_helper_stop(struct debuginfod_helper *helper)
{
	if (helper->socket < 0)
		return;
	disconnect(helper);
	waitpid(helper->pid, NULL, 0);
}

/* Returns `fd` and sets *path, or returns the helper's error. */
static int read_result(struct message *message, int fd, char **path, struct error *error)
{
	message->text[sizeof(message->text) - 1] = '\0';
	if (message->result < 0)
		return error_set(error, -message->result, "%s", message->text);
	*path = fd >= 0 ? strdup(message->text) : NULL;
	if (*path)
		return fd;
	if (fd >= 0)
		close(fd);
	return error_errno(error, ENOMEM, "debuginfod");
}

int debuginfod_helper_fetch(struct debuginfod_helper *helper, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error)
{
	struct message message;
	int fd, err;

	if (helper->socket < 0)
		return error_errno(error, ETIMEDOUT, "debuginfod: build ID %s", build_id);
	err = send_fd(helper->socket, build_id, strlen(build_id), -1);
	while (!err) {
		if (receive_fd(helper->socket, &message, sizeof(message), &fd) != sizeof(message))
			break;
		if (!message.is_progress)
			return read_result(&message, fd, path, error);
		if (progress(arg, message.done, message.total) != 0) {
			disconnect(helper);
			return error_errno(error, ETIMEDOUT, "debuginfod: build ID %s", build_id);
		}
	}
	disconnect(helper);
	return error_set(error, EIO, "debuginfod: fetching build ID %s has crashed", build_id);
}

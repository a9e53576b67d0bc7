// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod_helper.h"

#include "debuginfo/debuginfod.h"
#include "lib/build_id.h"
#include "sandbox/fd_passing.h"
#include "sandbox/worker_limits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What goes back: that it goes on, or what has come of it, with the file. */
struct answer {
	int goes_on; /* not 0: this is no result */
	int result; /* 0 or a negative errno value */
	long done, total;
	char text[PATH_MAX]; /* the path of the file, or why there is none */
};

/* The process that fetches */

static int tell_progress(void *arg, long done, long total)
{
	const struct answer answer = {.goes_on = 1, .done = done, .total = total};

	return send_fd(*(const int *)arg, &answer, sizeof(answer), -1);
}

static void answer_one(int socket, const char *build_id)
{
	struct answer answer = {0};
	struct error error = {""};
	char *path = NULL;
	int fd;

	/* Who asks may have been misled. */
	if (!build_id_valid(build_id))
		fd = error_set(&error, EINVAL, "debuginfod: %s is no build id", build_id);
	else
		fd = debuginfod_fetch(build_id, tell_progress, &socket, &path, &error);
	answer.result = fd < 0 ? fd : 0;
	snprintf(answer.text, sizeof(answer.text), "%s", fd < 0 ? error.text : path);
	/* Where that fails, nobody listens any more. */
	if (send_fd(socket, &answer, sizeof(answer), fd) != 0)
		_exit(1);
	free(path);
	if (fd >= 0)
		close(fd);
}

static void answer_all(int socket)
{
	char build_id[BUILD_ID_SIZE];
	ssize_t got;
	int fd;

	while ((got = receive_fd(socket, build_id, sizeof(build_id) - 1, &fd)) > 0) {
		build_id[got] = '\0';
		answer_one(socket, build_id);
	}
}

int debuginfod_helper_start(struct debuginfod_helper *fetcher, int not_its)
{
	pid_t parent = getpid();
	int ends[2];

	*fetcher = (struct debuginfod_helper){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	fetcher->pid = fork();
	if (fetcher->pid == 0) {
		limit_worker(parent);
		close(ends[0]);
		close(not_its);
		answer_all(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	if (fetcher->pid < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	fetcher->socket = ends[0];
	return 0;
}

/* The process that asks */

/* It may be busy for long, so nobody waits: it ends with this process, or before. */
static void give_up(struct debuginfod_helper *fetcher)
{
	close(fetcher->socket);
	fetcher->socket = -1;
}

void debuginfod_helper_stop(struct debuginfod_helper *fetcher)
{
	if (fetcher->socket < 0)
		return;
	give_up(fetcher);
	waitpid(fetcher->pid, NULL, 0);
}

/* Returns `fd`, or why there is none. */
static int take_result(struct answer *answer, int fd, char **path, struct error *error)
{
	answer->text[sizeof(answer->text) - 1] = '\0';
	if (answer->result < 0)
		return error_set(error, -answer->result, "%s", answer->text);
	*path = fd >= 0 ? strdup(answer->text) : NULL;
	if (*path)
		return fd;
	if (fd >= 0)
		close(fd);
	return error_errno(error, ENOMEM, "debuginfod");
}

int debuginfod_helper_fetch(struct debuginfod_helper *fetcher, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error)
{
	struct answer answer;
	int fd, err;

	if (fetcher->socket < 0)
		return error_errno(error, ETIMEDOUT, "debuginfod: build id %s", build_id);
	err = send_fd(fetcher->socket, build_id, strlen(build_id), -1);
	while (!err) {
		if (receive_fd(fetcher->socket, &answer, sizeof(answer), &fd) != sizeof(answer))
			break;
		if (!answer.goes_on)
			return take_result(&answer, fd, path, error);
		if (progress(arg, answer.done, answer.total) != 0) {
			give_up(fetcher);
			return error_errno(error, ETIMEDOUT, "debuginfod: build id %s", build_id);
		}
	}
	give_up(fetcher);
	return error_set(error, EIO, "debuginfod: fetching build id %s has crashed", build_id);
}

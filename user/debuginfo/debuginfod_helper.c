// SPDX-License-Identifier: GPL-2.0
#include "debuginfo/debuginfod_helper.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "debuginfo/debuginfod.h"
#include "lib/build_id.h"
#include "sandbox/capabilities.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp_filter.h"
#include "sandbox/worker_limits.h"

#define CACHE_VARIABLE "DEBUGINFOD_CACHE_PATH"
#define ROOT_CACHE_PARENT "/var/cache/stackbeat"
/*
 * A worker needs a debug file and the file that it shares with others. Every request is sent to a
 * server: a compromised worker could send there what it has read.
 */
#define REQUESTS_MAX 8u

/* A message of the helper: progress, or the result with the fd of the file. */
struct message {
	int is_progress; /* not 0: more messages follow */
	int result; /* 0 or a negative errno value */
	long done, total;
	char text[PATH_MAX]; /* path of the file, or error message */
};

/* The helper process */

static int helper_send_progress(void *arg, long done, long total)
{
	const struct message message = {.is_progress = 1, .done = done, .total = total};

	return send_fd(*(const int *)arg, &message, sizeof(message), -1);
}

static void helper_handle_request(int socket, const char *build_id)
{
	struct message message = {0};
	struct error error = {""};
	char *path = NULL;
	int fd;

	/* The requesting worker may be compromised: validate its input. */
	if (!build_id_valid(build_id))
		fd = error_set(&error, EINVAL, "debuginfod: %s is no build ID", build_id);
	else
		fd = debuginfod_fetch(build_id, helper_send_progress, &socket, &path, &error);
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
	unsigned int count = 0;
	ssize_t got;
	int fd;

	while (count++ < REQUESTS_MAX &&
	       (got = receive_fd(socket, build_id, sizeof(build_id) - 1, &fd)) > 0) {
		if (fd >= 0)
			close(fd);
		build_id[got] = '\0';
		helper_handle_request(socket, build_id);
	}
}

/* Serves a connection in a process of its own, as a download may take long. */
static void start_connection(int control, int connection)
{
	if (child_fork(CHILD_DOWNLOAD) == 0) {
		close(control);
		serve_requests(connection);
		_exit(0);
	}
}

/* Sets the cache directory of a helper that will not be root, and creates it. */
static void prepare_root_cache(void)
{
	if (getenv(CACHE_VARIABLE))
		return;
	mkdir(ROOT_CACHE_PARENT, 0755);
	if (mkdir(DEBUGINFOD_ROOT_CACHE, 0700) == 0 &&
	    lchown(DEBUGINFOD_ROOT_CACHE, SANDBOX_UID, SANDBOX_UID))
		rmdir(DEBUGINFOD_ROOT_CACHE);
	setenv(CACHE_VARIABLE, DEBUGINFOD_ROOT_CACHE, 1);
}

/* The directory in which libdebuginfod (since 0.184) has its cache. */
static bool find_cache(char path[PATH_MAX])
{
	const char *variable = getenv(CACHE_VARIABLE), *home = getenv("HOME"),
		   *xdg = getenv("XDG_CACHE_HOME");

	if (variable && *variable)
		return snprintf(path, PATH_MAX, "%s", variable) < PATH_MAX;
	if (home && snprintf(path, PATH_MAX, "%s/.debuginfod_client_cache", home) < PATH_MAX &&
	    access(path, F_OK) == 0)
		return true;
	if (xdg && *xdg)
		return snprintf(path, PATH_MAX, "%s/debuginfod_client", xdg) < PATH_MAX;
	return home && snprintf(path, PATH_MAX, "%s/.cache/debuginfod_client", home) < PATH_MAX;
}

/* Landlock permits changes below an existing directory. */
static int confine_writing(void)
{
	char cache[PATH_MAX];
	char *slash;

	if (!find_cache(cache))
		return -ENOENT;
	for (slash = strchr(cache + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(cache, 0700);
		*slash = '/';
	}
	mkdir(cache, 0700);
	return landlock_confine_writing(cache);
}

/* Returns whether the helper is confined. Files that another user owns need no Landlock. */
static bool confine_helper(void)
{
	bool is_root = geteuid() == 0, confined = true;

	if (is_root)
		prepare_root_cache();
	capabilities_clear_bounding_set();
	if (is_root)
		confined = !become_user(SANDBOX_UID);
	confined = !capabilities_keep(0) && confined;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (confine_writing() && !is_root)
		confined = false;
	return !seccomp_confine_network_client() && confined;
}

/* Processes that are not waited for would be missing in the CPU time of this process. */
static void reap_connections(int number)
{
	int code = errno;

	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = code;
}

static void run_helper(int control)
{
	const struct sigaction reap = {.sa_handler = reap_connections,
				       .sa_flags = SA_RESTART | SA_NOCLDSTOP};
	sigset_t of_parent;
	int connection;
	bool confined;
	char byte;

	/*
	 * Out of the reach of the terminal, and of systemd, which ends all processes of a service:
	 * names are read after that. A request for a file may be for all processes, too. It ends
	 * with its parent.
	 */
	setsid();
	sigemptyset(&of_parent);
	sigaddset(&of_parent, SIGINT);
	sigaddset(&of_parent, SIGTERM);
	sigaddset(&of_parent, SIGHUP);
	sigaddset(&of_parent, SIGQUIT);
	sigaddset(&of_parent, SIGXCPU);
	sigaddset(&of_parent, SIGUSR1);
	sigaddset(&of_parent, SIGUSR2);
	sigprocmask(SIG_BLOCK, &of_parent, NULL);
	/* Without the files and sockets of the parent. */
	replace_standard_files();
	close_other_fds((int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, control}, 4);
	confined = confine_helper();
	/* A change of the user clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGCHLD, &reap, NULL);
	if (send_fd(control, &confined, sizeof(confined), -1))
		return;
	while (receive_fd(control, &byte, sizeof(byte), &connection) > 0) {
		if (connection < 0)
			continue;
		start_connection(control, connection);
		close(connection);
	}
}

/* The process that starts the helper */

int debuginfod_helper_start(struct debuginfod_helper *helper, struct error *error)
{
	int ends[2], fd;
	bool confined;

	*helper = (struct debuginfod_helper){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return error_errno(error, errno, "can't start the debuginfod helper");
	helper->pid = child_fork(CHILD_DEBUGINFOD_HELPER);
	if (helper->pid == 0) {
		run_helper(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	helper->socket = ends[0];
	if (helper->pid > 0 &&
	    receive_fd(helper->socket, &confined, sizeof(confined), &fd) == sizeof(confined)) {
		helper->unconfined = !confined;
		return 0;
	}
	debuginfod_helper_stop(helper);
	return error_errno(error, EAGAIN, "can't start the debuginfod helper");
}

void debuginfod_helper_stop(struct debuginfod_helper *helper)
{
	if (helper->socket < 0)
		return;
	/* Another process may have inherited the socket. */
	shutdown(helper->socket, SHUT_RDWR);
	close(helper->socket);
	helper->socket = -1;
	if (helper->pid > 0)
		wait_killed(helper->pid);
}

int debuginfod_helper_connect(const struct debuginfod_helper *helper)
{
	int ends[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -errno;
	err = send_fd(helper->socket, "", 1, ends[1]);
	close(ends[1]);
	if (!err)
		return ends[0];
	close(ends[0]);
	return err;
}

/* The requesting process */

/* Does not wait: the helper may be busy for long. It ends when it sends the next message. */
static void helper_disconnect(int *socket)
{
	close(*socket);
	*socket = -1;
}

/* Returns `fd` and sets *path, or returns the helper's error. */
static int helper_read_result(struct message *message, int fd, char **path, struct error *error)
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

int debuginfod_helper_fetch(int *socket, const char *build_id,
			    int (*progress)(void *arg, long done, long total), void *arg,
			    char **path, struct error *error)
{
	struct message message;
	int fd, err;

	if (*socket < 0)
		return error_errno(error, ETIMEDOUT, "debuginfod: build ID %s", build_id);
	err = send_fd(*socket, build_id, strlen(build_id), -1);
	while (!err) {
		if (receive_fd(*socket, &message, sizeof(message), &fd) != sizeof(message))
			break;
		if (!message.is_progress)
			return helper_read_result(&message, fd, path, error);
		if (progress(arg, message.done, message.total) != 0) {
			helper_disconnect(socket);
			return error_errno(error, ETIMEDOUT, "debuginfod: build ID %s", build_id);
		}
	}
	helper_disconnect(socket);
	return error_set(error, EIO, "debuginfod: fetching build ID %s has crashed", build_id);
}

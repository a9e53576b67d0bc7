// SPDX-License-Identifier: GPL-2.0
#include "serve/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "lib/file_limit.h"
#include "sandbox/child.h"
#include "sandbox/seccomp_filter.h"
#include "serve/access.h"
#include "serve/annotation_server.h"
#include "serve/connections.h"
#include "serve/http.h"
#include "serve/http_rights.h"
#include "serve/microhttpd.h"
#include "store/store.h"

#define RESTART_PAUSE_MS 1000
#define CRASHES_MAX 5u /* of the HTTP server, each within the interval */
#define CRASH_INTERVAL_NS (10 * NS_PER_SECOND)

/* In the process that serves HTTP. */
static int run_http_server(struct supervisor *server, struct error *error)
{
	int err;

	server->http.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	err = http_rights_confine(server->http.store.path, error);
	return err ? err : http_run(&server->http, error);
}

static pid_t fork_http_server(struct supervisor *server)
{
	struct error error;
	pid_t pid;

	server->http.cpu_before_ns = cpu_time_own();
	pid = child_fork(CHILD_HTTP_SERVER);
	if (pid)
		return pid;
	if (!run_http_server(server, &error))
		_exit(0);
	server->http.message(error.text);
	_exit(EXIT_FAILURE);
}

/*
 * Starts the process that serves HTTP again after a crash, which loses open requests alone: the
 * sampler has the slices that are not stored. Returns when that process ends by itself.
 */
static int keep_http_server(struct supervisor *server, struct error *error)
{
	unsigned int crashes = 0;

	while (true) {
		int64_t start = now_ns(CLOCK_MONOTONIC);
		pid_t pid = fork_http_server(server);
		char text[100];
		int status;

		if (pid < 0 || TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)) != pid)
			return error_errno(error, errno, "can't start the HTTP server");
		if (!WIFSIGNALED(status))
			_exit(WEXITSTATUS(status));
		if (now_ns(CLOCK_MONOTONIC) - start > CRASH_INTERVAL_NS)
			crashes = 0;
		if (++crashes == CRASHES_MAX)
			return error_set(error, EIO,
					 "the HTTP server was killed by signal %d again",
					 WTERMSIG(status));
		snprintf(text, sizeof(text),
			 "the HTTP server was killed by signal %d; it is started again",
			 WTERMSIG(status));
		server->http.message(text);
		server->http.restarts++;
		poll(NULL, 0, RESTART_PAUSE_MS);
	}
}

/* How prepare_http_server() has ended, for the process that samples. */
struct preparation {
	int err;
	struct error error;
};

/*
 * Takes the lock as the user who writes: root need not have the right to make a file there, or to
 * open that user's file.
 */
static int lock_store(struct supervisor *server, struct error *error)
{
	const char *path = server->http.store.path;

	server->lock = -1;
	if (!path)
		return 0;
	if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
		return error_set(
			error, errno,
			"%s: the user %u, who serves HTTP, can't write there: %s; 'chown %u "
			"DIR' permits it, or --user NAME takes another user",
			path, geteuid(), strerror(errno), geteuid());
	server->lock = store_lock(path, error);
	return server->lock < 0 ? server->lock : 0;
}

/* In the parent of the process that serves HTTP; `report` stays open. */
static int prepare_http_server(struct supervisor *server, int report, struct error *error)
{
	int kept[LISTENERS_MAX + 6] = {
		STDIN_FILENO,  STDOUT_FILENO,
		STDERR_FILENO, server->http.socket,
		report,        server->http.annotation ? server->http.annotation->socket : -1,
	};
	size_t count = 6;
	sigset_t set;
	int err;

	for (size_t i = 0; i < server->http.listener_count; i++)
		kept[count++] = server->http.listeners[i].socket;
	close_other_fds(kept, count);
	/* The sampler gets them, too, and ends this process afterwards. */
	sigfillset(&set);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGABRT);
	sigprocmask(SIG_SETMASK, &set, NULL);
	umask(0027);
	/* Each slice that waits has an open file. */
	raise_file_limit(FILE_LIMIT_MAX);
	err = http_rights_reduce(server->uid, error);
	/* Without rights, as it runs code of other libraries. */
	if (!err)
		err = microhttpd_load(error);
	if (!err && server->http.access->client_ca)
		err = gnutls_load(error);
	if (!err && server->http.access->certificate)
		err = connections_check_tls(server->http.access, error);
	return err ? err : lock_store(server, error);
}

/* In the process that serves HTTP, until it ends. */
static void run_http_keeper(struct supervisor *server, int report)
{
	struct preparation preparation = {0};
	struct error error;

	preparation.err = prepare_http_server(server, report, &preparation.error);
	if (write(report, &preparation, sizeof(preparation)) != sizeof(preparation) ||
	    preparation.err)
		_exit(EXIT_FAILURE);
	close(report);
	keep_http_server(server, &error);
	server->http.message(error.text);
	_exit(EXIT_FAILURE);
}

/* Waits until that process can serve. */
static int await_http_server(int report, struct error *error)
{
	struct preparation preparation;

	if (TEMP_FAILURE_RETRY(read(report, &preparation, sizeof(preparation))) !=
	    sizeof(preparation))
		return error_set(error, EIO, "can't start the HTTP server");
	if (preparation.err)
		*error = preparation.error;
	return preparation.err;
}

int supervisor_start(struct supervisor *server, struct error *error)
{
	int ends[2], report[2], err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't start the HTTP server");
	if (pipe2(report, O_CLOEXEC)) {
		err = error_errno(error, errno, "can't start the HTTP server");
		close(ends[0]);
		close(ends[1]);
		return err;
	}
	server->http.socket = ends[1];
	server->socket = ends[0];
	server->pid = child_fork(CHILD_HTTP_KEEPER);
	if (!server->pid) {
		close(ends[0]);
		close(report[0]);
		run_http_keeper(server, report[1]);
	}
	close(ends[1]);
	close(report[1]);
	for (size_t i = 0; i < server->http.listener_count; i++)
		close(server->http.listeners[i].socket);
	err = server->pid < 0 ? error_set(error, EAGAIN, "can't start the HTTP server")
			      : await_http_server(report[0], error);
	close(report[0]);
	return err;
}

int supervisor_end(struct supervisor *server, struct error *error)
{
	int status;

	if (server->pid <= 0)
		return 0;
	close(server->socket);
	if (waitpid(server->pid, &status, 0) != server->pid)
		return error_errno(error, errno, "the HTTP server");
	if (WIFSIGNALED(status))
		return error_set(error, EIO, "the HTTP server was killed by signal %d",
				 WTERMSIG(status));
	return WEXITSTATUS(status) ? error_set(error, EIO, "the HTTP server has failed") : 0;
}

// SPDX-License-Identifier: GPL-2.0
#include "sandbox/fork_server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/error.h"
#include "sandbox/capabilities.h"
#include "sandbox/fd_passing.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"
#include "sandbox/seccomp_filter.h"
#include "sandbox/worker_limits.h"

#define WORKERS_MAX 128u
#define START_TIMEOUT_MS 30000

_Static_assert(WORKER_FDS_MAX + 1 <= PASSED_FDS_MAX, "a lifeline is passed with the fds");

struct worker {
	pid_t pid;
	int lifeline; /* -1: the worker was killed, and nobody asks for its status */
	bool killed;
};

struct server {
	worker_function *work;
	int control; /* to the parent */
	int child_signals; /* signalfd for SIGCHLD */
	bool has_filter;
	struct oom_score oom_score;
	struct worker workers[WORKERS_MAX];
	size_t count;
};

/* The server: confinement */

/*
 * Signals of the terminal are for the parent. A crash must end a worker, so the handlers of the
 * parent are removed.
 */
static int prepare_signals(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGTRAP,
				      SIGSYS,  SIGABRT, SIGTSTP, SIGCONT};
	sigset_t set;

	for (int number = 1; number <= SIGRTMAX; number++)
		signal(number, SIG_DFL);
	sigfillset(&set);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigdelset(&set, crashes[i]);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static unsigned int confine_server(struct server *server, bool own_namespaces)
{
	bool is_root = geteuid() == 0, has_empty_root = own_namespaces && !enter_empty_root();
	unsigned int missing = 0;

	capabilities_clear_bounding_set();
	if (is_root && become_user(SANDBOX_UID))
		missing |= SANDBOX_NO_USER;
	if (!has_empty_root)
		has_empty_root = !unshare_as_user() && !enter_empty_root();
	if (capabilities_keep(0))
		missing |= SANDBOX_HAS_CAPABILITIES;
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	/* Here, as a change of the user clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (landlock_forbid_files() && !has_empty_root)
		missing |= SANDBOX_NO_EMPTY_ROOT;
	server->has_filter = !seccomp_confine_server();
	return server->has_filter ? missing : missing | SANDBOX_NO_SECCOMP;
}

/* The server: workers */

static void run_worker(const struct server *server, pid_t parent, enum worker_kind kind,
		       const int fds[], size_t count)
{
	die_with_parent(parent);
	if (kind == WORKER_UNWIND_TABLE)
		lower_priority();
	/* Without a filter where the server has one, something is wrong. */
	if (seccomp_confine_worker(fds, count) && server->has_filter)
		_exit(1);
	server->work(kind, fds, count);
	_exit(0);
}

static void start_worker(struct server *server, enum worker_kind kind, const int fds[],
			 size_t count)
{
	pid_t parent = getpid(), pid;

	if (!count || server->count == WORKERS_MAX)
		return;
	oom_score_set(&server->oom_score, true);
	pid = fork();
	if (pid == 0)
		run_worker(server, parent, kind, fds + 1, count - 1);
	oom_score_set(&server->oom_score, false);
	if (pid < 0)
		return;
	/* Below, the caller closes all but the lifeline. */
	server->workers[server->count++] = (struct worker){.pid = pid, .lifeline = fds[0]};
}

/* Returns false when the parent is gone. */
static bool handle_request(struct server *server)
{
	int fds[PASSED_FDS_MAX];
	size_t count = PASSED_FDS_MAX, started = server->count;
	enum worker_kind kind;
	ssize_t got = receive_fds(server->control, &kind, sizeof(kind), fds, &count);

	if (got == sizeof(kind))
		start_worker(server, kind, fds, count);
	for (size_t i = server->count > started; i < count; i++)
		close(fds[i]);
	return got > 0;
}

static void reap_workers(struct server *server)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;

	while (read(server->child_signals, &info, sizeof(info)) == sizeof(info))
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < server->count; i++) {
			struct worker *worker = &server->workers[i];

			if (worker->pid != pid)
				continue;
			send_fd(worker->lifeline, &status, sizeof(status), -1);
			close(worker->lifeline);
			*worker = server->workers[--server->count];
			break;
		}
	}
}

static void serve(struct server *server)
{
	struct pollfd fds[WORKERS_MAX + 2];
	size_t count;

	for (;;) {
		count = server->count;
		fds[0] = (struct pollfd){.fd = server->control, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = server->child_signals, .events = POLLIN};
		for (size_t i = 0; i < count; i++) {
			const struct worker *worker = &server->workers[i];

			fds[i + 2] = (struct pollfd){
				.fd = worker->killed ? -1 : worker->lifeline,
				.events = POLLIN,
			};
		}
		if (poll(fds, count + 2, -1) < 0 && errno != EINTR)
			return;
		for (size_t i = 0; i < count; i++) {
			if (!fds[i + 2].revents)
				continue;
			kill(server->workers[i].pid, SIGKILL);
			server->workers[i].killed = true;
		}
		if (fds[1].revents)
			reap_workers(server);
		if (fds[0].revents && !handle_request(server))
			return;
	}
}

static void run_server(int control, bool own_namespaces, worker_function *work)
{
	struct server server = {.work = work, .control = control};
	unsigned int missing;

	server.child_signals = prepare_signals();
	replace_standard_files();
	close_other_fds(
		(int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, control, server.child_signals},
		5);
	limit_memory();
	oom_score_open(&server.oom_score);
	missing = confine_server(&server, own_namespaces);
	if (server.child_signals >= 0 && send_fd(control, &missing, sizeof(missing), -1) == 0)
		serve(&server);
	_exit(0);
}

/* The parent */

static int receive_report(struct sandbox_server *server)
{
	struct pollfd report = {.fd = server->socket, .events = POLLIN};
	int fd;

	if (TEMP_FAILURE_RETRY(poll(&report, 1, START_TIMEOUT_MS)) != 1)
		return -ETIMEDOUT;
	return receive_fd(server->socket, &server->missing, sizeof(server->missing), &fd) ==
			       sizeof(server->missing)
		       ? 0
		       : -EPIPE;
}

int sandbox_server_start(struct sandbox_server *server, worker_function *work, struct error *error)
{
	bool own_namespaces;
	int ends[2], err;

	*server = (struct sandbox_server){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't start the sandbox");
	server->pid = fork_into_namespaces(&own_namespaces);
	if (server->pid == 0)
		run_server(ends[1], own_namespaces, work);
	err = server->pid < 0 ? -errno : 0;
	close(ends[1]);
	server->socket = ends[0];
	if (!err)
		err = receive_report(server);
	if (!err)
		return 0;
	sandbox_server_stop(server);
	return error_errno(error, -err, "can't start the sandbox");
}

void sandbox_server_stop(struct sandbox_server *server)
{
	if (server->socket < 0)
		return;
	/* Another process may have inherited the socket. */
	shutdown(server->socket, SHUT_RDWR);
	close(server->socket);
	server->socket = -1;
	if (server->pid > 0)
		wait_killed(server->pid);
}

int sandbox_worker_start(const struct sandbox_server *server, enum worker_kind kind,
			 const int fds[], size_t count)
{
	int all[PASSED_FDS_MAX], ends[2], err;

	if (count > WORKER_FDS_MAX)
		return -EINVAL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	all[0] = ends[1];
	memcpy(all + 1, fds, count * sizeof(*fds));
	err = send_fds(server->socket, &kind, sizeof(kind), all, count + 1);
	close(ends[1]);
	if (!err)
		return ends[0];
	close(ends[0]);
	return err;
}

void sandbox_worker_kill(int lifeline)
{
	shutdown(lifeline, SHUT_WR);
}

bool sandbox_worker_exited(int lifeline, int *status)
{
	ssize_t got = recv(lifeline, status, sizeof(*status), MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got != sizeof(*status))
		*status = WORKER_STATUS_UNKNOWN;
	return true;
}

void sandbox_missing_text(unsigned int missing, char text[SANDBOX_MISSING_SIZE])
{
	static const char *const names[] = {
		"no user of its own", "no namespaces",         "no seccomp",
		"capabilities",       "debuginfod unconfined",
	};
	char *end = text;

	*text = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (missing & 1u << i)
			end += snprintf(end, SANDBOX_MISSING_SIZE - (size_t)(end - text), "%s%s",
					end > text ? ", " : "", names[i]);
	}
}

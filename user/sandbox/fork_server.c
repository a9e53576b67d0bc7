// SPDX-License-Identifier: GPL-2.0
#include "sandbox/fork_server.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "sandbox/capabilities.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"
#include "sandbox/seccomp_filter.h"
#include "sandbox/worker_limits.h"

#define WORKERS_MAX 128u
#define START_TIMEOUT_MS 30000
/* A request for the CPU time, among those for workers of enum worker_kind. */
#define REQUEST_CPU ((enum worker_kind)WORKER_KINDS)
#define CPU_TIMEOUT_MS 5000
/* A worker that hangs uses less of the time that passes; others get more on any busy machine. */
#define HANG_PART 1000
/* The part of that time by which a check is late if the server did not run, either. */
#define LATE_PART 10
/* Before another check of the CPU time, so that the server does not compute all the time. */
#define CHECK_NS (20 * NS_PER_MS)

_Static_assert(WORKER_FDS_MAX + 1 <= PASSED_FDS_MAX, "a lifeline is passed with the fds");

struct server_worker {
	pid_t pid;
	enum worker_kind kind;
	int lifeline; /* -1: its status was sent when it was killed */
	bool killed;
	int64_t cpu_end; /* limit, ns of its CPU clock; INT64_MAX: none */
	int64_t hang_ns; /* limit */
	int64_t window_end; /* CLOCK_MONOTONIC, ns: of the time in which it may hang */
	int64_t window_cpu; /* ns of its CPU clock: it hangs if it has used less at that end */
	int64_t check_at; /* CLOCK_MONOTONIC, ns: no limit is reached before */
};

/* A message of the parent on a lifeline. */
struct limits {
	int64_t cpu_ns, hang_ns;
};

struct fork_server {
	worker_function *work;
	int control; /* to the parent */
	int child_signals; /* signalfd for SIGCHLD */
	bool has_filter;
	struct worker_filters filters;
	struct oom_score oom_score;
	int64_t ended_cpu[WORKER_KINDS]; /* ns, of workers that were reaped */
	struct server_worker workers[WORKERS_MAX];
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

static unsigned int confine_server(struct fork_server *server)
{
	bool is_root = geteuid() == 0, has_empty_root = getpid() == 1 && !enter_empty_root();
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

static void fork_server_run_worker(const struct fork_server *server, enum worker_kind kind,
				   const struct worker_filter *filter, const int fds[],
				   size_t count)
{
	/* Without a filter where the server has one, something is wrong. */
	if (seccomp_confine_worker(filter, fds, count) && server->has_filter)
		_exit(1);
	server->work(kind, fds, count);
	_exit(0);
}

static void fork_server_start_worker(struct fork_server *server, enum worker_kind kind,
				     const int fds[], size_t count)
{
	const struct worker_filter *filter;
	pid_t pid;

	if (!count || kind >= WORKER_KINDS || server->count == WORKERS_MAX)
		return;
	filter = worker_filters_prepare(&server->filters, fds + 1, count - 1);
	oom_score_set(&server->oom_score, true);
	pid = child_fork(kind == WORKER_UNWIND_TABLE ? CHILD_TABLE_WORKER : CHILD_WORKER);
	if (pid == 0)
		fork_server_run_worker(server, kind, filter, fds + 1, count - 1);
	oom_score_set(&server->oom_score, false);
	if (pid < 0)
		return;
	/* Below, the caller closes all but the lifeline. */
	server->workers[server->count++] = (struct server_worker){
		.pid = pid,
		.kind = kind,
		.lifeline = fds[0],
		.check_at = INT64_MAX,
	};
}

/* Sends the first status of a worker, and closes its lifeline. */
static void send_status(struct server_worker *worker, int status)
{
	if (worker->lifeline < 0)
		return;
	send_fd(worker->lifeline, &status, sizeof(status), -1);
	close(worker->lifeline);
	worker->lifeline = -1;
}

static void reap_workers(struct fork_server *server)
{
	struct signalfd_siginfo info;
	struct rusage usage;
	int status;
	pid_t pid;

	while (read(server->child_signals, &info, sizeof(info)) == sizeof(info))
		;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		for (size_t i = 0; i < server->count; i++) {
			struct server_worker *worker = &server->workers[i];

			if (worker->pid != pid)
				continue;
			server->ended_cpu[worker->kind] += cpu_time_of_usage(&usage);
			send_status(worker, status);
			*worker = server->workers[--server->count];
			break;
		}
	}
}

static void answer_cpu(struct fork_server *server, int socket)
{
	struct sandbox_cpu cpu = {.server = now_ns(CLOCK_PROCESS_CPUTIME_ID)};
	int64_t used;

	/* The clock of a worker that has ended may be gone. */
	reap_workers(server);
	memcpy(cpu.workers, server->ended_cpu, sizeof(cpu.workers));
	for (size_t i = 0; i < server->count; i++) {
		used = cpu_time_of_process(server->workers[i].pid);
		if (used > 0)
			cpu.workers[server->workers[i].kind] += used;
	}
	send_fd(socket, &cpu, sizeof(cpu), -1);
}

/* Returns false when the parent is gone. */
static bool fork_server_handle_request(struct fork_server *server)
{
	int fds[PASSED_FDS_MAX];
	size_t count = PASSED_FDS_MAX, started = server->count;
	enum worker_kind kind;
	ssize_t got = receive_fds(server->control, &kind, sizeof(kind), fds, &count);

	if (got == sizeof(kind) && kind == REQUEST_CPU && count)
		answer_cpu(server, fds[0]);
	else if (got == sizeof(kind))
		fork_server_start_worker(server, kind, fds, count);
	for (size_t i = server->count > started; i < count; i++)
		close(fds[i]);
	return got > 0;
}

static void kill_worker(struct server_worker *worker)
{
	kill(worker->pid, SIGKILL);
	worker->killed = true;
	worker->check_at = INT64_MAX;
}

/*
 * Kills a worker at a limit. The parent gets a signal as its status now, not when the worker is
 * reaped: a worker in the kernel, as on a dead file system, dies late or never.
 */
static void kill_at_limit(struct server_worker *worker, int signal_status)
{
	siginfo_t info = {.si_pid = 0};

	/* It has exited before, with a status of its own. */
	if (!waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid) {
		worker->check_at = INT64_MAX;
		return;
	}
	/* Before its pipes are closed, so that the parent knows why they are. */
	send_status(worker, signal_status);
	kill_worker(worker);
}

static void fork_server_begin_window(struct server_worker *worker, int64_t cpu, int64_t now)
{
	worker->window_end = now + worker->hang_ns;
	worker->window_cpu = cpu + worker->hang_ns / HANG_PART;
}

static void schedule_check(struct server_worker *worker, int64_t cpu, int64_t now)
{
	int64_t left = MAX(worker->cpu_end - MAX(cpu, 0), CHECK_NS);

	worker->check_at = now + MIN(worker->window_end - now, left);
}

/* Handles new limits, or the end of the lifeline. */
static void handle_lifeline(struct server_worker *worker)
{
	int64_t cpu = cpu_time_of_process(worker->pid), now = now_ns(CLOCK_MONOTONIC);
	struct limits limits;
	int fd = -1;
	ssize_t got = receive_fd(worker->lifeline, &limits, sizeof(limits), &fd);

	if (fd >= 0)
		close(fd);
	if (got != sizeof(limits)) {
		kill_worker(worker);
		return;
	}
	worker->cpu_end = cpu < 0 ? INT64_MAX : cpu + limits.cpu_ns;
	worker->hang_ns = limits.hang_ns;
	fork_server_begin_window(worker, cpu, now);
	schedule_check(worker, cpu, now);
}

static void check_limits(struct server_worker *worker, int64_t now)
{
	int64_t cpu;

	if (now < worker->check_at)
		return;
	cpu = cpu_time_of_process(worker->pid);
	if (cpu >= worker->cpu_end) {
		kill_at_limit(worker, SIGXCPU);
		return;
	}
	if (now >= worker->window_end) {
		bool is_late = now - worker->window_end > worker->hang_ns / LATE_PART;

		/* Without a CPU clock, what it has used is unknown. */
		if (!is_late && (cpu < 0 || cpu < worker->window_cpu)) {
			kill_at_limit(worker, SIGALRM);
			return;
		}
		fork_server_begin_window(worker, cpu, now);
	}
	schedule_check(worker, cpu, now);
}

/* Returns the milliseconds until the first worker is to be checked; -1: none is. */
static int until_check(const struct fork_server *server)
{
	int64_t first = INT64_MAX, left;

	for (size_t i = 0; i < server->count; i++)
		first = MIN(first, server->workers[i].check_at);
	if (first == INT64_MAX)
		return -1;
	left = (first - now_ns(CLOCK_MONOTONIC)) / NS_PER_MS + 1;
	return (int)MAX(0, MIN(left, INT_MAX));
}

static void fork_server_serve(struct fork_server *server)
{
	struct pollfd fds[WORKERS_MAX + 2];
	size_t count;
	int64_t now;

	for (;;) {
		count = server->count;
		fds[0] = (struct pollfd){.fd = server->control, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = server->child_signals, .events = POLLIN};
		for (size_t i = 0; i < count; i++) {
			const struct server_worker *worker = &server->workers[i];

			fds[i + 2] = (struct pollfd){
				.fd = worker->killed ? -1 : worker->lifeline,
				.events = POLLIN,
			};
		}
		if (poll(fds, count + 2, until_check(server)) < 0 && errno != EINTR)
			return;
		for (size_t i = 0; i < count; i++) {
			if (fds[i + 2].revents)
				handle_lifeline(&server->workers[i]);
		}
		now = now_ns(CLOCK_MONOTONIC);
		for (size_t i = 0; i < count; i++)
			check_limits(&server->workers[i], now);
		if (fds[1].revents)
			reap_workers(server);
		if (fds[0].revents && !fork_server_handle_request(server))
			return;
	}
}

static void fork_server_run(int control, worker_function *work)
{
	struct fork_server server = {.work = work, .control = control};
	unsigned int missing;

	server.child_signals = prepare_signals();
	replace_standard_files();
	close_other_fds(
		(int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, control, server.child_signals},
		5);
	worker_filters_open(&server.filters);
	limit_memory();
	oom_score_open(&server.oom_score);
	missing = confine_server(&server);
	if (server.child_signals >= 0 && send_fd(control, &missing, sizeof(missing), -1) == 0)
		fork_server_serve(&server);
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
	int ends[2], err;

	*server = (struct sandbox_server){.socket = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't start the sandbox");
	server->pid = child_fork(CHILD_SANDBOX_SERVER);
	if (server->pid == 0)
		fork_server_run(ends[1], work);
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

void sandbox_worker_limit(int lifeline, int64_t cpu_ns, int64_t hang_ns)
{
	const struct limits limits = {cpu_ns, hang_ns};

	/* Where there is no room, limits that the server has not read yet are as new. */
	send(lifeline, &limits, sizeof(limits), MSG_DONTWAIT | MSG_NOSIGNAL);
}

int sandbox_server_cpu(const struct sandbox_server *server, struct sandbox_cpu *cpu)
{
	const enum worker_kind request = REQUEST_CPU;
	struct pollfd answer = {.events = POLLIN};
	struct pollfd room = {.fd = server->socket, .events = POLLOUT};
	int ends[2], fd = -1, err;

	/* A server that is stopped leaves requests in the socket: the next one must not wait for
	 * room. */
	if (poll(&room, 1, 0) != 1)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	err = send_fds(server->socket, &request, sizeof(request), ends + 1, 1);
	close(ends[1]);
	answer.fd = ends[0];
	if (!err && TEMP_FAILURE_RETRY(poll(&answer, 1, CPU_TIMEOUT_MS)) != 1)
		err = -ETIMEDOUT;
	if (!err && receive_fd(ends[0], cpu, sizeof(*cpu), &fd) != sizeof(*cpu))
		err = -EPIPE;
	close(ends[0]);
	return err;
}

static bool is_killed_by(int status, int number)
{
	return status != WORKER_STATUS_UNKNOWN && WIFSIGNALED(status) && WTERMSIG(status) == number;
}

bool sandbox_status_is_cpu_limit(int status)
{
	return is_killed_by(status, SIGXCPU);
}

bool sandbox_status_is_hang(int status)
{
	return is_killed_by(status, SIGALRM);
}

void sandbox_worker_kill(int lifeline)
{
	shutdown(lifeline, SHUT_WR);
}

bool sandbox_worker_exited(int lifeline, int *status)
{
	ssize_t got = recv(lifeline, status, sizeof(*status), MSG_DONTWAIT);

	/* The server has not read a limit that was sent last; what it has sent is still there. */
	if (got < 0 && errno == ECONNRESET)
		got = recv(lifeline, status, sizeof(*status), MSG_DONTWAIT);
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

// SPDX-License-Identifier: GPL-2.0
/* What workers may do. Each test runs as the user of the test; if that is root, also as another. */
#include "unit.h"

#include "sandbox/fork_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "debuginfo/elf_headers.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "patience.h"
#include "sandbox/capabilities.h"
#include "sandbox/worker_call.h"
#include "symbolize/worker.h"

#define OTHER_USER 1000

/* What a worker finds out about itself. */
struct findings {
	int open_error; /* of open("/") */
	int stat_error; /* of a file that exists outside */
	bool has_capabilities;
	int signal_error; /* of a signal to the test */
	int fd_count;
};

static int parent_pid;

static void find_out(const int fds[])
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	struct findings findings = {0};
	struct stat st;

	findings.open_error = open("/", O_RDONLY) < 0 ? errno : 0;
	findings.stat_error = fstatat(AT_FDCWD, "/etc/passwd", &st, 0) ? errno : 0;
	/* The filter forbids to ask: a process without capabilities can't raise any. */
	data[0].effective = data[0].permitted = 1;
	findings.has_capabilities = syscall(SYS_capset, &header, data) == 0;
	findings.signal_error = kill(parent_pid, SIGUSR1) ? errno : 0;
	for (int fd = 0; fd < 64; fd++)
		findings.fd_count += fcntl(fd, F_GETFD) >= 0;
	if (write(fds[1], &findings, sizeof(findings)) != sizeof(findings))
		_exit(2);
}

static void close_pipe_and_live(const int fds[])
{
	close(fds[1]);
	for (;;)
		fstat(fds[0], &(struct stat){0});
}

/* `kind` selects what the worker does. */
static void worker(enum worker_kind kind, const int fds[], size_t count)
{
	(void)count;
	switch (kind) {
	case WORKER_READ_HEADERS:
		find_out(fds);
		break;
	case WORKER_SYMBOLIZE:
		raise(SIGSEGV);
		break;
	case WORKER_DEMANGLE:
	case WORKER_UNWIND_TABLE:
	case WORKER_URGENT_UNWIND_TABLE:
		close_pipe_and_live(fds);
		break;
	case WORKER_UNPACK:
	case WORKER_VERIFY:
	case WORKER_GO_PROGRAM:
		break;
	}
}

/* Runs a test in a process of another user. */
static void as_other_user(void (*test)(void))
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		if (become_user(OTHER_USER))
			_exit(2);
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void as_each_user(void (*test)(void))
{
	test();
	if (!geteuid())
		as_other_user(test);
}

/* In a child process, cmocka's asserts would go on with other tests. */
static void check(bool condition, const char *text)
{
	if (condition)
		return;
	fprintf(stderr, "user %u: not true: %s\n", (unsigned int)geteuid(), text);
	abort();
}
#define CHECK(condition) check(condition, #condition)

/* Reads the IDs and capabilities of the server, which its workers have, too. */
static void check_status(pid_t pid, uid_t own)
{
	char path[64], line[256];
	unsigned int uid[4];
	unsigned long long capabilities;
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Uid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) == 4) {
			for (int i = 0; i < 4; i++)
				CHECK(uid[i] == (own ? own : SANDBOX_UID));
			found++;
		}
		if (!strncmp(line, "Cap", 3)) {
			CHECK(sscanf(line + 7, "%llx", &capabilities) == 1 && !capabilities);
			found++;
		}
		if (!strncmp(line, "NoNewPrivs:", 11))
			found += atoi(line + 11);
	}
	fclose(file);
	CHECK(found == 1 + 5 + 1);
}

static void start(struct sandbox_server *server)
{
	struct error error = {""};

	if (sandbox_server_start(server, worker, &error))
		fprintf(stderr, "%s\n", error.text);
	CHECK(!*error.text);
}

static void worker_has_no_rights(void)
{
	struct sandbox_server server;
	struct findings findings;
	int input = open("/dev/null", O_RDONLY | O_CLOEXEC);

	parent_pid = getpid();
	start(&server);
	CHECK(!server.missing);
	check_status(server.pid, geteuid());
	CHECK(worker_call(&server, WORKER_READ_HEADERS, input, &findings, sizeof(findings), 10000,
			  10000) == sizeof(findings));
	CHECK(findings.open_error == EPERM);
	/* The filter allows fstatat(), for fstat(): only the empty root keeps it from the file. */
	CHECK(findings.stat_error == ENOENT || findings.stat_error == EACCES);
	CHECK(!findings.has_capabilities);
	CHECK(findings.signal_error == EPERM);
#ifdef __SANITIZE_ADDRESS__
	CHECK(findings.fd_count == 3); /* and stderr */
#else
	CHECK(findings.fd_count == 2);
#endif
	close(input);
	sandbox_server_stop(&server);
}

static void test_worker_has_no_rights(void **state)
{
	(void)state;
	as_each_user(worker_has_no_rights);
}

static int wait_for_exit(int lifeline)
{
	struct pollfd polled = {.fd = lifeline, .events = POLLIN};
	int status = 0;

	CHECK(poll(&polled, 1, hang_ms()) == 1);
	CHECK(sandbox_worker_exited(lifeline, &status));
	close(lifeline);
	return status;
}

static void status_is_reported(void)
{
	struct sandbox_server server;
	int ends[2], lifeline, status;
	char byte;

	start(&server);
	CHECK(!pipe2(ends, O_CLOEXEC));
	lifeline = sandbox_worker_start(&server, WORKER_SYMBOLIZE, ends, 2);
	status = wait_for_exit(lifeline);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

	/* It closes its pipe, and lives until it is killed. */
	lifeline = sandbox_worker_start(&server, WORKER_DEMANGLE, ends, 2);
	close(ends[1]);
	CHECK(read(ends[0], &byte, 1) == 0);
	CHECK(!sandbox_worker_exited(lifeline, &status));
	sandbox_worker_kill(lifeline);
	status = wait_for_exit(lifeline);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	/* Without the server, there are no workers. */
	lifeline = sandbox_worker_start(&server, WORKER_DEMANGLE, ends, 1);
	CHECK(lifeline >= 0);
	sandbox_server_stop(&server);
	CHECK(wait_for_exit(lifeline) == WORKER_STATUS_UNKNOWN);
	close(ends[0]);
}

static void test_status_is_reported(void **state)
{
	(void)state;
	as_each_user(status_is_reported);
}

static void check_cpu_is_counted(void)
{
	struct sandbox_server server;
	struct sandbox_cpu live, ended;
	int ends[2], lifeline, status;

	start(&server);
	CHECK(!sandbox_server_cpu(&server, &live));
	CHECK(live.server > 0 && !live.workers[WORKER_DEMANGLE]);
	CHECK(!pipe2(ends, O_CLOEXEC));
	lifeline = sandbox_worker_start(&server, WORKER_DEMANGLE, ends, 2);
	CHECK(lifeline >= 0);
	while (!live.workers[WORKER_DEMANGLE])
		CHECK(!sandbox_server_cpu(&server, &live));
	sandbox_worker_kill(lifeline);
	status = wait_for_exit(lifeline);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK(!sandbox_server_cpu(&server, &ended));
	/* The time of a worker that was reaped is rounded to microseconds. */
	CHECK(ended.workers[WORKER_DEMANGLE] >= live.workers[WORKER_DEMANGLE] - 2000);
	CHECK(ended.workers[WORKER_DEMANGLE] > 0 && ended.server >= live.server);
	for (enum worker_kind kind = 0; kind < WORKER_KINDS; kind++)
		CHECK(kind == WORKER_DEMANGLE || !ended.workers[kind]);
	close(ends[0]);
	close(ends[1]);
	sandbox_server_stop(&server);
	CHECK(sandbox_server_cpu(&server, &ended) < 0);
}

/* Also of workers that have ended. */
static void test_cpu_time_is_counted_by_kind(void **state)
{
	(void)state;
	as_each_user(check_cpu_is_counted);
}

/*
 * Returns the last number of a file of a process: of the children of a server, its worker, as the
 * process that its set-up has left behind may still run. -2000: none.
 */
static int read_number(const char *format, pid_t pid)
{
	char path[64];
	int number = -2000;
	FILE *file;

	snprintf(path, sizeof(path), format, (int)pid, (int)pid);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &number) == 1)
		;
	if (file)
		fclose(file);
	return number;
}

/* Returns the nice value of a worker, the only one of its server. */
static int priority_of(enum worker_kind kind)
{
	struct sandbox_server server;
	int ends[2], lifeline, priority;
	pid_t pid;
	char byte;

	start(&server);
	CHECK(!pipe2(ends, O_CLOEXEC));
	lifeline = sandbox_worker_start(&server, kind, ends, 2);
	close(ends[1]);
	/* It has closed its end: its priority is set. */
	CHECK(read(ends[0], &byte, 1) == 0);
	pid = read_number("/proc/%d/task/%d/children", server.pid);
	CHECK(pid > 0);
	errno = 0;
	priority = getpriority(PRIO_PROCESS, (id_t)pid);
	CHECK(!errno);
	sandbox_worker_kill(lifeline);
	wait_for_exit(lifeline);
	sandbox_server_stop(&server);
	close(ends[0]);
	return priority;
}

static void priorities(void)
{
	int usual = getpriority(PRIO_PROCESS, 0);

	CHECK(priority_of(WORKER_DEMANGLE) == usual);
	CHECK(priority_of(WORKER_UNWIND_TABLE) == 5 || usual > 5);
	/* Samples wait for it. */
	CHECK(priority_of(WORKER_URGENT_UNWIND_TABLE) == usual);
}

static void test_priorities(void **state)
{
	(void)state;
	as_each_user(priorities);
}

/* As in a container without seccomp. */
static void forbid_seccomp(void)
{
	const struct scmp_arg_cmp set_seccomp = {
		.arg = 0, .op = SCMP_CMP_EQ, .datum_a = PR_SET_SECCOMP};
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

	CHECK(filter);
	CHECK(!seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(seccomp), 0));
	CHECK(!seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1,
				      &set_seccomp));
	CHECK(!seccomp_load(filter));
	seccomp_release(filter);
}

static void incomplete_sandbox_is_refused(void)
{
	struct sandbox_options options = {.require = true};
	struct reader_sandbox sandbox = {.started = false};
	char missing[SANDBOX_MISSING_SIZE];
	struct error error;

	forbid_seccomp();
	CHECK(reader_sandbox_start(&sandbox, &options, false, &error) == -EPERM);
	CHECK(strstr(error.text, "--sandbox=require") && strstr(error.text, "no seccomp"));
	reader_sandbox_stop(&sandbox);

	options.require = false;
	CHECK(!reader_sandbox_start(&sandbox, &options, false, &error));
	sandbox_missing_text(sandbox.server.missing, missing);
	CHECK(!strcmp(missing, "no seccomp"));
	reader_sandbox_stop(&sandbox);
}

static void test_incomplete_sandbox_is_refused(void **state)
{
	(void)state;
	/* In a child, as a filter can't be removed. */
	if (geteuid())
		skip();
	as_other_user(incomplete_sandbox_is_refused);
}

/* The second stop closes nothing, not even descriptor 0. */
static void test_server_is_stopped_once(void **state)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct sandbox_server server;
	struct error error;

	(void)state;
	assert_true(null >= 0);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0 || dup2(null, STDIN_FILENO) >= 0);
	close(null);
	assert_int_equal(sandbox_server_start(&server, worker, &error), 0);
	sandbox_server_stop(&server);
	/* A slow machine may need longer than the stop waits. */
	waitpid(server.pid, NULL, 0);
	assert_int_equal(kill(server.pid, 0), -1);
	sandbox_server_stop(&server);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static void test_missing_parts_are_named(void **state)
{
	static const struct {
		unsigned int missing;
		const char *text;
	} cases[] = {
		{0, ""},
		{SANDBOX_NO_USER, "no user of its own"},
		{SANDBOX_NO_EMPTY_ROOT, "no namespaces"},
		{SANDBOX_NO_SECCOMP, "no seccomp"},
		{SANDBOX_HAS_CAPABILITIES, "capabilities"},
		{SANDBOX_NO_CONFINED_HELPER, "debuginfod unconfined"},
		{SANDBOX_NO_EMPTY_ROOT | SANDBOX_NO_SECCOMP, "no namespaces, no seccomp"},
		{SANDBOX_NO_USER | SANDBOX_NO_EMPTY_ROOT | SANDBOX_NO_SECCOMP |
			 SANDBOX_HAS_CAPABILITIES | SANDBOX_NO_CONFINED_HELPER,
		 "no user of its own, no namespaces, no seccomp, capabilities, "
		 "debuginfod unconfined"},
	};
	char text[SANDBOX_MISSING_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sandbox_missing_text(cases[i].missing, text);
		assert_string_equal(text, cases[i].text);
	}
}

/* Limits of the server, and what its workers inherit. */

struct process {
	pid_t pid, parent;
	unsigned long long blocked, ignored, caught; /* signals */
	unsigned int no_new_privs, filters;
};

static struct process read_process(pid_t pid)
{
	struct process process = {.pid = pid};
	char path[64], line[256];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "PPid: %d", &process.parent);
		sscanf(line, "SigBlk: %llx", &process.blocked);
		sscanf(line, "SigIgn: %llx", &process.ignored);
		sscanf(line, "SigCgt: %llx", &process.caught);
		sscanf(line, "NoNewPrivs: %u", &process.no_new_privs);
		sscanf(line, "Seccomp_filters: %u", &process.filters);
	}
	fclose(file);
	return process;
}

#define BIT(number) (1ull << ((number)-1))
/* glibc uses these two, and leaves them as they were before exec. */
#define SIGNALS_OF_GLIBC (BIT(32) | BIT(33))

/* Ctrl-C is for the parent, which decides what becomes of the workers; a crash ends a worker. */
static void test_signals_of_the_terminal_are_for_the_parent(void **state)
{
	static const int terminal[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGUSR1, SIGCHLD};
	static const int others[] = {SIGSEGV, SIGBUS,  SIGFPE,  SIGILL, SIGTRAP,
				     SIGSYS,  SIGABRT, SIGTSTP, SIGCONT};
	/* The test may have filters itself, as in a container. */
	const struct process own = read_process(getpid());
	const int fds[] = {STDIN_FILENO, STDOUT_FILENO};
	struct sandbox_server server;
	struct process process;
	struct pollfd exited;
	struct error error;
	int status;

	(void)state;
	signal(SIGINT, SIG_IGN);
	signal(SIGRTMAX, SIG_IGN);
	assert_int_equal(sandbox_server_start(&server, worker, &error), 0);
	signal(SIGINT, SIG_DFL);
	signal(SIGRTMAX, SIG_DFL);
	process = read_process(server.pid);
	assert_int_equal(process.parent, getpid());
	for (size_t i = 0; i < sizeof(terminal) / sizeof(terminal[0]); i++)
		assert_true(process.blocked & BIT(terminal[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(process.blocked & BIT(others[i]));
	assert_int_equal(process.ignored & ~SIGNALS_OF_GLIBC, 0);
	assert_int_equal(process.caught & ~SIGNALS_OF_GLIBC, 0);
	assert_int_equal(process.filters, own.filters + 1);
	assert_int_equal(kill(server.pid, SIGINT), 0);
	exited = (struct pollfd){
		.fd = sandbox_worker_start(&server, WORKER_VERIFY, fds, 2),
		.events = POLLIN,
	};
	assert_true(exited.fd >= 0);
	assert_int_equal(poll(&exited, 1, -1), 1);
	assert_true(sandbox_worker_exited(exited.fd, &status));
	assert_int_equal(status, 0);
	close(exited.fd);
	sandbox_server_stop(&server);
}

/* Also if another process has inherited the socket. */
static void test_server_ends_with_its_parent(void **state)
{
	struct sandbox_server server;
	int ends[2], status;
	pid_t parent, pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	parent = fork();
	assert_true(parent >= 0);
	if (parent == 0) {
		struct error error;

		if (sandbox_server_start(&server, worker, &error) ||
		    write(ends[1], &server.pid, sizeof(server.pid)) != sizeof(server.pid))
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ends[0], &pid, sizeof(pid)), sizeof(pid));
	kill(parent, SIGKILL);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	/* It is this process's child now. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Workers that are there at the same time. */

/* Reports its start by the first pipe, and waits for the end of the second one. */
static void live_until_killed(enum worker_kind kind, const int fds[], size_t count)
{
	char byte;

	if (count < 2 || write(fds[0], &kind, sizeof(kind)) != sizeof(kind))
		_exit(9);
	while (read(fds[1], &byte, 1))
		;
}

static void test_number_of_workers_is_limited(void **state)
{
	enum { WORKERS = 128 };
	int lifelines[WORKERS], started[2], stop[2], fds[WORKER_FDS_MAX + 1], status, refused;
	struct sandbox_server server;
	enum worker_kind kind;
	struct error error;

	(void)state;
	assert_int_equal(sandbox_server_start(&server, live_until_killed, &error), 0);
	assert_int_equal(pipe2(started, O_CLOEXEC), 0);
	assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
	for (size_t i = 0; i <= WORKER_FDS_MAX; i++)
		fds[i] = i == 1 ? stop[0] : started[1];
	assert_int_equal(sandbox_worker_start(&server, WORKER_UNPACK, fds, WORKER_FDS_MAX + 1),
			 -EINVAL);
	for (size_t i = 0; i < WORKERS; i++) {
		lifelines[i] = sandbox_worker_start(&server, (enum worker_kind)(i % 3), fds,
						    i ? 2 : WORKER_FDS_MAX);
		assert_true(lifelines[i] >= 0);
		assert_int_equal(read(started[0], &kind, sizeof(kind)), sizeof(kind));
		assert_int_equal(kind, i % 3);
	}
	/* One more gets no process. */
	refused = sandbox_worker_start(&server, WORKER_UNPACK, fds, 2);
	assert_true(refused >= 0);
	assert_int_equal(wait_for_exit(refused), WORKER_STATUS_UNKNOWN);
	for (size_t i = 0; i < WORKERS; i++)
		assert_false(sandbox_worker_exited(lifelines[i], &status));
	/* They end one by one: by a kill, by the end of their lifeline, or themselves. */
	for (size_t i = 3; i < WORKERS; i++)
		sandbox_worker_kill(lifelines[i]);
	for (size_t i = 3; i < WORKERS; i++) {
		status = wait_for_exit(lifelines[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	}
	/* Their places are free again. */
	lifelines[3] = sandbox_worker_start(&server, WORKER_UNPACK, fds, 2);
	assert_int_equal(read(started[0], &kind, sizeof(kind)), sizeof(kind));
	close(started[1]);
	close(lifelines[0]);
	close(stop[1]);
	for (size_t i = 1; i <= 3; i++)
		assert_int_equal(wait_for_exit(lifelines[i]), 0);
	assert_int_equal(read(started[0], &kind, sizeof(kind)), 0);
	close(started[0]);
	close(stop[0]);
	sandbox_server_stop(&server);
}

/* Limits */

#define STEP_NS (200 * NS_PER_MS)
#define NO_LIMIT_NS (INT64_MAX / 4)

/* Before a server is started: it can't kill, as a worker that hangs in the kernel does not die. */
static bool kill_is_ignored;
static bool has_no_cpu_clocks;

int kill(pid_t pid, int number)
{
	return kill_is_ignored ? 0 : (int)syscall(SYS_kill, pid, number);
}

int clock_getcpuclockid(pid_t pid, clockid_t *clock)
{
	int (*real)(pid_t pid, clockid_t * clock);

	if (has_no_cpu_clocks)
		return ENOENT;
	*(void **)&real = dlsym(RTLD_NEXT, "clock_getcpuclockid");
	return real(pid, clock);
}

/* Waits for most of the time, for longer than two times of HANG_NS. */
#define HANG_NS (2 * NS_PER_SECOND)

static void compute_with_pauses(void)
{
	const struct timespec pause = {.tv_nsec = 100 * NS_PER_MS};
	int64_t end = now_ns(CLOCK_MONOTONIC) + 2 * HANG_NS + NS_PER_SECOND, pause_end;
	unsigned int word = 0;

	while (now_ns(CLOCK_MONOTONIC) < end) {
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
		pause_end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + 10 * NS_PER_MS;
		while (now_ns(CLOCK_PROCESS_CPUTIME_ID) < pause_end)
			;
	}
}

#define BYTE_WAIT 0
#define BYTE_COMPUTE 1
#define BYTE_COMPUTE_FOREVER 2

/* Computes for STEP_NS of CPU time after a byte of the first pipe, and passes the byte on. */
static void compute_in_steps(enum worker_kind kind, const int fds[], size_t count)
{
	int64_t end;
	char byte;

	if (kind == WORKER_DEMANGLE)
		compute_with_pauses();
	if (kind != WORKER_VERIFY || count != 2)
		return;
	while (read(fds[0], &byte, 1) == 1) {
		end = now_ns(CLOCK_PROCESS_CPUTIME_ID) + STEP_NS;
		while (byte == BYTE_COMPUTE_FOREVER ||
		       (byte && now_ns(CLOCK_PROCESS_CPUTIME_ID) < end))
			;
		if (write(fds[1], &byte, 1) != 1)
			_exit(9);
	}
}

/* Limits a worker, and waits until the server knows of it. */
static void limit_worker(const struct sandbox_server *server, int lifeline, int64_t cpu_ns,
			 int64_t hang_ns)
{
	int fd = STDIN_FILENO;

	sandbox_worker_limit(lifeline, cpu_ns, hang_ns);
	assert_int_equal(wait_for_exit(sandbox_worker_start(server, WORKER_UNPACK, &fd, 1)), 0);
}

static void test_cpu_time_is_limited(void **state)
{
	const struct timespec longer = {.tv_nsec = 2 * STEP_NS};
	int in[2], out[2], lifeline, status;
	struct sandbox_server server;
	struct pollfd polled;
	struct error error;
	char byte = BYTE_WAIT;

	(void)state;
	assert_int_equal(sandbox_server_start(&server, compute_in_steps, &error), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	lifeline = sandbox_worker_start(&server, WORKER_VERIFY, (int[]){in[0], out[1]}, 2);
	close(out[1]);
	/* Time that passes while it waits is no CPU time. */
	limit_worker(&server, lifeline, STEP_NS, NO_LIMIT_NS);
	nanosleep(&longer, NULL);
	assert_int_equal(write(in[1], &byte, 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	/* Each limit begins anew. */
	byte = BYTE_COMPUTE;
	for (size_t i = 0; i < 4; i++) {
		limit_worker(&server, lifeline, 2 * STEP_NS, NO_LIMIT_NS);
		assert_int_equal(write(in[1], &byte, 1), 1);
		assert_int_equal(read(out[0], &byte, 1), 1);
	}
	assert_false(sandbox_worker_exited(lifeline, &status));
	byte = BYTE_COMPUTE_FOREVER;
	assert_int_equal(write(in[1], &byte, 1), 1);
	status = wait_for_exit(lifeline);
	assert_true(sandbox_status_is_cpu_limit(status));
	assert_false(sandbox_status_is_hang(status));
	assert_int_equal(read(out[0], &byte, 1), 0);
	/* A worker exits before the server has read its last limits. */
	for (size_t i = 0; i < 200; i++) {
		lifeline = sandbox_worker_start(&server, WORKER_UNPACK, in, 1);
		polled = (struct pollfd){.fd = lifeline, .events = POLLIN};
		do
			sandbox_worker_limit(lifeline, NO_LIMIT_NS, NO_LIMIT_NS);
		while (!poll(&polled, 1, 0));
		assert_int_equal(wait_for_exit(lifeline), 0);
	}
	/* A worker without a limit, and a worker that crashes, have not used it up. */
	assert_false(sandbox_status_is_cpu_limit(0));
	assert_false(sandbox_status_is_cpu_limit(SIGKILL));
	assert_false(sandbox_status_is_cpu_limit(WORKER_STATUS_UNKNOWN));
	assert_false(sandbox_status_is_hang(WORKER_STATUS_UNKNOWN));
	close(in[0]);
	close(in[1]);
	close(out[0]);
	sandbox_server_stop(&server);
}

/* A worker, which waits for bytes, and its pipes. */
struct steps {
	struct sandbox_server server;
	int in[2], out[2], lifeline;
};

static void start_steps(struct steps *steps)
{
	struct error error;

	assert_int_equal(sandbox_server_start(&steps->server, compute_in_steps, &error), 0);
	assert_int_equal(pipe2(steps->in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(steps->out, O_CLOEXEC), 0);
	steps->lifeline = sandbox_worker_start(&steps->server, WORKER_VERIFY,
					       (int[]){steps->in[0], steps->out[1]}, 2);
	assert_true(steps->lifeline >= 0);
	close(steps->out[1]);
}

static void stop_steps(struct steps *steps)
{
	close(steps->in[0]);
	close(steps->in[1]);
	close(steps->out[0]);
	sandbox_server_stop(&steps->server);
}

static void test_worker_that_hangs_is_killed(void **state)
{
	int64_t begin = now_ns(CLOCK_MONOTONIC);
	struct steps steps;
	int status;

	(void)state;
	start_steps(&steps);
	sandbox_worker_limit(steps.lifeline, NO_LIMIT_NS, STEP_NS);
	status = wait_for_exit(steps.lifeline);
	assert_true(sandbox_status_is_hang(status));
	assert_false(sandbox_status_is_cpu_limit(status));
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= STEP_NS);
	stop_steps(&steps);
}

static void test_slow_worker_does_not_hang(void **state)
{
	struct steps steps;
	int lifeline;

	(void)state;
	start_steps(&steps);
	lifeline = sandbox_worker_start(&steps.server, WORKER_DEMANGLE, steps.in, 1);
	sandbox_worker_limit(lifeline, NO_LIMIT_NS, HANG_NS);
	assert_int_equal(wait_for_exit(lifeline), 0);
	close(steps.lifeline);
	stop_steps(&steps);
}

/* Without progress of the server itself, nothing is known of the worker. */
static void test_stopped_server_finds_no_hang(void **state)
{
	const struct timespec longer = {.tv_sec = 1};
	const int64_t end = now_ns(CLOCK_MONOTONIC) + hang_s() * NS_PER_SECOND;
	struct steps steps;
	int64_t begin;
	int status;

	(void)state;
	for (;;) {
		start_steps(&steps);
		limit_worker(&steps.server, steps.lifeline, NO_LIMIT_NS, STEP_NS);
		assert_int_equal(kill(steps.server.pid, SIGSTOP), 0);
		assert_int_equal(waitpid(steps.server.pid, &status, WUNTRACED), steps.server.pid);
		assert_true(WIFSTOPPED(status));
		if (!sandbox_worker_exited(steps.lifeline, &status))
			break;
		/* This process was late: the server has found the hang before. */
		assert_true(sandbox_status_is_hang(status));
		assert_true(now_ns(CLOCK_MONOTONIC) < end);
		assert_int_equal(kill(steps.server.pid, SIGCONT), 0);
		close(steps.lifeline);
		stop_steps(&steps);
	}
	nanosleep(&longer, NULL);
	begin = now_ns(CLOCK_MONOTONIC);
	assert_int_equal(kill(steps.server.pid, SIGCONT), 0);
	assert_true(sandbox_status_is_hang(wait_for_exit(steps.lifeline)));
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= STEP_NS);
	stop_steps(&steps);
}

/* The status is there although the worker lives; the server goes on when it dies. */
static void test_status_comes_before_a_late_death(void **state)
{
	static const int64_t limits[][2] = {{NO_LIMIT_NS, STEP_NS}, {STEP_NS / 2, NO_LIMIT_NS}};
	struct steps steps;
	char byte = BYTE_COMPUTE;
	int status;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		kill_is_ignored = true;
		start_steps(&steps);
		kill_is_ignored = false;
		/* No part of a step may come before the limit. */
		limit_worker(&steps.server, steps.lifeline, limits[i][0], limits[i][1]);
		/* It hangs, or uses up the time in one step. */
		if (i)
			assert_int_equal(write(steps.in[1], &byte, 1), 1);
		status = wait_for_exit(steps.lifeline);
		assert_true(i ? sandbox_status_is_cpu_limit(status)
			      : sandbox_status_is_hang(status));
		if (!i)
			assert_int_equal(write(steps.in[1], &byte, 1), 1);
		assert_int_equal(read(steps.out[0], &byte, 1), 1);
		/* It exits at the end of its input. */
		close(steps.in[1]);
		assert_int_equal(read(steps.out[0], &byte, 1), 0);
		for (size_t j = 0; j < 3; j++)
			assert_int_equal(wait_for_exit(sandbox_worker_start(
						 &steps.server, WORKER_UNPACK, steps.in, 1)),
					 0);
		close(steps.in[0]);
		close(steps.out[0]);
		sandbox_server_stop(&steps.server);
	}
}

static void test_without_cpu_clock_elapsed_time_is_limited(void **state)
{
	const char byte = BYTE_COMPUTE_FOREVER;
	int64_t begin = now_ns(CLOCK_MONOTONIC);
	struct steps steps;

	(void)state;
	has_no_cpu_clocks = true;
	start_steps(&steps);
	has_no_cpu_clocks = false;
	assert_int_equal(write(steps.in[1], &byte, 1), 1);
	sandbox_worker_limit(steps.lifeline, NS_PER_MS, STEP_NS);
	assert_true(sandbox_status_is_hang(wait_for_exit(steps.lifeline)));
	assert_true(now_ns(CLOCK_MONOTONIC) - begin >= STEP_NS);
	stop_steps(&steps);
}

static char state_of(pid_t pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
	fclose(file);
	return state;
}

static size_t count_fds(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 64; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Without work, it sleeps, and it ends when its parent closes the socket. */
static void test_server_waits_for_requests(void **state)
{
	const size_t before = count_fds();
	struct sandbox_server server;
	struct error error;
	int status;

	(void)state;
	assert_int_equal(sandbox_server_start(&server, worker, &error), 0);
	assert_int_equal(count_fds(), before + 1);
	assert_int_equal(fcntl(server.socket, F_GETFD), FD_CLOEXEC);
	wait_until(state_of(server.pid) == 'S');
	close(server.socket);
	assert_int_equal(waitpid(server.pid, &status, 0), server.pid);
	assert_int_equal(status, 0);
}

/* When memory runs out, the kernel ends a worker, not the server. */
static void test_worker_is_the_first_victim(void **state)
{
	int lifeline, started[2], stop[2];
	struct sandbox_server server;
	enum worker_kind kind;
	struct error error;
	pid_t child;

	(void)state;
	assert_int_equal(sandbox_server_start(&server, live_until_killed, &error), 0);
	assert_int_equal(pipe2(started, O_CLOEXEC), 0);
	assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
	lifeline = sandbox_worker_start(&server, WORKER_UNPACK, (int[]){started[1], stop[0]}, 2);
	assert_true(lifeline >= 0);
	assert_int_equal(read(started[0], &kind, sizeof(kind)), sizeof(kind));
	child = read_number("/proc/%d/task/%d/children", server.pid);
	assert_int_equal(read_number("/proc/%d/oom_score_adj", child), 1000);
	/* The next request is handled after the score of the server is as before. */
	close(lifeline);
	lifeline = sandbox_worker_start(&server, WORKER_UNPACK, (int[]){started[1], stop[0]}, 2);
	assert_int_equal(read(started[0], &kind, sizeof(kind)), sizeof(kind));
	wait_until(read_number("/proc/%d/oom_score_adj", server.pid) != 1000);
	assert_int_equal(read_number("/proc/%d/oom_score_adj", server.pid),
			 read_number("/proc/%d/oom_score_adj", getpid()));
	close(lifeline);
	for (int i = 0; i < 2; i++) {
		close(started[i]);
		close(stop[i]);
	}
	sandbox_server_stop(&server);
}

/* As in a container that forbids to change capabilities. */
static void keep_capabilities(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	struct sandbox_server server;

	CHECK(filter);
	CHECK(!seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(capset), 0));
	CHECK(!seccomp_load(filter));
	seccomp_release(filter);
	start(&server);
	CHECK(server.missing == SANDBOX_HAS_CAPABILITIES);
	sandbox_server_stop(&server);
}

static void test_kept_capabilities_are_reported(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		keep_capabilities();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Root without the right to become another user, as in a container. */
static void keep_user(void)
{
	struct sandbox_server server;

	CHECK(!capabilities_keep(~(CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID))));
	start(&server);
	CHECK(server.missing & SANDBOX_NO_USER);
	CHECK(!(server.missing & (SANDBOX_HAS_CAPABILITIES | SANDBOX_NO_SECCOMP)));
	sandbox_server_stop(&server);
}

static void test_kept_user_is_reported(void **state)
{
	pid_t child;
	int status;

	(void)state;
	if (geteuid())
		skip();
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		keep_user();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* What a worker sends, as in debuginfo/elf_headers.c. */
static struct {
	char problem[128];
	struct elf_headers headers;
} forged;

static void send_forged(enum worker_kind kind, const int fds[], size_t count)
{
	const char *bytes = (const char *)&forged;
	size_t sent = 0;

	(void)kind, (void)count;
	while (sent < sizeof(forged)) {
		ssize_t got = write(fds[1], bytes + sent, sizeof(forged) - sent);

		if (got < 0)
			_exit(1);
		sent += (size_t)got;
	}
}

/* Returns the result for what the worker sends. */
static int read_forged(struct elf_headers *headers, struct error *error)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), err;
	struct sandbox_server server;

	assert_true(null >= 0);
	assert_int_equal(sandbox_server_start(&server, send_forged, error), 0);
	err = worker_read_headers(&server, null, headers, error);
	sandbox_server_stop(&server);
	close(null);
	return err;
}

static void test_forged_headers_are_refused(void **state)
{
	struct elf_headers *headers = calloc(1, sizeof(*headers));
	static const struct {
		char *text;
		size_t size;
	} texts[] = {
		{forged.problem, sizeof(forged.problem)},
		{forged.headers.build_id, sizeof(forged.headers.build_id)},
		{forged.headers.link, sizeof(forged.headers.link)},
		{forged.headers.alt_link, sizeof(forged.headers.alt_link)},
		{forged.headers.alt_build_id, sizeof(forged.headers.alt_build_id)},
	};
	struct error error;

	(void)state;
	strcpy(forged.headers.build_id, "0123");
	strcpy(forged.headers.link, "file.debug");
	forged.headers.segment_count = ELF_HEADERS_SEGMENTS_MAX;
	assert_int_equal(read_forged(headers, &error), 0);
	assert_memory_equal(headers, &forged.headers, sizeof(*headers));
	strcpy(forged.problem, "is broken");
	assert_int_equal(read_forged(headers, &error), -EINVAL);
	assert_string_equal(error.text, "is broken");
	*forged.problem = '\0';
	/* Texts without an end. */
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *last = &texts[i].text[texts[i].size - 1];

		*last = 'a';
		assert_int_equal(read_forged(headers, &error), -EBADMSG);
		*last = '\0';
	}
	forged.headers.segment_count++;
	assert_int_equal(read_forged(headers, &error), -EBADMSG);
	forged.headers.segment_count = 0;
	strcpy(forged.headers.build_id, "../..");
	assert_int_equal(read_forged(headers, &error), -EBADMSG);
	*forged.headers.build_id = '\0';
	*(unsigned char *)&forged.headers.has_dwarf = 2;
	assert_int_equal(read_forged(headers, &error), -EBADMSG);
	*(unsigned char *)&forged.headers.has_dwarf = 1;
	assert_int_equal(read_forged(headers, &error), 0);
	assert_true(headers->has_dwarf);
	free(headers);
}

static void test_headers_are_read(void **state)
{
	struct elf_headers *headers = calloc(1, sizeof(*headers));
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
	    other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct sandbox_server server;
	struct error error;

	(void)state;
	assert_int_equal(sandbox_server_start(&server, worker_main, &error), 0);
	assert_int_equal(worker_read_headers(&server, self, headers, &error), 0);
	assert_true(headers->has_dwarf);
	assert_true(headers->segment_count > 0 && headers->segments[0].size > 0);
	assert_int_equal(worker_read_headers(&server, other, headers, &error), -EINVAL);
	assert_true(*error.text);
	sandbox_server_stop(&server);
	/* A worker that sends something else. */
	assert_int_equal(sandbox_server_start(&server, worker, &error), 0);
	parent_pid = getpid();
	assert_int_equal(worker_read_headers(&server, self, headers, &error), -EBADMSG);
	sandbox_server_stop(&server);
	close(self);
	close(other);
	free(headers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_worker_has_no_rights),
		cmocka_unit_test(test_status_is_reported),
		cmocka_unit_test(test_cpu_time_is_counted_by_kind),
		cmocka_unit_test(test_priorities),
		cmocka_unit_test(test_incomplete_sandbox_is_refused),
		cmocka_unit_test(test_server_is_stopped_once),
		cmocka_unit_test(test_missing_parts_are_named),
		cmocka_unit_test(test_signals_of_the_terminal_are_for_the_parent),
		cmocka_unit_test(test_server_ends_with_its_parent),
		cmocka_unit_test(test_number_of_workers_is_limited),
		cmocka_unit_test(test_cpu_time_is_limited),
		cmocka_unit_test(test_worker_that_hangs_is_killed),
		cmocka_unit_test(test_slow_worker_does_not_hang),
		cmocka_unit_test(test_stopped_server_finds_no_hang),
		cmocka_unit_test(test_status_comes_before_a_late_death),
		cmocka_unit_test(test_without_cpu_clock_elapsed_time_is_limited),
		cmocka_unit_test(test_server_waits_for_requests),
		cmocka_unit_test(test_worker_is_the_first_victim),
		cmocka_unit_test(test_kept_user_is_reported),
		cmocka_unit_test(test_kept_capabilities_are_reported),
		cmocka_unit_test(test_headers_are_read),
		cmocka_unit_test(test_forged_headers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

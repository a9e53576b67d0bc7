// SPDX-License-Identifier: GPL-2.0
/* What workers may do. Each test runs as the user of the test; if that is root, also as another. */
#include "unit.h"

#include "sandbox/fork_server.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "debuginfo/elf_headers.h"
#include "lib/error.h"
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
		close_pipe_and_live(fds);
		break;
	case WORKER_UNPACK:
	case WORKER_UNWIND_TABLE:
	case WORKER_VERIFY:
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
	CHECK(worker_call(&server, WORKER_READ_HEADERS, input, &findings, sizeof(findings),
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

	CHECK(poll(&polled, 1, 20000) == 1);
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
	assert_int_equal(kill(server.pid, 0), -1);
	sandbox_server_stop(&server);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
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
		cmocka_unit_test(test_incomplete_sandbox_is_refused),
		cmocka_unit_test(test_server_is_stopped_once),
		cmocka_unit_test(test_headers_are_read),
		cmocka_unit_test(test_forged_headers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

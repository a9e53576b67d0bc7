// SPDX-License-Identifier: GPL-2.0
/* How openers serve workers one after another. */
#include "symbolize/worker_pool.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "debuginfo/debuginfod_helper.h"
#include "lib/clock.h"
#include "lib/regular_file.h"
#include "lib/string_table.h"
#include "lib/timed_call.h"
#include "patience.h"
#include "sandbox.h"
#include "sandbox/fd_passing.h"
#include "symbolize/job_bytes.h"
#include "symbolize/opener.h"
#include "symbolize/worker.h"

#define JOBS_MAX 16
#define STRING_BYTES 4000u

/* Shared with the workers and the openers. */
static struct {
	pid_t openers[JOBS_MAX]; /* of the jobs that have asked for a file */
	size_t fds[JOBS_MAX]; /* of these openers, then */
	atomic_uint asked; /* jobs that have asked for a file */
	atomic_bool opens_late, may_open; /* of open_late() */
} * shared;

static struct sandbox_server server;
static char problems[JOBS_MAX][256];
static size_t fds_before, fds_max; /* of the pool: before the run, and while workers end */
static unsigned int forks; /* of openers */

/* Of the pool: how often it waits until an opener is idle, and that it kills the one of job 0. */
static unsigned int await_idle;
static bool kill_idle;

/* Replaces libc's function, by which the pool finds out whether an opener is idle. */
ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	ssize_t got;

	if (await_idle) {
		await_idle--;
		assert_int_equal(poll(&poll_fd, 1, hang_ms()), 1);
	}
	got = syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
	if (kill_idle && got == 1) {
		kill(shared->openers[0], SIGKILL);
		poll_fd.events = 0;
		assert_int_equal(poll(&poll_fd, 1, hang_ms()), 1);
	}
	return got;
}

/* Replaces libc's function. */
pid_t fork(void)
{
	pid_t (*real)(void);

	forks++;
	*(void **)&real = dlsym(RTLD_NEXT, "fork");
	return real();
}

static size_t count_fds(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Workers. Paths of jobs name them. */

static uint64_t number; /* `code_start` of the job */

static void send_message(const int fds[], uint32_t type, const void *bytes, size_t size)
{
	const struct worker_message message = {type, (uint32_t)size};

	if (write(fds[WORKER_FD_OUTPUT], &message, sizeof(message)) != sizeof(message) ||
	    write(fds[WORKER_FD_OUTPUT], bytes, size) != (ssize_t)size)
		_exit(1);
}

static void request_binary(const int fds[])
{
	const struct open_request request = {.kind = OPEN_BINARY};
	struct open_response response;

	if (opener_request(fds[WORKER_FD_OPENER], &request, &response) < 0)
		_exit(1);
}

static void ask(const int fds[])
{
	request_binary(fds);
	send_message(fds, WORKER_END, "", 0);
}

/* The opener still has work to do when the worker has ended. */
static void ask_and_leave(const int fds[])
{
	static const struct open_request request = {.kind = OPEN_BINARY};

	if (send_fd(fds[WORKER_FD_OPENER], &request, sizeof(request), -1))
		_exit(1);
	send_message(fds, WORKER_END, "", 0);
}

/* A request that the opener has not begun may be dropped when its worker ends. */
static void ask_and_leave_late(const int fds[])
{
	static const struct open_request request = {.kind = OPEN_BINARY};

	if (send_fd(fds[WORKER_FD_OPENER], &request, sizeof(request), -1))
		_exit(1);
	while (!atomic_load(&shared->opens_late))
		sched_yield();
	send_message(fds, WORKER_END, "", 0);
}

/* Strings that no other worker has sent. */
static void send_strings(const int fds[])
{
	char text[STRING_BYTES + 1];

	for (uint64_t i = 0; i < number; i++) {
		snprintf(text, sizeof(text), "%02000d%02000d", getpid(), (int)i);
		send_message(fds, WORKER_STRING, text, STRING_BYTES);
	}
	send_message(fds, WORKER_END, "", 0);
}

/* They are charged to the owner of the file. */
static void ask_and_send_strings(const int fds[])
{
	request_binary(fds);
	send_strings(fds);
}

/* Lets the opener of the worker before open its file, and gives it time to send the owner. */
static void send_strings_late(const int fds[])
{
	int64_t begin;

	atomic_store(&shared->may_open, true);
	while (atomic_load(&shared->asked) < 2)
		sched_yield();
	begin = now_ns(CLOCK_MONOTONIC);
	while (now_ns(CLOCK_MONOTONIC) - begin < NS_PER_SECOND / 2)
		sched_yield();
	send_strings(fds);
}

static void crash(const int fds[])
{
	(void)fds;
	raise(SIGSEGV);
}

static void hang(const int fds[])
{
	(void)fds;
	for (;;)
		sched_yield();
}

static void violate_the_protocol(const int fds[])
{
	send_message(fds, WORKER_END, "", 0);
	send_message(fds, WORKER_END, "", 0);
}

static void exceed_quota(const int fds[])
{
	number = UINT64_MAX;
	send_strings(fds);
}

static void end_and_hang(const int fds[])
{
	send_message(fds, WORKER_END, "", 0);
	hang(fds);
}

static void (*const failures[])(const int fds[]) = {
	crash, hang, violate_the_protocol, exceed_quota, end_and_hang,
};

static void ask_and_fail(const int fds[])
{
	request_binary(fds);
	failures[number](fds);
}

static const struct {
	const char *path;
	void (*function)(const int fds[]);
} workers[] = {
	{"ask", ask},
	{"ask and leave", ask_and_leave},
	{"ask and leave late", ask_and_leave_late},
	{"ask and fail", ask_and_fail},
	{"ask and send strings", ask_and_send_strings},
	{"strings", send_strings},
	{"late strings", send_strings_late},
};

static void worker_of_test(enum worker_kind kind, const int fds[], size_t count)
{
	struct received_job received;

	(void)kind, (void)count;
	if (job_bytes_read(fds[WORKER_FD_JOB], &received))
		return;
	number = received.job.code_start;
	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		if (!strcmp(received.job.path, workers[i].path))
			workers[i].function(fds);
	}
	job_bytes_free(&received);
}

/* Openers. `arg` is the index of the job. */

static const size_t indices[JOBS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static int open_file(void *arg, unsigned int candidate, struct error *error)
{
	const size_t job = *(const size_t *)arg;

	(void)candidate, (void)error;
	shared->openers[job] = getpid();
	shared->fds[job] = count_fds();
	atomic_fetch_add(&shared->asked, 1);
	return open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);
}

/* As on a dead file system. */
static int hang_in_open(void *arg, unsigned int candidate, struct error *error)
{
	close(open_file(arg, candidate, error));
	for (;;)
		pause();
	return -EIO;
}

static int open_late(void *arg, unsigned int candidate, struct error *error)
{
	atomic_store(&shared->opens_late, true);
	while (!atomic_load(&shared->may_open))
		sched_yield();
	return open_file(arg, candidate, error);
}

static int open_with_another(void *arg, unsigned int candidate, struct error *error)
{
	int fd = open_file(arg, candidate, error);

	while (atomic_load(&shared->asked) < 2)
		sched_yield();
	return fd;
}

static void block(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

static void never_drop(void *arg)
{
	(void)arg;
}

static int block_a_call(void *arg, unsigned int candidate, struct error *error)
{
	int err;

	limits_pass = true;
	err = timed_call(block, never_drop, NULL, NS_PER_MS);
	limits_pass = false;
	if (err != -ETIMEDOUT)
		return -EIO;
	return open_file(arg, candidate, error);
}

/* The pool */

static const uint64_t address = 0x1000;
static const struct worker_job *current_jobs;

static void store_problem(void *arg, const char *path, const char *text)
{
	size_t job = 0;

	(void)arg;
	while (current_jobs[job].path != path)
		job++;
	snprintf(problems[job], sizeof(problems[job]), "%s", text);
}

static int ignore_lines(void *arg, size_t job, size_t index, const struct source_line *lines,
			size_t count)
{
	(void)arg, (void)job, (void)index, (void)lines, (void)count;
	return 0;
}

static void note_fds(void *arg, size_t job, size_t index, bool found, bool opened,
		     const struct address_range *same)
{
	(void)arg, (void)job, (void)index, (void)found, (void)opened, (void)same;
	if (count_fds() > fds_max)
		fds_max = count_fds();
}

static struct worker_job job_of(const char *path, size_t index)
{
	return (struct worker_job){
		.path = path,
		.build_id = "",
		.addresses = &address,
		.count = 1,
		.open = open_file,
		.arg = (void *)&indices[index],
	};
}

/*
 * As in patience.c, and for killed processes, which are given up after 200 ms: on a busy machine,
 * they may end later.
 */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec time;

	if (count == 1 && timeout >= 200)
		timeout = limits_pass && timeout > 200 ? 0 : timeout + hang_ms();
	time = (struct timespec){timeout / 1000, timeout % 1000 * 1000000};
	return ppoll(fds, count, timeout < 0 ? NULL : &time, NULL);
}

/* No run leaves a descriptor or an opener. */
static void run_pool(struct worker_pool *pool, const struct worker_job *jobs, size_t count)
{
	struct string_table strings = {0};

	memset(problems, 0, sizeof(problems));
	memset(shared, 0, sizeof(*shared));
	current_jobs = jobs;
	forks = 0;
	fds_before = fds_max = count_fds();
	pool->options.sandbox = &server;
	pool->options.problem = store_problem;
	pool->lines = ignore_lines;
	pool->ended = note_fds;
	assert_int_equal(worker_pool_run(pool, jobs, count, &strings), 0);
	string_table_clear(&strings);
	assert_int_equal(count_fds(), fds_before);
	for (size_t i = 0; i < JOBS_MAX; i++)
		assert_true(!shared->openers[i] || kill(shared->openers[i], 0));
}

/* All see the same descriptors: the pool's, the control socket, and the worker's. */
static void opener_serves_successive_workers(void **state)
{
	struct worker_pool pool = {.processes = 1};
	struct worker_job jobs[JOBS_MAX];
	struct debuginfod_helper helper;

	(void)state;
	for (size_t i = 0; i < JOBS_MAX; i++)
		jobs[i] = job_of("ask", i);
	assert_int_equal(debuginfod_helper_start(&helper, NULL), 0);
	pool.options.debuginfod = &helper;
	await_idle = UINT_MAX;
	run_pool(&pool, jobs, JOBS_MAX);
	await_idle = 0;
	debuginfod_helper_stop(&helper);
	assert_int_equal(forks, 1);
	for (size_t i = 0; i < JOBS_MAX; i++) {
		assert_int_equal(shared->openers[i], shared->openers[0]);
		assert_int_equal(shared->fds[i], fds_before + 2);
		assert_string_equal(problems[i], "");
	}
}

/* An opener may outlive the workers and openers that were there when it was forked. */
static void opener_has_nothing_of_others(void **state)
{
	struct worker_pool pool = {.processes = 2};
	struct worker_job jobs[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		jobs[i] = job_of("ask", i);
		jobs[i].open = open_with_another;
	}
	run_pool(&pool, jobs, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(problems[i], "");
		assert_int_equal(shared->fds[i], fds_before + 2);
	}
}

/* Those that hang are given up, and are never more than two for each process. */
static void opener_that_hangs_delays_no_other_worker(void **state)
{
	const unsigned int late_s = 2 * (unsigned int)hang_s();
	struct worker_pool pool = {.processes = 1, .timeout_s = late_s, .deadline_s = late_s};
	struct worker_job jobs[JOBS_MAX];
	int64_t begin = now_ns(CLOCK_MONOTONIC);

	(void)state;
	for (size_t i = 0; i < JOBS_MAX; i++) {
		jobs[i] = job_of(i < JOBS_MAX - 1 ? "ask and leave" : "ask", i);
		jobs[i].open = i < JOBS_MAX - 1 ? hang_in_open : open_file;
	}
	run_pool(&pool, jobs, JOBS_MAX);
	/* An opener that delays another worker does so for twice this time. */
	assert_true(now_ns(CLOCK_MONOTONIC) - begin < hang_s() * NS_PER_SECOND);
	assert_int_equal(forks, JOBS_MAX);
	for (size_t i = 0; i < JOBS_MAX; i++)
		assert_string_equal(problems[i], "");
	/* In addition, the pipe and the lifeline of the worker. */
	assert_int_equal(fds_max, fds_before + 2 + 2);
}

static void opener_of_a_worker_that_failed_serves_no_other(void **state)
{
	enum { FAILURES = sizeof(failures) / sizeof(failures[0]) };
	struct worker_pool pool = {.processes = 1, .cpu_s = 1};
	struct worker_job jobs[2 * FAILURES];

	(void)state;
	for (size_t i = 0; i < 2 * FAILURES; i++) {
		jobs[i] = job_of(i % 2 ? "ask" : "ask and fail", i);
		jobs[i].code_start = i / 2;
	}
	await_idle = UINT_MAX;
	run_pool(&pool, jobs, 2 * FAILURES);
	await_idle = 0;
	for (size_t i = 0; i < 2 * FAILURES; i += 2) {
		assert_int_not_equal(shared->openers[i + 1], 0);
		assert_int_not_equal(shared->openers[i], shared->openers[i + 1]);
		if (i)
			assert_int_equal(shared->openers[i], shared->openers[i - 1]);
	}
	assert_int_equal(forks, FAILURES + 1);
}

static void opener_that_has_died_is_replaced(void **state)
{
	struct worker_pool pool = {.processes = 1};
	struct worker_job jobs[] = {job_of("ask", 0), job_of("ask", 1)};

	(void)state;
	await_idle = UINT_MAX;
	kill_idle = true;
	run_pool(&pool, jobs, 2);
	await_idle = 0;
	kill_idle = false;
	assert_string_equal(problems[0], "");
	assert_string_equal(problems[1], "");
	assert_int_equal(forks, 2);
	assert_int_not_equal(shared->openers[0], shared->openers[1]);
}

/* Too many blocked calls of one job would make the opener refuse the files of others. */
static void opener_with_a_blocked_call_is_replaced(void **state)
{
	struct worker_pool pool = {.processes = 1};
	struct worker_job jobs[] = {job_of("ask", 0), job_of("ask", 1)};

	(void)state;
	jobs[0].open = block_a_call;
	await_idle = UINT_MAX;
	run_pool(&pool, jobs, 2);
	await_idle = 0;
	assert_string_equal(problems[0], "");
	assert_string_equal(problems[1], "");
	assert_int_equal(forks, 2);
	assert_int_not_equal(shared->openers[0], shared->openers[1]);
}

/* Strings of an unknown owner are not charged to the owner of the job before. */
static void owner_of_a_job_is_not_that_of_the_next(void **state)
{
	struct worker_pool pool = {.processes = 1, .output_bytes = 32 * STRING_BYTES};
	struct worker_job jobs[] = {job_of("ask and send strings", 0), job_of("strings", 1)};

	(void)state;
	jobs[0].code_start = 30;
	jobs[0].has_owner = true;
	jobs[0].owner = 1001;
	jobs[1].code_start = 15;
	await_idle = UINT_MAX;
	run_pool(&pool, jobs, 2);
	await_idle = 0;
	assert_int_equal(forks, 1);
	assert_string_equal(problems[0], "");
	assert_string_equal(problems[1], "");
}

/* The second job has a file of the first one's owner, which is opened while the third job runs. */
static void opener_that_is_still_busy_does_not_change_the_next_owner(void **state)
{
	struct worker_pool pool = {.processes = 1, .output_bytes = 32 * STRING_BYTES};
	struct worker_job jobs[] = {job_of("ask and send strings", 0),
				    job_of("ask and leave late", 1), job_of("late strings", 2)};
	struct file_owner owner;
	int fd = open(in_sandbox("file"), O_RDONLY | O_CLOEXEC);

	(void)state;
	file_owner_read(&owner, fd);
	close(fd);
	jobs[0].code_start = 30;
	jobs[0].has_owner = true;
	jobs[0].owner = owner.uid;
	jobs[1].open = open_late;
	jobs[2].code_start = 15;
	/* Otherwise there may be two busy openers for the third worker, which are killed. */
	await_idle = 1;
	run_pool(&pool, jobs, 3);
	assert_int_equal(atomic_load(&shared->asked), 2);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(problems[i], "");
}

static int start_server(void **state)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || make_sandbox(state))
		return -1;
	write_text(in_sandbox("file"), "");
	return sandbox_server_start(&server, worker_of_test, NULL);
}

static int stop_server(void **state)
{
	sandbox_server_stop(&server);
	return remove_sandbox(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opener_serves_successive_workers),
		cmocka_unit_test(opener_has_nothing_of_others),
		cmocka_unit_test(opener_that_hangs_delays_no_other_worker),
		cmocka_unit_test(opener_of_a_worker_that_failed_serves_no_other),
		cmocka_unit_test(opener_that_has_died_is_replaced),
		cmocka_unit_test(opener_with_a_blocked_call_is_replaced),
		cmocka_unit_test(owner_of_a_job_is_not_that_of_the_next),
		cmocka_unit_test(opener_that_is_still_busy_does_not_change_the_next_owner),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}

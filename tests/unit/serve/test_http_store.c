// SPDX-License-Identifier: GPL-2.0
/*
 * When the HTTP server stores slices, what it makes of the results, and its time-outs. The clocks,
 * the jobs, the store and the sampler are this test.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "http_server.h"
#include "lib/error.h"
#include "sampler_stub.h"
#include "sandbox.h"
#include "serve/access.h"
#include "serve/answer.h"
#include "serve/http.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"

#define SECOND INT64_C(1000000000)
#define SAMPLER_TIMEOUT (150 * SECOND)
#define MARGIN 50000000 /* of a window */
#define MONOTONIC (1000 * SECOND)
#define REAL (1700000040 * SECOND) /* a full minute */
#define FAKE_PID 1
#define QUERIES_MAX 56 /* for profiles, at a Unix socket */
#define JOBS_MAX 6
#define TRIES 10000 /* of requests, until the server has seen that others have gone */
#define SLICE_BYTES_MAX ((off_t)64 << 20)

/* Shared with the server. */
static volatile struct shared {
	int64_t monotonic, real; /* ns */
	bool has_no_job; /* no process can be created */
	bool job_runs; /* until this is false, or it is killed */
	unsigned int jobs; /* that were started */
	unsigned int kills;
	struct job_result result; /* of jobs */
	bool is_full; /* the socket to the sampler, for ASK_STORED */
	unsigned int refused; /* ASK_STORED meanwhile */
	int rest_err; /* of store_slices() without a job */
	unsigned int calls; /* of store_slices() */
	size_t damaged; /* windows that the last one knew */
	bool again, is_window; /* the first slice */
	size_t slices;
	int64_t first_ns, last_ns; /* the starts of the slices */
	char message[256];
} * shared;

static const struct access access_data;
static struct http_config config;
static pid_t server;
static char response[65536];

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = clock == CLOCK_REALTIME ? shared->real : shared->monotonic;

	*time = (struct timespec){ns / SECOND, ns % SECOND};
	return 0;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
	if (shared && shared->is_full && size == sizeof(struct ask) &&
	    ((const struct ask *)data)->type == ASK_STORED) {
		shared->refused++;
		errno = EAGAIN;
		return -1;
	}
	return sendto(fd, data, size, flags, NULL, 0);
}

int child_prepare(struct child *job, enum child_role role, size_t size)
{
	*job = (struct child){.role = role, .file = -1};
	if (shared->has_no_job)
		return -ENOMEM;
	job->file = memfd_create("answer", MFD_CLOEXEC);
	job->result = calloc(1, size);
	if (size != sizeof(shared->result))
		abort();
	return 0;
}

int child_start(struct child *job, child_function *work, void *arg)
{
	struct error error;

	if (job->role != CHILD_JOB)
		abort();
	job->pid = FAKE_PID;
	shared->jobs++;
	work(arg, job, &error);
	return 0;
}

bool child_has_ended(struct child *job, bool waits)
{
	if (waits)
		abort();
	if (shared->job_runs && job->pid)
		return false;
	memcpy(job->result, (void *)&shared->result, sizeof(shared->result));
	return true;
}

void child_note_secrets(bool has_secrets)
{
	(void)has_secrets;
}

void child_stop(struct child *job)
{
	assert_int_equal(job->pid, FAKE_PID);
	job->pid = 0;
	shared->kills++;
}

void child_release(struct child *job)
{
	if (job->file >= 0)
		close(job->file);
	free(job->result);
	*job = (struct child){.file = -1};
}

int store_slices(const struct store_config *store, const struct slice_file *slices, size_t count,
		 bool again, struct store_result *result, struct error *error)
{
	(void)result;
	shared->damaged = store->damaged->count;
	shared->calls++;
	shared->again = again;
	shared->slices = count;
	shared->is_window = count && slices[0].is_window;
	shared->first_ns = count ? slices[0].start_ns : 0;
	shared->last_ns = count ? slices[count - 1].start_ns : 0;
	return shared->rest_err ? error_set(error, -shared->rest_err, "the rest is lost") : 0;
}

int answer_slices(const struct slice_file *slices, size_t count, const struct request *request,
		  int out, struct error *error)
{
	(void)slices;
	(void)request;
	(void)error;
	return dprintf(out, "slices: %zu\n", count) < 0 ? -EIO : 0;
}

int answer_range(const char *store, const struct request *request, int out, struct error *error)
{
	(void)store;
	(void)request;
	(void)out;
	return error_set(error, EIO, "unused");
}

int answer_windows(const char *store, const struct request *request, int out, struct error *error)
{
	return answer_range(store, request, out, error);
}

int answer_services(const char *store, const struct request *request, int out, struct error *error)
{
	return answer_range(store, request, out, error);
}

int answer_timeline(const char *store, const struct request *request, int out, struct error *error)
{
	return answer_range(store, request, out, error);
}

int answer_annotation(const char *store, const struct request *request,
		      const struct annotation_server *reader, int out, struct error *error)
{
	(void)reader;
	return answer_range(store, request, out, error);
}

int answer_targets(const char *store, const struct request *request, const char *host, int out,
		   struct error *error)
{
	(void)host;
	return answer_range(store, request, out, error);
}

static void keep_message(const char *text)
{
	snprintf((char *)shared->message, sizeof(shared->message), "%s", text);
}

static int set_up(void **state)
{
	if (microhttpd_load(NULL) || make_sandbox(state))
		return -1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return -1;
	shared->monotonic = MONOTONIC;
	shared->real = REAL + 20 * SECOND;
	shared->result.child.done = true;
	config = (struct http_config){
		.statm = -1,
		.access = &access_data,
		.store = {.window_s = 60},
		.rate = 19,
		.cmdline = "stackbeat",
		.cmdline_size = 9,
		.message = keep_message,
	};
	return 0;
}

static int tear_down(void **state)
{
	if (sampler >= 0)
		close(sampler);
	sampler = -1;
	if (server) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	server = 0;
	munmap((void *)shared, sizeof(*shared));
	return remove_sandbox(state);
}

static int send_request(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_timeout(fd);
	strcpy(address.sun_path, in_sandbox("http"));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(dprintf(fd, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path) > 0);
	return fd;
}

/* Returns the status. */
static int read_response(int fd)
{
	size_t size = 0;
	int status = 0;
	ssize_t got;

	while ((got = read(fd, response + size, sizeof(response) - 1 - size)) > 0)
		size += (size_t)got;
	assert_int_equal(got, 0);
	close(fd);
	response[size] = '\0';
	assert_int_equal(sscanf(response, "HTTP/1.1 %d ", &status), 1);
	return status;
}

/* Waits until the server has gone through its loop. */
static void turn(void)
{
	for (int i = 0; i < 2; i++)
		assert_int_equal(read_response(send_request("/debug/pprof/symbol")), 200);
}

static void start(bool with_store)
{
	int ends[2], fd = listen_on(in_sandbox("http"));

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	config.listeners[0].socket = fd;
	config.listener_count = 1;
	config.socket = ends[1];
	config.store.path = with_store ? sandbox : NULL;
	server = fork();
	assert_true(server >= 0);
	if (!server) {
		close(ends[0]);
		serve_and_exit(&config);
	}
	close(ends[1]);
	close(fd);
	sampler = ends[0];
	set_timeout(sampler);
	if (config.restarts)
		expect_ask(ASK_BEGIN);
	reply(&(struct reply){.type = REPLY_READY, .id = config.restarts << 24}, -1);
	/* It has read the clocks before they are set. */
	turn();
}

static void set_time(int64_t monotonic)
{
	shared->monotonic = monotonic;
	turn();
}

static void expect_no_ask(void)
{
	struct ask ask;

	turn();
	assert_int_equal(recv(sampler, &ask, sizeof(ask), MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void expect_metric(const char *name, unsigned long long wanted)
{
	int fd = send_request("/metrics");
	char line[128];

	reply(&(struct reply){.type = REPLY_COUNTERS, .id = expect_ask(ASK_COUNTERS).id}, -1);
	assert_int_equal(read_response(fd), 200);
	snprintf(line, sizeof(line), "\nstackbeat_%s %llu\n", name, wanted);
	if (!strstr(response, line))
		fail_msg("there is no%s%s", line, response);
}

/* Slice N starts at N ns, and has a file of `size` bytes. */
static void send_slice(uint32_t number, off_t size)
{
	int file = memfd_create("slice", MFD_CLOEXEC);

	assert_int_equal(ftruncate(file, size), 0);
	reply(
		&(struct reply){
			.type = REPLY_SLICE, .slice = number, .start_ns = number, .samples = 1},
		file);
}

/* Ends the window, whose last slice this is: the server starts the job. */
static void end_window(uint32_t last)
{
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = last}, -1);
}

/* Ends the server with the sampler. */
static void end(void)
{
	int status;

	close(sampler);
	sampler = -1;
	assert_int_equal(waitpid(server, &status, 0), server);
	server = 0;
	assert_int_equal(status, 0);
}

static void expect_stored(int64_t first, int64_t last)
{
	assert_int_equal(shared->slices, last - first + 1);
	assert_true(shared->first_ns == first);
	assert_true(shared->last_ns == last);
}

/* Windows */

static void windows_end_after_a_full_minute(void **state)
{
	int64_t until = MONOTONIC + 40 * SECOND + MARGIN;

	(void)state;
	start(true);
	set_time(until - 1);
	expect_no_ask();
	set_time(until);
	/* The clock was set meanwhile. */
	shared->real = REAL + 59 * SECOND;
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = 1}, -1);
	send_slice(1, 1);
	assert_int_equal(expect_ask(ASK_STORED).slice, 1);
	until += SECOND + MARGIN;
	set_time(until - 1);
	expect_no_ask();
	/* At a full minute, it is the next one. */
	shared->real = REAL + 60 * SECOND;
	set_time(until);
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = 2}, -1);
	send_slice(2, 1);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	until += 60 * SECOND + MARGIN;
	set_time(until - 1);
	expect_no_ask();
	set_time(until);
	expect_ask(ASK_CUT);
	end();
}

static void send_slice_of(uint32_t number, int64_t start_ns, int64_t duration_ns)
{
	reply(
		&(struct reply){
			.type = REPLY_SLICE,
			.slice = number,
			.start_ns = start_ns,
			.duration_ns = duration_ns,
			.samples = 1,
		},
		memfd_create("slice", MFD_CLOEXEC));
}

/* Slices of a request, of other times than those that follow, are windows of their own. */
static void steps_of_the_clock_end_windows(void **state)
{
	(void)state;
	start(true);
	send_slice_of(1, REAL, 10 * SECOND);
	send_slice_of(2, REAL + 10 * SECOND, 10 * SECOND);
	send_slice_of(3, REAL + 3620 * SECOND, 10 * SECOND);
	send_slice_of(4, REAL - 70 * SECOND, 10 * SECOND);
	end_window(4);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	assert_int_equal(expect_ask(ASK_STORED).slice, 3);
	assert_int_equal(expect_ask(ASK_STORED).slice, 4);
	assert_int_equal(shared->calls, 3);
	assert_int_equal(shared->slices, 1);
	assert_true(shared->first_ns == REAL - 70 * SECOND);
	/* A store that fails in between gets the rest with the next window. */
	send_slice_of(5, REAL - 60 * SECOND, 10 * SECOND);
	send_slice_of(6, REAL, 10 * SECOND);
	shared->result.child.err = -EIO;
	end_window(6);
	expect_no_ask();
	shared->result.child.err = 0;
	end_window(6);
	assert_int_equal(expect_ask(ASK_STORED).slice, 5);
	assert_int_equal(expect_ask(ASK_STORED).slice, 6);
	/* The rest as well. */
	send_slice_of(7, REAL + 10 * SECOND, SECOND);
	send_slice_of(8, REAL + 20 * SECOND, SECOND);
	reply(&(struct reply){.type = REPLY_END}, -1);
	end();
	assert_int_equal(shared->calls, 8);
	assert_int_equal(shared->slices, 1);
	assert_true(shared->first_ns == REAL + 20 * SECOND);
	assert_string_equal((char *)shared->message, "store: ");
}

static uint32_t answer_cut(uint32_t slice)
{
	const struct ask ask = expect_ask(ASK_CUT);

	reply(&(struct reply){.type = REPLY_CUT, .id = ask.id, .slice = slice}, -1);
	turn();
	return ask.for_store;
}

/* Slices for the store alone are not for requests: each that has begun needs all labels. */
static void slices_of_requests_are_not_for_the_store(void **state)
{
	int fd, other;

	(void)state;
	start(true);
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	assert_true(answer_cut(1));
	send_slice(1, 1);
	expect_ask(ASK_STORED);
	/* The slice before a request is not for it. */
	fd = send_request("/debug/pprof/profile?seconds=100");
	assert_true(answer_cut(2));
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	assert_false(answer_cut(3));
	send_slice(2, 1);
	send_slice(3, 1);
	expect_ask(ASK_STORED);
	/* But it is for another one. */
	other = send_request("/debug/pprof/profile?seconds=200");
	assert_false(answer_cut(4));
	set_time(shared->monotonic + 40 * SECOND);
	assert_false(answer_cut(5));
	close(fd);
	close(other);
	end();
}

static void forms_of_slices_are_those_of_the_sampler(void **state)
{
	(void)state;
	start(true);
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	answer_cut(1);
	reply(&(struct reply){.type = REPLY_SLICE, .slice = 1, .is_window = true}, -1);
	expect_ask(ASK_STORED);
	assert_true(shared->is_window);
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	answer_cut(2);
	send_slice(2, 1);
	expect_ask(ASK_STORED);
	assert_false(shared->is_window);
	end();
}

/* Each job is another process. */
static void jobs_know_damaged_windows(void **state)
{
	(void)state;
	start(true);
	shared->result.store.damaged.count = 2;
	send_slice(1, 1);
	end_window(1);
	expect_ask(ASK_STORED);
	assert_int_equal(shared->damaged, 0);
	send_slice(2, 1);
	end_window(2);
	expect_ask(ASK_STORED);
	assert_int_equal(shared->damaged, 2);
	/* A job that does not come to its end says nothing. */
	shared->result.store.damaged.count = 0;
	shared->result.child.done = false;
	shared->result.store.counts.written = 0;
	send_slice(3, 1);
	end_window(3);
	turn();
	assert_int_equal(shared->damaged, 2);
	/* But for the merge in which it was killed. */
	shared->result.store.damaged.count = 3;
	shared->result.store.damaged.merging.seconds = 600;
	end_window(3);
	turn();
	shared->result.child.done = true;
	end_window(3);
	turn();
	assert_int_equal(shared->damaged, 3);
	end();
}

static void counts_are_sums(void **state)
{
	(void)state;
	start(true);
	shared->result.store.counts =
		(struct store_counts){1, 20, 300, 4000, 50000, 600000, 7000000};
	shared->result.store.windows = 8;
	shared->result.store.window_bytes = 9;
	shared->result.store.newest_us = 1000000;
	send_slice(1, 1);
	end_window(1);
	expect_ask(ASK_STORED);
	shared->result.store.counts =
		(struct store_counts){2, 30, 400, 5000, 60000, 700000, 8000000};
	shared->result.store.windows = 6;
	shared->result.store.window_bytes = 5;
	shared->result.store.newest_us = 2000000;
	send_slice(2, 1);
	end_window(2);
	expect_ask(ASK_STORED);
	/* A window that does not come to its end has no counts. */
	shared->result.child.done = false;
	shared->result.store.windows = 4;
	shared->result.store.newest_us = 3000000;
	shared->result.store.counts.written = 0;
	send_slice(3, 1);
	end_window(3);
	turn();
	expect_metric("windows_written_total", 3);
	expect_metric("windows_merged_total", 50);
	expect_metric("windows_removed_total{reason=\"age\"}", 700);
	expect_metric("windows_removed_total{reason=\"size\"}", 9000);
	expect_metric("windows_removed_total{reason=\"full disk\"}", 110000);
	expect_metric("windows_dropped_total", 1300000);
	expect_metric("windows_unreadable_total", 15000000);
	expect_metric("windows", 6);
	expect_metric("window_bytes", 5);
	expect_metric("newest_window_timestamp_seconds", 2);
	expect_metric("slices_dropped_total", 0);
	assert_string_equal((char *)shared->message,
			    "store: the answer takes too much memory or too much time");
	end();
}

/* The slices are stored with the slices of the next window. */
static void store_without_process_gets_the_slices_again(void **state)
{
	(void)state;
	start(true);
	shared->has_no_job = true;
	send_slice(1, 1);
	end_window(1);
	expect_no_ask();
	assert_string_equal((char *)shared->message, "store: no process can be created");
	assert_int_equal(shared->calls, 0);
	shared->has_no_job = false;
	send_slice(2, 1);
	end_window(2);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	expect_stored(1, 2);
	end();
	assert_int_equal(shared->calls, 1);
}

static void failing_store_gets_the_slices_again(void **state)
{
	(void)state;
	start(true);
	shared->result.child.err = -ENOSPC;
	strcpy((char *)shared->result.child.error, "the disk is full");
	send_slice(1, 1);
	end_window(1);
	expect_no_ask();
	assert_string_equal((char *)shared->message, "store: the disk is full");
	send_slice(2, 1);
	/* The window is there, and only the merging failed. */
	shared->result.store.counts.written = 1;
	strcpy((char *)shared->result.child.error, "no merge");
	end_window(2);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	assert_string_equal((char *)shared->message, "store: no merge");
	expect_stored(1, 2);
	shared->message[0] = '\0';
	shared->result.child.err = 0;
	send_slice(3, 1);
	end_window(3);
	assert_int_equal(expect_ask(ASK_STORED).slice, 3);
	expect_stored(3, 3);
	assert_string_equal((char *)shared->message, "");
	end();
}

/* A job that is killed says what it had done. */
static void window_of_a_killed_job_is_stored_once(void **state)
{
	(void)state;
	start(true);
	shared->result.child.done = false;
	shared->result.store.counts = (struct store_counts){.written = 1, .merged = 10};
	send_slice(1, 1);
	end_window(1);
	assert_int_equal(expect_ask(ASK_STORED).slice, 1);
	expect_metric("windows_written_total", 1);
	expect_metric("windows_merged_total", 10);
	expect_metric("jobs_killed_total{kind=\"store\"}", 1);
	/* Before it could say so, the window may be there. */
	shared->result.store.counts = (struct store_counts){0};
	send_slice(2, 1);
	end_window(2);
	expect_no_ask();
	assert_false(shared->again);
	shared->result.child.done = true;
	send_slice(3, 1);
	end_window(3);
	assert_int_equal(expect_ask(ASK_STORED).slice, 3);
	expect_stored(2, 3);
	assert_true(shared->again);
	send_slice(4, 1);
	end_window(4);
	expect_ask(ASK_STORED);
	assert_false(shared->again);
	expect_metric("jobs_killed_total{kind=\"store\"}", 2);
	expect_metric("jobs_killed_total{kind=\"query\"}", 0);
	shared->result.child.done = false;
	assert_int_equal(read_response(send_request("/api/windows")), 500);
	expect_metric("jobs_killed_total{kind=\"query\"}", 1);
	expect_metric("jobs_killed_total{kind=\"store\"}", 2);
	shared->result.child.done = true;
	end();
}

static void waiting_slices_are_limited(void **state)
{
	(void)state;
	start(true);
	shared->has_no_job = true;
	send_slice(1, SLICE_BYTES_MAX - 1);
	send_slice(2, 1);
	end_window(2);
	expect_no_ask();
	expect_metric("slices_dropped_total", 0);
	send_slice(3, 1);
	end_window(3);
	assert_int_equal(expect_ask(ASK_STORED).slice, 3);
	expect_metric("slices_dropped_total", 3);
	/* They are gone. */
	shared->has_no_job = false;
	send_slice(4, 1);
	end_window(4);
	assert_int_equal(expect_ask(ASK_STORED).slice, 4);
	expect_stored(4, 4);
	expect_metric("slices_dropped_total", 3);
	end();
}

/* The server before this one may have stored the first ones, and crashed. */
static void first_window_may_be_stored_again(void **state)
{
	(void)state;
	config.restarts = 1;
	start(true);
	shared->result.child.err = -EIO;
	send_slice(1, 1);
	end_window(1);
	expect_no_ask();
	assert_true(shared->again);
	shared->result.child.err = 0;
	send_slice(2, 1);
	end_window(2);
	expect_ask(ASK_STORED);
	assert_true(shared->again);
	send_slice(3, 1);
	end_window(3);
	expect_ask(ASK_STORED);
	assert_false(shared->again);
	end();
}

/* After a crash, only the last window that the sampler does not know of is replaced. */
static void next_window_waits_until_the_sampler_knows_of_the_last(void **state)
{
	(void)state;
	start(true);
	shared->is_full = true;
	send_slice(1, 1);
	end_window(1);
	for (unsigned int tries = 0; !shared->refused && tries < TRIES; tries++)
		turn();
	assert_true(shared->refused > 0);
	set_time(shared->monotonic + 60 * SECOND + MARGIN);
	expect_no_ask();
	shared->is_full = false;
	assert_int_equal(expect_ask(ASK_STORED).slice, 1);
	send_slice(2, 1);
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = 2}, -1);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	expect_stored(2, 2);
	end();
}

/* The end */

static void rest_is_stored(void **state)
{
	(void)state;
	start(true);
	send_slice(1, 1);
	end_window(1);
	expect_ask(ASK_STORED);
	send_slice(3, 1);
	send_slice(2, 1);
	reply(&(struct reply){.type = REPLY_END}, -1);
	end();
	assert_int_equal(shared->calls, 2);
	expect_stored(2, 3);
	assert_string_equal((char *)shared->message, "");
}

static void nothing_is_stored_without_a_rest(void **state)
{
	(void)state;
	start(true);
	send_slice(1, 1);
	end_window(1);
	expect_ask(ASK_STORED);
	end();
	assert_int_equal(shared->calls, 1);
}

static void nothing_is_stored_without_a_store(void **state)
{
	(void)state;
	start(false);
	send_slice(1, 1);
	turn();
	end();
	assert_int_equal(shared->calls, 0);
}

static void lost_rest_is_reported(void **state)
{
	(void)state;
	start(true);
	shared->rest_err = -EIO;
	send_slice(1, 1);
	turn();
	end();
	assert_string_equal((char *)shared->message, "the rest is lost");
}

/* The window after a step of the clock is stored even if the one before can't be. */
static void failed_window_of_the_rest_is_not_the_last(void **state)
{
	(void)state;
	start(true);
	shared->rest_err = -EIO;
	send_slice_of(1, REAL, 10 * SECOND);
	send_slice_of(2, REAL + 3600 * SECOND, 10 * SECOND);
	send_slice_of(3, REAL - 3600 * SECOND, 10 * SECOND);
	turn();
	end();
	assert_int_equal(shared->calls, 3);
	assert_int_equal(shared->slices, 1);
	assert_true(shared->first_ns == REAL - 3600 * SECOND);
}

/* The job that runs at the end is awaited: its slices are not stored twice. */
static void last_job_is_awaited(void **state)
{
	int status;

	(void)state;
	start(true);
	shared->job_runs = true;
	send_slice(1, 1);
	end_window(1);
	send_slice(2, 1);
	turn();
	assert_int_equal(shared->calls, 1);
	reply(&(struct reply){.type = REPLY_END}, -1);
	/* Another signal is not the end of the job. */
	kill(server, SIGCHLD);
	assert_int_equal(waitpid(server, &status, WNOHANG), 0);
	shared->job_runs = false;
	kill(server, SIGCHLD);
	assert_int_equal(expect_ask(ASK_STORED).slice, 1);
	end();
	assert_int_equal(shared->calls, 2);
	expect_stored(2, 2);
}

/* A job that failed then has its slices in the rest. */
static void failed_last_job_is_repeated(void **state)
{
	(void)state;
	start(true);
	shared->job_runs = true;
	shared->result.child.err = -EIO;
	send_slice(1, 1);
	end_window(1);
	send_slice(2, 1);
	turn();
	reply(&(struct reply){.type = REPLY_END}, -1);
	shared->job_runs = false;
	kill(server, SIGCHLD);
	end();
	assert_int_equal(shared->calls, 2);
	expect_stored(1, 2);
}

/* A manager of services that waits for the server would kill it. */
static void slow_last_job_is_stopped_and_repeated(void **state)
{
	(void)state;
	start(true);
	shared->job_runs = true;
	shared->result.child.done = false;
	send_slice(1, 1);
	end_window(1);
	turn();
	reply(&(struct reply){.type = REPLY_END}, -1);
	for (int64_t left_ms = hang_ms(); left_ms > 0 && !shared->kills; left_ms--) {
		shared->monotonic += SECOND;
		kill(server, SIGCHLD);
		usleep(1000);
	}
	kill(server, SIGCHLD);
	end();
	assert_int_equal(shared->calls, 2);
	assert_true(shared->again);
	expect_stored(1, 1);
	assert_int_equal(shared->kills, 1);
}

/* Time-outs: the sampler has so long for each step */

static void expect_timeout(int fd, int64_t until)
{
	char byte;

	set_time(until - 1);
	assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	set_time(until);
	assert_int_equal(read_response(fd), 503);
	assert_non_null(strstr(response, "\r\n\r\nthe sampler does not answer\n"));
}

static void counters_have_a_timeout(void **state)
{
	int fd;

	(void)state;
	start(false);
	fd = send_request("/metrics");
	expect_ask(ASK_COUNTERS);
	expect_timeout(fd, MONOTONIC + SAMPLER_TIMEOUT);
	end();
}

static void recordings_have_a_timeout(void **state)
{
	int fd;

	(void)state;
	start(false);
	fd = send_request("/debug/pprof/profile?seconds=7&hz=20");
	expect_ask(ASK_RECORD);
	expect_timeout(fd, MONOTONIC + SAMPLER_TIMEOUT + 7 * SECOND);
	end();
}

static void profiles_have_timeouts(void **state)
{
	int64_t now = MONOTONIC;
	int fd, steps;

	(void)state;
	start(false);
	for (steps = 0; steps < 4; steps++) {
		fd = send_request("/debug/pprof/profile?seconds=7");
		reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = 4},
		      -1);
		turn();
		if (!steps) {
			/* Not before its time. */
			set_time(now + 7 * SECOND - 1);
			expect_no_ask();
		}
		set_time(now += 7 * SECOND);
		if (steps)
			set_time(now += 3 * SECOND);
		reply(&(struct reply){.type = REPLY_CUT,
				      .id = expect_ask(ASK_CUT).id,
				      .slice = steps == 2 ? 4 : 6},
		      -1);
		turn();
		if (steps == 2) {
			/* Without a slice, it is empty. */
			assert_int_equal(read_response(fd), 200);
			assert_non_null(strstr(response, "slices: 0\n"));
		} else if (steps == 3) {
			send_slice(5, 1);
			send_slice(6, 1);
			assert_int_equal(read_response(fd), 200);
			assert_non_null(strstr(response, "slices: 2\n"));
		} else {
			now += SAMPLER_TIMEOUT;
			expect_timeout(fd, now);
		}
	}
	fd = send_request("/debug/pprof/profile?seconds=7");
	expect_ask(ASK_CUT);
	expect_timeout(fd, now += SAMPLER_TIMEOUT);
	fd = send_request("/debug/pprof/profile?seconds=7");
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = 7}, -1);
	turn();
	set_time(now += 7 * SECOND);
	expect_ask(ASK_CUT);
	expect_timeout(fd, now + SAMPLER_TIMEOUT);
	end();
}

/* Clients that do not wait for their answer */

/* Returns whether the sampler is asked; or else, the request is refused. */
static bool is_accepted(int fd)
{
	struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = sampler, .events = POLLIN}};

	assert_true(poll(fds, 2, hang_ms()) > 0);
	if (fds[1].revents) {
		expect_ask(ASK_CUT);
		return true;
	}
	assert_int_equal(read_response(fd), 503);
	return false;
}

static void gone_clients_leave_their_places(void **state)
{
	int fds[QUERIES_MAX], fd;
	unsigned int tries = 0;

	(void)state;
	start(false);
	for (size_t i = 0; i < QUERIES_MAX; i++) {
		fds[i] = send_request("/debug/pprof/profile?seconds=300");
		assert_true(is_accepted(fds[i]));
	}
	assert_false(is_accepted(send_request("/debug/pprof/profile")));
	for (size_t i = 0; i < QUERIES_MAX; i++)
		close(fds[i]);
	do
		fd = send_request("/debug/pprof/profile");
	while (!is_accepted(fd) && ++tries < TRIES);
	assert_true(tries < TRIES);
	close(fd);
	end();
}

static void jobs_of_gone_clients_are_killed(void **state)
{
	int fds[JOBS_MAX], fd;

	(void)state;
	start(true);
	shared->job_runs = true;
	for (size_t i = 0; i < JOBS_MAX; i++)
		fds[i] = send_request("/api/windows");
	turn();
	fd = send_request("/api/windows");
	turn();
	assert_int_equal(shared->kills, 0);
	assert_int_equal(shared->jobs, JOBS_MAX);
	for (size_t i = 0; i < JOBS_MAX; i++)
		close(fds[i]);
	for (unsigned int tries = 0; shared->kills < JOBS_MAX && tries < TRIES; tries++)
		turn();
	assert_int_equal(shared->kills, JOBS_MAX);
	/* Another one has its turn. */
	shared->result.child.done = false;
	expect_metric("jobs_killed_total{kind=\"query\"}", 0);
	shared->result.child.done = true;
	shared->job_runs = false;
	kill(server, SIGCHLD);
	assert_int_equal(read_response(fd), 200);
	assert_int_equal(shared->kills, JOBS_MAX);
	assert_int_equal(shared->jobs, JOBS_MAX + 1);
	end();
}

/* It says only that it sends no more. */
static void client_may_close_its_half_of_a_unix_socket(void **state)
{
	int fd;

	(void)state;
	start(true);
	shared->job_runs = true;
	fd = send_request("/api/windows");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	turn();
	shared->job_runs = false;
	kill(server, SIGCHLD);
	assert_int_equal(read_response(fd), 200);
	assert_int_equal(shared->kills, 0);
	end();
}

/* Memory */

static void expect_resident(const char *text, unsigned long long pages)
{
	assert_int_equal(ftruncate(config.statm, 0), 0);
	assert_int_equal(pwrite(config.statm, text, strlen(text), 0), strlen(text));
	expect_metric("resident_memory_bytes{process=\"http\"}",
		      pages * (unsigned long long)sysconf(_SC_PAGESIZE));
}

static void resident_memory_is_counted(void **state)
{
	(void)state;
	config.statm = memfd_create("statm", MFD_CLOEXEC);
	start(false);
	expect_resident("1234 567 89 1 0 2 0\n", 567);
	expect_resident("1 2", 2);
	expect_resident("1234\n", 0);
	expect_resident("1234 3 4 5\n", 3);
	expect_resident("", 0);
	end();
	close(config.statm);
}

static void resident_memory_may_be_unknown(void **state)
{
	(void)state;
	start(false);
	expect_metric("resident_memory_bytes{process=\"http\"}", 0);
	end();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(windows_end_after_a_full_minute),
		TEST(steps_of_the_clock_end_windows),
		TEST(slices_of_requests_are_not_for_the_store),
		TEST(forms_of_slices_are_those_of_the_sampler),
		TEST(jobs_know_damaged_windows),
		TEST(counts_are_sums),
		TEST(store_without_process_gets_the_slices_again),
		TEST(failing_store_gets_the_slices_again),
		TEST(window_of_a_killed_job_is_stored_once),
		TEST(waiting_slices_are_limited),
		TEST(first_window_may_be_stored_again),
		TEST(next_window_waits_until_the_sampler_knows_of_the_last),
		TEST(rest_is_stored),
		TEST(nothing_is_stored_without_a_rest),
		TEST(nothing_is_stored_without_a_store),
		TEST(lost_rest_is_reported),
		TEST(failed_window_of_the_rest_is_not_the_last),
		TEST(last_job_is_awaited),
		TEST(failed_last_job_is_repeated),
		TEST(slow_last_job_is_stopped_and_repeated),
		TEST(counters_have_a_timeout),
		TEST(recordings_have_a_timeout),
		TEST(profiles_have_timeouts),
		TEST(gone_clients_leave_their_places),
		TEST(jobs_of_gone_clients_are_killed),
		TEST(client_may_close_its_half_of_a_unix_socket),
		TEST(resident_memory_is_counted),
		TEST(resident_memory_may_be_unknown),
	};

	return cmocka_run_group_tests_name("http_store", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Each sample is stored once, at whatever step the job of the store, or the HTTP server with it, is
 * killed. Server, job and store are the real ones; the clocks and the sampler are this test.
 */
#include "unit.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "http_server.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "sample_profile.h"
#include "sampler_stub.h"
#include "sandbox.h"
#include "serve/access.h"
#include "serve/http.h"
#include "serve/microhttpd.h"
#include "store/store.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define REAL (INT64_C(1700000400) * SECOND) /* a full ten minutes */
#define OLD 2u /* windows that are due to be merged */
#define WINDOWS (OLD + 2)

#define KILLED ULONG_MAX

/* Shared with the server and its jobs. */
static volatile struct shared {
	int64_t monotonic, real; /* ns */
	pid_t server;
	unsigned long calls; /* of jobs */
	unsigned long kill_at; /* the call of a job that kills it; 0: none; KILLED: it did */
	bool kills_server; /* too */
	char message[256];
} * shared;

static const struct access access_data;
static struct http_config config;
static char store_path[PATH_MAX];
static pid_t test_pid;

__attribute__((visibility("hidden"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
	int64_t ns = !shared ? 0 : clock == CLOCK_REALTIME ? shared->real : shared->monotonic;

	*time = (struct timespec){ns / SECOND, ns % SECOND};
	return 0;
}

/* The calls that change the store */

static void step(void)
{
	const pid_t self = getpid();
	unsigned long call;

	if (!shared || !shared->kill_at || self == test_pid || self == shared->server)
		return;
	call = __atomic_add_fetch(&shared->calls, 1, __ATOMIC_SEQ_CST);
	/* Once: another call, or a kill after the test went on, would meet the next server. */
	if (!__atomic_compare_exchange_n(&shared->kill_at, &call, KILLED, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	if (shared->kills_server)
		kill(shared->server, SIGKILL);
	kill(self, SIGKILL);
}

ssize_t write(int fd, const void *data, size_t size)
{
	step();
	return syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
	(void)fd;
	step();
	return 0;
}

int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
	step();
	return (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags);
}

int rename(const char *from, const char *to)
{
	step();
	return (int)syscall(SYS_rename, from, to);
}

int unlinkat(int fd, const char *path, int flags)
{
	step();
	return (int)syscall(SYS_unlinkat, fd, path, flags);
}

/* Without bounds: the memory of sanitizers is beyond them. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	(void)resource;
	(void)limit;
	return 0;
}

/* The store */

/* A profile of one sample, of a function of its own. */
static struct profile *make_window(unsigned int number, int64_t start_ns)
{
	struct profile *profile = empty_profile();
	uint32_t mapping = example_mapping(profile, 0x1000, 0x900000, 0, "/bin/app", "aa");
	uint32_t location = example_location(profile, mapping, 0x1000 + number, NULL, "work");

	example_add(profile, &location, 1, 1, 1000, NULL, 0);
	profile->time_ns = start_ns;
	profile->duration_ns = MINUTE;
	return profile;
}

static void fill_store(void)
{
	static const struct store_limits limits = {UINT64_MAX, INT64_MAX / 4000000, {7200, 172800}};
	static unsigned int stores;
	struct store store;

	snprintf(store_path, sizeof(store_path), "%s", in_sandbox("store%u", stores++));
	assert_int_equal(mkdir(store_path, 0700), 0);
	assert_int_equal(store_open(&store, store_path, &limits, NULL), 0);
	for (unsigned int i = 0; i < OLD; i++) {
		struct profile *profile = make_window(i, REAL - 180 * MINUTE + i * MINUTE);

		assert_int_equal(store_add(&store, profile, 60, NULL), 0);
		profile_free(profile);
	}
	store_close(&store);
	config.store = (struct store_config){.path = store_path, .limits = limits, .window_s = 60};
}

static int count_samples(const struct profile *profile, const struct window_name *name, void *arg)
{
	unsigned int *seen = arg;

	(void)name;
	for (size_t i = 0; i < profile->samples.count; i++) {
		uint32_t location =
			*profile_stack_locations(profile, profile->samples.items[i].stack);
		uint64_t number = profile->locations.items[location].address - 0x1000;

		assert_true(number < WINDOWS);
		seen[number] += (unsigned int)profile_values(profile, i)[PROFILE_SAMPLES];
	}
	return 0;
}

static void expect_each_once(unsigned long at)
{
	unsigned int seen[WINDOWS] = {0};
	struct store_query result;

	assert_int_equal(
		store_query(store_path, 0, INT64_MAX, NULL, count_samples, seen, &result, NULL), 0);
	assert_int_equal(result.unreadable, 0);
	for (unsigned int i = 0; i < WINDOWS; i++) {
		if (seen[i] != 1)
			fail_msg("step %lu: window %u is stored %u times", at, i, seen[i]);
	}
}

/* The server */

static void keep_message(const char *text)
{
	snprintf((char *)shared->message, sizeof(shared->message), "%s", text);
}

static void start(void)
{
	int ends[2], fd = listen_on(in_sandbox("http"));
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	config.listeners[0].socket = fd;
	config.socket = ends[1];
	pid = fork();
	assert_true(pid >= 0);
	shared->server = pid ? pid : getpid();
	if (!pid) {
		close(ends[0]);
		serve_and_exit(&config);
	}
	close(ends[1]);
	close(fd);
	sampler = ends[0];
	set_timeout(sampler);
}

/* Waits until the server has gone through its loop. */
static void turn(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char text[4096];

	strcpy(address.sun_path, in_sandbox("http"));
	for (int i = 0; i < 2; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		set_timeout(fd);
		assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
		assert_true(
			dprintf(fd, "GET /debug/pprof/symbol HTTP/1.1\r\nHost: localhost\r\n\r\n") >
			0);
		while (read(fd, text, sizeof(text)) > 0)
			;
		close(fd);
	}
}

static void send_slice(uint32_t number)
{
	const int64_t start_ns = REAL + (number - 1) * MINUTE;
	struct profile *profile = make_window(OLD + number - 1, start_ns);
	int file = memfd_create("slice", MFD_CLOEXEC);

	assert_int_equal(pprof_write_fd_fast(profile, file, "slice", NULL), 0);
	profile_free(profile);
	reply(
		&(struct reply){
			.type = REPLY_SLICE,
			.slice = number,
			.start_ns = start_ns,
			.duration_ns = MINUTE,
			.samples = 1,
			.is_window = true,
		},
		file);
}

/* Ends the window, whose last slice this is: the server starts the job. */
static void end_window(uint32_t last)
{
	shared->monotonic += MINUTE + SECOND;
	shared->real += MINUTE + SECOND;
	turn();
	reply(&(struct reply){.type = REPLY_CUT, .id = expect_ask(ASK_CUT).id, .slice = last}, -1);
}

/* Waits for the end of the job. Returns the slice that is stored; 0: none, or the server has ended.
 */
static uint32_t await_job(void)
{
	struct ask ask = {0};
	ssize_t got = -1;

	/* It is sent, or the end of the server is the end of the socket. */
	if (shared->kills_server)
		return recv(sampler, &ask, sizeof(ask), 0) > 0 ? ask.slice : 0;
	while (got < 0 && !shared->message[0]) {
		turn();
		got = recv(sampler, &ask, sizeof(ask), MSG_DONTWAIT);
	}
	/* The message comes first. */
	if (got < 0) {
		turn();
		got = recv(sampler, &ask, sizeof(ask), MSG_DONTWAIT);
	}
	return got > 0 ? ask.slice : 0;
}

static void await_server(void)
{
	int status;

	assert_int_equal(waitpid(shared->server, &status, 0), shared->server);
	shared->server = 0;
	close(sampler);
	sampler = -1;
}

/* Kills a job at its call `at`. Returns false if it has fewer. */
static bool store_with_kill(unsigned long at, bool kills_server)
{
	uint32_t stored;
	bool killed;

	fill_store();
	shared->monotonic = 1000 * SECOND;
	/* The new windows are due, too, as after a step of the clock. */
	shared->real = REAL + 180 * MINUTE + SECOND;
	shared->message[0] = '\0';
	shared->kills_server = kills_server;
	shared->calls = 0;
	config.restarts = 0;
	start();
	reply(&(struct reply){.type = REPLY_READY}, -1);
	turn();
	send_slice(1);
	shared->kill_at = at;
	end_window(1);
	stored = await_job();
	killed = __atomic_exchange_n(&shared->kill_at, 0, __ATOMIC_SEQ_CST) == KILLED;
	if (kills_server && killed) {
		await_server();
		config.restarts = 1;
		start();
		expect_ask(ASK_BEGIN);
		reply(&(struct reply){.type = REPLY_READY, .id = 1 << 24, .slice = stored}, -1);
		turn();
		if (!stored)
			send_slice(1);
	}
	send_slice(2);
	end_window(2);
	assert_int_equal(expect_ask(ASK_STORED).slice, 2);
	reply(&(struct reply){.type = REPLY_END}, -1);
	await_server();
	expect_each_once(at);
	return killed;
}

static void killed_job_stores_nothing_twice(void **state)
{
	unsigned long at = 0;

	(void)state;
	while (store_with_kill(++at, false))
		;
	/* A window: write, fsync, linkat, rename, fsync; the same of the merged one, and unlinkat.
	 */
	assert_true(at > 10 + OLD);
}

static void killed_server_stores_nothing_twice(void **state)
{
	unsigned long at = 0;

	(void)state;
	while (store_with_kill(++at, true))
		;
	assert_true(at > 10 + OLD);
}

static int set_up(void **state)
{
	if (microhttpd_load(NULL) || make_sandbox(state))
		return -1;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	test_pid = getpid();
	config = (struct http_config){
		.listener_count = 1,
		.statm = -1,
		.access = &access_data,
		.rate = 19,
		.cmdline = "stackbeat",
		.cmdline_size = 9,
		.message = keep_message,
	};
	return shared == MAP_FAILED;
}

static int tear_down(void **state)
{
	if (shared->server > 0) {
		kill(shared->server, SIGKILL);
		waitpid(shared->server, NULL, 0);
	}
	munmap((void *)shared, sizeof(*shared));
	shared = NULL;
	return remove_sandbox(state);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(killed_job_stores_nothing_twice),
		TEST(killed_server_stores_nothing_twice),
	};

	return cmocka_run_group_tests_name("store_jobs", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* What some clients of the HTTP server leave to others. The contents of answers are this test's. */
#include "unit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http_server.h"
#include "lib/error.h"
#include "sampler_stub.h"
#include "sandbox.h"
#include "serve/access.h"
#include "serve/http.h"
#include "serve/microhttpd.h"
#include "serve/request.h"

#define SLOW "/api/profile?service=slow"
#define LARGE "/api/profile?service=large"
#define LARGE_BYTES ((off_t)200 << 20)
#define HALF_BODIES 70u
/* Of TCP clients, that wait for profiles, and of all others. */
#define PROFILES_MAX 48u
#define OTHERS_MAX 8u

static struct access access_data;
static struct http_config config;
static pid_t server;
static int started[2], released[2]; /* pipes: a byte for each slow answer */
static char response[4096];

/* The memory of the sanitizer is beyond the limit of jobs. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	return resource == RLIMIT_DATA ? 0 : prlimit(0, resource, limit, NULL);
}

/* The contents of answers */

static int write_answer(int out)
{
	return write(out, "text\n", 5) == 5 ? 0 : -EIO;
}

int answer_range(const char *store, const struct request *request, int out, struct error *error)
{
	const char *service = request->selection.service;
	char byte;

	(void)store, (void)error;
	if (service && !strcmp(service, "slow") &&
	    (write(started[1], "", 1) != 1 || read(released[0], &byte, 1) != 1))
		return -EIO;
	/* A hole takes no memory. */
	if (service && !strcmp(service, "large"))
		return ftruncate(out, LARGE_BYTES) ? -errno : 0;
	return write_answer(out);
}

int answer_slices(const struct slice_file *slices, size_t count, const struct request *request,
		  int out, struct error *error)
{
	(void)slices, (void)count, (void)request, (void)error;
	return write_answer(out);
}

int answer_windows(const char *store, const struct request *request, int out, struct error *error)
{
	(void)store, (void)request, (void)error;
	return write_answer(out);
}

int answer_timeline(const char *store, const struct request *request, int out, struct error *error)
{
	(void)store, (void)request, (void)error;
	return write_answer(out);
}

int answer_services(const char *store, const struct request *request, int out, struct error *error)
{
	(void)store, (void)request, (void)error;
	return write_answer(out);
}

int answer_annotation(const char *store, const struct request *request,
		      const struct annotation_server *reader, int out, struct error *error)
{
	(void)store, (void)request, (void)reader, (void)error;
	return write_answer(out);
}

int answer_targets(const char *store, const struct request *request, const char *host, int out,
		   struct error *error)
{
	(void)store, (void)request, (void)host, (void)error;
	return write_answer(out);
}

int store_slices(const struct store_config *store, const struct slice_file *slices, size_t count,
		 bool again, struct store_result *result, struct error *error)
{
	(void)store, (void)slices, (void)count, (void)again, (void)result, (void)error;
	return 0;
}

/* The server */

static void show_message(const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static int set_up(void **state)
{
	int ends[2];

	if (microhttpd_load(NULL) || make_sandbox(state) || pipe(started) || pipe(released) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	config = (struct http_config){
		.statm = -1,
		.access = &access_data,
		.store = {.path = "store", .window_s = 3600},
		.rate = 19,
		.message = show_message,
		.socket = ends[1],
		.listeners = {{.socket = listen_on(in_sandbox("tcp")),
			       .is_tcp = true,
			       .is_loopback = true},
			      {.socket = listen_on(in_sandbox("unix"))}},
		.listener_count = 2,
	};
	server = fork();
	if (!server) {
		struct error error = {""};

		close(ends[0]);
		/* cmocka's handler would go on with other tests. */
		signal(SIGSEGV, SIG_DFL);
		_exit(http_run(&config, &error) ? 1 : 0);
	}
	close(ends[1]);
	close(config.listeners[0].socket);
	close(config.listeners[1].socket);
	sampler = ends[0];
	set_timeout(sampler);
	reply(&(struct reply){.type = REPLY_READY}, -1);
	return 0;
}

/* The end of the sampler ends the server. */
static int tear_down(void **state)
{
	int status;

	close(sampler);
	for (int i = 0; i < 2; i++) {
		close(started[i]);
		close(released[i]);
	}
	return waitpid(server, &status, 0) != server || status || remove_sandbox(state);
}

static int send_text(const char *listener, const char *text)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_timeout(fd);
	strcpy(address.sun_path, in_sandbox("%s", listener));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

static int ask_for(const char *listener, const char *path)
{
	char text[256];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	return send_text(listener, text);
}

/* Returns the status; the beginning of the answer is in `response`. 0: there is none. */
static int read_beginning(int fd)
{
	ssize_t got = recv(fd, response, sizeof(response) - 1, 0);
	int status = 0;

	assert_true(got >= 0);
	response[got] = '\0';
	return sscanf(response, "HTTP/1.1 %d ", &status) == 1 ? status : 0;
}

static int read_status(int fd)
{
	int status = read_beginning(fd);

	close(fd);
	return status;
}

static int get(const char *listener, const char *path)
{
	return read_status(ask_for(listener, path));
}

static void expect_start(void)
{
	char byte;

	assert_int_equal(read(started[0], &byte, 1), 1);
}

static void slow_queries_leave_jobs_to_others(void **state)
{
	int over_tcp[6], other[2];

	(void)state;
	for (size_t i = 0; i < 6; i++)
		over_tcp[i] = ask_for("tcp", SLOW);
	for (size_t i = 0; i < 4; i++)
		expect_start();
	assert_int_equal(get("tcp", "/api/services"), 200);
	assert_int_equal(get("tcp", "/api/timeline"), 200);
	other[0] = ask_for("unix", SLOW);
	expect_start();
	/* It waits, too. */
	other[1] = ask_for("unix", SLOW);
	assert_int_equal(get("unix", "/api/windows"), 200);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(write(released[1], "", 1), 1);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(read_status(over_tcp[i]), 200);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(read_status(other[i]), 200);
}

#define BODY "Content-Length: 1000000\r\n\r\nx"

/* Nor does it matter whether a client has the token: neither is asked for one here. */
static void slow_bodies_take_no_place(void **state)
{
	int bodies[HALF_BODIES];

	(void)state;
	for (size_t i = 0; i < HALF_BODIES; i++)
		bodies[i] = send_text("tcp", "POST /debug/pprof/symbol HTTP/1.1\r\n"
					     "Host: localhost\r\n" BODY);
	assert_int_equal(get("tcp", "/api/services"), 200);
	for (size_t i = 0; i < HALF_BODIES; i++)
		close(bodies[i]);
}

/* The rest of the body never comes. */
static void refused_requests_need_no_body(void **state)
{
	static const char *const refused[] = {
		"POST /debug/pprof/symbol HTTP/1.1\r\nHost: evil.example\r\n" BODY,
		"POST /api/services HTTP/1.1\r\nHost: localhost\r\n" BODY,
		"GET /api/services HTTP/1.1\r\nHost: localhost\r\n" BODY,
		"GET /api/services HTTP/1.1\r\nHost: localhost\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
	};
	static const int statuses[] = {403, 405, 400, 400};

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		assert_int_equal(read_status(send_text("tcp", refused[i])), statuses[i]);
	assert_int_equal(read_status(send_text("tcp", "GET /api/services HTTP/1.1\r\n"
						      "Host: localhost\r\n"
						      "Content-Length: 0\r\n\r\n")),
			 200);
}

static void expect_asks(enum ask_type type, size_t count)
{
	for (size_t i = 0; i < count; i++)
		expect_ask(type);
}

/* Each kind of request that waits leaves places to the next one. */
static void waiting_queries_leave_places_to_others(void **state)
{
	int waiting[PROFILES_MAX + 3 * OTHERS_MAX];
	size_t count = 0;

	(void)state;
	while (count < PROFILES_MAX)
		waiting[count++] = ask_for("tcp", "/debug/pprof/profile");
	expect_asks(ASK_CUT, PROFILES_MAX);
	assert_int_equal(get("tcp", "/debug/pprof/profile"), 503);
	assert_non_null(strstr(response, "too many requests are being answered"));
	assert_int_equal(get("tcp", "/api/services"), 200);
	while (count < PROFILES_MAX + OTHERS_MAX)
		waiting[count++] = ask_for("unix", "/debug/pprof/profile");
	expect_asks(ASK_CUT, OTHERS_MAX);
	assert_int_equal(get("unix", "/debug/pprof/profile"), 503);
	assert_int_equal(get("tcp", "/metrics"), 503);
	assert_int_equal(get("unix", "/api/services"), 200);
	while (count < PROFILES_MAX + 2 * OTHERS_MAX)
		waiting[count++] = ask_for("unix", "/metrics");
	expect_asks(ASK_COUNTERS, OTHERS_MAX);
	assert_int_equal(get("unix", "/metrics"), 503);
	for (size_t i = 0; i < count; i++)
		close(waiting[i]);
}

/* Returns once the answer has begun; the client takes no more of it. */
static int ask_for_large(const char *listener, int status)
{
	int fd = ask_for(listener, LARGE);

	assert_int_equal(read_beginning(fd), status);
	return fd;
}

static void answers_that_wait_are_bounded(void **state)
{
	int waiting[3];

	(void)state;
	waiting[0] = ask_for_large("tcp", 200);
	waiting[1] = ask_for_large("tcp", 200);
	close(ask_for_large("tcp", 503));
	assert_non_null(strstr(response, "other answers have to be read"));
	assert_int_equal(get("tcp", "/api/profile"), 200);
	waiting[2] = ask_for_large("unix", 200);
	close(ask_for_large("unix", 503));
	assert_int_equal(get("unix", "/api/profile"), 200);
	/* The end of one makes room. */
	close(waiting[2]);
	assert_int_equal(get("unix", "/api/profile"), 200);
	close(ask_for_large("unix", 200));
	for (size_t i = 0; i < 2; i++)
		close(waiting[i]);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(slow_queries_leave_jobs_to_others),
		TEST(slow_bodies_take_no_place),
		TEST(refused_requests_need_no_body),
		TEST(waiting_queries_leave_places_to_others),
		TEST(answers_that_wait_are_bounded),
	};

	return cmocka_run_group_tests_name("http_shares", tests, NULL, NULL);
}

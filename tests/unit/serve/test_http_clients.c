// SPDX-License-Identifier: GPL-2.0
/* The process that serves HTTP, with a stub in the place of the process that samples. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "serve/access.h"
#include "serve/http.h"
#include "serve/listen.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"

/* More than are served at a time. */
#ifndef HALF_OPEN
#define HALF_OPEN 300
#endif

/* Shared with the server: the clock stands still, or flies when nothing else happens. */
static volatile struct {
	int64_t ns;
	bool flies;
} * clock_of_test;

/* libmicrohttpd calls it, too. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock == CLOCK_REALTIME || !clock_of_test)
		return (int)syscall(SYS_clock_gettime, clock, time);
	*time = (struct timespec){clock_of_test->ns / NS_PER_SECOND,
				  clock_of_test->ns % NS_PER_SECOND};
	return 0;
}

int poll(struct pollfd *fds, nfds_t count, int milliseconds)
{
	const struct timespec soon = {.tv_nsec = 1000000};
	int ready = ppoll(fds, count, &soon, NULL);

	if (!ready && clock_of_test->flies)
		clock_of_test->ns += milliseconds * (NS_PER_SECOND / 1000);
	return ready;
}

struct server {
	struct http_config config;
	struct sockaddr_in address;
	int sampler; /* the end of the stub */
	pid_t pid;
};

static void fail_with(const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static int set_up(void **state)
{
	static const struct access access_data;
	static struct server server;
	socklen_t size = sizeof(server.address);
	const struct reply ready = {.type = REPLY_READY};
	int ends[2];

	server = (struct server){
		.config = {.listener_count = 1,
			   .statm = -1,
			   .access = &access_data,
			   .rate = 19,
			   .cmdline = "stackbeat",
			   .cmdline_size = 9,
			   .message = fail_with},
	};
	clock_of_test = mmap(NULL, sizeof(*clock_of_test), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (clock_of_test == MAP_FAILED)
		return -1;
	clock_of_test->ns = 1000 * NS_PER_SECOND;
	if (microhttpd_load(NULL) ||
	    listen_at("127.0.0.1:0", false, (gid_t)-1, &server.config.listeners[0], NULL) ||
	    getsockname(server.config.listeners[0].socket, (struct sockaddr *)&server.address,
			&size) ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -1;
	server.config.socket = ends[1];
	server.sampler = ends[0];
	server.pid = fork();
	if (!server.pid) {
		close(ends[0]);
		_exit(http_run(&server.config, NULL) ? 1 : 0);
	}
	close(ends[1]);
	close(server.config.listeners[0].socket);
	*state = &server;
	return send(server.sampler, &ready, sizeof(ready), 0) == sizeof(ready) ? 0 : -1;
}

/* The end of the sampler ends the server. */
static int tear_down(void **state)
{
	struct server *server = *state;
	struct rusage usage;
	int status;

	close(server->sampler);
	clock_of_test->flies = false;
	if (wait4(server->pid, &status, 0, &usage) != server->pid)
		return -1;
	return status;
}

static int open_connection(const struct server *server, const char *text)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(
		connect(fd, (const struct sockaddr *)&server->address, sizeof(server->address)), 0);
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
	return fd;
}

/* Returns the status of the answer; 0: the connection was closed without one. */
static int read_status(int fd)
{
	char text[4096];
	size_t size = 0;
	ssize_t got;

	while (size < sizeof(text) - 1 &&
	       (got = recv(fd, text + size, sizeof(text) - 1 - size, 0)) > 0)
		size += (size_t)got;
	close(fd);
	text[size] = '\0';
	return strncmp(text, "HTTP/1.1 ", 9) ? 0 : atoi(text + 9);
}

static int get(const struct server *server, const char *path, const char *headers)
{
	char text[4096];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n%s\r\n", path, headers);
	return read_status(open_connection(server, text));
}

#define HOST "Host: localhost\r\n"

static void requests_are_checked(void **state)
{
	const struct server *server = *state;

	assert_int_equal(get(server, "/healthz", HOST), 200);
	assert_int_equal(get(server, "/nothing", HOST), 404);
	assert_int_equal(get(server, "/../../etc/passwd", HOST), 404);
	assert_int_equal(get(server, "/healthz", "Host: example.org\r\n"), 403);
	assert_int_equal(get(server, "/healthz", HOST "Sec-Fetch-Site: cross-site\r\n"), 403);
	assert_int_equal(get(server, "/debug/pprof/profile?seconds=301", HOST), 400);
	assert_int_equal(get(server, "/debug/pprof/profile?hz=1001", HOST), 400);
	assert_int_equal(get(server, "/debug/pprof/profile?%00=1", HOST), 400);
	assert_int_equal(get(server, "/api/profile", HOST), 404); /* no store */
}

/* As from a client that has closed the connection, no more comes. */
static void request_ends_with_its_client(void **state)
{
	const struct server *server = *state;
	int fd = open_connection(server,
				 "GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\n" HOST "\r\n");
	struct ask ask;

	assert_int_equal(recv(server->sampler, &ask, sizeof(ask), 0), sizeof(ask));
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	assert_int_equal(read_status(fd), 400);
}

/* It is asked once, until it has answered anything. */
static void health_is_that_of_the_sampler(void **state)
{
	const struct server *server = *state;
	struct reply reply = {.type = REPLY_COUNTERS};
	struct ask ask;

	assert_int_equal(get(server, "/healthz", HOST), 200);
	clock_of_test->ns += 60 * NS_PER_SECOND - 1;
	assert_int_equal(get(server, "/healthz", HOST), 200);
	clock_of_test->ns++;
	assert_int_equal(get(server, "/healthz", HOST), 503);
	assert_int_equal(recv(server->sampler, &ask, sizeof(ask), 0), sizeof(ask));
	assert_int_equal(ask.type, ASK_COUNTERS);
	assert_int_equal(recv(server->sampler, &ask, sizeof(ask), MSG_DONTWAIT), -1);
	reply.id = ask.id;
	assert_int_equal(send(server->sampler, &reply, sizeof(reply), 0), sizeof(reply));
	assert_int_equal(get(server, "/healthz", HOST), 200);
	assert_int_equal(recv(server->sampler, &ask, sizeof(ask), 0), sizeof(ask));
	clock_of_test->ns += 60 * NS_PER_SECOND;
	assert_int_equal(get(server, "/healthz", HOST), 503);
}

/*
 * Clients that do not complete their requests are closed after a while, however many they are, and
 * the sampler is served meanwhile.
 */
static void half_open_connections_are_closed(void **state)
{
	const struct server *server = *state;
	const struct reply slice = {.type = REPLY_SLICE};
	int *clients = calloc(HALF_OPEN, sizeof(*clients));
	struct reply reply = slice;
	int64_t begin = clock_of_test->ns;
	int healthy;

	assert_non_null(clients);
	for (size_t i = 0; i < HALF_OPEN; i++)
		clients[i] = open_connection(server, "GET /healthz HTTP/1.1\r\nHost: ");
	/* A socket that nobody reads would be full. */
	for (uint32_t i = 0; i < 2000; i++) {
		reply.slice = i;
		assert_int_equal(send(server->sampler, &reply, sizeof(reply), 0), sizeof(reply));
	}
	healthy = open_connection(server, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
	clock_of_test->flies = true;
	assert_int_equal(read_status(healthy), 200);
	for (size_t i = 0; i < HALF_OPEN; i++)
		assert_int_equal(read_status(clients[i]), 0);
	assert_true(clock_of_test->ns - begin >= 10 * NS_PER_SECOND);
	free(clients);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_are_checked),
		TEST(request_ends_with_its_client),
		TEST(health_is_that_of_the_sampler),
		TEST(half_open_connections_are_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

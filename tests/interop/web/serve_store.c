// SPDX-License-Identifier: GPL-2.0
/*
 * serve_store DIRECTORY MINUTES: fills the store DIRECTORY, which exists, with windows of the last
 * MINUTES minutes, and serves it on a free port of the loopback until its standard input ends. It
 * prints the port, and the end of these minutes in seconds since 1970. The process that samples is
 * this program; it has no samples. With 0 minutes, there is no store.
 *
 * Every minute, "web.service" uses 30 s of CPU time, "db.service" 15 s, and 12 programs without a
 * container 1 s each. In the last third of the time, the function "slow" of "web.service" uses 12
 * of its 30 s, before that 3 s. It is a function of this program, whose code can be read.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "sample_profile.h"
#include "sandbox/capabilities.h"
#include "sandbox/fd_passing.h"
#include "serve/access.h"
#include "serve/annotation_server.h"
#include "serve/http.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"
#include "store/store.h"

#define SECOND INT64_C(1000000000)
#define PROGRAMS 12
#define BUILD_ID "5365727665" /* of this program, by the Makefile */

static char program_path[PATH_MAX];

static void show(const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static volatile uint64_t sum;

static inline __attribute__((always_inline)) void square(uint64_t number)
{
	sum += number * number;
}

/* Long enough to be folded. */
static __attribute__((noinline)) void slow(uint64_t number)
{
	square(number);
	if (number > 100)
		return;
	for (uint64_t i = 0; i < number; i++) {
		sum ^= i;
		sum = sum << 7 | sum >> 57;
		sum *= 0x9e3779b97f4a7c15;
		sum ^= sum >> 31;
		sum -= i % 7;
		sum += i / 3;
	}
}

/* The location of slow() in this program, which has no addresses of its own in the profile. */
static uint32_t location_of_slow(struct profile *profile)
{
	extern const char __executable_start[];
	uint32_t mapping = example_mapping(profile, 0, 0, 0, program_path, BUILD_ID);

	return example_location(profile, mapping,
				(uint64_t)(uintptr_t)slow - (uint64_t)(uintptr_t)__executable_start,
				NULL, "slow");
}

static void add(struct profile *profile, const char *container, const char *comm,
		const char *function, int64_t seconds)
{
	uint32_t mapping = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/app", NULL);
	uint32_t labels[2], locations[2];
	size_t count = 0;

	/* The address of a function is a number of its name. */
	locations[0] = !strcmp(function, "slow")
			       ? location_of_slow(profile)
			       : example_location(profile, mapping,
						  0x400000 + profile_string(profile, function),
						  NULL, function);
	locations[1] = example_location(profile, mapping, 0x400000, NULL, "main");
	labels[count++] = example_label(profile, "comm", comm);
	if (container)
		labels[count++] = example_label(profile, "container", container);
	example_add(profile, locations, 2, seconds * 19, seconds * SECOND, labels, count);
}

static int add_window(struct store *store, int64_t start_ns, int64_t slow, struct error *error)
{
	struct profile *profile = empty_profile();
	char name[32];
	int err;

	add(profile, "web.service", "web", "serve", 30 - slow);
	add(profile, "web.service", "web", "slow", slow);
	add(profile, "db.service", "db", "query", 15);
	for (int i = 0; i < PROGRAMS; i++) {
		snprintf(name, sizeof(name), "<b>prog%02d</b>", i);
		add(profile, NULL, name, "work", 1);
	}
	profile->time_ns = start_ns;
	profile->duration_ns = 60 * SECOND;
	err = store_add(store, profile, 60, error);
	profile_free(profile);
	return err;
}

static int fill(const char *path, int64_t minutes, int64_t end_ns, struct error *error)
{
	const struct store_limits limits = {UINT64_MAX, 400 * 86400, {7200, 86400}};
	struct store store;
	int err = store_open(&store, path, &limits, error);

	for (int64_t i = minutes; i > 0 && !err; i--)
		err = add_window(&store, end_ns - i * 60 * SECOND, i * 3 <= minutes ? 12 : 3,
				 error);
	/* As the server does: older windows are merged. */
	while (!err && store_maintain(&store, end_ns / 1000, error) > 0)
		;
	store_close(&store);
	return err;
}

static int listen_at(in_port_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN) ||
	    getsockname(fd, (struct sockaddr *)&address, &size))
		return -1;
	*port = ntohs(address.sin_port);
	return fd;
}

/* The process that samples, which ends with standard input. */
static void sample(int socket)
{
	struct reply reply = {.type = REPLY_READY};
	char byte;

	send_fd(socket, &reply, sizeof(reply), -1);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	reply.type = REPLY_END;
	send_fd(socket, &reply, sizeof(reply), -1);
}

int main(int argc, char **argv)
{
	const struct access access_data = {.token = NULL};
	struct http_config config = {
		.listener_count = 1,
		.statm = -1,
		.access = &access_data,
		.store = {.limits = {UINT64_MAX, 400 * 86400, {7200, 86400}},
			  .window_s = 60,
			  .labels = UINT32_MAX},
		.rate = 19,
		.cmdline = "serve_store",
		.cmdline_size = sizeof("serve_store"),
		.message = show,
	};
	const int64_t end_ns = now_ns(CLOCK_REALTIME) / (60 * SECOND) * 60 * SECOND;
	int64_t minutes = argc == 3 ? strtoll(argv[2], NULL, 10) : -1;
	const struct annotation_server_config reader = {.uid = SANDBOX_UID};
	struct annotation_server annotation = {.socket = -1};
	struct error error = {""};
	int ends[2], err = minutes < 0 ? -1 : microhttpd_load(&error);
	in_port_t port = 0;

	slow((uint64_t)argc);
	if (!err && !realpath("/proc/self/exe", program_path))
		err = -1;
	if (!err)
		err = annotation_server_start(&annotation, &reader, &error);
	config.annotation = &annotation;

	if (!err && minutes) {
		config.store.path = argv[1];
		err = fill(argv[1], minutes, end_ns, &error);
	}
	if (!err) {
		config.listeners[0] = (struct http_listener){
			.socket = listen_at(&port), .is_tcp = true, .is_loopback = true};
		err = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
	}
	if (err || config.listeners[0].socket < 0) {
		fprintf(stderr, "serve_store: %s\n", error.text);
		return 1;
	}
	config.socket = ends[1];
	printf("%u %" PRId64 "\n", port, end_ns / SECOND);
	fflush(stdout);
	if (!fork()) {
		close(ends[1]);
		close(annotation.socket);
		sample(ends[0]);
		return 0;
	}
	close(ends[0]);
	return http_run(&config, &error) ? 1 : 0;
}

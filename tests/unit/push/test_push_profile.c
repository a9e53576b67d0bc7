// SPDX-License-Identifier: GPL-2.0
/* Requests with the services of a profile, and their limits. This test is the server. */
#include "push/push_profile.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile_select.h"
#include "pprof/service.h"
#include "sample_profile.h"

#define REQUESTS_MAX 80
#define STACKS 8u
#define REASON "not today"
#define HIDDEN __attribute__((visibility("hidden")))

static struct http_client *const client = (struct http_client *)"client";
static struct push_options options;
static struct push_counts counts;
static struct error error;
static size_t done;

/* The answers, and the requests. */
static enum http_result answers[REQUESTS_MAX];
static struct {
	char *path;
	char *body;
	size_t size;
} requests[REQUESTS_MAX];
static size_t request_count;

enum http_result http_client_post(struct http_client *got, const struct http_request *request,
				  struct error *reason)
{
	const size_t size = request->size;
	enum http_result result;
	unsigned long fail_at = failing_malloc.fail_at;

	failing_malloc.fail_at = 0;
	assert_ptr_equal(got, client);
	assert_true(request_count < REQUESTS_MAX);
	requests[request_count].path = strdup(request->path);
	requests[request_count].body = malloc(size + 1);
	memcpy(requests[request_count].body, request->body, size);
	requests[request_count].body[size] = '\0';
	requests[request_count].size = size;
	result = answers[request_count++];
	if (result != HTTP_ACCEPTED)
		error_set(reason, EIO, REASON " %zu", request_count);
	failing_malloc.fail_at = fail_at;
	return result;
}

/* The body of all answers. */
static const char *answer;
static bool answer_is_protobuf;

const void *http_client_answer(const struct http_client *got, size_t *size, bool *is_protobuf)
{
	assert_ptr_equal(got, client);
	*is_protobuf = answer_is_protobuf;
	*size = strlen(answer);
	return answer;
}

static time_t seconds; /* of the clock */

HIDDEN int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = seconds};
	return 0;
}

/* System calls that fail, and files that end where their mapping does. */

enum call { NO_CALL, MEMFD_CREATE, FSTAT, MMAP, WRITE };

static enum call failing;
static void *mapped;

HIDDEN int memfd_create(const char *name, unsigned int flags)
{
	if (failing == MEMFD_CREATE) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_memfd_create, name, flags);
}

HIDDEN int fstat(int fd, struct stat *status)
{
	if (failing == FSTAT) {
		errno = EOVERFLOW;
		return -1;
	}
	return fstatat(fd, "", status, AT_EMPTY_PATH);
}

HIDDEN ssize_t write(int fd, const void *bytes, size_t size)
{
	if (failing == WRITE && fd > STDERR_FILENO) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, size);
}

HIDDEN void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fd < 0)
		return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
	if (failing == MMAP) {
		errno = ENODEV;
		return MAP_FAILED;
	}
	assert_null(mapped);
	mapped = __interceptor_malloc(size);
	assert_int_equal(pread(fd, mapped, size, offset), size);
	return mapped;
}

HIDDEN int munmap(void *at, size_t size)
{
	/* Nothing else was mapped. */
	assert_int_equal((uintptr_t)at % 4096 && at != mapped, 0);
	if (at != mapped)
		return (int)syscall(SYS_munmap, at, size);
	free(mapped);
	mapped = NULL;
	return 0;
}

static void forget_requests(void)
{
	for (size_t i = 0; i < request_count; i++) {
		free(requests[i].path);
		free(requests[i].body);
	}
	request_count = 0;
}

static int set_up(void **state)
{
	(void)state;
	options = (struct push_options){
		.form = PUSH_PPROF,
		.sample_labels = LABELS_ALL,
		.services_max = PUSH_SERVICES_MAX,
		.samples_max = PUSH_SAMPLES_MAX,
		.bytes_max = PUSH_BYTES_MAX,
	};
	memset(&counts, 0, sizeof(counts));
	memset(&error, 0, sizeof(error));
	for (size_t i = 0; i < REQUESTS_MAX; i++)
		answers[i] = HTTP_ACCEPTED;
	seconds = 1000;
	answer = "";
	answer_is_protobuf = true;
	done = 0;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fail_malloc(0, false);
	failing = NO_CALL;
	forget_requests();
	return 0;
}

static enum http_result push(const struct profile *profile)
{
	return push_profile(client, &options, profile, &done, &counts, &error);
}

/* `sent`: requests; `refused`: the sum of services; `next`: where the next push goes on. */
static void expect_push(const struct profile *profile, enum http_result result, size_t sent,
			size_t refused, size_t next)
{
	assert_int_equal(push(profile), result);
	assert_int_equal(request_count, sent);
	assert_int_equal(counts.refused, refused);
	assert_int_equal(done, next);
}

static struct profile *request_profile(size_t request)
{
	struct profile *profile;

	assert_true(request < request_count);
	profile = pprof_decode(requests[request].body, requests[request].size, "request", &error);
	if (!profile)
		fail_msg("%s", error.text);
	return profile;
}

/* Expects the samples of one service, and returns the profile. */
static struct profile *expect_request(size_t request, const char *service, int64_t samples)
{
	struct profile *profile = request_profile(request);
	int64_t sum = 0;

	for (size_t i = 0; i < profile->samples.count; i++) {
		assert_string_equal(service_of(profile, i), service);
		sum += profile_values(profile, i)[PROFILE_SAMPLES];
	}
	assert_true(sum == samples);
	return profile;
}

static bool has_label(const struct profile *profile, const char *key)
{
	for (size_t i = 0; i < profile->labels.count; i++) {
		if (!strcmp(profile_text(profile, profile->labels.items[i].key), key))
			return true;
	}
	return false;
}

/* A service with as many stacks, whose weights are different. */
static struct profile *profile_of_stacks(void)
{
	struct profile *profile = empty_profile();
	uint32_t app = example_mapping(profile, 0x400000, 0x500000, 0, "/usr/bin/app", "aabb");

	for (uint32_t i = 0; i < STACKS; i++) {
		uint32_t location;
		char name[64];

		snprintf(name, sizeof(name), "function_%u", i);
		location = example_location(profile, app, 0x400000 + 16 * i, NULL, name);
		example_sample(profile, &location, 1, 10 + i, "app");
	}
	return profile;
}

static void services_have_requests(void **state)
{
	struct profile *profile = example_profile(), *part;

	(void)state;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 2);
	assert_int_equal(done, 2);
	assert_string_equal(requests[0].path, "");
	/* The one with the most CPU time is the first. */
	part = expect_request(0, "app", 6);
	/* The window has the time of the whole profile. */
	assert_true(part->time_ns == profile->time_ns);
	assert_true(part->duration_ns == profile->duration_ns);
	assert_true(has_label(part, "comm"));
	assert_true(has_label(part, "pid"));
	profile_free(part);
	profile_free(expect_request(1, EXAMPLE_COMM, 5));
	assert_int_equal(counts.requests, 2);
	assert_int_equal(counts.samples, EXAMPLE_SAMPLES);
	assert_int_equal(counts.merged, 0);
	assert_int_equal(counts.refused, 0);
	assert_string_equal(error.text, "");
	/* There is no other one. */
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 2);
	profile_free(profile);
}

/* The number of services is up to the users of a machine. */
static void services_are_limited(void **state)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x10, NULL, "f");

	(void)state;
	for (uint32_t i = 0; i < 6; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%u", i);
		example_sample(profile, &location, 1, 10 + i, name);
	}
	options.services_max = 3;
	/* However often it is tried. */
	answers[0] = answers[1] = HTTP_UNAVAILABLE;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(counts.services_merged, 0);
	forget_requests();
	answers[0] = answers[1] = HTTP_ACCEPTED;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 3);
	profile_free(expect_request(0, "p5", 15));
	profile_free(expect_request(1, "p4", 14));
	assert_int_equal(counts.samples, 15 + 14 + 13 + 12 + 11 + 10);
	assert_int_equal(counts.services_merged, 3);
	assert_int_equal(done, 3);
	forget_requests();
	/* A profile that goes on is not counted again. */
	done = 2;
	options.form = PUSH_PYROSCOPE;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_non_null(strstr(requests[0].body, "\"value\":\"others\""));
	assert_int_equal(counts.services_merged, 3);
	profile_free(profile);
}

static void empty_profile_has_no_request(void **state)
{
	struct profile *profile = empty_profile();

	(void)state;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 0);
	profile_free(profile);
}

static void samples_have_the_chosen_labels(void **state)
{
	struct profile *profile = example_profile(), *part;

	(void)state;
	options.sample_labels = LABEL_SET(LABEL_COMM);
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	part = request_profile(0);
	assert_true(has_label(part, "comm"));
	assert_false(has_label(part, "pid"));
	profile_free(part);
	profile_free(profile);
}

/* As many as a request may have; others are left out. */
static void series_have_their_labels(void **state)
{
	static const char first[] = "{\"name\":\"service_name\",\"value\":\"app\"},"
				    "{\"name\":\"l00\",\"value\":\"v\"},"
				    "{\"name\":\"l01\",\"value\":\"v\"}";
	struct push_label labels[PUSH_LABELS_MAX + 1];
	char names[PUSH_LABELS_MAX + 1][8];
	struct profile *profile = example_profile();

	(void)state;
	for (unsigned int i = 0; i <= PUSH_LABELS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "l%02u", i);
		labels[i] = (struct push_label){names[i], "v"};
	}
	options.form = PUSH_PYROSCOPE;
	options.labels = labels;
	options.label_count = 2;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_string_equal(requests[0].path, "/push.v1.PusherService/Push");
	assert_non_null(strstr(requests[0].body, first));
	assert_null(strstr(requests[0].body, "l02"));
	assert_non_null(strstr(requests[1].body, "\"value\":\"<io> & \\\"co\\\"\""));
	forget_requests();
	done = 0;
	options.label_count = PUSH_LABELS_MAX + 1;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_non_null(strstr(requests[0].body, "\"l15\""));
	assert_null(strstr(requests[0].body, "\"l16\""));
	profile_free(profile);
}

/* An accepted request can have profiles that were rejected; another one can have a reason. */
static void answers_of_otlp_are_read(void **state)
{
	static const char rejection[] = "\x0a\x05\x08\x01\x12\x01x", reason[] = "\x08\x03\x12\x01y";
	struct profile *profile = example_profile();

	(void)state;
	options.form = PUSH_OTLP;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 2);
	assert_string_equal(requests[0].path, "/v1development/profiles");
	assert_memory_equal(requests[0].body, "\x1f\x8b", 2);
	assert_string_equal(error.text, "");
	done = 1;
	answer = rejection;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_string_equal(error.text, "the server has rejected profiles (1): x");
	assert_int_equal(counts.refused, 1);
	assert_int_equal(counts.requests, 2);
	done = 1;
	answer = reason;
	answers[3] = answers[4] = HTTP_UNAVAILABLE;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, REASON " 4: y");
	assert_int_equal(done, 1);
	/* Another server is in between. */
	answer_is_protobuf = false;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, REASON " 5");
	answers[5] = HTTP_ACCEPTED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_string_equal(error.text, "the answer is no message of OTLP");
	assert_int_equal(done, 2);
	done = 1;
	answer = "";
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	done = 1;
	/* Other servers answer what they like. */
	options.form = PUSH_PPROF;
	answer = rejection;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	profile_free(profile);
}

static void refused_service_is_left_out(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	answers[0] = HTTP_REFUSED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(request_count, 2);
	assert_int_equal(done, 2);
	assert_int_equal(counts.requests, 1);
	assert_int_equal(counts.samples, 5);
	assert_int_equal(counts.refused, 1);
	assert_string_equal(error.text, REASON " 1");
	profile_free(profile);
}

static void unavailable_server_gets_the_rest_later(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	answers[0] = HTTP_UNAVAILABLE;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(request_count, 1);
	assert_int_equal(done, 0);
	assert_string_equal(error.text, REASON " 1");
	answers[1] = HTTP_REFUSED;
	answers[2] = HTTP_UNAVAILABLE;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(request_count, 3);
	assert_int_equal(done, 1);
	assert_string_equal(error.text, REASON " 3");
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 4);
	assert_int_equal(done, 2);
	profile_free(expect_request(3, EXAMPLE_COMM, 5));
	assert_int_equal(counts.requests, 1);
	assert_int_equal(counts.samples, 5);
	assert_int_equal(counts.refused, 1);
	profile_free(profile);
}

/* The requests before fail: each ends the push. */
static void fail_requests(const struct profile *profile, size_t count)
{
	const size_t before = request_count;

	for (size_t i = 0; i < count; i++)
		answers[before + i] = HTTP_FAILED;
	for (size_t i = 0; i < count; i++)
		assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(request_count, before + count);
}

static void service_that_fails_does_not_stop_others(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	/* It may fail for a while. */
	fail_requests(profile, 4);
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(counts.refused, 0);
	forget_requests();
	done = 0;
	fail_requests(profile, 6);
	assert_int_equal(done, 0);
	seconds += 60;
	answers[6] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(request_count, 8);
	profile_free(expect_request(6, "app", 6));
	profile_free(expect_request(7, EXAMPLE_COMM, 5));
	assert_string_equal(error.text, REASON " 7");
	assert_int_equal(done, 2);
	assert_int_equal(counts.refused, 1);
	assert_int_equal(counts.requests, 3);
	/* The next one has its tries, too, if the server has accepted nothing for long. */
	forget_requests();
	done = 0;
	seconds += 600;
	fail_requests(profile, 4);
	seconds += 60;
	answers[4] = HTTP_FAILED;
	answers[5] = HTTP_ACCEPTED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(counts.refused, 2);
	assert_int_equal(done, 2);
	profile_free(profile);
}

/* The services p0, p1, ..., in this order. */
static struct profile *profile_of_services(uint32_t count)
{
	struct profile *profile = empty_profile();
	uint32_t location = example_location(profile, 0, 0x10, NULL, "f");

	for (uint32_t i = 0; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%u", i);
		example_sample(profile, &location, 1, 100 - i, name);
	}
	return profile;
}

/* A server without its storage refuses what it can't parse, and fails for all else. */
static void refusal_does_not_prove_that_the_server_works(void **state)
{
	struct profile *profile = profile_of_services(3);

	(void)state;
	fail_requests(profile, 4);
	for (size_t i = 0; i < 2; i++) {
		seconds += 1000;
		answers[request_count] = HTTP_FAILED;
		answers[request_count + 1 + i] = HTTP_REFUSED;
		answers[request_count + 2 - i] = HTTP_FAILED;
		assert_int_equal(push(profile), HTTP_UNAVAILABLE);
		assert_int_equal(request_count, 4 + 3 * (i + 1));
		assert_int_equal(done, 0);
		assert_int_equal(counts.refused, 0);
	}
	/* All behind it are refused. */
	answers[request_count] = HTTP_FAILED;
	answers[request_count + 1] = answers[request_count + 2] = HTTP_REFUSED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(counts.refused, 0);
	assert_int_equal(done, 0);
	/* A service is accepted behind a refused one. */
	forget_requests();
	answers[0] = HTTP_FAILED;
	answers[1] = HTTP_REFUSED;
	answers[2] = HTTP_ACCEPTED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_string_equal(error.text, REASON " 1");
	assert_int_equal(counts.refused, 2);
	assert_int_equal(counts.requests, 1);
	assert_int_equal(done, 3);
	profile_free(profile);
}

/* An outage that begins in the middle of a window. */
static void services_that_fail_together_are_waited_for(void **state)
{
	struct profile *profile = profile_of_services(3);

	(void)state;
	answers[1] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(done, 1);
	fail_requests(profile, 3);
	seconds += 1000;
	answers[request_count] = answers[request_count + 1] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(done, 1);
	assert_int_equal(counts.refused, 0);
	/* Only this service fails, while the other is refused for good. */
	forget_requests();
	answers[0] = HTTP_FAILED;
	answers[1] = HTTP_REFUSED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(done, 3);
	assert_int_equal(counts.refused, 2);
	assert_int_equal(counts.requests, 1);
	profile_free(profile);
}

/* Two services of one user that fail at the end of each window would hold up all others. */
static void profile_behind_proves_that_the_server_works(void **state)
{
	struct profile *profile = profile_of_services(3), *next = profile_of_services(2);
	size_t done_behind = 7;

	(void)state;
	answers[1] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_false(push_profile_fails_long(&counts));
	fail_requests(profile, 3);
	seconds += 60;
	answers[request_count] = answers[request_count + 1] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_false(push_profile_fails_long(&counts));
	seconds += 540;
	assert_true(push_profile_fails_long(&counts));
	/* A server that is away now may work later. */
	forget_requests();
	answers[0] = HTTP_UNAVAILABLE;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_false(push_profile_fails_long(&counts));
	answers[1] = answers[2] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_true(push_profile_fails_long(&counts));
	/* Neither a failure nor a refusal is a proof. */
	forget_requests();
	answers[0] = HTTP_FAILED;
	answers[1] = answers[2] = HTTP_REFUSED;
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(push_profile_behind(client, &options, next, &done_behind, &counts),
				 HTTP_UNAVAILABLE);
		assert_int_equal(request_count, 2 + i);
		assert_int_equal(done_behind, 7);
		assert_int_equal(counts.refused, 0);
		assert_true(push_profile_fails_long(&counts));
	}
	/* The first service fails, too, and the second one is accepted. */
	answers[3] = HTTP_FAILED;
	answers[4] = HTTP_ACCEPTED;
	assert_int_equal(push_profile_behind(client, &options, next, &done_behind, &counts),
			 HTTP_REFUSED);
	assert_int_equal(done_behind, 2);
	assert_int_equal(counts.refused, 3);
	assert_int_equal(counts.requests, 2);
	assert_false(push_profile_fails_long(&counts));
	/* All three services are given up, also p2, which the later profile does not have. */
	forget_requests();
	done = 1;
	answers[0] = answers[1] = HTTP_FAILED;
	expect_push(profile, HTTP_REFUSED, 2, 5, 3);
	profile_free(profile);
	profile_free(next);
}

/* In each window, these services would delay all others again. */
static void services_that_were_given_up_have_one_try(void **state)
{
	struct profile *profile = profile_of_services(3), *many = profile_of_services(70);

	(void)state;
	options.services_max = 100;
	fail_requests(profile, 4);
	seconds += 60;
	answers[4] = answers[5] = HTTP_FAILED;
	answers[6] = HTTP_ACCEPTED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(counts.refused, 2);
	/* One is accepted, and has all tries from then on. */
	forget_requests();
	done = 0;
	seconds += 599;
	answers[0] = HTTP_FAILED;
	answers[1] = answers[2] = HTTP_ACCEPTED;
	expect_push(profile, HTTP_REFUSED, 3, 3, 3);
	forget_requests();
	done = 0;
	answers[0] = answers[1] = HTTP_FAILED;
	expect_push(profile, HTTP_UNAVAILABLE, 2, 4, 1);
	/* Of more services than are remembered, the oldest ones are forgotten. */
	forget_requests();
	memset(&counts, 0, sizeof(counts));
	done = 0;
	fail_requests(many, 4);
	seconds += 60;
	for (size_t i = 4; i < 73; i++)
		answers[i] = HTTP_FAILED;
	answers[73] = HTTP_ACCEPTED;
	assert_int_equal(push(many), HTTP_REFUSED);
	assert_int_equal(counts.refused, 69);
	forget_requests();
	done = 0;
	answers[0] = HTTP_FAILED;
	assert_int_equal(push(many), HTTP_UNAVAILABLE);
	assert_int_equal(done, 0);
	profile_free(profile);
	profile_free(many);
}

static void server_that_fails_for_all_is_waited_for(void **state)
{
	static const enum http_result others[] = {HTTP_FAILED, HTTP_UNAVAILABLE};
	struct profile *profile = example_profile();

	(void)state;
	fail_requests(profile, 4);
	for (size_t i = 0; i < 2; i++) {
		seconds += 1000;
		answers[request_count] = HTTP_FAILED;
		answers[request_count + 1] = others[i];
		assert_int_equal(push(profile), HTTP_UNAVAILABLE);
		assert_int_equal(request_count, 4 + 2 * (i + 1));
		assert_string_equal(error.text, i ? REASON " 7" : REASON " 5");
	}
	assert_int_equal(done, 0);
	assert_int_equal(counts.refused, 0);
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(counts.requests, 2);
	profile_free(profile);
}

/* It has taken those before it. */
static void last_service_that_fails_is_left_out_at_last(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	answers[1] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_UNAVAILABLE);
	assert_int_equal(done, 1);
	fail_requests(profile, 5);
	seconds += 599;
	fail_requests(profile, 1);
	seconds++;
	answers[request_count] = HTTP_FAILED;
	assert_int_equal(push(profile), HTTP_REFUSED);
	assert_int_equal(done, 2);
	assert_int_equal(counts.requests, 1);
	assert_int_equal(counts.refused, 1);
	profile_free(profile);
}

/* Pushes a profile of one service, and expects a number of samples in the request. */
static void expect_reduced(const struct profile *profile, size_t samples)
{
	struct profile *part;
	int64_t sum = 0;

	forget_requests();
	done = 0;
	counts.merged = 0;
	assert_int_equal(push(profile), HTTP_ACCEPTED);
	assert_int_equal(request_count, 1);
	part = request_profile(0);
	assert_int_equal(part->samples.count, samples);
	for (size_t i = 0; i < samples; i++)
		sum += profile_values(part, i)[PROFILE_SAMPLES];
	/* 10 + 11 + ... */
	assert_int_equal(sum, 10 * STACKS + STACKS * (STACKS - 1) / 2);
	assert_int_equal(counts.merged, STACKS - samples);
	profile_free(part);
}

static void requests_have_few_samples(void **state)
{
	struct profile *profile = profile_of_stacks();

	(void)state;
	options.samples_max = STACKS;
	expect_reduced(profile, STACKS);
	options.samples_max = STACKS - 1;
	expect_reduced(profile, STACKS - 1);
	options.samples_max = 2;
	expect_reduced(profile, 2);
	profile_free(profile);
}

/* Returns the size of the request, unpacked. */
static size_t unpacked_size(void)
{
	const unsigned char *end = (unsigned char *)requests[0].body + requests[0].size;

	return end[-4] | (size_t)end[-3] << 8 | (size_t)end[-2] << 16 | (size_t)end[-1] << 24;
}

static void requests_have_few_bytes(void **state)
{
	struct profile *profile = profile_of_stacks();

	(void)state;
	expect_reduced(profile, STACKS);
	assert_true(unpacked_size() > 256);
	options.bytes_max = unpacked_size();
	expect_reduced(profile, STACKS);
	options.bytes_max--;
	expect_reduced(profile, STACKS / 2);
	options.bytes_max = unpacked_size() - 1;
	expect_reduced(profile, STACKS / 4);
	/* It does not get smaller. */
	options.bytes_max = 0;
	expect_reduced(profile, 2);
	options.samples_max = 5;
	expect_reduced(profile, 2);
	options.samples_max = 3;
	expect_reduced(profile, 3);
	profile_free(profile);
}

static void failed_calls_are_errors(void **state)
{
	struct profile *profile = example_profile();

	(void)state;
	for (failing = MEMFD_CREATE; failing <= WRITE; failing++) {
		error.text[0] = '\0';
		assert_int_equal(push(profile), HTTP_UNAVAILABLE);
		assert_string_not_equal(error.text, "");
		assert_int_equal(done, 0);
		assert_null(mapped);
	}
	assert_int_equal(request_count, 0);
	assert_int_equal(counts.requests + counts.samples + counts.refused, 0);
	profile_free(profile);
}

/* At any time; all is pushed once memory is there again. */
static void lack_of_memory_is_an_error(void **state)
{
	struct profile *profile = profile_of_stacks();
	unsigned long number = 0;
	enum http_result result;

	(void)state;
	options.samples_max = 4;
	do {
		error.text[0] = '\0';
		fail_malloc(++number, true);
		result = push(profile);
		fail_malloc(0, false);
		if (result == HTTP_ACCEPTED)
			break;
		assert_int_equal(result, HTTP_UNAVAILABLE);
		assert_string_not_equal(error.text, "");
		assert_int_equal(request_count, 0);
		assert_int_equal(done, 0);
		assert_null(mapped);
	} while (number < 100000);
	assert_true(number > 10);
	assert_int_equal(result, HTTP_ACCEPTED);
	assert_int_equal(request_count, 1);
	assert_int_equal(done, 1);
	profile_free(profile);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(services_have_requests),
		TEST(services_are_limited),
		TEST(empty_profile_has_no_request),
		TEST(samples_have_the_chosen_labels),
		TEST(series_have_their_labels),
		TEST(answers_of_otlp_are_read),
		TEST(refused_service_is_left_out),
		TEST(unavailable_server_gets_the_rest_later),
		TEST(service_that_fails_does_not_stop_others),
		TEST(refusal_does_not_prove_that_the_server_works),
		TEST(services_that_fail_together_are_waited_for),
		TEST(profile_behind_proves_that_the_server_works),
		TEST(services_that_were_given_up_have_one_try),
		TEST(server_that_fails_for_all_is_waited_for),
		TEST(last_service_that_fails_is_left_out_at_last),
		TEST(requests_have_few_samples),
		TEST(requests_have_few_bytes),
		TEST(failed_calls_are_errors),
		TEST(lack_of_memory_is_an_error),
	};

	return cmocka_run_group_tests_name("push_profile", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Requests for annotated functions: the input is the parameters, each as two strings, an empty
 * string, and a profile. The answer is JSON, also with a server whose annotator sends the end of
 * the input: as one or two replies, and as the file of the last one.
 */
#include "fuzz.h"

#include <json-c/json.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "sandbox/fd_passing.h"
#include "serve/annotation_server.h"
#include "serve/request.h"

#define PARAMETERS_MAX 8u
#define REPLY_SIZE 260u

/* What an annotator sends that an attacker has taken over. */
struct annotator_bytes {
	int socket;
	const uint8_t *bytes;
	size_t size;
};

static int write_file(const uint8_t *bytes, size_t size)
{
	int file = memfd_create("annotation", MFD_CLOEXEC);

	if (file < 0 || write(file, bytes, size) != (ssize_t)size)
		abort();
	return file;
}

static void *send_replies(void *arg)
{
	const struct annotator_bytes *annotator = arg;
	uint8_t ask[16384];
	const size_t first = annotator->size < REPLY_SIZE ? annotator->size : REPLY_SIZE;
	const size_t left = annotator->size - first;
	const size_t second = left < REPLY_SIZE ? left : REPLY_SIZE;
	const uint8_t *bytes = annotator->bytes;
	int job = -1, file, profile = -1;

	if (receive_fd(annotator->socket, ask, sizeof(ask), &job) <= 0 || job < 0)
		return NULL;
	if (first && !send_fd(job, bytes, first, -1) && second &&
	    receive_fd(job, ask, 1, &profile) > 0) {
		file = write_file(bytes + first, left);
		send_fd(job, bytes + first, second, bytes[first + second - 1] & 1 ? -1 : file);
		close(file);
	}
	if (profile >= 0)
		close(profile);
	close(job);
	return NULL;
}

static int answer(const struct annotation_server *server, const struct profile *profile,
		  const struct request *request, int out)
{
	const struct annotation_request asked = {request->function, request->file};
	struct error error = {""};
	int err = annotation_server_answer(server, profile, &asked, out, &error);

	if (err && !*error.text)
		abort();
	return err;
}

/* Without a server, the answer is JSON, of valid characters. */
static void check_own_answer(const struct profile *profile, const struct request *request)
{
	int out = write_file((const uint8_t *)"", 0);
	struct json_object *json;
	size_t size;
	char *text;

	if (!answer(NULL, profile, request, out)) {
		size = (size_t)lseek(out, 0, SEEK_END);
		text = calloc(1, size + 1);
		if (!text || pread(out, text, size, 0) != (ssize_t)size)
			abort();
		json = json_tokener_parse(text);
		if (!json || !utf8_valid(text))
			abort();
		json_object_put(json);
		free(text);
	}
	close(out);
}

static void ask_bad_annotator(const struct profile *profile, const struct request *request,
			      const uint8_t *bytes, size_t size)
{
	struct annotation_server server;
	struct annotator_bytes annotator = {.bytes = bytes, .size = size};
	int out = write_file((const uint8_t *)"", 0), ends[2];
	pthread_t thread;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		abort();
	server = (struct annotation_server){.socket = ends[0]};
	annotator.socket = ends[1];
	if (pthread_create(&thread, NULL, send_replies, &annotator))
		abort();
	answer(&server, profile, request, out);
	/* It may not have asked. */
	close(ends[0]);
	pthread_join(thread, NULL);
	close(ends[1]);
	close(out);
}

static bool make_request(struct request *request, char *const parameters[], size_t count)
{
	struct error error;
	bool is_valid = true;

	request_init(request, INT64_C(1700000000000000));
	for (size_t i = 0; i + 1 < count; i += 2)
		is_valid = !request_parameter(request, parameters[i], parameters[i + 1], &error) &&
			   is_valid;
	for (size_t i = 0; i < count; i++) {
		request_is_to_machine(parameters[i], parameters[0]);
		request_is_of_other_site(parameters[i]);
	}
	for (enum request_purpose purpose = 0; purpose < REQUEST_OTHER; purpose++) {
		struct request checked = *request;

		request_check(&checked, purpose, &error);
	}
	return !request_check(request, REQUEST_ANNOTATION, &error) && is_valid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *parameters[PARAMETERS_MAX];
	struct profile *profile;
	struct request request;
	struct error error;
	size_t count = 0;

	while (count < PARAMETERS_MAX && size && *data)
		parameters[count++] = fuzz_text(&data, &size);
	if (size) {
		data++;
		size--;
	}
	if (make_request(&request, parameters, count)) {
		profile = pprof_decode(data, size, "fuzz", &error);
		if (profile) {
			const size_t replies = size < 2 * REPLY_SIZE ? size : 2 * REPLY_SIZE;

			check_own_answer(profile, &request);
			ask_bad_annotator(profile, &request, data + size - replies, replies);
		}
		profile_free(profile);
	}
	while (count)
		free(parameters[--count]);
	return 0;
}

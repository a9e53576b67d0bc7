// SPDX-License-Identifier: GPL-2.0
#include "push/push_profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/hash.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/profile_reduce.h"
#include "pprof/profile_select.h"
#include "pprof/service.h"
#include "push/otlp_writer.h"

/* The end of a gzip file has the size of the data modulo 2^32 (RFC 1952). */
#define GZIP_SIZE_BYTES 4
/* So often and so long, a request is tried again before others are tried. */
#define FAILURES_MAX 5u
#define FAILING_NS (60 * NS_PER_SECOND)
/* Without another request to try: accepted requests of the same window show that the server works.
 */
#define FAILING_LONG_NS (600 * NS_PER_SECOND)
/* Halved until the profile is small enough. */
#define REDUCED_SAMPLES_MIN 2u

/* The labels of a series. */
struct series {
	struct push_label labels[PUSH_SERIES_LABELS_MAX];
	size_t count;
};

/* A gzipped profile in memory. */
struct encoded {
	void *bytes;
	size_t size;
};

static size_t unpacked_size(const struct encoded *encoded)
{
	const unsigned char *end = (const unsigned char *)encoded->bytes + encoded->size;
	size_t size = 0;

	for (int i = 1; i <= GZIP_SIZE_BYTES; i++)
		size = size << 8 | end[-i];
	return size;
}

static void encoded_clear(struct encoded *encoded)
{
	if (encoded->bytes)
		munmap(encoded->bytes, encoded->size);
	encoded->bytes = NULL;
}

static int push_profile_encode(const struct push_options *options, const struct series *series,
			       const struct profile *profile, struct encoded *encoded,
			       struct error *error)
{
	int file = memfd_create("profile", MFD_CLOEXEC), err;
	struct stat status;

	*encoded = (struct encoded){0};
	if (file < 0)
		return error_errno(error, errno, "can't encode a profile");
	err = options->form == PUSH_OTLP
		      ? otlp_write_fd(profile, series->labels, series->count, file, error)
		      : pprof_write_fd(profile, file, "a profile", error);
	if (!err && fstat(file, &status))
		err = error_errno(error, errno, "can't encode a profile");
	if (!err) {
		encoded->size = (size_t)status.st_size;
		encoded->bytes = mmap(NULL, encoded->size, PROT_READ, MAP_PRIVATE, file, 0);
		if (encoded->bytes == MAP_FAILED) {
			encoded->bytes = NULL;
			err = error_errno(error, errno, "can't encode a profile");
		}
	}
	close(file);
	return err;
}

/* Encodes a profile within the limits. Sets *merged to the entries that were merged for that. */
static int encode_within(const struct push_options *options, const struct series *series,
			 const struct profile *profile, struct encoded *encoded, uint64_t *merged,
			 struct error *error)
{
	size_t max = options->samples_max;

	for (;;) {
		struct profile *reduced = NULL;
		int err = profile_reduce(profile, max, &reduced);

		if (err)
			return error_errno(error, -err, "can't reduce a profile");
		*merged = reduced ? profile->samples.count - reduced->samples.count : 0;
		err = push_profile_encode(options, series, reduced ? reduced : profile, encoded,
					  error);
		profile_free(reduced);
		if (!encoded->bytes)
			return err;
		if (unpacked_size(encoded) <= options->bytes_max || max / 2 < REDUCED_SAMPLES_MIN)
			return 0;
		encoded_clear(encoded);
		max = MIN(max, profile->samples.count) / 2;
	}
}

static struct series make_series(const struct push_options *options, const char *service)
{
	struct series series = {
		.labels = {{push_service_label(options->form), service}},
		.count = 1,
	};

	for (size_t i = 0; i < options->label_count && i < PUSH_LABELS_MAX; i++)
		series.labels[series.count++] = options->labels[i];
	return series;
}

/* Adds what the answer says to the result of a request. */
static enum http_result read_answer(const struct http_client *client, enum http_result result,
				    struct error *error)
{
	struct error reason;
	size_t size, used;
	bool is_protobuf;
	const void *answer = http_client_answer(client, &size, &is_protobuf);

	if (!is_protobuf) {
		if (result != HTTP_ACCEPTED || !size)
			return result;
		/* Of another server, or one in between, which may have accepted the profile. */
		error_set(error, EBADMSG, "the answer is no message of OTLP");
		return HTTP_REFUSED;
	}
	if (!otlp_read_answer(answer, size, result == HTTP_ACCEPTED, &reason))
		return result;
	if (result == HTTP_ACCEPTED) {
		*error = reason;
		return HTTP_REFUSED;
	}
	used = strlen(error->text);
	snprintf(error->text + used, sizeof(error->text) - used, ": %s", reason.text);
	return result;
}

static enum http_result push_profile_post(struct http_client *client,
					  const struct push_options *options,
					  const struct series *series,
					  const struct encoded *encoded, struct error *error)
{
	struct push_request request;
	enum http_result result;

	if (push_request_make(&request, options->form, series->labels, series->count,
			      encoded->bytes, encoded->size)) {
		error_errno(error, ENOMEM, "can't make a request");
		return HTTP_UNAVAILABLE;
	}
	result = http_client_post(client, &request.http, error);
	free(request.body);
	return options->form == PUSH_OTLP ? read_answer(client, result, error) : result;
}

static enum http_result push_service(struct http_client *client, const struct push_options *options,
				     const struct profile *profile,
				     const struct service_division *division, size_t number,
				     struct push_counts *counts, struct error *error)
{
	const struct service *service = &division->services.items[number];
	const struct profile_selection selection = {
		.service = service->name,
		.services = division->names,
		.labels = options->sample_labels,
	};
	const struct series series = make_series(options, service->name);
	struct profile *part = profile_new();
	struct encoded encoded = {0};
	enum http_result result;
	uint64_t merged = 0;
	int err = part ? profile_select(part, profile, &selection) : -ENOMEM;

	if (err)
		error_errno(error, -err, "can't divide a profile");
	if (!err) {
		/* The window of the whole profile. */
		part->time_ns = profile->time_ns;
		part->duration_ns = profile->duration_ns;
		err = encode_within(options, &series, part, &encoded, &merged, error);
	}
	result = err ? HTTP_UNAVAILABLE
		     : push_profile_post(client, options, &series, &encoded, error);
	if (result == HTTP_ACCEPTED) {
		counts->requests++;
		counts->samples += (uint64_t)service->samples;
		counts->merged += merged;
	}
	encoded_clear(&encoded);
	profile_free(part);
	return result;
}

static uint32_t *push_services_find(struct push_services *services, uint32_t hash)
{
	const size_t count = MIN(services->added, PUSH_REMEMBERED_MAX);

	for (size_t i = 0; i < count; i++) {
		if (services->hashes[i] == hash)
			return &services->hashes[i];
	}
	return NULL;
}

static void push_services_add(struct push_services *services, uint32_t hash)
{
	if (!push_services_find(services, hash))
		services->hashes[services->added++ % PUSH_REMEMBERED_MAX] = hash;
}

/* The server has failed for these services, and takes others. */
static void give_up_services(struct push_counts *counts, const struct push_services *failing)
{
	for (size_t i = 0; i < MIN(failing->added, PUSH_REMEMBERED_MAX); i++)
		push_services_add(&counts->given_up, failing->hashes[i]);
}

/* Notes the answer for a service. Returns it, or HTTP_REFUSED if the service is given up again. */
static enum http_result note_answer(struct push_counts *counts, uint32_t hash, bool is_first,
				    enum http_result result)
{
	uint32_t *given_up = push_services_find(&counts->given_up, hash);
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (result == HTTP_ACCEPTED) {
		counts->accepted_ns = now;
		if (given_up)
			*given_up = 0;
	}
	if (result != HTTP_FAILED)
		return result;
	if (is_first && given_up && counts->accepted_ns &&
	    now - counts->accepted_ns < FAILING_LONG_NS)
		return HTTP_REFUSED;
	push_services_add(&counts->failing, hash);
	return result;
}

/* Returns whether a request has failed so often that it may be to blame. */
static bool fails_again(struct push_counts *counts)
{
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (!counts->failures++)
		counts->failing_since_ns = now;
	return counts->failures >= FAILURES_MAX && now - counts->failing_since_ns >= FAILING_NS;
}

/* Returns whether the only request that fails, behind `first` others of its window, is to blame. */
static bool fails_alone(const struct push_counts *counts, size_t first)
{
	return first && now_ns(CLOCK_MONOTONIC) - counts->failing_since_ns >= FAILING_LONG_NS;
}

/*
 * Pushes the service *next and sets *next to the one behind it. If the server fails, again and
 * again, it pushes those behind it until one is accepted, and the ones before it are refused. A
 * server that has lost what is behind it can still refuse requests: that does not prove it works.
 */
static enum http_result push_next(struct http_client *client, const struct push_options *options,
				  const struct profile *profile,
				  const struct service_division *division, size_t *next,
				  struct push_counts *counts, struct error *error)
{
	const size_t first = *next;
	struct error reason, *into = error;
	enum http_result result;
	size_t failed = 0, refused;

	counts->left = 0;
	counts->failing.added = 0;
	do {
		const uint32_t hash = hash_string(0, division->services.items[*next].name);

		result = push_service(client, options, profile, division, (*next)++, counts, into);
		result = note_answer(counts, hash, !failed, result);
		if (result == HTTP_FAILED && !failed++ && !fails_again(counts))
			return HTTP_UNAVAILABLE;
		/* The message is about the first service. */
		into = &reason;
	} while (failed && (result == HTTP_FAILED || result == HTTP_REFUSED) &&
		 *next < division->services.count);
	if (result == HTTP_UNAVAILABLE)
		return HTTP_UNAVAILABLE;
	if (failed && result != HTTP_ACCEPTED && (failed > 1 || !fails_alone(counts, first))) {
		counts->left = division->services.count - first;
		return HTTP_UNAVAILABLE;
	}
	counts->failures = 0;
	give_up_services(counts, &counts->failing);
	refused = *next - first - (result == HTTP_ACCEPTED);
	counts->refused += refused;
	return refused ? HTTP_REFUSED : HTTP_ACCEPTED;
}

enum http_result push_profile(struct http_client *client, const struct push_options *options,
			      const struct profile *profile, size_t *done,
			      struct push_counts *counts, struct error *error)
{
	enum http_result result = HTTP_ACCEPTED;
	struct service_division division;

	if (service_division_make(&division, profile, options->services_max)) {
		error_errno(error, ENOMEM, "can't divide a profile");
		result = HTTP_UNAVAILABLE;
	}
	while (result != HTTP_UNAVAILABLE && *done < division.services.count) {
		size_t next = *done;
		enum http_result one =
			push_next(client, options, profile, &division, &next, counts, error);

		if (one != HTTP_ACCEPTED)
			result = one;
		if (one == HTTP_UNAVAILABLE)
			break;
		/* Once for each profile, however often it is tried. */
		if (!*done)
			counts->services_merged += division.merged;
		*done = next;
	}
	service_division_clear(&division);
	return result;
}

bool push_profile_fails_long(const struct push_counts *counts)
{
	return counts->left &&
	       now_ns(CLOCK_MONOTONIC) - counts->failing_since_ns >= FAILING_LONG_NS;
}

enum http_result push_profile_behind(struct http_client *client, const struct push_options *options,
				     const struct profile *profile, size_t *done,
				     struct push_counts *counts)
{
	struct push_counts tried = *counts;
	struct service_division division;
	struct error reason;
	size_t next = 0;

	if (service_division_make(&division, profile, options->services_max))
		return HTTP_UNAVAILABLE;
	if (division.services.count)
		push_next(client, options, profile, &division, &next, &tried, &reason);
	if (tried.requests > counts->requests) {
		tried.refused += counts->left;
		give_up_services(&tried, &counts->failing);
		tried.services_merged += division.merged;
		*counts = tried;
		*done = next;
	} else {
		next = 0;
	}
	service_division_clear(&division);
	return next ? HTTP_REFUSED : HTTP_UNAVAILABLE;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gives a profile to a server: one request for each service in it, as servers know profiles by
 * service. Requests keep the limits of the server: the lightest stacks are merged.
 */
#ifndef STACKBEAT_PUSH_PUSH_PROFILE_H
#define STACKBEAT_PUSH_PUSH_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "push/http_client.h"
#include "push/push_request.h"

struct error;
struct profile;

struct push_options {
	enum push_form form;
	const struct push_label *labels; /* of each series, in addition to service_name */
	size_t label_count;
	uint32_t sample_labels; /* LABEL_SET()s of the samples that stay */
	size_t services_max; /* of a profile, from 2 on: the smallest others are one */
	size_t samples_max; /* samples of a request */
	size_t bytes_max; /* of the unpacked profile in a request */
	int64_t delay_us; /* of a store's window, after its end */
};

#define PUSH_SERVICES_MAX 256u
#define PUSH_SAMPLES_MAX 16000u /* what Pyroscope accepts by default */
#define PUSH_BYTES_MAX ((size_t)4 << 20) /* likewise */

/* Services that are remembered in a set; beyond, the oldest one is replaced. */
#define PUSH_REMEMBERED_MAX 64u

struct push_services {
	uint32_t hashes[PUSH_REMEMBERED_MAX]; /* of their names */
	size_t added;
};

/* Sums; all zero: none yet. */
struct push_counts {
	uint64_t requests; /* that were accepted */
	uint64_t samples; /* in them: the value of the first value type */
	uint64_t merged; /* entries of profiles that were merged for the limits */
	uint64_t services_merged; /* that are a part of another one for the limits */
	uint64_t refused; /* requests that the server refused */
	/* Private: of the request that fails while others may not. */
	unsigned int failures; /* one after another */
	int64_t failing_since_ns; /* CLOCK_MONOTONIC */
	size_t left; /* services at the end of a profile for which the server fails; 0: none */
	struct push_services failing; /* of that profile */
	struct push_services given_up; /* for which the server has failed while it took others */
	int64_t accepted_ns; /* CLOCK_MONOTONIC: the last service; 0: none */
};

/*
 * Pushes the services of a profile that come after the first *done ones, and counts *done up:
 * called again after HTTP_UNAVAILABLE, it goes on where it stopped. Services that the server
 * refuses are counted and left out; `error` has the last reason. So are those for which the server
 * has failed (HTTP_FAILED) several times, if it accepts others behind them: a service that the
 * server can't take, for whatever reason, does not hold up all. If no other
 * one fails, a service behind others of its profile is left out after ten minutes. A service that
 * was left out so is left out again at its first failure, if the server has accepted another one
 * within ten minutes, until it is accepted itself. Returns
 * HTTP_ACCEPTED if all were accepted, HTTP_REFUSED if some were refused, or HTTP_UNAVAILABLE with a
 * message: also for a lack of memory.
 */
enum http_result push_profile(struct http_client *client, const struct push_options *options,
			      const struct profile *profile, size_t *done,
			      struct push_counts *counts, struct error *error);

/* Returns whether the server has failed for the rest of a profile for ten minutes. */
bool push_profile_fails_long(const struct push_counts *counts);

/*
 * Pushes a later profile while that rest fails, until one of its services is accepted. This proves
 * that the server works: the rest is counted as refused, and *done is set to the services of the
 * later profile that are done. Returns HTTP_REFUSED then, or HTTP_UNAVAILABLE with nothing changed.
 */
enum http_result push_profile_behind(struct http_client *client, const struct push_options *options,
				     const struct profile *profile, size_t *done,
				     struct push_counts *counts);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* The parameters of HTTP requests. They are untrusted. */
#ifndef STACKBEAT_SERVE_REQUEST_H
#define STACKBEAT_SERVE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "pprof/labels.h"
#include "pprof/profile_select.h"

struct error;

#define REQUEST_SECONDS_DEFAULT 30u /* as net/http/pprof of Go */
#define REQUEST_SECONDS_MAX 300u
#define REQUEST_RATE_MAX 1000u
#define REQUEST_STEPS_DEFAULT 60u
#define REQUEST_STEPS_MAX 1000u

/*
 * Labels of an answer that asks for none. Servers make a series of each set of label values that
 * are strings, so that names of threads and processes are not among them.
 */
#define REQUEST_LABELS_DEFAULT                                                                     \
	(LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_CGROUP) | LABEL_SET(LABEL_CONTAINER) |             \
	 LABEL_SET(LABEL_TRUNCATED))

enum request_format {
	REQUEST_PPROF,
	REQUEST_FOLDED,
	REQUEST_SPEEDSCOPE,
	REQUEST_FLAMEGRAPH,
};

/* What a request is for: it may have other parameters. */
enum request_purpose {
	REQUEST_SESSION, /* a profile of the session */
	REQUEST_RANGE, /* a profile of a time range of the store */
	REQUEST_LIST, /* a list of what is stored in a time range */
	REQUEST_TIMELINE,
	REQUEST_ANNOTATION,
	REQUEST_OTHER, /* all parameters are ignored */
};

/* Strings come from request_parameter(). */
struct request {
	uint32_t seconds;
	uint32_t rate; /* Hz; 0: as the continuous session */
	int64_t from_us, until_us; /* since 1970 */
	struct profile_selection selection;
	enum request_format format;
	const char *group; /* label whose values are the second row of a flame graph; NULL: none */
	/* The profile that a flame graph is compared with, as far as it differs. */
	bool has_base;
	int64_t base_from_us, base_until_us;
	const char *base_service;
	uint32_t steps; /* of a timeline */
	const char *function, *file; /* of an annotation; `file` NULL: any */
	uint32_t given; /* private: parameters that were given */
};

/* Sets the defaults; `now_us`: the time range ends there, and begins an hour before. */
void request_init(struct request *request, int64_t now_us);

/*
 * Stores a parameter of a URL, both parts decoded; `value` NULL: it has none. Of a parameter that
 * is repeated, the first one counts, as scrapers repeat them. Returns 0, or -EINVAL with a message.
 * `value` must outlive `request`.
 */
int request_parameter(struct request *request, const char *key, const char *value,
		      struct error *error);

/*
 * Checks what depends on several parameters, and completes the base. Returns 0, or -EINVAL with a
 * message.
 */
int request_check(struct request *request, enum request_purpose purpose, struct error *error);

/*
 * Parses a time: seconds since 1970 with at most 6 decimals, or RFC 3339 in UTC, as in
 * "2026-01-31T23:59:00Z". Returns false if it is none.
 */
bool request_time(const char *text, int64_t *time_us);

/*
 * Returns whether the host of a request is this machine's loopback: "localhost", "127.0.0.1" or
 * "[::1]", with or without a port. A page on another host that a browser was led to believe to be
 * this one (DNS rebinding) has another name.
 */
bool request_is_to_loopback(const char *host);

/*
 * Returns whether the host of a request is the loopback, an address, which no page of another name
 * has, or the machine with this `name`: as a whole, or without its domain.
 */
bool request_is_to_machine(const char *host, const char *name);

/*
 * Returns whether a browser sends the request for a page of another site, by its header
 * Sec-Fetch-Site (NULL: none): such a page can't read the answer, but would have profiles made.
 */
bool request_is_of_other_site(const char *sec_fetch_site);

#endif

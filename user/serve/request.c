// SPDX-License-Identifier: GPL-2.0
#include "serve/request.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/error.h"
#include "report/call_tree.h"

#define US_PER_S INT64_C(1000000)
#define RANGE_DEFAULT_S 3600
#define TIME_S_MAX INT64_C(253402300799) /* of the year 9999 */
#define SHOWN 64 /* characters of a value in a message */

void request_init(struct request *request, int64_t now_us)
{
	*request = (struct request){
		.seconds = REQUEST_SECONDS_DEFAULT,
		.from_us = now_us - RANGE_DEFAULT_S * US_PER_S,
		.until_us = now_us,
		.steps = REQUEST_STEPS_DEFAULT,
		.selection.labels = REQUEST_LABELS_DEFAULT,
	};
}

static bool parse_decimal(const char *text, int64_t max, int64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return !errno && !*end && *number <= max;
}

static int not_valid(const char *key, const char *value, const char *expected, struct error *error)
{
	return error_set(error, EINVAL, "%s: '%.*s' is not %s", key, SHOWN, value, expected);
}

/* As net/http/pprof of Go: what is no positive number is the default. */
static int request_parse_seconds(struct request *request, const char *value, struct error *error)
{
	int64_t seconds;

	if (!parse_decimal(value, INT64_MAX, &seconds) || !seconds)
		return 0;
	if (seconds > REQUEST_SECONDS_MAX)
		return error_set(error, EINVAL, "seconds: at most %u", REQUEST_SECONDS_MAX);
	request->seconds = (uint32_t)seconds;
	return 0;
}

static int request_parse_rate(struct request *request, const char *value, struct error *error)
{
	int64_t rate;

	if (!parse_decimal(value, REQUEST_RATE_MAX, &rate) || !rate)
		return error_set(error, EINVAL, "hz: '%.*s' is not a rate from 1 to %u", SHOWN,
				 value, REQUEST_RATE_MAX);
	request->rate = (uint32_t)rate;
	return 0;
}

static int parse_pid(struct request *request, const char *value, struct error *error)
{
	if (!parse_decimal(value, INT32_MAX, &request->selection.pid) || !request->selection.pid)
		return not_valid("pid", value, "a process ID", error);
	return 0;
}

static int parse_labels(struct request *request, const char *value, struct error *error)
{
	struct labels labels = {0};
	int err = labels_choose(&labels, value, error);

	request->selection.labels = labels.chosen;
	return err;
}

static int parse_symbols(struct request *request, const char *value, struct error *error)
{
	if (strcmp(value, "0") && strcmp(value, "1"))
		return not_valid("symbols", value, "0 or 1", error);
	request->selection.without_symbols = *value == '0';
	return 0;
}

static int parse_format(struct request *request, const char *value, struct error *error)
{
	if (!strcmp(value, "folded"))
		request->format = REQUEST_FOLDED;
	else if (!strcmp(value, "speedscope"))
		request->format = REQUEST_SPEEDSCOPE;
	else if (!strcmp(value, "flamegraph"))
		request->format = REQUEST_FLAMEGRAPH;
	else if (strcmp(value, "pprof"))
		return not_valid("format", value, "pprof, folded, speedscope or flamegraph", error);
	return 0;
}

static int parse_steps(struct request *request, const char *value, struct error *error)
{
	int64_t steps;

	if (!parse_decimal(value, REQUEST_STEPS_MAX, &steps) || !steps)
		return error_set(error, EINVAL, "steps: '%.*s' is not a number from 1 to %u", SHOWN,
				 value, REQUEST_STEPS_MAX);
	request->steps = (uint32_t)steps;
	return 0;
}

static bool parse_rfc3339(const char *text, int64_t *time_us)
{
	struct tm utc = {0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc);
	int64_t seconds;

	if (!end || *end || !isdigit((unsigned char)*text))
		return false;
	seconds = timegm(&utc);
	*time_us = seconds * US_PER_S;
	return seconds >= 0 && seconds <= TIME_S_MAX;
}

bool request_time(const char *text, int64_t *time_us)
{
	int64_t unit = US_PER_S, seconds;
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	seconds = strtoll(text, &end, 10);
	if (errno || (*end && *end != '.'))
		return parse_rfc3339(text, time_us);
	if (seconds > TIME_S_MAX)
		return false;
	*time_us = seconds * US_PER_S;
	if (!*end)
		return true;
	for (end++; isdigit((unsigned char)*end) && unit > 1; end++) {
		unit /= 10;
		*time_us += (*end - '0') * unit;
	}
	return !*end && unit < US_PER_S;
}

static int parse_time(const char *key, const char *value, int64_t *time_us, struct error *error)
{
	return request_time(value, time_us)
		       ? 0
		       : not_valid(key, value, "a time: seconds since 1970 or RFC 3339 in UTC",
				   error);
}

static int parse_string(const char *key, const char *value, const char **string,
			struct error *error)
{
	*string = value;
	return *value ? 0 : error_set(error, EINVAL, "%s: it is empty", key);
}

enum parameter {
	SECONDS,
	RATE,
	PID,
	CGROUP,
	CONTAINER,
	SERVICE,
	LABELS,
	SYMBOLS,
	FORMAT,
	FROM,
	UNTIL,
	GROUP,
	BASE_FROM,
	BASE_UNTIL,
	BASE_SERVICE,
	STEPS,
	FUNCTION,
	FILE_NAME,
	DEBUG,
	GC,
};

static const char *const names[] = {
	[SECONDS] = "seconds",
	[RATE] = "hz",
	[PID] = "pid",
	[CGROUP] = "cgroup",
	[CONTAINER] = "container",
	[SERVICE] = "service",
	[LABELS] = "labels",
	[SYMBOLS] = "symbols",
	[FORMAT] = "format",
	[FROM] = "from",
	[UNTIL] = "until",
	[GROUP] = "group",
	[BASE_FROM] = "base_from",
	[BASE_UNTIL] = "base_until",
	[BASE_SERVICE] = "base_service",
	[STEPS] = "steps",
	[FUNCTION] = "function",
	[FILE_NAME] = "file",
	[DEBUG] = "debug",
	[GC] = "gc",
};

int request_parameter(struct request *request, const char *key, const char *value,
		      struct error *error)
{
	struct profile_selection *selection = &request->selection;
	size_t parameter = 0;

	while (parameter < sizeof(names) / sizeof(names[0]) && strcmp(names[parameter], key))
		parameter++;
	if (parameter == sizeof(names) / sizeof(names[0]))
		return error_set(error, EINVAL, "there is no parameter '%.*s'", SHOWN, key);
	if (request->given & 1u << parameter)
		return 0;
	request->given |= 1u << parameter;
	value = value ? value : "";
	switch ((enum parameter)parameter) {
	case SECONDS:
		return request_parse_seconds(request, value, error);
	case RATE:
		return request_parse_rate(request, value, error);
	case PID:
		return parse_pid(request, value, error);
	case CGROUP:
		return parse_string(key, value, &selection->cgroup, error);
	case CONTAINER:
		return parse_string(key, value, &selection->container, error);
	case SERVICE:
		return parse_string(key, value, &selection->service, error);
	case LABELS:
		return parse_labels(request, value, error);
	case SYMBOLS:
		return parse_symbols(request, value, error);
	case FORMAT:
		return parse_format(request, value, error);
	case FROM:
		return parse_time(key, value, &request->from_us, error);
	case UNTIL:
		return parse_time(key, value, &request->until_us, error);
	case GROUP:
		return parse_string(key, value, &request->group, error);
	case BASE_FROM:
		return parse_time(key, value, &request->base_from_us, error);
	case BASE_UNTIL:
		return parse_time(key, value, &request->base_until_us, error);
	case BASE_SERVICE:
		return parse_string(key, value, &request->base_service, error);
	case STEPS:
		return parse_steps(request, value, error);
	case FUNCTION:
		return parse_string(key, value, &request->function, error);
	case FILE_NAME:
		return parse_string(key, value, &request->file, error);
	case DEBUG: /* of Go's handlers; they change nothing here */
	case GC:
		return 0;
	}
	return 0;
}

static bool is_given(const struct request *request, enum parameter parameter)
{
	return request->given & 1u << parameter;
}

static int check_base(struct request *request, struct error *error)
{
	request->has_base = is_given(request, BASE_FROM) || is_given(request, BASE_UNTIL) ||
			    is_given(request, BASE_SERVICE);
	if (!is_given(request, BASE_FROM))
		request->base_from_us = request->from_us;
	if (!is_given(request, BASE_UNTIL))
		request->base_until_us = request->until_us;
	if (!request->base_service)
		request->base_service = request->selection.service;
	if (request->has_base && request->format != REQUEST_FLAMEGRAPH)
		return error_set(error, EINVAL, "a base is compared with format=flamegraph only");
	if (request->base_from_us >= request->base_until_us)
		return error_set(error, EINVAL,
				 "the time range of the base is empty: 'base_from' is not before "
				 "'base_until'");
	return 0;
}

#define SET(parameter) (1u << (parameter))
#define OF_GO (SET(DEBUG) | SET(GC))
#define OF_TIME (SET(FROM) | SET(UNTIL))
#define OF_SAMPLES (SET(PID) | SET(CGROUP) | SET(CONTAINER) | SET(SERVICE))
#define OF_PROFILE (OF_SAMPLES | SET(LABELS) | SET(SYMBOLS) | SET(FORMAT) | SET(GROUP))

static const uint32_t allowed[] = {
	[REQUEST_SESSION] = OF_PROFILE | SET(SECONDS) | SET(RATE) | OF_GO,
	[REQUEST_RANGE] =
		OF_PROFILE | OF_TIME | SET(BASE_FROM) | SET(BASE_UNTIL) | SET(BASE_SERVICE) | OF_GO,
	[REQUEST_LIST] = OF_TIME | OF_GO,
	[REQUEST_TIMELINE] = OF_TIME | SET(STEPS) | OF_GO,
	[REQUEST_ANNOTATION] = OF_SAMPLES | OF_TIME | SET(FUNCTION) | SET(FILE_NAME) | OF_GO,
	[REQUEST_OTHER] = UINT32_MAX,
};

/* An answer for less than what was asked for would be a wrong one. */
static int check_allowed(const struct request *request, enum request_purpose purpose,
			 struct error *error)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (request->given & ~allowed[purpose] & SET(i))
			return error_set(error, EINVAL, "there is no parameter '%s' here",
					 names[i]);
	}
	return 0;
}

int request_check(struct request *request, enum request_purpose purpose, struct error *error)
{
	enum label group;

	if (check_allowed(request, purpose, error))
		return -EINVAL;
	if (request->from_us >= request->until_us)
		return error_set(error, EINVAL,
				 "the time range is empty: 'from' is not before "
				 "'until'");
	if (purpose == REQUEST_ANNOTATION && !request->function)
		return error_set(error, EINVAL, "there is no function: add 'function=NAME'");
	if (request->group && request->format != REQUEST_FLAMEGRAPH)
		return error_set(error, EINVAL, "group: with format=flamegraph only");
	/* A label that samples are grouped by is to be kept. */
	group = request->group ? label_choice(request->group) : LABEL_COUNT;
	if (request->group && !strcmp(request->group, GROUP_SERVICE))
		request->selection.labels |= LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_CONTAINER);
	else if (group < LABEL_COUNT)
		request->selection.labels |= LABEL_SET(group);
	return check_base(request, error);
}

/* Returns whether the first `length` bytes of `name` are the host of a request, but for its port.
 */
static bool is_host(const char *host, const char *name, size_t length)
{
	return !strncasecmp(host, name, length) && (!host[length] || host[length] == ':');
}

bool request_is_to_loopback(const char *host)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++) {
		if (is_host(host, loopback[i], strlen(loopback[i])))
			return true;
	}
	return false;
}

static bool is_address(const char *host)
{
	const bool is_ipv6 = *host == '[';
	const size_t length = is_ipv6 ? strcspn(host, "]") : strcspn(host, ":");
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (length >= sizeof(text) || (is_ipv6 && !host[length]))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(length - is_ipv6), host + is_ipv6);
	return is_host(host, host, length + is_ipv6) &&
	       inet_pton(is_ipv6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

bool request_is_to_machine(const char *host, const char *name)
{
	const size_t label = strcspn(name, ".");

	return request_is_to_loopback(host) || is_address(host) ||
	       (label && (is_host(host, name, strlen(name)) || is_host(host, name, label)));
}

bool request_is_of_other_site(const char *sec_fetch_site)
{
	return sec_fetch_site && strcmp(sec_fetch_site, "same-origin") != 0 &&
	       strcmp(sec_fetch_site, "none") != 0;
}

// SPDX-License-Identifier: GPL-2.0
/* Parameters of HTTP requests. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "lib/error.h"
#include "serve/request.h"

static struct request parse(const char *key, const char *value)
{
	struct request request;
	struct error error = {""};

	request_init(&request, 7200 * INT64_C(1000000));
	if (request_parameter(&request, key, value, &error))
		fail_msg("%s", error.text);
	return request;
}

static void refuse(const char *key, const char *value, const char *message)
{
	struct request request;
	struct error error = {""};

	request_init(&request, 0);
	assert_int_equal(request_parameter(&request, key, value, &error), -EINVAL);
	if (!strstr(error.text, message))
		fail_msg("%s=%s: %s", key, value, error.text);
}

static void defaults_are_those_of_go(void **state)
{
	struct request request;

	(void)state;
	request_init(&request, 7200 * INT64_C(1000000));
	assert_int_equal(request.seconds, 30);
	assert_int_equal(request.rate, 0);
	assert_int_equal(request.from_us, 3600 * INT64_C(1000000));
	assert_int_equal(request.until_us, 7200 * INT64_C(1000000));
	assert_int_equal(request.selection.labels & LABEL_SET(LABEL_COMM), 0);
	assert_int_equal(request.selection.labels & LABEL_SET(LABEL_THREAD), 0);
	assert_int_equal(parse("seconds", "0").seconds, 30);
	assert_int_equal(parse("seconds", "-1").seconds, 30);
	assert_int_equal(parse("seconds", "x").seconds, 30);
	assert_int_equal(parse("seconds", "1x").seconds, 30);
	assert_int_equal(parse("seconds", NULL).seconds, 30);
	assert_int_equal(parse("seconds", "99999999999999999999").seconds, 30);
}

static void values_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(parse("seconds", "1").seconds, 1);
	assert_int_equal(parse("seconds", "300").seconds, 300);
	refuse("seconds", "301", "at most 300");
	assert_int_equal(parse("hz", "1").rate, 1);
	assert_int_equal(parse("hz", "1000").rate, 1000);
	refuse("hz", "0", "'0' is not a rate");
	refuse("hz", "1001", "'1001' is not a rate");
	refuse("hz", "-1", "not a rate");
	refuse("hz", "", "not a rate");
	assert_int_equal(parse("pid", "2147483647").selection.pid, 2147483647);
	assert_int_equal(parse("steps", "1").steps, 1);
	assert_int_equal(parse("steps", "1000").steps, 1000);
	refuse("steps", "0", "'0' is not a number from 1 to 1000");
	refuse("steps", "1001", "'1001' is not a number");
	refuse("pid", "0", "not a process ID");
	refuse("pid", "2147483648", "not a process ID");
	refuse("pid", "1,2", "not a process ID");
}

static void filters_are_strings(void **state)
{
	(void)state;
	assert_string_equal(parse("service", "a b").selection.service, "a b");
	assert_string_equal(parse("container", "c").selection.container, "c");
	assert_string_equal(parse("cgroup", "/a").selection.cgroup, "/a");
	refuse("service", "", "empty");
	refuse("cgroup", NULL, "empty");
	refuse("servce", "x", "no parameter 'servce'");
	assert_int_equal(parse("labels", "comm,pid").selection.labels,
			 LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_PID));
	assert_int_equal(parse("labels", "none").selection.labels, 0);
	refuse("labels", "no-such", "no-such");
	assert_true(parse("symbols", "0").selection.without_symbols);
	assert_false(parse("symbols", "1").selection.without_symbols);
	refuse("symbols", "2", "not 0 or 1");
	assert_int_equal(parse("format", "folded").format, REQUEST_FOLDED);
	assert_int_equal(parse("format", "speedscope").format, REQUEST_SPEEDSCOPE);
	assert_int_equal(parse("format", "pprof").format, REQUEST_PPROF);
	assert_int_equal(parse("format", "flamegraph").format, REQUEST_FLAMEGRAPH);
	refuse("format", "svg", "not pprof, folded, speedscope or flamegraph");
	assert_string_equal(parse("group", "comm").group, "comm");
	refuse("group", "", "empty");
	assert_string_equal(parse("base_service", "a b").base_service, "a b");
	refuse("base_service", NULL, "empty");
	assert_int_equal(parse("base_from", "5").base_from_us, 5000000);
	refuse("base_from", "x", "base_from: 'x' is not a time");
	assert_int_equal(parse("base_until", "7").base_until_us, 7000000);
	refuse("base_until", "x", "base_until: 'x' is not a time");
	parse("debug", "1");
	parse("gc", NULL);
}

static void first_of_repeated_parameters_counts(void **state)
{
	struct request request;

	(void)state;
	request_init(&request, 0);
	assert_int_equal(request_parameter(&request, "seconds", "5", NULL), 0);
	assert_int_equal(request_parameter(&request, "seconds", "301", NULL), 0);
	assert_int_equal(request.seconds, 5);
}

static void times_have_two_forms(void **state)
{
	static const char *const bad[] = {
		"",
		"x",
		"-1",
		"1.",
		"1.x",
		"1.1234567",
		"253402300800",
		"2026-01-31",
		"2026-01-31T23:59:00",
		"2026-01-31T23:59:00Zx",
		"99999999999999999999",
		" 1",
		"1 ",
	};
	int64_t time;

	(void)state;
	assert_true(request_time("0", &time));
	assert_int_equal(time, 0);
	assert_true(request_time("1769903940", &time));
	assert_int_equal(time, 1769903940000000);
	assert_true(request_time("1.5", &time));
	assert_int_equal(time, 1500000);
	assert_true(request_time("1.000001", &time));
	assert_int_equal(time, 1000001);
	assert_true(request_time("253402300799", &time));
	assert_true(request_time("9999-12-31T23:59:59Z", &time));
	assert_int_equal(time, 253402300799000000);
	assert_true(request_time("1970-01-01T00:00:00Z", &time));
	assert_int_equal(time, 0);
	assert_false(request_time("1969-12-31T23:59:59Z", &time));
	assert_true(request_time("2026-01-31T23:59:00Z", &time));
	assert_int_equal(time, 1769903940000000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (request_time(bad[i], &time))
			fail_msg("'%s' is a time", bad[i]);
	}
	refuse("from", "yesterday", "not a time");
}

static void range_must_not_be_empty(void **state)
{
	struct request request;

	(void)state;
	request_init(&request, 0);
	request.from_us = request.until_us = 5;
	assert_int_equal(request_check(&request, REQUEST_RANGE, NULL), -EINVAL);
	request.from_us = 4;
	assert_int_equal(request_check(&request, REQUEST_RANGE, NULL), 0);
}

static int check(struct request *request, struct error *error, const char *const parameters[][2])
{
	request_init(request, 7200 * INT64_C(1000000));
	for (size_t i = 0; parameters[i][0]; i++)
		assert_int_equal(
			request_parameter(request, parameters[i][0], parameters[i][1], error), 0);
	return request_check(request, REQUEST_RANGE, error);
}

/* The profile has what is not given. */
static void base_is_completed(void **state)
{
	struct request request;
	struct error error;

	(void)state;
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"from", "100"},
							{"until", "200"},
							{"service", "web"},
							{NULL}}),
			 0);
	assert_false(request.has_base);
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"from", "100"},
							{"until", "200"},
							{"base_service", "db"},
							{NULL}}),
			 0);
	assert_true(request.has_base);
	assert_int_equal(request.base_from_us, 100000000);
	assert_int_equal(request.base_until_us, 200000000);
	assert_string_equal(request.base_service, "db");
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"service", "web"},
							{"base_until", "6000"},
							{NULL}}),
			 0);
	assert_true(request.has_base);
	assert_int_equal(request.base_from_us, 3600000000);
	assert_int_equal(request.base_until_us, 6000000000);
	assert_string_equal(request.base_service, "web");
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){
				       {"format", "flamegraph"}, {"base_from", "7200"}, {NULL}}),
			 -EINVAL);
	assert_non_null(strstr(error.text, "the time range of the base is empty"));
	assert_int_equal(
		check(&request, &error, (const char *const[][2]){{"base_from", "1"}, {NULL}}),
		-EINVAL);
	assert_non_null(strstr(error.text, "with format=flamegraph only"));
}

/* An answer without what was asked for would be a wrong one. */
static void parameters_are_those_of_the_path(void **state)
{
	static const struct {
		const char *key, *value;
		bool allowed[REQUEST_OTHER]; /* session, range, list, timeline, annotation */
	} cases[] = {
		{"seconds", "1", {true, false, false, false, false}},
		{"hz", "1", {true, false, false, false, false}},
		{"pid", "1", {true, true, false, false, true}},
		{"cgroup", "/a", {true, true, false, false, true}},
		{"container", "a", {true, true, false, false, true}},
		{"service", "a", {true, true, false, false, true}},
		{"labels", "pid", {true, true, false, false, false}},
		{"symbols", "0", {true, true, false, false, false}},
		{"format", "folded", {true, true, false, false, false}},
		{"from", "1", {false, true, true, true, true}},
		{"until", "9000", {false, true, true, true, true}},
		{"steps", "5", {false, false, false, true, false}},
		{"function", "main", {false, false, false, false, true}},
		{"file", "app", {false, false, false, false, true}},
		{"debug", "1", {true, true, true, true, true}},
		{"gc", "1", {true, true, true, true, true}},
	};
	struct request request;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned int purpose = 0; purpose <= REQUEST_OTHER; purpose++) {
			bool allowed = purpose == REQUEST_OTHER || cases[i].allowed[purpose];

			request_init(&request, 7200 * INT64_C(1000000));
			assert_int_equal(
				request_parameter(&request, cases[i].key, cases[i].value, &error),
				0);
			if (purpose == REQUEST_ANNOTATION)
				request.function = "main";
			error.text[0] = '\0';
			assert_int_equal(
				request_check(&request, (enum request_purpose)purpose, &error),
				allowed ? 0 : -EINVAL);
			if (!allowed)
				assert_non_null(strstr(error.text, cases[i].key));
		}
	}
}

static void annotations_have_a_function(void **state)
{
	struct request request;
	struct error error;

	(void)state;
	assert_string_equal(parse("function", "a b").function, "a b");
	assert_string_equal(parse("file", "/bin/a").file, "/bin/a");
	refuse("function", "", "empty");
	request_init(&request, 7200 * INT64_C(1000000));
	assert_int_equal(request_check(&request, REQUEST_ANNOTATION, &error), -EINVAL);
	assert_non_null(strstr(error.text, "function=NAME"));
}

/* Answers lack the names of processes otherwise. */
static void grouping_keeps_its_label(void **state)
{
	struct request request;
	struct error error;

	(void)state;
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"group", "comm"},
							{"labels", "pid"},
							{NULL}}),
			 0);
	assert_int_equal(request.selection.labels, LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_PID));
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"group", "region"},
							{"labels", "pid"},
							{NULL}}),
			 0);
	/* A label of programs. */
	assert_int_equal(request.selection.labels,
			 LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_GO_LABELS));
	/* A service is a container or the name of a process. */
	assert_int_equal(check(&request, &error,
			       (const char *const[][2]){{"format", "flamegraph"},
							{"group", "service"},
							{"labels", "pid"},
							{NULL}}),
			 0);
	assert_int_equal(request.selection.labels,
			 LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_CONTAINER));
	assert_int_equal(
		check(&request, &error, (const char *const[][2]){{"format", "flamegraph"}, {NULL}}),
		0);
	assert_int_equal(request.selection.labels, REQUEST_LABELS_DEFAULT);
	assert_int_equal(
		check(&request, &error, (const char *const[][2]){{"group", "comm"}, {NULL}}),
		-EINVAL);
	assert_non_null(strstr(error.text, "group: with format=flamegraph only"));
}

static void hosts_of_the_loopback(void **state)
{
	(void)state;
	assert_true(request_is_to_loopback("localhost"));
	assert_true(request_is_to_loopback("LOCALHOST:7079"));
	assert_true(request_is_to_loopback("127.0.0.1:7079"));
	assert_true(request_is_to_loopback("[::1]:7079"));
	assert_false(request_is_to_loopback(""));
	assert_false(request_is_to_loopback("localhost.example.org"));
	assert_false(request_is_to_loopback("127.0.0.1.example.org"));
	assert_false(request_is_to_loopback("example.org"));
}

static void hosts_of_the_machine(void **state)
{
	static const char *const own[] = {
		"localhost:80",
		"127.0.0.1",
		"192.0.2.1",
		"192.0.2.1:7079",
		"[2001:db8::1]",
		"[::]:7079",
		"node",
		"NODE:7079",
		"node.example.org",
		"node.example.org:7079",
	};
	static const char *const others[] = {
		"",
		":80",
		".",
		"evil.example",
		"node.evil.example",
		"node.example",
		"node.example.org.x",
		"nod",
		"192.0.2",
		"192.0.2.1.example",
		"192.0.2.256",
		"[192.0.2.1]",
		"[2001:db8::1",
		"2001:db8::1",
		"[2001:db8::1]x",
		"[]",
		"[",
		"[::1%eth0]",
		"1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111",
		"[1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111:1111]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (!request_is_to_machine(own[i], "node.example.org"))
			fail_msg("'%s' is another host", own[i]);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (request_is_to_machine(others[i], "node.example.org"))
			fail_msg("'%s' is the host", others[i]);
	}
	assert_true(request_is_to_machine("node:80", "node"));
	assert_false(request_is_to_machine("node.example.org", "node"));
	/* A machine without a name. */
	assert_false(request_is_to_machine("", ""));
	assert_false(request_is_to_machine("", ".org"));
}

static void pages_of_other_sites(void **state)
{
	(void)state;
	assert_false(request_is_of_other_site(NULL));
	assert_false(request_is_of_other_site("none"));
	assert_false(request_is_of_other_site("same-origin"));
	/* Another port of the loopback. */
	assert_true(request_is_of_other_site("same-site"));
	assert_true(request_is_of_other_site("cross-site"));
	assert_true(request_is_of_other_site(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_those_of_go),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(filters_are_strings),
		cmocka_unit_test(first_of_repeated_parameters_counts),
		cmocka_unit_test(times_have_two_forms),
		cmocka_unit_test(range_must_not_be_empty),
		cmocka_unit_test(base_is_completed),
		cmocka_unit_test(parameters_are_those_of_the_path),
		cmocka_unit_test(annotations_have_a_function),
		cmocka_unit_test(grouping_keeps_its_label),
		cmocka_unit_test(hosts_of_the_loopback),
		cmocka_unit_test(hosts_of_the_machine),
		cmocka_unit_test(pages_of_other_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

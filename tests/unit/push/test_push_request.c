// SPDX-License-Identifier: GPL-2.0
/* The bytes of requests, and what the answers of servers mean. tests/cli/push.py sends them. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "push/http_client.h"
#include "push/push_request.h"

static void check(enum push_form form, const struct push_label *labels, size_t count,
		  const char *pprof, const char *path, const char *body)
{
	struct push_request request;

	assert_int_equal(push_request_make(&request, form, labels, count, pprof, strlen(pprof)), 0);
	assert_string_equal(request.http.path, path);
	assert_ptr_equal(request.http.body, request.body);
	assert_int_equal(request.http.size, strlen(body));
	assert_memory_equal(request.body, body, request.http.size);
	free(request.body);
}

static void test_bodies(void **state)
{
	const struct push_label labels[] = {{"service_name", "a \"b\"/c"}, {"zone", "x"}};

	(void)state;
	check(PUSH_PYROSCOPE, labels, 2, "foobar", "/push.v1.PusherService/Push",
	      "{\"series\":[{\"labels\":[{\"name\":\"__name__\",\"value\":\"process_cpu\"},"
	      "{\"name\":\"service_name\",\"value\":\"a \\\"b\\\"/c\"},"
	      "{\"name\":\"zone\",\"value\":\"x\"}],\"samples\":[{\"rawProfile\":\"Zm9vYmFy\"}]}]"
	      "}");
	check(PUSH_PARCA, labels, 1, "foobar", "/api/profiles/writeraw",
	      "{\"series\":[{\"labels\":{\"labels\":[{\"name\":\"__name__\",\"value\":"
	      "\"process_cpu\"},{\"name\":\"service_name\",\"value\":\"a \\\"b\\\"/c\"}]},"
	      "\"samples\":[{\"rawProfile\":\"Zm9vYmFy\"}]}]}");
	check(PUSH_PPROF, labels, 2, "foobar", "", "foobar");
	check(PUSH_OTLP, labels, 2, "foobar", "/v1development/profiles", "foobar");
}

static void test_headers(void **state)
{
	static const struct {
		enum push_form form;
		const char *type, *encoding;
		bool errors_refuse;
	} forms[] = {
		{PUSH_PYROSCOPE, "application/json", NULL, false},
		{PUSH_PARCA, "application/json", NULL, false},
		{PUSH_PPROF, "application/octet-stream", NULL, false},
		{PUSH_OTLP, "application/x-protobuf", "gzip", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct push_request request;

		assert_int_equal(push_request_make(&request, forms[i].form, NULL, 0, "a", 1), 0);
		assert_string_equal(request.http.type, forms[i].type);
		assert_int_equal(!request.http.encoding, !forms[i].encoding);
		if (forms[i].encoding)
			assert_string_equal(request.http.encoding, forms[i].encoding);
		assert_int_equal(request.http.errors_refuse, forms[i].errors_refuse);
		free(request.body);
	}
}

/* The test vectors of RFC 4648, section 10, and each digit. */
static void test_base64(void **state)
{
	static const struct {
		const char *bytes, *text;
	} vectors[] = {
		{"", ""},
		{"f", "Zg=="},
		{"fo", "Zm8="},
		{"foo", "Zm9v"},
		{"foob", "Zm9vYg=="},
		{"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"},
		{"\xff\xef\xbe\xfb\xff", "/++++/8="},
		{"\xfb\xf0\x3f", "+/A/"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		char body[256];

		snprintf(body, sizeof(body),
			 "{\"series\":[{\"labels\":[{\"name\":\"__name__\",\"value\":"
			 "\"process_cpu\"}],\"samples\":[{\"rawProfile\":\"%s\"}]}]}",
			 vectors[i].text);
		check(PUSH_PYROSCOPE, NULL, 0, vectors[i].bytes, "/push.v1.PusherService/Push",
		      body);
	}
}

static void test_names_of_labels(void **state)
{
	static const char *const good[] = {"a", "_aZ09_", "_"};
	static const char *const bad[] = {"", "__name__", "9a", "a-b", "a ", "\xc3\xa4", ".a"};

	(void)state;
	for (int form = PUSH_PYROSCOPE; form <= PUSH_OTLP; form++) {
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
			assert_true(push_label_is_valid((enum push_form)form, good[i]));
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
			assert_false(push_label_is_valid((enum push_form)form, bad[i]));
		assert_int_equal(push_label_is_valid((enum push_form)form, "a.b0"),
				 form == PUSH_OTLP);
	}
	assert_string_equal(push_service_label(PUSH_PARCA), "service_name");
	assert_string_equal(push_host_label(PUSH_PYROSCOPE), "instance");
	assert_string_equal(push_service_label(PUSH_OTLP), "service.name");
	assert_string_equal(push_host_label(PUSH_OTLP), "host.name");
}

static void test_meaning_of_statuses(void **state)
{
	static const long accepted[] = {200, 201, 202, 204, 299};
	static const long unavailable[] = {0,   100, 199, 300, 302, 401, 403,
					   404, 407, 408, 429, 502, 503, 504};
	static const long failed[] = {500, 501, 505, 599};
	static const long refused[] = {400, 402, 405, 406, 409, 411, 413, 415, 422, 499};

	(void)state;
	for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++)
		assert_int_equal(http_result_of_status(accepted[i]), HTTP_ACCEPTED);
	for (size_t i = 0; i < sizeof(unavailable) / sizeof(unavailable[0]); i++)
		assert_int_equal(http_result_of_status(unavailable[i]), HTTP_UNAVAILABLE);
	for (size_t i = 0; i < sizeof(failed) / sizeof(failed[0]); i++)
		assert_int_equal(http_result_of_status(failed[i]), HTTP_FAILED);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		assert_int_equal(http_result_of_status(refused[i]), HTTP_REFUSED);
}

static void test_local_urls(void **state)
{
	static const char *const local[] = {
		"http://localhost", "http://localhost:1/", "HTTP://LOCALHOST/x",
		"http://127.0.0.1", "http://127.0.0.1:80", "http://[::1]:80/",
	};
	static const char *const others[] = {
		"https://localhost", "http://localhost.example",
		"http://127.0.0.10", "http://127.0.0.1.example/",
		"http://[::10]/",    "http://",
		"localhost",         "",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		assert_true(http_is_local(local[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(http_is_local(others[i]));
}

/* No request is made. */
static void test_wrong_options_are_refused(void **state)
{
	static const struct {
		struct http_options options;
		const char *message;
	} cases[] = {
		{{.url = "localhost:80"}, "'localhost:80' is no URL"},
		{{.url = "file:///etc/passwd"}, "no URL"},
		{{.url = "http://"}, "has no host"},
		{{.url = "https:///a"}, "has no host"},
		{{.url = "http://a b"}, "character"},
		{{.url = "http://a\n"}, "character"},
		{{.url = "http://a?b"}, "character"},
		{{.url = "http://a#b"}, "character"},
		{{.url = "http://me@a/"}, "has a user"},
		{{.url = "http://a", .header_file = "/none"}, "needs --insecure"},
		{{.url = "https://a", .header_file = "/none"}, "can't read /none"},
		{{.url = "http://[::1]", .header_file = "/none"}, "can't read /none"},
		{{.url = "http://a", .header_file = "/none", .insecure = true}, "can't read /none"},
	};
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_null(http_client_new(&cases[i].options, &error));
		assert_non_null(strstr(error.text, cases[i].message));
	}
}

static void test_forms(void **state)
{
	enum push_form form = PUSH_PPROF;
	struct error error;

	(void)state;
	assert_int_equal(push_form_parse("pyroscope", &form, &error), 0);
	assert_int_equal(form, PUSH_PYROSCOPE);
	assert_int_equal(push_form_parse("parca", &form, &error), 0);
	assert_int_equal(form, PUSH_PARCA);
	assert_int_equal(push_form_parse("pprof", &form, &error), 0);
	assert_int_equal(form, PUSH_PPROF);
	assert_int_equal(push_form_parse("otlp-experimental", &form, &error), 0);
	assert_int_equal(form, PUSH_OTLP);
	assert_int_equal(push_form_parse("otlp", &form, &error), -EINVAL);
	assert_int_equal(push_form_parse("pprof", &form, &error), 0);
	assert_int_equal(push_form_parse("", &form, &error), -EINVAL);
	assert_int_equal(push_form_parse("pprofs", &form, &error), -EINVAL);
	assert_int_equal(form, PUSH_PPROF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_base64),
		cmocka_unit_test(test_names_of_labels),
		cmocka_unit_test(test_meaning_of_statuses),
		cmocka_unit_test(test_local_urls),
		cmocka_unit_test(test_wrong_options_are_refused),
		cmocka_unit_test(test_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * What the client asks of libcurl, and makes of its answers. This test is libcurl:
 * tests/cli/push.py has a real one, and a server.
 */
#include "push/http_client.h"

#include "sandbox.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>

#include "failing_malloc.h"
#include "lib/error.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define URL "http://server.example:4040"
#define BODY "body"
#define HEADERS_MAX 64
#define REASON_MAX 320 /* bytes of a reason in a message */
#define OPTIONS_MAX 32

typedef size_t write_fn(char *bytes, size_t size, size_t count, void *arg);
typedef int progress_fn(void *arg, curl_off_t to_get, curl_off_t got, curl_off_t to_send,
			curl_off_t sent);

static time_t now_s = 1000;

HIDDEN int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = now_s};
	return 0;
}

static struct {
	/* What it is to do. */
	unsigned int absent; /* libraries, by bits */
	const char *missing; /* a function */
	bool no_handle;
	unsigned int setopt_fails_at, append_fails_at; /* calls, from 1; 0: none does */
	CURLcode result;
	const char *detail; /* of the result */
	long status;
	const char *reply, *reply_type; /* NULL: none */
	curl_off_t retry_after; /* of the answer, seconds */
	size_t reply_unit, reply_part; /* bytes of an item, and of the parts of the reply */
	curl_off_t to_send, sent;
	unsigned int seconds; /* of a request, at each of which libcurl asks whether to go on */
	/* What happened. */
	unsigned int opened, closed, handles, setopts, appends, performed;
	size_t reply_taken;
	struct {
		CURLoption option;
		long number;
		const void *pointer;
	} options[OPTIONS_MAX];
	size_t option_count;
	char url[256], certificate[64], key[64], passphrase[8];
	char headers[8192]; /* each with a newline */
	char body[64];
} curl;

static struct error error;

static bool is_type(CURLoption option, unsigned int type)
{
	return option / 10000 == type / 10000;
}

static CURL *fake_init(void)
{
	if (curl.no_handle)
		return NULL;
	curl.handles++;
	return (CURL *)&curl;
}

static void fake_cleanup(CURL *handle)
{
	assert_ptr_equal(handle, &curl);
	curl.handles--;
}

/* Keeps the last value of each option. */
static CURLcode fake_setopt(CURL *handle, CURLoption option, ...)
{
	size_t i = 0;
	va_list args;

	assert_ptr_equal(handle, &curl);
	if (++curl.setopts == curl.setopt_fails_at)
		return CURLE_UNKNOWN_OPTION;
	while (i < curl.option_count && curl.options[i].option != option)
		i++;
	if (i == curl.option_count)
		curl.option_count++;
	assert_true(curl.option_count <= OPTIONS_MAX);
	curl.options[i].option = option;
	va_start(args, option);
	if (is_type(option, CURLOPTTYPE_LONG))
		curl.options[i].number = va_arg(args, long);
	else if (is_type(option, CURLOPTTYPE_OFF_T))
		curl.options[i].number = va_arg(args, curl_off_t);
	else
		curl.options[i].pointer = va_arg(args, void *);
	va_end(args);
	/* Strings but the body are copied. */
	if (option == CURLOPT_URL)
		snprintf(curl.url, sizeof(curl.url), "%s", (char *)curl.options[i].pointer);
	if (option == CURLOPT_SSLCERT)
		strcpy(curl.certificate, curl.options[i].pointer);
	if (option == CURLOPT_SSLKEY)
		strcpy(curl.key, curl.options[i].pointer);
	if (option == CURLOPT_KEYPASSWD)
		strcpy(curl.passphrase, curl.options[i].pointer);
	return CURLE_OK;
}

static bool is_set(CURLoption option)
{
	for (size_t i = 0; i < curl.option_count; i++) {
		if (curl.options[i].option == option)
			return true;
	}
	return false;
}

static long number_of(CURLoption option)
{
	for (size_t i = 0; i < curl.option_count; i++) {
		if (curl.options[i].option == option)
			return curl.options[i].number;
	}
	fail_msg("option %d is not set", option);
	return 0;
}

static void *pointer_of(CURLoption option)
{
	for (size_t i = 0; i < curl.option_count; i++) {
		if (curl.options[i].option == option)
			return (void *)curl.options[i].pointer;
	}
	fail_msg("option %d is not set", option);
	return NULL;
}

static bool is_aborted(void)
{
	progress_fn *progress;

	if (number_of(CURLOPT_NOPROGRESS))
		return false;
	*(void **)&progress = pointer_of(CURLOPT_XFERINFOFUNCTION);
	for (unsigned int second = 0; second <= curl.seconds; second++, now_s++) {
		if (progress(pointer_of(CURLOPT_XFERINFODATA), 0, 0, curl.to_send, curl.sent))
			return true;
	}
	return false;
}

/* As libcurl, it ends with the first part that was not taken completely. */
static CURLcode give_reply(void)
{
	size_t length = curl.reply ? strlen(curl.reply) : 0, part, taken;
	write_fn *take;
	char *bytes;

	*(void **)&take = pointer_of(CURLOPT_WRITEFUNCTION);
	for (size_t at = 0; at < length; at += part) {
		part = length - at < curl.reply_part ? length - at : curl.reply_part;
		bytes = strndup(curl.reply + at, part);
		taken = take(bytes, curl.reply_unit, part / curl.reply_unit,
			     pointer_of(CURLOPT_WRITEDATA));
		free(bytes);
		curl.reply_taken += taken;
		if (taken != part)
			return CURLE_WRITE_ERROR;
	}
	return CURLE_OK;
}

static CURLcode fake_perform(CURL *handle)
{
	assert_ptr_equal(handle, &curl);
	curl.performed++;
	curl.headers[0] = '\0';
	for (struct curl_slist *list = pointer_of(CURLOPT_HTTPHEADER); list; list = list->next) {
		strcat(curl.headers, list->data);
		strcat(curl.headers, "\n");
	}
	assert_in_range(number_of(CURLOPT_POSTFIELDSIZE_LARGE), 0, sizeof(curl.body) - 1);
	memcpy(curl.body, pointer_of(CURLOPT_POSTFIELDS),
	       (size_t)number_of(CURLOPT_POSTFIELDSIZE_LARGE));
	if (curl.detail)
		strcpy(pointer_of(CURLOPT_ERRORBUFFER), curl.detail);
	if (is_aborted())
		return CURLE_ABORTED_BY_CALLBACK;
	return curl.result ? curl.result : give_reply();
}

static CURLcode fake_getinfo(CURL *handle, CURLINFO info, ...)
{
	va_list args;

	assert_ptr_equal(handle, &curl);
	va_start(args, info);
	if (info == CURLINFO_CONTENT_TYPE) {
		*va_arg(args, const char **) = curl.reply_type;
	} else if (info == CURLINFO_RETRY_AFTER) {
		*va_arg(args, curl_off_t *) = curl.retry_after;
	} else {
		assert_int_equal(info, CURLINFO_RESPONSE_CODE);
		*va_arg(args, long *) = curl.status;
	}
	va_end(args);
	return CURLE_OK;
}

static const char *fake_strerror(CURLcode code)
{
	static char text[32];

	snprintf(text, sizeof(text), "code %d", code);
	return text;
}

static struct curl_slist *fake_append(struct curl_slist *list, const char *text)
{
	struct curl_slist *item, *end = list;

	if (++curl.appends == curl.append_fails_at)
		return NULL;
	item = __interceptor_calloc(1, sizeof(*item));
	item->data = __interceptor_malloc(strlen(text) + 1);
	strcpy(item->data, text);
	while (end && end->next)
		end = end->next;
	if (!end)
		return item;
	end->next = item;
	return list;
}

static void fake_free_all(struct curl_slist *list)
{
	while (list) {
		struct curl_slist *next = list->next;

		free(list->data);
		free(list);
		list = next;
	}
}

HIDDEN void *dlopen(const char *name, int flags)
{
	unsigned int library = !strcmp(name, "libcurl-gnutls.so.4");

	assert_true(library || !strcmp(name, "libcurl.so.4"));
	assert_int_equal(flags & RTLD_GLOBAL, 0);
	if (curl.absent & 1u << library)
		return NULL;
	curl.opened++;
	return &curl;
}

HIDDEN int dlclose(void *handle)
{
	assert_ptr_equal(handle, &curl);
	assert_int_equal(curl.handles, 0);
	curl.closed++;
	return 0;
}

HIDDEN void *dlsym(void *handle, const char *name)
{
	static const struct {
		const char *name;
		void *function;
	} functions[] = {
		{"curl_easy_init", (void *)fake_init},
		{"curl_easy_cleanup", (void *)fake_cleanup},
		{"curl_easy_setopt", (void *)fake_setopt},
		{"curl_easy_perform", (void *)fake_perform},
		{"curl_easy_getinfo", (void *)fake_getinfo},
		{"curl_easy_strerror", (void *)fake_strerror},
		{"curl_slist_append", (void *)fake_append},
		{"curl_slist_free_all", (void *)fake_free_all},
	};

	assert_ptr_equal(handle, &curl);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		if (!strcmp(functions[i].name, name))
			return curl.missing && !strcmp(curl.missing, name) ? NULL
									   : functions[i].function;
	}
	return NULL;
}

/* Clients */

static int set_up(void **state)
{
	memset(&curl, 0, sizeof(curl));
	memset(&error, 0, sizeof(error));
	curl.status = 200;
	curl.reply_unit = 1;
	curl.reply_part = 1000;
	return make_sandbox(state);
}

/* Frees a client, and expects that all is freed. */
static void free_client(struct http_client *client)
{
	http_client_free(client);
	assert_int_equal(curl.handles, 0);
	assert_int_equal(curl.opened, curl.closed);
}

static void expect_error(const struct http_options *options, const char *wanted)
{
	error.text[0] = '\0';
	if (http_client_new(options, &error))
		fail_msg("%s has no error", options->url);
	if (!strstr(error.text, wanted))
		fail_msg("'%s' instead of '%s'", error.text, wanted);
	free_client(NULL);
}

static struct http_client *new_client(const struct http_options *options)
{
	struct http_client *client = http_client_new(options, &error);

	if (!client)
		fail_msg("%s", error.text);
	return client;
}

static const struct http_request request_of_body = {
	.path = "/push",
	.type = "text/x",
	.body = BODY,
	.size = sizeof(BODY) - 1,
};

static enum http_result post(struct http_client *client)
{
	error.text[0] = '\0';
	return http_client_post(client, &request_of_body, &error);
}

/* The options */

static void urls_are_checked(void **state)
{
	static const char *const good[] = {
		"http://h",    "HTTPS://h",    "https://h:1/",
		"http://h/~!", "http://h/a@b", "http://[::2]:1",
	};
	static const struct {
		const char *url, *message;
	} bad[] = {
		{"", "no URL"},
		{"http:/h", "no URL"},
		{"https:/h", "no URL"},
		{"ftp://h", "no URL"},
		{"http://", "no host"},
		{"https://", "no host"},
		{"http:///a", "no host"},
		{"http://:80", "no host"},
		{"https://:80", "no host"},
		{"http://h h", "a character"},
		{"http:// h", "a character"},
		{"https:// h", "a character"},
		{"http://h/\x1f", "a character"},
		{"http://h/\x7f", "a character"},
		{"http://h/\t", "a character"},
		{"http://h/#", "a character"},
		{"http://h/?", "a character"},
		{"http://me:secret@h", "others can see it"},
		{"https://me@h/", "others can see it"},
		{"https://@/", "others can see it"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		free_client(new_client(&(struct http_options){.url = good[i]}));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_error(&(struct http_options){.url = bad[i].url}, bad[i].message);
}

static void secrets_need_tls(void **state)
{
	const char *const file = in_sandbox("headers");
	static const char *const secure[] = {
		"https://h",        "HTTPS://h",           "http://localhost",
		"http://127.0.0.1", "http://127.0.0.1:80", "HTTP://[::1]/",
	};
	static const char *const insecure[] = {
		"http://h",
		"http://127.0.0.10",
		"http://localhost.example/",
		"http://h/localhost",
	};

	(void)state;
	write_text(file, "A: b\n");
	for (size_t i = 0; i < sizeof(secure) / sizeof(secure[0]); i++)
		free_client(
			new_client(&(struct http_options){.url = secure[i], .header_file = file}));
	for (size_t i = 0; i < sizeof(insecure) / sizeof(insecure[0]); i++) {
		expect_error(&(struct http_options){.url = insecure[i], .header_file = file},
			     "needs --insecure");
		free_client(new_client(&(struct http_options){
			.url = insecure[i], .header_file = file, .insecure = true}));
		free_client(new_client(&(struct http_options){.url = insecure[i]}));
	}
}

static void libraries_are_tried(void **state)
{
	static const char *const functions[] = {
		"curl_easy_init",    "curl_easy_cleanup",   "curl_easy_setopt",
		"curl_easy_perform", "curl_easy_getinfo",   "curl_easy_strerror",
		"curl_slist_append", "curl_slist_free_all",
	};
	const struct http_options options = {.url = URL};

	(void)state;
	for (curl.absent = 0; curl.absent < 3; curl.absent++) {
		free_client(new_client(&options));
		assert_int_equal(curl.opened, curl.absent + 1);
	}
	expect_error(&options, "there is no libcurl.so.4: install");
	curl.absent = 0;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		curl.missing = functions[i];
		expect_error(&options, "libcurl.so.4 is too old");
	}
	curl.missing = NULL;
	curl.no_handle = true;
	expect_error(&options, "can't make requests");
}

static void options_are_set(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	assert_string_equal(pointer_of(CURLOPT_PROTOCOLS_STR), "http,https");
	assert_int_equal(number_of(CURLOPT_NOSIGNAL), 1);
	assert_int_equal(number_of(CURLOPT_POST), 1);
	assert_in_range(number_of(CURLOPT_CONNECTTIMEOUT), 1, 30);
	assert_in_range(number_of(CURLOPT_TIMEOUT), number_of(CURLOPT_CONNECTTIMEOUT) + 1, 120);
	assert_string_equal(pointer_of(CURLOPT_USERAGENT), "stackbeat/" STACKBEAT_VERSION);
	assert_false(is_set(CURLOPT_CAINFO));
	assert_false(is_set(CURLOPT_SSL_VERIFYPEER));
	assert_false(is_set(CURLOPT_SSL_VERIFYHOST));
	assert_false(is_set(CURLOPT_FOLLOWLOCATION));
	free_client(client);
	client = new_client(&(struct http_options){.url = URL, .ca_file = "/ca"});
	assert_string_equal(pointer_of(CURLOPT_CAINFO), "/ca");
	free_client(client);
}

static void expect_contents(const char *path, const char *wanted)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	fclose(file);
	assert_string_equal(text, wanted);
}

static void certificates_are_copied(void **state)
{
	struct http_options options = {.url = "https://h"};
	struct http_client *client;
	char pem[256], key[256];

	(void)state;
	strcpy(pem, in_sandbox("pem"));
	strcpy(key, in_sandbox("key"));
	write_text(pem, "certificate");
	write_text(key, "key");
	options.certificate_file = pem;
	client = new_client(&options);
	expect_contents(curl.certificate, "certificate");
	expect_contents(curl.key, "certificate");
	/* Nothing is asked for at the terminal. */
	assert_true(is_set(CURLOPT_KEYPASSWD));
	assert_string_equal(curl.passphrase, "");
	free_client(client);
	options.key_file = key;
	client = new_client(&options);
	/* It needs no rights to read them again. */
	assert_int_equal(unlink(pem) || unlink(key), 0);
	for (int i = 0; i < 2; i++) {
		expect_contents(curl.certificate, "certificate");
		expect_contents(curl.key, "key");
	}
	free_client(client);
	assert_int_equal(access(curl.certificate, F_OK), -1);
	assert_int_equal(access(curl.key, F_OK), -1);
}

static void wrong_certificates_are_refused(void **state)
{
	struct http_options options = {.url = "https://h"};
	char pem[256], key[256];

	(void)state;
	strcpy(pem, in_sandbox("pem"));
	strcpy(key, in_sandbox("key"));
	options.certificate_file = pem;
	expect_error(&options, "pem: No such file or directory");
	write_text(pem, "x");
	options.key_file = key;
	expect_error(&options, "key: No such file or directory");
	assert_int_equal(mkfifo(key, 0600), 0);
	expect_error(&options, "key: Invalid argument");
	assert_int_equal(unlink(key), 0);
	write_text(key, "x");
	assert_int_equal(truncate(key, 1 << 20), 0);
	free_client(new_client(&options));
	assert_int_equal(truncate(key, (1 << 20) + 1), 0);
	expect_error(&options, "key: it has more than 1 MiB");
	options.url = "http://h";
	expect_error(&options, "--cert needs a URL with https://");
}

/* An old library does not know all. */
static void each_option_is_needed(void **state)
{
	const struct http_options options = {
		.url = "https://h", .ca_file = "/ca", .certificate_file = in_sandbox("pem")};
	unsigned int count;

	(void)state;
	write_text(options.certificate_file, "x");
	free_client(new_client(&options));
	count = curl.setopts;
	assert_true(count > 10);
	for (curl.setopt_fails_at = 1; curl.setopt_fails_at <= count; curl.setopt_fails_at++) {
		curl.setopts = 0;
		expect_error(&options, "libcurl.so.4 is too old");
	}
}

/* The file with headers */

static void expect_sent(struct http_client *client, const char *wanted)
{
	char all[sizeof(curl.headers)];

	assert_int_equal(post(client), HTTP_ACCEPTED);
	snprintf(all, sizeof(all), "Content-Type: text/x\nExpect:\n%s", wanted);
	assert_string_equal(curl.headers, all);
}

static void expect_headers(const char *text, size_t size, const char *wanted)
{
	const struct http_options options = {.url = "https://h",
					     .header_file = in_sandbox("headers")};
	struct http_client *client;

	write_file(options.header_file, text, size);
	client = new_client(&options);
	expect_sent(client, wanted);
	free_client(client);
}

static void expect_no_header(const char *text, size_t size, const char *message)
{
	const struct http_options options = {.url = "https://h",
					     .header_file = in_sandbox("headers")};

	write_file(options.header_file, text, size);
	expect_error(&options, message);
	/* What it has is secret. */
	assert_null(strstr(error.text, "secret"));
}

static void headers_of_file_are_sent(void **state)
{
	static const char *const headers[] = {
		"Authorization: Bearer x", "X-Scope_ID9: a:b", "a:",   "A:\tb\tc",
		"A: \xc3\xa4\xff",         "A:  !~",           "_: b", "-: b",
	};
	char text[128];

	(void)state;
	expect_headers("", 0, "");
	expect_headers("\n\r\n\n", 4, "");
	expect_headers("A: b\r\n\nC: d", 11, "A: b\nC: d\n");
	expect_headers("A: b\n\r\n\r\r\nC: d\n\n", 16, "A: b\nC: d\n");
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		snprintf(text, sizeof(text), "%s\n", headers[i]);
		expect_headers(text, strlen(text), text);
	}
}

static void other_lines_are_refused(void **state)
{
	static const char *const lines[] = {
		"secret",         ":",
		": secret",       " A: secret",
		"A : secret",     "A\t: secret",
		"\xc3\xa4: b",    "A/: b",
		"A\x7f: b",       "A\x01: b",
		"A: secret\x7f",  "A: secret\x1f",
		"A: secret\x01",  "A:\x1fsecret",
		"A: se\rcret",    "A: secret\vb",
		"A.b: secret",    "(A): secret",
		"A: \x08 secret", "A:\x7f",
	};
	static const char with_nul[] = "A: b\0c\n";
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(text, sizeof(text), "A: b\n\n%s\nC: d\n", lines[i]);
		expect_no_header(text, strlen(text), ": line 3 is not NAME: VALUE");
	}
	expect_no_header("secret", 6, ": line 1 is not NAME: VALUE");
	expect_no_header(with_nul, sizeof(with_nul) - 1, ": line 1 is not NAME: VALUE");
}

static void lines_are_limited(void **state)
{
	char text[1024] = "", wanted[1024] = "";

	(void)state;
	for (int i = 0; i < HEADERS_MAX; i++)
		strcat(text, "A: b\n");
	strcpy(wanted, text);
	expect_headers(text, strlen(text), wanted);
	strcat(text, "\n");
	expect_no_header(text, strlen(text), "has more than 64 lines");
}

static void unreadable_files_are_errors(void **state)
{
	(void)state;
	expect_error(&(struct http_options){.url = "https://h", .header_file = "/none"},
		     "can't read /none");
	expect_error(&(struct http_options){.url = "https://h", .header_file = sandbox},
		     "can't read /tmp");
}

/* Tokens are renewed. What can't be read, or is not a file of headers, changes nothing. */
static void changed_file_is_read_again(void **state)
{
	const struct http_options options = {.url = "https://h",
					     .header_file = in_sandbox("headers")};
	const char *const other = in_sandbox("other");
	struct http_client *client;

	(void)state;
	write_text(options.header_file, "A: b\n");
	client = new_client(&options);
	expect_sent(client, "A: b\n");
	write_text(options.header_file, "A: longer\nB: c\n");
	expect_sent(client, "A: longer\nB: c\n");
	/* As long as before. */
	write_text(other, "A: shorte\nB: c\n");
	assert_int_equal(rename(other, options.header_file), 0);
	expect_sent(client, "A: shorte\nB: c\n");
	write_text(options.header_file, "D: e\nsecret\n");
	expect_sent(client, "A: shorte\nB: c\n");
	assert_int_equal(unlink(options.header_file), 0);
	expect_sent(client, "A: shorte\nB: c\n");
	assert_int_equal(mkfifo(options.header_file, 0600), 0);
	expect_sent(client, "A: shorte\nB: c\n");
	assert_int_equal(unlink(options.header_file), 0);
	write_text(options.header_file, "D: e\n");
	expect_sent(client, "D: e\n");
	free_client(client);
}

/* A header that is missing must not go unnoticed. */
static void lack_of_memory_is_an_error(void **state)
{
	const struct http_options options = {.url = "https://h",
					     .header_file = in_sandbox("headers")};
	struct http_client *client = NULL;
	unsigned long number;

	(void)state;
	write_text(options.header_file, "A: b\nC: d\n");
	for (number = 1; number < 100; number++) {
		error.text[0] = '\0';
		fail_malloc(number, false);
		client = http_client_new(&options, &error);
		if (!malloc_has_failed())
			break;
		fail_malloc(0, false);
		/* Standard I/O does without its buffer. */
		if (client) {
			assert_int_equal(post(client), HTTP_ACCEPTED);
			assert_non_null(strstr(curl.headers, "A: b\nC: d\n"));
			free_client(client);
			continue;
		}
		assert_string_not_equal(error.text, "");
		free_client(NULL);
	}
	fail_malloc(0, false);
	assert_true(number > 2);
	assert_non_null(client);
	fail_malloc(1, true);
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	fail_malloc(0, false);
	assert_non_null(strstr(error.text, "can't make requests"));
	assert_int_equal(post(client), HTTP_ACCEPTED);
	free_client(client);
	/* The text of the library. */
	for (curl.append_fails_at = 1; curl.append_fails_at <= 3; curl.append_fails_at++) {
		curl.appends = 0;
		expect_error(&options,
			     curl.append_fails_at == 1 ? "can't make requests" : "can't read");
	}
}

/* Requests */

static void requests_are_posted(void **state)
{
	static const struct {
		const char *url, *path, *wanted;
	} urls[] = {
		{"http://h", "/p", "http://h/p"},     {"http://h/", "/p", "http://h/p"},
		{"http://h//", "/p", "http://h/p"},   {"http://h/a/", "/p", "http://h/a/p"},
		{"http://h/a", "/p", "http://h/a/p"}, {"http://h/a/", "", "http://h/a/"},
		{"http://h", "", "http://h"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		struct http_client *client = new_client(&(struct http_options){.url = urls[i].url});
		const struct http_request request = {urls[i].path, "text/x",     NULL,
						     BODY "x",     strlen(BODY), false};

		assert_int_equal(http_client_post(client, &request, &error), HTTP_ACCEPTED);
		assert_string_equal(curl.url, urls[i].wanted);
		assert_string_equal(curl.body, BODY);
		assert_string_equal(curl.headers, "Content-Type: text/x\nExpect:\n");
		/* The list is gone. */
		assert_null(pointer_of(CURLOPT_HTTPHEADER));
		free_client(client);
	}
}

static void statuses_have_results(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	curl.status = 204;
	curl.reply = "fine";
	assert_int_equal(post(client), HTTP_ACCEPTED);
	assert_string_equal(error.text, "");
	curl.status = 400;
	curl.reply = "no\r\nsecond line";
	assert_int_equal(post(client), HTTP_REFUSED);
	assert_string_equal(error.text, URL "/push: status 400: no");
	curl.status = 503;
	curl.reply = "\nnothing";
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: status 503");
	curl.reply = "line\nother";
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: status 503: line");
	/* Nothing is left of the answer before. */
	curl.reply = NULL;
	curl.status = 302;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: status 302");
	free_client(client);
}

/* Also by a status that says nothing of it; a number that is too large is not believed. */
static void servers_ask_for_a_pause(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	assert_int_equal(http_client_retry_after_s(client), 0);
	curl.status = 429;
	curl.retry_after = 77;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_int_equal(http_client_retry_after_s(client), 77);
	curl.status = 503;
	curl.retry_after = INT64_MAX;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_int_equal(http_client_retry_after_s(client), HTTP_RETRY_AFTER_MAX_S);
	curl.retry_after = -1;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_int_equal(http_client_retry_after_s(client), 0);
	curl.retry_after = 77;
	post(client);
	/* What is not to be repeated has no time. */
	curl.status = 400;
	assert_int_equal(post(client), HTTP_REFUSED);
	assert_int_equal(http_client_retry_after_s(client), 0);
	curl.status = 503;
	post(client);
	curl.result = CURLE_COULDNT_CONNECT;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_int_equal(http_client_retry_after_s(client), 0);
	free_client(client);
}

/* They are for the caller. */
static void answers_of_protobuf_are_kept(void **state)
{
	static const char *const others[] = {"application/x-proto", "text/html", NULL};
	struct http_client *client = new_client(&(struct http_options){.url = URL});
	bool is_protobuf;
	size_t size;

	(void)state;
	curl.status = 400;
	curl.reply = "\x08\x03";
	curl.reply_type = "Application/X-Protobuf; charset=utf-8";
	assert_int_equal(post(client), HTTP_REFUSED);
	assert_string_equal(error.text, URL "/push: status 400");
	assert_memory_equal(http_client_answer(client, &size, &is_protobuf), curl.reply, 2);
	assert_int_equal(size, 2);
	assert_true(is_protobuf);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		curl.reply_type = others[i];
		assert_int_equal(post(client), HTTP_REFUSED);
		assert_non_null(strstr(error.text, "status 400: "));
		assert_memory_equal(http_client_answer(client, &size, &is_protobuf), curl.reply, 2);
		assert_int_equal(size, 2);
		assert_false(is_protobuf);
	}
	free_client(client);
}

static void errors_can_refuse(void **state)
{
	static const struct {
		long status;
		enum http_result result, refusing;
	} cases[] = {
		{200, HTTP_ACCEPTED, HTTP_ACCEPTED},
		{400, HTTP_REFUSED, HTTP_REFUSED},
		{429, HTTP_UNAVAILABLE, HTTP_UNAVAILABLE},
		{499, HTTP_REFUSED, HTTP_REFUSED},
		{500, HTTP_FAILED, HTTP_REFUSED},
		{501, HTTP_FAILED, HTTP_REFUSED},
		{502, HTTP_UNAVAILABLE, HTTP_UNAVAILABLE},
		{503, HTTP_UNAVAILABLE, HTTP_UNAVAILABLE},
		{504, HTTP_UNAVAILABLE, HTTP_UNAVAILABLE},
		{505, HTTP_FAILED, HTTP_REFUSED},
	};
	struct http_client *client = new_client(&(struct http_options){.url = URL});
	struct http_request request = request_of_body;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		curl.status = cases[i].status;
		request.errors_refuse = false;
		assert_int_equal(http_client_post(client, &request, &error), cases[i].result);
		request.errors_refuse = true;
		assert_int_equal(http_client_post(client, &request, &error), cases[i].refusing);
	}
	free_client(client);
}

static void bodies_can_have_an_encoding(void **state)
{
	const struct http_request request = {"/p", "text/x", "gzip", BODY, strlen(BODY), false};
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	assert_int_equal(http_client_post(client, &request, &error), HTTP_ACCEPTED);
	assert_string_equal(curl.headers,
			    "Content-Type: text/x\nContent-Encoding: gzip\nExpect:\n");
	assert_null(pointer_of(CURLOPT_HTTPHEADER));
	free_client(client);
}

static void expect_reason(struct http_client *client, const char *reply, const char *reason)
{
	char wanted[512];

	snprintf(wanted, sizeof(wanted), URL "/push: status 400: %s", reason);
	curl.reply = reply;
	curl.status = 400;
	assert_int_equal(post(client), HTTP_REFUSED);
	assert_string_equal(error.text, wanted);
}

static void long_reasons_lose_their_middle(void **state)
{
	static const size_t parts[] = {
		2, 126, 254, 4096, HTTP_ANSWER_MAX - 2, HTTP_ANSWER_MAX, HTTP_ANSWER_MAX + 900};
	struct http_client *client = new_client(&(struct http_options){.url = URL});
	static char reply[HTTP_ANSWER_MAX + 1001];
	char wanted[REASON_MAX + 4];

	(void)state;
	curl.reply_unit = 2;
	for (size_t i = 0; i < sizeof(reply) - 1; i++)
		reply[i] = (char)('a' + i % 26);
	/* The end of what is kept of an answer, not of the answer. */
	snprintf(wanted, sizeof(wanted), "%.*s...%.*s", REASON_MAX / 2, reply, REASON_MAX / 2,
		 reply + HTTP_ANSWER_MAX - REASON_MAX / 2);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		curl.reply_part = parts[i];
		expect_reason(client, reply, wanted);
	}
	reply[REASON_MAX + 2] = '\0';
	snprintf(wanted, sizeof(wanted), "%.*s...%.*s", REASON_MAX / 2, reply, REASON_MAX / 2,
		 reply + REASON_MAX / 2 + 2);
	expect_reason(client, reply, wanted);
	reply[REASON_MAX] = '\0';
	expect_reason(client, reply, reply);
	free_client(client);
}

static void answer_without_end_is_given_up(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});
	static char reply[4 * HTTP_ANSWER_MAX + 1];

	(void)state;
	memset(reply, 'x', sizeof(reply) - 1);
	curl.reply = reply;
	curl.reply_part = 1000;
	curl.status = 200;
	assert_int_equal(post(client), HTTP_ACCEPTED);
	assert_int_equal(curl.reply_taken, HTTP_ANSWER_MAX);
	curl.status = 413;
	assert_int_equal(post(client), HTTP_REFUSED);
	curl.status = 503;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	/* No other error is hidden, also not after such an answer. */
	curl.status = 200;
	curl.result = CURLE_WRITE_ERROR;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: code 23");
	free_client(client);
}

static void reasons_are_messages_of_json(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	expect_reason(client,
		      "{\"code\":\"invalid_argument\",\"message\":\"profile with labels "
		      "'{a=\\\"\\u003cb\\u003e\\\"}' is too old\\nsecond line\"}",
		      "profile with labels '{a=\"<b>\"}' is too old");
	expect_reason(client, "{\"message\":3}", "{\"message\":3}");
	expect_reason(client, "{\"message\":\"cut", "{\"message\":\"cut");
	expect_reason(client, "[\"message\"]", "[\"message\"]");
	expect_reason(client, "null", "null");
	expect_reason(client, "{\"message\":\"\"}", "{\"message\":\"\"}");
	expect_reason(client, "{\"message\":\"\\u001b[2J\"}", "?[2J");
	expect_reason(client, "\x1b]0;title\x07", "?]0;title?");
	free_client(client);
}

static void failed_requests_are_repeated(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL});

	(void)state;
	/* That the status is not asked for. */
	curl.status = 400;
	curl.result = CURLE_COULDNT_CONNECT;
	curl.detail = "connection refused";
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: connection refused");
	/* Without a detail, the detail of the request before does not stay. */
	curl.result = CURLE_OPERATION_TIMEDOUT;
	curl.detail = NULL;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: code 28");
	assert_null(pointer_of(CURLOPT_HTTPHEADER));
	curl.result = CURLE_OK;
	curl.status = 200;
	assert_int_equal(post(client), HTTP_ACCEPTED);
	/* A request that lacks a part is not sent. */
	curl.performed = 0;
	for (curl.setopt_fails_at = 1; curl.setopt_fails_at <= 4; curl.setopt_fails_at++) {
		curl.setopts = 0;
		assert_int_equal(post(client), HTTP_UNAVAILABLE);
		assert_string_equal(error.text, URL "/push: code 48");
		assert_null(pointer_of(CURLOPT_HTTPHEADER));
	}
	assert_int_equal(curl.performed, 0);
	free_client(client);
}

/* Signals */

static bool stops;

static bool stop(void)
{
	return stops;
}

static void unsent_requests_are_stopped(void **state)
{
	struct http_client *client = new_client(&(struct http_options){.url = URL, .stop = stop});

	(void)state;
	stops = false;
	assert_int_equal(post(client), HTTP_ACCEPTED);
	stops = true;
	/* It is not connected. */
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	assert_string_equal(error.text, URL "/push: code 42");
	curl.to_send = 10;
	curl.sent = 9;
	assert_int_equal(post(client), HTTP_UNAVAILABLE);
	/* The server has all: it may accept it. */
	curl.sent = 10;
	assert_int_equal(post(client), HTTP_ACCEPTED);
	/* Its status counts: the answer may take for ever. */
	curl.seconds = 1;
	curl.reply = "slow";
	assert_int_equal(post(client), HTTP_ACCEPTED);
	assert_int_equal(curl.reply_taken, 4);
	for (size_t i = 0; i < 2; i++) {
		curl.seconds = 2;
		curl.status = i ? 503 : 200;
		curl.reply_taken = 0;
		assert_int_equal(post(client), i ? HTTP_UNAVAILABLE : HTTP_ACCEPTED);
		assert_int_equal(curl.reply_taken, 0);
	}
	assert_string_equal(error.text, URL "/push: status 503");
	/* Without a status, the server may accept it. */
	curl.seconds = 50;
	curl.status = 0;
	post(client);
	assert_int_equal(curl.reply_taken, 4);
	free_client(client);
	client = new_client(&(struct http_options){.url = URL});
	curl.sent = 0;
	curl.status = 200;
	assert_int_equal(post(client), HTTP_ACCEPTED);
	free_client(client);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(urls_are_checked),
		TEST(secrets_need_tls),
		TEST(libraries_are_tried),
		TEST(options_are_set),
		TEST(certificates_are_copied),
		TEST(wrong_certificates_are_refused),
		TEST(each_option_is_needed),
		TEST(headers_of_file_are_sent),
		TEST(changed_file_is_read_again),
		TEST(other_lines_are_refused),
		TEST(lines_are_limited),
		TEST(unreadable_files_are_errors),
		TEST(lack_of_memory_is_an_error),
		TEST(requests_are_posted),
		TEST(answers_of_protobuf_are_kept),
		TEST(bodies_can_have_an_encoding),
		TEST(errors_can_refuse),
		TEST(statuses_have_results),
		TEST(servers_ask_for_a_pause),
		TEST(long_reasons_lose_their_middle),
		TEST(answer_without_end_is_given_up),
		TEST(reasons_are_messages_of_json),
		TEST(failed_requests_are_repeated),
		TEST(unsent_requests_are_stopped),
	};

	return cmocka_run_group_tests_name("http_client", tests, NULL, NULL);
}

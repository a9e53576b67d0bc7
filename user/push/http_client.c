// SPDX-License-Identifier: GPL-2.0
#include "push/http_client.h"

#include <ctype.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "lib/optional_library.h"
#include "lib/regular_file.h"
#include "lib/utf8.h"

#define CONNECT_TIMEOUT_S 10L
#define TIMEOUT_S 60L
/* What the rest of an answer may take after a stop. */
#define STOPPED_ANSWER_NS (2 * NS_PER_SECOND)
#define REASON_MAX 320u /* bytes of the server's reason in a message */
#define HEADERS_MAX 64u
#define PEM_BYTES_MAX ((size_t)1 << 20)
#define PATH_OF_FD "/proc/self/fd/%d"

struct curl_library {
	CURL *(*easy_init)(void);
	void (*easy_cleanup)(CURL *curl);
	CURLcode (*easy_setopt)(CURL *curl, CURLoption option, ...);
	CURLcode (*easy_perform)(CURL *curl);
	CURLcode (*easy_getinfo)(CURL *curl, CURLINFO info, ...);
	const char *(*easy_strerror)(CURLcode code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
};

static const struct optional_library curl_library = {
	/* Debian has libcurl with two libraries for TLS. */
	.files = {"libcurl.so.4", "libcurl-gnutls.so.4"},
	.names =
		(const char *const[]){
			"curl_easy_init",
			"curl_easy_cleanup",
			"curl_easy_setopt",
			"curl_easy_perform",
			"curl_easy_getinfo",
			"curl_easy_strerror",
			"curl_slist_append",
			"curl_slist_free_all",
		},
	.count = 8,
	.missing = "there is no libcurl.so.4: install Debian's package libcurl4",
	.too_old = "libcurl.so.4 is too old for stackbeat",
};

struct http_client {
	void *handle; /* of the library */
	struct curl_library library;
	struct http_options options;
	CURL *curl;
	struct curl_slist *headers; /* of the file */
	struct stat headers_file; /* when it was read */
	int certificate, key; /* copies of files, or -1 */
	char detail[CURL_ERROR_SIZE];
	char reply[HTTP_ANSWER_MAX + 1]; /* the beginning of the answer */
	size_t reply_size;
	bool is_reply_cut; /* it goes on */
	int64_t stopped_ns; /* when the status was there after a stop; 0: it was not */
	unsigned int retry_after_s; /* of the last answer; 0: none */
};

bool http_is_local(const char *url)
{
	static const char *const hosts[] = {"localhost", "127.0.0.1", "[::1]"};
	const char *host = strncasecmp(url, "http://", 7) ? "" : url + 7;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		size_t length = strlen(hosts[i]);

		if (!strncasecmp(host, hosts[i], length) && strchr(":/", host[length]))
			return true;
	}
	return false;
}

static int check_url(const struct http_options *options, struct error *error)
{
	const char *url = options->url, *host;
	bool tls = !strncasecmp(url, "https://", 8);

	if (!tls && strncasecmp(url, "http://", 7))
		return error_set(error, EINVAL, "'%s' is no URL with http:// or https://", url);
	host = url + (tls ? 8 : 7);
	for (const char *at = host; *at; at++) {
		if (*at <= ' ' || *at == 0x7f || *at == '#' || *at == '?')
			return error_set(error, EINVAL, "'%s' has a character that can't be in it",
					 url);
	}
	if (memchr(host, '@', strcspn(host, "/")))
		return error_set(error, EINVAL,
				 "the URL has a user: others can see it, use --header-file");
	if (!*host || strchr("/:", *host))
		return error_set(error, EINVAL, "'%s' has no host", url);
	if (options->header_file && !tls && !http_is_local(url) && !options->insecure)
		return error_set(error, EINVAL,
				 "--header-file without TLS to another machine needs --insecure");
	if (options->certificate_file && !tls)
		return error_set(error, EINVAL, "--cert needs a URL with https://");
	return 0;
}

/* Returns whether a line is NAME: VALUE without control characters. */
static bool is_header(const char *line)
{
	size_t length = strcspn(line, ":");

	if (!length || line[length] != ':')
		return false;
	for (size_t i = 0; line[i]; i++) {
		const unsigned char c = (unsigned char)line[i];

		if (i < length ? !isalnum(c) && !strchr("-_", c)
			       : (c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static int http_client_add_header(const struct http_client *client, struct curl_slist **list,
				  const char *line)
{
	struct curl_slist *longer = client->library.slist_append(*list, line);

	if (!longer)
		return -ENOMEM;
	*list = longer;
	return 0;
}

static int http_client_read_headers(const struct http_client *client, struct curl_slist **list,
				    FILE *file, const char *path, struct error *error)
{
	size_t capacity = 0, number = 0;
	char *line = NULL;
	ssize_t length;
	int err = 0;

	while (!err && (length = getline(&line, &capacity, file)) >= 0) {
		while (length && strchr("\r\n", line[length - 1]))
			line[--length] = '\0';
		number++;
		/* The line is secret: it is not in the message. */
		if (number > HEADERS_MAX)
			err = error_set(error, EINVAL, "%s has more than %u lines", path,
					HEADERS_MAX);
		else if (length && (strlen(line) != (size_t)length || !is_header(line)))
			err = error_set(error, EINVAL, "%s: line %zu is not NAME: VALUE", path,
					number);
		else if (length && http_client_add_header(client, list, line))
			err = error_errno(error, ENOMEM, "can't read %s", path);
	}
	/* getline() also ends without memory: a header must not be left out for that. */
	if (!err && !feof(file))
		err = error_errno(error, ferror(file) ? errno : ENOMEM, "can't read %s", path);
	free(line);
	return err;
}

/* Replaces the headers by the headers of `file` (NULL: none). If that fails, they stay. */
static int replace_headers(struct http_client *client, FILE *file, struct error *error)
{
	struct curl_slist *list = NULL;
	struct stat status = {0};
	int err = 0;

	/* Without waiting for "100 Continue" before the body. */
	if (http_client_add_header(client, &list, "Expect:"))
		return error_errno(error, ENOMEM, "can't make requests");
	if (file && fstat(fileno(file), &status))
		err = error_errno(error, errno, "can't read %s", client->options.header_file);
	if (file && !err)
		err = http_client_read_headers(client, &list, file, client->options.header_file,
					       error);
	if (err) {
		client->library.slist_free_all(list);
		return err;
	}
	if (client->headers)
		client->library.slist_free_all(client->headers);
	client->headers = list;
	client->headers_file = status;
	return 0;
}

static int add_headers(struct http_client *client, struct error *error)
{
	const char *path = client->options.header_file;
	FILE *file = path ? fopen(path, "re") : NULL;
	int err;

	if (path && !file)
		return error_errno(error, errno, "can't read %s", path);
	err = replace_headers(client, file, error);
	if (file)
		fclose(file);
	return err;
}

static bool is_same_file(const struct stat *one, const struct stat *other)
{
	return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
	       one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
	       one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

/*
 * Reads the header file again if it is another one: tokens are renewed. A file that can't be read
 * now (the rights for it may have been given up), or is being written, leaves the headers as they
 * are: the server says whether they are still valid.
 */
static void refresh_headers(struct http_client *client)
{
	const char *path = client->options.header_file;
	struct stat status;
	struct error ignored;
	FILE *file;
	int fd;

	if (!path || stat(path, &status) || is_same_file(&status, &client->headers_file))
		return;
	/* It waits for no writer of a pipe. */
	fd = open_regular_file(path, 0, &status);
	if (fd < 0)
		return;
	file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return;
	}
	(void)replace_headers(client, file, &ignored);
	fclose(file);
}

/*
 * Copies a file, which may be root's alone, to memory: libcurl reads it for each connection, by a
 * path. Returns the file descriptor of the copy, or a negative errno value.
 */
static int copy_pem(const char *path, struct error *error)
{
	struct stat status;
	int from = open_regular_file(path, 0, &status), to, err = 0;
	ssize_t copied = 1;
	size_t size = 0;

	if (from < 0)
		return error_errno(error, -from, "can't read %s", path);
	to = memfd_create("pem", MFD_CLOEXEC);
	if (to < 0)
		err = error_errno(error, errno, "can't copy %s", path);
	while (!err && copied > 0) {
		copied = sendfile(to, from, NULL, PEM_BYTES_MAX);
		size += copied > 0 ? (size_t)copied : 0;
		if (copied < 0)
			err = error_errno(error, errno, "can't copy %s", path);
		else if (size > PEM_BYTES_MAX)
			err = error_set(error, EFBIG, "%s: it has more than 1 MiB", path);
	}
	close(from);
	if (err && to >= 0)
		close(to);
	return err ? err : to;
}

static int copy_pems(struct http_client *client, struct error *error)
{
	const struct http_options *options = &client->options;

	client->certificate = client->key = -1;
	if (!options->certificate_file)
		return 0;
	client->certificate = copy_pem(options->certificate_file, error);
	if (client->certificate < 0)
		return client->certificate;
	client->key =
		copy_pem(options->key_file ? options->key_file : options->certificate_file, error);
	return MIN(client->key, 0);
}

/* Ends the transfer of an answer that has no end, or none that is of use. */
static size_t take_reply(char *bytes, size_t size, size_t count, void *arg)
{
	struct http_client *client = arg;
	size_t kept = MIN(size * count, sizeof(client->reply) - 1 - client->reply_size);

	memcpy(client->reply + client->reply_size, bytes, kept);
	client->reply_size += kept;
	client->reply[client->reply_size] = '\0';
	client->is_reply_cut = kept < size * count;
	return kept;
}

/* Whether the status of the answer is there, and the rest of it takes too long. */
static bool is_answer_late(struct http_client *client)
{
	const int64_t now = now_ns(CLOCK_MONOTONIC);
	long status = 0;

	client->library.easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200)
		return false;
	if (!client->stopped_ns)
		client->stopped_ns = now;
	return now - client->stopped_ns >= STOPPED_ANSWER_NS;
}

/*
 * Other than 0 aborts the request. A completely sent request may have been accepted: the status of
 * its answer is awaited, so that it is not sent again, but not an answer that comes slowly.
 */
static int check_stop(void *arg, curl_off_t to_get, curl_off_t got, curl_off_t to_send,
		      curl_off_t sent)
{
	struct http_client *client = arg;

	(void)to_get, (void)got;
	if (!client->options.stop || !client->options.stop())
		return 0;
	if (!to_send || sent < to_send)
		return 1;
	client->is_reply_cut = is_answer_late(client);
	return client->is_reply_cut;
}

static CURLcode set_certificate(const struct http_client *client)
{
	const struct curl_library *library = &client->library;
	char certificate[32], key[32];
	CURLcode code = CURLE_OK;

	snprintf(certificate, sizeof(certificate), PATH_OF_FD, client->certificate);
	snprintf(key, sizeof(key), PATH_OF_FD, client->key);
	code |= library->easy_setopt(client->curl, CURLOPT_SSLCERT, certificate);
	code |= library->easy_setopt(client->curl, CURLOPT_SSLKEY, key);
	/* OpenSSL would ask for the password of an encrypted key at the terminal. */
	code |= library->easy_setopt(client->curl, CURLOPT_KEYPASSWD, "");
	return code;
}

static int set_up(struct http_client *client, struct error *error)
{
	const struct curl_library *library = &client->library;
	CURL *curl = client->curl = library->easy_init();
	CURLcode code = CURLE_OK;

	if (!curl)
		return error_errno(error, ENOMEM, "can't make requests");
	code |= library->easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	code |= library->easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	code |= library->easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	code |= library->easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_S);
	code |= library->easy_setopt(curl, CURLOPT_USERAGENT, "stackbeat/" STACKBEAT_VERSION);
	code |= library->easy_setopt(curl, CURLOPT_POST, 1L);
	code |= library->easy_setopt(curl, CURLOPT_ERRORBUFFER, client->detail);
	code |= library->easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_reply);
	code |= library->easy_setopt(curl, CURLOPT_WRITEDATA, client);
	code |= library->easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	code |= library->easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, check_stop);
	code |= library->easy_setopt(curl, CURLOPT_XFERINFODATA, client);
	if (client->options.ca_file)
		code |= library->easy_setopt(curl, CURLOPT_CAINFO, client->options.ca_file);
	if (client->certificate >= 0)
		code |= set_certificate(client);
	return code ? error_set(error, EOPNOTSUPP, "%s", curl_library.too_old) : 0;
}

struct http_client *http_client_new(const struct http_options *options, struct error *error)
{
	struct http_client *client;
	int err;

	if (check_url(options, error))
		return NULL;
	client = calloc(1, sizeof(*client));
	if (!client) {
		error_errno(error, ENOMEM, "can't make requests");
		return NULL;
	}
	client->options = *options;
	err = copy_pems(client, error);
	if (!err) {
		client->handle = optional_library_load(&curl_library, &client->library, error);
		err = client->handle ? 0 : -EOPNOTSUPP;
	}
	if (!err)
		err = add_headers(client, error);
	if (!err)
		err = set_up(client, error);
	if (!err)
		return client;
	http_client_free(client);
	return NULL;
}

void http_client_free(struct http_client *client)
{
	if (!client)
		return;
	if (client->headers)
		client->library.slist_free_all(client->headers);
	if (client->curl)
		client->library.easy_cleanup(client->curl);
	if (client->handle)
		dlclose(client->handle);
	if (client->certificate >= 0)
		close(client->certificate);
	if (client->key >= 0)
		close(client->key);
	free(client);
}

enum http_result http_result_of_status(long status)
{
	if (status >= 200 && status < 300)
		return HTTP_ACCEPTED;
	switch (status) {
	case 401: /* Unauthorized */
	case 403: /* Forbidden */
	case 404: /* Not Found: of a proxy whose server is away */
	case 407: /* Proxy Authentication Required */
	case 408: /* Request Timeout */
	case 429: /* Too Many Requests */
	case 502: /* Bad Gateway */
	case 503: /* Service Unavailable */
	case 504: /* Gateway Timeout */
		return HTTP_UNAVAILABLE;
	}
	if (status >= 500)
		return HTTP_FAILED;
	return status >= 400 ? HTTP_REFUSED : HTTP_UNAVAILABLE;
}

/* Sends with additional headers. */
static CURLcode http_client_perform(struct http_client *client, const char *url,
				    const struct http_request *request)
{
	const struct curl_library *library = &client->library;
	char type[128], encoding[128];
	struct curl_slist second = {.data = encoding, .next = client->headers};
	struct curl_slist first = {
		.data = type,
		.next = request->encoding ? &second : client->headers,
	};
	CURL *curl = client->curl;
	CURLcode code = library->easy_setopt(curl, CURLOPT_URL, url);

	snprintf(type, sizeof(type), "Content-Type: %s", request->type);
	if (request->encoding)
		snprintf(encoding, sizeof(encoding), "Content-Encoding: %s", request->encoding);
	client->reply_size = 0;
	client->is_reply_cut = false;
	client->stopped_ns = 0;
	client->reply[0] = client->detail[0] = '\0';
	if (!code)
		code = library->easy_setopt(curl, CURLOPT_HTTPHEADER, &first);
	if (!code)
		code = library->easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
	if (!code)
		code = library->easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
					    (curl_off_t)request->size);
	if (!code)
		code = library->easy_perform(curl);
	/* It must not refer to this function's list any more. */
	library->easy_setopt(curl, CURLOPT_HTTPHEADER, NULL);
	return code;
}

/* As Connect, gRPC's gateway and Google's guide for APIs have it: {"code": ..., "message": ...}. */
static const char *message_of(struct json_object *reply)
{
	struct json_object *message;

	return json_object_is_type(reply, json_type_object) &&
			       json_object_object_get_ex(reply, "message", &message) &&
			       json_object_is_type(message, json_type_string)
		       ? json_object_get_string(message)
		       : NULL;
}

/*
 * Appends the reason that the server gave to a message: of a JSON object its "message", or else the
 * first line. Of a long one the middle is left out: labels come first, and the reason last.
 */
static void append_reason(struct error *error, const char *reply)
{
	struct json_object *json = json_tokener_parse(reply);
	const char *message = message_of(json), *text = message && *message ? message : reply;
	size_t used = strlen(error->text), length = strcspn(text, "\r\n");
	const size_t part = REASON_MAX / 2;

	if (length > REASON_MAX)
		snprintf(error->text + used, sizeof(error->text) - used, ": %.*s...%.*s", (int)part,
			 text, (int)part, text + length - part);
	else if (length)
		snprintf(error->text + used, sizeof(error->text) - used, ": %.*s", (int)length,
			 text);
	json_object_put(json);
	/* It is printed, and the server may be hostile. */
	utf8_sanitize(error->text);
}

static bool has_protobuf(const struct http_client *client)
{
	const char *type = NULL;

	client->library.easy_getinfo(client->curl, CURLINFO_CONTENT_TYPE, &type);
	return type && !strncasecmp(type, HTTP_PROTOBUF, strlen(HTTP_PROTOBUF));
}

/* As a number of seconds or as a date. */
static unsigned int read_retry_after(const struct http_client *client)
{
	curl_off_t seconds = 0;

	client->library.easy_getinfo(client->curl, CURLINFO_RETRY_AFTER, &seconds);
	return (unsigned int)MAX(0, MIN(seconds, (curl_off_t)HTTP_RETRY_AFTER_MAX_S));
}

enum http_result http_client_post(struct http_client *client, const struct http_request *request,
				  struct error *error)
{
	size_t length = strlen(client->options.url);
	char *url;
	enum http_result result;
	long status = 0;
	CURLcode code;

	client->retry_after_s = 0;
	refresh_headers(client);
	/* One slash between both. */
	while (*request->path && length && client->options.url[length - 1] == '/')
		length--;
	if (asprintf(&url, "%.*s%s", (int)length, client->options.url, request->path) < 0) {
		error_errno(error, ENOMEM, "can't make requests");
		return HTTP_UNAVAILABLE;
	}
	code = http_client_perform(client, url, request);
	/* The status was before the answer. */
	if ((code == CURLE_WRITE_ERROR || code == CURLE_ABORTED_BY_CALLBACK) &&
	    client->is_reply_cut)
		code = CURLE_OK;
	if (code) {
		const char *detail =
			client->detail[0] ? client->detail : client->library.easy_strerror(code);

		error_set(error, EIO, "%s: %s", url, detail);
		free(url);
		return HTTP_UNAVAILABLE;
	}
	client->library.easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
	result = http_result_of_status(status);
	if (request->errors_refuse && result == HTTP_FAILED)
		result = HTTP_REFUSED;
	if (result == HTTP_UNAVAILABLE)
		client->retry_after_s = read_retry_after(client);
	if (result != HTTP_ACCEPTED) {
		error_set(error, EIO, "%s: status %ld", url, status);
		if (!has_protobuf(client))
			append_reason(error, client->reply);
	}
	free(url);
	return result;
}

unsigned int http_client_retry_after_s(const struct http_client *client)
{
	return client->retry_after_s;
}

const void *http_client_answer(const struct http_client *client, size_t *size, bool *is_protobuf)
{
	*size = client->reply_size;
	*is_protobuf = has_protobuf(client);
	return client->reply;
}

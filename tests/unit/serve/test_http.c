// SPDX-License-Identifier: GPL-2.0
/* The HTTP server, between a client and a sampler that are both this test. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http_server.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "sample_profile.h"
#include "sampler_stub.h"
#include "sandbox.h"
#include "serve/access.h"
#include "serve/connections.h"
#include "serve/http.h"
#include "serve/microhttpd.h"
#include "serve/protocol.h"

#define SECOND INT64_C(1000000000)
#define ADDRESS "192.0.2.1:7079" /* the host of requests */
#define SERVER_IDS (UINT32_C(1) << 24)

static struct access access_data;
static int tls_socket = -1; /* of the network; -1: none */
static struct http_config config;
static pid_t server;
static char store_path[PATH_MAX];
static char response[65536];
static size_t response_size;
static const char *body; /* in the response */

/* The memory of the sanitizer is beyond the limit of jobs. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (resource == RLIMIT_DATA)
		return 0;
	return prlimit(0, resource, limit, NULL);
}

static void show_message(const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static int set_up(void **state)
{
	if (microhttpd_load(NULL) || make_sandbox(state))
		return -1;
	run("mkdir '%s'", in_sandbox("store"));
	snprintf(store_path, sizeof(store_path), "%s", in_sandbox("store"));
	config = (struct http_config){
		.statm = -1,
		.access = &access_data,
		.store = {.limits = {UINT64_MAX, 86400, {7200, 86400}},
			  .window_s = 1,
			  .labels = UINT32_MAX},
		.rate = 19,
		.cmdline = "stackbeat\0serve",
		.cmdline_size = sizeof("stackbeat\0serve"),
		.message = show_message,
	};
	return 0;
}

/* Expects that the server ends with this status: it does when the sampler has gone. */
static void expect_end(int wanted)
{
	int status;

	if (sampler >= 0)
		close(sampler);
	sampler = -1;
	assert_int_equal(waitpid(server, &status, 0), server);
	server = 0;
	assert_int_equal(status, wanted);
}

static int tear_down(void **state)
{
	if (sampler >= 0)
		close(sampler);
	sampler = -1;
	if (server)
		waitpid(server, NULL, 0);
	server = 0;
	return remove_sandbox(state);
}

/* The server has a listener for every host, and one for the loopback. */
static void start_server(bool with_store)
{
	int ends[2];

	config.listeners[0] =
		(struct http_listener){.socket = listen_on(in_sandbox("any")), .is_tcp = true};
	config.listeners[1] = (struct http_listener){
		.socket = listen_on(in_sandbox("loopback")), .is_tcp = true, .is_loopback = true};
	config.listeners[2] = (struct http_listener){.socket = listen_on(in_sandbox("unix"))};
	config.listeners[3] = (struct http_listener){.socket = tls_socket, .is_tcp = true};
	config.listener_count = tls_socket < 0 ? 3 : 4;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	config.socket = ends[1];
	config.store.path = with_store ? store_path : NULL;
	server = fork();
	assert_true(server >= 0);
	if (!server) {
		struct error error = {""};

		close(ends[0]);
		/* cmocka's handler would go on with other tests. */
		signal(SIGSEGV, SIG_DFL);
		if (!http_run(&config, &error))
			_exit(0);
		fprintf(stderr, "%s\n", error.text);
		_exit(1);
	}
	close(ends[1]);
	close(config.listeners[0].socket);
	close(config.listeners[1].socket);
	close(config.listeners[2].socket);
	if (tls_socket >= 0)
		close(tls_socket);
	sampler = ends[0];
	set_timeout(sampler);
}

static void start(bool with_store)
{
	start_server(with_store);
	reply(&(struct reply){.type = REPLY_READY}, -1);
}

/* Sends a request, whose answer is read by read_response(). */
static int send_request(const char *name, const char *method, const char *path, const char *host)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	set_timeout(fd);
	strcpy(address.sun_path, in_sandbox("%s", name));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(dprintf(fd, "%s %s HTTP/1.1\r\nHost: %s\r\n\r\n", method, path, host) > 0);
	return fd;
}

/* Returns the status, and sets `body`. */
static int read_response(int fd)
{
	int status = 0;
	ssize_t got;

	response_size = 0;
	while ((got = read(fd, response + response_size, sizeof(response) - 1 - response_size)) > 0)
		response_size += (size_t)got;
	assert_int_equal(got, 0);
	close(fd);
	response[response_size] = '\0';
	assert_int_equal(sscanf(response, "HTTP/1.1 %d ", &status), 1);
	body = strstr(response, "\r\n\r\n");
	assert_non_null(body);
	body += 4;
	return status;
}

static int get(const char *path)
{
	return read_response(send_request("any", "GET", path, ADDRESS));
}

static bool has_header(const char *line)
{
	const char *found = strcasestr(response, line);

	return found && found < body && !strncmp(found + strlen(line), "\r\n", 2);
}

static void pages_are_answered_at_once(void **state)
{
	(void)state;
	start(false);
	assert_int_equal(get("/"), 200);
	assert_non_null(strstr(body, "<script src=\"/page.js\""));
	assert_true(has_header("Content-Type: text/html; charset=utf-8"));
	assert_non_null(strstr(response, "Content-Security-Policy: default-src 'none'; "
					 "script-src 'self'; "));
	assert_true(has_header("X-Content-Type-Options: nosniff"));
	assert_true(has_header("Cache-Control: no-store"));
	assert_true(has_header("Connection: close"));
	assert_null(strstr(response, "X-Go-Pprof"));
	assert_int_equal(get("/page.js"), 200);
	assert_true(has_header("Content-Type: text/javascript; charset=utf-8"));
	assert_int_equal(get("/page.css"), 200);
	assert_true(has_header("Content-Type: text/css; charset=utf-8"));
	assert_int_equal(get("/debug/pprof/"), 200);
	assert_non_null(strstr(body, "<h1>stackbeat</h1>"));
	assert_int_equal(get("/debug/pprof"), 200);
	assert_int_equal(get("/healthz"), 200);
	assert_string_equal(body, "ok\n");
	assert_int_equal(get("/debug/pprof/symbol"), 200);
	assert_string_equal(body, "num_symbols: 0\n");
	assert_int_equal(get("/debug/pprof/cmdline"), 200);
	assert_memory_equal(body, config.cmdline, config.cmdline_size);
	assert_int_equal(get("/debug/pprof/heap"), 404);
	assert_string_equal(body, "there is no such page\n");
	assert_true(has_header("X-Go-Pprof: 1"));
	/* Without a store. */
	assert_int_equal(get("/api/windows"), 404);
	assert_string_equal(body, "there is no store\n");
	expect_end(0);
}

static void methods_are_limited(void **state)
{
	(void)state;
	start(false);
	assert_int_equal(read_response(send_request("any", "DELETE", "/healthz", ADDRESS)), 405);
	assert_true(has_header("Allow: GET, HEAD"));
	assert_int_equal(read_response(send_request("any", "POST", "/healthz", ADDRESS)), 405);
	assert_int_equal(read_response(send_request("any", "POST", "/debug/pprof/symbol", ADDRESS)),
			 200);
	/* Nothing is recorded for the head alone. */
	assert_int_equal(
		read_response(send_request("any", "HEAD", "/debug/pprof/profile", ADDRESS)), 200);
	assert_string_equal(body, "");
	assert_true(has_header("Content-Type: application/octet-stream"));
	assert_int_equal(read_response(send_request("any", "HEAD",
						    "/debug/pprof/profile?format=folded", ADDRESS)),
			 200);
	assert_true(has_header("Content-Type: text/plain; charset=utf-8"));
	assert_int_equal(read_response(send_request(
				 "any", "HEAD", "/debug/pprof/profile?format=speedscope", ADDRESS)),
			 200);
	assert_true(has_header("Content-Type: application/json"));
	assert_true(has_header("Content-Security-Policy: default-src 'none'; "
			       "frame-ancestors 'self'"));
	assert_int_equal(read_response(send_request(
				 "any", "HEAD", "/debug/pprof/profile?format=flamegraph", ADDRESS)),
			 200);
	assert_true(has_header("Content-Type: image/svg+xml"));
	assert_non_null(strstr(response, "script-src 'unsafe-inline'"));
	assert_int_equal(read_response(send_request("any", "HEAD", "/", ADDRESS)), 200);
	assert_string_equal(body, "");
	assert_int_equal(read_response(send_request("any", "POST", "/", ADDRESS)), 405);
	expect_end(0);
}

static int get_with(const char *listener, const char *path, const char *header)
{
	char host[256];

	snprintf(host, sizeof(host), "any.example\r\n%s", header);
	return read_response(send_request(listener, "GET", path, host));
}

/* Unix sockets have the rights of files instead. */
static void clients_over_tcp_need_the_token(void **state)
{
	(void)state;
	access_data.token = strdup("a token of 16 or more");
	start(true);
	assert_int_equal(get_with("any", "/healthz", "X: y"), 401);
	assert_true(has_header("WWW-Authenticate: Basic realm=\"stackbeat\", charset=\"UTF-8\""));
	assert_true(has_header("WWW-Authenticate: Bearer realm=\"stackbeat\""));
	assert_non_null(strstr(body, "this needs the token"));
	assert_int_equal(get_with("any", "/", "X: y"), 401);
	assert_int_equal(get_with("any", "/api/windows", "Authorization: Bearer other"), 401);
	assert_int_equal(get_with("any", "/none", "Authorization: Basic !"), 401);
	assert_int_equal(get_with("any", "/healthz", "Authorization: Bearer a token of 16 or more"),
			 200);
	/* "user:a token of 16 or more" */
	assert_int_equal(get_with("any", "/healthz",
				  "Authorization: Basic dXNlcjphIHRva2VuIG9mIDE2IG9yIG1vcmU="),
			 200);
	/* "a token of 16 or more:user" */
	assert_int_equal(get_with("any", "/healthz",
				  "Authorization: Basic YSB0b2tlbiBvZiAxNiBvciBtb3JlOnVzZXI="),
			 401);
	assert_int_equal(read_response(send_request("loopback", "GET", "/healthz", "localhost")),
			 401);
	assert_int_equal(read_response(send_request("unix", "GET", "/healthz", "localhost")), 200);
	expect_end(0);
	access_clear(&access_data);
}

static char *text_of(const char *name)
{
	char *text = calloc(1, 65536);
	FILE *file = fopen(in_sandbox("%s", name), "re");

	assert_non_null(text);
	assert_non_null(file);
	assert_true(fread(text, 1, 65535, file) > 0);
	fclose(file);
	return text;
}

static void make_certificate(const char *name)
{
	run("cd '%s' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
	    "-subj /CN=localhost -days 2 -keyout %s.key -out %s.crt 2>/dev/null",
	    sandbox, name, name);
}

/* Sends a request with TLS by openssl, and returns its exit status; the answer is in `response`. */
static int get_by_tls(uint16_t port, const char *header, const char *options)
{
	char command[1024];
	FILE *output;

	snprintf(command, sizeof(command),
		 "printf 'GET /healthz HTTP/1.1\\r\\nHost: any.example\\r\\n%s\\r\\n\\r\\n' | "
		 "timeout %d openssl s_client -quiet -verify_return_error -CAfile '%s' -connect "
		 "127.0.0.1:%u %s 2>/dev/null",
		 header, hang_s(), in_sandbox("own.crt"), port, options);
	output = popen(command, "re");
	assert_non_null(output);
	response_size = fread(response, 1, sizeof(response) - 1, output);
	response[response_size] = '\0';
	return pclose(output);
}

static void other_machines_need_tls(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), client;
	struct error error = {""};
	ssize_t got;

	(void)state;
	make_certificate("own");
	make_certificate("other");
	access_data.token = strdup("a token of 16 or more");
	access_data.certificate = text_of("own.crt");
	access_data.key = text_of("other.key");
	assert_int_equal(connections_check_tls(&access_data, &error), -EINVAL);
	assert_non_null(strstr(error.text, "--tls-key is not its key"));
	free(access_data.key);
	access_data.key = text_of("own.key");
	assert_int_equal(connections_check_tls(&access_data, &error), 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, SOMAXCONN), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	tls_socket = fd;
	start(true);
	get_by_tls(ntohs(address.sin_port), "Authorization: Bearer a token of 16 or more", "");
	assert_non_null(strstr(response, "HTTP/1.1 200 OK"));
	assert_non_null(strstr(response, "\r\n\r\nok\n"));
	get_by_tls(ntohs(address.sin_port), "X: y", "");
	assert_non_null(strstr(response, "HTTP/1.1 401 "));
	/* An old version of TLS, and none. */
	get_by_tls(ntohs(address.sin_port), "Authorization: Bearer a token of 16 or more",
		   "-tls1_1 -cipher DEFAULT@SECLEVEL=0");
	assert_string_equal(response, "");
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	set_timeout(client);
	assert_int_equal(connect(client, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_true(dprintf(client, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") > 0);
	while ((got = read(client, response, sizeof(response))) > 0)
		assert_int_not_equal(memcmp(response, "HTTP", 4), 0);
	close(client);
	expect_end(0);
	tls_socket = -1;
	access_clear(&access_data);
}

/* Makes a certificate that an authority signs; `options` are options of openssl-x509. */
static void sign_certificate(const char *name, const char *authority, const char *options)
{
	run("cd '%s' && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
	    "-subj /CN=%s -keyout %s.key -out %s.csr 2>/dev/null && "
	    "openssl x509 -req -in %s.csr -CA %s.crt -CAkey %s.key -CAcreateserial -out %s.crt %s "
	    "2>/dev/null",
	    sandbox, name, name, name, name, authority, authority, name, options);
}

/* Sends a request with the certificate of a client, and returns the status; 0: no answer. */
static long status_with_certificate(uint16_t port, const char *name, const char *header)
{
	char options[512] = "";

	if (name)
		snprintf(options, sizeof(options), "-cert %s/%s.crt -key %s/%s.key", sandbox, name,
			 sandbox, name);
	get_by_tls(port, header, options);
	return strncmp(response, "HTTP/1.1 ", 9) ? 0 : strtol(response + 9, NULL, 10);
}

static void clients_need_certificates(void **state)
{
	const char *const bearer = "Authorization: Bearer a token of 16 or more";
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	struct error error = {""};
	uint16_t port;

	(void)state;
	assert_int_equal(gnutls_load(&error), 0);
	make_certificate("own");
	make_certificate("authority");
	make_certificate("other");
	sign_certificate("client", "authority", "-days 2");
	sign_certificate("stranger", "other", "-days 2");
	sign_certificate("expired", "authority", "-days -1");
	write_file(in_sandbox("server.ext"), "extendedKeyUsage=serverAuth\n", 28);
	sign_certificate("server", "authority", "-days 2 -extfile server.ext");
	access_data.certificate = text_of("own.crt");
	access_data.key = text_of("own.key");
	access_data.client_ca = text_of("own.key");
	assert_int_equal(connections_check_tls(&access_data, &error), -EINVAL);
	assert_string_equal(error.text, "--tls-client-ca: it has no certificate in PEM");
	free(access_data.client_ca);
	access_data.client_ca = text_of("authority.crt");
	assert_int_equal(connections_check_tls(&access_data, &error), 0);

	tls_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(tls_socket, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(tls_socket, SOMAXCONN), 0);
	assert_int_equal(getsockname(tls_socket, (struct sockaddr *)&address, &size), 0);
	port = ntohs(address.sin_port);
	start(true);
	assert_int_equal(status_with_certificate(port, "client", "X: y"), 200);
	assert_int_equal(status_with_certificate(port, NULL, "X: y"), 0);
	assert_int_equal(status_with_certificate(port, "stranger", "X: y"), 0);
	assert_int_equal(status_with_certificate(port, "expired", "X: y"), 0);
	assert_int_equal(status_with_certificate(port, "server", "X: y"), 0);
	/* In the older version, certificates are sent within the handshake. */
	assert_int_equal(get_by_tls(port, "X: y", "-tls1_2"), 256);
	assert_string_equal(response, "");
	/* A certificate of the authority, with the key of another. */
	run("cp '%s/client.crt' '%s/forged.crt' && cp '%s/other.key' '%s/forged.key'", sandbox,
	    sandbox, sandbox, sandbox);
	assert_int_equal(status_with_certificate(port, "forged", "X: y"), 0);
	/* Without TLS, at the loopback, there are no certificates. */
	assert_int_equal(read_response(send_request("loopback", "GET", "/healthz", "localhost")),
			 200);
	expect_end(0);

	/* With a token, clients need both. */
	access_data.token = strdup("a token of 16 or more");
	tls_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	address.sin_port = 0;
	assert_int_equal(bind(tls_socket, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(tls_socket, SOMAXCONN), 0);
	assert_int_equal(getsockname(tls_socket, (struct sockaddr *)&address, &size), 0);
	port = ntohs(address.sin_port);
	start(true);
	assert_int_equal(status_with_certificate(port, "client", bearer), 200);
	assert_int_equal(status_with_certificate(port, "client", "X: y"), 401);
	assert_int_equal(status_with_certificate(port, NULL, bearer), 0);
	expect_end(0);
	tls_socket = -1;
	access_clear(&access_data);
}

/* A page that a browser was led to believe to be this one. */
static void other_hosts_are_refused_on_the_loopback(void **state)
{
	(void)state;
	start(false);
	assert_int_equal(read_response(send_request("loopback", "GET", "/healthz", "evil.example")),
			 403);
	assert_int_equal(read_response(send_request("loopback", "GET", "/", "evil.example")), 403);
	assert_non_null(strstr(body, "another host: use localhost, 127.0.0.1 or [::1]"));
	assert_int_equal(read_response(send_request("loopback", "GET", "/healthz", "localhost:80")),
			 200);
	assert_int_equal(read_response(send_request("loopback", "GET", "/healthz", "127.0.0.1")),
			 200);
	/* ssh brings Unix sockets to the loopback of other machines. */
	assert_int_equal(read_response(send_request("unix", "GET", "/healthz", "evil.example")),
			 403);
	assert_int_equal(read_response(send_request("unix", "GET", "/healthz", "localhost:80")),
			 200);
	expect_end(0);
}

static int get_of_host(const char *host)
{
	return read_response(send_request("any", "GET", "/healthz", host));
}

/* With a token, which the page does not have, names are not checked. */
static void other_hosts_are_refused_without_a_token(void **state)
{
	char name[HOST_NAME_MAX + 1] = "";

	(void)state;
	assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
	start(false);
	assert_int_equal(get_of_host("evil.example"), 403);
	assert_int_equal(get_of_host("192.0.2.1.evil.example"), 403);
	assert_non_null(strstr(body, "another host: use an address or the name of this machine"));
	assert_int_equal(get_of_host("192.0.2.1"), 200);
	assert_int_equal(get_of_host("[2001:db8::1]:7079"), 200);
	assert_int_equal(get_of_host("localhost"), 200);
	assert_int_equal(get_of_host(name), 200);
	expect_end(0);
	access_data.token = strdup("a token of 16 or more");
	start(false);
	assert_int_equal(get_of_host("any.example\r\nAuthorization: Bearer a token of 16 or more"),
			 200);
	expect_end(0);
	access_clear(&access_data);
}

static void invalid_parameters_are_refused(void **state)
{
	(void)state;
	start(true);
	assert_int_equal(get("/debug/pprof/profile?seconds=301"), 400);
	assert_non_null(strstr(body, "at most 300"));
	assert_int_equal(get("/api/windows?from=5&until=5"), 400);
	assert_non_null(strstr(body, "the time range is empty"));
	/* A part of a value, or of a name, is not what was asked for. */
	assert_int_equal(get("/api/windows?from=5%00&until=6"), 400);
	assert_string_equal(body, "a parameter contains a NUL byte\n");
	assert_int_equal(get("/api/windows?service=app%00.service"), 400);
	assert_int_equal(get("/api/windows?service%00=app"), 400);
	assert_int_equal(get("/api/windows?service=app.service%00"), 400);
	assert_int_equal(get("/debug/pprof/profile?format=flamegraph&base_from=1"), 400);
	assert_string_equal(body, "there is no parameter 'base_from' here\n");
	assert_int_equal(get("/api/timeline?service=app"), 400);
	assert_int_equal(get("/api/services?steps=5"), 400);
	assert_int_equal(get("/api/annotate?function=main&format=folded"), 400);
	assert_int_equal(get("/api/annotate"), 400);
	assert_non_null(strstr(body, "add 'function=NAME'"));
	assert_int_equal(get("/api/targets?seconds=5"), 400);
	assert_int_equal(get("/api/profile?seconds=5"), 400);
	assert_int_equal(get("/api/windows?gc"), 200);
	/* Flame graphs without samples are none, other profiles are. */
	assert_int_equal(get("/api/profile?format=flamegraph"), 404);
	assert_non_null(strstr(body, "no samples"));
	assert_int_equal(get("/api/profile?format=folded"), 200);
	assert_string_equal(body, "");
	expect_end(0);
}

static void metrics_are_those_of_the_sampler(void **state)
{
	struct reply counters = {.type = REPLY_COUNTERS, .counters = {.samples = 4711}};
	int fd;

	(void)state;
	start(false);
	assert_int_equal(get("/none"), 404);
	fd = send_request("any", "GET", "/metrics", ADDRESS);
	counters.id = expect_ask(ASK_COUNTERS).id;
	/* The reply to another ask does not answer this one. */
	reply(&(struct reply){.type = REPLY_CUT, .id = counters.id}, -1);
	reply(&(struct reply){.type = REPLY_COUNTERS, .id = counters.id + 1}, -1);
	reply(&counters, -1);
	assert_int_equal(read_response(fd), 200);
	assert_true(has_header("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
	assert_non_null(strstr(body, " 4711\n"));
	/* This page is the second one. */
	assert_non_null(strstr(body, "requests_total 1\n"));
	expect_end(0);
}

/* Earlier counters would be taken for present ones. */
static void counters_that_fail_are_no_metrics(void **state)
{
	struct reply counters = {.type = REPLY_COUNTERS, .err = -EIO, .error = "no counters"};
	int fd;

	(void)state;
	start(false);
	fd = send_request("any", "GET", "/metrics", ADDRESS);
	counters.id = expect_ask(ASK_COUNTERS).id;
	reply(&counters, -1);
	assert_int_equal(read_response(fd), 503);
	assert_string_equal(body, "no counters\n");
	expect_end(0);
}

/* Profiles */

static int slice_file(void)
{
	struct profile *profile = example_profile();
	int file = memfd_create("slice", MFD_CLOEXEC);

	assert_int_equal(pprof_write_fd(profile, file, "slice", NULL), 0);
	profile_free(profile);
	return file;
}

static void send_slice(uint32_t number, bool with_samples)
{
	const int64_t now = now_ns(CLOCK_REALTIME);

	reply(&(struct reply){.type = REPLY_SLICE,
			      .slice = number,
			      .start_ns = now,
			      .duration_ns = SECOND,
			      .samples = with_samples ? EXAMPLE_SAMPLES : 0},
	      with_samples ? slice_file() : -1);
}

static void expect_samples(int64_t wanted)
{
	struct error error;
	struct profile *profile =
		pprof_decode(body, response_size - (size_t)(body - response), "answer", &error);
	int64_t samples = 0;

	if (!profile)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < profile->samples.count; i++)
		samples += profile_values(profile, i)[PROFILE_SAMPLES];
	profile_free(profile);
	assert_int_equal(samples, wanted);
}

/* A profile has the slices from the cut at its beginning to the one at its end. */
static void profiles_have_their_slices(void **state)
{
	struct ask ask;
	int fd;

	(void)state;
	start(false);
	fd = send_request("any", "GET", "/debug/pprof/profile?seconds=1", ADDRESS);
	ask = expect_ask(ASK_CUT);
	reply(&(struct reply){.type = REPLY_CUT, .id = ask.id, .slice = 5}, -1);
	send_slice(5, true);
	ask = expect_ask(ASK_CUT);
	reply(&(struct reply){.type = REPLY_CUT, .id = ask.id, .slice = 8}, -1);
	send_slice(8, true);
	send_slice(6, true);
	send_slice(9, true);
	send_slice(7, false);
	assert_int_equal(read_response(fd), 200);
	assert_true(has_header("Content-Disposition: attachment; filename=\"profile\""));
	expect_samples(2 * EXAMPLE_SAMPLES);
	expect_end(0);
}

static void other_rates_are_recorded(void **state)
{
	struct reply recorded = {.type = REPLY_RECORDED, .duration_ns = SECOND};
	struct ask ask;
	int fd;

	(void)state;
	start(false);
	fd = send_request("any", "GET", "/debug/pprof/profile?seconds=2&hz=20", ADDRESS);
	ask = expect_ask(ASK_RECORD);
	assert_int_equal(ask.rate, 20);
	assert_int_equal(ask.seconds, 2);
	recorded.id = ask.id;
	reply(&recorded, slice_file());
	assert_int_equal(read_response(fd), 200);
	expect_samples(EXAMPLE_SAMPLES);
	/* No more than the rate of the session. */
	fd = send_request("any", "GET", "/debug/pprof/profile?seconds=1&hz=19", ADDRESS);
	expect_ask(ASK_CUT);
	close(fd);
	fd = send_request("any", "GET", "/debug/pprof/profile?hz=20", ADDRESS);
	recorded.id = expect_ask(ASK_RECORD).id;
	recorded.err = -EAGAIN;
	strcpy(recorded.error, "too many");
	reply(&recorded, -1);
	assert_int_equal(read_response(fd), 503);
	assert_string_equal(body, "too many\n");
	fd = send_request("any", "GET", "/debug/pprof/profile?hz=20", ADDRESS);
	recorded.id = expect_ask(ASK_RECORD).id;
	recorded.err = -EIO;
	reply(&recorded, -1);
	assert_int_equal(read_response(fd), 500);
	expect_end(0);
}

static void requests_end_with_the_recording(void **state)
{
	int fd;

	(void)state;
	start(false);
	fd = send_request("any", "GET", "/debug/pprof/profile", ADDRESS);
	expect_ask(ASK_CUT);
	reply(&(struct reply){.type = REPLY_END}, -1);
	assert_int_equal(read_response(fd), 503);
	assert_string_equal(body, "the recording has ended\n");
	expect_end(0);
}

/* The store */

static void slices_are_stored(void **state)
{
	struct ask ask;

	(void)state;
	start(true);
	send_slice(1, true);
	ask = expect_ask(ASK_CUT);
	reply(&(struct reply){.type = REPLY_CUT, .id = ask.id, .slice = 2}, -1);
	send_slice(2, true);
	ask = expect_ask(ASK_STORED);
	assert_int_equal(ask.slice, 2);
	assert_int_equal(get("/api/profile"), 200);
	expect_samples(2 * EXAMPLE_SAMPLES);
	assert_int_equal(get("/api/windows"), 200);
	assert_true(has_header("Content-Type: application/json"));
	assert_non_null(strstr(body, "\"bytes\":"));
	assert_int_equal(get("/api/services"), 200);
	assert_non_null(strstr(body, "\"service\":\"app\",\"samples\":12"));
	assert_int_equal(get("/api/targets"), 200);
	assert_non_null(strstr(body, ADDRESS));
	expect_end(0);
}

static void rest_is_stored_at_the_end(void **state)
{
	(void)state;
	config.store.window_s = 3600;
	start(true);
	send_slice(1, true);
	send_slice(2, true);
	reply(&(struct reply){.type = REPLY_END}, -1);
	expect_end(0);
	/* By another server, to which they are not sent again. */
	start_server(true);
	reply(&(struct reply){.type = REPLY_READY, .slice = 2}, -1);
	assert_int_equal(get("/api/profile"), 200);
	expect_samples(2 * EXAMPLE_SAMPLES);
	expect_end(0);
}

/* A request that has come before the server was ready waits for no event of others. */
static void early_request_is_answered(void **state)
{
	int fd;

	(void)state;
	config.store.window_s = 3600;
	start_server(true);
	fd = send_request("any", "GET", "/api/windows", ADDRESS);
	reply(&(struct reply){.type = REPLY_READY}, -1);
	assert_int_equal(read_response(fd), 200);
	assert_string_equal(body, "[]\n");
	expect_end(0);
}

/* A server that replaces another one ignores the messages for that one. */
static void replacing_server_begins_anew(void **state)
{
	struct ask ask;
	int fd;

	(void)state;
	config.restarts = 3;
	config.store.window_s = 3600;
	start_server(true);
	ask = expect_ask(ASK_BEGIN);
	assert_int_equal(ask.id, 3 * SERVER_IDS);
	send_slice(1, true);
	reply(&(struct reply){.type = REPLY_READY, .id = 2 * SERVER_IDS}, -1);
	send_slice(2, true);
	reply(&(struct reply){.type = REPLY_READY, .id = ask.id, .slice = 2}, -1);
	fd = send_request("any", "GET", "/metrics", ADDRESS);
	reply(&(struct reply){.type = REPLY_COUNTERS, .id = expect_ask(ASK_COUNTERS).id}, -1);
	assert_int_equal(read_response(fd), 200);
	assert_non_null(strstr(body, "\nstackbeat_http_restarts_total 3\n"));
	send_slice(3, true);
	reply(&(struct reply){.type = REPLY_END}, -1);
	expect_end(0);
	config.restarts = 0;
	start(true);
	assert_int_equal(get("/api/profile"), 200);
	expect_samples(EXAMPLE_SAMPLES);
	expect_end(0);
}

static void replacing_server_reports_a_loss(void **state)
{
	(void)state;
	config.restarts = 1;
	start_server(false);
	expect_ask(ASK_BEGIN);
	expect_end(1 << 8);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pages_are_answered_at_once),
		TEST(methods_are_limited),
		TEST(clients_over_tcp_need_the_token),
		TEST(other_machines_need_tls),
		TEST(clients_need_certificates),
		TEST(other_hosts_are_refused_on_the_loopback),
		TEST(other_hosts_are_refused_without_a_token),
		TEST(invalid_parameters_are_refused),
		TEST(metrics_are_those_of_the_sampler),
		TEST(counters_that_fail_are_no_metrics),
		TEST(profiles_have_their_slices),
		TEST(other_rates_are_recorded),
		TEST(requests_end_with_the_recording),
		TEST(slices_are_stored),
		TEST(rest_is_stored_at_the_end),
		TEST(early_request_is_answered),
		TEST(replacing_server_begins_anew),
		TEST(replacing_server_reports_a_loss),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cache_option.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/record_options.h"
#include "cli/sandbox_option.h"
#include "debuginfo/file_cache.h"
#include "debuginfo/kallsyms.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "sandbox/capabilities.h"
#include "serve/access.h"
#include "serve/annotation_server.h"
#include "serve/listen.h"
#include "serve/request.h"
#include "serve/slicer.h"
#include "serve/supervisor.h"
#include "source/session.h"
#include "store/store.h"
#include "symbolize/symbolize_options.h"

#define RATE_DEFAULT 19u
#define USER_DEFAULT "_stackbeat"
#define RUN_DIRECTORY "/run/stackbeat"
#define LISTEN_DEFAULT "unix:" RUN_DIRECTORY "/http.sock"
#define STORE_DEFAULT "/var/lib/stackbeat"
#define STORE_SIZE_DEFAULT (UINT64_C(1) << 30)
#define STORE_SIZE_MIN (UINT64_C(1) << 20)
#define STORE_SIZE_MAX (UINT64_C(1) << 50)
#define STORE_DAYS_DEFAULT 14u
#define STORE_DAYS_MAX 3660u
#define WINDOW_DEFAULT 60u
#define WINDOW_MAX 600u
#define HOUR INT64_C(3600)
#define DAY (24 * HOUR)
#define MERGE_AGE_10_MINUTES (2 * HOUR)
#define MERGE_AGE_HOUR (2 * DAY)

#define LABELS_SERVED                                                                              \
	(LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_CGROUP) |                  \
	 LABEL_SET(LABEL_CONTAINER) | LABEL_SET(LABEL_TRUNCATED))
/* IDs would keep the stacks of a program apart, and windows from becoming one. */
#define LABELS_STORED (LABELS_SERVED & ~LABEL_SET(LABEL_PID))

struct http_address {
	const char *text;
	bool insecure;
	uint16_t port; /* which the kernel may have chosen; 0: none */
};

struct serve_options {
	struct session_config session;
	struct labels labels;
	struct http_address addresses[LISTENERS_MAX];
	size_t address_count;
	struct access_files access;
	struct store_config store;
	const char *user; /* NULL: not given */
	struct sandbox_options sandbox;
	struct cache_options cache;
	bool check, quiet, help;
};

static int serve_parse_rate(const struct cli_option *option, char *value, void *arg,
			    struct error *error)
{
	return parse_number(value, "-F (samples per second)", 1, REQUEST_RATE_MAX,
			    option_target(option, arg), error);
}

/* Adds an address; the constant of the option says whether it may be insecure. */
static int add_address(const struct cli_option *option, char *value, void *arg, struct error *error)
{
	struct serve_options *options = arg;

	if (options->address_count == LISTENERS_MAX)
		return error_set(error, EINVAL, "--listen: more than %u addresses", LISTENERS_MAX);
	options->addresses[options->address_count++] =
		(struct http_address){.text = value, .insecure = option->constant};
	return 0;
}

static int serve_parse_no_store(const struct cli_option *option, char *value, void *arg,
				struct error *error)
{
	struct serve_options *options = arg;

	(void)option;
	(void)value;
	(void)error;
	options->store.path = NULL;
	return 0;
}

static int parse_store_days(const struct cli_option *option, char *value, void *arg,
			    struct error *error)
{
	struct serve_options *options = arg;
	uint32_t days;
	int err = parse_number(value, "--store-days", 1, STORE_DAYS_MAX, &days, error);

	(void)option;
	if (!err)
		options->store.limits.age_s = days * DAY;
	return err;
}

static int parse_window(const struct cli_option *option, char *value, void *arg,
			struct error *error)
{
	uint32_t *seconds = option_target(option, arg);
	int err = parse_number(value, "--window", 1, WINDOW_MAX, seconds, error);

	if (!err && WINDOW_MAX % *seconds)
		return error_set(error, EINVAL,
				 "--window: 10 minutes are no multiple of %u seconds", *seconds);
	return err;
}

static int serve_parse_labels(const struct cli_option *option, char *value, void *arg,
			      struct error *error)
{
	struct serve_options *options = arg;
	int err = labels_choose(&options->labels, value, error);

	(void)option;
	options->store.labels = options->labels.chosen;
	options->session.goroutines = labels_of_goroutines(&options->labels);
	return err;
}

/* clang-format off */
static const struct cli_option serve_options[] = {
	{'F', "frequency", "HZ", "samples per second and CPU, 1 to 1000 (default: 19)",
	 OPTION_CALL(serve_parse_rate), OPTION_TARGET(uint32_t, struct serve_options, session.rate)},
	{0, "source", "SOURCE",
	 "where samples come from: module, perf (perf_event_open(2), which needs no module), or auto: "
	 "the module if it can be used, or else perf (default)",
	 OPTION_CHOICE(struct serve_options, session.source, session_source_names)},
	{0, "listen", "ADDRESS",
	 "unix:PATH, or ADDRESS:PORT, as in 127.0.0.1:7079 or [::1]:7079; repeatable; addresses other "
	 "than the loopback's need --tls-cert, and --token-file or --tls-client-ca "
	 "(default: " LISTEN_DEFAULT ", unless systemd passes sockets)",
	 OPTION_CALL(add_address)},
	{0, "tls-cert", "FILE",
	 "the certificate (PEM), with its issuers', for addresses other than the loopback's",
	 OPTION_PATH(struct serve_options, access.certificate)},
	{0, "tls-key", "FILE", "its key (PEM; default: in the file of the certificate)",
	 OPTION_PATH(struct serve_options, access.key)},
	{0, "tls-client-ca", "FILE",
	 "clients at these addresses need a certificate of an authority in this file (PEM)",
	 OPTION_PATH(struct serve_options, access.client_ca)},
	{0, "token-file", "FILE",
	 "clients over TCP need the token in this file, as a bearer token or a password",
	 OPTION_PATH(struct serve_options, access.token)},
	{0, "insecure", "ADDRESS",
	 "as --listen, but any address, also without TLS or a token: all who reach it can read the "
	 "profiles; repeatable",
	 OPTION_CALL(add_address), .constant = true},
	{0, "store", "DIR",
	 "store profiles in this directory (default: $STATE_DIRECTORY, or " STORE_DEFAULT ")",
	 OPTION_PATH(struct serve_options, store.path)},
	{0, "no-store", NULL, "store nothing",
	 OPTION_CALL(serve_parse_no_store)},
	{0, "store-size", "SIZE",
	 "remove the oldest profiles beyond this size, from 1M on (default: 1G)",
	 OPTION_SIZE(struct serve_options, store.limits.bytes, STORE_SIZE_MIN, STORE_SIZE_MAX)},
	{0, "store-days", "DAYS", "remove profiles that are older (default: 14)",
	 OPTION_CALL(parse_store_days)},
	{0, "window", "SEC", "seconds of each new profile, 1 to 600 (default: 60)",
	 OPTION_CALL(parse_window), OPTION_TARGET(uint32_t, struct serve_options, store.window_s)},
	{0, "labels", "LIST",
	 "labels that are recorded and stored (default: comm, cgroup, container, truncated; also "
	 "pid, which is not stored)",
	 OPTION_CALL(serve_parse_labels)},
	{0, "user", "NAME",
	 "the user who serves HTTP and owns the store, if this command is started by root (default: "
	 USER_DEFAULT " if there is such a user, or else nobody)",
	 OPTION_TEXT(struct serve_options, user)},
	CACHE_OPTIONS(struct serve_options, cache),
	SYMBOLIZE_TIMEOUT_OPTION(struct serve_options, sandbox),
	SANDBOX_OPTION(struct serve_options, sandbox),
	{0, "check", NULL,
	 "do not sample, but print which source of samples can be used; the exit status is 1 if none "
	 "can",
	 OPTION_FLAG(struct serve_options, check)},
	{'q', "quiet", NULL, "do not print that sampling has begun, or which source can be used",
	 OPTION_FLAG(struct serve_options, quiet)},
	HELP_OPTION(struct serve_options, help),
};
/* clang-format on */

static const struct command_help serve_help = {
	.synopsis = "stackbeat serve [OPTION]...",
	.description =
		"Sample the whole system, always, at a low rate. Answer HTTP requests in the form "
		"of net/http/pprof of Go: /debug/pprof/profile; also /metrics for Prometheus, and "
		"/healthz. "
		"Store the profiles of the past, and merge them for any time range: /api/profile.",
	.options = serve_options,
	.notes = "SIGINT, SIGTERM and SIGHUP end it, after the last profile was stored. The man "
		 "page lists the paths and their parameters.",
};

static void print_message(const char *text)
{
	fprintf(stderr, "stackbeat: %s\n", text);
}

static void cmd_serve_print_warning(const char *text, void *arg)
{
	(void)arg;
	print_message(text);
}

/* Options */

static int parse_options(int argc, char **argv, struct serve_options *options, struct error *error)
{
	const char *state = getenv("STATE_DIRECTORY");
	int first, err;

	*options = (struct serve_options){
		.labels.chosen = LABELS_SERVED,
		.store.path = state && *state ? state : STORE_DEFAULT,
		.store.labels = LABELS_STORED,
		.store.window_s = WINDOW_DEFAULT,
		.store.limits.bytes = STORE_SIZE_DEFAULT,
		.store.limits.age_s = STORE_DAYS_DEFAULT * DAY,
		.store.limits.merge_age_s = {MERGE_AGE_10_MINUTES, MERGE_AGE_HOUR},
	};
	session_config_init(&options->session);
	options->session.rate = RATE_DEFAULT;
	options->session.rate_given = true;
	options->session.system_wide = true;
	err = options_parse(argc, argv, serve_options, false, options, &first, error);
	if (!err && first < argc)
		return error_set(error, EINVAL, "unexpected argument '%s'", argv[first]);
	return err;
}

/* What the process that serves HTTP needs */

struct http_process {
	struct serve_options options;
	struct reader_sandbox sandbox;
	struct supervisor supervisor;
	struct annotation_server annotation;
	struct access access;
	gid_t gid; /* of Unix sockets; -1: the group of this process */
};

static int cmd_serve_find_user(struct http_process *server, struct error *error)
{
	const char *name = server->options.user;
	const struct passwd *user = getpwnam(name ? name : USER_DEFAULT);

	server->supervisor.uid = SANDBOX_UID;
	server->gid = (gid_t)-1;
	if (geteuid())
		return 0;
	if (!user && name)
		return error_set(error, EINVAL, "--user: there is no user '%s'", name);
	if (user && !user->pw_uid)
		return error_set(error, EINVAL, "--user: '%s' is root", name ? name : USER_DEFAULT);
	if (user) {
		server->supervisor.uid = user->pw_uid;
		server->gid = user->pw_gid;
	}
	return 0;
}

static int create_store(struct http_process *server, struct error *error)
{
	const char *path = server->options.store.path;

	return path ? store_create(path, geteuid() ? (uid_t)-1 : server->supervisor.uid, error) : 0;
}

static int open_listeners(struct http_process *server, struct error *error)
{
	struct http_config *http = &server->supervisor.http;
	struct serve_options *options = &server->options;
	bool any = access_is_protected(&server->access);
	int err = listen_inherit(http->listeners, &http->listener_count, any, error);
	bool has_tls = false;

	if (!err && !http->listener_count && !options->address_count) {
		if (mkdir(RUN_DIRECTORY, 0755) && errno != EEXIST)
			return error_errno(error, errno, RUN_DIRECTORY);
		options->addresses[options->address_count++] =
			(struct http_address){.text = LISTEN_DEFAULT};
	}
	for (size_t i = 0; i < options->address_count && !err; i++) {
		struct http_address *address = &options->addresses[i];
		struct http_listener *listener = &http->listeners[http->listener_count];

		if (http->listener_count == LISTENERS_MAX)
			return error_set(error, E2BIG, "more than %u sockets", LISTENERS_MAX);
		err = listen_at(address->text, any || address->insecure, server->gid, listener,
				error);
		if (err)
			break;
		address->port = listener->port;
		http->listener_count++;
	}
	for (size_t i = 0; i < http->listener_count; i++)
		has_tls |= http_listener_is_remote(&http->listeners[i]);
	if (!err && server->access.certificate && !has_tls)
		print_message("--tls-cert is not used: all addresses are local");
	return err;
}

/* The process that samples */

static const struct http_process *started_server;

static void print_address(const struct http_address *address)
{
	const char *colon = strrchr(address->text, ':');

	if (address->port && colon)
		fprintf(stderr, "stackbeat: serving at %.*s:%u\n", (int)(colon - address->text),
			address->text, address->port);
	else
		fprintf(stderr, "stackbeat: serving at %s\n", address->text);
}

static void serve_print_source(const struct session *session)
{
	if (*session->loaded)
		fprintf(stderr, "stackbeat: loaded %s\n", session->loaded);
	fprintf(stderr, "stackbeat: source: %s\n", session->source);
}

static void print_started(const struct session *session)
{
	const struct serve_options *options = &started_server->options;

	serve_print_source(session);
	for (size_t i = 0; i < options->address_count; i++)
		print_address(&options->addresses[i]);
	if (options->store.path)
		fprintf(stderr, "stackbeat: storing in %s\n", options->store.path);
}

static void print_nothing(const struct session *session)
{
	(void)session;
}

/* The arguments, each with a NUL, as /debug/pprof/cmdline shows them. */
static char *cmd_serve_command_line(int argc, char **argv, char separator, size_t *size)
{
	char *line, *end;

	*size = sizeof("stackbeat");
	for (int i = 0; i < argc; i++)
		*size += strlen(argv[i]) + 1;
	line = malloc(*size);
	if (!line)
		return NULL;
	end = stpcpy(line, "stackbeat");
	for (int i = 0; i < argc; i++) {
		*end++ = separator;
		end = stpcpy(end, argv[i]);
	}
	return line;
}

static int cmd_serve_sample(struct http_process *server, const char *command_line,
			    struct error *error)
{
	struct symbolize_options symbolize = {0};
	struct sampler_config config = {
		.session = &server->options.session,
		.labels = &server->options.labels,
		.sandbox = &server->sandbox.server,
		.symbolize = &symbolize,
		.command_line = command_line,
		.memory = MEMORY_DEFAULT,
		.socket = server->supervisor.socket,
		.has_store = server->options.store.path,
		.store_labels = server->options.store.labels,
		.started = server->options.quiet ? print_nothing : print_started,
		.warning = cmd_serve_print_warning,
	};
	int err;

	err = cache_option_open(&server->options.cache, &config.cache, error);
	if (err)
		return err;
	symbolize.cache = config.cache;
	started_server = server;
	reader_sandbox_use(&server->sandbox, &server->options.sandbox, &symbolize);
	err = sampler_run(&config, error);
	file_cache_close(config.cache);
	return err;
}

/* There is nothing to annotate without a store. */
static int start_annotation_server(struct http_process *server, struct error *error)
{
	const struct annotation_server_config config = {
		.uid = server->supervisor.uid,
		.requires_sandbox = server->options.sandbox.require,
	};

	if (!server->options.store.path)
		return 0;
	server->supervisor.http.annotation = &server->annotation;
	return annotation_server_start(&server->annotation, &config, error);
}

static int cmd_serve_run(struct http_process *server, int argc, char **argv, struct error *error)
{
	size_t size;
	struct http_config *http = &server->supervisor.http;
	char *cmdline = cmd_serve_command_line(argc, argv, '\0', &http->cmdline_size);
	char *command_line = cmd_serve_command_line(argc, argv, ' ', &size);
	struct error later = {""};
	int err = cmdline && command_line ? 0 : error_errno(error, ENOMEM, "can't serve");

	server->annotation.socket = -1;
	http->cmdline = cmdline;
	http->store = server->options.store;
	http->rate = server->options.session.rate;
	http->message = print_message;
	http->access = &server->access;
	if (!err)
		err = cmd_serve_find_user(server, error);
	/* First: these processes have a copy of all memory, and no secrets. */
	if (!err)
		err = reader_sandbox_start(&server->sandbox, &server->options.sandbox, true, error);
	if (!err)
		err = start_annotation_server(server, error);
	if (!err)
		err = access_read(&server->access, &server->options.access, error);
	if (!err)
		err = open_listeners(server, error);
	if (!err)
		err = create_store(server, error);
	if (!err)
		err = supervisor_start(&server->supervisor, error);
	/* The server of annotations ends with those who can ask it. */
	if (server->annotation.socket >= 0)
		close(server->annotation.socket);
	server->annotation.socket = -1;
	/* Before this process forks others. */
	access_clear(&server->access);
	if (!err && kallsyms_share_input())
		err = error_errno(error, ENOMEM, "can't serve");
	if (!err)
		err = cmd_serve_sample(server, command_line, error);
	for (size_t i = 0; i < http->listener_count; i++)
		listen_remove(&http->listeners[i]);
	error_keep_first(&err, error, supervisor_end(&server->supervisor, &later), &later);
	annotation_server_stop(&server->annotation);
	reader_sandbox_stop(&server->sandbox);
	free(cmdline);
	free(command_line);
	return err;
}

/* A service manager that finds out first that nothing can be sampled does not start it again. */
static int check_source(const struct serve_options *options, struct error *error)
{
	struct session session = {.control = NULL};
	int err = session_open(&session, options->session.source, error);

	if (!err)
		err = session_configure(&session, &options->session, 0, error);
	if (!err && !options->quiet)
		serve_print_source(&session);
	session_close(&session);
	return err;
}

int cmd_serve(int argc, char **argv)
{
	struct http_process *server = calloc(1, sizeof(*server));
	struct error error = {""};
	int err;

	if (!server) {
		fputs("stackbeat serve: out of memory\n", stderr);
		return STATUS_FAILED;
	}
	err = parse_options(argc, argv, &server->options, &error);
	if (err) {
		fprintf(stderr, "stackbeat serve: %s\n", error.text);
	} else if (server->options.help) {
		print_command_help(&serve_help, stdout);
		free(server);
		return 0;
	}
	if (err) {
		free(server);
		return STATUS_USAGE;
	}
	/* Ignore SIGPIPE and SIGXFSZ: neither may end the server. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	err = server->options.check ? check_source(&server->options, &error)
				    : cmd_serve_run(server, argc, argv, &error);
	if (err)
		fprintf(stderr, "stackbeat: %s\n", error.text);
	free(server);
	return err ? STATUS_FAILED : 0;
}

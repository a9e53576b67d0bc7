// SPDX-License-Identifier: GPL-2.0
/*
 * serve: its options, processes, messages and exit status. Functions of this file replace the
 * sampler, the HTTP server, sockets and the store.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/sandbox_option.h"
#include "command.h"
#include "debuginfo/file_cache.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "sandbox/capabilities.h"
#include "serve/access.h"
#include "serve/annotation_server.h"
#include "serve/connections.h"
#include "serve/http.h"
#include "serve/http_rights.h"
#include "serve/listen.h"
#include "serve/microhttpd.h"
#include "serve/slicer.h"
#include "source/session.h"
#include "store/store.h"
#include "symbolize/symbolize_options.h"

#define DAY (24 * 3600)

/* What the functions below return. */
static struct {
	int sandbox_err, annotation_err, listen_err, create_err, lock_err, sampler_err, session_err,
		configure_err;
	int load_err, reduce_err, confine_err, access_err, http_err; /* in the HTTP server */
	unsigned int crashes; /* of the HTTP server */
	unsigned int long_lives; /* the number of the first servers that live long */
	int64_t life_ns;
	unsigned int failing_fork; /* the number of the call that fails; 0: none */
	int pipe_err, mkdir_err;
	size_t inherited; /* sockets */
	uid_t euid;
	const char *user; /* the only one */
	uid_t user_id;
	const char *loaded; /* the module; NULL: sampling does not begin */
} fake;

/* What the process of the command has done. */
static struct {
	struct session_config session;
	struct labels labels;
	bool has_store, downloads, requires_sandbox;
	size_t memory;
	unsigned int timeout_s;
	char command_line[256];
	char addresses[LISTENERS_MAX + 1][64];
	bool insecure[LISTENERS_MAX + 1];
	gid_t groups[LISTENERS_MAX + 1];
	size_t listen_count, removed;
	char created[64], made[64];
	char cache[64]; /* its directory; "": none */
	const struct file_cache *used_cache;
	unsigned int caches_closed;
	uid_t owner;
	unsigned int samplers, stops;
	struct annotation_server_config annotation;
	unsigned int annotation_servers, annotation_stops;
	int annotation_socket;
	int opened; /* sessions */
	int lock, sockets[LISTENERS_MAX];
} done;

/* What the HTTP server has done: another process. */
static struct shared {
	unsigned int servers, loads, confinements, pauses, forks;
	unsigned int tls_loads, tls_checks;
	int64_t now_ns; /* what servers have lived */
	mode_t mask;
	uid_t user;
	struct http_config http;
	char store[64], confined[64], cmdline[256], accessed[64];
	bool signals_are_blocked, faults_are_blocked, listeners_are_open, lock_is_open;
	bool can_annotate;
	bool has_statm, has_ended;
} * shared;

static pid_t test_pid;

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int open_null(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

uid_t geteuid(void)
{
	return fake.euid;
}

struct passwd *getpwnam(const char *name)
{
	static struct passwd user = {.pw_gid = 77};

	user.pw_uid = fake.user_id;
	return fake.user && !strcmp(name, fake.user) ? &user : NULL;
}

int mkdir(const char *path, mode_t mode)
{
	assert_int_equal(mode, 0755);
	snprintf(done.made, sizeof(done.made), "%s", path);
	errno = fake.mkdir_err;
	return fake.mkdir_err ? -1 : 0;
}

pid_t fork(void)
{
	pid_t (*const real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	if (++shared->forks != fake.failing_fork)
		return real();
	errno = EAGAIN;
	return -1;
}

int pipe2(int ends[2], int flags)
{
	assert_int_equal(flags, O_CLOEXEC);
	if (!fake.pipe_err)
		return (int)syscall(SYS_pipe2, ends, flags);
	errno = fake.pipe_err;
	return -1;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int err = (int)syscall(SYS_clock_gettime, clock, time);

	if (shared && shared->servers) {
		time->tv_sec = (time_t)(shared->now_ns / NS_PER_SECOND);
		time->tv_nsec = (long)(shared->now_ns % NS_PER_SECOND);
	}
	return err;
}

int faccessat(int fd, const char *path, int mode, int flags)
{
	(void)fd;
	if (mode != (W_OK | X_OK) || flags != AT_EACCESS)
		abort();
	snprintf(shared->accessed, sizeof(shared->accessed), "%s", path);
	errno = fake.access_err;
	return fake.access_err ? -1 : 0;
}

/* The pause before a restart. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	(void)fds;
	if (count || timeout != 1000)
		abort();
	shared->pauses++;
	return 0;
}

int reader_sandbox_start(struct reader_sandbox *sandbox, const struct sandbox_options *options,
			 bool downloads, struct error *error)
{
	(void)sandbox;
	done.downloads = downloads;
	done.requires_sandbox = options->require;
	return fake.sandbox_err ? error_set(error, -fake.sandbox_err, "no sandbox") : 0;
}

void reader_sandbox_stop(struct reader_sandbox *sandbox)
{
	(void)sandbox;
	done.stops++;
}

void reader_sandbox_use(const struct reader_sandbox *sandbox, const struct sandbox_options *options,
			struct symbolize_options *symbolize)
{
	(void)sandbox;
	symbolize->timeout_s = options->timeout_s;
}

int annotation_server_start(struct annotation_server *server,
			    const struct annotation_server_config *config, struct error *error)
{
	done.annotation = *config;
	done.annotation_servers++;
	server->socket = done.annotation_socket = open_null();
	return fake.annotation_err ? error_set(error, -fake.annotation_err, "no annotations") : 0;
}

void annotation_server_stop(struct annotation_server *server)
{
	done.annotation_stops++;
	if (server->socket >= 0)
		close(server->socket);
}

int listen_inherit(struct http_listener *listeners, size_t *count, bool any, struct error *error)
{
	(void)any;
	(void)error;
	for (size_t i = 0; i < fake.inherited; i++) {
		done.sockets[i] = open_null();
		listeners[(*count)++].socket = done.sockets[i];
	}
	return 0;
}

int listen_at(const char *address, bool insecure, gid_t group, struct http_listener *listener,
	      struct error *error)
{
	size_t i = done.listen_count++;

	snprintf(done.addresses[i], sizeof(done.addresses[i]), "%s", address);
	done.insecure[i] = insecure;
	done.groups[i] = group;
	if (fake.listen_err)
		return error_set(error, -fake.listen_err, "can't listen");
	listener->socket = open_null();
	listener->is_tcp = strncmp(address, "unix:", 5) != 0;
	listener->path = listener->is_tcp ? NULL : address + 5;
	listener->is_loopback = !strncmp(address, "127.", 4);
	listener->port = listener->is_loopback && strstr(address, ":0") ? 5432 : 0;
	return 0;
}

void listen_remove(const struct http_listener *listener)
{
	/* Nobody replaces a socket while the HTTP server listens. */
	assert_false(shared->has_ended);
	done.removed += listener->path && !strcmp(listener->path, "/run/stackbeat/http.sock");
}

int store_create(const char *path, uid_t owner, struct error *error)
{
	snprintf(done.created, sizeof(done.created), "%s", path);
	done.owner = owner;
	return fake.create_err ? error_set(error, -fake.create_err, "no directory") : 0;
}

int store_lock(const char *path, struct error *error)
{
	/* By the user who writes, after the message that says how that user may. */
	if (getpid() == test_pid || strcmp(path, done.created) || strcmp(path, shared->accessed))
		abort();
	if (fake.lock_err)
		return error_set(error, -fake.lock_err, "it is used");
	done.lock = open_null();
	return done.lock;
}

/* The libraries must not run in the process that has all rights. */
int microhttpd_load(struct error *error)
{
	if (getpid() == test_pid)
		abort();
	shared->loads++;
	return fake.load_err ? error_set(error, -fake.load_err, "no library") : 0;
}

int gnutls_load(struct error *error)
{
	(void)error;
	shared->tls_loads++;
	return 0;
}

int http_rights_reduce(uid_t id, struct error *error)
{
	if (getpid() == test_pid || shared->loads)
		abort();
	shared->user = id;
	return fake.reduce_err ? error_set(error, -fake.reduce_err, "no rights") : 0;
}

int http_rights_confine(const char *store, struct error *error)
{
	if (shared->confinements++ != shared->servers)
		abort();
	snprintf(shared->confined, sizeof(shared->confined), "%s", store ? store : "none");
	return fake.confine_err ? error_set(error, -fake.confine_err, "not confined") : 0;
}

int connections_check_tls(const struct access *access, struct error *error)
{
	(void)error;
	if (!access->certificate || !access->key || !access->client_ca == !!shared->tls_loads)
		abort();
	shared->tls_checks++;
	return 0;
}

int http_run(const struct http_config *config, struct error *error)
{
	sigset_t set;
	char byte;

	if (!shared->servers++)
		shared->now_ns = NS_PER_SECOND;
	shared->http = *config;
	shared->mask = umask(0);
	umask(shared->mask);
	shared->has_statm = fcntl(config->statm, F_GETFD) == FD_CLOEXEC;
	snprintf(shared->store, sizeof(shared->store), "%s",
		 config->store.path ? config->store.path : "none");
	if (config->cmdline_size <= sizeof(shared->cmdline))
		memcpy(shared->cmdline, config->cmdline, config->cmdline_size);
	sigprocmask(SIG_SETMASK, NULL, &set);
	shared->signals_are_blocked = sigismember(&set, SIGINT) && sigismember(&set, SIGTERM) &&
				      sigismember(&set, SIGHUP);
	shared->faults_are_blocked = sigismember(&set, SIGSEGV) || sigismember(&set, SIGBUS) ||
				     sigismember(&set, SIGABRT);
	shared->lock_is_open = is_open(done.lock);
	shared->can_annotate = config->annotation && is_open(config->annotation->socket);
	shared->listeners_are_open = true;
	for (size_t i = 0; i < config->listener_count; i++)
		shared->listeners_are_open &= is_open(config->listeners[i].socket);
	if (shared->servers <= fake.crashes) {
		if (shared->servers <= fake.long_lives)
			shared->now_ns += fake.life_ns;
		raise(SIGKILL);
	}
	/* Until the sampler ends. */
	if (read(config->socket, &byte, 1) != 0)
		return error_set(error, EIO, "an unexpected message");
	shared->has_ended = true;
	return fake.http_err ? error_set(error, -fake.http_err, "HTTP fails") : 0;
}

/* The cache of unwind tables. No directory is created. */

struct file_cache *file_cache_open(const struct file_cache_config *config, struct error *error)
{
	snprintf(done.cache, sizeof(done.cache), "%s", config->directory);
	if (strcmp(config->directory, "bad"))
		return (struct file_cache *)&done;
	error_set(error, EPERM, "bad cache");
	return NULL;
}

void file_cache_close(struct file_cache *cache)
{
	done.caches_closed += cache == (struct file_cache *)&done;
}

int sampler_run(const struct sampler_config *config, struct error *error)
{
	assert_int_equal(getpid(), test_pid);
	done.samplers++;
	done.session = *config->session;
	done.labels = *config->labels;
	done.has_store = config->has_store;
	done.memory = config->memory;
	done.used_cache = config->cache;
	done.timeout_s = config->symbolize->timeout_s;
	snprintf(done.command_line, sizeof(done.command_line), "%s", config->command_line);
	assert_true(is_open(config->socket));
	/* The server of annotations ends with the HTTP server. */
	assert_true(done.annotation_socket < 0 || !is_open(done.annotation_socket));
	/* These are the server's alone: a store can be used again once that has ended. */
	assert_int_equal(done.lock, -1);
	for (size_t i = 0; i < fake.inherited; i++)
		assert_false(is_open(done.sockets[i]));
	if (fake.loaded) {
		struct session session = {.source = "kernel module"};

		strcpy(session.loaded, fake.loaded);
		config->started(&session);
	}
	config->warning("a warning", NULL);
	return fake.sampler_err ? error_set(error, -fake.sampler_err, "can't sample") : 0;
}

int session_open(struct session *session, enum session_source source, struct error *error)
{
	done.opened++;
	if (fake.session_err)
		return error_set(error, -fake.session_err, "no session");
	snprintf(session->source, sizeof(session->source), "source %d", (int)source);
	snprintf(session->loaded, sizeof(session->loaded), "%s", fake.loaded ? fake.loaded : "");
	return 0;
}

int session_configure(struct session *session, const struct session_config *config, pid_t child,
		      struct error *error)
{
	(void)session;
	assert_int_equal(child, 0);
	assert_true(config->system_wide);
	assert_int_equal(config->rate, 19);
	return fake.configure_err ? error_set(error, -fake.configure_err, "no permission") : 0;
}

void session_close(struct session *session)
{
	(void)session;
	done.opened--;
}

static int reset(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.euid = 1000;
	unsetenv("STATE_DIRECTORY");
	return 0;
}

static size_t count_fds(void)
{
	DIR *directory = opendir("/proc/self/fd");
	size_t count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int serve(const char *line)
{
	size_t before = count_fds();
	int status;

	memset(&done, 0, sizeof(done));
	memset(shared, 0, sizeof(*shared));
	done.lock = done.annotation_socket = -1;
	status = run_command(cmd_serve, line);
	assert_true(is_open(STDIN_FILENO));
	/* An error ends the process. */
	if (status == STATUS_OK)
		assert_int_equal(count_fds(), before);
	return status;
}

static void assert_serve_fails(const char *line, const char *message)
{
	assert_int_equal(serve(line), STATUS_FAILED);
	assert_string_equal(output, "");
	assert_string_equal(messages, message);
}

#define WARNING "stackbeat: a warning\n"

static void options_have_defaults(void **state)
{
	const uint32_t labels = LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_CGROUP) |
				LABEL_SET(LABEL_CONTAINER) | LABEL_SET(LABEL_TRUNCATED);

	(void)state;
	fake.loaded = "";
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_string_equal(output, "");
	assert_string_equal(messages, "stackbeat: source: kernel module\n"
				      "stackbeat: serving at unix:/run/stackbeat/http.sock\n"
				      "stackbeat: storing in /var/lib/stackbeat\n" WARNING);
	assert_int_equal(done.session.rate, 19);
	assert_int_equal(done.session.source, SOURCE_AUTO);
	assert_true(done.session.rate_given);
	assert_string_equal(done.session.cpus, "");
	assert_true(done.session.cpulist.all);
	assert_int_equal(done.session.parts, STACKBEAT_PARTS_ALL);
	assert_int_equal(done.session.max_depth, 255);
	assert_int_equal(done.session.stack_copy, 8 << 10);
	assert_int_equal(done.session.ring_size, 512 << 10);
	assert_int_equal(done.session.budget, 50);
	assert_int_equal(done.session.goroutines, 0);
	assert_true(done.session.system_wide);
	assert_false(done.session.has_target_options || done.session.has_command);
	assert_int_equal(done.labels.chosen, labels | LABEL_SET(LABEL_PID));
	assert_true(done.has_store);
	assert_int_equal(done.memory, 256 << 20);
	assert_string_equal(done.command_line, "stackbeat serve");
	assert_true(done.downloads);
	assert_false(done.requires_sandbox);
	assert_int_equal(done.timeout_s, 0);
	assert_int_equal(done.listen_count, 1);
	assert_string_equal(done.addresses[0], "unix:/run/stackbeat/http.sock");
	assert_false(done.insecure[0]);
	assert_string_equal(done.made, "/run/stackbeat");
	assert_string_equal(done.created, "/var/lib/stackbeat");
	assert_int_equal(done.owner, (uid_t)-1);
	assert_int_equal(done.stops, 1);
	assert_int_equal(done.annotation_servers, 1);
	assert_int_equal(done.annotation_stops, 1);
	assert_false(done.annotation.requires_sandbox);

	assert_int_equal(shared->servers, 1);
	assert_true(shared->can_annotate);
	assert_string_equal(shared->store, "/var/lib/stackbeat");
	assert_string_equal(shared->confined, "/var/lib/stackbeat");
	assert_string_equal(shared->accessed, "/var/lib/stackbeat");
	assert_int_equal(shared->http.store.labels, labels);
	assert_int_equal(shared->http.store.window_s, 60);
	assert_int_equal(shared->http.store.limits.bytes, 1 << 30);
	assert_int_equal(shared->http.store.limits.age_s, 14 * DAY);
	assert_int_equal(shared->http.store.limits.merge_age_s[0], 2 * 3600);
	assert_int_equal(shared->http.store.limits.merge_age_s[1], 2 * DAY);
	assert_int_equal(shared->http.rate, 19);
	assert_int_equal(shared->http.restarts, 0);
	assert_true(shared->has_statm);
	/* Others can't read what is stored. */
	assert_int_equal(shared->mask, 0027);
	assert_int_equal(shared->http.listener_count, 1);
	assert_int_equal(shared->http.cmdline_size, sizeof("stackbeat\0serve"));
	assert_memory_equal(shared->cmdline, "stackbeat\0serve", sizeof("stackbeat\0serve"));
	assert_true(shared->signals_are_blocked);
	assert_false(shared->faults_are_blocked);
	assert_true(shared->listeners_are_open);
	assert_true(shared->lock_is_open);
	assert_int_equal(shared->loads, 1);
}

static void certificates_are_checked(void **state)
{
	char line[256], path[] = "/tmp/stackbeat-pem.XXXXXX";
	int file = mkstemp(path);

	(void)state;
	assert_int_equal(write(file, "x", 1), 1);
	close(file);
	snprintf(line, sizeof(line), "serve -q --listen 0.0.0.0:1 --tls-cert %s", path);
	assert_int_equal(serve(line), STATUS_OK);
	assert_string_equal(messages, WARNING);
	assert_int_equal(shared->tls_checks, 1);
	assert_int_equal(shared->tls_loads, 0);
	snprintf(line, sizeof(line),
		 "serve -q --listen 0.0.0.0:1 --tls-cert %s --tls-key %s --tls-client-ca %s", path,
		 path, path);
	assert_int_equal(serve(line), STATUS_OK);
	assert_int_equal(shared->tls_checks, 1);
	assert_int_equal(shared->tls_loads, 1);
	/* Addresses of this machine have no TLS. */
	snprintf(line, sizeof(line), "serve -q --listen 127.0.0.1:1 --listen unix:x --tls-cert %s",
		 path);
	assert_int_equal(serve(line), STATUS_OK);
	assert_string_equal(messages,
			    "stackbeat: --tls-cert is not used: all addresses are local\n" WARNING);
	unlink(path);
}

static void port_that_the_kernel_chooses_is_printed(void **state)
{
	(void)state;
	fake.loaded = "/lib/stackbeat.ko";
	assert_int_equal(serve("serve --no-store --listen 127.0.0.1:0"), STATUS_OK);
	assert_non_null(strstr(messages, "stackbeat: serving at 127.0.0.1:5432\n"));
}

static void unix_socket_is_removed_at_the_end(void **state)
{
	(void)state;
	fake.inherited = 1;
	assert_int_equal(serve("serve --no-store --listen unix:/run/stackbeat/http.sock"),
			 STATUS_OK);
	assert_int_equal(done.removed, 1);
}

static void options_are_parsed(void **state)
{
	(void)state;
	fake.loaded = "/lib/stackbeat.ko";
	assert_int_equal(serve("serve --listen 127.0.0.1:1 --insecure [::]:2 --store dir "
			       "--store-size 2M --store-days 3 --window 20 --labels pid,goroutine "
			       "--source perf"),
			 STATUS_OK);
	assert_string_equal(messages, "stackbeat: loaded /lib/stackbeat.ko\n"
				      "stackbeat: source: kernel module\n"
				      "stackbeat: serving at 127.0.0.1:1\n"
				      "stackbeat: serving at [::]:2\n"
				      "stackbeat: storing in dir\n" WARNING);
	assert_int_equal(done.session.source, SOURCE_PERF);
	assert_int_equal(done.listen_count, 2);
	assert_string_equal(done.addresses[0], "127.0.0.1:1");
	assert_false(done.insecure[0]);
	assert_string_equal(done.addresses[1], "[::]:2");
	assert_true(done.insecure[1]);
	assert_string_equal(done.made, "");
	assert_string_equal(done.created, "dir");
	assert_int_equal(done.labels.chosen, LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_GOROUTINE));
	assert_int_equal(done.session.goroutines, STACKBEAT_GOROUTINE_ID);
	assert_int_equal(shared->http.store.labels, done.labels.chosen);
	assert_int_equal(shared->http.store.limits.bytes, 2 << 20);
	assert_int_equal(shared->http.store.limits.age_s, 3 * DAY);
	assert_int_equal(shared->http.store.window_s, 20);
	assert_int_equal(shared->http.listener_count, 2);
	assert_true(shared->listeners_are_open);

	assert_int_equal(serve("serve -q -F 1000 --no-store --sandbox require --symbolize-timeout "
			       "9 --listen a"),
			 STATUS_OK);
	assert_string_equal(messages, WARNING);
	assert_int_equal(done.session.rate, 1000);
	assert_int_equal(shared->http.rate, 1000);
	assert_string_equal(done.command_line, "stackbeat serve -q -F 1000 --no-store --sandbox "
					       "require --symbolize-timeout 9 --listen a");
	assert_true(done.requires_sandbox);
	/* There is nothing to annotate. */
	assert_int_equal(done.annotation_servers, 0);
	assert_false(shared->can_annotate);
	assert_int_equal(done.timeout_s, 9);
	assert_false(done.has_store);
	assert_string_equal(done.created, "");
	assert_string_equal(shared->store, "none");
	assert_string_equal(shared->confined, "none");
	assert_string_equal(shared->accessed, "");
	assert_non_null(done.used_cache);
	assert_int_equal(done.caches_closed, 1);
	assert_int_equal(serve("serve --no-cache"), STATUS_OK);
	assert_null(done.used_cache);
	assert_int_equal(serve("serve --cache dir"), STATUS_OK);
	assert_string_equal(done.cache, "dir");
	assert_int_equal(serve("serve --cache bad"), STATUS_FAILED);
	/* systemd sets the directory of a service. */
	setenv("STATE_DIRECTORY", "/var/lib/other", true);
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_string_equal(done.created, "/var/lib/other");
	assert_int_equal(serve("serve --store dir"), STATUS_OK);
	assert_string_equal(done.created, "dir");
	setenv("STATE_DIRECTORY", "", true);
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_string_equal(done.created, "/var/lib/stackbeat");
}

static void assert_usage(const char *line, const char *message)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "stackbeat serve: %s\n", message);
	assert_int_equal(serve(line), STATUS_USAGE);
	assert_string_equal(messages, expected);
	assert_int_equal(done.samplers, 0);
	assert_int_equal(done.listen_count, 0);
}

static void values_have_bounds(void **state)
{
	(void)state;
	assert_int_equal(serve("serve -F 1 --store-size 1M --store-days 1 --window 1"), STATUS_OK);
	assert_int_equal(done.session.rate, 1);
	assert_true(done.session.rate_given);
	assert_int_equal(shared->http.store.limits.bytes, 1 << 20);
	assert_int_equal(shared->http.store.limits.age_s, DAY);
	assert_int_equal(shared->http.store.window_s, 1);
	assert_int_equal(
		serve("serve --store-size 1048576G --store-days 3660 --window 600 --window 600"),
		STATUS_OK);
	assert_int_equal(shared->http.store.limits.bytes, UINT64_C(1) << 50);
	assert_int_equal(shared->http.store.limits.age_s, INT64_C(3660) * DAY);
	assert_int_equal(shared->http.store.window_s, 600);
	assert_usage("serve -F 0", "-F (samples per second): '0' is not a number from 1 to 1000");
	assert_usage("serve -F 1001",
		     "-F (samples per second): '1001' is not a number from 1 to 1000");
	assert_usage("serve --store-size 1048575",
		     "--store-size: '1048575' is not a size from 1M to 1048576G");
	assert_usage("serve --store-size 1048577G",
		     "--store-size: '1048577G' is not a size from 1M to 1048576G");
	assert_usage("serve --store-days 0", "--store-days: '0' is not a number from 1 to 3660");
	assert_usage("serve --store-days 3661",
		     "--store-days: '3661' is not a number from 1 to 3660");
	assert_usage("serve --window 0", "--window: '0' is not a number from 1 to 600");
	assert_usage("serve --window 601", "--window: '601' is not a number from 1 to 600");
	assert_usage("serve --window 400", "--window: 10 minutes are no multiple of 400 seconds");
	assert_usage("serve --sandbox=no", "--sandbox: 'no' is neither 'try' nor 'require'");
	assert_usage("serve --store=", "--store: the directory is empty");
	assert_usage("serve --tls-cert=", "--tls-cert: the file name is empty");
	assert_usage("serve --tls-client-ca=", "--tls-client-ca: the file name is empty");
	assert_usage("serve --tls-key=", "--tls-key: the file name is empty");
	assert_usage("serve --token-file=", "--token-file: the file name is empty");
	assert_int_equal(serve("serve --labels comm,x"), STATUS_USAGE);
	assert_non_null(strstr(messages, "stackbeat serve: --labels: 'x' is none of comm, "));
	assert_usage("serve x", "unexpected argument 'x'");
	assert_usage("serve x --window 0", "--window: '0' is not a number from 1 to 600");
	assert_int_equal(serve("serve --help"), STATUS_OK);
	assert_memory_equal(output, "Usage: stackbeat serve ", 23);
	assert_int_equal(done.samplers, 0);
}

static void addresses_are_limited(void **state)
{
	(void)state;
	assert_int_equal(serve("serve --listen=1 --listen=2 --listen=3 --listen=4 --listen=5 "
			       "--listen=6 --listen=7 --insecure=8"),
			 STATUS_OK);
	assert_int_equal(shared->http.listener_count, 8);
	assert_true(shared->listeners_are_open);
	assert_usage("serve --listen=1 --listen=2 --listen=3 --listen=4 --listen=5 --listen=6 "
		     "--listen=7 --listen=8 --insecure=9",
		     "--listen: more than 8 addresses");
	/* With the sockets of systemd. */
	fake.inherited = 2;
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_int_equal(done.listen_count, 0);
	assert_int_equal(shared->http.listener_count, 2);
	assert_int_equal(serve("serve --listen=1 --listen=2 --listen=3 --listen=4 --listen=5 "
			       "--listen=6"),
			 STATUS_OK);
	assert_int_equal(shared->http.listener_count, 8);
}

/* Who serves HTTP, and owns the store. */
static void users_are_found(void **state)
{
	(void)state;
	fake.euid = 0;
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_int_equal(shared->user, SANDBOX_UID);
	assert_int_equal(done.owner, SANDBOX_UID);
	assert_int_equal(done.groups[0], (gid_t)-1);
	assert_serve_fails("serve --user web", "stackbeat: --user: there is no user 'web'\n");
	assert_int_equal(done.samplers, 0);
	fake.user = "_stackbeat";
	fake.user_id = 123;
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_int_equal(shared->user, 123);
	assert_int_equal(done.owner, 123);
	assert_int_equal(done.groups[0], 77);
	fake.user = "web";
	assert_int_equal(serve("serve --user web"), STATUS_OK);
	assert_int_equal(shared->user, 123);
	fake.user_id = 0;
	assert_serve_fails("serve --user web", "stackbeat: --user: 'web' is root\n");
	fake.user = "_stackbeat";
	assert_serve_fails("serve", "stackbeat: --user: '_stackbeat' is root\n");
	/* Only root can become another user. */
	fake.euid = 1000;
	assert_int_equal(serve("serve --user web"), STATUS_OK);
	assert_int_equal(done.owner, (uid_t)-1);
	assert_int_equal(done.groups[0], (gid_t)-1);
}

static void what_fails_is_said(void **state)
{
	(void)state;
	fake.sandbox_err = -EPERM;
	assert_serve_fails("serve", "stackbeat: no sandbox\n");
	assert_string_equal(done.created, "");
	reset(NULL);
	fake.annotation_err = -EAGAIN;
	assert_serve_fails("serve", "stackbeat: no annotations\n");
	assert_string_equal(done.created, "");
	assert_int_equal(done.annotation_stops, 1);
	reset(NULL);
	fake.mkdir_err = EACCES;
	assert_serve_fails("serve", "stackbeat: /run/stackbeat: Permission denied\n");
	assert_int_equal(done.listen_count, 0);
	fake.mkdir_err = EEXIST;
	assert_int_equal(serve("serve"), STATUS_OK);
	reset(NULL);
	fake.create_err = -EACCES;
	assert_serve_fails("serve", "stackbeat: no directory\n");
	reset(NULL);
	fake.lock_err = -EBUSY;
	assert_serve_fails("serve", "stackbeat: it is used\n");
	assert_int_equal(done.samplers, 0);
	assert_int_equal(done.removed, 1);
	assert_int_equal(shared->servers, 0);
	assert_int_equal(done.stops, 1);
}

/* Without a store, a socket or another process. */
static void assert_checked(const char *line, int status, const char *message)
{
	assert_int_equal(serve(line), status);
	assert_string_equal(output, "");
	assert_string_equal(messages, message);
	assert_int_equal(done.opened, 0);
	assert_int_equal(done.samplers, 0);
	assert_int_equal(done.listen_count, 0);
	assert_string_equal(done.created, "");
	assert_int_equal(shared->forks, 0);
}

static void source_is_checked(void **state)
{
	(void)state;
	assert_checked("serve --check", STATUS_OK, "stackbeat: source: source 0\n");
	assert_checked("serve --check --source=perf", STATUS_OK, "stackbeat: source: source 2\n");
	assert_checked("serve --check --quiet", STATUS_OK, "");
	fake.loaded = "stackbeat.ko";
	assert_checked("serve --check", STATUS_OK,
		       "stackbeat: loaded stackbeat.ko\nstackbeat: source: source 0\n");
	fake.configure_err = -EACCES;
	assert_checked("serve --check -q", STATUS_FAILED, "stackbeat: no permission\n");
	fake.session_err = -EPERM;
	assert_checked("serve --check", STATUS_FAILED, "stackbeat: no session\n");
}

static void errors_of_the_server_end_it_before_sampling(void **state)
{
	int *const errors[] = {&fake.reduce_err, &fake.load_err, &fake.access_err};
	static const char *const expected[] = {
		"stackbeat: no rights\n", "stackbeat: no library\n",
		("stackbeat: dir: the user 1000, who serves HTTP, can't write there: Permission "
		 "denied; 'chown 1000 DIR' permits it, or --user NAME takes another user\n")};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		reset(NULL);
		*errors[i] = i == 2 ? EACCES : -EACCES;
		assert_serve_fails("serve --store dir", expected[i]);
		assert_int_equal(done.samplers, 0);
		assert_int_equal(shared->servers, 0);
	}
}

static void processes_that_can_not_be_started_are_an_error(void **state)
{
	(void)state;
	fake.pipe_err = EMFILE;
	assert_serve_fails("serve",
			   "stackbeat: can't start the HTTP server: Too many open files\n");
	reset(NULL);
	fake.failing_fork = 1;
	assert_serve_fails("serve", "stackbeat: can't start the HTTP server\n");
	assert_int_equal(done.samplers, 0);
	assert_int_equal(done.stops, 1);
	fake.failing_fork = 2;
	assert_int_equal(serve("serve"), STATUS_FAILED);
	assert_non_null(strstr(messages, "stackbeat: can't start the HTTP server: Resource "
					 "temporarily unavailable\n"));
	assert_int_equal(shared->servers, 0);
}

static void both_processes_must_succeed(void **state)
{
	(void)state;
	fake.sampler_err = -EIO;
	assert_serve_fails("serve", WARNING "stackbeat: can't sample\n");
	assert_int_equal(shared->servers, 1);
	reset(NULL);
	fake.http_err = -EIO;
	assert_serve_fails("serve", WARNING "stackbeat: HTTP fails\n"
					    "stackbeat: the HTTP server has failed\n");
	fake.sampler_err = -EIO;
	assert_serve_fails("serve", WARNING "stackbeat: HTTP fails\n"
					    "stackbeat: can't sample\n");
}

static void server_that_can_not_be_confined_does_not_serve(void **state)
{
	(void)state;
	fake.confine_err = -EPERM;
	assert_int_equal(serve("serve"), STATUS_FAILED);
	assert_non_null(strstr(messages, "stackbeat: not confined\n"));
	assert_non_null(strstr(messages, "stackbeat: the HTTP server has failed\n"));
	assert_int_equal(shared->servers, 0);
}

/* Returns how often a text is in the messages. */
static unsigned int count_messages(const char *text)
{
	unsigned int count = 0;

	for (const char *at = messages; (at = strstr(at, text)); at++)
		count++;
	return count;
}

static void server_that_crashes_is_started_again(void **state)
{
	const char *again =
		"stackbeat: the HTTP server was killed by signal 9; it is started again\n";

	(void)state;
	fake.crashes = 4;
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_int_equal(count_messages(again), 4);
	assert_int_equal(shared->servers, 5);
	assert_int_equal(shared->http.restarts, 4);
	assert_int_equal(shared->pauses, 4);
	assert_int_equal(shared->loads, 1);
	/* Not for ever. */
	fake.crashes = 5;
	assert_int_equal(serve("serve"), STATUS_FAILED);
	assert_int_equal(count_messages(again), 4);
	assert_int_equal(
		count_messages("stackbeat: the HTTP server was killed by signal 9 again\n"), 1);
	assert_int_equal(count_messages("stackbeat: the HTTP server has failed\n"), 1);
	assert_int_equal(shared->servers, 5);
}

/* One crash in a while is no reason to give up. */
static void crashes_count_within_10_seconds(void **state)
{
	(void)state;
	fake.long_lives = 7;
	fake.life_ns = 10 * NS_PER_SECOND + 1;
	/* The last server that has lived for long counts as the first. */
	fake.crashes = 10;
	assert_int_equal(serve("serve"), STATUS_OK);
	assert_int_equal(shared->servers, 11);
	assert_int_equal(shared->http.restarts, 10);
	fake.crashes = 11;
	assert_int_equal(serve("serve"), STATUS_FAILED);
	assert_int_equal(shared->servers, 11);
	fake.life_ns = 10 * NS_PER_SECOND;
	assert_int_equal(serve("serve"), STATUS_FAILED);
	assert_int_equal(shared->servers, 5);
}

#define TEST(function) cmocka_unit_test_setup(function, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(options_have_defaults),
		TEST(certificates_are_checked),
		TEST(options_are_parsed),
		TEST(port_that_the_kernel_chooses_is_printed),
		TEST(unix_socket_is_removed_at_the_end),
		TEST(values_have_bounds),
		TEST(addresses_are_limited),
		TEST(users_are_found),
		TEST(what_fails_is_said),
		TEST(source_is_checked),
		TEST(errors_of_the_server_end_it_before_sampling),
		TEST(processes_that_can_not_be_started_are_an_error),
		TEST(both_processes_must_succeed),
		TEST(server_that_can_not_be_confined_does_not_serve),
		TEST(server_that_crashes_is_started_again),
		TEST(crashes_count_within_10_seconds),
	};

	test_pid = getpid();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("cmd_serve", tests, NULL, NULL);
}

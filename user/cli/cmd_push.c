// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/file_limit.h"
#include "pprof/labels.h"
#include "pprof/pprof_reader.h"
#include "pprof/profile.h"
#include "push/push_metrics.h"
#include "push/push_store.h"
#include "sandbox/capabilities.h"
#include "sandbox/seccomp_filter.h"

#define POLL_S 2 /* between two looks at the store */
#define PAUSE_MAX_S 120 /* between two tries while the server is away */
#define REMINDER_NS (3600 * NS_PER_SECOND)
#define SPREAD_DEFAULT_S 30u
#define SPREAD_MAX_S 3600u
#define SERVICES_MAX 100000u
#define SAMPLES_MAX 10000000u
#define BYTES_MIN (UINT64_C(1) << 16)
#define BYTES_MAX (UINT64_C(1) << 30)
#define STATE_NAME ".push-"

struct push_arguments {
	struct push_options push;
	struct http_options http;
	struct push_label labels[PUSH_LABELS_MAX];
	struct labels sample_labels;
	const char *store, *state, *metrics;
	uint32_t spread_s;
	bool has_spread;
	char **files;
	bool quiet, help;
};

static int push_parse_form(const struct cli_option *option, char *value, void *arg,
			   struct error *error)
{
	return push_form_parse(value, option_target(option, arg), error);
}

/* Adds KEY=VALUE, and writes to `text`. */
static int cmd_push_add_label(const struct cli_option *option, char *text, void *arg,
			      struct error *error)
{
	struct push_arguments *arguments = arg;
	char *value = strchr(text, '=');

	(void)option;
	if (arguments->push.label_count == PUSH_LABELS_MAX)
		return error_set(error, EINVAL, "--label: more than %u", PUSH_LABELS_MAX);
	if (!value)
		return error_set(error, EINVAL, "--label: '%s' is not KEY=VALUE", text);
	*value++ = '\0';
	for (size_t i = 0; i < arguments->push.label_count; i++) {
		if (!strcmp(arguments->labels[i].name, text))
			return error_set(error, EINVAL, "--label: '%s' is given twice", text);
	}
	arguments->labels[arguments->push.label_count++] = (struct push_label){text, value};
	return 0;
}

/* clang-format off */
static const struct cli_option options[] = {
	{0, "to", "SERVER",
	 "pyroscope (default); parca; pprof: the profile as it is, for the pprof receiver of the "
	 "OpenTelemetry Collector; or otlp-experimental: OTLP over HTTP, whose profiles are in "
	 "development",
	 OPTION_CALL(push_parse_form),
	 OPTION_TARGET(enum push_form, struct push_arguments, push.form)},
	{0, "store", "DIR",
	 "push the profiles that stackbeat serve stores here, from now on until a signal",
	 OPTION_PATH(struct push_arguments, store)},
	{0, "state", "FILE",
	 "with --store: what was pushed, to go on there after an end (default: a file in DIR, "
	 "named after URL)",
	 OPTION_PATH(struct push_arguments, state)},
	{0, "metrics", "FILE",
	 "with --store: write counters to this file, for the textfile collector of Prometheus' "
	 "node_exporter",
	 OPTION_PATH(struct push_arguments, metrics)},
	{0, "spread", "SEC",
	 "with --store: send each profile up to SEC seconds after its end, so that many machines do "
	 "not send at once (default: 30)",
	 OPTION_NUMBER(struct push_arguments, spread_s, 0, SPREAD_MAX_S),
	 OPTION_GIVEN(struct push_arguments, has_spread)},
	{0, "label", "KEY=VALUE",
	 "a label of each series; repeatable; instance is the name of this host unless it is given "
	 "(\"instance=\": none); in OTLP it is host.name",
	 OPTION_CALL(cmd_push_add_label)},
	{0, "labels", "LIST",
	 "labels of the samples to be pushed; servers make a series of each set of values (default: "
	 "none)",
	 OPTION_LABELS(struct push_arguments, sample_labels)},
	{0, "header-file", "FILE",
	 "add the headers in FILE, one per line, as in \"Authorization: Bearer TOKEN\"",
	 OPTION_TEXT(struct push_arguments, http.header_file)},
	{0, "cacert", "FILE", "trust the certificates in FILE, not the system's",
	 OPTION_TEXT(struct push_arguments, http.ca_file)},
	{0, "cert", "FILE",
	 "the certificate of this client (PEM), with its issuers', for servers that ask for one",
	 OPTION_TEXT(struct push_arguments, http.certificate_file)},
	{0, "key", "FILE", "its key (PEM; default: in the file of the certificate)",
	 OPTION_TEXT(struct push_arguments, http.key_file)},
	{0, "insecure", NULL, "send the headers of --header-file also without TLS",
	 OPTION_FLAG(struct push_arguments, http.insecure)},
	{0, "max-services", "N",
	 "push the smallest services of a profile beyond N as one, \"others\" (default: 256)",
	 OPTION_COUNT(struct push_arguments, push.services_max, 2, SERVICES_MAX)},
	{0, "max-samples", "N",
	 "merge the lightest stacks of a request beyond N (default: 16000)",
	 OPTION_COUNT(struct push_arguments, push.samples_max, 2, SAMPLES_MAX)},
	{0, "max-size", "SIZE",
	 "and beyond this size, before compression (default: 4M)",
	 OPTION_SIZE(struct push_arguments, push.bytes_max, BYTES_MIN, BYTES_MAX)},
	{'q', "quiet", NULL, "print errors only",
	 OPTION_FLAG(struct push_arguments, quiet)},
	HELP_OPTION(struct push_arguments, help),
};
/* clang-format on */

static const struct command_help help = {
	.synopsis = "stackbeat push [OPTION]... URL FILE...\n"
		    "       stackbeat push [OPTION]... --store DIR URL",
	.description =
		"Send profiles to a server: one for each service (container, pod, systemd unit, or "
		"else program) as a series with the label service_name. The files are recordings "
		"of stackbeat.",
	.options = options,
	.notes = "URL is the server's, as in http://127.0.0.1:4040; with --to pprof, also "
		 "the path; with --to otlp-experimental, as in http://127.0.0.1:4318. Exit status: "
		 "0; 1 if something could not be pushed; 2 for a wrong "
		 "command line.",
};

/* Options */

/* The value of the host may be empty. */
static int check_labels(const struct push_arguments *arguments, struct error *error)
{
	const enum push_form form = arguments->push.form;

	if (form == PUSH_PPROF && arguments->push.label_count)
		return error_set(error, EINVAL, "--label can't be combined with --to pprof");
	for (size_t i = 0; i < arguments->push.label_count; i++) {
		const struct push_label *label = &arguments->labels[i];

		if (!*label->value && strcmp(label->name, push_host_label(form)))
			return error_set(error, EINVAL, "--label: '%s=' is not KEY=VALUE",
					 label->name);
		if (!push_label_is_valid(form, label->name))
			return error_set(error, EINVAL,
					 "--label: '%s' is not a name of letters, digits and %s",
					 label->name, form == PUSH_OTLP ? "_ or ." : "_");
		if (!strcmp(label->name, push_service_label(form)))
			return error_set(error, EINVAL, "--label: '%s' is reserved by stackbeat",
					 label->name);
	}
	return 0;
}

/*
 * Adds `host` as its label, or removes an empty one. With all labels in use, there is no
 * default.
 */
static void complete_labels(struct push_arguments *arguments, const char *host)
{
	const char *name = push_host_label(arguments->push.form);
	struct push_label *labels = arguments->labels;
	size_t *count = &arguments->push.label_count, i = 0;

	while (i < *count && strcmp(labels[i].name, name))
		i++;
	if (i < *count && !*labels[i].value)
		labels[i] = labels[--*count];
	else if (i == *count && *host && i < PUSH_LABELS_MAX)
		labels[(*count)++] = (struct push_label){name, host};
}

static int cmd_push_parse(struct push_arguments *arguments, int argc, char **argv,
			  struct error *error)
{
	int first, err;

	err = options_parse(argc, argv, options, false, arguments, &first, error);
	if (err || arguments->help)
		return err;
	if (first == argc)
		return error_set(error, EINVAL, "no URL is given");
	arguments->http.url = argv[first];
	arguments->files = argv + first + 1;
	if (arguments->store && *arguments->files)
		return error_set(error, EINVAL, "--store can't be combined with files");
	if (!arguments->store && !*arguments->files)
		return error_set(error, EINVAL, "no file is given");
	if (arguments->state && !arguments->store)
		return error_set(error, EINVAL, "--state: needs --store");
	if (arguments->metrics && !arguments->store)
		return error_set(error, EINVAL, "--metrics: needs --store");
	if (arguments->has_spread && !arguments->store)
		return error_set(error, EINVAL, "--spread needs --store");
	if (arguments->http.key_file && !arguments->http.certificate_file)
		return error_set(error, EINVAL, "--key needs --cert");
	return check_labels(arguments, error);
}

/* Signals are blocked, and end the work where it waits. */

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

static sigset_t stop_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
		sigaddset(&set, stop_signals[i]);
	return set;
}

static bool is_stopped(void)
{
	sigset_t pending;

	sigpending(&pending);
	for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++) {
		if (sigismember(&pending, stop_signals[i]))
			return true;
	}
	return false;
}

/* Returns whether a signal has come. */
static bool wait_seconds(time_t seconds)
{
	const struct timespec time = {.tv_sec = seconds};
	const sigset_t set = stop_set();
	int signal;

	do {
		signal = sigtimedwait(&set, NULL, &time);
	} while (signal < 0 && errno == EINTR);
	return signal > 0;
}

/* Rights */

/* What this process parses comes from programs that were profiled, and from the network. */
static int give_up_rights(uid_t owner, uint64_t capabilities, struct error *error)
{
	int err = 0;

	if (geteuid() == 0 && owner)
		err = become_user(owner);
	if (!err)
		err = capabilities_keep(capabilities);
	if (err)
		return error_errno(error, -err, "can't give up rights");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* Without filters, the process still has no capabilities. */
	(void)seccomp_confine_network_client();
	return 0;
}

/* Files */

static const char *plural_ending(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_counts(const struct push_arguments *arguments, const struct push_counts *counts)
{
	if (!arguments->quiet)
		fprintf(stderr,
			"stackbeat push: %" PRIu64 " sample%s in %" PRIu64 " profile%s, %" PRIu64
			" refused, %" PRIu64 " stack%s merged\n",
			counts->samples, plural_ending(counts->samples), counts->requests,
			plural_ending(counts->requests), counts->refused, counts->merged,
			plural_ending(counts->merged));
}

static enum http_result push_file(struct http_client *client,
				  const struct push_arguments *arguments, const char *path,
				  struct push_counts *counts, struct error *error)
{
	struct profile *profile = pprof_read(path, error);
	enum http_result result = HTTP_REFUSED;
	size_t done = 0;

	if (profile && profile->types.count != PROFILE_RECORDED_TYPES)
		error_set(error, EINVAL, "%s: not a recording of stackbeat", path);
	else if (profile)
		result = push_profile(client, &arguments->push, profile, &done, counts, error);
	profile_free(profile);
	return result;
}

static int push_files(struct http_client *client, const struct push_arguments *arguments,
		      struct error *error)
{
	struct push_counts counts = {0};
	bool all = true;
	char **file;
	int err = give_up_rights(0, CAPABILITY(CAP_DAC_READ_SEARCH), error);

	if (err)
		return err;
	for (file = arguments->files; *file && !is_stopped(); file++) {
		const enum http_result result = push_file(client, arguments, *file, &counts, error);

		if (result == HTTP_ACCEPTED)
			continue;
		/* A server that has not answered yet is down: the next files would say so again. */
		if (result == HTTP_UNAVAILABLE && !counts.requests && !counts.refused)
			return -EIO;
		fprintf(stderr, "stackbeat push: %s\n", error->text);
		all = false;
	}
	print_counts(arguments, &counts);
	return all && !*file ? 0 : error_set(error, EIO, "not everything was pushed");
}

/* The store */

/* A name in the store for the state of a target. Returns a string, which the caller frees. */
static char *default_state(const char *store, const char *url)
{
	char name[NAME_MAX - 32];
	char *path;
	size_t i;

	for (i = 0; url[i] && i + 1 < sizeof(name); i++)
		name[i] = (char)(strchr("/:[]", url[i]) ? '-' : url[i]);
	name[i] = '\0';
	return asprintf(&path, "%s/" STATE_NAME "%s", store, name) < 0 ? NULL : path;
}

/* Returns the part of `whole` that is this process' own. */
static int64_t own_part(uint32_t random, int64_t whole)
{
	return (int64_t)((__int128)whole * random >> 32);
}

/*
 * Returns the seconds until the server is asked again: after its own time, or after the pause. The
 * machines that wait for it ask at different times.
 */
static time_t until_retry(const struct http_client *client, time_t pause, uint32_t random)
{
	const time_t asked = http_client_retry_after_s(client);

	return MAX(pause - own_part(random, pause / 2), asked + own_part(random, asked / 2));
}

/* What was printed last; "": nothing since profiles were accepted. */
struct problem {
	struct error printed;
	int64_t since_ns, printed_ns; /* CLOCK_MONOTONIC */
};

/* Prints a problem when it changes, and every hour. */
static void print_problem(struct problem *problem, const struct error *error)
{
	const int64_t now = now_ns(CLOCK_MONOTONIC);

	if (strcmp(error->text, problem->printed.text)) {
		fprintf(stderr, "stackbeat push: %s\n", error->text);
		problem->since_ns = now;
	} else if (now - problem->printed_ns >= REMINDER_NS) {
		fprintf(stderr, "stackbeat push: for %" PRId64 " minutes: %s\n",
			(now - problem->since_ns) / (60 * NS_PER_SECOND), error->text);
	} else {
		return;
	}
	problem->printed = *error;
	problem->printed_ns = now;
}

/*
 * Pushes until a signal comes. Messages are printed when they change. Machines whose windows end at
 * the same time, and whose server comes back at the same time, send at different ones.
 */
static void follow_store(struct http_client *client, const struct push_arguments *arguments,
			 struct push_state *state, struct push_store_counts *counts,
			 struct push_metrics *metrics)
{
	struct push_options options = arguments->push;
	struct problem problem = {.printed = {""}}, of_metrics = {.printed = {""}};
	struct error error = {""}, other;
	bool was_away = false;
	uint32_t random = 0;
	time_t pause = 0;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint32_t)now_ns(CLOCK_MONOTONIC) << 2;
	options.delay_us = own_part(random, arguments->spread_s * INT64_C(1000000));
	do {
		const uint64_t went_back = counts->went_back;
		enum http_result result =
			push_store(client, &options, arguments->store, state, counts, &error);

		if (counts->went_back != went_back)
			fputs("stackbeat push: profiles of a later time than now were pushed, as "
			      "the clock was set back; going on with those from now on\n",
			      stderr);
		if (is_stopped() && result == HTTP_UNAVAILABLE)
			break;
		if (result == HTTP_NONE)
			continue;
		if (result != HTTP_ACCEPTED)
			print_problem(&problem, &error);
		if (result != HTTP_UNAVAILABLE && was_away && !arguments->quiet)
			fputs("stackbeat push: the server accepts profiles again\n", stderr);
		was_away = result == HTTP_UNAVAILABLE;
		if (metrics->path && push_metrics_write(metrics, counts, state, was_away, &other))
			print_problem(&of_metrics, &other);
		if (result == HTTP_ACCEPTED)
			problem.printed.text[0] = '\0';
		pause = result == HTTP_UNAVAILABLE ? MIN(2 * pause + 1, PAUSE_MAX_S) : 0;
	} while (!wait_seconds(pause ? until_retry(client, pause, random) : POLL_S));
}

static int push_from_store(struct http_client *client, const struct push_arguments *arguments,
			   struct error *error)
{
	struct push_store_counts counts = {0};
	struct push_metrics metrics = {.path = arguments->metrics};
	struct push_state state;
	struct stat status;
	char *path;
	int err;

	if (stat(arguments->store, &status))
		return error_errno(error, errno, "can't read %s", arguments->store);
	path = arguments->state ? strdup(arguments->state)
				: default_state(arguments->store, arguments->http.url);
	if (!path)
		return error_errno(error, ENOMEM, "can't push");
	/* Each window that waits is an open file. */
	raise_file_limit(FILE_LIMIT_MAX);
	err = give_up_rights(status.st_uid, 0, error);
	if (!err) {
		err = push_state_open(&state, path, now_ns(CLOCK_REALTIME) / 1000, error);
		/* The position of a new state must survive an end before the first window. */
		if (!err)
			err = push_state_write(&state, error);
		if (!err && metrics.path)
			err = push_metrics_write(&metrics, &counts, &state, false, error);
		if (!err)
			follow_store(client, arguments, &state, &counts, &metrics);
		push_metrics_clear(&metrics);
		push_state_close(&state);
	}
	if (!err)
		print_counts(arguments, &counts.pushed);
	free(path);
	return err;
}

static int cmd_push_run(const struct push_arguments *arguments, struct error *error)
{
	struct http_client *client = http_client_new(&arguments->http, error);
	int err;

	if (!client)
		return -EINVAL;
	err = arguments->store ? push_from_store(client, arguments, error)
			       : push_files(client, arguments, error);
	http_client_free(client);
	return err;
}

int cmd_push(int argc, char **argv)
{
	struct push_arguments arguments = {
		.push = {.services_max = PUSH_SERVICES_MAX,
			 .samples_max = PUSH_SAMPLES_MAX,
			 .bytes_max = PUSH_BYTES_MAX},
		.spread_s = SPREAD_DEFAULT_S,
		.http = {.stop = is_stopped},
	};
	const sigset_t set = stop_set();
	char host[HOST_NAME_MAX + 1] = "";
	struct error error;

	if (cmd_push_parse(&arguments, argc, argv, &error)) {
		fprintf(stderr, "stackbeat push: %s\n", error.text);
		return STATUS_USAGE;
	}
	if (arguments.help) {
		print_command_help(&help, stdout);
		return STATUS_OK;
	}
	arguments.push.labels = arguments.labels;
	arguments.push.sample_labels = arguments.sample_labels.chosen;
	if (gethostname(host, sizeof(host)))
		host[0] = '\0';
	complete_labels(&arguments, host);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (cmd_push_run(&arguments, &error)) {
		fprintf(stderr, "stackbeat push: %s\n", error.text);
		return STATUS_FAILED;
	}
	return STATUS_OK;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * push: its options, messages and exit status. Functions of this file replace the client, and the
 * store; tests/cli/push.py has both.
 */
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "command.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "pprof/labels.h"
#include "pprof/profile.h"
#include "profile_file.h"
#include "push/http_client.h"
#include "push/push_profile.h"
#include "push/push_store.h"
#include "sample_profile.h"
#include "sandbox/capabilities.h"
#include "sandbox/seccomp_filter.h"

#define WAITS_MAX 16
#define COUNTS_OF_NOTHING "stackbeat push: 0 samples in 0 profiles, 0 refused, 0 stacks merged\n"

/* What the functions below return. */
static struct {
	int client_err, user_err, capability_err, open_err, write_err;
	const char *host;
	uid_t euid;
	enum http_result results[WAITS_MAX]; /* of profiles, or of looks at the store */
	const char *reasons[WAITS_MAX];
	struct push_counts counts; /* of each profile */
	uint64_t went_back[WAITS_MAX]; /* of looks at the store */
	size_t waits; /* in which no signal comes */
	bool is_interrupted; /* each wait, first, by another signal */
	time_t wait_s; /* what each wait takes by the clock */
	int stop; /* a signal that is pending after the first result */
	int last_signal; /* of the last wait; 0: SIGTERM */
	uint32_t random;
	bool has_no_random;
} fake;

/* What the command has done. */
static struct {
	struct push_options options;
	struct http_options http;
	char labels[512], url[128], state[512], store[256];
	size_t calls; /* for profiles, or looks at the store */
	size_t frees, closes, writes, waits;
	time_t seconds[WAITS_MAX];
	uid_t user;
	uint64_t kept;
	int64_t state_us;
	unsigned int confinements;
} done;

static struct http_client *const client = (struct http_client *)&fake;

uid_t geteuid(void)
{
	return fake.euid;
}

ssize_t getrandom(void *random, size_t size, unsigned int flags)
{
	/* Libraries need other sizes. */
	if (size != sizeof(fake.random) || flags != GRND_NONBLOCK)
		return syscall(SYS_getrandom, random, size, flags);
	if (fake.has_no_random) {
		errno = EAGAIN;
		return -1;
	}
	memcpy(random, &fake.random, size);
	return (ssize_t)size;
}

int gethostname(char *name, size_t size)
{
	if (!fake.host || strlen(fake.host) >= size) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(name, fake.host);
	return 0;
}

static time_t waited_s;

int clock_gettime(clockid_t clock, struct timespec *time)
{
	const int err = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += waited_s;
	return err;
}

int sigpending(sigset_t *set)
{
	sigemptyset(set);
	if (fake.stop && done.calls)
		sigaddset(set, fake.stop);
	return 0;
}

int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
	static bool was_interrupted;

	assert_null(info);
	assert_true(sigismember(set, SIGINT) && sigismember(set, SIGTERM) &&
		    sigismember(set, SIGHUP));
	assert_false(sigismember(set, SIGUSR1));
	was_interrupted = fake.is_interrupted && !was_interrupted;
	if (was_interrupted) {
		errno = EINTR;
		return -1;
	}
	assert_true(done.waits < WAITS_MAX);
	done.seconds[done.waits++] = timeout->tv_sec;
	waited_s += fake.wait_s;
	errno = EAGAIN;
	if (done.waits <= fake.waits)
		return -1;
	return fake.last_signal ? fake.last_signal : SIGTERM;
}

int become_user(uid_t id)
{
	done.user = id;
	return fake.user_err;
}

int capabilities_keep(uint64_t kept)
{
	/* Before the first input. */
	assert_int_equal(done.calls, 0);
	done.kept = kept;
	return fake.capability_err;
}

int seccomp_confine_network_client(void)
{
	done.confinements++;
	return 0;
}

struct http_client *http_client_new(const struct http_options *options, struct error *error)
{
	done.http = *options;
	snprintf(done.url, sizeof(done.url), "%s", options->url);
	if (!fake.client_err)
		return client;
	error_set(error, -fake.client_err, "no client");
	return NULL;
}

void http_client_free(struct http_client *freed)
{
	assert_ptr_equal(freed, client);
	done.frees++;
}

unsigned int http_client_retry_after_s(const struct http_client *asked)
{
	assert_ptr_equal(asked, client);
	return 0;
}

static enum http_result take_result(const struct push_options *options, struct error *error)
{
	size_t i = done.calls++;

	assert_true(i < WAITS_MAX);
	done.options = *options;
	*done.labels = '\0';
	for (size_t j = 0; j < options->label_count; j++)
		snprintf(done.labels + strlen(done.labels),
			 sizeof(done.labels) - strlen(done.labels), "%s=%s ",
			 options->labels[j].name, options->labels[j].value);
	if (fake.results[i] != HTTP_ACCEPTED)
		error_set(error, EIO, "%s", fake.reasons[i]);
	return fake.results[i];
}

enum http_result push_profile(struct http_client *used, const struct push_options *options,
			      const struct profile *profile, size_t *services,
			      struct push_counts *counts, struct error *error)
{
	assert_ptr_equal(used, client);
	assert_int_equal(*services, 0);
	assert_int_equal(profile->types.count, PROFILE_RECORDED_TYPES);
	counts->requests += fake.counts.requests;
	counts->samples += fake.counts.samples;
	counts->merged += fake.counts.merged;
	counts->refused += fake.counts.refused;
	return take_result(options, error);
}

enum http_result push_store(struct http_client *used, const struct push_options *options,
			    const char *path, struct push_state *state,
			    struct push_store_counts *counts, struct error *error)
{
	assert_ptr_equal(used, client);
	assert_int_equal(state->next_us, 7);
	snprintf(done.store, sizeof(done.store), "%s", path);
	counts->pushed.samples += fake.counts.samples;
	counts->went_back += fake.went_back[done.calls];
	return take_result(options, error);
}

int push_state_open(struct push_state *state, const char *path, int64_t now_us, struct error *error)
{
	snprintf(done.state, sizeof(done.state), "%s", path);
	done.state_us = now_us;
	*state = (struct push_state){.next_us = 7};
	return fake.open_err ? error_set(error, -fake.open_err, "no state") : 0;
}

int push_state_write(const struct push_state *state, struct error *error)
{
	assert_int_equal(state->next_us, 7);
	assert_int_equal(done.calls, 0);
	done.writes++;
	return fake.write_err ? error_set(error, -fake.write_err, "full") : 0;
}

void push_state_close(struct push_state *state)
{
	(void)state;
	done.closes++;
}

static void reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.host = "host";
}

static void write_example(const char *name, bool is_recording)
{
	struct profile *profile = example_profile();

	if (!is_recording)
		profile->types.count = 1;
	move_profile(profile, in_sandbox("%s", name));
}

static int set_up(void **state)
{
	int ret = make_sandbox(state);

	reset();
	write_example("a", true);
	write_example("b", true);
	return ret;
}

/* Runs push with options, a URL, and the files a and b. */
static int push(const char *words, const char *files)
{
	char line[1024];
	sigset_t set;
	int status;

	memset(&done, 0, sizeof(done));
	done.user = 12345;
	snprintf(line, sizeof(line), "push %shttp://h:1", words);
	for (; *files; files++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), " %s",
			 in_sandbox("%c", *files));
	status = run_command(cmd_push, line);
	assert_string_equal(output, "");
	sigprocmask(SIG_BLOCK, NULL, &set);
	if (done.calls) {
		assert_true(sigismember(&set, SIGINT) && sigismember(&set, SIGTERM) &&
			    sigismember(&set, SIGHUP));
		assert_int_equal(done.frees, 1);
	}
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	return status;
}

static void options_have_defaults(void **state)
{
	char label[128];

	(void)state;
	fake.counts = (struct push_counts){.requests = 2, .samples = 30, .merged = 4, .refused = 5};
	assert_int_equal(push("", "ab"), STATUS_OK);
	assert_string_equal(messages, "stackbeat push: 60 samples in 4 profiles, 10 refused, 8 "
				      "stacks merged\n");
	assert_int_equal(done.calls, 2);
	assert_int_equal(done.options.form, PUSH_PYROSCOPE);
	assert_int_equal(done.options.services_max, 256);
	assert_int_equal(done.options.samples_max, 16000);
	assert_int_equal(done.options.bytes_max, 4 << 20);
	assert_int_equal(done.options.sample_labels, 0);
	assert_string_equal(done.labels, "instance=host ");
	assert_string_equal(done.url, "http://h:1");
	assert_null(done.http.header_file);
	assert_null(done.http.ca_file);
	assert_false(done.http.insecure);
	assert_non_null(done.http.stop);
	assert_int_equal(done.kept, CAPABILITY(CAP_DAC_READ_SEARCH));
	assert_int_equal(done.confinements, 1);
	assert_int_equal(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
	/* One of each. */
	fake.counts = (struct push_counts){.requests = 1, .samples = 1, .merged = 1, .refused = 1};
	assert_int_equal(push("", "a"), STATUS_OK);
	assert_string_equal(messages,
			    "stackbeat push: 1 sample in 1 profile, 1 refused, 1 stack merged\n");
	fake.host = "a-long-name-of-63-characters-with-a-domain-that-is-long.example";
	snprintf(label, sizeof(label), "instance=%s ", fake.host);
	assert_int_equal(strlen(fake.host), 63);
	assert_int_equal(push("-q ", "a"), STATUS_OK);
	assert_string_equal(done.labels, label);
	/* A host without a name has no label. */
	fake.host = "";
	assert_int_equal(push("-q ", "a"), STATUS_OK);
	assert_string_equal(messages, "");
	assert_string_equal(done.labels, "");
	fake.host = NULL;
	assert_int_equal(push("--quiet ", "a"), STATUS_OK);
	assert_string_equal(done.labels, "");
}

static void options_are_parsed(void **state)
{
	static const struct {
		const char *words;
		enum push_form form;
	} forms[] = {{"--to pyroscope ", PUSH_PYROSCOPE},
		     {"--to parca ", PUSH_PARCA},
		     {"--to pprof ", PUSH_PPROF}};
	char line[256];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(push(forms[i].words, "a"), STATUS_OK);
		assert_int_equal(done.options.form, forms[i].form);
	}
	assert_int_equal(push("--label a=b --label c=d=e --labels pid,comm --header-file h "
			      "--cacert c --cert m --key k --insecure --max-samples 2 "
			      "--max-size 64K ",
			      "a"),
			 STATUS_OK);
	assert_string_equal(done.labels, "a=b c=d=e instance=host ");
	assert_int_equal(done.options.sample_labels, LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_COMM));
	assert_string_equal(done.http.header_file, "h");
	assert_string_equal(done.http.ca_file, "c");
	assert_string_equal(done.http.certificate_file, "m");
	assert_string_equal(done.http.key_file, "k");
	assert_true(done.http.insecure);
	assert_int_equal(done.options.samples_max, 2);
	assert_int_equal(done.options.bytes_max, 64 << 10);
	assert_int_equal(push("--max-services 2 --max-samples 10000000 --max-size 1G ", "a"),
			 STATUS_OK);
	assert_int_equal(done.options.services_max, 2);
	assert_int_equal(done.options.samples_max, 10000000);
	assert_int_equal(done.options.bytes_max, 1 << 30);
	assert_int_equal(push("--max-size 65536 ", "a"), STATUS_OK);
	assert_int_equal(done.options.bytes_max, 65536);
	assert_int_equal(push("--cert m ", "a"), STATUS_OK);
	assert_null(done.http.key_file);
	/* The instance can be another one, or none. */
	assert_int_equal(push("--label instance=x --label a=b ", "a"), STATUS_OK);
	assert_string_equal(done.labels, "instance=x a=b ");
	assert_int_equal(push("--label instance= ", "a"), STATUS_OK);
	assert_string_equal(done.labels, "");
	assert_int_equal(push("--label instance= --label a=b --label c=d ", "a"), STATUS_OK);
	assert_string_equal(done.labels, "c=d a=b ");
	/* The names of OpenTelemetry, in any order of the options. */
	assert_int_equal(push("--label a.b=c --to otlp-experimental --label instance=d ", "a"),
			 STATUS_OK);
	assert_string_equal(done.labels, "a.b=c instance=d host.name=host ");
	assert_int_equal(push("--to otlp-experimental --label host.name= ", "a"), STATUS_OK);
	assert_string_equal(done.labels, "");
	/* Options may follow arguments. */
	memset(&done, 0, sizeof(done));
	snprintf(line, sizeof(line), "push http://h:1 %s -q", in_sandbox("a"));
	assert_int_equal(run_command(cmd_push, line), STATUS_OK);
	assert_string_equal(messages, "");
	assert_int_equal(run_command(cmd_push, "push --help"), STATUS_OK);
	assert_memory_equal(output, "Usage: stackbeat push ", 22);
}

static void assert_usage(const char *words, const char *files, const char *message)
{
	char expected[256];

	snprintf(expected, sizeof(expected), "stackbeat push: %s\n", message);
	assert_int_equal(push(words, files), STATUS_USAGE);
	assert_string_equal(messages, expected);
	assert_string_equal(done.url, "");
}

static void wrong_options_are_refused(void **state)
{
	char words[512] = "";

	(void)state;
	assert_usage("--metrics f ", "a", "--metrics: needs --store");
	assert_usage("--metrics= --store d ", "", "--metrics: the file name is empty");
	assert_usage("--max-services 1 ", "a",
		     "--max-services: '1' is not a number from 2 to 100000");
	assert_usage("--max-services 100001 ", "a",
		     "--max-services: '100001' is not a number from 2 to 100000");
	assert_usage("--max-samples 1 ", "a",
		     "--max-samples: '1' is not a number from 2 to 10000000");
	assert_usage("--max-samples 10000001 ", "a",
		     "--max-samples: '10000001' is not a number from 2 to 10000000");
	assert_usage("--max-size 65535 ", "a", "--max-size: '65535' is not a size from 64K to 1G");
	assert_usage("--max-size 1048577K ", "a",
		     "--max-size: '1048577K' is not a size from 64K to 1G");
	assert_usage("--label a ", "b", "--label: 'a' is not KEY=VALUE");
	assert_usage("--label a= ", "b", "--label: 'a=' is not KEY=VALUE");
	assert_usage("--label =a ", "b", "--label: '' is not a name of letters, digits and _");
	assert_usage("--label service_name=x ", "a",
		     "--label: 'service_name' is reserved by stackbeat");
	assert_usage("--label a.b=1 ", "b",
		     "--label: 'a.b' is not a name of letters, digits and _");
	assert_usage("--to otlp-experimental --label a-b=1 ", "b",
		     "--label: 'a-b' is not a name of letters, digits and _ or .");
	assert_usage("--to otlp-experimental --label service.name=x ", "a",
		     "--label: 'service.name' is reserved by stackbeat");
	assert_usage("--to otlp-experimental --label instance= ", "a",
		     "--label: 'instance=' is not KEY=VALUE");
	assert_usage("--label a=1 --label b=2 --label b=3 ", "a", "--label: 'b' is given twice");
	assert_usage("--label a=1 --label b=2 --label a=3 ", "a", "--label: 'a' is given twice");
	assert_usage("--label instance= --label instance=a ", "a",
		     "--label: 'instance' is given twice");
	assert_usage("--label instance ", "a", "--label: 'instance' is not KEY=VALUE");
	assert_usage("--key k ", "a", "--key needs --cert");
	assert_usage("--spread 0 ", "a", "--spread needs --store");
	assert_usage("--spread 3601 --store d ", "",
		     "--spread: '3601' is not a number from 0 to 3600");
	assert_usage("--to pprof --label a=b ", "a", "--label can't be combined with --to pprof");
	assert_usage("--store d ", "a", "--store can't be combined with files");
	assert_usage("--store= ", "", "--store: the directory is empty");
	assert_usage("", "", "no file is given");
	assert_usage("--state s ", "a", "--state: needs --store");
	assert_usage("--state= --store d ", "", "--state: the file name is empty");
	assert_fails(cmd_push, "push", STATUS_USAGE, "stackbeat push: no URL is given\n");
	/* As many labels as there may be. */
	for (int i = 0; i < 10; i++)
		sprintf(words + strlen(words), "--label=l%d=v ", i);
	assert_int_equal(push(words, "a"), STATUS_OK);
	assert_int_equal(done.options.label_count, 11);
	for (int i = 10; i < 16; i++)
		sprintf(words + strlen(words), "--label=l%d=v ", i);
	assert_int_equal(push(words, "a"), STATUS_OK);
	assert_int_equal(done.options.label_count, 16);
	assert_null(strstr(done.labels, "instance"));
	strcat(words, "--label=more=v ");
	assert_usage(words, "a", "--label: more than 16");
}

/* The others are pushed nevertheless. */
static void files_that_are_not_pushed_are_named(void **state)
{
	char expected[512];

	(void)state;
	write_example("other", false);
	run("mv '%s' '%s'", in_sandbox("other"), in_sandbox("o"));
	snprintf(expected, sizeof(expected),
		 "stackbeat push: %s: not a recording of stackbeat\n"
		 "stackbeat push: %s: No such file or directory\n" COUNTS_OF_NOTHING
		 "stackbeat push: not everything was pushed\n",
		 in_sandbox("o"), in_sandbox("n"));
	assert_int_equal(push("", "onb"), STATUS_FAILED);
	assert_string_equal(messages, expected);
	assert_int_equal(done.calls, 1);
	fake.results[0] = HTTP_REFUSED;
	fake.reasons[0] = "refused";
	assert_int_equal(push("-q ", "ab"), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat push: refused\n"
				      "stackbeat push: not everything was pushed\n");
	assert_int_equal(done.calls, 2);
	fake.results[0] = HTTP_ACCEPTED;
	fake.results[1] = HTTP_UNAVAILABLE;
	fake.reasons[1] = "away";
	fake.counts.requests = 1;
	assert_int_equal(push("-q ", "aba"), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat push: away\n"
				      "stackbeat push: not everything was pushed\n");
	assert_int_equal(done.calls, 3);
}

/* One line is enough of a server that is down. */
static void server_that_is_down_is_named_once(void **state)
{
	(void)state;
	fake.results[0] = HTTP_UNAVAILABLE;
	fake.reasons[0] = "away";
	assert_int_equal(push("", "aba"), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat push: away\n");
	assert_int_equal(done.calls, 1);
}

static void signal_ends_it_between_files(void **state)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		fake.stop = signals[i];
		assert_int_equal(push("-q ", "ab"), STATUS_FAILED);
		assert_string_equal(messages, "stackbeat push: not everything was pushed\n");
		assert_int_equal(done.calls, 1);
		assert_true(done.http.stop());
		assert_int_equal(push("-q ", "a"), STATUS_OK);
	}
	fake.stop = SIGUSR1;
	assert_int_equal(push("-q ", "ab"), STATUS_OK);
	assert_int_equal(done.calls, 2);
	assert_false(done.http.stop());
}

/* Without the rights of root or of the store's owner. */
static void rights_are_given_up(void **state)
{
	char words[256];

	(void)state;
	snprintf(words, sizeof(words), "-q --store %s ", sandbox);
	assert_int_equal(chmod(sandbox, 0755), 0);
	fake.euid = 0;
	assert_int_equal(push("-q ", "a"), STATUS_OK);
	assert_int_equal(done.user, 12345);
	/* The user of the test owns the directory. */
	if (getuid() || chown(sandbox, 1001, 1001))
		skip();
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_int_equal(done.user, 1001);
	assert_int_equal(done.kept, 0);
	assert_int_equal(done.confinements, 1);
	fake.user_err = -EPERM;
	assert_int_equal(push(words, ""), STATUS_FAILED);
	assert_string_equal(messages,
			    "stackbeat push: can't give up rights: Operation not permitted\n");
	assert_int_equal(done.calls, 0);
	assert_string_equal(done.state, "");
	fake.euid = 1000;
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_int_equal(done.user, 12345);
	fake.capability_err = -EPERM;
	assert_int_equal(push("", "a"), STATUS_FAILED);
	assert_string_equal(messages,
			    "stackbeat push: can't give up rights: Operation not permitted\n");
	assert_int_equal(done.calls, 0);
	assert_int_equal(done.confinements, 0);
	assert_int_equal(done.frees, 1);
}

static void store_is_followed_until_a_signal(void **state)
{
	const int64_t before = now_ns(CLOCK_REALTIME) / 1000;
	char words[600], expected[512], url[NAME_MAX + 64] = "";

	(void)state;
	fake.euid = 1000;
	fake.waits = 3;
	fake.counts.samples = 5;
	snprintf(words, sizeof(words), "--store %s ", sandbox);
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_string_equal(messages, "stackbeat push: 20 samples in 0 profiles, 0 refused, 0 "
				      "stacks merged\n");
	assert_string_equal(done.store, sandbox);
	assert_int_equal(done.calls, 4);
	assert_int_equal(done.waits, 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(done.seconds[i], 2);
	snprintf(expected, sizeof(expected), "%s/.push-http---h-1", sandbox);
	assert_string_equal(done.state, expected);
	assert_true(done.state_us >= before && done.state_us <= now_ns(CLOCK_REALTIME) / 1000);
	assert_int_equal(done.writes, 1);
	assert_int_equal(done.closes, 1);
	assert_string_equal(done.labels, "instance=host ");
	/* The URL may be longer than a file name. */
	memset(url, 'u', sizeof(url) - 1);
	memcpy(url, "h", 1);
	fake.counts.samples = 0;
	snprintf(words, sizeof(words), "push -q --store %s %s", sandbox, url);
	memset(&done, 0, sizeof(done));
	assert_int_equal(run_command(cmd_push, words), STATUS_OK);
	snprintf(expected, sizeof(expected), "%s/.push-%.*s", sandbox, NAME_MAX - 33, url);
	assert_string_equal(done.state, expected);
	/* Other signals do not count. */
	fake.is_interrupted = true;
	fake.waits = 1;
	fake.last_signal = SIGHUP;
	snprintf(words, sizeof(words), "-q --state s --store %s ", sandbox);
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_string_equal(messages, "");
	assert_string_equal(done.state, "s");
	assert_int_equal(done.calls, 2);
	assert_int_equal(done.waits, 2);
}

/* While a window waits, there is no news of the server. */
static void waiting_is_no_answer(void **state)
{
	static const enum http_result results[] = {HTTP_UNAVAILABLE, HTTP_NONE, HTTP_UNAVAILABLE,
						   HTTP_NONE, HTTP_ACCEPTED};
	char words[256];

	(void)state;
	fake.euid = 1000;
	fake.waits = 4;
	for (size_t i = 0; i < 5; i++) {
		fake.results[i] = results[i];
		fake.reasons[i] = "away";
	}
	snprintf(words, sizeof(words), "--store %s ", sandbox);
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_string_equal(
		messages, "stackbeat push: away\n"
			  "stackbeat push: the server accepts profiles again\n" COUNTS_OF_NOTHING);
}

/* Each time, whatever the server says. */
static void clock_that_was_set_back_is_a_message(void **state)
{
	const char *const message =
		"stackbeat push: profiles of a later time than now were pushed, as the "
		"clock was set back; going on with those from now on\n";
	char words[256], expected[512];

	(void)state;
	fake.euid = 1000;
	fake.waits = 3;
	fake.results[1] = HTTP_NONE;
	fake.results[2] = HTTP_UNAVAILABLE;
	fake.reasons[2] = "away";
	fake.went_back[1] = fake.went_back[2] = 1;
	snprintf(words, sizeof(words), "--store %s ", sandbox);
	assert_int_equal(push(words, ""), STATUS_OK);
	snprintf(expected, sizeof(expected),
		 "%s%sstackbeat push: away\nstackbeat push: the server accepts profiles again\n%s",
		 message, message, COUNTS_OF_NOTHING);
	assert_string_equal(messages, expected);
}

/* Machines do not send at once, nor when the server comes back. */
static void times_are_spread(void **state)
{
	static const struct {
		const char *words;
		uint32_t random;
		int64_t delay_us;
		time_t pauses[3];
	} cases[] = {
		{"", 0, 0, {1, 3, 7}},
		{"", UINT32_MAX, 29999999, {1, 3, 5}},
		{"", UINT32_C(1) << 31, 15000000, {1, 3, 6}},
		{"--spread 0 ", UINT32_MAX, 0, {1, 3, 5}},
		{"--spread 3600 ", UINT32_C(3) << 30, INT64_C(2700000000), {1, 3, 5}},
	};
	char words[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reset();
		fake.euid = 1000;
		fake.random = cases[i].random;
		fake.waits = 2;
		for (size_t j = 0; j < 3; j++) {
			fake.results[j] = HTTP_UNAVAILABLE;
			fake.reasons[j] = "away";
		}
		snprintf(words, sizeof(words), "-q %s--store %s ", cases[i].words, sandbox);
		assert_int_equal(push(words, ""), STATUS_OK);
		assert_true(done.options.delay_us == cases[i].delay_us);
		assert_int_equal(done.waits, 3);
		for (size_t j = 0; j < 3; j++)
			assert_int_equal(done.seconds[j], cases[i].pauses[j]);
	}
	/* Without the call, the delay is within its limit. */
	fake.has_no_random = true;
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_true(done.options.delay_us >= 0 && done.options.delay_us < INT64_C(3600000000));
}

/* The longer a server is away, the less often it is tried. */
static void server_that_is_away_is_tried_again(void **state)
{
	static const time_t expected[] = {1, 3, 7, 15, 31, 63, 120, 120, 2, 1, 2, 2};
	char words[256];

	(void)state;
	fake.waits = 11;
	for (size_t i = 0; i < 10; i++) {
		fake.results[i] = i == 8 ? HTTP_ACCEPTED : HTTP_UNAVAILABLE;
		fake.reasons[i] = i < 5 ? "away" : "slow";
	}
	fake.results[10] = HTTP_REFUSED;
	fake.reasons[10] = "too old";
	snprintf(words, sizeof(words), "--store %s ", sandbox);
	fake.euid = 1000;
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_int_equal(done.waits, 12);
	for (size_t i = 0; i < 12; i++)
		assert_int_equal(done.seconds[i], expected[i]);
	/* Each reason once, unless it was accepted meanwhile. */
	assert_string_equal(
		messages, "stackbeat push: away\n"
			  "stackbeat push: slow\n"
			  "stackbeat push: the server accepts profiles again\n"
			  "stackbeat push: slow\n"
			  "stackbeat push: too old\n"
			  "stackbeat push: the server accepts profiles again\n" COUNTS_OF_NOTHING);
	/* The end of a request by the signal is no news. */
	reset();
	fake.euid = 1000;
	fake.stop = SIGTERM;
	fake.results[0] = HTTP_UNAVAILABLE;
	fake.reasons[0] = "stopped";
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_string_equal(messages, COUNTS_OF_NOTHING);
	assert_int_equal(done.waits, 0);
}

static void expect_metric(const char *line)
{
	size_t size;
	char *text = (char *)read_bytes(in_sandbox("push.prom"), &size);

	text[size] = '\0';
	if (!strstr(text, line))
		fail_msg("'%s' is missing in:\n%s", line, text);
	free(text);
}

static void metrics_are_written(void **state)
{
	char words[600];

	(void)state;
	fake.euid = 1000;
	fake.waits = 1;
	fake.counts.samples = 5;
	fake.results[1] = HTTP_UNAVAILABLE;
	fake.reasons[1] = "away";
	snprintf(words, sizeof(words), "-q --store %s --metrics %s ", sandbox,
		 in_sandbox("push.prom"));
	assert_int_equal(push(words, ""), STATUS_OK);
	expect_metric("\nstackbeat_push_samples_total 10\n");
	expect_metric("\nstackbeat_push_waiting 1\n");
	/* Before the first answer. */
	fake.stop = SIGTERM;
	fake.results[0] = HTTP_UNAVAILABLE;
	fake.reasons[0] = "away";
	assert_int_equal(push(words, ""), STATUS_OK);
	expect_metric("\nstackbeat_push_samples_total 0\n");
	expect_metric("\nstackbeat_push_waiting 0\n");
	snprintf(words, sizeof(words), "-q --store %s --metrics %s ", sandbox,
		 in_sandbox("none/push.prom"));
	assert_int_equal(push(words, ""), STATUS_FAILED);
	assert_int_equal(done.calls, 0);
	assert_non_null(strstr(messages, "none/push.prom: No such file or directory\n"));
}

/* Nobody may have seen the first message. */
static void waiting_is_said_again(void **state)
{
	char words[256];

	(void)state;
	fake.euid = 1000;
	fake.waits = 5;
	fake.wait_s = 1800;
	for (size_t i = 0; i < 6; i++) {
		fake.results[i] = HTTP_UNAVAILABLE;
		fake.reasons[i] = i < 5 ? "away" : "slow";
	}
	snprintf(words, sizeof(words), "-q --store %s ", sandbox);
	assert_int_equal(push(words, ""), STATUS_OK);
	assert_string_equal(messages, "stackbeat push: away\n"
				      "stackbeat push: for 60 minutes: away\n"
				      "stackbeat push: for 120 minutes: away\n"
				      "stackbeat push: slow\n");
}

static void errors_end_it_before_pushing(void **state)
{
	int *const errors[] = {&fake.client_err, &fake.open_err, &fake.write_err};
	static const char *const expected[] = {"stackbeat push: no client\n",
					       "stackbeat push: no state\n",
					       "stackbeat push: full\n"};
	char words[256];

	(void)state;
	snprintf(words, sizeof(words), "--store %s ", sandbox);
	for (size_t i = 0; i < 3; i++) {
		reset();
		fake.euid = 1000;
		*errors[i] = -EIO;
		assert_int_equal(push(words, ""), STATUS_FAILED);
		assert_string_equal(messages, expected[i]);
		assert_int_equal(done.calls, 0);
		assert_int_equal(done.closes, i > 0);
		assert_int_equal(done.frees, i > 0);
	}
	reset();
	assert_int_equal(push("--store /no/such ", ""), STATUS_FAILED);
	assert_string_equal(messages,
			    "stackbeat push: can't read /no/such: No such file or directory\n");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, remove_sandbox)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(options_have_defaults),
		TEST(options_are_parsed),
		TEST(wrong_options_are_refused),
		TEST(files_that_are_not_pushed_are_named),
		TEST(server_that_is_down_is_named_once),
		TEST(signal_ends_it_between_files),
		TEST(rights_are_given_up),
		TEST(store_is_followed_until_a_signal),
		TEST(times_are_spread),
		TEST(waiting_is_no_answer),
		TEST(clock_that_was_set_back_is_a_message),
		TEST(server_that_is_away_is_tried_again),
		TEST(waiting_is_said_again),
		TEST(metrics_are_written),
		TEST(errors_end_it_before_pushing),
	};

	return cmocka_run_group_tests_name("cmd_push", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/* The process that samples: its recorder and its peer, which serves HTTP, are both this test. */
#include "unit.h"

#include "failing_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/kernel_symbols.h"
#include "lib/error.h"
#include "mappings/mapped_files.h"
#include "patience.h"
#include "pprof/labels.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "record/profile_export.h"
#include "record/recorder.h"
#include "record/window.h"
#include "sample_profile.h"
#include "sandbox/fd_passing.h"
#include "serve/protocol.h"
#include "serve/slicer.h"
#include "source/session.h"
#include "symbolize/symbol_cache.h"

#define EXPORTS 6u /* processes at a time, for slices */
#define RECORDINGS 2u /* likewise, for sessions of their own */
#define CUTS 64u /* that wait */
#define KEPT 1024u /* slices */
#define CPU_NS 6000005000 /* of each process, as wait4() says */

/* What the process that exports has seen. */
struct exporter {
	int nice;
	bool session_is_left, files_are_forked, dies_with_parent;
	bool socket_is_closed, wake_is_closed, stops;
	unsigned int tolerated_missing;
	uint32_t rate;
	bool rate_given;
	enum session_source source;
	double seconds;
	int wake_fd;
	const void *labels, *sandbox, *symbolize, *kallsyms, *cache;
	size_t memory;
	char command_line[64];
	/* The profile that was written. */
	bool has_pid, has_comm;
	int64_t written_samples, time_ns, duration_ns;
	char comment[64];
};

static struct {
	int open_err, configure_err, run_err, take_err, measure_err, export_err, write_err;
	bool fork_fails, has_no_epoll;
	bool is_perf; /* the source */
	bool is_due; /* the recorder wants recorder_take() */
	bool blocks, crashes, reads_kernel; /* processes that export */
	uint64_t samples; /* of each slice */
	void (*script)(void); /* in recorder_run() */
	void (*polled)(void); /* in poll() */
	const char *statm; /* NULL: it can't be opened */
	unsigned int polls, tries, takes, skips, closes, windows, refreshes, clears;
	unsigned int caches, cache_clears, cache_frees;
	int64_t seconds; /* that the clocks are ahead */
	bool has_no_cache, cache_is_busy;
	unsigned int exports; /* in this process */
	struct profile *profile; /* of each window; NULL: nothing reads it */
	bool has_no_memory; /* for the profile that is stored */
} fake;

static struct exporter *exporter; /* in shared memory */
static pid_t test_pid;
static int peer; /* socket */
static int gate[2]; /* a pipe: processes that block read from it */
static struct recorder *recorder;
static const struct recorder_config *recorder_config;
static struct sampler_config config;
static struct session_config session_config;
static struct labels labels;
static struct symbolize_options *const symbolize = (void *)&labels; /* an address only */
static struct sandbox_server *const sandbox_server = (void *)&session_config; /* likewise */
static struct kallsyms *const kept_symbols = (void *)&config; /* likewise */
static struct symbol_cache *const kept_cache = (void *)&labels; /* likewise */
static char warnings[4096], loaded[64];
static struct error error;
static size_t files_before;

/* The recorder, and what it needs */

/* Replaces libc's function. */
int epoll_create1(int flags)
{
	if (fake.has_no_epoll) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_epoll_create1, flags);
}

int recorder_open(struct recorder *opened, const struct recorder_config *wanted,
		  struct error *message)
{
	if (getpid() != test_pid) {
		exporter->rate = wanted->session->rate;
		exporter->rate_given = wanted->session->rate_given;
		exporter->source = wanted->session->source;
		exporter->seconds = wanted->seconds;
		exporter->wake_fd = wanted->wake_fd;
		exporter->labels =
			opened->recording.labels == wanted->labels ? wanted->labels : NULL;
		exporter->sandbox = wanted->sandbox;
		exporter->memory = wanted->memory;
		snprintf(exporter->command_line, sizeof(exporter->command_line), "%s",
			 opened->recording.command_line);
	}
	strcpy(opened->session.loaded, "/lib/module");
	opened->clock_steps = 9;
	return fake.open_err ? error_set(message, -fake.open_err, "can't open") : 0;
}

int recorder_run(struct recorder *running, const struct recorder_config *wanted,
		 struct error *message)
{
	if (getpid() == test_pid) {
		recorder = running;
		recorder_config = wanted;
		if (fake.configure_err)
			return error_set(message, -fake.configure_err, "can't configure");
		running->session.is_perf = fake.is_perf;
		running->session.stack_copy = 8192;
		wanted->configured(&running->session, wanted->arg);
		if (fake.script)
			fake.script();
	} else {
		exporter->stops = wanted->stop_requested(wanted->arg);
	}
	return fake.run_err ? error_set(message, -fake.run_err, "can't run") : 0;
}

int recorder_take(struct recorder *running, struct window *window, struct recording *recording,
		  struct error *message)
{
	(void)running;
	*window = (struct window){0};
	fake.tries++;
	if (fake.take_err)
		return error_set(message, -fake.take_err, "can't take");
	fake.takes++;
	fake.windows++;
	window->samples = fake.samples;
	window->profile = fake.profile;
	*recording = (struct recording){.start_ns = 100 * fake.takes, .duration_ns = fake.takes};
	return 0;
}

/* Of exporters of other files. */
int recorder_peek(struct recorder *running, struct window **window, struct recording *recording,
		  struct error *message)
{
	(void)running, (void)window, (void)recording, (void)message;
	abort();
}

void recorder_skip_empty(struct recorder *running)
{
	(void)running;
	fake.skips++;
}

/* The counters that recorder_measure() returns. */
static const uint64_t measured[COUNTER_COUNT] = {
	[STACKBEAT_S_LOST_FULL] = 1,
	[STACKBEAT_S_THROTTLED] = 2,
	[COUNTER_READER_OVERHEAD_NS] = 3,
};

int recorder_measure(struct recorder *running, struct recording *recording, struct error *message)
{
	(void)running;
	*recording = (struct recording){
		.rate = 19,
		.cpus = 8,
	};
	memcpy(recording->counts, measured, sizeof(measured));
	return fake.measure_err ? error_set(message, -fake.measure_err, "can't measure") : 0;
}

void recorder_close(struct recorder *running)
{
	(void)running;
	fake.closes++;
}

void recorder_free(struct recorder *running)
{
	(void)running;
}

void collector_leave_generated(struct collector *collector)
{
	(void)collector;
}

bool collector_take_is_due(const struct collector *collector)
{
	(void)collector;
	return fake.is_due;
}

void window_clear(struct window *window)
{
	(void)window;
	fake.windows--;
}

void session_leave(struct session *session)
{
	(void)session;
	exporter->session_is_left = true;
}

void mapped_files_forked(struct mapped_files *files)
{
	(void)files;
	exporter->files_are_forked = true;
}

pid_t fork(void)
{
	pid_t (*const real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	return fake.fork_fails ? -1 : real();
}

/* The parent is there, so this is its last word. */
int prctl(int option, ...)
{
	if (option == PR_SET_PDEATHSIG)
		exporter->dies_with_parent = true;
	return 0;
}

static bool is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0;
}

int export_profile(struct window *window, struct mapped_files *files,
		   const struct recording *recording, struct truncation_counts *counts,
		   struct error *warning, struct error *message)
{
	char byte;

	(void)window, (void)files;
	if (getpid() != test_pid) {
		exporter->socket_is_closed = is_closed(config.socket);
		exporter->wake_is_closed = is_closed(recorder_config->wake_fd);
		if (fake.blocks && read(gate[0], &byte, 1) < 0)
			_exit(1);
		if (fake.crashes && recording->symbolize)
			raise(SIGKILL);
	} else {
		fake.exports++;
	}
	if (recording->symbolized)
		recording->symbolized(recording->symbolized_arg);
	exporter->symbolize = recording->symbolize;
	exporter->kallsyms = recording->kallsyms;
	exporter->cache = recording->cache;
	exporter->tolerated_missing = recording->tolerated_missing;
	if (fake.reads_kernel)
		*recording->reads_kernel = true;
	fail_malloc(fake.has_no_memory, true);
	for (uint64_t i = 0; i < TRUNCATED_COUNT; i++)
		counts->samples[i] = i + 1;
	*warning = (struct error){""};
	return fake.export_err ? error_set(message, -fake.export_err, "can't export") : 0;
}

static bool has_label(const struct profile *profile, const char *key)
{
	for (size_t i = 1; i < profile->labels.count; i++) {
		if (!strcmp(profile_text(profile, profile->labels.items[i].key), key))
			return true;
	}
	return false;
}

static void note_profile(const struct profile *profile)
{
	exporter->has_pid = has_label(profile, "pid");
	exporter->has_comm = has_label(profile, "comm");
	exporter->time_ns = profile->time_ns;
	exporter->duration_ns = profile->duration_ns;
	exporter->written_samples = 0;
	for (size_t i = 0; i < profile->samples.count; i++)
		exporter->written_samples += profile_values(profile, i)[PROFILE_SAMPLES];
	snprintf(exporter->comment, sizeof(exporter->comment), "%s",
		 profile_text(profile, profile->comments.items[profile->comments.count - 1]));
}

int pprof_write_fd_fast(const struct profile *profile, int fd, const char *path,
			struct error *message)
{
	(void)path;
	fail_malloc(0, false);
	if (profile)
		note_profile(profile);
	if (fake.write_err)
		return error_set(message, -fake.write_err, "can't write");
	return write(fd, "profile", 7) == 7 ? 0 : -EIO;
}

void kernel_symbols_refresh(struct kernel_symbols *symbols, const char *root)
{
	assert_string_equal(root, "");
	/* Once, for the processes that export. */
	assert_int_equal(getpid(), test_pid);
	fake.refreshes++;
	symbols->table = kept_symbols;
}

void kernel_symbols_clear(struct kernel_symbols *symbols)
{
	assert_ptr_equal(symbols->table, fake.refreshes ? kept_symbols : NULL);
	fake.clears++;
}

struct symbol_cache *symbol_cache_new(size_t bytes)
{
	assert_int_equal(bytes, 8 << 20);
	fake.caches++;
	return fake.has_no_cache ? NULL : kept_cache;
}

bool symbol_cache_clear(struct symbol_cache *cache)
{
	assert_ptr_equal(cache, kept_cache);
	if (fake.cache_is_busy)
		return false;
	fake.cache_clears++;
	return true;
}

void symbol_cache_free(struct symbol_cache *cache)
{
	assert_ptr_equal(cache, fake.caches && !fake.has_no_cache ? kept_cache : NULL);
	fake.cache_frees++;
}

/* The kernel */

/* Stands still but for what a test adds: a busy machine may take longer than the rest of a limit.
 */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = 1000 + fake.seconds};
	return 0;
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	pid_t got = (pid_t)syscall(SYS_wait4, pid, status, options, NULL);

	*usage = (struct rusage){.ru_utime = {1, 2}, .ru_stime = {5, 3}};
	return got;
}

int setpriority(__priority_which_t which, id_t who, int priority)
{
	if (which == PRIO_PROCESS && !who)
		exporter->nice = priority;
	return 0;
}

FILE *fopen(const char *path, const char *mode)
{
	(void)path;
	return fake.statm ? fmemopen((void *)fake.statm, strlen(fake.statm), mode) : NULL;
}

/* Waits for nothing. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	const struct timespec none = {0};

	assert_int_equal(timeout, 10000);
	fake.polls++;
	if (fake.polled)
		fake.polled();
	return ppoll(fds, count, &none, NULL);
}

/* The peer */

static void ask(enum ask_type type, uint32_t id)
{
	const struct ask ask = {.type = type, .id = id};

	assert_int_equal(send(peer, &ask, sizeof(ask), 0), sizeof(ask));
}

static void say_stored(uint32_t slice)
{
	const struct ask ask = {.type = ASK_STORED, .slice = slice};

	assert_int_equal(send(peer, &ask, sizeof(ask), 0), sizeof(ask));
}

static void ask_for_recording(uint32_t id, uint32_t seconds)
{
	const struct ask ask = {.type = ASK_RECORD, .id = id, .rate = 997, .seconds = seconds};

	assert_int_equal(send(peer, &ask, sizeof(ask), 0), sizeof(ask));
}

/* Expects a reply, with a file of a profile or without one. */
static struct reply expect(enum reply_type type, bool with_file)
{
	char text[16] = "";
	struct reply reply;
	int file;

	assert_int_equal(receive_fd(peer, &reply, sizeof(reply), &file), sizeof(reply));
	assert_int_equal(reply.type, type);
	assert_int_equal(file >= 0, with_file);
	if (with_file) {
		assert_int_equal(pread(file, text, sizeof(text) - 1, 0), 7);
		assert_string_equal(text, "profile");
		close(file);
	}
	return reply;
}

static void expect_ready(uint32_t id, uint32_t slice)
{
	const struct reply reply = expect(REPLY_READY, false);

	assert_int_equal(reply.id, id);
	assert_int_equal(reply.slice, slice);
}

static void expect_cut(uint32_t id, uint32_t slice)
{
	const struct reply reply = expect(REPLY_CUT, false);

	assert_int_equal(reply.id, id);
	assert_int_equal(reply.slice, slice);
	assert_int_equal(reply.err, 0);
}

/* A slice that was exported. */
static void expect_slice(uint32_t slice)
{
	const struct reply reply = expect(REPLY_SLICE, true);

	assert_int_equal(reply.slice, slice);
	assert_int_equal(reply.err, 0);
	assert_string_equal(reply.error, "");
	assert_int_equal(reply.start_ns, 100 * slice);
	assert_int_equal(reply.duration_ns, slice);
	assert_int_equal(reply.samples, fake.samples);
}

static void expect_nothing(void)
{
	char byte;

	assert_int_equal(recv(peer, &byte, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
}

static struct sampler_counters counters(void)
{
	struct reply reply;

	ask(ASK_COUNTERS, 99);
	recorder_config->drained(recorder_config->arg);
	reply = expect(REPLY_COUNTERS, false);
	assert_int_equal(reply.id, 99);
	return reply.counters;
}

/* The recorder has drained the rings. */
static void drain(void)
{
	recorder_config->drained(recorder_config->arg);
}

/* Waits for the end of a process, which stays to be reaped. */
static void await_exporter(void)
{
	siginfo_t info;

	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
}

static void await_and_drain(void)
{
	await_exporter();
	drain();
}

/* Until there is no process any more. */
static void drain_until_reaped(void)
{
	siginfo_t info;

	while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0)
		drain();
}

static bool stops(void)
{
	return recorder_config->stop_requested(recorder_config->arg);
}

static bool is_awake(void)
{
	struct pollfd polled = {.fd = recorder_config->wake_fd, .events = POLLIN};
	const struct timespec none = {0};

	return ppoll(&polled, 1, &none, NULL) > 0;
}

static void note_start(const struct session *session)
{
	snprintf(loaded, sizeof(loaded), "%.*s", (int)sizeof(loaded) - 1, session->loaded);
}

static void note_warning(const char *text, void *arg)
{
	(void)arg;
	snprintf(warnings + strlen(warnings), sizeof(warnings) - strlen(warnings), "%s\n", text);
}

/* Open files of this process. */
static size_t count_files(void)
{
	size_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += !is_closed(fd);
	return count;
}

static int set_up(void **state)
{
	int ends[2];

	(void)state;
	files_before = count_files();
	memset(&fake, 0, sizeof(fake));
	fake.samples = 10;
	fake.statm = "100 42 7\n";
	memset(exporter, 0, sizeof(*exporter));
	*warnings = *loaded = '\0';
	error = (struct error){""};
	session_config = (struct session_config){.rate = 19};
	signal(SIGCHLD, SIG_DFL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) || pipe(gate))
		return -1;
	peer = ends[0];
	config = (struct sampler_config){
		.session = &session_config,
		.labels = &labels,
		.sandbox = sandbox_server,
		.symbolize = symbolize,
		.command_line = "serve -F 19",
		.memory = 4711,
		.socket = ends[1],
		.started = note_start,
		.warning = note_warning,
	};
	return 0;
}

static int tear_down(void **state)
{
	sigset_t none;

	(void)state;
	if (peer >= 0)
		close(peer);
	close(config.socket);
	close(gate[0]);
	close(gate[1]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* Each process was reaped, each window was freed, and each file was closed. */
	return waitpid(-1, NULL, WNOHANG) >= 0 || fake.windows || count_files() != files_before;
}

/* Samples while `script` runs. */
static void sample(void (*script)(void))
{
	fake.script = script;
	assert_int_equal(sampler_run(&config, &error), 0);
	assert_int_equal(fake.closes, 1);
}

/* Slices */

static void answer_cuts(void)
{
	struct sampler_counters sums;

	assert_string_equal(loaded, "/lib/module");
	expect_ready(0, 0);
	drain();
	assert_int_equal(fake.takes, 0);
	assert_false(is_awake());
	ask(ASK_CUT, 7);
	ask(ASK_CUT, 8);
	assert_true(is_awake());
	drain();
	/* Both end with the same slice, which is sent when it is exported. */
	expect_cut(7, 1);
	expect_cut(8, 1);
	await_exporter();
	assert_true(is_awake());
	assert_false(stops());
	assert_false(is_awake());
	drain();
	expect_slice(1);
	assert_int_equal(recorder->forked_cpu_ns, CPU_NS);
	assert_int_equal(fake.takes, 1);
	ask(ASK_CUT, 9);
	drain();
	expect_cut(9, 2);
	await_and_drain();
	expect_slice(2);
	assert_int_equal(recorder->forked_cpu_ns, 2 * CPU_NS);
	assert_true(recorder->forked_symbols_ns > 0);
	sums = counters();
	assert_int_equal(sums.samples, 20);
	for (unsigned int i = 0; i < TRUNCATED_COUNT; i++)
		assert_int_equal(sums.truncated[i], 2 * (i + 1));
	assert_int_equal(sums.lost_export, 0);
	assert_int_equal(sums.slices, 2);
	expect_nothing();
}

/* Asks for a cut whose slice only the store needs. */
static void ask_for_store(uint32_t id)
{
	const struct ask ask = {.type = ASK_CUT, .id = id, .for_store = true};

	assert_int_equal(send(peer, &ask, sizeof(ask), 0), sizeof(ask));
}

static void expect_form(uint32_t slice, bool is_window)
{
	struct reply reply;

	expect_cut(slice, slice);
	await_and_drain();
	reply = expect(REPLY_SLICE, true);
	assert_int_equal(reply.is_window, is_window);
	assert_int_equal(exporter->has_pid, !is_window);
	assert_int_equal(exporter->has_comm, true);
	assert_int_equal(exporter->written_samples, EXAMPLE_SAMPLES);
	assert_string_equal(exporter->comment, is_window ? "lost: 3" : "lost: 3 (ring full 3)");
	if (is_window) {
		assert_int_equal(exporter->time_ns, 100 * slice);
		assert_int_equal(exporter->duration_ns, slice);
	}
}

static void cut_for_the_store(void)
{
	expect_ready(0, 0);
	ask_for_store(1);
	drain();
	expect_form(1, true);
	/* A request needs the slice as well: its ask is the last one, then the first. */
	ask_for_store(2);
	ask(ASK_CUT, 9);
	drain();
	expect_cut(2, 2);
	expect_cut(9, 2);
	await_and_drain();
	assert_int_equal(expect(REPLY_SLICE, true).is_window, false);
	ask(ASK_CUT, 9);
	ask_for_store(3);
	drain();
	expect_cut(9, 3);
	expect_form(3, false);
	/* The next one is not affected. */
	ask_for_store(4);
	drain();
	expect_form(4, true);
	/* Nobody has asked: a request may have begun. */
	fake.is_due = true;
	drain();
	fake.is_due = false;
	await_and_drain();
	assert_int_equal(expect(REPLY_SLICE, true).is_window, false);
	/* Without memory, the profile is sent as it is. */
	fake.has_no_memory = true;
	ask_for_store(6);
	drain();
	expect_form(6, false);
	fake.has_no_memory = false;
	/* Another server learns it, too. */
	ask(ASK_BEGIN, 1000);
	drain();
	expect_ready(1000, 0);
	for (uint32_t i = 1; i <= 6; i++)
		assert_int_equal(expect(REPLY_SLICE, true).is_window, i == 1 || i == 4);
	config.has_store = false;
	ask_for_store(7);
	drain();
	expect_form(7, false);
}

static void slices_for_the_store_are_windows(void **state)
{
	(void)state;
	config.has_store = true;
	config.store_labels = LABEL_SET(LABEL_COMM);
	fake.profile = example_profile();
	profile_comment(fake.profile, "lost: 3 (ring full 3)");
	sample(cut_for_the_store);
	profile_free(fake.profile);
}

static void cuts_end_a_slice(void **state)
{
	(void)state;
	sample(answer_cuts);
	/* The last slice. */
	expect_slice(3);
	expect(REPLY_END, false);
	expect_nothing();
	assert_string_equal(warnings, "");
	assert_int_equal(exporter->nice, getpriority(PRIO_PROCESS, 0) + 5);
	assert_true(exporter->session_is_left);
	assert_true(exporter->files_are_forked);
	assert_true(exporter->dies_with_parent);
	assert_true(exporter->socket_is_closed);
	assert_true(exporter->wake_is_closed);
	assert_ptr_equal(exporter->symbolize, symbolize);
	assert_ptr_equal(exporter->kallsyms, kept_symbols);
	assert_int_equal(fake.refreshes, 3);
	assert_int_equal(fake.clears, 1);
	assert_ptr_equal(exporter->cache, kept_cache);
	assert_int_equal(fake.caches, 1);
	assert_int_equal(fake.cache_clears, 0);
	assert_int_equal(fake.cache_frees, 1);
}

static void without_symbols_none_are_kept(void **state)
{
	(void)state;
	config.symbolize = NULL;
	sample(answer_cuts);
	expect_slice(3);
	expect(REPLY_END, false);
	assert_null(exporter->kallsyms);
	assert_int_equal(fake.refreshes, 0);
	assert_int_equal(fake.caches, 0);
}

static void cut_one(uint32_t slice)
{
	ask(ASK_CUT, slice);
	drain();
	expect_cut(slice, slice);
	await_and_drain();
	expect_slice(slice);
}

/* At the start, before the end of an hour, and after it, twice. */
static void cut_for_hours(void)
{
	static const unsigned int seconds[] = {0, 3590, 10, 3590, 10}, clears[] = {0, 0, 1, 1, 2};

	expect_ready(0, 0);
	for (uint32_t i = 0; i < 5; i++) {
		fake.seconds += seconds[i];
		cut_one(i + 1);
		assert_int_equal(fake.cache_clears, clears[i]);
	}
}

/* After a slice for which the symbols of the kernel were read. */
static void cut_after_reading_the_kernel(void)
{
	static const unsigned int seconds[] = {0, 0, 599, 1, 2999, 1, 0, 3600};
	static const bool reads[] = {false, true, false, false, false, false, true, false};
	static const unsigned int tolerated[] = {0, 0, 100, 1, 1, 0, 0, 0};

	expect_ready(0, 0);
	for (uint32_t i = 0; i < 8; i++) {
		fake.seconds += seconds[i];
		fake.reads_kernel = reads[i];
		cut_one(i + 1);
		assert_int_equal(exporter->tolerated_missing, tolerated[i]);
	}
}

/* It is tried again with each slice. */
static void cut_with_a_busy_cache(void)
{
	expect_ready(0, 0);
	cut_one(1);
	fake.seconds += 3600;
	fake.cache_is_busy = true;
	cut_one(2);
	fake.cache_is_busy = false;
	cut_one(3);
	assert_int_equal(fake.cache_clears, 1);
	cut_one(4);
	assert_int_equal(fake.cache_clears, 1);
}

static void busy_cache_begins_again_later(void **state)
{
	(void)state;
	sample(cut_with_a_busy_cache);
	expect_slice(5);
	expect(REPLY_END, false);
}

static void cache_begins_again_each_hour(void **state)
{
	(void)state;
	sample(cut_for_hours);
	expect_slice(6);
	expect(REPLY_END, false);
	assert_int_equal(fake.caches, 1);
}

static void symbols_of_generated_code_may_be_missing(void **state)
{
	(void)state;
	sample(cut_after_reading_the_kernel);
	expect_slice(9);
	expect(REPLY_END, false);
}

static void missing_cache_is_made_later(void **state)
{
	(void)state;
	fake.has_no_cache = true;
	sample(answer_cuts);
	expect_slice(3);
	expect(REPLY_END, false);
	assert_null(exporter->cache);
	assert_int_equal(fake.caches, 3);
}

static void fill_memory(void)
{
	expect_ready(0, 0);
	fake.is_due = true;
	drain();
	fake.is_due = false;
	await_and_drain();
	expect_slice(1);
	fake.samples = 0;
}

static void full_recorder_ends_a_slice(void **state)
{
	(void)state;
	sample(fill_memory);
	assert_int_equal(fake.takes, 2);
	assert_int_equal(fake.skips, 1);
}

/* No process is needed, and there is no file. */
static void cut_nothing(void)
{
	struct reply reply;

	expect_ready(0, 0);
	fake.samples = 0;
	ask(ASK_CUT, 1);
	drain();
	expect_cut(1, 1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(fake.exports, 0);
	assert_int_equal(fake.skips, 1);
	drain();
	reply = expect(REPLY_SLICE, false);
	assert_int_equal(reply.slice, 1);
	assert_int_equal(reply.err, 0);
	assert_int_equal(reply.samples, 0);
	assert_int_equal(reply.start_ns, 100);
	assert_int_equal(counters().samples, 0);
}

static void slice_without_samples_has_no_file(void **state)
{
	(void)state;
	sample(cut_nothing);
	assert_int_equal(fake.refreshes, 0);
	assert_int_equal(expect(REPLY_SLICE, false).slice, 2);
	expect(REPLY_END, false);
	assert_string_equal(warnings, "");
}

/* The rings wait meanwhile. */
static void cut_without_processes(void)
{
	struct reply reply;

	expect_ready(0, 0);
	fake.fork_fails = true;
	ask(ASK_CUT, 1);
	drain();
	expect_cut(1, 1);
	drain();
	expect_slice(1);
	assert_int_equal(recorder->forked_cpu_ns, 0);
	assert_false(exporter->session_is_left);
	ask_for_recording(2, 1);
	drain();
	drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.id, 2);
	assert_int_equal(reply.err, -EAGAIN);
	assert_string_equal(reply.error, "no process can be created");
	assert_false(exporter->session_is_left);
}

static void slice_is_written_here_without_a_process(void **state)
{
	(void)state;
	sample(cut_without_processes);
	expect_slice(2);
	expect(REPLY_END, false);
}

static void fail_to_take(void)
{
	expect_ready(0, 0);
	fake.take_err = -ENOMEM;
	ask(ASK_CUT, 1);
	drain();
	expect_nothing();
	assert_string_equal(warnings, "can't take\n");
	/* Each turn of the loop tries it. */
	for (int i = 0; i < 5; i++)
		drain();
	expect_nothing();
	assert_string_equal(warnings, "can't take\n");
	fake.take_err = 0;
	drain();
	expect_cut(1, 1);
	await_and_drain();
	expect_slice(1);
	fake.take_err = -ENOMEM;
}

/* At the end, it is tried three times. */
static void failed_cut_is_tried_again(void **state)
{
	(void)state;
	sample(fail_to_take);
	expect(REPLY_END, false);
	/* Said when it begins to fail, and once again after it has worked. */
	assert_string_equal(warnings, "can't take\ncan't take\n");
	assert_int_equal(fake.tries, 6 + 1 + 3);
}

static void run_out_of_memory(void)
{
	expect_ready(0, 0);
	fake.export_err = -ENOMEM;
	ask(ASK_CUT, 1);
	drain();
	expect_cut(1, 1);
	await_and_drain();
	expect_slice(1);
	assert_int_equal(counters().samples, 10);
	assert_int_equal(counters().lost_export, 0);
}

/* The profile has all samples. */
static void slice_without_symbols_is_sent(void **state)
{
	(void)state;
	sample(run_out_of_memory);
	expect_slice(2);
	expect(REPLY_END, false);
	assert_string_equal(warnings, "");
}

static void fail_to_export(void)
{
	struct sampler_counters sums;
	struct reply reply;

	expect_ready(0, 0);
	fake.write_err = -ENOSPC;
	ask(ASK_CUT, 1);
	drain();
	expect_cut(1, 1);
	await_and_drain();
	reply = expect(REPLY_SLICE, false);
	assert_int_equal(reply.slice, 1);
	assert_int_equal(reply.samples, 10);
	assert_int_equal(reply.err, -ENOSPC);
	assert_string_equal(reply.error, "can't write");
	assert_string_equal(warnings, "a slice is lost: can't write\n");
	*warnings = '\0';
	fake.write_err = 0;
	fake.crashes = true;
	ask(ASK_CUT, 2);
	drain();
	expect_cut(2, 2);
	await_and_drain();
	await_and_drain();
	/* Its samples are worth a profile without symbols. */
	reply = expect(REPLY_SLICE, true);
	assert_int_equal(reply.err, 0);
	assert_int_equal(reply.samples, 10);
	assert_null(exporter->symbolize);
	assert_null(exporter->cache);
	assert_string_equal(warnings,
			    "a slice has no symbols: the process that symbolizes was killed\n");
	*warnings = '\0';
	/* The second process can't write it. */
	fake.write_err = -ENOSPC;
	ask(ASK_CUT, 3);
	drain();
	expect_cut(3, 3);
	await_and_drain();
	await_and_drain();
	reply = expect(REPLY_SLICE, false);
	assert_int_equal(reply.err, -ENOSPC);
	assert_string_equal(warnings,
			    "a slice has no symbols: the process that symbolizes was killed\n"
			    "a slice is lost: can't write\n");
	fake.write_err = 0;
	fake.crashes = false;
	sums = counters();
	assert_int_equal(sums.lost_export, 20);
	assert_int_equal(sums.samples, 10);
	assert_int_equal(sums.truncated[1], 2);
}

static void slices_that_are_lost_are_counted(void **state)
{
	(void)state;
	sample(fail_to_export);
	expect_slice(4);
	expect(REPLY_END, false);
}

/* Lets all processes that block go on. */
static void open_gate(void)
{
	static const char bytes[64];

	assert_int_equal(write(gate[1], bytes, sizeof(bytes)), sizeof(bytes));
}

static void cut_too_fast(void)
{
	bool found[EXPORTS + 1] = {false};

	expect_ready(0, 0);
	fake.blocks = true;
	for (uint32_t i = 1; i <= EXPORTS; i++) {
		ask(ASK_CUT, i);
		drain();
		expect_cut(i, i);
	}
	ask(ASK_CUT, EXPORTS + 1);
	drain();
	expect_nothing();
	assert_int_equal(fake.takes, EXPORTS);
	/* A recording has processes of its own. */
	ask_for_recording(50, 1);
	ask_for_recording(51, 1);
	drain();
	expect_nothing();
	open_gate();
	for (uint32_t i = 0; i < EXPORTS + RECORDINGS;) {
		struct reply reply;
		int file;

		await_and_drain();
		while (receive_fd(peer, &reply, sizeof(reply), &file) > 0) {
			if (file >= 0)
				close(file);
			if (reply.type == REPLY_SLICE && reply.slice <= EXPORTS)
				found[reply.slice] = true;
			i += reply.type == REPLY_RECORDED ||
			     (reply.type == REPLY_SLICE && reply.slice <= EXPORTS);
		}
	}
	for (uint32_t i = 1; i <= EXPORTS; i++)
		assert_true(found[i]);
}

/* However often it is asked, few processes export at a time; the next slice grows meanwhile. */
static void processes_that_export_are_few(void **state)
{
	(void)state;
	sample(cut_too_fast);
	assert_int_equal(fake.takes, EXPORTS + 2);
}

static void ask_too_often(void)
{
	expect_ready(0, 0);
	for (uint32_t i = 1; i <= CUTS + 1; i++)
		ask(ASK_CUT, i);
	drain();
	for (uint32_t i = 1; i <= CUTS; i++)
		expect_cut(i, 1);
	await_and_drain();
	expect_slice(1);
	expect_nothing();
}

static void cuts_that_wait_are_bounded(void **state)
{
	(void)state;
	sample(ask_too_often);
}

/* Servers */

static void cut_and_expect(uint32_t slice)
{
	ask(ASK_CUT, slice);
	drain();
	expect_cut(slice, slice);
	if (fake.samples)
		await_exporter();
	drain();
	assert_int_equal(expect(REPLY_SLICE, fake.samples).slice, slice);
}

static void replace_server(void)
{
	expect_ready(0, 0);
	cut_and_expect(1);
	cut_and_expect(2);
	fake.samples = 0;
	cut_and_expect(3);
	fake.samples = 10;
	cut_and_expect(4);
	say_stored(2);
	/* Older, and newer than any. */
	say_stored(1);
	ask(ASK_BEGIN, 1000);
	drain();
	expect_ready(1000, 2);
	assert_int_equal(expect(REPLY_SLICE, false).slice, 3);
	expect_slice(4);
	say_stored(UINT32_MAX);
	ask(ASK_BEGIN, 2000);
	drain();
	expect_ready(2000, 4);
	drain();
	expect_nothing();
}

static void new_server_gets_what_is_not_stored(void **state)
{
	(void)state;
	config.has_store = true;
	sample(replace_server);
	expect_slice(5);
	expect(REPLY_END, false);
	expect_nothing();
	assert_string_equal(warnings, "");
}

static void replace_server_without_store(void)
{
	expect_ready(0, 0);
	cut_and_expect(1);
	ask(ASK_BEGIN, 1000);
	drain();
	expect_ready(1000, 0);
	expect_nothing();
}

static void nothing_is_kept_without_a_store(void **state)
{
	(void)state;
	sample(replace_server_without_store);
}

static void keep_too_many(void)
{
	expect_ready(0, 0);
	cut_and_expect(1);
	cut_and_expect(2);
	fake.samples = 0;
	/* Each is sent after the next one was cut. */
	fake.is_due = true;
	drain();
	for (uint32_t i = 3; i <= KEPT + 1; i++) {
		fake.is_due = i <= KEPT;
		drain();
		assert_int_equal(expect(REPLY_SLICE, false).slice, i);
	}
	ask(ASK_BEGIN, 1000);
	drain();
	expect_ready(1000, 1);
	assert_int_equal(expect(REPLY_SLICE, true).slice, 2);
	for (uint32_t i = 3; i <= KEPT + 1; i++) {
		/* The socket has no room for all at once. */
		if (i % 8 == 0)
			drain();
		assert_int_equal(expect(REPLY_SLICE, false).slice, i);
	}
}

static void kept_slices_are_bounded(void **state)
{
	(void)state;
	config.has_store = true;
	sample(keep_too_many);
}

/* Fills the socket: nothing can be sent. */
static void fill_socket(void)
{
	const struct reply filler = {.type = REPLY_END};

	while (send(config.socket, &filler, sizeof(filler), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

static void empty_socket(void)
{
	struct reply reply;

	while (recv(peer, &reply, sizeof(reply), 0) > 0)
		assert_int_equal(reply.type, REPLY_END);
}

static void be_slow(void)
{
	expect_ready(0, 0);
	ask(ASK_CUT, 1);
	drain();
	expect_cut(1, 1);
	ask_for_recording(2, 1);
	fill_socket();
	drain_until_reaped();
	empty_socket();
	drain();
	assert_int_equal(expect(REPLY_RECORDED, true).id, 2);
	expect_slice(1);
	fill_socket();
	fake.samples = 0;
	fake.is_due = true;
	for (uint32_t i = 0; i < 20; i++)
		drain();
	fake.is_due = false;
	empty_socket();
	drain();
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(expect(REPLY_SLICE, false).slice, 2 + i);
	expect_nothing();
}

static void slow_server_gets_everything_later(void **state)
{
	(void)state;
	sample(be_slow);
	assert_int_equal(expect(REPLY_SLICE, false).slice, 22);
	expect(REPLY_END, false);
}

/* Recordings */

static void record_at_another_rate(void)
{
	struct reply reply;

	expect_ready(0, 0);
	fake.takes = 6;
	ask_for_recording(5, 0); /* no seconds: none */
	ask_for_recording(6, 30);
	drain();
	await_and_drain();
	reply = expect(REPLY_RECORDED, true);
	assert_int_equal(reply.id, 6);
	assert_int_equal(reply.err, 0);
	assert_int_equal(reply.start_ns, 700);
	assert_int_equal(reply.duration_ns, 7);
	assert_int_equal(reply.samples, 10);
	assert_int_equal(recorder->forked_cpu_ns, CPU_NS);
	assert_int_equal(exporter->rate, 997);
	assert_true(exporter->rate_given);
	assert_int_equal(exporter->source, fake.is_perf ? SOURCE_PERF : SOURCE_MODULE);
	assert_int_equal(counters().is_perf, fake.is_perf);
	assert_int_equal(counters().stack_copy, 8192);
	assert_true(exporter->seconds == 30);
	assert_int_equal(exporter->wake_fd, -1);
	assert_false(exporter->stops);
	assert_ptr_equal(exporter->labels, &labels);
	assert_ptr_equal(exporter->sandbox, sandbox_server);
	assert_int_equal(exporter->memory, 4711);
	assert_string_equal(exporter->command_line, "serve -F 19");
	assert_ptr_equal(exporter->symbolize, symbolize);
	assert_true(exporter->session_is_left);
	assert_true(exporter->dies_with_parent);
	/* It is none of the slices. */
	assert_int_equal(counters().samples, 0);
	fake.takes = 0;
}

static void recording_has_a_session_of_its_own(void **state)
{
	(void)state;
	sample(record_at_another_rate);
	assert_int_equal(session_config.rate, 19);
	expect_slice(1);
}

/* Another look for the module would be in vain, and need rights that are given up. */
static void recording_has_the_source_that_runs(void **state)
{
	(void)state;
	fake.is_perf = true;
	sample(record_at_another_rate);
	assert_int_equal(session_config.rate, 19);
	expect_slice(1);
}

static void fail_to_record(void)
{
	struct reply reply;

	expect_ready(0, 0);
	fake.open_err = -EBUSY;
	ask_for_recording(1, 1);
	drain();
	await_and_drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.err, -EBUSY);
	assert_string_equal(reply.error, "can't open");
	fake.open_err = 0;
	fake.run_err = -EIO;
	ask_for_recording(2, 1);
	drain();
	await_and_drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.err, -EIO);
	assert_string_equal(reply.error, "can't run");
	fake.run_err = 0;
	fake.take_err = -ENOMEM;
	ask_for_recording(3, 1);
	drain();
	await_and_drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.err, -ENOMEM);
	assert_string_equal(reply.error, "can't take");
	fake.take_err = 0;
	fake.samples = 0;
	ask_for_recording(4, 1);
	drain();
	await_and_drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.err, 0);
	assert_int_equal(reply.samples, 0);
	/* None of them is a slice that is lost. */
	assert_int_equal(counters().lost_export, 0);
}

static void failed_recording_is_explained(void **state)
{
	(void)state;
	sample(fail_to_record);
	assert_string_equal(warnings, "");
}

static void record_too_often(void)
{
	struct reply reply;

	expect_ready(0, 0);
	fake.blocks = true;
	ask_for_recording(1, 1);
	ask_for_recording(2, 1);
	ask_for_recording(3, 1);
	drain();
	reply = expect(REPLY_RECORDED, false);
	assert_int_equal(reply.id, 3);
	assert_int_equal(reply.err, -EAGAIN);
	assert_string_equal(reply.error, "2 sessions of their own are being recorded");
	expect_nothing();
	for (uint32_t i = 0; i < RECORDINGS; i++) {
		assert_int_equal(write(gate[1], "", 1), 1);
		await_and_drain();
		assert_int_equal(expect(REPLY_RECORDED, true).err, 0);
	}
	fake.blocks = false;
}

static void recordings_at_a_time_are_bounded(void **state)
{
	(void)state;
	sample(record_too_often);
}

/* Counters */

static void count(void)
{
	struct sampler_counters sums;
	struct reply reply;

	expect_ready(0, 0);
	sums = counters();
	assert_memory_equal(sums.session, measured, sizeof(measured));
	assert_int_equal(sums.rate, 19);
	assert_int_equal(sums.cpus, 8);
	assert_int_equal(sums.slices, 0);
	assert_int_equal(sums.resident_bytes, 42 * sysconf(_SC_PAGESIZE));
	fake.statm = "100\n";
	assert_int_equal(counters().resident_bytes, 0);
	fake.statm = NULL;
	assert_int_equal(counters().resident_bytes, 0);
	fake.measure_err = -EIO;
	ask(ASK_COUNTERS, 5);
	drain();
	reply = expect(REPLY_COUNTERS, false);
	assert_int_equal(reply.err, -EIO);
	/* Those that it knows. */
	assert_int_equal(reply.counters.cpus, 8);
	assert_int_equal(reply.counters.clock_steps, 9);
}

static void counters_are_those_of_the_recorder(void **state)
{
	(void)state;
	sample(count);
}

/* The end */

static void send_signals(void)
{
	static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

	expect_ready(0, 0);
	assert_false(stops());
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++) {
		raise(ending[i]);
		assert_true(is_awake());
		assert_true(stops());
		assert_false(stops());
	}
	raise(SIGCHLD);
	assert_true(is_awake());
	assert_false(stops());
	raise(SIGTERM);
	raise(SIGCHLD);
	assert_true(stops());
}

static void signals_end_it(void **state)
{
	(void)state;
	sample(send_signals);
}

static void leave(void)
{
	expect_ready(0, 0);
	drain();
	assert_false(stops());
	close(peer);
	peer = -1;
	assert_true(is_awake());
	drain();
	assert_true(stops());
}

static void end_of_the_server_ends_it(void **state)
{
	(void)state;
	sample(leave);
	/* Nobody is waited for. */
	assert_int_equal(fake.polls, 0);
	assert_string_equal(warnings, "10 samples are lost: the HTTP server has ended\n");
}

static void keep_and_leave(void)
{
	expect_ready(0, 0);
	cut_and_expect(1);
	close(peer);
	peer = -1;
	drain();
	/* The last slice has none. */
	fake.samples = 0;
}

/* Without a store, they had arrived. */
static void kept_slices_are_lost_with_the_server(void **state)
{
	(void)state;
	config.has_store = true;
	sample(keep_and_leave);
	assert_string_equal(warnings, "10 samples are lost: the HTTP server has ended\n");
	assert_int_equal(tear_down(state), 0);
	assert_int_equal(set_up(state), 0);
	sample(keep_and_leave);
	assert_string_equal(warnings, "");
}

static void end_with_blocked_exports(void)
{
	expect_ready(0, 0);
	fake.blocks = true;
	for (uint32_t i = 1; i <= EXPORTS; i++) {
		ask(ASK_CUT, i);
		drain();
		expect_cut(i, i);
	}
	for (uint32_t i = 1; i <= EXPORTS + 1; i++)
		assert_int_equal(write(gate[1], "", 1), 1);
}

/* There is no room for the last slice until the others are exported. */
static void last_slice_waits_for_the_others(void **state)
{
	(void)state;
	sample(end_with_blocked_exports);
	for (uint32_t i = 1; i <= EXPORTS + 1; i++)
		expect_slice(i);
	expect(REPLY_END, false);
	expect_nothing();
	assert_string_equal(warnings, "");
}

static void end_with_a_recording(void)
{
	expect_ready(0, 0);
	fake.blocks = true;
	ask_for_recording(1, 300);
	drain();
	fake.blocks = false;
}

/* The rest of the samples is stored after REPLY_END: it can't wait for minutes. */
static void recordings_do_not_delay_the_end(void **state)
{
	(void)state;
	/* It would hang. */
	alarm((unsigned int)hang_s());
	sample(end_with_a_recording);
	alarm(0);
	expect_slice(1);
	expect(REPLY_END, false);
	assert_int_equal(write(gate[1], "", 1), 1);
	assert_true(waitpid(-1, NULL, 0) > 0);
}

static void fill_and_end(void)
{
	expect_ready(0, 0);
	fill_socket();
}

/* A server that reads nothing loses the rest. */
static void server_that_hangs_is_given_up(void **state)
{
	(void)state;
	sample(fill_and_end);
	assert_int_equal(fake.polls, 1);
	empty_socket();
	assert_string_equal(warnings, "10 samples are lost: the HTTP server has ended\n");
}

static void make_room(void)
{
	struct reply reply;

	assert_int_equal(recv(peer, &reply, sizeof(reply), 0), sizeof(reply));
	if (fake.polls == 1)
		empty_socket();
}

/* A reader that is slow gets everything. */
static void slow_server_is_waited_for(void **state)
{
	(void)state;
	fake.polled = make_room;
	sample(fill_and_end);
	assert_string_equal(warnings, "");
}

static void errors_at_the_start_are_reported(void **state)
{
	int usable = config.socket;

	(void)state;
	fake.open_err = -ENOENT;
	assert_int_equal(sampler_run(&config, &error), -ENOENT);
	assert_string_equal(error.text, "can't open");
	fake.open_err = 0;
	config.socket = -1;
	assert_int_equal(sampler_run(&config, &error), -EBADF);
	assert_non_null(strstr(error.text, "can't wait for requests"));
	config.socket = usable;
	fake.has_no_epoll = true;
	assert_int_equal(sampler_run(&config, &error), -EMFILE);
	fake.has_no_epoll = false;
	assert_string_equal(loaded, "");
	assert_int_equal(fake.closes, 0);
	expect_nothing();
}

/* A source that may not be used: nobody hears that sampling has begun. */
static void refused_session_does_not_begin(void **state)
{
	(void)state;
	fake.configure_err = -EPERM;
	fake.samples = 0;
	assert_int_equal(sampler_run(&config, &error), -EPERM);
	assert_string_equal(error.text, "can't configure");
	assert_string_equal(loaded, "");
}

/* What was recorded before is sent. */
static void error_of_the_recorder_ends_it(void **state)
{
	(void)state;
	fake.run_err = -EIO;
	assert_int_equal(sampler_run(&config, &error), -EIO);
	assert_string_equal(error.text, "can't run");
	expect_ready(0, 0);
	expect_slice(1);
	expect(REPLY_END, false);
}

static void stop_session(void)
{
	recorder->is_ended_by_others = true;
}

/* What starts it again has to know. */
static void end_of_the_session_is_an_error(void **state)
{
	(void)state;
	fake.script = stop_session;
	assert_int_equal(sampler_run(&config, &error), -ECANCELED);
	assert_string_equal(error.text, "the session was stopped");
	expect_ready(0, 0);
	expect_slice(1);
	expect(REPLY_END, false);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cuts_end_a_slice),
		TEST(slices_for_the_store_are_windows),
		TEST(without_symbols_none_are_kept),
		TEST(cache_begins_again_each_hour),
		TEST(symbols_of_generated_code_may_be_missing),
		TEST(busy_cache_begins_again_later),
		TEST(missing_cache_is_made_later),
		TEST(full_recorder_ends_a_slice),
		TEST(slice_without_samples_has_no_file),
		TEST(slice_is_written_here_without_a_process),
		TEST(failed_cut_is_tried_again),
		TEST(slice_without_symbols_is_sent),
		TEST(slices_that_are_lost_are_counted),
		TEST(processes_that_export_are_few),
		TEST(cuts_that_wait_are_bounded),
		TEST(new_server_gets_what_is_not_stored),
		TEST(nothing_is_kept_without_a_store),
		TEST(kept_slices_are_bounded),
		TEST(slow_server_gets_everything_later),
		TEST(recording_has_a_session_of_its_own),
		TEST(recording_has_the_source_that_runs),
		TEST(failed_recording_is_explained),
		TEST(recordings_at_a_time_are_bounded),
		TEST(counters_are_those_of_the_recorder),
		TEST(signals_end_it),
		TEST(end_of_the_session_is_an_error),
		TEST(end_of_the_server_ends_it),
		TEST(kept_slices_are_lost_with_the_server),
		TEST(last_slice_waits_for_the_others),
		TEST(recordings_do_not_delay_the_end),
		TEST(server_that_hangs_is_given_up),
		TEST(slow_server_is_waited_for),
		TEST(errors_at_the_start_are_reported),
		TEST(refused_session_does_not_begin),
		TEST(error_of_the_recorder_ends_it),
	};

	test_pid = getpid();
	exporter = mmap(NULL, sizeof(*exporter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (exporter == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests_name("slicer", tests, NULL, NULL);
}

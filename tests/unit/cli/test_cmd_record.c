// SPDX-License-Identifier: GPL-2.0
/* record: its files, messages and exit status. Functions of this file replace the recorder. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "cli/reader_sandbox.h"
#include "cli/record_signals.h"
#include "command.h"
#include "debuginfo/file_cache.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/mapped_files.h"
#include "mappings/opened_files.h"
#include "pprof/pprof_reader.h"
#include "pprof/truncation.h"
#include "record/profile_export.h"
#include "record/recorder.h"
#include "record/stack_table.h"
#include "record/verification.h"
#include "record/window.h"
#include "sample_profile.h"
#include "sandbox.h"
#include "sandbox/worker_call.h"
#include "source/session.h"

#define SUMMARY_OF_EXAMPLE "stackbeat: 11 samples in 2.0 s; "

/* The recorder, and what the command does with it. */
static struct {
	int sandbox_err, open_err, run_err, take_err, peek_err, export_err;
	int last_err; /* a part of the last window is missing */
	bool is_empty; /* the windows */
	bool is_due; /* the recorder wants recorder_take() */
	const char *warning; /* of export_profile() */
	const char *loaded;
	void (*script)(void); /* in recorder_run() */
	struct mapped_files_counts saved;
	uint64_t recorded; /* samples, for the end after an error */
	int command_status; /* of a command that has ended; 0: none has */
	struct recorder *recorder;
	const struct recorder_config *config;
	unsigned int takes, peeks, closes, frees, stops;
	bool no_symbolize;
	bool takes_when_full; /* as in the config, which exists while it records */
	bool fork_fails;
	bool blocks; /* processes that write a file */
	bool is_killed; /* a process that symbolizes a file */
	bool is_killed_again; /* and the next one, which only writes it */
	char ended_by[128], command_line[128];
	char cache[64]; /* its directory; "": none */
	const struct file_cache *used_cache;
	unsigned int caches_closed;
} fake;

/* What processes that write a file have seen, in shared memory. */
static struct shared {
	unsigned int exports;
	int nice;
	bool is_child, session_is_left, files_are_forked;
	unsigned int counted; /* bits of enum cpu_part */
} * shared;

static pid_t test_pid;
static int gate[2]; /* a pipe: processes that block read from it */

int reader_sandbox_start(struct reader_sandbox *reader, const struct sandbox_options *options,
			 bool downloads, struct error *error)
{
	(void)reader;
	(void)options;
	fake.no_symbolize = !downloads;
	return fake.sandbox_err ? error_set(error, -fake.sandbox_err, "no sandbox") : 0;
}

void reader_sandbox_stop(struct reader_sandbox *reader)
{
	(void)reader;
	fake.stops++;
}

void reader_sandbox_print_missing(const struct reader_sandbox *reader)
{
	(void)reader;
	fputs("stackbeat: missing parts\n", stderr);
}

unsigned int symbolize_timeout_s(const struct sandbox_options *options)
{
	(void)options;
	return 77;
}

void reader_sandbox_use(const struct reader_sandbox *reader, const struct sandbox_options *options,
			struct symbolize_options *symbolize)
{
	(void)reader;
	(void)options;
	(void)symbolize;
}

/* The cache of unwind tables. No directory is created. */

struct file_cache *file_cache_open(const struct file_cache_config *config, struct error *error)
{
	snprintf(fake.cache, sizeof(fake.cache), "%s", config->directory);
	if (strcmp(config->directory, "bad"))
		return (struct file_cache *)&fake;
	error_set(error, EPERM, "bad cache");
	return NULL;
}

void file_cache_close(struct file_cache *cache)
{
	fake.caches_closed += cache == (struct file_cache *)&fake;
}

int recorder_open(struct recorder *recorder, const struct recorder_config *config,
		  struct error *error)
{
	fake.recorder = recorder;
	fake.config = config;
	fake.takes_when_full = config->takes_when_full;
	fake.used_cache = config->cache;
	snprintf(fake.command_line, sizeof(fake.command_line), "%s",
		 recorder->recording.command_line);
	recorder->session.parts = STACKBEAT_PART_KERNEL;
	if (fake.loaded)
		snprintf(recorder->session.loaded, sizeof(recorder->session.loaded), "%s",
			 fake.loaded);
	if (fake.recorded)
		recorder->collector.stacks = (void *)&fake;
	return fake.open_err ? error_set(error, -fake.open_err, "can't open") : 0;
}

int recorder_run(struct recorder *recorder, const struct recorder_config *config,
		 struct error *error)
{
	recorder->recording.start_ns = 1000000000 * NS_PER_SECOND;
	recorder->recording.cpus = 2;
	recorder->recording.rate = 99;
	if (fake.script)
		fake.script();
	assert_ptr_equal(config, fake.config);
	if (fake.command_status) {
		recorder->command.ended = true;
		recorder->command.status = fake.command_status;
	}
	return fake.run_err ? error_set(error, -fake.run_err, "can't run") : 0;
}

void window_clear(struct window *window)
{
	profile_free(window->profile);
	*window = (struct window){0};
}

void window_count_merged(const struct window *window, struct window_merged *merged)
{
	(void)window;
	*merged = (struct window_merged){0};
}

static void fill(struct window *window, struct recording *recording)
{
	*recording = fake.recorder->recording;
	recording->duration_ns = 2 * NS_PER_SECOND;
	*window = (struct window){.profile = fake.is_empty ? profile_new() : example_profile(),
				  .samples = fake.is_empty ? 0 : EXAMPLE_SAMPLES};
}

int recorder_take(struct recorder *recorder, struct window *window, struct recording *recording,
		  struct error *error)
{
	assert_ptr_equal(recorder, fake.recorder);
	fake.takes++;
	*window = (struct window){0};
	if (fake.take_err)
		return error_set(error, -fake.take_err, "can't take");
	fill(window, recording);
	return 0;
}

int recorder_take_last(struct recorder *recorder, struct window *window,
		       struct recording *recording, struct error *error)
{
	int err = recorder_take(recorder, window, recording, error);

	return !err && fake.last_err ? error_set(error, -fake.last_err, "a part is missing") : err;
}

int recorder_peek(struct recorder *recorder, struct window **window, struct recording *recording,
		  struct error *error)
{
	static struct window peeked;

	assert_ptr_equal(recorder, fake.recorder);
	fake.peeks++;
	if (fake.peek_err)
		return error_set(error, -fake.peek_err, "can't peek");
	window_clear(&peeked);
	fill(&peeked, recording);
	*window = &peeked;
	return 0;
}

void recorder_close(struct recorder *recorder)
{
	(void)recorder;
	fake.closes++;
}

void recorder_free(struct recorder *recorder)
{
	(void)recorder;
	fake.frees++;
}

bool collector_take_is_due(const struct collector *collector)
{
	(void)collector;
	return fake.is_due;
}

void collector_leave_generated(struct collector *collector)
{
	(void)collector;
}

const struct sample_totals *stack_table_totals(const struct stack_table *table)
{
	static struct sample_totals totals;

	(void)table;
	totals.samples = fake.recorded;
	return &totals;
}

int export_profile(struct window *window, struct mapped_files *files,
		   const struct recording *recording, struct truncation_counts *counts,
		   struct error *warning, struct error *missing)
{
	(void)window;
	(void)files;
	char byte;

	if (fake.blocks && getpid() != test_pid)
		assert_int_equal(read(gate[0], &byte, 1), 1);
	if (fake.is_killed && getpid() != test_pid &&
	    (recording->symbolize || fake.is_killed_again))
		raise(SIGKILL);
	shared->exports++;
	shared->is_child = getpid() != test_pid;
	shared->nice = getpriority(PRIO_PROCESS, 0);
	if (recording->symbolized)
		recording->symbolized(recording->symbolized_arg);
	assert_int_equal(!recording->symbolize, fake.no_symbolize || fake.is_killed);
	snprintf(fake.ended_by, sizeof(fake.ended_by), "%s",
		 recording->ended_by ? recording->ended_by : "");
	memset(counts, 0, sizeof(*counts));
	error_set(warning, 0, "%s", fake.warning ? fake.warning : "");
	return fake.export_err ? error_set(missing, -fake.export_err, "parts are missing") : 0;
}

double recording_mean_rate(const struct recording *recording)
{
	(void)recording;
	return 99;
}

double recording_overhead_percent(const struct recording *recording)
{
	(void)recording;
	return 1.5;
}

double recording_overhead_seconds(const struct recording *recording)
{
	(void)recording;
	return 0.25;
}

void recorder_count_cpu(struct recorder *recorder, struct recording *recording, enum cpu_part part)
{
	(void)recorder, (void)recording;
	shared->counted |= 1u << part;
}

void verification_result(const struct verification *verification,
			 struct verification_result *result)
{
	assert_ptr_equal(verification, fake.recorder->collector.verification);
	*result = (struct verification_result){.results = {[COMPARED_EQUAL] = 5}};
}

pid_t fork(void)
{
	pid_t (*const real)(void) = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");

	if (!fake.fork_fails)
		return real();
	errno = EAGAIN;
	return -1;
}

void session_close(struct session *session)
{
	(void)session;
}

void session_leave(struct session *session)
{
	(void)session;
	shared->session_is_left = getpid() != test_pid;
}

void mapped_files_forked(struct mapped_files *files)
{
	(void)files;
	shared->files_are_forked = true;
}

void mapped_files_counts(const struct mapped_files *files, struct mapped_files_counts *counts)
{
	(void)files;
	*counts = fake.saved;
}

const char *mapped_files_save_problem(const struct mapped_files *files)
{
	(void)files;
	return "no room";
}

/* The test */

static int set_up(void **state)
{
	if (make_sandbox(state))
		return -1;
	memset(&fake, 0, sizeof(fake));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	test_pid = getpid();
	assert_int_equal(pipe(gate), 0);
	/* The recorder leaves it ignored if it is, as by nohup. */
	signal(SIGHUP, SIG_DFL);
	setenv("TMPDIR", sandbox, 1);
	return shared == MAP_FAILED ? -1 : 0;
}

static int tear_down(void **state)
{
	sigset_t none;

	munmap(shared, sizeof(*shared));
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	close(gate[0]);
	close(gate[1]);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return remove_sandbox(state);
}

__attribute__((format(printf, 1, 2))) static int record(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	return run_command(cmd_record, line);
}

static void assert_is_example(const char *path)
{
	struct error error;
	struct profile *profile = pprof_read(path, &error);

	assert_non_null(profile);
	assert_int_equal(profile->samples.count, 5);
	profile_free(profile);
}

static bool message_has(const char *text)
{
	return strstr(messages, text);
}

static void profile_is_written_with_a_summary(void **state)
{
	char expected[4096];

	(void)state;
	fake.loaded = "/lib/module.ko";
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), 0);
	assert_is_example(in_sandbox("p"));
	snprintf(expected, sizeof(expected), "stackbeat: loaded /lib/module.ko\n%s%s, ",
		 SUMMARY_OF_EXAMPLE, in_sandbox("p"));
	assert_memory_equal(messages, expected, strlen(expected));
	assert_true(message_has("; overhead 1.50 % of 2 CPUs\nstackbeat: missing parts\n"));
	assert_int_equal(fake.takes, 1);
	assert_int_equal(fake.closes, 1);
	assert_int_equal(fake.frees, 1);
	assert_int_equal(fake.stops, 1);
	assert_false(shared->is_child);
	assert_int_equal(shared->counted, 1u << CPU_SYMBOLS | 1u << CPU_WRITING);
	assert_string_equal(fake.ended_by, "");
	snprintf(expected, sizeof(expected), "stackbeat record -a -o %s", in_sandbox("p"));
	assert_string_equal(fake.command_line, expected);
}

static void verify(void)
{
	fake.recorder->collector.verification = (void *)&fake;
}

static void verification_is_printed(void **state)
{
	(void)state;
	fake.script = verify;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), 0);
	assert_true(message_has("stackbeat: unwound again by elfutils: 5 user stacks: 5 equal "));
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
}

static void quiet_prints_nothing(void **state)
{
	(void)state;
	fake.loaded = "/lib/module.ko";
	assert_int_equal(record("record -q -a --no-symbolize -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
	assert_is_example(in_sandbox("p"));
}

static void help_and_bad_options_record_nothing(void **state)
{
	(void)state;
	assert_int_equal(record("record --help"), 0);
	assert_memory_equal(output, "Usage: ", 7);
	assert_string_equal(messages, "");
	assert_int_equal(record("record --frequency=x"), STATUS_USAGE);
	assert_memory_equal(messages, "stackbeat record: ", 18);
	assert_null(fake.recorder);
	assert_int_equal(fake.frees, 0);
}

static void failed_starts_write_nothing(void **state)
{
	(void)state;
	fake.sandbox_err = EPERM;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: no sandbox\n");
	assert_null(fake.recorder);
	fake.sandbox_err = 0;
	fake.open_err = EBUSY;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't open\n");
	assert_int_equal(fake.takes, 0);
	assert_int_equal(fake.closes, 2);
	fake.open_err = 0;
	fake.recorder = NULL;
	assert_int_equal(record("record -a -o %s", in_sandbox("none/p")), STATUS_FAILED);
	assert_null(fake.recorder);
	assert_int_equal(access(in_sandbox("p"), F_OK), -1);
}

static void without_samples_there_is_no_file(void **state)
{
	(void)state;
	fake.is_empty = true;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_NO_SAMPLES);
	assert_string_equal(messages, "stackbeat: no samples: the recording ended before the first "
				      "tick, which comes after 1/99 s; a higher -F gives more\n");
	assert_int_equal(access(in_sandbox("p"), F_OK), -1);
}

/* A reader of the file would take it for the file of this recording. */
static void file_of_an_earlier_recording_is_named(void **state)
{
	char expected[512];

	(void)state;
	write_text(in_sandbox("p"), "old");
	snprintf(expected, sizeof(expected), "; %s is as it was before\n", in_sandbox("p"));
	fake.is_empty = true;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_NO_SAMPLES);
	assert_true(message_has("stackbeat: no samples: "));
	assert_true(message_has(expected));
	/* Other names are chosen then. */
	assert_int_equal(record("record -a --rotate 1 -o %s", in_sandbox("p")), STATUS_NO_SAMPLES);
	assert_false(message_has("as it was"));
	assert_int_equal(record("record -a -o /dev/null"), STATUS_NO_SAMPLES);
	assert_false(message_has("as it was"));
	/* As with a command that can't be run. */
	fake.run_err = EIO;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_true(message_has(expected));
	/* It has not begun then. */
	fake.open_err = EBUSY;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't open\n");
	fake.open_err = 0;
	/* Samples before the error replace it. */
	fake.is_empty = false;
	fake.recorded = 11;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't run\n");
	assert_is_example(in_sandbox("p"));
}

static void error_keeps_what_was_recorded(void **state)
{
	(void)state;
	fake.run_err = EIO;
	fake.recorded = 11;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_memory_equal(messages, "stackbeat: can't run\n" SUMMARY_OF_EXAMPLE,
			    strlen("stackbeat: can't run\n" SUMMARY_OF_EXAMPLE));
	assert_string_equal(fake.ended_by, "can't run");
	assert_is_example(in_sandbox("p"));
	/* Without samples, there is nothing to keep. */
	fake.recorded = fake.takes = 0;
	assert_int_equal(record("record -a -o %s", in_sandbox("missing")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't run\n");
	assert_int_equal(fake.takes, 0);
}

static void samples_that_cannot_be_taken_are_an_error(void **state)
{
	(void)state;
	fake.take_err = ENOMEM;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't take\n");
}

/* Nobody reads the messages any more: as with tee(1), which Ctrl-C has ended. */
static void close_reader_of_messages(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[0]);
	close(ends[1]);
}

static void profile_is_written_if_nobody_reads_messages(void **state)
{
	(void)state;
	fake.script = close_reader_of_messages;
	fake.run_err = EIO;
	fake.recorded = 11;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_is_example(in_sandbox("p"));
}

/* A limit of the size of files, as by ulimit -f. */
static void limit_size_of_files(void)
{
	const struct rlimit limit = {16, RLIM_INFINITY};

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void file_that_is_too_large_is_an_error(void **state)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	(void)state;
	fake.script = limit_size_of_files;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(access(in_sandbox("p"), F_OK), -1);
}

static void samples_for_which_memory_is_enough_are_written(void **state)
{
	(void)state;
	fake.last_err = ENOMEM;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: a part is missing\n");
	assert_string_equal(fake.ended_by, "a part is missing");
	assert_is_example(in_sandbox("p"));
	/* The first error is in the profile. */
	fake.run_err = EIO;
	fake.recorded = 11;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: can't run\nstackbeat: a part is missing\n");
	assert_string_equal(fake.ended_by, "can't run");
	/* Both errors are printed. */
	fake.run_err = 0;
	fake.export_err = ENOMEM;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: a part is missing\n"
				      "stackbeat: parts are missing\n");
	fake.export_err = 0;
	fake.is_empty = true;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: a part is missing\n");
}

static void lack_of_memory_for_symbols_is_an_error(void **state)
{
	(void)state;
	fake.export_err = ENOMEM;
	assert_int_equal(record("record -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_true(message_has("\nstackbeat: parts are missing\n"));
	assert_is_example(in_sandbox("p"));
}

static void hidden_kernel_symbols_are_named(void **state)
{
	(void)state;
	fake.warning = "hidden";
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "stackbeat: kernel functions have no symbols: hidden\n");
}

static void saved_binaries_are_counted(void **state)
{
	(void)state;
	fake.saved = (struct mapped_files_counts){.saved = 4};
	assert_int_equal(record("record -a --save-binaries %s -o %s", sandbox, in_sandbox("p")), 0);
	assert_true(message_has(" binaries saved in "));
	assert_true(message_has("stackbeat: 4 binaries"));
	assert_false(message_has("not saved"));
	fake.saved = (struct mapped_files_counts){.not_saved = 2, .without_id = 3};
	assert_int_equal(record("record -q -a --save-binaries %s -o %s", sandbox, in_sandbox("p")),
			 0);
	assert_string_equal(messages, "stackbeat: 3 binaries not saved: no build ID\n"
				      "stackbeat: 2 binaries not saved: no room\n");
}

/* The directory of the output file has gone. */
static void remove_directory(void)
{
	run("rm -r %s", in_sandbox("d"));
}

static void profile_is_written_elsewhere(void **state)
{
	char *path, *end;

	(void)state;
	mkdir(in_sandbox("d"), 0700);
	fake.script = remove_directory;
	assert_int_equal(record("record -a -o %s", in_sandbox("d/p")), STATUS_FAILED);
	path = strstr(messages, "stackbeat: the profile is in ");
	assert_non_null(path);
	path += strlen("stackbeat: the profile is in ");
	end = strstr(path, " instead\n");
	assert_non_null(end);
	*end = '\0';
	assert_memory_equal(path, sandbox, strlen(sandbox));
	assert_is_example(path);
	assert_true(message_has(SUMMARY_OF_EXAMPLE));
}

static void close_reader(void)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[1]);
}

/* Ctrl-C may have ended the program that reads the pipe. */
static void profile_for_a_broken_pipe_is_written_elsewhere(void **state)
{
	char *path, *end;

	(void)state;
	fake.script = close_reader;
	assert_int_equal(record("record -a -o -%s", ""), STATUS_FAILED);
	path = strstr(messages, "stackbeat: the profile is in ");
	assert_non_null(path);
	path += strlen("stackbeat: the profile is in ");
	end = strstr(path, " instead\n");
	assert_non_null(end);
	*end = '\0';
	assert_is_example(path);
}

/* Signals */

static bool stops(void)
{
	return fake.config->stop_requested(fake.config->arg);
}

static void interrupt(void)
{
	assert_false(stops());
	raise(SIGUSR1);
	raise(SIGUSR2);
	assert_false(stops());
	raise(SIGINT);
	assert_true(stops());
}

static void hang_up(void)
{
	raise(SIGHUP);
	assert_true(stops());
}

static void use_up_cpu_time(void)
{
	raise(SIGXCPU);
	assert_true(stops());
}

static void quit(void)
{
	raise(SIGQUIT);
	assert_true(stops());
}

static void signals_end_the_recording(void **state)
{
	(void)state;
	fake.recorded = 11;
	fake.script = interrupt;
	assert_int_equal(record("record -q -a --snapshot 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
	/* Without snapshots, SIGUSR2 has no effect. */
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
	fake.script = use_up_cpu_time;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: SIGXCPU has ended the recording\n");
	fake.script = hang_up;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: SIGHUP has ended the recording\n");
	assert_string_equal(fake.ended_by, "SIGHUP has ended the recording");
	fake.script = quit;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: SIGQUIT has ended the recording\n");
	assert_is_example(in_sandbox("p"));
}

/* Snapshots and rotation */

static void drain(void)
{
	fake.config->drained(fake.config->arg);
}

/* Waits for the process that writes a file, and drains until it is reaped. */
static void await_file(void)
{
	siginfo_t info;

	assert_int_equal(fake.recorder->wake_at, 0);
	assert_int_equal(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
	assert_false(stops());
	drain();
}

static void request_file(void)
{
	raise(SIGUSR2);
	assert_false(stops());
	drain();
}

static void write_twice(void)
{
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	drain();
	assert_int_equal(fake.takes + fake.peeks, 0);
	assert_int_equal(fake.recorder->wake_at, fake.recorder->start + 3600 * NS_PER_SECOND);
	request_file();
	await_file();
	assert_int_equal(fake.takes + fake.peeks, 1);
	assert_true(fake.recorder->forked_cpu_ns > 0);
	assert_int_equal(fake.recorder->wake_at, fake.recorder->start + 3600 * NS_PER_SECOND);
	fake.blocks = true;
	request_file();
	/* Not before the last one is written. */
	request_file();
	assert_int_equal(fake.takes + fake.peeks, 2);
	fake.blocks = false;
	assert_int_equal(write(gate[1], "", 1), 1);
	await_file();
	assert_int_equal(fake.takes + fake.peeks, 3);
	await_file();
}

static void snapshots_are_written_by_a_process(void **state)
{
	(void)state;
	fake.script = write_twice;
	assert_int_equal(record("record -a --snapshot 3600 -o %s", in_sandbox("p")), 0);
	assert_int_equal(fake.peeks, 3);
	assert_int_equal(fake.takes, 1);
	assert_int_equal(shared->exports, 4);
	assert_true(shared->session_is_left && shared->files_are_forked);
	assert_is_example(in_sandbox("p"));
	/* The summary of the recording is the only one. */
	assert_memory_equal(messages, SUMMARY_OF_EXAMPLE, strlen(SUMMARY_OF_EXAMPLE));
	assert_null(strstr(messages + 1, SUMMARY_OF_EXAMPLE));
}

static void rotated_files_have_the_time_in_their_names(void **state)
{
	(void)state;
	fake.script = write_twice;
	assert_int_equal(record("record -a --rotate 3600 -o %s", in_sandbox("p.pb.gz")), 0);
	assert_true(fake.takes_when_full);
	assert_int_equal(fake.peeks, 0);
	assert_int_equal(fake.takes, 4);
	assert_is_example(in_sandbox("p.20010909T014640Z.pb.gz"));
	assert_is_example(in_sandbox("p.20010909T014640Z.2.pb.gz"));
	assert_is_example(in_sandbox("p.20010909T014640Z.4.pb.gz"));
	assert_int_equal(access(in_sandbox("p.pb.gz"), F_OK), -1);
}

static void write_when_due(void)
{
	/* One interval ago: the next file is due at the end of this one. */
	fake.recorder->start = now_ns(CLOCK_MONOTONIC) - 4000 * NS_PER_SECOND;
	drain();
	assert_int_equal(fake.takes, 1);
	await_file();
	assert_int_equal(fake.recorder->wake_at, fake.recorder->start + 7200 * NS_PER_SECOND);
	/* Memory is full. */
	fake.is_due = true;
	drain();
	assert_int_equal(fake.takes, 2);
	fake.is_due = false;
	await_file();
	assert_int_equal(fake.takes, 2);
}

static void files_are_written_when_they_are_due(void **state)
{
	(void)state;
	fake.script = write_when_due;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
	assert_int_equal(shared->nice, getpriority(PRIO_PROCESS, 0));
}

static void write_one(void)
{
	shared->counted = 0;
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	drain();
	request_file();
	await_file();
	assert_true(shared->is_child);
	/* Its CPU time is known when it has ended. */
	assert_int_equal(shared->counted, 0);
	assert_int_equal(shared->nice, MIN(getpriority(PRIO_PROCESS, 0) + 5, 19));
	fake.is_empty = true;
	request_file();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void last_file_may_be_missing(void **state)
{
	(void)state;
	fake.script = write_one;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
}

static void fail_once(void)
{
	fake.export_err = ENOMEM;
	write_one();
	fake.export_err = 0;
	fake.is_empty = false;
}

static void failed_files_are_an_error(void **state)
{
	(void)state;
	fake.script = fail_once;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")),
			 STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: parts are missing\n");
	/* Another snapshot, or the profile at the end, replaces one. */
	assert_int_equal(record("record -q -a --snapshot 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "stackbeat: snapshot: parts are missing\n");
}

static void fail_to_take(void)
{
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	fake.take_err = fake.peek_err = ENOMEM;
	request_file();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	fake.take_err = fake.peek_err = 0;
}

static void samples_stay_for_the_next_file(void **state)
{
	(void)state;
	fake.script = fail_to_take;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "stackbeat: can't take\n");
	assert_int_equal(record("record -q -a --snapshot 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "stackbeat: snapshot: can't peek\n");
}

static void fail_to_fork(void)
{
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	fake.fork_fails = true;
	request_file();
	assert_int_equal(fake.recorder->wake_at, fake.recorder->start + 3600 * NS_PER_SECOND);
	fake.fork_fails = false;
}

static void files_are_written_without_a_process(void **state)
{
	(void)state;
	fake.script = fail_to_fork;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")), 0);
	assert_string_equal(messages, "");
	assert_is_example(in_sandbox("p.20010909T014640Z"));
	assert_is_example(in_sandbox("p.20010909T014640Z.2"));
	assert_int_equal(record("record -q -a --snapshot 3600 -o %s", in_sandbox("q")), 0);
	assert_string_equal(messages, "stackbeat: snapshot: no process can be created for it\n");
	assert_int_equal(fake.peeks, 1);
}

static void fail_to_fork_and_write(void)
{
	fake.export_err = ENOMEM;
	fail_to_fork();
	fake.export_err = 0;
}

static void failed_files_without_a_process_are_an_error(void **state)
{
	(void)state;
	fake.script = fail_to_fork_and_write;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")),
			 STATUS_FAILED);
	assert_string_equal(messages, "stackbeat: parts are missing\n");
}

#define KILLED "stackbeat: the process that writes a file was killed by signal 9\n"
#define WRITTEN_AGAIN                                                                              \
	KILLED "stackbeat: its file is written without symbols: try 'stackbeat symbolize'\n"

/* The kernel kills it for lack of memory, say. */
static void lose_the_process_of_a_file(void)
{
	fake.is_killed = true;
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	request_file();
	await_file();
	if (fake.recorder->wake_at == 0) /* another one writes it */
		await_file();
	fake.is_killed = false;
	request_file();
	await_file();
}

static void file_of_a_killed_process_has_no_symbols(void **state)
{
	(void)state;
	fake.script = lose_the_process_of_a_file;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")),
			 STATUS_FAILED);
	assert_string_equal(messages, WRITTEN_AGAIN);
	assert_is_example(in_sandbox("p.20010909T014640Z"));
	assert_is_example(in_sandbox("p.20010909T014640Z.2"));
	assert_is_example(in_sandbox("p.20010909T014640Z.3"));
	/* The next snapshot has its samples. */
	assert_int_equal(record("record -q -a --snapshot 3600 -o %s", in_sandbox("q")), 0);
	assert_string_equal(messages, KILLED);
}

/* The last file is awaited. */
static void leave_a_file(void)
{
	fake.recorder->start = now_ns(CLOCK_MONOTONIC);
	request_file();
}

static void leave_the_last_file(void)
{
	leave_a_file();
	fake.is_empty = true;
}

static void last_file_of_a_killed_process_has_no_symbols(void **state)
{
	(void)state;
	fake.script = leave_the_last_file;
	fake.is_killed = true;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")),
			 STATUS_FAILED);
	assert_string_equal(messages, WRITTEN_AGAIN);
	assert_is_example(in_sandbox("p.20010909T014640Z"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	/* Once: what kills it may be the samples. */
	fake.is_empty = false;
	fake.is_killed_again = true;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("q")),
			 STATUS_FAILED);
	assert_string_equal(messages, WRITTEN_AGAIN KILLED);
	assert_int_equal(access(in_sandbox("q.20010909T014640Z"), F_OK), -1);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void last_file_is_awaited(void **state)
{
	(void)state;
	fake.script = leave_a_file;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("p")), 0);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_is_example(in_sandbox("p.20010909T014640Z"));
	fake.export_err = ENOMEM;
	assert_int_equal(record("record -q -a --rotate 3600 -o %s", in_sandbox("q")),
			 STATUS_FAILED);
}

/* The command */

static void status_of_the_command_is_passed_on(void **state)
{
	(void)state;
	fake.command_status = 7 << 8;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 7);
	fake.is_empty = true;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 7);
	fake.is_empty = false;
	fake.run_err = EIO;
	fake.recorded = 11;
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), STATUS_FAILED);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

/* The default depends on the user, and must not stop a recording. */
static void unwind_tables_are_kept(void **state)
{
	(void)state;
	setenv("XDG_CACHE_HOME", "/cache", true);
	assert_int_equal(record("record -q -a --cache dir -o %s", in_sandbox("p")), 0);
	assert_string_equal(fake.cache, "dir");
	assert_ptr_equal(fake.used_cache, &fake);
	assert_int_equal(fake.caches_closed, 1);
	assert_int_equal(record("record -q -a -o %s", in_sandbox("p")), 0);
	assert_string_equal(fake.cache,
			    geteuid() ? "/cache/stackbeat/files" : "/var/cache/stackbeat/files");
	assert_non_null(fake.used_cache);
	*fake.cache = '\0';
	assert_int_equal(record("record -q -a --cache dir --no-cache -o %s", in_sandbox("p")), 0);
	assert_string_equal(fake.cache, "");
	assert_null(fake.used_cache);
	assert_int_equal(record("record -q -a --cache bad -o %s", in_sandbox("p")), STATUS_FAILED);
	assert_true(message_has("bad cache"));
	unsetenv("XDG_CACHE_HOME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(profile_is_written_with_a_summary),
		TEST(verification_is_printed),
		TEST(quiet_prints_nothing),
		TEST(help_and_bad_options_record_nothing),
		TEST(failed_starts_write_nothing),
		TEST(without_samples_there_is_no_file),
		TEST(file_of_an_earlier_recording_is_named),
		TEST(error_keeps_what_was_recorded),
		TEST(samples_that_cannot_be_taken_are_an_error),
		TEST(profile_is_written_if_nobody_reads_messages),
		TEST(file_that_is_too_large_is_an_error),
		TEST(samples_for_which_memory_is_enough_are_written),
		TEST(lack_of_memory_for_symbols_is_an_error),
		TEST(hidden_kernel_symbols_are_named),
		TEST(saved_binaries_are_counted),
		TEST(profile_is_written_elsewhere),
		TEST(profile_for_a_broken_pipe_is_written_elsewhere),
		TEST(signals_end_the_recording),
		TEST(snapshots_are_written_by_a_process),
		TEST(rotated_files_have_the_time_in_their_names),
		TEST(files_are_written_when_they_are_due),
		TEST(last_file_may_be_missing),
		TEST(failed_files_are_an_error),
		TEST(samples_stay_for_the_next_file),
		TEST(files_are_written_without_a_process),
		TEST(file_of_a_killed_process_has_no_symbols),
		TEST(last_file_of_a_killed_process_has_no_symbols),
		TEST(failed_files_without_a_process_are_an_error),
		TEST(last_file_is_awaited),
		TEST(status_of_the_command_is_passed_on),
		TEST(unwind_tables_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

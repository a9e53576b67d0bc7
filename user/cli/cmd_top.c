// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/cache_option.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/reader_sandbox.h"
#include "cli/record_options.h"
#include "cli/record_output.h"
#include "cli/sandbox_option.h"
#include "cli/terminal.h"
#include "debuginfo/file_cache.h"
#include "lib/clock.h"
#include "lib/error.h"
#include "lib/utf8.h"
#include "pprof/labels.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "record/reader_rights.h"
#include "symbolize/symbolize_options.h"
#include "top/top_lines.h"
#include "top/top_sampler.h"
#include "top/top_screen.h"
#include "top/top_terminal.h"

#define INTERVAL_DEFAULT_S 2
#define WINDOW_DEFAULT_S 10u
#define WINDOW_MAX_S 3600u
#define DELAY_MIN_S 0.1
#define DELAY_MAX_S 3600.0
#define ROWS_DEFAULT 30u
/* A large program is read in this time, and then kept in the cache. */
#define SYMBOLIZE_TIMEOUT_DEFAULT_S 5u
#define OUTPUT_OF_TOP "stackbeat-top.pb.gz"

/* What the tabs and the status need. */
#define LABELS_OF_TOP                                                                              \
	(LABEL_SET(LABEL_COMM) | LABEL_SET(LABEL_PID) | LABEL_SET(LABEL_CGROUP) |                  \
	 LABEL_SET(LABEL_CONTAINER) | LABEL_SET(LABEL_TRUNCATED))

struct top {
	struct record_options record; /* first, for its options: sampling, sandbox and cache */
	double interval_s;
	uint32_t window_s, iterations, rows;
	bool is_batch;
	struct reader_sandbox sandbox;
	struct file_cache *cache; /* NULL: none */
	struct symbolize_options symbolize;
	struct top_sampler sampler;
	struct top_window window;
	struct top_screen screen;
	uint64_t lost; /* since the start */
	uint32_t updates;
	bool has_ended; /* the sampling */
	int signals; /* signalfd */
};

static int top_option_delay(const struct cli_option *option, char *text, void *options,
			    struct error *error)
{
	double *seconds = option_target(option, options);
	char *end;

	*seconds = strtod(text, &end);
	if (end == text || *end || text[strspn(text, "0123456789.")] || *seconds < DELAY_MIN_S ||
	    *seconds > DELAY_MAX_S)
		return error_set(error, EINVAL, "-d: '%s' is not a number of seconds from %g to %g",
				 text, DELAY_MIN_S, DELAY_MAX_S);
	return 0;
}

static int top_option_tab(const struct cli_option *option, char *text, void *options,
			  struct error *error)
{
	struct top *top = options;

	(void)option;
	for (enum top_tab i = 0; i < TOP_TABS; i++) {
		if (strcmp(text, top_tab_name(i)) != 0)
			continue;
		top->screen.tab = i;
		return 0;
	}
	return error_set(error, EINVAL,
			 "--tab: '%s' is not functions, services, processes or containers", text);
}

/* clang-format off */
static const struct cli_option top_options[] = {
	{'b', "batch", NULL, "print text at each interval instead of a screen, as top -b",
	 OPTION_FLAG(struct top, is_batch)},
	{'d', "delay", "SEC", "seconds between two updates, from 0.1 on (default: 2)",
	 OPTION_CALL(top_option_delay), OPTION_TARGET(double, struct top, interval_s)},
	{'n', "iterations", "N", "end after N updates",
	 OPTION_NUMBER(struct top, iterations, 1, UINT32_MAX)},
	{0, "window", "SEC",
	 "show the samples of the last seconds, at least of one interval (default: 10)",
	 OPTION_NUMBER(struct top, window_s, 1, WINDOW_MAX_S)},
	{0, "tab", "NAME",
	 "begin with functions (default), services, processes or containers",
	 OPTION_CALL(top_option_tab)},
	{'o', "output", "FILE",
	 "the file of the key 'w'; the time (UTC) is added to its name "
	 "(default: " OUTPUT_OF_TOP ")",
	 OPTION_PATH(struct top, record.output)},
	{0, "rows", "N", "with --batch: print at most N rows; 0: all (default: 30)",
	 OPTION_NUMBER(struct top, rows, 0, UINT32_MAX)},
	{'F', "frequency", "HZ",
	 "samples per second and CPU, 1 to 20000, or max (default: 99)",
	 OPTION_CALL(record_parse_rate), OPTION_GIVEN(struct top, record.session.rate_given)},
	{'a', "all-cpus", NULL, "sample the whole system (default)",
	 OPTION_FLAG(struct top, record.session.system_wide)},
	{'p', "pid", "PID[,...]", "sample these processes, and those they fork from now on",
	 OPTION_CALL(record_parse_pids)},
	{'t', "tid", "TID[,...]", "sample these threads",
	 OPTION_CALL(record_parse_tids)},
	{'G', "cgroup", "PATH",
	 "sample this control group (version 2) and all below it; repeatable",
	 OPTION_CALL(record_parse_cgroup)},
	{'C', "cpu", "LIST",
	 "sample these CPUs, such as 0,2-3 (default: all that are neither isolated nor nohz_full)",
	 OPTION_CALL(record_parse_cpus)},
	{0, "source", "SOURCE",
	 "where samples come from: module, perf (perf_event_open(2), which needs no module), or auto: "
	 "the module if it can be used, or else perf (default)",
	 OPTION_CHOICE(struct top, record.session.source, session_source_names)},
	{'e', "event", "EVENT",
	 "for compatibility with perf: cpu-clock or task-clock, also with :u or :k",
	 OPTION_CALL(record_parse_event), OPTION_TARGET(uint32_t, struct top, record.session.parts)},
	{'g', NULL, NULL, "ignored, for compatibility with perf: stacks are always recorded",
	 OPTION_CALL(option_ignore)},
	CACHE_OPTIONS(struct top, record.cache),
	{0, "symbolize-timeout", "SEC",
	 "stop symbolizing the samples of an interval after this many seconds, and use the symbols "
	 "found so far (default: the interval, but at least 5)",
	 OPTION_NUMBER(struct top, record.sandbox.timeout_s, 1, SYMBOLIZE_TIMEOUT_MAX_S)},
	SANDBOX_OPTION(struct top, record.sandbox),
	HELP_OPTION(struct top, record.help),
};
/* clang-format on */

static const struct command_help top_help = {
	.synopsis = "stackbeat top [OPTION]...",
	.description = "Show live what the CPUs do: functions, services, processes and containers, "
		       "of the whole system or of some processes (-p); until 'q', SIGINT (Ctrl-C) "
		       "or SIGTERM. '?' shows the keys.",
	.options = top_options,
	.notes = "self is the share of a function itself, total of the function and all functions "
		 "it called; cpu% is its self time, where 100% is one CPU. Exit status: 0; 1 after "
		 "a failure; 2 for a wrong command line.",
};

static int cmd_top_parse(struct top *top, int argc, char **argv, struct error *error)
{
	struct session_config *session = &top->record.session;
	int first, err;

	record_options_default(&top->record);
	top->record.labels.chosen = LABELS_OF_TOP;
	top->interval_s = INTERVAL_DEFAULT_S;
	top->window_s = WINDOW_DEFAULT_S;
	top->rows = ROWS_DEFAULT;
	top->record.output = OUTPUT_OF_TOP;
	err = options_parse(argc, argv, top_options, false, top, &first, error);
	if (!err && first < argc)
		return error_set(error, EINVAL,
				 "unexpected argument '%s': 'stackbeat record' runs commands, and "
				 "-p PID shows a process",
				 argv[first]);
	if (!err)
		err = record_targets_check(session, error);
	if (!session->pid_count && !session->tid_count && !session->cgroup_count)
		session->system_wide = true;
	top->window.span_ns = (int64_t)top->window_s * NS_PER_SECOND;
	top->screen.is_batch = top->is_batch;
	return err;
}

static void cmd_top_print_message(const char *text)
{
	fputs("stackbeat: ", stderr);
	utf8_print(stderr, text);
	fputc('\n', stderr);
}

/* Adds a slice to the window, and shows the window. Returns 0 or a negative errno value. */
static int cmd_top_add_slice(struct top *top, struct top_event *event, struct error *error)
{
	struct top_counts counts;
	struct profile *sum;
	int err = top_window_add(&top->window, event->profile, &event->counts);

	top->lost += event->counts.lost;
	top->updates++;
	if (!err && top->screen.frozen)
		return 0;
	if (!err)
		err = top_window_sum(&top->window, &sum, &counts);
	if (!err)
		err = top_screen_show(&top->screen, sum, &counts, top->lost);
	return err ? error_errno(error, -err, "can't show the samples") : 0;
}

/* --batch */

static int print_update(struct top *top, struct error *error)
{
	struct top_lines lines = {.columns = terminal_columns(STDOUT_FILENO),
				  .ascii = !terminal_has_utf8()};
	int err = top_screen_draw(&top->screen, top->rows, &lines);

	for (size_t i = 0; i < lines.count && !err; i++)
		puts(lines.items[i].text);
	putchar('\n');
	top_lines_clear(&lines);
	if (err)
		return error_errno(error, -err, "can't show the samples");
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		return error_errno(error, errno ? errno : EIO, "standard output");
	return 0;
}

static int handle_batch_event(struct top *top, struct top_event *event, struct error *error)
{
	int err;

	switch (event->kind) {
	case TOP_SLICE:
		err = cmd_top_add_slice(top, event, error);
		return err ?: print_update(top, error);
	case TOP_SOURCE:
	case TOP_WARNING:
		cmd_top_print_message(event->text);
		return 0;
	case TOP_ENDED:
		top->has_ended = true;
		return 0;
	case TOP_FAILED:
		return error_set(error, event->err ? -event->err : EIO, "%s", event->text);
	case TOP_NOTHING:
		return 0;
	}
	return 0;
}

static bool is_last_update(const struct top *top)
{
	return top->has_ended || (top->iterations && top->updates >= top->iterations);
}

static int run_batch(struct top *top, struct error *error)
{
	struct pollfd fds[] = {{.fd = top->sampler.socket, .events = POLLIN},
			       {.fd = top->signals, .events = POLLIN}};
	int err = 0;

	while (!err && !is_last_update(top)) {
		struct top_event event;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return error_errno(error, errno, "can't wait for samples");
		if (fds[1].revents)
			return 0;
		top_sampler_receive(&top->sampler, &event);
		err = handle_batch_event(top, &event, error);
	}
	return err;
}

/* The screen */

/* Writes what is shown, and says where. */
static void write_shown(struct top *top)
{
	const struct profile *shown = top_screen_shown(&top->screen);
	char path[PATH_MAX], note[TOP_NOTE_SIZE];
	struct error error = {""};

	if (!shown || !shown->samples.count) {
		top_screen_note(&top->screen, "nothing to write: no samples yet");
		return;
	}
	output_rotated_path(top->record.output, shown->time_ns, path);
	if (pprof_write(shown, path, NULL, &error))
		snprintf(note, sizeof(note), "%.*s", TOP_NOTE_SIZE - 1, error.text);
	else
		snprintf(note, sizeof(note), "written to %.*s", TOP_NOTE_SIZE - 32, path);
	top_screen_note(&top->screen, note);
}

static int draw_screen(struct top *top, struct error *error)
{
	struct top_lines lines = {.ascii = !terminal_has_utf8()};
	const size_t rows = top_terminal_size(&lines.columns);
	int err = top_screen_draw(&top->screen, rows, &lines);

	if (!err)
		top_terminal_show(&lines);
	top_lines_clear(&lines);
	return err ? error_errno(error, -err, "can't show the samples") : 0;
}

/* Handles the keys that were typed. Sets *quits. Returns 0 or a negative errno value. */
static int handle_keys(struct top *top, bool *quits, struct error *error)
{
	enum top_action action;
	int key, err = 0;

	while (!err && !*quits && (key = top_terminal_key()) >= 0) {
		err = top_screen_key(&top->screen, key, &action);
		if (action == TOP_WRITE)
			write_shown(top);
		*quits = action == TOP_QUIT;
	}
	return err ? error_errno(error, -err, "can't show the samples") : 0;
}

/* Handles the signals that have come. Returns whether one of them ends the program. */
static bool handle_signals(const struct top *top)
{
	struct signalfd_siginfo info;

	while (read(top->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGWINCH)
			top_terminal_resize();
		else if (info.ssi_signo == SIGTSTP)
			top_terminal_stop();
		else
			return true;
	}
	return false;
}

static int handle_screen_event(struct top *top, struct top_event *event, struct error *error)
{
	switch (event->kind) {
	case TOP_SLICE:
		return cmd_top_add_slice(top, event, error);
	case TOP_SOURCE:
	case TOP_WARNING:
		top_screen_note(&top->screen, event->text);
		return 0;
	case TOP_ENDED:
		top->has_ended = true;
		top_screen_note(&top->screen, "all processes have ended");
		return 0;
	case TOP_FAILED:
		return error_set(error, event->err ? -event->err : EIO, "%s", event->text);
	case TOP_NOTHING:
		return 0;
	}
	return 0;
}

static int run_screen(struct top *top, struct error *error)
{
	struct pollfd fds[] = {{.fd = top->sampler.socket, .events = POLLIN},
			       {.fd = top->signals, .events = POLLIN},
			       {.fd = STDIN_FILENO, .events = POLLIN}};
	int err = top_terminal_open(terminal_has_colors(STDOUT_FILENO), error);
	bool quits = false;

	while (!err && !quits && (!top->iterations || top->updates < top->iterations)) {
		struct top_event event;

		err = draw_screen(top, error);
		if (err)
			break;
		if (poll(fds, 3, -1) < 0 && errno != EINTR) {
			err = error_errno(error, errno, "can't wait for keys");
			break;
		}
		quits = handle_signals(top) || (fds[2].revents & (POLLHUP | POLLERR));
		/* The signal may have ended the sampler, too. */
		if (!quits && !top->has_ended) {
			top_sampler_receive(&top->sampler, &event);
			err = handle_screen_event(top, &event, error);
		}
		if (top->has_ended)
			fds[0].fd = -1;
		if (!err && !quits)
			err = handle_keys(top, &quits, error);
	}
	top_terminal_close();
	return err;
}

/* Signals are read from an fd from now on. */
static int open_signals(struct top *top, struct error *error)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	if (!top->is_batch) {
		sigaddset(&set, SIGWINCH);
		sigaddset(&set, SIGTSTP);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	top->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return top->signals < 0 ? error_errno(error, errno, "can't wait for signals") : 0;
}

static int cmd_top_run(struct top *top, struct error *error)
{
	const struct top_sampler_config config = {
		.session = &top->record.session,
		.labels = &top->record.labels,
		.sandbox = &top->sandbox.server,
		.symbolize = &top->symbolize,
		.interval_ns = (int64_t)(top->interval_s * (double)NS_PER_SECOND),
		.memory = top->record.memory,
	};
	struct top_sampler_config started = config;
	int err = 0;

	if (!top->is_batch && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
		return error_set(error, ENOTTY,
				 "standard input and output are no terminal: use --batch");
	if (!top->is_batch)
		err = top_terminal_load(error);
	if (!err)
		err = reader_sandbox_start(&top->sandbox, &top->record.sandbox, true, error);
	if (!err)
		err = cache_option_open(&top->record.cache, &top->cache, error);
	if (err)
		return err;
	started.cache = top->symbolize.cache = top->cache;
	reader_sandbox_use(&top->sandbox, &top->record.sandbox, &top->symbolize);
	/* The next slice waits for the last one: what takes long to read must not stop the screen.
	 */
	if (!top->record.sandbox.timeout_s)
		top->symbolize.timeout_s =
			MAX((unsigned int)(top->interval_s + 0.5), SYMBOLIZE_TIMEOUT_DEFAULT_S);
	err = top_sampler_start(&top->sampler, &started, error);
	if (!err)
		err = viewer_rights_reduce(error);
	if (!err)
		err = open_signals(top, error);
	if (err)
		return err;
	return top->is_batch ? run_batch(top, error) : run_screen(top, error);
}

static void cmd_top_free(struct top *top)
{
	top_sampler_stop(&top->sampler);
	top_window_clear(&top->window);
	top_screen_clear(&top->screen);
	file_cache_close(top->cache);
	reader_sandbox_stop(&top->sandbox);
	if (top->signals >= 0)
		close(top->signals);
	free(top);
}

int cmd_top(int argc, char **argv)
{
	struct top *top = calloc(1, sizeof(*top));
	struct error error = {""};
	int err;

	if (!top) {
		fputs("stackbeat top: out of memory\n", stderr);
		return STATUS_FAILED;
	}
	top->signals = top->sampler.socket = -1;
	err = cmd_top_parse(top, argc, argv, &error);
	if (err) {
		fprintf(stderr, "stackbeat top: %s\n", error.text);
	} else if (top->record.help) {
		print_command_help(&top_help, stdout);
		cmd_top_free(top);
		return STATUS_OK;
	}
	if (err) {
		cmd_top_free(top);
		return STATUS_USAGE;
	}
	err = cmd_top_run(top, &error);
	if (err)
		cmd_top_print_message(error.text);
	cmd_top_free(top);
	return err ? STATUS_FAILED : STATUS_OK;
}

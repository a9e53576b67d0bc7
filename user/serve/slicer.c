// SPDX-License-Identifier: GPL-2.0
#include "serve/slicer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/param.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "debuginfo/debuginfod_helper.h"
#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/profile_select.h"
#include "record/exporter.h"
#include "record/live_symbols.h"
#include "record/profile_export.h"
#include "record/recorder.h"
#include "record/window.h"
#include "sandbox/child.h"
#include "sandbox/fd_passing.h"
#include "serve/protocol.h"
#include "serve/sum.h"
#include "source/session.h"
#include "symbolize/symbolize_options.h"

#define EXPORTS_MAX 6u /* processes at a time, for slices */
#define RECORDINGS_MAX 2u /* processes at a time, for sessions of their own */
#define KEPT_MAX 1024u /* slices that are not known to be stored */
#define CUTS_MAX 64u /* that wait for a process */
#define END_TIMEOUT_MS 10000
#define END_ATTEMPTS 3u

/* What a process that exports leaves, in shared memory. */
struct export_result {
	struct child_result child;
	bool reads_kernel;
	bool is_window; /* see protocol.h */
	uint64_t samples;
	int64_t start_ns, duration_ns;
	int64_t symbols_ns; /* its CPU time until all samples had symbols */
	struct truncation_counts counts;
};

/* A process that writes a profile to a file; then, a file that is to be sent. */
struct slice_export {
	bool used;
	bool for_store; /* no request needs the profile */
	struct child child;
	/* What it writes, in case that it is killed. */
	bool has_window;
	bool is_repeated; /* the first process was killed */
	struct window window;
	struct recording recording;
	struct reply reply;
};

/* A slice that is to be sent, or is not known to be stored. */
struct kept_slice {
	struct reply reply;
	int file; /* -1: none */
	bool is_sent;
};

struct sampler {
	const struct sampler_config *config;
	struct recorder recorder;
	struct live_symbols symbols;
	int signals, events;
	struct slice_export exports[EXPORTS_MAX + RECORDINGS_MAX];
	uint32_t cuts[CUTS_MAX]; /* ids */
	size_t cut_count;
	bool requests_need_slice; /* one of the asks has said so */
	struct kept_slice kept[KEPT_MAX]; /* in the order of sending */
	size_t kept_count;
	uint32_t slices; /* that were cut */
	uint32_t stored; /* slices up to this one */
	uint32_t server; /* the ID of its first ask; 0: the first server */
	bool server_is_ready; /* it was sent REPLY_READY */
	struct sampler_counters counters;
	bool peer_has_ended;
	struct error cut_error; /* why the slice could not be ended when that was tried last */
};

static void send_reply(struct sampler *sampler, const struct reply *reply, int file)
{
	/* A peer that reads nothing gets no answer. */
	send_fd(sampler->config->socket, reply, sizeof(*reply), file);
}

/* Slices */

static bool is_stored(const struct sampler *sampler, const struct kept_slice *kept)
{
	return kept->is_sent &&
	       (!sampler->config->has_store || kept->reply.slice <= sampler->stored);
}

static void forget_stored(struct sampler *sampler)
{
	size_t count = 0;

	for (size_t i = 0; i < sampler->kept_count; i++) {
		if (!is_stored(sampler, &sampler->kept[i]))
			sampler->kept[count++] = sampler->kept[i];
		else if (sampler->kept[i].file >= 0)
			close(sampler->kept[i].file);
	}
	sampler->kept_count = count;
}

/* Returns whether all were sent. */
static bool send_slices(struct sampler *sampler)
{
	const struct reply ready = {
		.type = REPLY_READY, .id = sampler->server, .slice = sampler->stored};
	int err = 0;

	if (!sampler->server_is_ready)
		err = send_fd(sampler->config->socket, &ready, sizeof(ready), -1);
	sampler->server_is_ready = !err;
	for (size_t i = 0; i < sampler->kept_count && !err; i++) {
		struct kept_slice *kept = &sampler->kept[i];

		if (!kept->is_sent)
			err = send_fd(sampler->config->socket, &kept->reply, sizeof(kept->reply),
				      kept->file);
		kept->is_sent = !err;
	}
	forget_stored(sampler);
	if (err == -EPIPE)
		sampler->peer_has_ended = true;
	return !err;
}

/* Takes the ownership of `file`. Returns false if there is no room. */
static bool keep_slice(struct sampler *sampler, const struct reply *reply, int file)
{
	/* Too many between two windows: a crash of the server loses the first one. */
	if (sampler->kept_count == KEPT_MAX && sampler->kept[0].is_sent) {
		if (sampler->kept[0].file >= 0)
			close(sampler->kept[0].file);
		sampler->stored = MAX(sampler->stored, sampler->kept[0].reply.slice);
		sampler->kept_count--;
		memmove(sampler->kept, sampler->kept + 1,
			sampler->kept_count * sizeof(sampler->kept[0]));
	}
	if (sampler->kept_count == KEPT_MAX)
		return false;
	sampler->kept[sampler->kept_count++] = (struct kept_slice){*reply, file, false};
	send_slices(sampler);
	return true;
}

/* Another server begins: it gets all slices that are not stored. */
static void begin_server(struct sampler *sampler, uint32_t id)
{
	forget_stored(sampler);
	sampler->server = id;
	sampler->server_is_ready = false;
	for (size_t i = 0; i < sampler->kept_count; i++)
		sampler->kept[i].is_sent = false;
	send_slices(sampler);
}

/* Exports */

static struct slice_export *free_export(struct sampler *sampler, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++) {
		if (!sampler->exports[i].used)
			return &sampler->exports[i];
	}
	return NULL;
}

static int prepare_export(struct slice_export *exporter, enum child_role role)
{
	int err = child_prepare(&exporter->child, role, sizeof(struct export_result));

	exporter->used = !err;
	return err;
}

static struct export_result *slice_result_of(const struct slice_export *exporter)
{
	return (struct export_result *)exporter->child.result;
}

/* The samples are in the file, or are lost. */
static void release_window(struct slice_export *exporter)
{
	if (exporter->has_window)
		window_clear(&exporter->window);
	exporter->has_window = false;
}

static void release_export(struct slice_export *exporter)
{
	child_release(&exporter->child);
	release_window(exporter);
	*exporter = (struct slice_export){.child.file = -1};
}

/* What is to be written. */
struct export_work {
	struct sampler *sampler;
	struct slice_export *exporter;
	const struct ask *ask; /* of a session of its own */
	struct window *window;
	struct recording *recording;
	bool is_forked;
	bool no_symbols;
};

/*
 * Replaces a profile with what is stored of it: to read the file again, and to write it with fewer
 * labels, would take the server longer. Without memory for that, the profile stays as it is.
 */
static void make_window(const struct sampler *sampler, struct profile *profile,
			struct export_result *result)
{
	const struct profile_selection selection = {.labels = sampler->config->store_labels};
	struct sum sum;
	int err = sum_init(&sum, &selection);

	if (!err)
		err = sum_add(&sum, profile);
	sum_add_time(&sum, result->start_ns, result->duration_ns);
	if (!err)
		err = sum_finish(&sum);
	if (!err)
		profile_swap(profile, sum.profile);
	profile_free(sum.profile);
	result->is_window = !err;
}

static void note_symbols(void *arg)
{
	((struct export_result *)arg)->symbols_ns = cpu_time_own();
}

static int slice_write_profile(const struct export_work *work, struct recorder *recorder,
			       struct error *error)
{
	const struct sampler *sampler = work->sampler;
	struct recording *recording = work->recording;
	struct export_result *result = slice_result_of(work->exporter);
	struct window *window = work->window;
	struct error warning, missing;

	recording->sandbox = sampler->config->sandbox;
	recording->symbolize = work->no_symbols ? NULL : sampler->config->symbolize;
	recording->reads_kernel = &result->reads_kernel;
	/* Without a process of its own, it is counted as reading. */
	if (work->is_forked) {
		recording->symbolized = note_symbols;
		recording->symbolized_arg = result;
	}
	result->start_ns = recording->start_ns;
	result->duration_ns = recording->duration_ns;
	result->samples = window->samples;
	/* Without memory for symbols, the samples are worth a profile, which has a comment then. */
	export_profile(window, recorder->collector.files, recording, &result->counts, &warning,
		       &missing);
	if (work->exporter->for_store)
		make_window(sampler, window->profile, result);
	return pprof_write_fd_fast(window->profile, work->exporter->child.file, "profile", error);
}

/* In a new process. */
static void close_sampler(const struct sampler *sampler)
{
	close(sampler->config->socket);
	close(sampler->signals);
	close(sampler->events);
}

static int export_slice(void *arg, struct child *child, struct error *error)
{
	const struct export_work *work = arg;

	(void)child;
	if (work->is_forked)
		close_sampler(work->sampler);
	return slice_write_profile(work, &work->sampler->recorder, error);
}

static void count_lost(struct sampler *sampler, uint64_t samples, const struct error *error)
{
	sampler->counters.lost_export += samples;
	sampler->config->warning(error->text, NULL);
}

/* Ends the current slice. Returns false if there is no process for it: it is to be tried again. */
static bool cut_slice(struct sampler *sampler)
{
	struct slice_export *exporter = free_export(sampler, 0, EXPORTS_MAX);
	struct export_work work = {.sampler = sampler, .exporter = exporter, .is_forked = true};
	struct reply reply = {.type = REPLY_SLICE};
	struct recording *recording;
	struct window *window;
	struct error error;

	if (!exporter || prepare_export(exporter, CHILD_SLICE_EXPORTER))
		return false;
	window = work.window = &exporter->window;
	recording = work.recording = &exporter->recording;
	if (recorder_take(&sampler->recorder, window, recording, &error)) {
		/* It is tried again with each turn of the loop. */
		if (strcmp(error.text, sampler->cut_error.text) != 0)
			sampler->config->warning(error.text, NULL);
		sampler->cut_error = error;
		release_export(exporter);
		return false;
	}
	exporter->has_window = true;
	sampler->cut_error.text[0] = '\0';
	/* Each time is in one slice, also in one without a file. */
	if (!window->samples)
		recorder_skip_empty(&sampler->recorder);
	reply.slice = ++sampler->slices;
	reply.start_ns = recording->start_ns;
	reply.duration_ns = recording->duration_ns;
	reply.samples = window->samples;
	exporter->reply = reply;
	exporter->for_store =
		sampler->config->has_store && sampler->cut_count && !sampler->requests_need_slice;
	if (window->samples && sampler->config->symbolize)
		/* For the copies of this process as well. The rings wait meanwhile. */
		live_symbols_use(&sampler->symbols, recording);
	if (!window->samples) {
		exporter->child.result->done = true;
	} else if (exporter_start(&exporter->child, &sampler->recorder, export_slice, &work)) {
		/* Without a process, it is written here: the rings wait. */
		work.is_forked = false;
		child_run(&exporter->child, export_slice, &work);
	}
	for (size_t i = 0; i < sampler->cut_count; i++) {
		reply = (struct reply){
			.type = REPLY_CUT, .id = sampler->cuts[i], .slice = sampler->slices};
		send_reply(sampler, &reply, -1);
	}
	sampler->cut_count = 0;
	sampler->requests_need_slice = false;
	return true;
}

/* Returns whether it was sent, or is kept. */
static bool slice_deliver(struct sampler *sampler, struct slice_export *exporter)
{
	const struct export_result *result = slice_result_of(exporter);
	const bool done = result->child.done;
	struct reply *reply = &exporter->reply;
	struct error error;
	int file;

	if (result->reads_kernel)
		live_symbols_note_kernel_read(&sampler->symbols);
	reply->err = done ? result->child.err : -EIO;
	reply->is_window = result->is_window;
	if (done && reply->type == REPLY_RECORDED) {
		reply->start_ns = result->start_ns;
		reply->duration_ns = result->duration_ns;
		reply->samples = result->samples;
	}
	snprintf(reply->error, sizeof(reply->error), "%s",
		 done ? result->child.error : "the process that symbolizes was killed");
	file = reply->err || !reply->samples ? -1 : exporter->child.file;
	if (reply->type != REPLY_SLICE)
		return send_fd(sampler->config->socket, reply, sizeof(*reply), file) != -EAGAIN;
	if (!keep_slice(sampler, reply, file))
		return false;
	if (file >= 0)
		exporter->child.file = -1;
	if (reply->err) {
		error_set(&error, EIO, "a slice is lost: %s", reply->error);
		count_lost(sampler, reply->samples, &error);
		return true;
	}
	sampler->counters.samples += reply->samples;
	for (size_t cause = 0; cause < TRUNCATED_COUNT; cause++)
		sampler->counters.truncated[cause] += result->counts.samples[cause];
	return true;
}

/*
 * Starts another process for a slice, whose process may have been killed for the memory that
 * symbols take: this one does without.
 */
static void slice_write_again(struct sampler *sampler, struct slice_export *exporter)
{
	struct recording *recording = &exporter->recording;
	struct export_work work = {
		.sampler = sampler,
		.exporter = exporter,
		.window = &exporter->window,
		.recording = recording,
		.is_forked = true,
		.no_symbols = true,
	};

	exporter->is_repeated = true;
	if (ftruncate(exporter->child.file, 0) || lseek(exporter->child.file, 0, SEEK_SET))
		return;
	/* What they point to may have changed. */
	recording->main_path = NULL;
	recording->kallsyms = NULL;
	recording->cache = NULL;
	sampler->config->warning("a slice has no symbols: the process that symbolizes was killed",
				 NULL);
	exporter_start(&exporter->child, &sampler->recorder, export_slice, &work);
}

/* `waits`: until all slices are exported. Sessions of their own may take minutes. */
static void reap_exports(struct sampler *sampler, bool waits)
{
	for (size_t i = 0; i < EXPORTS_MAX + RECORDINGS_MAX; i++) {
		struct slice_export *exporter = &sampler->exports[i];

		if (!exporter->used)
			continue;
		if (exporter->child.pid &&
		    child_has_ended(&exporter->child, waits && i < EXPORTS_MAX)) {
			sampler->recorder.forked_cpu_ns += exporter->child.cpu_ns;
			sampler->recorder.forked_symbols_ns +=
				slice_result_of(exporter)->symbols_ns;
		}
		if (!exporter->child.pid && exporter->has_window && !exporter->is_repeated &&
		    !slice_result_of(exporter)->child.done)
			slice_write_again(sampler, exporter);
		if (!exporter->child.pid)
			release_window(exporter);
		if (!exporter->child.pid && slice_deliver(sampler, exporter))
			release_export(exporter);
	}
}

/* Sessions of their own */

static bool never_stop(void *arg)
{
	(void)arg;
	return false;
}

/* In a process of its own: a recording with another rate. */
static int record_once(void *arg, struct child *child, struct error *error)
{
	struct export_work work = *(const struct export_work *)arg;
	const struct sampler *sampler = work.sampler;
	struct session_config session = *sampler->config->session;
	struct recorder_config config = {
		.session = &session,
		.seconds = work.ask->seconds,
		.labels = sampler->config->labels,
		.memory = sampler->config->memory,
		.sandbox = sampler->config->sandbox,
		.shares_sandbox = true,
		.wake_fd = -1,
		.stop_requested = never_stop,
		.warning = sampler->config->warning,
	};
	struct recorder *recorder = calloc(1, sizeof(*recorder));
	struct recording recording;
	struct window window;
	int err;

	(void)child;
	close_sampler(sampler);
	/* It lasts longer than the processes that write them. */
	for (size_t i = 0; i < EXPORTS_MAX; i++)
		release_window(&work.sampler->exports[i]);
	if (!recorder)
		return error_set(error, ENOMEM, "out of memory");
	/* The source that runs: the module is not looked for again. */
	session.source = sampler->recorder.session.is_perf ? SOURCE_PERF : SOURCE_MODULE;
	session.rate = work.ask->rate;
	session.rate_given = true;
	recorder->recording.labels = config.labels;
	recorder->recording.command_line = sampler->config->command_line;
	err = recorder_open(recorder, &config, error);
	if (!err)
		err = recorder_run(recorder, &config, error);
	if (!err)
		err = recorder_take(recorder, &window, &recording, error);
	work.window = &window;
	work.recording = &recording;
	return err ? err : slice_write_profile(&work, recorder, error);
}

static int refuse_recording(void *arg, struct child *child, struct error *error)
{
	(void)arg, (void)child;
	return error_set(error, EAGAIN, "no process can be created");
}

static void start_recording(struct sampler *sampler, const struct ask *ask)
{
	struct slice_export *exporter = free_export(sampler, EXPORTS_MAX, RECORDINGS_MAX);
	struct export_work work = {
		.sampler = sampler, .exporter = exporter, .ask = ask, .is_forked = true};
	struct reply reply = {.type = REPLY_RECORDED, .id = ask->id, .err = -EAGAIN};

	if (!exporter || prepare_export(exporter, CHILD_EXTRA_SESSION)) {
		snprintf(reply.error, sizeof(reply.error),
			 "%u sessions of their own are being recorded", RECORDINGS_MAX);
		send_reply(sampler, &reply, -1);
		return;
	}
	exporter->reply = reply;
	if (exporter_start(&exporter->child, &sampler->recorder, record_once, &work))
		child_run(&exporter->child, refuse_recording, NULL);
}

/* The loop of the recorder */

static uint64_t sampler_resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	char line[128] = "";
	char *resident;

	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		*line = '\0';
	fclose(file);
	resident = strchr(line, ' ');
	return (resident ? strtoull(resident, NULL, 10) : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void send_counters(struct sampler *sampler, uint32_t id)
{
	struct reply reply = {.type = REPLY_COUNTERS, .id = id};
	struct sampler_counters *counters = &sampler->counters;
	struct recording recording;
	struct error error;

	reply.err = recorder_measure(&sampler->recorder, &recording, &error);
	if (reply.err) {
		snprintf(reply.error, sizeof(reply.error), "%.*s", (int)sizeof(reply.error) - 1,
			 error.text);
	} else {
		memcpy(counters->session, recording.counts, sizeof(counters->session));
		counters->slices = sampler->slices;
		counters->rate = recording.rate;
		counters->cpus = recording.cpus;
		counters->is_perf = sampler->recorder.session.is_perf;
		counters->stack_copy = sampler->recorder.session.stack_copy;
		counters->resident_bytes = sampler_resident_bytes();
		counters->clock_steps = sampler->recorder.clock_steps;
	}
	reply.counters = *counters;
	send_reply(sampler, &reply, -1);
}

static void add_cut(struct sampler *sampler, const struct ask *ask)
{
	if (sampler->cut_count == CUTS_MAX)
		return;
	sampler->cuts[sampler->cut_count++] = ask->id;
	sampler->requests_need_slice |= !ask->for_store;
}

static void read_asks(struct sampler *sampler)
{
	struct ask ask;
	ssize_t got;

	while ((got = recv(sampler->config->socket, &ask, sizeof(ask), MSG_DONTWAIT)) ==
	       sizeof(ask)) {
		if (ask.type == ASK_CUT)
			add_cut(sampler, &ask);
		else if (ask.type == ASK_COUNTERS)
			send_counters(sampler, ask.id);
		else if (ask.type == ASK_RECORD && ask.seconds)
			start_recording(sampler, &ask);
		else if (ask.type == ASK_BEGIN)
			begin_server(sampler, ask.id);
		else if (ask.type == ASK_STORED)
			sampler->stored = MAX(sampler->stored, MIN(ask.slice, sampler->slices));
	}
	forget_stored(sampler);
	if (!got)
		sampler->peer_has_ended = true;
}

static bool sampler_is_stopped(void *arg)
{
	struct sampler *sampler = arg;
	struct signalfd_siginfo info;
	bool requested = false;

	while (read(sampler->signals, &info, sizeof(info)) == sizeof(info))
		requested = requested || info.ssi_signo != SIGCHLD;
	return requested || sampler->peer_has_ended;
}

static void sampler_is_drained(void *arg)
{
	struct sampler *sampler = arg;

	reap_exports(sampler, false);
	read_asks(sampler);
	send_slices(sampler);
	if (sampler->cut_count || collector_take_is_due(&sampler->recorder.collector))
		cut_slice(sampler);
}

/* The source is known now, and nothing refuses it any more. */
static void sampler_is_configured(const struct session *session, void *arg)
{
	struct sampler *sampler = arg;

	sampler->config->started(session);
	send_slices(sampler);
}

/* One fd for signals and the socket. */
static int open_events(struct sampler *sampler, struct error *error)
{
	struct epoll_event event = {.events = EPOLLIN};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sampler->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	sampler->events = epoll_create1(EPOLL_CLOEXEC);
	if (sampler->signals < 0 || sampler->events < 0 ||
	    epoll_ctl(sampler->events, EPOLL_CTL_ADD, sampler->signals, &event) ||
	    epoll_ctl(sampler->events, EPOLL_CTL_ADD, sampler->config->socket, &event))
		return error_errno(error, errno, "can't wait for requests");
	return fcntl(sampler->config->socket, F_SETFL, O_NONBLOCK)
		       ? error_errno(error, errno, "can't wait for requests")
		       : 0;
}

/* Sends the rest. The peer may be slow, but not for ever. */
static void end_slices(struct sampler *sampler)
{
	struct pollfd polled = {.fd = sampler->config->socket, .events = POLLOUT};
	struct reply reply = {.type = REPLY_END};
	struct error error;
	uint64_t lost = 0;
	bool pending = true;

	for (unsigned int i = 0; i < END_ATTEMPTS && !cut_slice(sampler); i++)
		reap_exports(sampler, true);
	while (pending) {
		reap_exports(sampler, true);
		pending = !send_slices(sampler);
		for (size_t i = 0; i < EXPORTS_MAX; i++)
			pending |= sampler->exports[i].used;
		if (sampler->peer_has_ended || poll(&polled, 1, END_TIMEOUT_MS) <= 0)
			pending = false;
	}
	send_reply(sampler, &reply, -1);
	for (size_t i = 0; i < sampler->kept_count; i++) {
		if (sampler->peer_has_ended || !sampler->kept[i].is_sent)
			lost += sampler->kept[i].reply.samples;
		if (sampler->kept[i].file >= 0)
			close(sampler->kept[i].file);
	}
	sampler->kept_count = 0;
	/* Processes that are still exporting end with this one. */
	for (size_t i = 0; i < EXPORTS_MAX + RECORDINGS_MAX; i++) {
		if (sampler->exports[i].used)
			release_export(&sampler->exports[i]);
	}
	if (lost) {
		error_set(&error, EIO, "%" PRIu64 " samples are lost: the HTTP server has ended",
			  lost);
		sampler->config->warning(error.text, NULL);
	}
}

int sampler_run(const struct sampler_config *config, struct error *error)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	struct recorder_config recorder_config = {
		.session = config->session,
		.labels = config->labels,
		.memory = config->memory,
		.takes_when_full = true,
		.sandbox = config->sandbox,
		.cache = config->cache,
		.helper = config->symbolize && config->symbolize->debuginfod
				  ? config->symbolize->debuginfod->pid
				  : 0,
		.stop_requested = sampler_is_stopped,
		.drained = sampler_is_drained,
		.configured = sampler_is_configured,
		.warning = config->warning,
		.arg = sampler,
	};
	int err;

	if (!sampler)
		return error_errno(error, ENOMEM, "can't record");
	sampler->config = config;
	sampler->signals = sampler->events = -1;
	sampler->recorder.recording.labels = config->labels;
	sampler->recorder.recording.command_line = config->command_line;
	for (size_t i = 0; i < EXPORTS_MAX + RECORDINGS_MAX; i++)
		sampler->exports[i].child.file = -1;
	err = recorder_open(&sampler->recorder, &recorder_config, error);
	if (!err)
		err = open_events(sampler, error);
	if (!err) {
		recorder_config.wake_fd = sampler->events;
		err = recorder_run(&sampler->recorder, &recorder_config, error);
		/* Whatever starts this command again has to know. */
		if (!err && sampler->recorder.is_ended_by_others)
			err = error_set(error, ECANCELED, "the session was stopped");
		recorder_close(&sampler->recorder);
		end_slices(sampler);
	}
	recorder_free(&sampler->recorder);
	live_symbols_clear(&sampler->symbols);
	if (sampler->signals >= 0)
		close(sampler->signals);
	if (sampler->events >= 0)
		close(sampler->events);
	free(sampler);
	return err;
}

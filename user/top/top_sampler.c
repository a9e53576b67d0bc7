// SPDX-License-Identifier: GPL-2.0
#include "top/top_sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "debuginfo/debuginfod_helper.h"
#include "lib/clock.h"
#include "lib/cpu_time.h"
#include "lib/error.h"
#include "pprof/pprof_reader.h"
#include "pprof/pprof_writer.h"
#include "pprof/profile.h"
#include "pprof/truncation.h"
#include "record/counters.h"
#include "record/exporter.h"
#include "record/live_symbols.h"
#include "record/profile_export.h"
#include "record/recorder.h"
#include "record/window.h"
#include "sandbox/fd_passing.h"
#include "symbolize/symbolize_options.h"

/* How long the process may take to end, before it is killed. */
#define TOP_END_MS 3000
/* While the last slice is being symbolized, or is not read. */
#define TOP_RETRY_NS INT64_C(50000000)

/* What is sent: an event whose profile is in a file. */
struct top_message {
	enum top_event_kind kind;
	int err;
	char text[TOP_TEXT_SIZE];
	struct top_counts counts;
};

/* The process that samples. */
struct top_recording {
	const struct top_sampler_config *config;
	int socket;
	struct recorder recorder;
	struct live_symbols symbols;
	int64_t next; /* CLOCK_MONOTONIC: when to send the next slice */
	bool peer_has_ended;
	struct child exporter; /* of the last slice, if it has a result */
	char problem[TOP_TEXT_SIZE]; /* the last one of a slice */
};

static void top_sampler_send(struct top_recording *recording, const struct top_message *message,
			     int file)
{
	if (send_fd(recording->socket, message, sizeof(*message), file) == -EPIPE)
		recording->peer_has_ended = true;
}

static void top_sampler_warn(const char *text, void *arg)
{
	struct top_message message = {.kind = TOP_WARNING};

	snprintf(message.text, sizeof(message.text), "%s", text);
	top_sampler_send(arg, &message, -1);
}

/* The module is the rule; of another source, the user should know what it lacks. */
static void top_sampler_send_source(const struct session *session, void *arg)
{
	struct top_message message = {.kind = TOP_SOURCE};

	if (!session->is_perf)
		return;
	snprintf(message.text, sizeof(message.text), "%s", session->source);
	top_sampler_send(arg, &message, -1);
}

static bool top_sampler_is_stopped(void *arg)
{
	struct top_recording *recording = arg;
	char byte;

	/* The peer sends nothing: a readable socket is at its end. */
	if (recv(recording->socket, &byte, 1, MSG_DONTWAIT) == 0)
		recording->peer_has_ended = true;
	return recording->peer_has_ended;
}

/* A problem that lasts is reported once. */
static void top_sampler_report(struct top_recording *recording, const char *text)
{
	if (strcmp(text, recording->problem) != 0)
		top_sampler_warn(text, recording);
	snprintf(recording->problem, sizeof(recording->problem), "%s", text);
}

/* What a process that exports leaves, in shared memory. */
struct top_export_result {
	struct child_result child;
	bool reads_kernel;
	int64_t symbols_ns; /* its CPU time until all samples had symbols */
};

struct top_export {
	struct top_recording *recording;
	struct top_export_result *result;
	struct window *window;
	struct recording *slice;
};

static void top_sampler_note_symbols(void *arg)
{
	((struct top_export_result *)arg)->symbols_ns = cpu_time_own();
}

/* Symbolizes a slice, and sends it: in a process of its own, as the rings are drained meanwhile. */
static int top_sampler_export(void *arg, struct child *child, struct error *error)
{
	const struct top_export *work = arg;
	struct top_recording *recording = work->recording;
	struct recording *slice = work->slice;
	struct top_message message = {.kind = TOP_SLICE};
	struct truncation_counts truncated;
	struct error warning, missing;
	int err;

	slice->sandbox = recording->config->sandbox;
	slice->symbolize = recording->config->symbolize;
	slice->reads_kernel = &work->result->reads_kernel;
	slice->symbolized = top_sampler_note_symbols;
	slice->symbolized_arg = work->result;
	/* Without memory for symbols, the samples are worth a profile. */
	export_profile(work->window, recording->recorder.collector.files, slice, &truncated,
		       &warning, &missing);
	err = pprof_write_fd_plain(work->window->profile, child->file, "samples", error);
	if (err)
		return err;
	message.counts = (struct top_counts){
		.start_ns = slice->start_ns,
		.duration_ns = slice->duration_ns,
		.samples = work->window->samples,
		.lost = counters_lost(slice->counts),
		.truncated = truncation_total(&truncated),
		.overhead_ns = (int64_t)(recording_overhead_seconds(slice) * 1e9),
		.rate = slice->rate,
		.cpus = slice->cpus,
	};
	top_sampler_send(recording, &message, child->file);
	return 0;
}

/* Returns whether the last slice has been sent; `waits` for that. */
static bool top_sampler_has_exported(struct top_recording *recording, bool waits)
{
	struct child *exporter = &recording->exporter;
	const struct top_export_result *result = (struct top_export_result *)exporter->result;
	struct error error;

	if (!result)
		return true;
	if (!child_has_ended(exporter, waits))
		return false;
	recording->recorder.forked_cpu_ns += exporter->cpu_ns;
	recording->recorder.forked_symbols_ns += MIN(result->symbols_ns, exporter->cpu_ns);
	if (result->reads_kernel)
		live_symbols_note_kernel_read(&recording->symbols);
	if (!result->child.done || result->child.err) {
		error_set(&error, 0, "the samples of an interval are lost: %s",
			  result->child.done ? result->child.error
					     : "the process that symbolizes was killed");
		top_sampler_report(recording, error.text);
	}
	child_release(exporter);
	return true;
}

static void top_sampler_start_export(struct top_recording *recording, struct window *window,
				     struct recording *slice)
{
	struct child *exporter = &recording->exporter;
	struct top_export work = {.recording = recording, .window = window, .slice = slice};

	if (child_prepare(exporter, CHILD_SLICE_EXPORTER, sizeof(struct top_export_result))) {
		top_sampler_report(recording, "no memory for the samples of an interval");
		return;
	}
	live_symbols_use(&recording->symbols, slice);
	work.result = (struct top_export_result *)exporter->result;
	/* Without a process, it is done here: the rings wait. */
	if (exporter_start(exporter, &recording->recorder, top_sampler_export, &work))
		child_run(exporter, top_sampler_export, &work);
}

static void top_sampler_cut(struct top_recording *recording)
{
	struct top_message message = {.kind = TOP_SLICE};
	struct recording slice;
	struct window window;
	struct error error;

	if (recorder_take(&recording->recorder, &window, &slice, &error)) {
		/* The samples are in the next slice. */
		top_sampler_report(recording, error.text);
		return;
	}
	if (window.samples) {
		top_sampler_start_export(recording, &window, &slice);
	} else {
		/* The counters of a slice without samples are in the next one. */
		recorder_skip_empty(&recording->recorder);
		message.counts = (struct top_counts){
			.start_ns = slice.start_ns,
			.duration_ns = slice.duration_ns,
			.rate = slice.rate,
			.cpus = slice.cpus,
		};
		top_sampler_send(recording, &message, -1);
	}
	window_clear(&window);
}

static void top_sampler_cut_if_due(void *arg)
{
	struct top_recording *recording = arg;
	const int64_t interval = recording->config->interval_ns;
	struct pollfd polled = {.fd = recording->socket, .events = POLLOUT};
	int64_t now = now_ns(CLOCK_MONOTONIC);

	if (!recording->next)
		recording->next = recording->recorder.start + interval;
	if (now >= recording->next) {
		/* A peer that was stopped (SIGSTOP) gets all later samples in one slice. */
		if (!top_sampler_has_exported(recording, false) || poll(&polled, 1, 0) <= 0 ||
		    !(polled.revents & POLLOUT)) {
			recording->recorder.wake_at = now + TOP_RETRY_NS;
			return;
		}
		top_sampler_cut(recording);
		recording->next += (now - recording->next) / interval * interval + interval;
	}
	recording->recorder.wake_at = recording->next;
}

static int top_sampler_record(struct top_recording *recording, struct error *error)
{
	const struct top_sampler_config *config = recording->config;
	const struct recorder_config recorder_config = {
		.session = config->session,
		.labels = config->labels,
		.memory = config->memory,
		.sandbox = config->sandbox,
		.cache = config->cache,
		.helper = config->symbolize->debuginfod ? config->symbolize->debuginfod->pid : 0,
		.wake_fd = recording->socket,
		.stop_requested = top_sampler_is_stopped,
		.drained = top_sampler_cut_if_due,
		.configured = top_sampler_send_source,
		.warning = top_sampler_warn,
		.arg = recording,
	};
	int err;

	recording->recorder.recording.labels = config->labels;
	recording->recorder.recording.command_line = "stackbeat top";
	err = recorder_open(&recording->recorder, &recorder_config, error);
	if (!err)
		err = recorder_run(&recording->recorder, &recorder_config, error);
	if (!err && recording->recorder.is_ended_by_others)
		err = error_set(error, ECANCELED, "the session was stopped");
	recorder_close(&recording->recorder);
	top_sampler_has_exported(recording, true);
	if (!err && !recording->peer_has_ended) {
		top_sampler_cut(recording);
		top_sampler_has_exported(recording, true);
	}
	recorder_free(&recording->recorder);
	live_symbols_clear(&recording->symbols);
	return err;
}

struct top_sampler_work {
	const struct top_sampler_config *config;
	int socket, other_end;
};

/* In the new process. */
static int top_sampler_work(void *arg, struct child *child, struct error *error)
{
	const struct top_sampler_work *work = arg;
	struct top_recording *recording = calloc(1, sizeof(*recording));
	struct top_message message = {.kind = TOP_ENDED};

	(void)child;
	close(work->other_end);
	/*
	 * The signals of a keyboard, and those that end all processes, are for the process that
	 * shows the samples, which ends this one.
	 */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (!recording)
		return error_errno(error, ENOMEM, "can't record");
	recording->config = work->config;
	recording->socket = work->socket;
	recording->exporter.file = -1;
	message.err = top_sampler_record(recording, error);
	if (message.err) {
		message.kind = TOP_FAILED;
		snprintf(message.text, sizeof(message.text), "%s", error->text);
	}
	top_sampler_send(recording, &message, -1);
	free(recording);
	return message.err;
}

int top_sampler_start(struct top_sampler *sampler, const struct top_sampler_config *config,
		      struct error *error)
{
	struct top_sampler_work work = {.config = config};
	int ends[2], err;

	*sampler = (struct top_sampler){
		.child = {.role = CHILD_TOP_SAMPLER, .file = -1},
		.socket = -1,
	};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(error, errno, "can't start sampling");
	work.socket = ends[1];
	work.other_end = ends[0];
	err = child_start(&sampler->child, top_sampler_work, &work);
	close(ends[1]);
	sampler->socket = ends[0];
	return err ? error_errno(error, -err, "can't start sampling") : 0;
}

static struct profile *top_sampler_read(int file, struct error *error)
{
	struct profile *profile = NULL;
	struct stat status;
	void *data;

	if (fstat(file, &status) || !status.st_size) {
		error_errno(error, EIO, "samples");
		return NULL;
	}
	data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (data == MAP_FAILED) {
		error_errno(error, errno, "samples");
		return NULL;
	}
	profile = pprof_decode(data, (size_t)status.st_size, "samples", error);
	munmap(data, (size_t)status.st_size);
	return profile;
}

/* The process has gone without a last message. */
static void top_sampler_explain_end(struct top_sampler *sampler, struct top_event *event)
{
	event->kind = TOP_FAILED;
	event->err = -EIO;
	child_has_ended(&sampler->child, true);
	if (WIFSIGNALED(sampler->child.status))
		snprintf(event->text, sizeof(event->text),
			 "the process that samples was killed by signal %d",
			 WTERMSIG(sampler->child.status));
	else
		snprintf(event->text, sizeof(event->text), "the process that samples has ended");
}

void top_sampler_receive(struct top_sampler *sampler, struct top_event *event)
{
	struct pollfd polled = {.fd = sampler->socket, .events = POLLIN};
	struct top_message message;
	struct error error;
	int file = -1;
	ssize_t got;

	*event = (struct top_event){.kind = TOP_NOTHING};
	if (poll(&polled, 1, 0) <= 0)
		return;
	got = receive_fd(sampler->socket, &message, sizeof(message), &file);
	if (got != sizeof(message)) {
		top_sampler_explain_end(sampler, event);
		return;
	}
	event->kind = message.kind;
	event->err = message.err;
	event->counts = message.counts;
	snprintf(event->text, sizeof(event->text), "%s", message.text);
	if (file < 0)
		return;
	event->profile = top_sampler_read(file, &error);
	close(file);
	if (!event->profile) {
		event->kind = TOP_WARNING;
		snprintf(event->text, sizeof(event->text), "%s", error.text);
	}
}

void top_sampler_stop(struct top_sampler *sampler)
{
	struct pollfd polled = {.fd = sampler->socket, .events = POLLRDHUP};

	if (sampler->socket < 0)
		return;
	shutdown(sampler->socket, SHUT_WR);
	if (sampler->child.pid && poll(&polled, 1, TOP_END_MS) <= 0)
		kill(sampler->child.pid, SIGKILL);
	close(sampler->socket);
	sampler->socket = -1;
	child_has_ended(&sampler->child, true);
}

// SPDX-License-Identifier: GPL-2.0
#include "record/exporter.h"

#include <sys/wait.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "mappings/mapped_files.h"
#include "record/recorder.h"
#include "record/window.h"

struct exporter_work {
	struct recorder *recorder;
	child_function *work;
	void *arg;
};

static int leave_session(void *arg, struct child *child, struct error *error)
{
	const struct exporter_work *work = arg;

	session_leave(&work->recorder->session);
	collector_leave_generated(&work->recorder->collector);
	mapped_files_forked(work->recorder->collector.files);
	return work->work(work->arg, child, error);
}

int exporter_start(struct child *child, struct recorder *recorder, child_function *work, void *arg)
{
	return child_start(child, leave_session, &(struct exporter_work){recorder, work, arg});
}

/* Files of --snapshot and --rotate */

struct file_work {
	const struct file_exporter *exporter;
	const struct window_file *file;
};

static int write_in_child(void *arg, struct child *child, struct error *error)
{
	const struct file_work *work = arg;

	(void)child, (void)error;
	return work->exporter->write(work->file, true, work->exporter->arg);
}

static void start_file(struct file_exporter *exporter, const struct window_file *file)
{
	struct file_work work = {exporter, file};

	exporter->child = (struct child){.role = CHILD_FILE_EXPORTER, .file = -1};
	if (!exporter_start(&exporter->child, exporter->recorder, write_in_child, &work))
		return;
	if (file->is_snapshot)
		exporter->warning("snapshot: no process can be created for it", exporter->arg);
	else
		exporter->has_failed |= exporter->write(file, false, exporter->arg) != 0;
}

static void begin_snapshot(struct file_exporter *exporter)
{
	struct window_file file = {.is_snapshot = true};
	struct recording recording;
	struct error error, message;

	file.recording = &recording;
	if (recorder_peek(exporter->recorder, &file.window, &recording, &error)) {
		error_set(&message, 0, "snapshot: %s", error.text);
		exporter->warning(message.text, exporter->arg);
	} else if (file.window->samples) {
		start_file(exporter, &file);
	}
}

static void rotate_file(struct file_exporter *exporter)
{
	const struct window_file file = {.window = &exporter->window,
					 .recording = &exporter->recording};
	struct error error;

	/* After an error, the samples are in the next file. */
	if (recorder_take(exporter->recorder, &exporter->window, &exporter->recording, &error)) {
		exporter->warning(error.text, exporter->arg);
	} else if (exporter->window.samples) {
		exporter->files++;
		start_file(exporter, &file);
	}
	if (!exporter->child.pid)
		window_clear(&exporter->window);
}

/* The process may have been killed for the memory that symbols take: another one does without. */
static void write_without_symbols(struct file_exporter *exporter)
{
	const struct window_file file = {
		.window = &exporter->window, .recording = &exporter->recording, .no_symbols = true};

	exporter->is_repeated = true;
	/* The command may have executed another file meanwhile. */
	exporter->recording.main_path = NULL;
	exporter->warning("its file is written without symbols: try 'stackbeat symbolize'",
			  exporter->arg);
	start_file(exporter, &file);
}

void file_exporter_note_end(struct file_exporter *exporter, bool has_ended)
{
	const int status = exporter->child.status;
	const bool was_killed = has_ended && WIFSIGNALED(status);
	struct error error;

	if (!has_ended) {
		exporter->warning("the process that writes a file does not end: it was killed",
				  exporter->arg);
	} else if (was_killed) {
		error_set(&error, 0, "the process that writes a file was killed by signal %d",
			  WTERMSIG(status));
		exporter->warning(error.text, exporter->arg);
	}
	exporter->has_failed |= exporter->rotates && (status || !has_ended);
	exporter->recorder->forked_cpu_ns += exporter->child.cpu_ns;
	exporter->child = (struct child){.file = -1};
	if (was_killed && exporter->window.samples && !exporter->is_repeated)
		write_without_symbols(exporter);
	if (!exporter->child.pid) {
		window_clear(&exporter->window);
		exporter->is_repeated = false;
	}
}

void file_exporter_write_if_due(struct file_exporter *exporter)
{
	struct recorder *recorder = exporter->recorder;
	int64_t now = now_ns(CLOCK_MONOTONIC);
	bool due;

	if (exporter->child.pid && child_has_ended(&exporter->child, false))
		file_exporter_note_end(exporter, true);
	if (!exporter->next)
		exporter->next = recorder->start + exporter->interval;
	due = now >= exporter->next || exporter->is_requested ||
	      (exporter->rotates && collector_take_is_due(&recorder->collector));
	if (due && !exporter->child.pid) {
		exporter->is_requested = false;
		while (exporter->next <= now)
			exporter->next += exporter->interval;
		if (exporter->rotates)
			rotate_file(exporter);
		else
			begin_snapshot(exporter);
	}
	/* The end of the process wakes the recorder, too. */
	recorder->wake_at = exporter->child.pid ? 0 : exporter->next;
}

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Windows are symbolized and written in processes of their own, which have a copy of everything:
 * the recorder drains its rings meanwhile.
 */
#ifndef STACKBEAT_RECORD_EXPORTER_H
#define STACKBEAT_RECORD_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "record/profile_export.h"
#include "record/window.h"
#include "sandbox/child.h"

struct recorder;

/* As child_start(). The process of the child has left the session, which it may not change. */
int exporter_start(struct child *child, struct recorder *recorder, child_function *work, void *arg);

struct window_file {
	struct window *window;
	struct recording *recording; /* of the window */
	bool is_snapshot; /* one of several; the recording is written elsewhere */
	bool no_symbols; /* the process that symbolized it was killed */
};

/* Files that are written while it records, one after another. All zero: none. */
struct file_exporter {
	struct recorder *recorder;
	int64_t interval; /* ns; 0: no files */
	bool rotates; /* each file has the samples since the last one; or else all samples */
	/* Writes a file, also in a child, and reports errors itself. Returns 0 if it is there. */
	int (*write)(const struct window_file *file, bool is_child, void *arg);
	void (*warning)(const char *text, void *arg);
	void *arg; /* of the callbacks */
	bool is_requested; /* a file, before its time */
	unsigned int files; /* that were written, or are being written */
	bool has_failed; /* one of the rotated files was not written to its place */
	struct child child; /* that is writing a file, if it has a `pid` */
	/* Private: what the child writes of them, if it rotates; kept in case that it is killed. */
	struct window window;
	struct recording recording;
	bool is_repeated; /* private: the first child was killed */
	int64_t next; /* private: CLOCK_MONOTONIC, when to write the next one */
};

/*
 * Writes a file when it is time, unless the last one is still being written: then its samples are
 * in the next one. Sets recorder->wake_at. Without memory for a process, a window that was taken is
 * written here.
 */
void file_exporter_write_if_due(struct file_exporter *exporter);
/*
 * Notes that the child has ended, or, unless `has_ended`, that it was given up. If it was killed,
 * another child writes the samples that it had taken, without symbols.
 */
void file_exporter_note_end(struct file_exporter *exporter, bool has_ended);

#endif

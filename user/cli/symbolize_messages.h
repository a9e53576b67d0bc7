/* SPDX-License-Identifier: GPL-2.0 */
/* Progress and warnings of symbolization, on standard error. */
#ifndef STACKBEAT_CLI_SYMBOLIZE_MESSAGES_H
#define STACKBEAT_CLI_SYMBOLIZE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Initially all zero, but for `progress` and `verbose`. */
struct symbolize_messages {
	bool progress; /* show the progress of downloads and of names */
	bool verbose; /* print all problems */
	bool shown; /* private: a progress line is shown */
	unsigned int problems; /* private: number so far */
};

/* Prints a message about a file. Its path is untrusted: a sampled process may have chosen it. */
void symbolize_messages_line(const char *path, const char *text);

/*
 * Prints a problem of a file, if it is one of the first, or messages->verbose is set. In all
 * callbacks, `messages` is a struct symbolize_messages.
 */
void symbolize_messages_problem(void *messages, const char *path, const char *text);

/* Shows the progress of a download, in bytes; `total` is 0 if unknown. */
void symbolize_messages_progress(void *messages, const char *path, uint64_t done, uint64_t total);

/* Shows how far names are read, and how long the rest may take, if it takes more than 2 s. */
void symbolize_messages_names(void *messages, size_t done, size_t total, int64_t elapsed_ms);

/* Reports that a signal has interrupted the symbolization. */
void symbolize_messages_interrupted(void *messages);

/* Reports that the symbolization took too long: `files` have no symbols, or not all. */
void symbolize_messages_timed_out(void *messages, unsigned int timeout_s, size_t files);

/* Call at the end: removes the progress line, and prints how many problems were not shown. */
void symbolize_messages_end(struct symbolize_messages *messages);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* What commands that name addresses tell meanwhile, on the standard error. */
#ifndef STACKBEAT_CLI_SYMBOLIZE_MESSAGES_H
#define STACKBEAT_CLI_SYMBOLIZE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

/* All zero to begin with, but for `progress`. */
struct symbolize_messages {
	bool progress; /* show how far files are fetched */
	bool shown; /* private: there is such a line */
	unsigned int problems; /* private: told so far */
};

/* Tells something of a file. Whoever was sampled may have chosen its path. */
void symbolize_messages_line(const char *path, const char *text);

/* Tells what is wrong with a file; of many, the first ones. `log` is a struct symbolize_messages.
 */
void symbolize_messages_problem(void *log, const char *path, const char *text);

/* Shows how far a file is fetched from a server. */
void symbolize_messages_progress(void *log, const char *path, uint64_t done, uint64_t total);

/* Tells that naming has ended early, by a signal. */
void symbolize_messages_interrupted(void *log);

/* To be called when all is named. */
void symbolize_messages_end(struct symbolize_messages *log);

#endif

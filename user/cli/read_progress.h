/* SPDX-License-Identifier: GPL-2.0 */
/* Reads a profile for a person, who sees how far it is if that takes long. */
#ifndef STACKBEAT_CLI_READ_PROGRESS_H
#define STACKBEAT_CLI_READ_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct error;
struct profile;

/* A line on the terminal. */
struct read_progress {
	const char *path; /* of the profile */
	int64_t start_ns; /* on CLOCK_MONOTONIC */
	int64_t next_ns; /* when the line is to change */
};

void read_progress_begin(struct read_progress *progress, const char *path);

/* Prints the share that is read, and about how long the rest takes, from 2 s after the begin. */
void read_progress_update(void *progress, double share);

/* Removes the line, if there is one. */
void read_progress_end(const struct read_progress *progress);

/*
 * As pprof_read(), or as pprof_read_with() with the times of samples; if the standard error is a
 * terminal, it shows the progress.
 */
struct profile *read_progress_profile(const char *path, bool keeps_moments, struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/* What `stackbeat record` says about a recording at its end. The caller flushes `out`. */
#ifndef STACKBEAT_CLI_RECORD_SUMMARY_H
#define STACKBEAT_CLI_RECORD_SUMMARY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct error;
struct recording;
struct truncation_counts;
struct verification_result;
struct window;

/*
 * The summary of a window, whose file `path` has `size` bytes: two lines, and one with the causes
 * of what is missing, of which the first `columns` are printed; 0: all.
 */
void print_record_summary(const struct window *window, const struct recording *recording,
			  const struct truncation_counts *counts, const char *path, uint64_t size,
			  size_t columns, FILE *out);

/* A line with the command that shows the file `path`. */
void print_next_command(const char *path, FILE *out);

/* The line with the CPU time of a recording by part. */
void print_record_cpu(const struct recording *recording, FILE *out);

/* The lines of --verify, for the objects with the most differences. */
void print_verification(const struct verification_result *result, FILE *out);

/*
 * Prints the samples that were lost in the period of a recording after its last file: no file has
 * the counters of a period without samples.
 */
void print_lost_at_end(const struct recording *recording, FILE *out);

/* Explains by the counters of a recording why there are no samples. Returns -ENODATA. */
int explain_no_samples(const struct recording *recording, struct error *error);

#endif

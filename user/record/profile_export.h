/* SPDX-License-Identifier: GPL-2.0 */
/* Symbolizes what was recorded. */
#ifndef STACKBEAT_RECORD_PROFILE_EXPORT_H
#define STACKBEAT_RECORD_PROFILE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "record/counters.h"

struct truncation_counts;
struct error;
struct gone_parts;
struct kallsyms;
struct labels;
struct sandbox_server;
struct symbolize_options;
struct mapped_files;
struct symbol_cache;
struct window;

/* The properties of a recording beside its samples. */
struct recording {
	const char *command_line;
	const char *main_path; /* of the executable file of the command; NULL: unknown */
	const char *ended_by; /* the error that has ended the recording; NULL: none */
	const struct labels *labels; /* the window was made with them */
	const struct sandbox_server *sandbox; /* of worker_main() (symbolize/worker.h) */
	/* See symbolize/symbolizer.h; NULL: addresses alone, to be symbolized later. */
	const struct symbolize_options *symbolize;
	/* Kept symbols of the kernel (debuginfo/kernel_symbols.h); NULL: they are read. */
	const struct kallsyms *kallsyms;
	uint64_t kernel_text; /* where the kernel's code starts; 0: it is read */
	const struct gone_parts *gone; /* of kernel modules, in the window; NULL: none */
	/*
	 * Percentage of the samples of a profile that may have functions of the kernel without kept
	 * symbols; for more, the symbols are read again.
	 */
	unsigned int tolerated_missing;
	bool *reads_kernel; /* set when they are read although they are kept; or NULL */
	struct symbol_cache *cache; /* of the symbols of files; NULL: none */
	/* Called before the comments are made, for which it may update `counts`; NULL: never. */
	void (*symbolized)(void *arg);
	void *symbolized_arg;
	bool hides_go_runtime; /* see symbolize/go_runtime.h */
	const char *source; /* of the samples, and what it lacks: one line; NULL: unknown */
	bool is_perf; /* the source is perf events, which do not measure what sampling costs */
	uint32_t rate; /* Hz asked for */
	uint32_t cpus; /* sampled CPUs that were online at the start */
	int64_t start_ns; /* since 1970 */
	int64_t clock_ns; /* what is to be added to CLOCK_MONOTONIC for the time since 1970 */
	int64_t duration_ns;
	uint64_t counts[COUNTER_COUNT]; /* see record/counters.h */
	bool unwinds_by_tables; /* user stacks; else by frame pointers alone */
	const char *table_refusal; /* see unwind_tables_refusal() */
	uint32_t unknown_go; /* see struct unwind_tables_counts */
};

/* Ticks per second of the time that they stand for, which missed ticks lower; 0: it is unknown. */
double recording_mean_rate(const struct recording *recording);

/* CPU time of profiling: in s, and over the time of the sampled CPUs during the recording, in %. */
double recording_overhead_seconds(const struct recording *recording);
double recording_overhead_percent(const struct recording *recording);

/*
 * Finishes the profile of a window, in place: symbolizes it, with the mapped `files`, and adds its
 * comments and times. Then pprof_write() may write it, more than once. Sets `counts`. If the kernel
 * hides its symbols, `warning` says so, and the profile has kernel addresses; else warning->text is
 * "". Returns 0, or -ENOMEM: then `error` says what is missing in the profile, which has all
 * samples and may be written, too; `counts` may be 0.
 */
int export_profile(struct window *window, struct mapped_files *files,
		   const struct recording *recording, struct truncation_counts *counts,
		   struct error *warning, struct error *error);

#endif

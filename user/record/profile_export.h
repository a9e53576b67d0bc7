/* SPDX-License-Identifier: GPL-2.0 */
/* Symbolizes what was recorded. */
#ifndef STACKBEAT_RECORD_PROFILE_EXPORT_H
#define STACKBEAT_RECORD_PROFILE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

struct truncation_counts;
struct error;
struct labels;
struct sandbox_server;
struct symbolize_options;
struct mapped_files;
struct window;

/* The properties of a recording beside its samples. */
struct recording {
	const char *command_line;
	const char *ended_by; /* the error that has ended the recording; NULL: none */
	const struct labels *labels; /* the window was made with them */
	const struct sandbox_server *sandbox; /* of worker_main() (symbolize/worker.h) */
	/* See symbolize/symbolizer.h; NULL: addresses alone, to be symbolized later. */
	const struct symbolize_options *symbolize;
	bool hides_go_runtime; /* see symbolize/go_runtime.h */
	uint32_t rate; /* Hz asked for */
	uint32_t cpus; /* online */
	int64_t start_ns; /* since 1970 */
	int64_t duration_ns;
	uint64_t lost_full; /* records lost: ring full */
	uint64_t lost_tail; /* records lost: bad reader position */
	uint64_t missed; /* ticks without a sample of their own */
	uint64_t idle; /* ticks on idle CPUs */
	uint64_t filtered; /* ticks that the filter excluded */
	uint64_t ticks;
	uint64_t tick_time_ns; /* that the ticks stand for */
	uint64_t throttled; /* how often the rate was halved on a CPU to keep the budget */
	uint64_t spaces; /* address spaces reported by the kernel */
	uint64_t samples_without_address_space; /* user samples without an address space */
	uint64_t address_spaces_unread; /* address spaces whose mappings were not read */
	uint64_t mmap_events_lost; /* that the kernel could not report */
	uint64_t mappings_dropped; /* beyond a limit of the kernel or the reader */
	uint64_t mappings_without_file; /* mappings with a file that was not kept open */
	uint64_t perf_maps_dropped; /* see runtime/perf_map_watcher.h */
	uint64_t samples_early; /* resolved before their metadata arrived, see record/sample_queue.h
				 */
	bool unwinds_by_tables; /* user stacks; else by frame pointers alone */
	/* See struct unwind_tables_counts. */
	uint64_t tables_compiled, tables_none, tables_failed, tables_refused, tables_unsupported;
	const char *table_refusal; /* see unwind_tables_refusal() */
	uint32_t unknown_go; /* see struct unwind_tables_counts */
	/* Samples with a copy of their stack: see record/stack_copies.h. */
	uint64_t stack_copies_walked;
	uint64_t stack_copies_given_up; /* late, or for lack of memory */
	uint64_t stack_copies_lost; /* for which the ring had no room */
	uint64_t kernel_overhead_ns; /* CPU time of the module's timer callback, worker and probe */
	uint64_t reader_overhead_ns; /* CPU time of this command while it recorded */
};

/* CPU time of profiling over the CPU time of all CPUs during the recording, in %. */
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

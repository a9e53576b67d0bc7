/* SPDX-License-Identifier: GPL-2.0 */
/* A finished recording, named and written as pprof. */
#ifndef STACKBEAT_RECORD_PROFILE_EXPORT_H
#define STACKBEAT_RECORD_PROFILE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

struct truncation_counts;
struct error;
struct labels;
struct symbolize_options;
struct mapped_files;
struct stack_table;

/* What is known of a recording beside its samples. */
struct recording {
	const char *command_line;
	const struct labels *labels; /* the profile was made for those that are chosen */
	const struct symbolize_options
		*naming; /* see symbolize/symbolizer.h; NULL: by the symbols of objects alone */
	bool nameless; /* addresses alone, for those who name them later; no `naming` */
	uint32_t rate; /* Hz asked for */
	uint32_t cpus; /* online */
	int64_t start_ns; /* since 1970 */
	int64_t duration_ns;
	uint64_t lost_full; /* records lost: ring full */
	uint64_t lost_tail; /* records lost: bad reader position */
	uint64_t missed; /* intervals without a beat of their own */
	uint64_t idle; /* ticks on idle CPUs */
	uint64_t filtered; /* ticks that the filter left out */
	uint64_t ticks;
	uint64_t tick_time_ns; /* that they stood for */
	uint64_t throttled; /* how often the rate was halved on a CPU to keep the budget */
	uint64_t spaces; /* address spaces that the kernel told of */
	uint64_t samples_without_space; /* user samples without an address space */
	uint64_t spaces_unread; /* address spaces whose mappings were not read */
	uint64_t mmap_events_lost; /* changes of mappings that it could not tell */
	uint64_t mappings_dropped; /* beyond a bound, its or ours */
	uint64_t mappings_without_file; /* mappings whose file was not kept */
	uint64_t perf_maps_dropped; /* perf maps that were not taken, see runtime/perf_map_watcher.h
				     */
	uint64_t samples_early; /* that could not wait until all was told of them */
	uint64_t kernel_overhead_ns; /* CPU time of the module's timer callback, worker and probe */
	uint64_t reader_overhead_ns; /* CPU time of this command while it recorded */
};

/* CPU time of profiling over all CPU time of the machine while it lasted, in %. */
double recording_overhead_percent(const struct recording *recording);

/*
 * Names the profile's addresses, with what was read of `objects`, and writes it to `path` (see
 * pprof_write()). Fills `cuts`, and `size` with the bytes of the file. Where the kernel hides its
 * symbols, says so in `warning` and goes on; else warning->text is "". Returns 0
 * or a negative errno value.
 */
int export_profile(const struct stack_table *profile, const struct mapped_files *objects,
		   const struct recording *recording, const char *path,
		   struct truncation_counts *cuts, uint64_t *size, struct error *warning,
		   struct error *error);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The counters of a recording: the module's (enum stackbeat_stat), and the reader's,
 * in one array, with one table of their names. The status, the summary, the comments of a profile
 * and the metrics use these names.
 */
#ifndef STACKBEAT_RECORD_COUNTERS_H
#define STACKBEAT_RECORD_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include <stackbeat.h>

/* Continues enum stackbeat_stat. */
enum reader_counter {
	COUNTER_PERF_MAPS_DROPPED = STACKBEAT_S_COUNT, /* see runtime/perf_map_watcher.h */
	COUNTER_KERNEL_NAMES_DROPPED, /* see collector_names_dropped() */
	COUNTER_SAMPLES_EARLY, /* see record/sample_queue.h */
	/* See struct unwind_tables_counts. */
	COUNTER_TABLES_COMPILED,
	COUNTER_TABLES_CACHED,
	COUNTER_TABLES_NONE,
	COUNTER_TABLES_FAILED,
	COUNTER_TABLES_REFUSED,
	COUNTER_TABLES_UNSUPPORTED,
	/* See struct stack_copies_counts. */
	COUNTER_STACK_COPIES_WALKED,
	COUNTER_STACK_COPY_BYTES, /* of these */
	COUNTER_STACK_COPIES_GIVEN_UP, /* late, or for lack of memory */
	COUNTER_READER_OVERHEAD_NS, /* CPU time of all processes of this command */
	/* Parts of it; the rest is for reading the rings. */
	COUNTER_TABLES_CPU_NS, /* workers that compile unwind tables, or check stacks */
	COUNTER_SYMBOLS_CPU_NS,
	COUNTER_WRITING_CPU_NS,
	COUNTER_COUNT
};

/* The comment of a profile that has a counter. */
enum counter_group {
	COUNTERS_ALONE, /* none, or one of its own */
	COUNTERS_LOST,
	COUNTERS_ADDRESS_SPACES,
	COUNTERS_UNWINDING,
	COUNTERS_WITHOUT_SAMPLE,
};

struct counter {
	const char *key; /* in the JSON of the status; NULL: a counter of the reader, or none */
	const char *name; /* words before the number; NULL: none */
	enum counter_group group;
	bool is_level; /* a value now, no sum since the session was opened */
	bool is_incomplete; /* if it is not 0, the profile lacks something */
};

/* By enum stackbeat_stat and enum reader_counter. */
extern const struct counter counter_table[COUNTER_COUNT];

/* Returns the number of lost samples. */
uint64_t counters_lost(const uint64_t counts[COUNTER_COUNT]);

/* Returns the CPU time of the module's timer callback, worker and probe, in ns. */
uint64_t counters_kernel_overhead_ns(const uint64_t counts[COUNTER_COUNT]);

/* What CPU time is used for. */
enum cpu_part {
	CPU_SAMPLING, /* the module's ticks */
	CPU_MAPPINGS, /* its worker and the probe of mappings */
	CPU_TABLES,
	CPU_READING,
	CPU_SYMBOLS,
	CPU_WRITING,
	CPU_PARTS
};

/* Returns the name of a part, as in the comments of a profile. */
const char *cpu_part_name(enum cpu_part part);

/* Returns the CPU time of a part, in ns. The parts add up to the time of all. */
uint64_t counters_cpu_ns(const uint64_t counts[COUNTER_COUNT], enum cpu_part part);

/* Subtracts earlier counts, except from levels. A counter does not become less than 0. */
void counters_subtract(uint64_t counts[COUNTER_COUNT], const uint64_t earlier[COUNTER_COUNT]);

#endif

// SPDX-License-Identifier: GPL-2.0
#include "record/counters.h"

#include <stddef.h>
#include <sys/param.h>

const struct counter counter_table[COUNTER_COUNT] = {
	[STACKBEAT_S_TICKS] = {.key = "ticks"},
	[STACKBEAT_S_SAMPLES] = {.key = "samples"},
	[STACKBEAT_S_LOST_FULL] = {.key = "lost_ring_full",
				   .name = "ring full",
				   .group = COUNTERS_LOST},
	[STACKBEAT_S_LOST_BAD_TAIL] = {.key = "lost_bad_reader_position",
				       .name = "bad reader position",
				       .group = COUNTERS_LOST},
	[STACKBEAT_S_IDLE] = {.key = "idle", .name = "idle", .group = COUNTERS_WITHOUT_SAMPLE},
	[STACKBEAT_S_FILTERED] = {.key = "filtered",
				  .name = "filtered",
				  .group = COUNTERS_WITHOUT_SAMPLE},
	[STACKBEAT_S_MISSED_TICKS] = {.key = "missed_ticks"},
	[STACKBEAT_S_OVERHEAD_NS] = {.key = "overhead_ns"},
	[STACKBEAT_S_TICK_TIME_NS] = {.key = "tick_time_ns"},
	[STACKBEAT_S_THROTTLED] = {.key = "throttled"},
	[STACKBEAT_S_RATE] = {.key = "current_rate", .is_level = true},
	[STACKBEAT_S_ADDRESS_SPACES] = {.key = "address_spaces"},
	[STACKBEAT_S_SAMPLES_WITHOUT_ADDRESS_SPACE] = {.key = "samples_without_address_space",
						       .name = "samples without an address space",
						       .group = COUNTERS_ADDRESS_SPACES,
						       .is_incomplete = true},
	[STACKBEAT_S_ADDRESS_SPACES_UNREAD] = {.key = "address_spaces_unread",
					       .name = "address spaces not read",
					       .group = COUNTERS_ADDRESS_SPACES,
					       .is_incomplete = true},
	[STACKBEAT_S_MMAP_EVENTS] = {.key = "mmap_events"},
	[STACKBEAT_S_MMAP_EVENTS_LOST] = {.key = "mmap_events_lost",
					  .name = "mapping events lost",
					  .group = COUNTERS_ADDRESS_SPACES,
					  .is_incomplete = true},
	/* With those that the reader dropped. */
	[STACKBEAT_S_MAPPINGS_DROPPED] = {.key = "mappings_dropped",
					  .name = "mappings dropped",
					  .group = COUNTERS_ADDRESS_SPACES,
					  .is_incomplete = true},
	[STACKBEAT_S_FILES] = {.key = "files", .is_level = true},
	[STACKBEAT_S_MAPPINGS_WITHOUT_FILE] = {.key = "mappings_without_file",
					       .name = "mappings without a file",
					       .group = COUNTERS_ADDRESS_SPACES,
					       .is_incomplete = true},
	[STACKBEAT_S_WORKER_OVERHEAD_NS] = {.key = "worker_overhead_ns"},
	[STACKBEAT_S_PROBE_OVERHEAD_NS] = {.key = "probe_overhead_ns"},
	[STACKBEAT_S_UNWIND_TABLES] = {.key = "unwind_tables", .is_level = true},
	[STACKBEAT_S_UNWIND_TABLE_BYTES] = {.key = "unwind_table_bytes", .is_level = true},
	[STACKBEAT_S_UNWIND_TABLES_REFUSED] = {.key = "unwind_tables_refused"},
	[STACKBEAT_S_STACK_COPIES] = {.key = "stack_copies"},
	[STACKBEAT_S_STACK_COPIES_LOST] = {.key = "stack_copies_lost",
					   .name = "copies of stacks lost",
					   .group = COUNTERS_UNWINDING,
					   .is_incomplete = true},
	[STACKBEAT_S_KERNEL_STACKS_UNWOUND] = {.key = "kernel_stacks_unwound"},
	[STACKBEAT_S_KERNEL_STACKS_COMPARED] = {.key = "kernel_stacks_compared"},
	[STACKBEAT_S_KERNEL_STACKS_DIFFERENT] = {.key = "kernel_stacks_different",
						 .name = "kernel stacks that differed",
						 .group = COUNTERS_UNWINDING,
						 .is_incomplete = true},
	[STACKBEAT_S_FRAMES_BY_TABLES] = {.key = "frames_by_tables"},
	[STACKBEAT_S_UNWIND_RULE_MISSES] = {.key = "unwind_rule_misses"},
	[STACKBEAT_S_ADDRESS_SPACES_ROOM] = {.key = "address_spaces_room", .is_level = true},
	[STACKBEAT_S_MMAP_EVENTS_OFF] = {.key = "mmap_events_off",
					 .name = "times without mapping events",
					 .group = COUNTERS_ADDRESS_SPACES,
					 .is_incomplete = true},
	[STACKBEAT_S_LONG_TICKS] = {.key = "long_ticks"},
	[COUNTER_PERF_MAPS_DROPPED] = {.name = "perf maps dropped",
				       .group = COUNTERS_ADDRESS_SPACES,
				       .is_incomplete = true},
	[COUNTER_KERNEL_NAMES_DROPPED] = {.name = "parts of kernel code dropped",
					  .group = COUNTERS_ADDRESS_SPACES,
					  .is_incomplete = true},
	[COUNTER_SAMPLES_EARLY] = {.name = "samples resolved before their mappings arrived",
				   .group = COUNTERS_ADDRESS_SPACES,
				   .is_incomplete = true},
	[COUNTER_TABLES_COMPILED] = {.name = "unwind tables compiled", .group = COUNTERS_UNWINDING},
	[COUNTER_TABLES_CACHED] = {.name = "unwind tables from the cache",
				   .group = COUNTERS_UNWINDING},
	[COUNTER_TABLES_NONE] = {.name = "files without call frame information",
				 .group = COUNTERS_UNWINDING},
	[COUNTER_TABLES_FAILED] = {.name = "files without an unwind table",
				   .group = COUNTERS_UNWINDING,
				   .is_incomplete = true},
	[COUNTER_TABLES_REFUSED] = {.name = "unwind tables refused",
				    .group = COUNTERS_UNWINDING,
				    .is_incomplete = true},
	[COUNTER_TABLES_UNSUPPORTED] = {.name = "ranges of code not supported",
					.group = COUNTERS_UNWINDING},
	[COUNTER_STACK_COPIES_WALKED] = {.name = "copies of stacks used",
					 .group = COUNTERS_UNWINDING},
	[COUNTER_STACK_COPY_BYTES] = {.name = "bytes of copies used", .group = COUNTERS_UNWINDING},
	[COUNTER_STACK_COPIES_GIVEN_UP] = {.name = "copies of stacks not used",
					   .group = COUNTERS_UNWINDING,
					   .is_incomplete = true},
};

uint64_t counters_lost(const uint64_t counts[COUNTER_COUNT])
{
	return counts[STACKBEAT_S_LOST_FULL] + counts[STACKBEAT_S_LOST_BAD_TAIL];
}

uint64_t counters_kernel_overhead_ns(const uint64_t counts[COUNTER_COUNT])
{
	return counts[STACKBEAT_S_OVERHEAD_NS] + counts[STACKBEAT_S_WORKER_OVERHEAD_NS] +
	       counts[STACKBEAT_S_PROBE_OVERHEAD_NS];
}

const char *cpu_part_name(enum cpu_part part)
{
	static const char *const names[CPU_PARTS] = {"sampling", "mappings", "unwind tables",
						     "reading",  "symbols",  "writing"};

	return names[part];
}

uint64_t counters_cpu_ns(const uint64_t counts[COUNTER_COUNT], enum cpu_part part)
{
	const uint64_t tables = counts[COUNTER_TABLES_CPU_NS],
		       symbols = counts[COUNTER_SYMBOLS_CPU_NS],
		       writing = counts[COUNTER_WRITING_CPU_NS], named = tables + symbols + writing,
		       all = counts[COUNTER_READER_OVERHEAD_NS];

	switch (part) {
	case CPU_SAMPLING:
		return counts[STACKBEAT_S_OVERHEAD_NS];
	case CPU_MAPPINGS:
		return counts[STACKBEAT_S_WORKER_OVERHEAD_NS] +
		       counts[STACKBEAT_S_PROBE_OVERHEAD_NS];
	case CPU_TABLES:
		return tables;
	case CPU_SYMBOLS:
		return symbols;
	case CPU_WRITING:
		return writing;
	default:
		return all - MIN(all, named);
	}
}

void counters_subtract(uint64_t counts[COUNTER_COUNT], const uint64_t earlier[COUNTER_COUNT])
{
	for (size_t i = 0; i < COUNTER_COUNT; i++) {
		if (!counter_table[i].is_level)
			counts[i] -= MIN(counts[i], earlier[i]);
	}
}

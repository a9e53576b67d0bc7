/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The events and rings of perf_event_open(2) for one session: a timer of CPU time (cpu-clock) for
 * each target on each CPU, and a ring for each CPU, into which all events of the CPU write.
 */
#ifndef STACKBEAT_SOURCE_PERF_EVENTS_H
#define STACKBEAT_SOURCE_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/cpulist.h"
#include "source/perf_record.h"

struct error;
struct perf_events;

/*
 * The caller keeps it, and what it points to, until the events are closed. Without ids and control
 * groups, all processes are sampled.
 */
struct perf_events_config {
	const uint32_t *pids, *tids;
	size_t pid_count, tid_count;
	const char *const *cgroups; /* as for cgroup_open() */
	size_t cgroup_count;
	const struct cpulist *cpus;
	uint64_t period_ns;
	uint32_t ring_size; /* bytes; less if the user may not lock so much */
	uint32_t stack_copy; /* bytes; 0: none */
	/*
	 * Else less for a ring that is too small for enough of them; and of whole CPUs, the size
	 * begins with stack_copy, and follows what stacks need up to stack_copy_max.
	 */
	bool stack_copy_given;
	uint32_t stack_copy_max;
	uint32_t parts; /* STACKBEAT_PART_* */
	bool has_target_options, has_command; /* as in struct session_config */
};

/*
 * Opens the events, which are disabled. Sets *events, which the caller closes with
 * perf_events_close() (it accepts NULL). Returns 0 or a negative errno value: -EACCES when the user
 * may not do this, -ESRCH when no process or thread of the config lives.
 */
int perf_events_open(struct perf_events **events, const struct perf_events_config *config,
		     struct error *error);
void perf_events_close(struct perf_events *events);

/* Returns the PERF_SAMPLE_* of the events. */
uint64_t perf_events_sample_type(const struct perf_events *events);

/*
 * Returns the bytes that are copied of each stack, at most; 0: none. Where sizes are adapted, the
 * least is COPY_SIZE_MIN.
 */
uint32_t perf_events_stack_copy(const struct perf_events *events);
bool perf_events_are_adapted(const struct perf_events *events);

/* Returns whether the kernel refuses to sample kernel mode: there are no samples of it. */
bool perf_events_exclude_kernel(const struct perf_events *events);

/* Enables or disables all events. */
void perf_events_enable(struct perf_events *events, bool enable);

/*
 * Opens events on CPUs that came online, unless threads are sampled, whose events stay. Call it
 * about once a second, between perf_events_release() and perf_events_snapshot(). `checks_counts`:
 * also where CPUs were offline in between, as after a suspend; this interrupts each CPU.
 */
void perf_events_follow_cpus(struct perf_events *events, bool checks_counts);

/*
 * These let the size of copies follow what stacks need. perf_events_note_stack(): of a stack that
 * was sampled on a CPU, a walk needs this many bytes. perf_events_note_lost(): the CPU's ring was
 * full. perf_events_adapt() changes the sizes; call it after these.
 */
void perf_events_note_stack(struct perf_events *events, uint32_t cpu, uint64_t need);
void perf_events_note_lost(struct perf_events *events, uint32_t cpu);
void perf_events_adapt(struct perf_events *events);

/*
 * Returns the CPU time of the sampled threads in which the events can fire, ns; 0: it is unknown,
 * as the events count whole CPUs or control groups, or kernel mode, which they don't sample.
 */
uint64_t perf_events_cpu_time(const struct perf_events *events);

/* Returns a descriptor to poll. It is readable when a ring is half full. */
int perf_events_fd(const struct perf_events *events);

/* Begins to read: from now on, perf_events_next() returns what is in the rings now. */
void perf_events_snapshot(struct perf_events *events);

/*
 * Returns the earliest record of all rings up to a time, or NULL. It is valid until the next call.
 * A record that is malformed is skipped with the others of its ring, and sets *problem.
 */
const struct perf_record *perf_events_next(struct perf_events *events, uint64_t until,
					   const char **problem);

/* Frees the room of the records that perf_events_next() has returned. */
void perf_events_release(struct perf_events *events);

#endif

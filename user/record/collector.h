/* SPDX-License-Identifier: GPL-2.0 */
/* Moves samples and metadata from the rings of a session into a stack table, and into windows. */
#ifndef STACKBEAT_RECORD_COLLECTOR_H
#define STACKBEAT_RECORD_COLLECTOR_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/gone_parts.h"
#include "record/table_jobs.h"
#include "record/window.h"

struct device;
struct cpulist;
struct error;
struct generated_code;
struct sample_queue;
struct mapped_files;
struct sandbox_server;
struct stack_copies;
struct stack_table;
struct file_cache;
struct unwind_tables;
struct verification;
struct address_spaces;

/* How long the kernel may take to write the metadata of a stopped session, in seconds. */
#define COLLECT_WAIT_S 10

struct collector {
	struct window window; /* what has left the stack table since the last collector_take() */
	struct stack_table *stacks;
	const struct labels *labels;
	struct mapped_files *files;
	struct address_spaces *spaces;
	struct sample_queue *queue;
	struct unwind_tables *tables; /* NULL: none are used */
	struct stack_copies *copies; /* NULL: none are used */
	struct verification *verification; /* NULL: none */
	const struct device *device; /* opens mapped files, gets unwind tables */
	bool names_kernel; /* functions of the kernel get names */
	struct gone_parts gone; /* of kernel code, for the samples of this window */
	struct generated_code *generated; /* which comes and goes; NULL: unknown */
	uint64_t generated_lost; /* announcements of it, which `gone` knows */
	int64_t gone_since; /* ns; parts that went before are left out */
	void (*message)(const char *text, void *arg); /* see struct collector_unwinding */
	void *message_arg;
	int64_t next_check; /* ns: when to check for processes that have ended */
	size_t memory; /* bytes for all of these; 0: no limit */
	bool moments_are_full; /* the next samples are not kept apart, for lack of memory */
	bool keeps_whole; /* a window that is half of `memory` is to be taken, and not reduced */
	int64_t next_watch; /* ns: when to look for files that hang, and at `other_bytes` */
	size_t other_bytes; /* of spaces, queue and files, at the last look */
	size_t bound_at; /* bytes in use from which on memory is bounded next */
};

/*
 * `labels` belong to the samples; the chosen ones distinguish them. `save_directory`
 * and `sandbox` are as for mapped_files_save(), or NULL. All must outlive the collector.
 * `no_symbolize`: no symbols are read. Returns 0 or a negative errno value; collector_clear() is to
 * be called in both cases, and `collector` must not move until then.
 */
int collector_init(struct collector *collector, const struct labels *labels,
		   const char *save_directory, const struct sandbox_server *sandbox,
		   bool no_symbolize, struct error *error);
void collector_clear(struct collector *collector);

/*
 * Starts collecting from a device, which must stay open until collector_stop(). `same_pid_ns`:
 * process IDs from the kernel are as in this process' /proc.
 */
void collector_start(struct collector *collector, const struct device *device, bool same_pid_ns);

/*
 * From now on, generated code of the kernel that goes keeps its name, where the rights of the user
 * and the kernel allow it; `is_perf` and `cpus`, which must outlive the collector, are as for
 * generated_code_open(). Call it before the session is started, if samples have a kernel part.
 */
void collector_name_generated(struct collector *collector, bool is_perf,
			      const struct cpulist *cpus);

/* Closes its events: in a process that was forked, whose parent goes on. */
void collector_leave_generated(struct collector *collector);

/* Returns the number of parts of kernel code that may have samples without names. */
uint64_t collector_names_dropped(const struct collector *collector);

struct collector_unwinding {
	const struct sandbox_server *sandbox; /* of worker_main() (symbolize/worker.h) */
	uint16_t max_depth; /* user frames */
	uint32_t copy_size; /* bytes of the stack, see STACKBEAT_A_STACK_COPY; 0: none */
	struct file_cache *cache; /* of unwind tables; NULL: none */
	bool verifies; /* samples with extra copies are unwound again by collector_verify() */
	/* Called with one line per unwind table. NULL: off. */
	void (*message)(const char *text, void *arg);
	void *arg;
};

/*
 * From now on, makes unwind tables for the session, and walks copies of stacks by them. Call it
 * after collector_start() and collector_limit_memory(), before the session is started. Returns 0 or
 * a negative errno value.
 */
int collector_use_tables(struct collector *collector, const struct collector_unwinding *unwinding,
			 struct error *error);

/*
 * Sets the events of `fds` for which collector_drain() is to be called, beside the events of the
 * device. Returns their number.
 */
#define COLLECTOR_FDS (UNWIND_TABLES_FDS + 1)
size_t collector_poll(const struct collector *collector, struct pollfd fds[COLLECTOR_FDS]);

/* Drains the rings once. Returns 0 or a negative errno value. */
int collector_drain(struct collector *collector, struct device *device, struct error *error);

/*
 * Drains the rings of a stopped session until all metadata has arrived, and finishes opening the
 * mapped files. If metadata is missing after COLLECT_WAIT_S, `warning` says so; else it is "".
 * Returns 0, or the first error as a negative errno value, after it has stored all samples that can
 * be read.
 */
int collector_finish(struct collector *collector, struct device *device, struct error *warning,
		     struct error *error);

/*
 * Sets the budget of memory: when half of it is used, stacks are merged (window_reduce()), as
 * symbolizing takes memory, too. A quarter is for samples whose metadata is pending. With
 * `keeps_whole`, collector_is_full() is true then, and stacks are merged when all of it is used.
 * A sixth is for the times of samples that are kept apart (LABEL_MOMENT): with `keeps_whole`,
 * collector_is_full() is true when it is used, or else later samples have no times.
 */
void collector_limit_memory(struct collector *collector, size_t bytes, bool keeps_whole);
bool collector_is_full(const struct collector *collector);
/* Whether collector_take() is due to keep the budget: also, it gives memory back. */
bool collector_take_is_due(const struct collector *collector);

/*
 * Moves all samples since the last call to `taken`, which the caller frees with window_clear().
 * Returns 0, or a negative errno value: then they stay, and `taken` is empty.
 */
int collector_take(struct collector *collector, struct window *taken, struct error *error);

/*
 * As collector_take(), for the last time: nothing is added any more. Where memory is not enough for
 * all samples, `taken` has those for which it is, and the error says how many are missing.
 */
int collector_take_last(struct collector *collector, struct window *taken, struct error *error);

/*
 * Sets *window to all samples since the last collector_take(), which stay in the collector. It is
 * valid until the next call of another function.
 */
int collector_peek(struct collector *collector, struct window **window, struct error *error);

/*
 * Unwinds the samples with extra copies again, see verification_run(). Call it after
 * collector_finish().
 */
void collector_verify(struct collector *collector, const struct sandbox_server *sandbox,
		      unsigned int timeout_s);

/* Stops opening mapped files, and following generated code; the device is not used afterwards. */
void collector_stop(struct collector *collector);

#endif

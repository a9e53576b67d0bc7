/* SPDX-License-Identifier: GPL-2.0 */
/* Moves samples and metadata from the rings of a session into a stack table. */
#ifndef STACKBEAT_RECORD_COLLECTOR_H
#define STACKBEAT_RECORD_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct device;
struct error;
struct sample_queue;
struct mapped_files;
struct stack_table;
struct address_spaces;

/* How long the kernel may take to write the metadata of a stopped session, in seconds. */
#define COLLECT_WAIT_S 10

struct collector {
	struct stack_table *stacks;
	struct mapped_files *files;
	struct address_spaces *spaces;
	struct sample_queue *queue;
	const struct device *device; /* opens mapped files */
	int64_t next_check; /* ns: when to check for processes that have ended */
};

/*
 * `labels` (LABEL_SET()s) are those by which samples are distinguished. `save_directory` is the
 * directory of mapped_files_save(), or NULL, and must outlive the collector. `no_symbolize`: no
 * symbols are read. Returns 0 or a negative errno value; collector_clear() is to be called in both
 * cases, and `collector` must not move until then.
 */
int collector_init(struct collector *collector, uint32_t labels, const char *save_directory,
		   bool no_symbolize, struct error *error);
void collector_clear(struct collector *collector);

/*
 * Starts collecting from a device, which must stay open until collector_stop(). `same_pid_ns`:
 * process IDs from the kernel are those of this process' /proc.
 */
void collector_start(struct collector *collector, const struct device *device, bool same_pid_ns);

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

/* Stops opening mapped files; the device is not used afterwards. */
void collector_stop(struct collector *collector);

#endif

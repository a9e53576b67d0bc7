/* SPDX-License-Identifier: GPL-2.0 */
/* From the rings of a session into a profile: samples, and what is told of them. */
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

/* How long a stopped session may go on to tell of the samples that were taken, in seconds. */
#define COLLECT_WAIT_S 10

struct collector {
	struct stack_table *profile;
	struct mapped_files *objects;
	struct address_spaces *spaces;
	struct sample_queue *intake;
	const struct device *device; /* where objects are had from */
	int64_t next_look; /* ns: when to look which processes have ended */
};

/*
 * For samples that differ in one of `labels` (LABEL_SET()s). `keep` is the directory of
 * mapped_files_save(), or NULL, and must stay. `nameless`: no names are asked for. Returns 0 or a
 * negative errno value; collector_clear() is to be called in both cases, and what `collector`
 * points to must not move until then.
 */
int collector_init(struct collector *collector, uint32_t labels, const char *keep, bool nameless,
		   struct error *error);
void collector_clear(struct collector *collector);

/*
 * From now on, collects from a device, which must stay until collector_finish(). `same_pid_ns`:
 * the process ids that the kernel tells are those of this process' /proc.
 */
void collector_start(struct collector *collector, const struct device *device, bool same_pid_ns);

/* Takes what is in the rings. Returns 0 or a negative errno value. */
int collector_drain(struct collector *collector, struct device *device, struct error *error);

/*
 * When the session is stopped: takes all that is still to come, and reads the objects. If
 * the kernel does not come to an end with that, `warning` says so; else it is "". Returns
 * 0 or a negative errno value.
 */
int collector_finish(struct collector *collector, struct device *device, struct error *warning,
		     struct error *error);

/* Reads no more objects: the device is not used afterwards. */
void collector_stop(struct collector *collector);

#endif

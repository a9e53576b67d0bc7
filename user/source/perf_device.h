/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session of perf_event_open(2) instead of the module's: a struct device with the functions of
 * source/device.h. It turns records of perf events into records of stackbeat.h in memory. Each
 * sample has a copy of its user stack, which the reader walks by its unwind tables.
 */
#ifndef STACKBEAT_SOURCE_PERF_DEVICE_H
#define STACKBEAT_SOURCE_PERF_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "source/device.h"
#include "source/perf_events.h"

struct netlink_session;

struct perf_device_config {
	struct perf_events_config events;
	char *const *excluded_comms;
	size_t excluded_comm_count;
	bool no_inherit; /* of pids: forked processes are not sampled */
	uint32_t max_depth; /* user frames of a call chain by frame pointers */
};

/* Returns the device, without events, or NULL when out of memory. device_close() frees it. */
struct device *perf_device_new(void);

/*
 * Opens the events. `config` is used until the device is closed. Returns 0 or a negative errno
 * value of perf_events_open().
 */
int perf_device_configure(struct device *device, const struct perf_device_config *config,
			  struct error *error);

/* Returns the events of a configured device. */
const struct perf_events *perf_device_events(const struct device *device);

/* Starts or stops the events. Returns 0 or -ENOMEM. */
int perf_device_set_state(struct device *device, uint32_t state, struct error *error);

/* Sets the counters. */
void perf_device_get(const struct device *device, struct netlink_session *got);

#endif

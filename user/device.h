/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/stackbeat: a session and its mapped rings. */
#ifndef STACKBEAT_DEVICE_H
#define STACKBEAT_DEVICE_H

#include <stdint.h>

#include "cpulist.h"
#include "decode.h"

struct device;
struct error;

/*
 * Opens a session. Returns 0 and the device, to be closed with device_close()
 * (which takes NULL too); or a negative errno value: -ENOENT when there is no
 * device (the module is not loaded), -EPERM and -EACCES without rights, -EUSERS
 * when too many sessions are open, -EPROTO when the module speaks another ABI.
 */
int device_open(struct device **device, struct error *error);
void device_close(struct device *device);

/* The file descriptor to poll. Owned by the device. */
int device_fd(const struct device *device);

/* The id of the session, for control.h. */
uint32_t device_session(const struct device *device);

/*
 * Maps the rings of the listed CPUs that are not mapped yet. Called again, it
 * does nothing unless a ring was allocated since. Returns 0 or a negative
 * errno value.
 */
int device_map(struct device *device, const struct cpulist *cpus, struct error *error);

/*
 * Hands all samples in the mapped rings to `fn` (see decode.h) and gives their
 * room back. Returns 0 or a negative errno value.
 */
int device_drain(struct device *device, decode_sample_fn *fn, void *arg, struct error *error);

#endif

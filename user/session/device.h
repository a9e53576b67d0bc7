/* SPDX-License-Identifier: GPL-2.0 */
/* /dev/stackbeat: a session and its mapped rings. */
#ifndef STACKBEAT_SESSION_DEVICE_H
#define STACKBEAT_SESSION_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "session/cpulist.h"
#include "session/ring_decode.h"

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

/* The id of the session, for netlink.h. */
uint32_t device_session(const struct device *device);

/*
 * Maps the metadata ring, and the rings of the listed CPUs that are not mapped
 * yet. Called again, it does nothing unless a ring was allocated since. Returns 0
 * or a negative errno value.
 */
int device_map(struct device *device, const struct cpulist *cpus, struct error *error);

/*
 * A drain: device_snapshot_heads() notes how far the mapped rings are filled. Then the
 * metadata is drained, which tells of the samples up to there; if device_pending()
 * was false at any time since the note and before the metadata was drained, all of
 * it. Then device_drain() hands the samples up to there to `repeat` and `fn` (see ring_decode.h)
 * and gives their room back. Both drains return 0 or a negative errno value.
 */
void device_snapshot_heads(struct device *device);
bool device_pending(const struct device *device);
int device_drain_metadata(struct device *device, const struct metadata_handler *handler,
			  struct error *error);
int device_drain(struct device *device, decode_fast_path_fn *repeat, decode_sample_fn *fn,
		 void *arg, struct error *error);

/*
 * A file that was mapped, by its object id: a file descriptor that the caller closes,
 * or what STACKBEAT_IOC_FILE_OPEN fails with, negative. May be called from any
 * thread, as may device_file_release(), which returns 0 or a negative errno value.
 */
int device_file_open(const struct device *device, uint64_t object);
int device_file_release(const struct device *device, uint64_t object);

#endif

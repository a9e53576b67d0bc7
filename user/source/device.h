/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A session of a source of samples: of /dev/stackbeat with its mapped rings, or what stands for it
 * (source/device_ops.h).
 */
#ifndef STACKBEAT_SOURCE_DEVICE_H
#define STACKBEAT_SOURCE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "source/cpulist.h"
#include "source/ring_decode.h"

struct device;
struct error;
struct stackbeat_unwind_table;

/*
 * Opens a session of the module. Returns 0 and sets *device, which the caller closes with
 * device_close() (it accepts NULL); or a negative errno value: -ENOENT when there is no device (the
 * module is not loaded), -EPERM and -EACCES without permission, -EUSERS when too many sessions are
 * open, -EPROTO when the module has another ABI.
 */
int device_open(struct device **device, struct error *error);
void device_close(struct device *device);

/*
 * Closes in a forked process what would keep the session, and its files. It takes no lock: another
 * thread of the parent may have held one at the fork. The device is of no use afterwards.
 */
void device_leave(struct device *device);

/* Returns the file descriptor to poll, which the device owns. */
int device_fd(const struct device *device);

/* Returns the id of a session of the module, for netlink.h. */
uint32_t device_session(const struct device *device);

/*
 * Maps the metadata ring, and the rings of the listed CPUs that are not mapped yet. Does nothing if
 * no ring was allocated since the previous call. Returns 0 or a negative errno value.
 */
int device_map(struct device *device, const struct cpulist *cpus, struct error *error);

/*
 * One drain of the rings: device_snapshot_heads() records the head of each sample ring.
 * device_drain_metadata() then passes the metadata records to `handler`. These include all metadata
 * of the samples below the recorded heads, if device_pending() returned false at some time between
 * the snapshot and this call. device_drain() then passes the samples below the recorded heads to
 * `fast_path` and `fn` (see ring_decode.h). They stay valid until device_release(), which is
 * called after each device_drain(), releases the room of the handled samples. Both drains return 0
 * or a negative errno value: device_drain() has drained the other rings then, and returns the first
 * error.
 */
void device_snapshot_heads(struct device *device);
bool device_pending(const struct device *device);
int device_drain_metadata(struct device *device, const struct metadata_handler *handler,
			  struct error *error);
int device_drain(struct device *device, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
		 void *arg, struct error *error);
void device_release(struct device *device);

/*
 * Opens a mapped file by its id. Returns an fd, which the caller closes, or the negative errno
 * value of STACKBEAT_IOC_FILE_OPEN. device_file_release() drops the session's reference to the
 * file, and returns 0 or a negative errno value. Both may be called from any thread.
 */
int device_file_open(const struct device *device, uint64_t file);
int device_file_release(const struct device *device, uint64_t file);

/*
 * Passes the unwind table of a mapped file (or of STACKBEAT_FILE_VDSO) to the module; NULL: the
 * file has none. Returns 0 or the negative errno value of STACKBEAT_IOC_UNWIND_TABLE.
 */
int device_push_unwind_table(const struct device *device, uint64_t file,
			     const struct stackbeat_unwind_table *table);

/*
 * Passes moved text to the module. Returns 0 or the negative errno value of
 * STACKBEAT_IOC_MOVED_TEXT.
 */
int device_move_text(const struct device *device, const struct stackbeat_moved_text *moved);

/*
 * Reads the functions of a part of a kernel module that may be gone. Returns 0 or the negative
 * errno value of STACKBEAT_IOC_MODULE_SYMBOLS: -ENOENT if there is no such part, or no such source.
 */
int device_module_symbols(const struct device *device, struct stackbeat_module_symbols *symbols);

/*
 * Says that a walk needs this many bytes of a stack that was sampled on a CPU, by which the source
 * may choose how much it copies.
 */
void device_note_stack(const struct device *device, uint32_t cpu, uint64_t need);

#endif

/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A device of this test program, instead of the one of source/device.h, and a session with it: its
 * rings have the records that the test puts there, as the kernel writes them.
 */
#ifndef STACKBEAT_TEST_FAKE_DEVICE_H
#define STACKBEAT_TEST_FAKE_DEVICE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <stackbeat.h>

#include "lib/error.h"
#include "source/device.h"
#include "source/session.h"

#ifndef FAKE_RING_SIZE /* a power of two */
#define FAKE_RING_SIZE (1u << 24)
#endif

/* A ring that begins anew when it was drained. */
struct fake_ring {
	uint8_t *data; /* FAKE_RING_SIZE bytes */
	uint64_t head;
};

struct device {
	struct fake_ring samples, metadata;
	int event; /* always readable: the reader never sleeps */
	/* What the functions below return. */
	struct netlink_session counters;
	int map_err, get_err, stop_err, drain_err;
	unsigned int drains;
	uint64_t drained; /* bytes of samples */
	bool pending; /* metadata, for ever */
	unsigned int pending_calls; /* calls of device_pending() that return true */
	/* Called before each drain; NULL: never. */
	void (*before_drain)(struct device *device);
};

static struct device fake_device;

static inline void fake_device_init(void)
{
	fake_device = (struct device){
		.samples.data = malloc(FAKE_RING_SIZE),
		.metadata.data = malloc(FAKE_RING_SIZE),
		.event = eventfd(1, EFD_CLOEXEC),
	};
	if (!fake_device.samples.data || !fake_device.metadata.data || fake_device.event < 0)
		abort();
}

static inline void fake_device_clear(void)
{
	free(fake_device.samples.data);
	free(fake_device.metadata.data);
	close(fake_device.event);
}

static inline void fake_put(struct fake_ring *ring, const void *record, size_t size)
{
	if (ring->head + size > FAKE_RING_SIZE)
		abort();
	memcpy(ring->data + ring->head, record, size);
	ring->head += size;
}

/* Records of an address space, of a mapping of 1 MiB in it, and of the file /bin/programID. */

static inline void fake_put_space(uint64_t id, uint32_t pid, const char *comm)
{
	union {
		struct stackbeat_address_space space;
		char bytes[sizeof(struct stackbeat_address_space) + 16];
	} any = {.space = {
			 .record = {.type = STACKBEAT_RECORD_ADDRESS_SPACE, .size = sizeof(any)},
			 .address_space = id,
			 .pid = pid,
			 .ns_pid = pid,
			 .generation = 1,
		 }};

	snprintf(any.space.comm, sizeof(any.space.comm), "%s", comm);
	memcpy(any.bytes + offsetof(struct stackbeat_address_space, cgroup_path), "/build", 7);
	fake_put(&fake_device.metadata, &any, sizeof(any));
}

static inline void fake_put_mapping(uint64_t space, uint64_t start, uint64_t file)
{
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = STACKBEAT_MAPPING_VADDR,
			   .size = sizeof(mapping)},
		.address_space = space,
		.start = start,
		.end = start + 0x100000,
		.vaddr = 0x1000,
		.file = file,
		.generation = 1,
	};

	fake_put(&fake_device.metadata, &mapping, sizeof(mapping));
}

/* An event of executable anonymous memory. */
static inline void fake_put_anonymous(uint64_t space, uint64_t start, uint32_t generation)
{
	const struct stackbeat_mapping mapping = {
		.record = {.type = STACKBEAT_RECORD_MAPPING,
			   .flags = STACKBEAT_MAPPING_EVENT,
			   .size = sizeof(mapping)},
		.address_space = space,
		.start = start,
		.end = start + 0x1000,
		.generation = generation,
	};

	fake_put(&fake_device.metadata, &mapping, sizeof(mapping));
}

static inline void fake_put_file(uint64_t id)
{
	union {
		struct stackbeat_file file;
		char bytes[sizeof(struct stackbeat_file) + 24];
	} any = {.file = {
			 .record = {.type = STACKBEAT_RECORD_FILE, .size = sizeof(any)},
			 .file = id,
			 .inode = id,
			 .size = 4096,
		 }};

	snprintf(any.bytes + offsetof(struct stackbeat_file, path), 24, "/bin/program%u",
		 (unsigned int)id);
	fake_put(&fake_device.metadata, &any, sizeof(any));
}

/* Removes the records before `tail`. */
static inline void fake_advance(struct fake_ring *ring, uint64_t tail)
{
	ring->head -= tail;
	memmove(ring->data, ring->data + tail, ring->head);
}

void device_snapshot_heads(struct device *device)
{
	(void)device;
}

bool device_pending(const struct device *device)
{
	if (!fake_device.pending_calls)
		return device->pending;
	fake_device.pending_calls--;
	return true;
}

int device_drain_metadata(struct device *device, const struct metadata_handler *handler,
			  struct error *error)
{
	uint64_t tail = 0;
	int err = decode_metadata(device->metadata.data, FAKE_RING_SIZE, &tail,
				  device->metadata.head, handler, error);

	fake_advance(&device->metadata, tail);
	return err;
}

int device_drain(struct device *device, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
		 void *arg, struct error *error)
{
	device->drained = 0;
	return decode_records(device->samples.data, FAKE_RING_SIZE, &device->drained,
			      device->samples.head, fast_path, fn, arg, error);
}

/* What is released may be anything from then on. */
void device_release(struct device *device)
{
	memset(device->samples.data, 0xa5, device->drained);
	fake_advance(&device->samples, device->drained);
	device->drained = 0;
}

int device_file_open(const struct device *device, uint64_t file)
{
	(void)device;
	(void)file;
	return -ENOENT;
}

int device_file_release(const struct device *device, uint64_t file)
{
	(void)device;
	(void)file;
	return 0;
}

int device_push_unwind_table(const struct device *device, uint64_t file,
			     const struct stackbeat_unwind_table *table)
{
	(void)device;
	(void)file;
	(void)table;
	return 0;
}

int device_move_text(const struct device *device, const struct stackbeat_moved_text *moved)
{
	(void)device;
	(void)moved;
	return 0;
}

int device_module_symbols(const struct device *device, struct stackbeat_module_symbols *symbols)
{
	(void)device;
	(void)symbols;
	return -ENOENT;
}

void device_note_stack(const struct device *device, uint32_t cpu, uint64_t need)
{
	(void)device;
	(void)cpu;
	(void)need;
}

int device_fd(const struct device *device)
{
	return device->event;
}

int session_open(struct session *session, enum session_source source, struct error *error)
{
	(void)source;
	(void)error;
	session->device = &fake_device;
	session->same_pid_ns = true;
	session->stack_copy = 8 << 10;
	session->rate = 99;
	return 0;
}

void session_close(struct session *session)
{
	session->device = NULL;
}

int session_configure(struct session *session, const struct session_config *config, pid_t child,
		      struct error *error)
{
	(void)child;
	(void)error;
	session->cpulist = (struct cpulist){.all = true};
	if (config->cpus)
		session->cpulist = config->cpulist;
	return 0;
}

int session_set_state(struct session *session, uint32_t state, struct error *error)
{
	if (state != STACKBEAT_STATE_STOPPED || !session->device->stop_err)
		return 0;
	return error_errno(error, -session->device->stop_err, "can't stop");
}

int session_get(struct session *session, struct netlink_session *got, struct error *error)
{
	if (session->device->get_err)
		return error_errno(error, -session->device->get_err, "can't read the counters");
	*got = session->device->counters;
	return 0;
}

int session_map(struct session *session, struct error *error)
{
	struct device *device = session->device;

	if (device->before_drain)
		device->before_drain(device);
	device->drains++;
	return device->map_err ? error_errno(error, -device->map_err, "can't map the ring of CPU 1")
			       : 0;
}

#endif

// SPDX-License-Identifier: GPL-2.0
#include "source/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stackbeat_unwind.h>

#include "lib/error.h"
#include "source/device_ops.h"

/* Rounds in which a drain empties the metadata ring, at most. */
#define METADATA_ROUNDS_MAX 16

struct ring {
	struct stackbeat_consumer_page *consumer; /* NULL: not mapped */
	const struct stackbeat_producer_page *producer;
	const uint8_t *data;
	uint32_t size;
	uint64_t snapshot; /* head at device_snapshot_heads() */
	uint64_t drained; /* up to here, device_release() releases the records */
};

/* The device of the module. */
struct module_device {
	struct device device;
	int fd;
	size_t page_size;
	const struct stackbeat_session_page *page;
	uint32_t rings_seen; /* page->rings when they were last mapped */
	uint32_t cpus;
	struct ring *rings; /* by CPU */
	struct ring metadata;
};

/* Sets the message for an errno value of open(). Returns a negative errno value. */
static int device_open_error(int code, struct error *error)
{
	switch (code) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		error_set(error, ENOENT,
			  "there is no " STACKBEAT_DEVICE ": the module is not loaded; "
			  "try 'stackbeat load'");
		return -ENOENT;
	case EOPNOTSUPP:
		return error_set(error, code,
				 STACKBEAT_DEVICE ": this kernel lacks a function or a tracepoint "
						  "that the module has to probe, or its probes are "
						  "disabled: kernel.ftrace_enabled and "
						  "/sys/kernel/debug/kprobes/enabled must be 1");
	case ENOMEM:
		return error_set(error, code,
				 STACKBEAT_DEVICE ": no memory for the session, or the limit of "
						  "locked memory (ulimit -l) is too small for "
						  "another session");
	case EACCES:
	case EPERM:
		return error_set(error, code,
				 STACKBEAT_DEVICE ": permission denied: profiling needs root or "
						  "CAP_PERFMON; try sudo");
	case EUSERS:
		return error_set(error, code,
				 STACKBEAT_DEVICE
				 ": too many sessions are open: the limit is %u, "
				 "without CAP_PERFMON %u per user and %u for all users; "
				 "see 'stackbeat status'",
				 STACKBEAT_SESSIONS_MAX, STACKBEAT_RESTRICTED_USER_SESSIONS_MAX,
				 STACKBEAT_RESTRICTED_SESSIONS_MAX);
	default:
		return error_errno(error, code, STACKBEAT_DEVICE);
	}
}

static void unmap_ring(const struct module_device *device, struct ring *ring)
{
	if (!ring->consumer)
		return;
	munmap(ring->consumer, device->page_size);
	munmap((void *)ring->producer, device->page_size + ring->size);
	ring->consumer = NULL;
}

static void module_close(struct device *base)
{
	struct module_device *device = (struct module_device *)base;

	for (uint32_t cpu = 0; device->rings && cpu < device->cpus; cpu++)
		unmap_ring(device, &device->rings[cpu]);
	unmap_ring(device, &device->metadata);
	free(device->rings);
	if (device->page)
		munmap((void *)device->page, device->page_size);
	if (device->fd >= 0)
		close(device->fd);
	free(device);
}

static int module_fd(const struct device *base)
{
	const struct module_device *device = (const struct module_device *)base;

	return device->fd;
}

uint32_t device_session(const struct device *device)
{
	return ((const struct module_device *)device)->page->session;
}

/* `offset`: offset of the consumer page. `size`: bytes of the data. */
static int map_ring(const struct module_device *device, struct ring *ring, off_t offset,
		    uint32_t size)
{
	void *consumer, *producer;

	consumer = mmap(NULL, device->page_size, PROT_READ | PROT_WRITE, MAP_SHARED, device->fd,
			offset);
	if (consumer == MAP_FAILED)
		return -errno;
	producer = mmap(NULL, device->page_size + size, PROT_READ, MAP_SHARED, device->fd,
			offset + (off_t)device->page_size);
	if (producer == MAP_FAILED) {
		int code = errno;

		munmap(consumer, device->page_size);
		return -code;
	}
	ring->consumer = consumer;
	ring->producer = producer;
	ring->data = (const uint8_t *)producer + device->page_size;
	ring->size = size;
	ring->drained = ring->consumer->tail;
	return 0;
}

static int module_map(struct device *base, const struct cpulist *cpus, struct error *error)
{
	struct module_device *device = (struct module_device *)base;
	uint32_t rings = __atomic_load_n(&device->page->rings, __ATOMIC_ACQUIRE);
	uint32_t cpu;
	int err;

	if (!device->metadata.consumer) {
		err = map_ring(device, &device->metadata, STACKBEAT_OFFSET_META,
			       STACKBEAT_META_RING_SIZE);
		if (err)
			return error_errno(error, -err, "can't map the metadata ring");
	}
	if (rings && rings == device->rings_seen)
		return 0;
	for (cpu = 0; cpu < device->cpus; cpu++) {
		if (device->rings[cpu].consumer || !cpulist_has(cpus, cpu))
			continue;
		err = map_ring(device, &device->rings[cpu], STACKBEAT_OFFSET_CPU(cpu),
			       device->page->ring_size);
		/* ENXIO: the CPU is offline; it may come online later. */
		if (err && err != -ENXIO)
			return error_errno(error, -err, "can't map the ring of CPU %u", cpu);
	}
	device->rings_seen = rings;
	return 0;
}

/* The barriers of kmod/ring.h: (C). */
static uint64_t ring_head(const struct ring *ring)
{
	return __atomic_load_n(&ring->producer->head, __ATOMIC_ACQUIRE);
}

/* The barriers of kmod/ring.h: (D). */
static void ring_advance_tail(struct ring *ring, uint64_t tail)
{
	__atomic_store_n(&ring->consumer->tail, tail, __ATOMIC_RELEASE);
}

static void module_snapshot_heads(struct device *base)
{
	struct module_device *device = (struct module_device *)base;

	for (uint32_t cpu = 0; cpu < device->cpus; cpu++) {
		struct ring *ring = &device->rings[cpu];

		if (ring->consumer)
			ring->snapshot = ring_head(ring);
	}
}

static bool module_pending(const struct device *base)
{
	const struct module_device *device = (const struct module_device *)base;

	return __atomic_load_n(&device->page->metadata_pending, __ATOMIC_ACQUIRE);
}

static int module_drain_metadata(struct device *base, const struct metadata_handler *handler,
				 struct error *error)
{
	struct module_device *device = (struct module_device *)base;
	struct ring *ring = &device->metadata;
	uint64_t head, tail;
	int err = 0;

	/* Records that wait in the kernel for room follow as soon as there is some. */
	for (int round = 0; round < METADATA_ROUNDS_MAX && !err && ring->consumer; round++) {
		head = ring_head(ring);
		tail = ring->consumer->tail;
		if (tail == head)
			break;
		err = decode_metadata(ring->data, ring->size, &tail, head, handler, error);
		ring_advance_tail(ring, tail);
	}
	return err;
}

static int module_drain(struct device *base, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
			void *arg, struct error *error)
{
	struct module_device *device = (struct module_device *)base;
	struct error ring_error = {""};
	int err = 0, ring_err;

	for (uint32_t cpu = 0; cpu < device->cpus; cpu++) {
		struct ring *ring = &device->rings[cpu];

		if (!ring->consumer)
			continue;
		ring->drained = ring->consumer->tail;
		if (ring->drained == ring->snapshot)
			continue;
		ring_err = decode_records(ring->data, ring->size, &ring->drained, ring->snapshot,
					  fast_path, fn, arg, &ring_error);
		error_keep_first(&err, error, ring_err, &ring_error);
	}
	return err;
}

static void module_release(struct device *base)
{
	struct module_device *device = (struct module_device *)base;

	for (uint32_t cpu = 0; cpu < device->cpus; cpu++) {
		struct ring *ring = &device->rings[cpu];

		if (ring->consumer && ring->drained != ring->consumer->tail)
			ring_advance_tail(ring, ring->drained);
	}
}

static int module_file_open(const struct device *base, uint64_t file)
{
	const struct module_device *device = (const struct module_device *)base;
	int fd = ioctl(device->fd, STACKBEAT_IOC_FILE_OPEN, &file);

	return fd < 0 ? -errno : fd;
}

static int module_file_release(const struct device *base, uint64_t file)
{
	const struct module_device *device = (const struct module_device *)base;

	return ioctl(device->fd, STACKBEAT_IOC_FILE_RELEASE, &file) ? -errno : 0;
}

static int module_push_unwind_table(const struct device *base, uint64_t file,
				    const struct stackbeat_unwind_table *table)
{
	const struct module_device *device = (const struct module_device *)base;
	const struct stackbeat_unwind_push push = {
		.file = file,
		.table = (uintptr_t)table,
		.size = table ? table->size : 0,
	};

	return ioctl(device->fd, STACKBEAT_IOC_UNWIND_TABLE, &push) ? -errno : 0;
}

static int module_move_text(const struct device *base, const struct stackbeat_moved_text *moved)
{
	const struct module_device *device = (const struct module_device *)base;

	return ioctl(device->fd, STACKBEAT_IOC_MOVED_TEXT, moved) ? -errno : 0;
}

static int module_module_symbols(const struct device *base,
				 struct stackbeat_module_symbols *symbols)
{
	const struct module_device *device = (const struct module_device *)base;

	return ioctl(device->fd, STACKBEAT_IOC_MODULE_SYMBOLS, symbols) ? -errno : 0;
}

/* Few samples of the module have copies. */
static void module_note_stack(const struct device *base, uint32_t cpu, uint64_t need)
{
	(void)base;
	(void)cpu;
	(void)need;
}

static const struct device_ops module_ops = {
	.close = module_close,
	.leave = module_close,
	.fd = module_fd,
	.map = module_map,
	.snapshot_heads = module_snapshot_heads,
	.pending = module_pending,
	.drain_metadata = module_drain_metadata,
	.drain = module_drain,
	.release = module_release,
	.file_open = module_file_open,
	.file_release = module_file_release,
	.push_unwind_table = module_push_unwind_table,
	.move_text = module_move_text,
	.module_symbols = module_module_symbols,
	.note_stack = module_note_stack,
};

int device_open(struct device **opened, struct error *error)
{
	struct module_device *device = calloc(1, sizeof(*device));
	void *page;
	int err;

	if (!device)
		return error_errno(error, ENOMEM, "can't open a session");
	device->device.ops = &module_ops;
	device->page_size = sysconf(_SC_PAGESIZE);
	device->fd = open(STACKBEAT_DEVICE, O_RDWR | O_CLOEXEC);
	if (device->fd < 0) {
		err = device_open_error(errno, error);
		goto failed;
	}
	page = mmap(NULL, device->page_size, PROT_READ, MAP_SHARED, device->fd,
		    STACKBEAT_OFFSET_SESSION);
	if (page == MAP_FAILED) {
		err = error_errno(error, errno, STACKBEAT_DEVICE ": can't map the session");
		goto failed;
	}
	device->page = page;
	if (device->page->magic != STACKBEAT_MAGIC || device->page->abi != STACKBEAT_ABI) {
		err = error_set(error, EPROTO,
				"the loaded module speaks another version of the interface (%u) "
				"than this command (%u); try 'stackbeat unload', then 'stackbeat "
				"load'",
				device->page->abi, STACKBEAT_ABI);
		goto failed;
	}
	device->cpus = device->page->cpus;
	device->rings = calloc(device->cpus, sizeof(*device->rings));
	if (!device->rings) {
		err = error_errno(error, ENOMEM, "can't open a session");
		goto failed;
	}
	*opened = &device->device;
	return 0;

failed:
	module_close(&device->device);
	return err;
}

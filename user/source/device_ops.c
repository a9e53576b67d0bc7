// SPDX-License-Identifier: GPL-2.0
#include "source/device_ops.h"

#include <stddef.h>

void device_close(struct device *device)
{
	if (device)
		device->ops->close(device);
}

void device_leave(struct device *device)
{
	if (device)
		device->ops->leave(device);
}

int device_fd(const struct device *device)
{
	return device->ops->fd(device);
}

int device_map(struct device *device, const struct cpulist *cpus, struct error *error)
{
	return device->ops->map(device, cpus, error);
}

void device_snapshot_heads(struct device *device)
{
	device->ops->snapshot_heads(device);
}

bool device_pending(const struct device *device)
{
	return device->ops->pending(device);
}

int device_drain_metadata(struct device *device, const struct metadata_handler *handler,
			  struct error *error)
{
	return device->ops->drain_metadata(device, handler, error);
}

int device_drain(struct device *device, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
		 void *arg, struct error *error)
{
	return device->ops->drain(device, fast_path, fn, arg, error);
}

void device_release(struct device *device)
{
	device->ops->release(device);
}

int device_file_open(const struct device *device, uint64_t file)
{
	return device->ops->file_open(device, file);
}

int device_file_release(const struct device *device, uint64_t file)
{
	return device->ops->file_release(device, file);
}

int device_push_unwind_table(const struct device *device, uint64_t file,
			     const struct stackbeat_unwind_table *table)
{
	return device->ops->push_unwind_table(device, file, table);
}

int device_move_text(const struct device *device, const struct stackbeat_moved_text *moved)
{
	return device->ops->move_text(device, moved);
}

int device_module_symbols(const struct device *device, struct stackbeat_module_symbols *symbols)
{
	return device->ops->module_symbols(device, symbols);
}

void device_note_stack(const struct device *device, uint32_t cpu, uint64_t need)
{
	device->ops->note_stack(device, cpu, need);
}

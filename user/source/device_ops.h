/* SPDX-License-Identifier: GPL-2.0 */
/* What each source of samples implements: the functions of source/device.h. */
#ifndef STACKBEAT_SOURCE_DEVICE_OPS_H
#define STACKBEAT_SOURCE_DEVICE_OPS_H

#include "source/device.h"

/* As the function of source/device.h with the same name. */
struct device_ops {
	void (*close)(struct device *device);
	void (*leave)(struct device *device);
	int (*fd)(const struct device *device);
	int (*map)(struct device *device, const struct cpulist *cpus, struct error *error);
	void (*snapshot_heads)(struct device *device);
	bool (*pending)(const struct device *device);
	int (*drain_metadata)(struct device *device, const struct metadata_handler *handler,
			      struct error *error);
	int (*drain)(struct device *device, decode_fast_path_fn *fast_path, decode_sample_fn *fn,
		     void *arg, struct error *error);
	void (*release)(struct device *device);
	int (*file_open)(const struct device *device, uint64_t file);
	int (*file_release)(const struct device *device, uint64_t file);
	int (*push_unwind_table)(const struct device *device, uint64_t file,
				 const struct stackbeat_unwind_table *table);
	int (*move_text)(const struct device *device, const struct stackbeat_moved_text *moved);
	int (*module_symbols)(const struct device *device,
			      struct stackbeat_module_symbols *symbols);
	void (*note_stack)(const struct device *device, uint32_t cpu, uint64_t need);
};

/* The first member of each implementation. */
struct device {
	const struct device_ops *ops;
};

#endif

// SPDX-License-Identifier: GPL-2.0
#include "record/collector.h"

#include <errno.h>
#include <time.h>

#include "lib/clock.h"
#include "lib/error.h"
#include "process/address_space.h"
#include "process/mapped_files.h"
#include "record/sample_queue.h"
#include "record/stack_table.h"
#include "session/device.h"

/* How often processes are looked at that may have ended. */
#define LOOK_INTERVAL_NS NS_PER_SECOND
/* Between two looks at whether the kernel has told all. */
#define PENDING_INTERVAL_NS 2000000
/*
 * How long it may take from the time of a sample until it is in its ring: an interrupt,
 * in a guest that may be held up.
 */
#define PUBLISH_NS 1000000

static int open_object(uint64_t id, void *arg)
{
	return device_file_open(((const struct collector *)arg)->device, id);
}

static int release_object(uint64_t id, void *arg)
{
	return device_file_release(((const struct collector *)arg)->device, id);
}

int collector_init(struct collector *collector, uint32_t labels, const char *keep, bool nameless,
		   struct error *error)
{
	const struct file_source source = {
		.open = open_object,
		.release = release_object,
		.arg = collector,
	};
	int err;

	*collector = (struct collector){0};
	collector->objects = mapped_files_new("", &source, error);
	if (!collector->objects)
		return -ENOMEM;
	if (nameless)
		mapped_files_skip_symbols(collector->objects);
	if (keep) {
		err = mapped_files_save(collector->objects, keep, error);
		if (err)
			return err;
	}
	collector->spaces = address_spaces_new("", collector->objects, error);
	if (!collector->spaces)
		return -ENOMEM;
	collector->profile = stack_table_new(collector->spaces, labels);
	if (collector->profile)
		collector->intake = sample_queue_new(collector->spaces, collector->profile);
	return collector->intake ? 0 : error_errno(error, ENOMEM, "can't record");
}

void collector_clear(struct collector *collector)
{
	sample_queue_free(collector->intake);
	stack_table_free(collector->profile);
	address_spaces_free(collector->spaces);
	mapped_files_free(collector->objects);
}

void collector_start(struct collector *collector, const struct device *device, bool same_pid_ns)
{
	collector->device = device;
	address_spaces_same_pid_ns(collector->spaces, same_pid_ns);
}

static int add_space(const struct stackbeat_address_space *record, void *arg)
{
	return address_spaces_add(((struct collector *)arg)->spaces, record);
}

static int add_mapping(const struct stackbeat_mapping *record, void *arg)
{
	return address_spaces_add_mapping(((struct collector *)arg)->spaces, record);
}

static int add_object(const struct stackbeat_file *record, void *arg)
{
	return mapped_files_add(((struct collector *)arg)->objects, record);
}

static int drain_metadata(struct collector *collector, struct device *device, struct error *error)
{
	const struct metadata_handler handler = {
		.space = add_space,
		.mapping = add_mapping,
		.object = add_object,
		.arg = collector,
	};
	int err = device_drain_metadata(device, &handler, error);

	return err == -ENOMEM ? error_errno(error, ENOMEM, "can't keep what is mapped") : err;
}

/* The metadata of the samples up to the note; *settled tells whether it is all of it. */
static int drain_noted_metadata(struct collector *collector, struct device *device, bool *settled,
				struct error *error)
{
	int err;

	*settled = !device_pending(device);
	err = drain_metadata(collector, device, error);
	if (err || *settled || device_pending(device))
		return err;
	*settled = true;
	return drain_metadata(collector, device, error);
}

static int drain_samples(struct collector *collector, struct device *device, bool settled,
			 struct error *error)
{
	int err;

	sample_queue_begin(collector->intake, settled);
	err = device_drain(device, sample_queue_repeat, sample_queue_sample, collector->intake,
			   error);
	return err == -ENOMEM ? error_errno(error, ENOMEM, "can't keep the samples") : err;
}

static int settle(struct collector *collector, int64_t noted, struct error *error)
{
	uint64_t seen = (uint64_t)(noted - PUBLISH_NS);
	int64_t now = kernel_now_ns(CLOCK_MONOTONIC);
	bool look = now >= collector->next_look;
	int err = sample_queue_flush(collector->intake, seen);

	if (!err)
		err = address_spaces_collect_garbage(collector->spaces, seen, (uint64_t)now, look);
	if (err)
		return error_errno(error, -err, "can't keep the samples");
	if (look) {
		mapped_files_sweep(collector->objects);
		collector->next_look = now + LOOK_INTERVAL_NS;
	}
	return 0;
}

int collector_drain(struct collector *collector, struct device *device, struct error *error)
{
	int64_t noted = kernel_now_ns(CLOCK_MONOTONIC);
	bool settled;
	int err;

	device_snapshot_heads(device);
	err = drain_noted_metadata(collector, device, &settled, error);
	if (!err)
		err = drain_samples(collector, device, settled, error);
	if (!err && settled)
		err = settle(collector, noted, error);
	mapped_files_release_read(collector->objects);
	return err;
}

/* Waits until the kernel has told all. */
static int drain_last_metadata(struct collector *collector, struct device *device,
			       struct error *warning, struct error *error)
{
	const struct timespec interval = {.tv_nsec = PENDING_INTERVAL_NS};
	int64_t deadline = now_ns(CLOCK_MONOTONIC) + COLLECT_WAIT_S * NS_PER_SECOND;
	int err = 0;

	while (!err && device_pending(device)) {
		err = drain_metadata(collector, device, error);
		if (now_ns(CLOCK_MONOTONIC) >= deadline) {
			error_set(warning, ETIMEDOUT,
				  "the kernel has not told within %d s what all samples are of: "
				  "some have no mappings",
				  COLLECT_WAIT_S);
			break;
		}
		nanosleep(&interval, NULL);
	}
	return err ? err : drain_metadata(collector, device, error);
}

int collector_finish(struct collector *collector, struct device *device, struct error *warning,
		     struct error *error)
{
	int err;

	*warning->text = '\0';
	device_snapshot_heads(device);
	err = drain_last_metadata(collector, device, warning, error);
	if (!err)
		err = drain_samples(collector, device, true, error);
	if (!err && sample_queue_flush(collector->intake, UINT64_MAX))
		err = error_errno(error, ENOMEM, "can't keep the samples");
	if (!err) {
		address_spaces_finish(collector->spaces);
		mapped_files_finish(collector->objects);
	}
	return err;
}

void collector_stop(struct collector *collector)
{
	mapped_files_abandon(collector->objects);
}

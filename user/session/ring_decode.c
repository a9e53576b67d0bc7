// SPDX-License-Identifier: GPL-2.0
#include "session/ring_decode.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "lib/error.h"

#define MAPPING_FLAGS                                                                              \
	(STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_MAIN_BINARY | STACKBEAT_MAPPING_VDSO |        \
	 STACKBEAT_MAPPING_VADDR)
#define OBJECT_FLAGS (STACKBEAT_FILE_HEADERS_NOT_READ | STACKBEAT_FILE_UNLINKED)

static const char *check_sample(const struct stackbeat_sample *sample)
{
	uint64_t frames = (uint64_t)sample->kernel_frames + sample->user_frames;

	if (sample->record.size < sizeof(*sample))
		return "a sample is shorter than its header";
	if (frames > (sample->record.size - sizeof(*sample)) / sizeof(sample->frames[0]))
		return "a sample has more frames than bytes for them";
	if (sample->kernel_frames > STACKBEAT_KERNEL_FRAMES_MAX ||
	    sample->user_frames > STACKBEAT_USER_FRAMES_MAX)
		return "a sample has more frames than there can be";
	if (sample->kernel_stop >= STACKBEAT_STOP_COUNT ||
	    sample->user_stop >= STACKBEAT_STOP_COUNT)
		return "a stack ended for an unknown reason";
	if (!memchr(sample->comm, '\0', sizeof(sample->comm)))
		return "a command name does not end";
	return NULL;
}

/* Whether the bytes behind a record's header are a text that ends, shorter than `max`. */
static bool has_text(const struct stackbeat_record *record, const char *text, size_t max)
{
	size_t room = (const char *)record + record->size - text;
	const char *end = memchr(text, '\0', room);

	return end && (size_t)(end - text) < max;
}

static const char *check_space(const struct stackbeat_address_space *space)
{
	if (space->record.size <= sizeof(*space))
		return "a space is shorter than its header and a path";
	if (space->record.flags)
		return "a space has unknown flags";
	if (!space->address_space)
		return "a space has no id";
	if (space->gap > space->generation)
		return "what is missing of a space begins after it was read";
	if (space->mappings > STACKBEAT_MAPPINGS_MAX)
		return "a space has more mappings than there can be";
	if (!memchr(space->comm, '\0', sizeof(space->comm)))
		return "a process name does not end";
	if (!has_text(&space->record, space->cgroup_path, STACKBEAT_PATH_MAX))
		return "the path of a control group does not end";
	return NULL;
}

static const char *check_mapping(const struct stackbeat_mapping *mapping)
{
	uint64_t length = mapping->end - mapping->start;

	if (mapping->record.size < sizeof(*mapping))
		return "a mapping is shorter than its fields";
	if (mapping->record.flags & ~MAPPING_FLAGS)
		return "a mapping has unknown flags";
	if (!mapping->address_space)
		return "a mapping is of no space";
	if (mapping->start >= mapping->end)
		return "a mapping ends before it begins";
	if (mapping->offset > UINT64_MAX - length)
		return "a mapping goes beyond the end of any file";
	return NULL;
}

static const char *check_object(const struct stackbeat_file *object)
{
	if (object->record.size <= sizeof(*object))
		return "an object is shorter than its header and a path";
	if (object->record.flags & ~OBJECT_FLAGS)
		return "an object has unknown flags";
	if (!object->file)
		return "an object has no id";
	if (object->build_id_size > sizeof(object->build_id))
		return "a build id is longer than it can be";
	if (!has_text(&object->record, object->path, STACKBEAT_PATH_MAX))
		return "the path of an object does not end";
	return NULL;
}

static const char *check_record(const struct stackbeat_record *record, uint64_t available)
{
	if (record->size < sizeof(*record) || record->size % sizeof(uint64_t))
		return "a record has a wrong size";
	if (record->size > available)
		return "a record goes beyond the end of what was written";
	switch (record->type) {
	case STACKBEAT_RECORD_SAMPLE:
		return check_sample((const void *)record);
	case STACKBEAT_RECORD_ADDRESS_SPACE:
		return check_space((const void *)record);
	case STACKBEAT_RECORD_MAPPING:
		return check_mapping((const void *)record);
	case STACKBEAT_RECORD_FILE:
		return check_object((const void *)record);
	default:
		return NULL;
	}
}

/* Gets a record that was checked. Returns 0, or a negative errno value to stop. */
typedef int record_fn(const struct stackbeat_record *record, void *arg);

struct sample_handler {
	decode_fast_path_fn *repeat;
	decode_sample_fn *fn;
	void *arg;
};

/* `repeats`: who is asked before a record is checked; NULL: nobody is. */
static int walk(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		const struct sample_handler *repeats, record_fn *fn, void *arg, struct error *error)
{
	const char *problem = NULL;
	int err = 0;

	if (head - *tail > size || (head | *tail) % sizeof(uint64_t))
		problem = "its head can't be right";

	while (!problem && !err && *tail != head) {
		uint32_t at = *tail & (size - 1);
		uint64_t available = head - *tail;
		const struct stackbeat_record *record = (const void *)(data + at);

		/* No record goes around the end of the data. */
		if (available > size - at)
			available = size - at;
		if (repeats) {
			uint64_t taken = repeats->repeat(record, available, repeats->arg);

			*tail += taken;
			if (taken == available)
				continue;
			available -= taken;
			record = (const void *)((const uint8_t *)record + taken);
		}
		problem = check_record(record, available);
		if (problem)
			break;
		err = fn(record, arg);
		*tail += record->size;
	}
	if (!problem)
		return err;
	*tail = head;
	return error_set(error, EBADMSG, "a ring is damaged: %s", problem);
}

static int deliver_sample(const struct stackbeat_record *record, void *arg)
{
	const struct sample_handler *handler = arg;

	if (record->type != STACKBEAT_RECORD_SAMPLE)
		return 0;
	return handler->fn((const struct stackbeat_sample *)record, handler->arg);
}

int decode_records(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		   decode_fast_path_fn *repeat, decode_sample_fn *fn, void *arg,
		   struct error *error)
{
	struct sample_handler handler = {repeat, fn, arg};

	return walk(data, size, tail, head, repeat ? &handler : NULL, deliver_sample, &handler,
		    error);
}

static int hand_on_metadata(const struct stackbeat_record *record, void *arg)
{
	const struct metadata_handler *handler = arg;

	switch (record->type) {
	case STACKBEAT_RECORD_ADDRESS_SPACE:
		return handler->space((const struct stackbeat_address_space *)record, handler->arg);
	case STACKBEAT_RECORD_MAPPING:
		return handler->mapping((const struct stackbeat_mapping *)record, handler->arg);
	case STACKBEAT_RECORD_FILE:
		return handler->object((const struct stackbeat_file *)record, handler->arg);
	default:
		return 0;
	}
}

int decode_metadata(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		    const struct metadata_handler *handler, struct error *error)
{
	return walk(data, size, tail, head, NULL, hand_on_metadata, (void *)handler, error);
}

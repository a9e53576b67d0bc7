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
#define FILE_FLAGS (STACKBEAT_FILE_HEADERS_NOT_READ | STACKBEAT_FILE_UNLINKED)

static const char *check_sample(const struct stackbeat_sample *sample)
{
	uint64_t frames = (uint64_t)sample->kernel_frames + sample->user_frames;

	if (sample->record.size < sizeof(*sample))
		return "a sample is shorter than its header";
	if (frames > (sample->record.size - sizeof(*sample)) / sizeof(sample->frames[0]))
		return "a sample has more frames than bytes for them";
	if (sample->kernel_frames > STACKBEAT_KERNEL_FRAMES_MAX ||
	    sample->user_frames > STACKBEAT_USER_FRAMES_MAX)
		return "a sample has too many frames";
	if (sample->kernel_stop >= STACKBEAT_STOP_COUNT ||
	    sample->user_stop >= STACKBEAT_STOP_COUNT)
		return "a stack ended for an unknown reason";
	if (!memchr(sample->comm, '\0', sizeof(sample->comm)))
		return "a command name is not terminated";
	return NULL;
}

/* Returns whether `string` is terminated in its record, and shorter than `max`. */
static bool is_terminated(const struct stackbeat_record *record, const char *string, size_t max)
{
	size_t room = (const char *)record + record->size - string;
	const char *end = memchr(string, '\0', room);

	return end && (size_t)(end - string) < max;
}

static const char *check_space(const struct stackbeat_address_space *space)
{
	if (space->record.size <= sizeof(*space))
		return "an address space is shorter than its header and a path";
	if (space->record.flags)
		return "an address space has unknown flags";
	if (!space->address_space)
		return "an address space has no id";
	if (space->gap > space->generation)
		return "an address space has a gap after its generation";
	if (space->mappings > STACKBEAT_MAPPINGS_MAX)
		return "an address space has too many mappings";
	if (!memchr(space->comm, '\0', sizeof(space->comm)))
		return "a process name is not terminated";
	if (!is_terminated(&space->record, space->cgroup_path, STACKBEAT_PATH_MAX))
		return "the path of a control group is not terminated";
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
		return "a mapping has no address space";
	if (mapping->start >= mapping->end)
		return "a mapping ends before it begins";
	if (mapping->offset > UINT64_MAX - length)
		return "a mapping goes beyond the end of any file";
	return NULL;
}

static const char *check_file(const struct stackbeat_file *file)
{
	if (file->record.size <= sizeof(*file))
		return "a file is shorter than its header and a path";
	if (file->record.flags & ~FILE_FLAGS)
		return "a file has unknown flags";
	if (!file->file)
		return "a file has no id";
	if (file->build_id_size > sizeof(file->build_id))
		return "a build id is too long";
	if (!is_terminated(&file->record, file->path, STACKBEAT_PATH_MAX))
		return "the path of a file is not terminated";
	return NULL;
}

static const char *check_record(const struct stackbeat_record *record, uint64_t available)
{
	if (record->size < sizeof(*record) || record->size % sizeof(uint64_t))
		return "a record has a wrong size";
	if (record->size > available)
		return "a record goes beyond the head";
	switch (record->type) {
	case STACKBEAT_RECORD_SAMPLE:
		return check_sample((const void *)record);
	case STACKBEAT_RECORD_ADDRESS_SPACE:
		return check_space((const void *)record);
	case STACKBEAT_RECORD_MAPPING:
		return check_mapping((const void *)record);
	case STACKBEAT_RECORD_FILE:
		return check_file((const void *)record);
	default:
		return NULL;
	}
}

/* Handles a verified record. Returns 0, or a negative errno value to stop. */
typedef int record_fn(const struct stackbeat_record *record, void *arg);

struct sample_handler {
	decode_fast_path_fn *fast_path; /* NULL: none */
	decode_sample_fn *fn;
	void *arg;
};

/* `fast_path`: the handler with the function to call before a record is verified; NULL: none. */
static int for_each_record(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
			   const struct sample_handler *fast_path, record_fn *fn, void *arg,
			   struct error *error)
{
	const char *problem = NULL;
	int err = 0;

	if (head - *tail > size || (head | *tail) % sizeof(uint64_t))
		problem = "its head is out of range";

	while (!problem && !err && *tail != head) {
		uint32_t at = *tail & (size - 1);
		uint64_t available = head - *tail;
		const struct stackbeat_record *record = (const void *)(data + at);

		/* Records do not wrap around at the end of the data. */
		if (available > size - at)
			available = size - at;
		if (fast_path) {
			uint64_t matched = fast_path->fast_path(record, available, fast_path->arg);

			*tail += matched;
			if (matched == available)
				continue;
			available -= matched;
			record = (const void *)((const uint8_t *)record + matched);
		}
		problem = check_record(record, available);
		if (problem)
			break;
		err = fn(record, arg);
		/* There may be memory for the record later. */
		if (!err)
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
		   decode_fast_path_fn *fast_path, decode_sample_fn *fn, void *arg,
		   struct error *error)
{
	struct sample_handler handler = {fast_path, fn, arg};

	return for_each_record(data, size, tail, head, fast_path ? &handler : NULL, deliver_sample,
			       &handler, error);
}

static int deliver_metadata(const struct stackbeat_record *record, void *arg)
{
	const struct metadata_handler *handler = arg;

	switch (record->type) {
	case STACKBEAT_RECORD_ADDRESS_SPACE:
		return handler->address_space((const struct stackbeat_address_space *)record,
					      handler->arg);
	case STACKBEAT_RECORD_MAPPING:
		return handler->mapping((const struct stackbeat_mapping *)record, handler->arg);
	case STACKBEAT_RECORD_FILE:
		return handler->file((const struct stackbeat_file *)record, handler->arg);
	default:
		return 0;
	}
}

int decode_metadata(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		    const struct metadata_handler *handler, struct error *error)
{
	return for_each_record(data, size, tail, head, NULL, deliver_metadata, (void *)handler,
			       error);
}

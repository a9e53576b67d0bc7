// SPDX-License-Identifier: GPL-2.0
#include "source/ring_decode.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "lib/error.h"
#include "source/go_labels.h"

#define MAPPING_FLAGS                                                                              \
	(STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_MAIN_BINARY | STACKBEAT_MAPPING_VDSO |        \
	 STACKBEAT_MAPPING_VADDR)
#define FILE_FLAGS                                                                                 \
	(STACKBEAT_FILE_HEADERS_NOT_READ | STACKBEAT_FILE_UNLINKED | STACKBEAT_FILE_UNWIND_TABLE | \
	 STACKBEAT_FILE_LASTING)

static const char *check_sample(const struct stackbeat_sample *sample)
{
	uint64_t frames = (uint64_t)sample->kernel_frames + sample->user_frames;
	const char *problem;

	if (sample->record.size < sizeof(*sample))
		return "a sample is shorter than its header";
	/* The words of a goroutine are behind them. */
	frames += !!(sample->record.flags & STACKBEAT_SAMPLE_GOROUTINE);
	frames += !!(sample->record.flags & STACKBEAT_SAMPLE_GO_CREATOR);
	if (frames > (sample->record.size - sizeof(*sample)) / sizeof(sample->frames[0]))
		return "a sample has more frames than bytes for them";
	if (sample->record.flags & STACKBEAT_SAMPLE_GO_LABELS) {
		size_t size = sizeof(*sample) + frames * sizeof(sample->frames[0]);

		problem = go_labels_check((const void *)((const char *)sample + size),
					  sample->record.size - size);
		if (problem)
			return problem;
	}
	if (sample->kernel_frames > STACKBEAT_KERNEL_FRAMES_MAX ||
	    sample->user_frames > STACKBEAT_USER_FRAMES_MAX)
		return "a sample has too many frames";
	if (sample->table_frames > sample->user_frames)
		return "a sample has more frames of unwind tables than user frames";
	if (sample->kernel_stop >= STACKBEAT_STOP_COUNT ||
	    sample->user_stop >= STACKBEAT_STOP_COUNT)
		return "a stack ended for an unknown reason";
	if (sample->comm[sizeof(sample->comm) - 1] &&
	    !memchr(sample->comm, '\0', sizeof(sample->comm)))
		return "a command name is not terminated";
	return NULL;
}

static const char *check_stack(const struct stackbeat_stack *stack)
{
	if (stack->record.size < sizeof(*stack))
		return "a copy of a stack is shorter than its header";
	if (stack->record.flags & ~(STACKBEAT_STACK_EXTRA | DECODE_STACK_ASKED))
		return "a copy of a stack has unknown flags";
	if (stack->size > STACKBEAT_STACK_COPY_MAX || stack->size % sizeof(uint64_t))
		return "a copy of a stack has a wrong size";
	if (stack->size > stack->record.size - sizeof(*stack))
		return "a copy of a stack goes beyond its record";
	return NULL;
}

/* Returns whether `string` is terminated in its record, and shorter than `max`. */
static bool record_is_terminated(const struct stackbeat_record *record, const char *string,
				 size_t max)
{
	size_t room = (const char *)record + record->size - string;
	const char *end = memchr(string, '\0', room);

	return end && (size_t)(end - string) < max;
}

static const char *record_check_space(const struct stackbeat_address_space *space)
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
	if (!record_is_terminated(&space->record, space->cgroup_path, STACKBEAT_PATH_MAX))
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
	if (!record_is_terminated(&file->record, file->path, STACKBEAT_PATH_MAX))
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
	case STACKBEAT_RECORD_STACK:
		return check_stack((const void *)record);
	case STACKBEAT_RECORD_ADDRESS_SPACE:
		return record_check_space((const void *)record);
	case STACKBEAT_RECORD_MAPPING:
		return check_mapping((const void *)record);
	case STACKBEAT_RECORD_FILE:
		return check_file((const void *)record);
	default:
		return NULL;
	}
}

/* A ring while it is decoded. */
struct ring_reader {
	const uint8_t *data;
	uint32_t size;
	uint64_t tail, head;
	const char *problem; /* of a malformed record; NULL: none */
};

static void open_ring(struct ring_reader *ring, const uint8_t *data, uint32_t size, uint64_t tail,
		      uint64_t head)
{
	*ring = (struct ring_reader){data, size, tail, head, NULL};
	if (head - tail > size || (head | tail) % sizeof(uint64_t))
		ring->problem = "its head is out of range";
}

/* Returns the bytes at the tail, and sets *available: records do not wrap around. */
static const void *at_tail(const struct ring_reader *ring, uint64_t *available)
{
	uint32_t at = ring->tail & (ring->size - 1);

	*available = ring->head - ring->tail;
	if (*available > ring->size - at)
		*available = ring->size - at;
	return ring->data + at;
}

/* Returns the next record, verified, and advances the tail behind it; NULL: none, or a problem. */
static const struct stackbeat_record *next_record(struct ring_reader *ring)
{
	const struct stackbeat_record *record;
	uint64_t available;

	if (ring->problem || ring->tail == ring->head)
		return NULL;
	record = at_tail(ring, &available);
	ring->problem = check_record(record, available);
	if (ring->problem)
		return NULL;
	ring->tail += record->size;
	return record;
}

/* Sets *tail. `err`: the error of a handler. */
static int close_ring(const struct ring_reader *ring, uint64_t *tail, int err, struct error *error)
{
	*tail = ring->problem ? ring->head : ring->tail;
	if (!ring->problem)
		return err;
	return error_set(error, EBADMSG, "a ring is damaged: %s", ring->problem);
}

/* Returns the copy of the stack of the sample before it, or NULL with a problem. */
static const struct stackbeat_stack *next_stack(struct ring_reader *ring)
{
	const struct stackbeat_record *record;

	do
		record = next_record(ring);
	while (record && record->type == STACKBEAT_RECORD_PAD);
	if (record && record->type == STACKBEAT_RECORD_STACK)
		return (const struct stackbeat_stack *)record;
	if (!ring->problem)
		ring->problem = "a sample lacks the copy of its stack";
	return NULL;
}

static int deliver_record(struct ring_reader *ring, const struct stackbeat_record *record,
			  decode_sample_fn *fn, void *arg)
{
	const struct stackbeat_stack *stack = NULL;

	if (record->type == STACKBEAT_RECORD_STACK)
		ring->problem = "a copy of a stack follows no sample";
	if (record->type != STACKBEAT_RECORD_SAMPLE)
		return 0;
	if (record->flags & STACKBEAT_SAMPLE_STACK) {
		stack = next_stack(ring);
		if (!stack)
			return 0;
	}
	return fn((const struct stackbeat_sample *)record, stack, arg);
}

int decode_records(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		   decode_fast_path_fn *fast_path, decode_sample_fn *fn, void *arg,
		   struct error *error)
{
	const struct stackbeat_record *record;
	struct ring_reader ring;
	uint64_t start;
	int err = 0;

	open_ring(&ring, data, size, *tail, head);
	while (!err && !ring.problem && ring.tail != head) {
		if (fast_path) {
			uint64_t available;
			const void *bytes = at_tail(&ring, &available);
			uint64_t matched = fast_path(bytes, available, arg);

			ring.tail += matched;
			if (matched == available)
				continue;
		}
		start = ring.tail;
		record = next_record(&ring);
		if (!record)
			break;
		err = deliver_record(&ring, record, fn, arg);
		/* There may be memory for the record later. */
		if (err)
			ring.tail = start;
	}
	return close_ring(&ring, tail, err, error);
}

static int deliver_metadata(const struct stackbeat_record *record,
			    const struct metadata_handler *handler)
{
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
	const struct stackbeat_record *record;
	struct ring_reader ring;
	uint64_t start;
	int err = 0;

	open_ring(&ring, data, size, *tail, head);
	while (!err) {
		start = ring.tail;
		record = next_record(&ring);
		if (!record)
			break;
		err = deliver_metadata(record, handler);
		if (err)
			ring.tail = start;
	}
	return close_ring(&ring, tail, err, error);
}

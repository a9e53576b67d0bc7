// SPDX-License-Identifier: GPL-2.0
#include "decode.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "error.h"

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
	if (sample->kernel_end >= STACKBEAT_END_COUNT || sample->user_end >= STACKBEAT_END_COUNT)
		return "a stack ended for an unknown reason";
	if (!memchr(sample->comm, '\0', sizeof(sample->comm)))
		return "a command name does not end";
	return NULL;
}

static const char *check_record(const struct stackbeat_record *record, uint64_t available)
{
	if (record->size < sizeof(*record) || record->size % sizeof(uint64_t))
		return "a record has a wrong size";
	if (record->size > available)
		return "a record goes beyond the end of what was written";
	if (record->type == STACKBEAT_RECORD_SAMPLE)
		return check_sample((const struct stackbeat_sample *)record);
	return NULL;
}

int decode_records(const uint8_t *data, uint32_t size, uint64_t *tail, uint64_t head,
		   decode_sample_fn *fn, void *arg, struct error *error)
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
		problem = check_record(record, available);
		if (problem)
			break;
		if (record->type == STACKBEAT_RECORD_SAMPLE)
			err = fn((const struct stackbeat_sample *)record, arg);
		*tail += record->size;
	}
	if (!problem)
		return err;
	*tail = head;
	return error_set(error, EBADMSG, "a ring is damaged: %s", problem);
}

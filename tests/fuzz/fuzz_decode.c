// SPDX-License-Identifier: GPL-2.0
/* The reader's side of a ring: the input is where its tail and head are, and then its data. */
#include "fuzz.h"

#include "decode.h"
#include "error.h"

#define RING_SIZE 4096u

static int touch_sample(const struct stackbeat_sample *sample, void *arg)
{
	uint64_t *sum = arg;

	for (size_t i = 0; i < (size_t)sample->kernel_frames + sample->user_frames; i++)
		*sum += sample->frames[i];
	*sum += strlen(sample->comm);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t tail, head, sum = 0;
	struct error error;
	uint8_t *ring;

	if (size < sizeof(tail) + sizeof(head))
		return 0;
	memcpy(&tail, data, sizeof(tail));
	memcpy(&head, data + sizeof(tail), sizeof(head));
	data += sizeof(tail) + sizeof(head);
	size -= sizeof(tail) + sizeof(head);
	ring = calloc(1, RING_SIZE);
	if (!ring)
		abort();
	memcpy(ring, data, size < RING_SIZE ? size : RING_SIZE);
	decode_records(ring, RING_SIZE, &tail, head, NULL, touch_sample, &sum, &error);
	if (tail != head)
		abort();
	free(ring);
	return 0;
}

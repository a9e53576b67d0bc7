// SPDX-License-Identifier: GPL-2.0
/* The reader's decoder on records that no kernel should write. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "decode.h"
#include "error.h"

#define SIZE 1024u

struct ring {
	uint64_t data[SIZE / sizeof(uint64_t)];
	uint32_t samples;
	uint64_t frames; /* their sum, so that each is read */
};

static int count_sample(const struct stackbeat_sample *sample, void *arg)
{
	struct ring *ring = arg;

	ring->samples++;
	for (size_t i = 0; i < (size_t)sample->kernel_frames + sample->user_frames; i++)
		ring->frames += sample->frames[i];
	ring->frames += strlen(sample->comm);
	return 0;
}

static int decode(struct ring *ring, uint64_t *tail, uint64_t head)
{
	struct error error = {""};
	int err = decode_records((const uint8_t *)ring->data, SIZE, tail, head, count_sample, ring,
				 &error);

	assert_true(!err || *error.text);
	return err;
}

static struct stackbeat_sample *put_sample(struct ring *ring, uint32_t at)
{
	struct stackbeat_sample *sample = (void *)((uint8_t *)ring->data + at);

	memset(sample, 0, sizeof(*sample));
	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.size = sizeof(*sample) + 2 * sizeof(uint64_t);
	sample->kernel_frames = 1;
	sample->user_frames = 1;
	strcpy(sample->comm, "name");
	return sample;
}

static void decodes_what_is_right_and_skips_what_is_unknown(void **state)
{
	struct ring ring = {0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	struct stackbeat_record *record = (void *)((uint8_t *)ring.data + sample->record.size);
	uint64_t tail = 0, head = sample->record.size;

	(void)state;
	record->type = 999;
	record->size = 64;
	head += record->size;
	put_sample(&ring, head);
	head += sample->record.size;
	assert_int_equal(decode(&ring, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 2);
}

static void refuses(void (*damage)(struct stackbeat_sample *sample))
{
	struct ring ring = {0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	uint64_t tail = 0, head = sample->record.size;

	assert_int_equal(decode(&ring, &tail, head), 0);
	tail = 0;
	damage(sample);
	assert_int_equal(decode(&ring, &tail, head), -EBADMSG);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 1);
}

static void no_size(struct stackbeat_sample *sample)
{
	sample->record.size = 0;
}

static void odd_size(struct stackbeat_sample *sample)
{
	sample->record.size--;
}

static void size_of_header(struct stackbeat_sample *sample)
{
	sample->record.size = sizeof(sample->record);
}

static void size_too_large(struct stackbeat_sample *sample)
{
	sample->record.size += 8;
}

static void size_huge(struct stackbeat_sample *sample)
{
	sample->record.size = 0xfffffff8;
}

static void frames_too_many(struct stackbeat_sample *sample)
{
	sample->user_frames = 2;
}

static void frames_huge(struct stackbeat_sample *sample)
{
	sample->kernel_frames = 0xffff;
	sample->user_frames = 0xffff;
}

static void end_unknown(struct stackbeat_sample *sample)
{
	sample->user_end = STACKBEAT_END_COUNT;
}

static void comm_endless(struct stackbeat_sample *sample)
{
	memset(sample->comm, 'x', sizeof(sample->comm));
}

static void refuses_what_is_malformed(void **state)
{
	(void)state;
	refuses(no_size);
	refuses(odd_size);
	refuses(size_of_header);
	refuses(size_too_large);
	refuses(size_huge);
	refuses(frames_too_many);
	refuses(frames_huge);
	refuses(end_unknown);
	refuses(comm_endless);
}

static void refuses_a_head_that_cannot_be(void **state)
{
	const uint64_t heads[] = {SIZE + 8, 1, 7, UINT64_MAX, UINT64_MAX - 7};
	struct ring ring = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		uint64_t tail = 0;

		assert_int_equal(decode(&ring, &tail, heads[i]), -EBADMSG);
		assert_int_equal(tail, heads[i]);
	}
}

static void a_record_must_not_go_around_the_end(void **state)
{
	struct ring ring = {0};
	uint64_t tail = SIZE - 16;
	struct stackbeat_record *record = (void *)((uint8_t *)ring.data + tail);

	(void)state;
	record->type = STACKBEAT_RECORD_PAD;
	record->size = 24;
	assert_int_equal(decode(&ring, &tail, tail + 64), -EBADMSG);
}

static int stop_at_once(const struct stackbeat_sample *sample, void *arg)
{
	(void)sample, (void)arg;
	return -ENOMEM;
}

static void stops_when_told(void **state)
{
	struct ring ring = {0};
	uint64_t size = put_sample(&ring, 0)->record.size, tail = 0;
	struct error error;

	(void)state;
	put_sample(&ring, size);
	assert_int_equal(decode_records((const uint8_t *)ring.data, SIZE, &tail, 2 * size,
					stop_at_once, NULL, &error),
			 -ENOMEM);
	assert_int_equal(tail, size);
}

/* Random bytes over right records: whatever they say, nothing outside is touched (ASan). */
static void survives_any_bytes(void **state)
{
	struct ring *ring = malloc(sizeof(*ring));
	uint32_t rejected = 0;

	(void)state;
	assert_non_null(ring);
	srand(1);
	for (int round = 0; round < 20000; round++) {
		uint64_t tail = 0, head = 0;

		memset(ring, 0, sizeof(*ring));
		while (head + 128 <= SIZE)
			head += put_sample(ring, head)->record.size;
		for (int i = rand() % 4; i >= 0; i--)
			((uint8_t *)ring->data)[rand() % head] = rand();
		rejected += decode(ring, &tail, head) != 0;
		assert_int_equal(tail, head);
	}
	assert_true(rejected > 1000);
	free(ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_what_is_right_and_skips_what_is_unknown),
		cmocka_unit_test(refuses_what_is_malformed),
		cmocka_unit_test(refuses_a_head_that_cannot_be),
		cmocka_unit_test(a_record_must_not_go_around_the_end),
		cmocka_unit_test(stops_when_told),
		cmocka_unit_test(survives_any_bytes),
	};

	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}

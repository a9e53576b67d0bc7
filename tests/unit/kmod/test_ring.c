// SPDX-License-Identifier: GPL-2.0
/* The producer side of a ring, compiled from the module, against the reader's consumer side. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kmod/ring.h"
#include "lib/error.h"
#include "source/ring_decode.h"

#define RING_SIZE 4096u
#define FRAMES_OFFSET offsetof(struct stackbeat_sample, frames)

struct fixture {
	struct sb_ring ring;
	struct stackbeat_consumer_page consumer;
	struct stackbeat_producer_page producer;
	uint64_t data[RING_SIZE / sizeof(uint64_t)];
	uint64_t expected; /* time of the next sample that the reader should see */
	uint64_t lost; /* sum of what the samples say was lost */
	uint64_t seen;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	fixture->ring.data = (u8 *)fixture->data;
	fixture->ring.size = RING_SIZE;
	fixture->ring.consumer = &fixture->consumer;
	fixture->ring.producer = &fixture->producer;
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* Starts a ring at a byte count, as if that many bytes had been written and read. */
static void start_at(struct fixture *fixture, uint64_t count)
{
	fixture->ring.head = count;
	fixture->ring.limit = count;
	fixture->producer.head = count;
	fixture->consumer.tail = count;
}

/* Writes a sample with some frames, with room reserved for up to `reserve` frames. */
static bool produce(struct fixture *fixture, uint64_t time, uint16_t frames, uint32_t reserve)
{
	struct stackbeat_sample *sample =
		sb_ring_reserve(&fixture->ring, FRAMES_OFFSET + reserve * sizeof(u64));
	uint32_t size = FRAMES_OFFSET + frames * sizeof(u64);

	if (!sample)
		return false;
	memset(sample, 0, size);
	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.size = size;
	sample->time = time;
	sample->user_frames = frames;
	sample->lost = fixture->ring.lost;
	for (uint16_t i = 0; i < frames; i++)
		sample->frames[i] = time + i;
	sb_ring_commit(&fixture->ring, size);
	return true;
}

static int consume_one(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
		       void *arg)
{
	struct fixture *fixture = arg;

	(void)stack;
	for (uint16_t i = 0; i < sample->user_frames; i++)
		assert_int_equal(sample->frames[i], sample->time + i);
	assert_true(sample->time >= fixture->expected);
	fixture->expected = sample->time + 1;
	fixture->lost += sample->lost;
	fixture->seen++;
	return 0;
}

static void consume(struct fixture *fixture)
{
	uint64_t head = __atomic_load_n(&fixture->producer.head, __ATOMIC_ACQUIRE);
	uint64_t tail = fixture->consumer.tail;
	struct error error = {""};

	if (decode_records((const uint8_t *)fixture->data, RING_SIZE, &tail, head, NULL,
			   consume_one, fixture, &error))
		fail_msg("%s", error.text);
	__atomic_store_n(&fixture->consumer.tail, tail, __ATOMIC_RELEASE);
}

static void samples_are_intact_around_the_end(void **state)
{
	struct fixture *fixture = *state;
	const uint32_t count = 100000;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(produce(fixture, i, i % 100, 100));
		if (i % 3 == 0)
			consume(fixture);
	}
	consume(fixture);
	assert_int_equal(fixture->seen, count);
	assert_int_equal(fixture->lost, 0);
}

static void byte_counts_may_wrap_around(void **state)
{
	struct fixture *fixture = *state;

	start_at(fixture, UINT64_MAX - 10 * RING_SIZE + 1);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(produce(fixture, i, 50, 50));
		consume(fixture);
	}
	assert_true(fixture->producer.head < 1000 * RING_SIZE);
	assert_int_equal(fixture->seen, 1000);
}

static void full_ring_drops_and_counts_new_records(void **state)
{
	struct fixture *fixture = *state;
	uint32_t written = 0, lost = 0;

	for (uint32_t i = 0; i < 100; i++) {
		if (produce(fixture, i, 20, 20))
			written++;
		else
			lost++;
	}
	assert_int_equal(written + lost, 100);
	assert_int_equal(fixture->ring.lost_full, lost);
	assert_true(written >= RING_SIZE / (FRAMES_OFFSET + 20 * 8) - 1);

	consume(fixture);
	assert_int_equal(fixture->seen, written);
	assert_int_equal(fixture->lost, 0);
	/* The next sample that fits reports the lost ones before it, the one after it none. */
	assert_true(produce(fixture, 100, 1, 20));
	assert_true(produce(fixture, 101, 1, 20));
	consume(fixture);
	assert_int_equal(fixture->lost, lost);
}

static void record_as_large_as_the_ring_fits_an_empty_ring(void **state)
{
	struct fixture *fixture = *state;
	uint32_t frames = (RING_SIZE - FRAMES_OFFSET) / sizeof(u64);

	assert_true(produce(fixture, 0, frames, frames));
	assert_false(produce(fixture, 1, 0, 0));
	consume(fixture);
	assert_int_equal(fixture->seen, 1);
}

static void bad_tail_loses_only_the_reader_s_own_records(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t wrong[] = {1,          RING_SIZE,      RING_SIZE * 2ull, 1ull << 63,
				  UINT64_MAX, UINT64_MAX - 7, 0xdeadbeef};

	while (produce(fixture, 0, 20, 20))
		;
	fixture->ring.lost_full = 0;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t head = fixture->ring.head;

		/* Ahead of the head, or further behind it than the ring size. */
		fixture->consumer.tail = head + wrong[i];
		if (fixture->consumer.tail - head == 0 ||
		    head - fixture->consumer.tail <= RING_SIZE)
			continue;
		assert_false(produce(fixture, 1, 20, 20));
		assert_int_equal(fixture->ring.head, head);
		assert_int_equal(fixture->producer.head, head);
		assert_int_equal(sb_ring_unread(&fixture->ring), RING_SIZE);
	}
	assert_int_equal(fixture->ring.lost_full, 0);
	assert_true(fixture->ring.lost_bad_tail >= 5);
	/* A valid tail ends the losses. */
	fixture->consumer.tail = fixture->ring.head;
	assert_true(produce(fixture, 2, 20, 20));
}

static void head_stays_in_the_ring_for_every_tail(void **state)
{
	struct fixture *fixture = *state;
	uint64_t random = 88172645463325252ull;
	const uint32_t watermark = RING_SIZE / 2;

	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t before = fixture->ring.head;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		fixture->consumer.tail = i % 2 ? random : before - random % (2 * RING_SIZE);
		produce(fixture, i, random % 60, 60);
		assert_true(fixture->ring.head - before <= 2 * (FRAMES_OFFSET + 60 * sizeof(u64)));
		sb_ring_should_wake(&fixture->ring, &watermark);
	}
}

static void reader_is_woken_at_the_watermark(void **state)
{
	struct fixture *fixture = *state;
	/* The record size divides the ring size: no padding. */
	const uint32_t frames = 5, size = FRAMES_OFFSET + frames * sizeof(u64);
	const uint32_t watermark = RING_SIZE / 2;
	bool woken = false;

	assert_int_equal(RING_SIZE % size, 0);

	/* The first wake-up comes exactly at the watermark. */
	for (uint32_t i = 0; !woken; i++) {
		assert_true(produce(fixture, i, frames, frames));
		woken = sb_ring_should_wake(&fixture->ring, &watermark);
		assert_int_equal(woken, (i + 1) * size >= watermark);
	}
	/* After the reader has drained the ring, the next wake-up takes a full watermark again. */
	consume(fixture);
	for (uint32_t unread = size; unread < watermark; unread += size) {
		assert_true(produce(fixture, 1000 + unread, frames, frames));
		assert_false(sb_ring_should_wake(&fixture->ring, &watermark));
	}
	assert_true(produce(fixture, 9000, frames, frames));
	assert_true(sb_ring_should_wake(&fixture->ring, &watermark));
}

static void *produce_all(void *arg)
{
	struct fixture *fixture = arg;

	for (uint32_t i = 0; i < 300000; i++)
		produce(fixture, i, i % 30, 30);
	return NULL;
}

static void concurrent_reader_sees_whole_records(void **state)
{
	struct fixture *fixture = *state;
	pthread_t thread;
	struct sb_ring *ring = &fixture->ring;

	assert_int_equal(pthread_create(&thread, NULL, produce_all, fixture), 0);
	for (uint32_t i = 0; i < 100000; i++)
		consume(fixture);
	pthread_join(thread, NULL);
	consume(fixture);
	assert_int_equal(fixture->seen + ring->lost_full, 300000);
	assert_int_equal(fixture->lost + ring->lost, ring->lost_full);
	assert_int_equal(ring->lost_bad_tail, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(samples_are_intact_around_the_end, setup, teardown),
		cmocka_unit_test_setup_teardown(byte_counts_may_wrap_around, setup, teardown),
		cmocka_unit_test_setup_teardown(full_ring_drops_and_counts_new_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(record_as_large_as_the_ring_fits_an_empty_ring,
						setup, teardown),
		cmocka_unit_test_setup_teardown(bad_tail_loses_only_the_reader_s_own_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(head_stays_in_the_ring_for_every_tail, setup,
						teardown),
		cmocka_unit_test_setup_teardown(reader_is_woken_at_the_watermark, setup, teardown),
		cmocka_unit_test_setup_teardown(concurrent_reader_sees_whole_records, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

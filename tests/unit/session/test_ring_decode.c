// SPDX-License-Identifier: GPL-2.0
/* The reader's decoder on records that no kernel should write. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "session/ring_decode.h"

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
	int err = decode_records((const uint8_t *)ring->data, SIZE, tail, head, NULL, count_sample,
				 ring, &error);

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
	sample->user_stop = STACKBEAT_STOP_COUNT;
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
	assert_int_equal(decode_records((const uint8_t *)ring.data, SIZE, &tail, 2 * size, NULL,
					stop_at_once, NULL, &error),
			 -ENOMEM);
	assert_int_equal(tail, size);
}

/* What takes the samples at the beginning of what it gets, up to the first of another process. */
struct repeats {
	struct ring *ring;
	uint32_t pid;
	uint32_t taken;
};

static uint64_t take_repeats(const void *data, uint64_t available, void *arg)
{
	struct repeats *repeats = arg;
	uint64_t taken = 0;

	assert_in_range((const uint8_t *)data - (const uint8_t *)repeats->ring->data, 0,
			SIZE - available);
	while (available - taken >= sizeof(struct stackbeat_sample)) {
		const struct stackbeat_sample *sample =
			(const void *)((const uint8_t *)data + taken);

		if (sample->pid != repeats->pid || sample->record.size > available - taken)
			break;
		taken += sample->record.size;
		repeats->taken++;
	}
	return taken;
}

static int count_other(const struct stackbeat_sample *sample, void *arg)
{
	const struct repeats *repeats = arg;

	assert_int_not_equal(sample->pid, repeats->pid);
	return count_sample(sample, repeats->ring);
}

static int decode_repeats(struct repeats *repeats, uint64_t *tail, uint64_t head)
{
	struct error error;

	return decode_records((const uint8_t *)repeats->ring->data, SIZE, tail, head, take_repeats,
			      count_other, repeats, &error);
}

static void what_repeats_is_taken_first(void **state)
{
	/* Of which process; each has one that repeats. */
	static const uint32_t cases[][5] = {
		{7, 7, 7, 7, 7}, {1, 7, 7, 7, 7}, {7, 7, 1, 7, 7}, {7, 7, 7, 7, 1}, {1, 1, 7, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ring ring = {0};
		struct repeats repeats = {&ring, 7, 0};
		uint64_t head = 0, tail = 0;

		for (size_t j = 0; j < 5; j++) {
			struct stackbeat_sample *sample = put_sample(&ring, head);

			sample->pid = cases[i][j];
			head += sample->record.size;
		}
		assert_int_equal(decode_repeats(&repeats, &tail, head), 0);
		assert_int_equal(tail, head);
		assert_int_equal(repeats.taken + ring.samples, 5);
		assert_true(repeats.taken > 0);
	}
}

/* Up to the end of the data, and on from its beginning. */
static void what_repeats_goes_around_the_end(void **state)
{
	struct ring ring = {0};
	struct repeats repeats = {&ring, 7, 0};
	uint64_t size = put_sample(&ring, 0)->record.size;
	uint64_t tail = SIZE - size, head = SIZE + 2 * size;

	(void)state;
	put_sample(&ring, SIZE - size)->pid = 7;
	put_sample(&ring, 0)->pid = 7;
	put_sample(&ring, size);
	assert_int_equal(decode_repeats(&repeats, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(repeats.taken, 2);
	assert_int_equal(ring.samples, 1);
}

static void damage_behind_what_repeats_is_seen(void **state)
{
	struct ring ring = {0};
	struct repeats repeats = {&ring, 7, 0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	uint64_t size = sample->record.size, tail = 0;

	(void)state;
	sample->pid = 7;
	/* It would fit into what was there before the first one was taken. */
	put_sample(&ring, size)->record.size += 8;
	assert_int_equal(decode_repeats(&repeats, &tail, 2 * size), -EBADMSG);
	assert_int_equal(tail, 2 * size);
	assert_int_equal(repeats.taken, 1);
	assert_int_equal(ring.samples, 0);
}

struct metadata {
	uint64_t data[SIZE / sizeof(uint64_t)];
	uint32_t spaces, mappings, objects;
	size_t text; /* sum of the lengths, so that each is read */
};

static int count_space(const struct stackbeat_address_space *space, void *arg)
{
	struct metadata *metadata = arg;

	metadata->spaces++;
	metadata->text += strlen(space->cgroup_path) + strlen(space->comm);
	return 0;
}

static int count_mapping(const struct stackbeat_mapping *mapping, void *arg)
{
	struct metadata *metadata = arg;

	metadata->mappings += mapping->start < mapping->end;
	return 0;
}

static int count_object(const struct stackbeat_file *object, void *arg)
{
	struct metadata *metadata = arg;

	metadata->objects++;
	metadata->text += strlen(object->path);
	for (uint32_t i = 0; i < object->build_id_size; i++)
		metadata->text += object->build_id[i];
	return 0;
}

static int decode_told(struct metadata *metadata, uint64_t *tail, uint64_t head)
{
	const struct metadata_handler handler = {count_space, count_mapping, count_object,
						 metadata};
	struct error error = {""};
	int err = decode_metadata((const uint8_t *)metadata->data, SIZE, tail, head, &handler,
				  &error);

	assert_true(!err || *error.text);
	return err;
}

struct told {
	struct stackbeat_address_space *space;
	struct stackbeat_mapping *mapping;
	struct stackbeat_file *object;
};

/* One of each, with texts of 7 characters, which end with the record; returns the head. */
static uint64_t put_told(struct metadata *metadata, struct told *told)
{
	uint8_t *at = (uint8_t *)metadata->data;

	memset(metadata, 0, sizeof(*metadata));
	told->object = (void *)at;
	told->object->record.type = STACKBEAT_RECORD_FILE;
	told->object->record.flags = STACKBEAT_FILE_HEADERS_NOT_READ | STACKBEAT_FILE_UNLINKED;
	told->object->record.size = sizeof(*told->object) + 8;
	told->object->file = 1;
	told->object->build_id_size = STACKBEAT_BUILD_ID_MAX;
	strcpy(told->object->path, "/file/a");
	at += told->object->record.size;
	told->space = (void *)at;
	told->space->record.type = STACKBEAT_RECORD_ADDRESS_SPACE;
	told->space->record.size = sizeof(*told->space) + 8;
	told->space->address_space = 1;
	told->space->generation = 3;
	told->space->gap = 3;
	told->space->mappings = STACKBEAT_MAPPINGS_MAX;
	strcpy(told->space->comm, "123456789012345");
	strcpy(told->space->cgroup_path, "/a/b/cd");
	at += told->space->record.size;
	told->mapping = (void *)at;
	told->mapping->record.type = STACKBEAT_RECORD_MAPPING;
	told->mapping->record.flags = STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_MAIN_BINARY |
				      STACKBEAT_MAPPING_VDSO | STACKBEAT_MAPPING_VADDR;
	told->mapping->record.size = sizeof(*told->mapping);
	told->mapping->address_space = 1;
	told->mapping->start = 0x1000;
	told->mapping->end = 0x2000;
	told->mapping->offset = UINT64_MAX - 0x1000;
	at += told->mapping->record.size;
	return (uint64_t)(at - (uint8_t *)metadata->data);
}

static void decodes_metadata(void **state)
{
	struct metadata metadata = {0};
	struct told told;
	uint64_t tail = 0, head = put_told(&metadata, &told);
	struct ring samples = {0};

	(void)state;
	assert_int_equal(decode_told(&metadata, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(metadata.spaces, 1);
	assert_int_equal(metadata.mappings, 1);
	assert_int_equal(metadata.objects, 1);
	assert_int_equal(metadata.text, 7 + 15 + 7);
	/* Each kind of record counts in its own ring only. */
	memcpy(samples.data, metadata.data, sizeof(samples.data));
	tail = 0;
	assert_int_equal(decode(&samples, &tail, head), 0);
	assert_int_equal(samples.samples, 0);
	head = put_sample(&samples, 0)->record.size;
	memcpy(metadata.data, samples.data, sizeof(samples.data));
	tail = 0;
	assert_int_equal(decode_told(&metadata, &tail, head), 0);
	assert_int_equal(metadata.spaces + metadata.mappings + metadata.objects, 3);
}

static void object_flags(struct told *told)
{
	told->object->record.flags |= 1u << 2;
}

static void object_short(struct told *told)
{
	told->object->record.size = sizeof(*told->object);
}

static void object_without_id(struct told *told)
{
	told->object->file = 0;
}

static void object_build_id(struct told *told)
{
	told->object->build_id_size = STACKBEAT_BUILD_ID_MAX + 1;
}

static void object_path_endless(struct told *told)
{
	memset(told->object->path, 'x', 8);
}

static void space_flags(struct told *told)
{
	told->space->record.flags = 1;
}

static void space_short(struct told *told)
{
	told->space->record.size = sizeof(*told->space);
}

static void space_without_id(struct told *told)
{
	told->space->address_space = 0;
}

static void space_gap(struct told *told)
{
	told->space->gap = 4;
}

static void space_mappings(struct told *told)
{
	told->space->mappings++;
}

static void space_comm_endless(struct told *told)
{
	memset(told->space->comm, 'x', sizeof(told->space->comm));
}

static void space_path_endless(struct told *told)
{
	memset(told->space->cgroup_path, 'x', 8);
}

static void mapping_flags(struct told *told)
{
	told->mapping->record.flags |= 1u << 4;
}

static void mapping_short(struct told *told)
{
	told->mapping->record.size -= 8;
}

static void mapping_without_space(struct told *told)
{
	told->mapping->address_space = 0;
}

static void mapping_empty(struct told *told)
{
	told->mapping->end = told->mapping->start;
}

static void mapping_backward(struct told *told)
{
	told->mapping->end = 0;
}

static void mapping_offset(struct told *told)
{
	told->mapping->offset++;
}

static void refuses_metadata_that_is_malformed(void **state)
{
	static void (*const damages[])(struct told *) = {
		object_flags,   object_short,       object_without_id,     object_build_id,
		space_flags,    space_short,        space_without_id,      space_gap,
		space_mappings, space_comm_endless, space_path_endless,    object_path_endless,
		mapping_flags,  mapping_short,      mapping_without_space, mapping_empty,
		mapping_offset, mapping_backward};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct metadata metadata = {0};
		struct told told;
		uint64_t tail = 0, head = put_told(&metadata, &told);

		damages[i](&told);
		assert_int_equal(decode_told(&metadata, &tail, head), -EBADMSG);
		assert_int_equal(tail, head);
	}
}

static void survives_any_bytes_of_metadata(void **state)
{
	struct metadata *metadata = malloc(sizeof(*metadata));
	uint32_t rejected = 0;
	struct told told;

	(void)state;
	assert_non_null(metadata);
	srand(2);
	for (int round = 0; round < 20000; round++) {
		uint64_t tail = 0, head = put_told(metadata, &told);

		for (int i = rand() % 4; i >= 0; i--)
			((uint8_t *)metadata->data)[rand() % head] = rand();
		rejected += decode_told(metadata, &tail, head) != 0;
		assert_int_equal(tail, head);
	}
	assert_true(rejected > 1000);
	free(metadata);
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
		cmocka_unit_test(what_repeats_is_taken_first),
		cmocka_unit_test(what_repeats_goes_around_the_end),
		cmocka_unit_test(damage_behind_what_repeats_is_seen),
		cmocka_unit_test(survives_any_bytes),
		cmocka_unit_test(decodes_metadata),
		cmocka_unit_test(refuses_metadata_that_is_malformed),
		cmocka_unit_test(survives_any_bytes_of_metadata),
	};

	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}

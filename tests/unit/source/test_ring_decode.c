// SPDX-License-Identifier: GPL-2.0
/* The decoder on malformed records, which no kernel should write. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "source/ring_decode.h"

#define SIZE 1024u

struct ring {
	uint64_t data[SIZE / sizeof(uint64_t)];
	uint32_t samples;
	uint32_t stacks; /* copies */
	uint64_t frames; /* sum of all frames: reads each of them */
	uint64_t bytes; /* the same of the bytes of copies */
};

static int count_sample(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
			void *arg)
{
	struct ring *ring = arg;

	ring->samples++;
	for (size_t i = 0; i < (size_t)sample->kernel_frames + sample->user_frames; i++)
		ring->frames += sample->frames[i];
	ring->frames += strlen(sample->comm);
	assert_int_equal(!!stack, sample->record.flags == STACKBEAT_SAMPLE_STACK);
	if (!stack)
		return 0;
	ring->stacks++;
	for (size_t i = 0; i < stack->size; i++)
		ring->bytes += stack->bytes[i];
	return 0;
}

static struct error error;

static int decode(struct ring *ring, uint64_t *tail, uint64_t head)
{
	int err;

	*error.text = '\0';
	err = decode_records((const uint8_t *)ring->data, SIZE, tail, head, NULL, count_sample,
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

static void decodes_samples_and_skips_unknown_records(void **state)
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

/* As many bytes as the ring has are valid, one more record is not. */
static void full_ring_is_decoded(void **state)
{
	struct ring ring = {0};
	struct stackbeat_record *record = (void *)ring.data;
	uint64_t tail = SIZE;

	(void)state;
	record->type = 999;
	record->size = SIZE;
	assert_int_equal(decode(&ring, &tail, 2 * SIZE), 0);
	assert_int_equal(tail, 2 * SIZE);
	assert_int_equal(decode(&ring, &tail, 3 * SIZE + sizeof(uint64_t)), -EBADMSG);
	/* A position that is no multiple of 8. */
	tail = 0;
	assert_int_equal(decode(&ring, &tail, SIZE - 1), -EBADMSG);
	tail = 4;
	assert_int_equal(decode(&ring, &tail, SIZE), -EBADMSG);
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

static void labels_without_room(struct stackbeat_sample *sample)
{
	sample->record.flags = STACKBEAT_SAMPLE_GO_LABELS;
}

/* All words but the last one are frames, or of the goroutine. */
static void put_labels(struct stackbeat_sample *sample, uint32_t size)
{
	struct stackbeat_go_labels *labels = (void *)(sample->frames + 1);

	sample->user_frames = 0;
	sample->record.flags = STACKBEAT_SAMPLE_GO_LABELS;
	labels->size = size;
}

static void labels_beyond_record(struct stackbeat_sample *sample)
{
	put_labels(sample, sizeof(struct stackbeat_go_labels) + 8);
}

static void labels_behind_the_goroutine(struct stackbeat_sample *sample)
{
	put_labels(sample, sizeof(struct stackbeat_go_labels));
	sample->record.flags |= STACKBEAT_SAMPLE_GOROUTINE;
}

static void stop_unknown(struct stackbeat_sample *sample)
{
	sample->user_stop = STACKBEAT_STOP_COUNT;
}

static void kernel_stop_unknown(struct stackbeat_sample *sample)
{
	sample->kernel_stop = STACKBEAT_STOP_COUNT;
}

static void comm_unterminated(struct stackbeat_sample *sample)
{
	memset(sample->comm, 'x', sizeof(sample->comm));
}

static void refuses_malformed_samples(void **state)
{
	(void)state;
	refuses(no_size);
	refuses(odd_size);
	refuses(size_of_header);
	refuses(size_too_large);
	refuses(size_huge);
	refuses(frames_too_many);
	refuses(frames_huge);
	refuses(labels_without_room);
	refuses(labels_beyond_record);
	refuses(labels_behind_the_goroutine);
	refuses(stop_unknown);
	refuses(kernel_stop_unknown);
	refuses(comm_unterminated);
}

static void labels_may_follow_the_words_of_a_goroutine(void **state)
{
	struct ring ring = {0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	uint64_t tail = 0;

	(void)state;
	put_labels(sample, sizeof(struct stackbeat_go_labels));
	assert_int_equal(decode(&ring, &tail, sample->record.size), 0);
	put_labels(sample, 0);
	sample->record.flags |= STACKBEAT_SAMPLE_GOROUTINE | STACKBEAT_SAMPLE_GO_CREATOR;
	sample->record.size += 2 * sizeof(uint64_t);
	((struct stackbeat_go_labels *)(sample->frames + 3))->size = sizeof(uint64_t);
	tail = 0;
	assert_int_equal(decode(&ring, &tail, sample->record.size), 0);
	assert_int_equal(ring.samples, 2);
}

/* Each limit itself is allowed. */
static void limits_of_samples_are_exact(void **state)
{
	enum { FRAMES = STACKBEAT_KERNEL_FRAMES_MAX + STACKBEAT_USER_FRAMES_MAX, BYTES = 16384 };
	static union {
		struct stackbeat_sample sample;
		uint64_t data[BYTES / sizeof(uint64_t)];
	} large;
	static const struct {
		uint16_t kernel, user, table;
		const char *message;
	} cases[] = {
		{STACKBEAT_KERNEL_FRAMES_MAX, STACKBEAT_USER_FRAMES_MAX, STACKBEAT_USER_FRAMES_MAX,
		 NULL},
		{STACKBEAT_KERNEL_FRAMES_MAX + 1, STACKBEAT_USER_FRAMES_MAX - 1, 0,
		 "too many frames"},
		{STACKBEAT_KERNEL_FRAMES_MAX - 1, STACKBEAT_USER_FRAMES_MAX + 1, 0,
		 "too many frames"},
		{0, 5, 6, "more frames of unwind tables than user frames"},
		{STACKBEAT_KERNEL_FRAMES_MAX, STACKBEAT_USER_FRAMES_MAX + 1, 0,
		 "more frames than bytes"},
	};
	struct stackbeat_sample *sample = &large.sample;
	struct ring counts = {0};

	(void)state;
	sample->record.type = STACKBEAT_RECORD_SAMPLE;
	sample->record.size = sizeof(*sample) + FRAMES * sizeof(sample->frames[0]);
	sample->user_stop = STACKBEAT_STOP_COUNT - 1;
	memset(sample->comm, 'x', sizeof(sample->comm) - 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t tail = 0;
		int err;

		sample->kernel_frames = cases[i].kernel;
		sample->user_frames = cases[i].user;
		sample->table_frames = cases[i].table;
		err = decode_records((const uint8_t *)large.data, BYTES, &tail, sample->record.size,
				     NULL, count_sample, &counts, &error);
		assert_int_equal(err, cases[i].message ? -EBADMSG : 0);
		if (err && !strstr(error.text, cases[i].message))
			fail_msg("%s", error.text);
	}
	assert_int_equal(counts.samples, 1);
}

static struct stackbeat_stack *put_stack(struct ring *ring, uint32_t at, uint32_t size)
{
	struct stackbeat_stack *stack = (void *)((uint8_t *)ring->data + at);

	memset(stack, 0, sizeof(*stack));
	stack->record.type = STACKBEAT_RECORD_STACK;
	stack->record.size = sizeof(*stack) + size;
	stack->size = size;
	memset(stack->bytes, 1, size);
	return stack;
}

/* Records that are only their headers: a pad, a sample without frames, and an empty copy. */
static void shortest_records_are_decoded(void **state)
{
	struct ring ring = {0};
	struct stackbeat_record *pad = (void *)ring.data;
	struct stackbeat_sample *sample = put_sample(&ring, sizeof(*pad));
	uint64_t tail = 0, head = sizeof(*pad) + sizeof(*sample);

	(void)state;
	pad->type = STACKBEAT_RECORD_PAD;
	pad->size = sizeof(*pad);
	sample->kernel_frames = sample->user_frames = 0;
	sample->record.size = sizeof(*sample);
	sample->record.flags = STACKBEAT_SAMPLE_STACK;
	head += put_stack(&ring, (uint32_t)head, 0)->record.size;
	assert_int_equal(decode(&ring, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 1);
	assert_int_equal(ring.stacks, 1);
}

static void limit_of_copies_is_exact(void **state)
{
	enum { BYTES = 2 * STACKBEAT_STACK_COPY_MAX };
	uint64_t *data = calloc(1, BYTES);
	struct stackbeat_sample *sample = (void *)data;
	struct ring counts = {0};

	(void)state;
	assert_non_null(data);
	*sample = (struct stackbeat_sample){
		.record = {.type = STACKBEAT_RECORD_SAMPLE,
			   .flags = STACKBEAT_SAMPLE_STACK,
			   .size = sizeof(*sample)},
	};
	for (uint32_t more = 0; more <= 8; more += 8) {
		struct stackbeat_stack *stack = (void *)(sample + 1);
		uint64_t tail = 0;

		stack->record.type = STACKBEAT_RECORD_STACK;
		stack->size = STACKBEAT_STACK_COPY_MAX + more;
		stack->record.size = (uint32_t)(sizeof(*stack) + stack->size);
		assert_int_equal(decode_records((const uint8_t *)data, BYTES, &tail,
						sizeof(*sample) + stack->record.size, NULL,
						count_sample, &counts, &error),
				 more ? -EBADMSG : 0);
	}
	assert_int_equal(counts.stacks, 1);
	free(data);
}

static void refuses_a_head_out_of_range(void **state)
{
	const uint64_t heads[] = {SIZE + 8, 1, 7, UINT64_MAX, UINT64_MAX - 7};
	struct ring ring = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		uint64_t tail = 0;

		assert_int_equal(decode(&ring, &tail, heads[i]), -EBADMSG);
		assert_int_equal(tail, heads[i]);
		assert_non_null(strstr(error.text, "head is out of range"));
	}
}

static void a_record_must_not_wrap_around(void **state)
{
	struct ring ring = {0};
	uint64_t tail = SIZE - 16;
	struct stackbeat_record *record = (void *)((uint8_t *)ring.data + tail);

	(void)state;
	record->type = STACKBEAT_RECORD_PAD;
	record->size = 24;
	assert_int_equal(decode(&ring, &tail, tail + 64), -EBADMSG);
}

/* A sample with a copy of its stack, and another sample. Returns the head. */
static uint64_t put_copied_sample(struct ring *ring, struct stackbeat_sample **sample,
				  struct stackbeat_stack **stack)
{
	uint64_t head;

	*sample = put_sample(ring, 0);
	(*sample)->record.flags = STACKBEAT_SAMPLE_STACK;
	head = (*sample)->record.size;
	*stack = put_stack(ring, (uint32_t)head, 64);
	head += (*stack)->record.size;
	head += put_sample(ring, (uint32_t)head)->record.size;
	return head;
}

static void passes_the_copy_of_a_stack_with_its_sample(void **state)
{
	struct stackbeat_sample *sample;
	struct stackbeat_stack *stack;
	struct ring ring = {0};
	uint64_t tail = 0, head = put_copied_sample(&ring, &sample, &stack);

	(void)state;
	assert_int_equal(decode(&ring, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 2);
	assert_int_equal(ring.stacks, 1);
	assert_int_equal(ring.bytes, 64);
}

/* At the end of the data, a pad may be between both. */
static void a_copy_may_follow_a_pad(void **state)
{
	struct ring ring = {0};
	struct stackbeat_sample *sample = put_sample(&ring, SIZE - 256);
	uint64_t tail = SIZE - 256, head = tail + sample->record.size;
	struct stackbeat_record *pad = (void *)((uint8_t *)ring.data + head);

	(void)state;
	sample->record.flags = STACKBEAT_SAMPLE_STACK;
	*pad = (struct stackbeat_record){.type = STACKBEAT_RECORD_PAD,
					 .size = (uint32_t)(SIZE - head)};
	head = SIZE + put_stack(&ring, 0, 128)->record.size;
	assert_int_equal(decode(&ring, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 1);
	assert_int_equal(ring.bytes, 128);
}

static void refuses_copy(void (*damage)(struct stackbeat_sample *sample,
					struct stackbeat_stack *stack))
{
	struct stackbeat_sample *sample;
	struct stackbeat_stack *stack;
	struct ring ring = {0};
	uint64_t tail = 0, head = put_copied_sample(&ring, &sample, &stack);

	damage(sample, stack);
	assert_int_equal(decode(&ring, &tail, head), -EBADMSG);
	assert_int_equal(tail, head);
	assert_int_equal(ring.stacks, 0);
}

static void copy_without_flag(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)stack;
	sample->record.flags = 0;
}

static void flag_without_copy(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->record.type = 999;
}

static void copy_flags(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->record.flags = STACKBEAT_STACK_EXTRA << 1;
}

static void copy_beyond_record(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->size += 8;
}

static void copy_of_odd_size(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->size -= 4;
}

static void copy_huge(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->size = UINT64_MAX - 7;
}

static void copy_shorter_than_header(struct stackbeat_sample *sample, struct stackbeat_stack *stack)
{
	(void)sample;
	stack->record.size = sizeof(*stack) - 8;
}

static void refuses_malformed_copies(void **state)
{
	(void)state;
	refuses_copy(copy_without_flag);
	refuses_copy(flag_without_copy);
	refuses_copy(copy_flags);
	refuses_copy(copy_beyond_record);
	refuses_copy(copy_of_odd_size);
	refuses_copy(copy_huge);
	refuses_copy(copy_shorter_than_header);
}

/* The head is behind the sample: the copy is not there. */
static void refuses_a_sample_without_its_copy_at_the_head(void **state)
{
	struct stackbeat_sample *sample;
	struct stackbeat_stack *stack;
	struct ring ring = {0};
	uint64_t tail = 0, head;

	(void)state;
	put_copied_sample(&ring, &sample, &stack);
	head = sample->record.size;
	assert_int_equal(decode(&ring, &tail, head), -EBADMSG);
	assert_int_equal(tail, head);
	assert_int_equal(ring.samples, 0);
}

static void refuses_more_table_frames_than_frames(void **state)
{
	struct ring ring = {0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	uint64_t tail = 0, head = sample->record.size;

	(void)state;
	sample->table_frames = sample->user_frames;
	assert_int_equal(decode(&ring, &tail, head), 0);
	sample->table_frames++;
	tail = 0;
	assert_int_equal(decode(&ring, &tail, head), -EBADMSG);
}

static int stop_at_once(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
			void *arg)
{
	(void)sample, (void)stack, (void)arg;
	return -ENOMEM;
}

static void stops_at_an_error_of_the_handler(void **state)
{
	struct ring ring = {0};
	uint64_t size = put_sample(&ring, 0)->record.size, tail = 0;
	struct error error;

	(void)state;
	put_sample(&ring, size);
	assert_int_equal(decode_records((const uint8_t *)ring.data, SIZE, &tail, 2 * size, NULL,
					stop_at_once, NULL, &error),
			 -ENOMEM);
	assert_int_equal(tail, 0);
}

/* A fast path that handles the first samples, up to one of another process. */
struct fake_fast_path {
	struct ring *ring;
	uint32_t pid;
	uint32_t matched;
};

static uint64_t match_samples(const void *data, uint64_t available, void *arg)
{
	struct fake_fast_path *fake = arg;
	uint64_t matched = 0;

	assert_in_range((const uint8_t *)data - (const uint8_t *)fake->ring->data, 0,
			SIZE - available);
	while (available - matched >= sizeof(struct stackbeat_sample)) {
		const struct stackbeat_sample *sample =
			(const void *)((const uint8_t *)data + matched);

		if (sample->pid != fake->pid || sample->record.size > available - matched)
			break;
		matched += sample->record.size;
		fake->matched++;
	}
	return matched;
}

static int count_other(const struct stackbeat_sample *sample, const struct stackbeat_stack *stack,
		       void *arg)
{
	const struct fake_fast_path *fake = arg;

	assert_int_not_equal(sample->pid, fake->pid);
	return count_sample(sample, stack, fake->ring);
}

static int decode_with_fast_path(struct fake_fast_path *fake, uint64_t *tail, uint64_t head)
{
	struct error error;

	return decode_records((const uint8_t *)fake->ring->data, SIZE, tail, head, match_samples,
			      count_other, fake, &error);
}

static void fast_path_is_called_before_each_record(void **state)
{
	/* Process ids of the samples; the fast path handles 7. */
	static const uint32_t cases[][5] = {
		{7, 7, 7, 7, 7}, {1, 7, 7, 7, 7}, {7, 7, 1, 7, 7}, {7, 7, 7, 7, 1}, {1, 1, 7, 1, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ring ring = {0};
		struct fake_fast_path fake = {&ring, 7, 0};
		uint64_t head = 0, tail = 0;

		for (size_t j = 0; j < 5; j++) {
			struct stackbeat_sample *sample = put_sample(&ring, head);

			sample->pid = cases[i][j];
			head += sample->record.size;
		}
		assert_int_equal(decode_with_fast_path(&fake, &tail, head), 0);
		assert_int_equal(tail, head);
		assert_int_equal(fake.matched + ring.samples, 5);
		assert_true(fake.matched > 0);
	}
}

/* At the end of the data, and again at its start. */
static void fast_path_continues_at_the_start(void **state)
{
	struct ring ring = {0};
	struct fake_fast_path fake = {&ring, 7, 0};
	uint64_t size = put_sample(&ring, 0)->record.size;
	uint64_t tail = SIZE - size, head = SIZE + 2 * size;

	(void)state;
	put_sample(&ring, SIZE - size)->pid = 7;
	put_sample(&ring, 0)->pid = 7;
	put_sample(&ring, size);
	assert_int_equal(decode_with_fast_path(&fake, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(fake.matched, 2);
	assert_int_equal(ring.samples, 1);
}

static void refuses_malformed_sample_behind_fast_path(void **state)
{
	struct ring ring = {0};
	struct fake_fast_path fake = {&ring, 7, 0};
	struct stackbeat_sample *sample = put_sample(&ring, 0);
	uint64_t size = sample->record.size, tail = 0;

	(void)state;
	sample->pid = 7;
	/* The size fits into the bytes that were available before the first sample. */
	put_sample(&ring, size)->record.size += 8;
	assert_int_equal(decode_with_fast_path(&fake, &tail, 2 * size), -EBADMSG);
	assert_int_equal(tail, 2 * size);
	assert_int_equal(fake.matched, 1);
	assert_int_equal(ring.samples, 0);
}

struct metadata {
	uint64_t data[SIZE / sizeof(uint64_t)];
	uint32_t spaces, mappings, files;
	size_t bytes; /* sum of lengths of strings and bytes of build IDs: reads each of them */
};

static int count_space(const struct stackbeat_address_space *space, void *arg)
{
	struct metadata *metadata = arg;

	metadata->spaces++;
	metadata->bytes += strlen(space->cgroup_path) + strlen(space->comm);
	return 0;
}

static int count_mapping(const struct stackbeat_mapping *mapping, void *arg)
{
	struct metadata *metadata = arg;

	metadata->mappings += mapping->start < mapping->end;
	return 0;
}

static int count_file(const struct stackbeat_file *file, void *arg)
{
	struct metadata *metadata = arg;

	metadata->files++;
	metadata->bytes += strlen(file->path);
	for (uint32_t i = 0; i < file->build_id_size; i++)
		metadata->bytes += file->build_id[i];
	return 0;
}

static int decode_all(struct metadata *metadata, uint64_t *tail, uint64_t head)
{
	const struct metadata_handler handler = {count_space, count_mapping, count_file, metadata};
	struct error error = {""};
	int err = decode_metadata((const uint8_t *)metadata->data, SIZE, tail, head, &handler,
				  &error);

	assert_true(!err || *error.text);
	return err;
}

struct records {
	struct stackbeat_address_space *space;
	struct stackbeat_mapping *mapping;
	struct stackbeat_file *file;
};

/* Writes a record of each type, with strings of 7 characters up to its end. Returns the head. */
static uint64_t put_records(struct metadata *metadata, struct records *records)
{
	uint8_t *at = (uint8_t *)metadata->data;

	memset(metadata, 0, sizeof(*metadata));
	records->file = (void *)at;
	records->file->record.type = STACKBEAT_RECORD_FILE;
	records->file->record.flags = STACKBEAT_FILE_HEADERS_NOT_READ | STACKBEAT_FILE_UNLINKED |
				      STACKBEAT_FILE_UNWIND_TABLE | STACKBEAT_FILE_LASTING;
	records->file->record.size = sizeof(*records->file) + 8;
	records->file->file = 1;
	records->file->build_id_size = STACKBEAT_BUILD_ID_MAX;
	strcpy(records->file->path, "/file/a");
	at += records->file->record.size;
	records->space = (void *)at;
	records->space->record.type = STACKBEAT_RECORD_ADDRESS_SPACE;
	records->space->record.size = sizeof(*records->space) + 8;
	records->space->address_space = 1;
	records->space->generation = 3;
	records->space->gap = 3;
	records->space->mappings = STACKBEAT_MAPPINGS_MAX;
	strcpy(records->space->comm, "123456789012345");
	strcpy(records->space->cgroup_path, "/a/b/cd");
	at += records->space->record.size;
	records->mapping = (void *)at;
	records->mapping->record.type = STACKBEAT_RECORD_MAPPING;
	records->mapping->record.flags = STACKBEAT_MAPPING_EVENT | STACKBEAT_MAPPING_MAIN_BINARY |
					 STACKBEAT_MAPPING_VDSO | STACKBEAT_MAPPING_VADDR;
	records->mapping->record.size = sizeof(*records->mapping);
	records->mapping->address_space = 1;
	records->mapping->start = 0x1000;
	records->mapping->end = 0x2000;
	records->mapping->offset = UINT64_MAX - 0x1000;
	at += records->mapping->record.size;
	return (uint64_t)(at - (uint8_t *)metadata->data);
}

static void decodes_metadata(void **state)
{
	struct metadata metadata = {0};
	struct records records;
	uint64_t tail = 0, head = put_records(&metadata, &records);
	struct ring samples = {0};

	(void)state;
	assert_int_equal(decode_all(&metadata, &tail, head), 0);
	assert_int_equal(tail, head);
	assert_int_equal(metadata.spaces, 1);
	assert_int_equal(metadata.mappings, 1);
	assert_int_equal(metadata.files, 1);
	assert_int_equal(metadata.bytes, 7 + 15 + 7);
	/* Records of the other ring are skipped. */
	memcpy(samples.data, metadata.data, sizeof(samples.data));
	tail = 0;
	assert_int_equal(decode(&samples, &tail, head), 0);
	assert_int_equal(samples.samples, 0);
	head = put_sample(&samples, 0)->record.size;
	memcpy(metadata.data, samples.data, sizeof(samples.data));
	tail = 0;
	assert_int_equal(decode_all(&metadata, &tail, head), 0);
	assert_int_equal(metadata.spaces + metadata.mappings + metadata.files, 3);
}

static void file_flags(struct records *records)
{
	records->file->record.flags |= STACKBEAT_FILE_LASTING << 1;
}

static void file_short(struct records *records)
{
	records->file->record.size = sizeof(*records->file);
}

static void file_without_id(struct records *records)
{
	records->file->file = 0;
}

static void file_build_id(struct records *records)
{
	records->file->build_id_size = STACKBEAT_BUILD_ID_MAX + 1;
}

static void file_path_unterminated(struct records *records)
{
	memset(records->file->path, 'x', 8);
}

static void space_flags(struct records *records)
{
	records->space->record.flags = 1;
}

static void space_short(struct records *records)
{
	records->space->record.size = sizeof(*records->space);
}

static void space_without_id(struct records *records)
{
	records->space->address_space = 0;
}

static void space_gap(struct records *records)
{
	records->space->gap = 4;
}

static void space_mappings(struct records *records)
{
	records->space->mappings++;
}

static void space_comm_unterminated(struct records *records)
{
	memset(records->space->comm, 'x', sizeof(records->space->comm));
}

static void space_path_unterminated(struct records *records)
{
	memset(records->space->cgroup_path, 'x', 8);
}

static void mapping_flags(struct records *records)
{
	records->mapping->record.flags |= 1u << 4;
}

static void mapping_short(struct records *records)
{
	records->mapping->record.size -= 8;
}

static void mapping_without_space(struct records *records)
{
	records->mapping->address_space = 0;
}

static void mapping_empty(struct records *records)
{
	records->mapping->end = records->mapping->start;
}

static void mapping_backward(struct records *records)
{
	records->mapping->end = 0;
}

static void mapping_offset(struct records *records)
{
	records->mapping->offset++;
}

static void refuses_malformed_metadata(void **state)
{
	static void (*const damages[])(struct records *) = {file_flags,
							    file_short,
							    file_without_id,
							    file_build_id,
							    space_flags,
							    space_short,
							    space_without_id,
							    space_gap,
							    space_mappings,
							    space_comm_unterminated,
							    space_path_unterminated,
							    file_path_unterminated,
							    mapping_flags,
							    mapping_short,
							    mapping_without_space,
							    mapping_empty,
							    mapping_offset,
							    mapping_backward};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct metadata metadata = {0};
		struct records records;
		uint64_t tail = 0, head = put_records(&metadata, &records);

		damages[i](&records);
		assert_int_equal(decode_all(&metadata, &tail, head), -EBADMSG);
		assert_int_equal(tail, head);
	}
}

static int ignore_file(const struct stackbeat_file *file, void *arg)
{
	(void)file, (void)arg;
	return 0;
}

static int ignore_space(const struct stackbeat_address_space *space, void *arg)
{
	(void)space, (void)arg;
	return 0;
}

/* Decodes one record of a ring. */
static int decode_one(const struct stackbeat_record *record)
{
	const struct metadata_handler handler = {ignore_space, NULL, ignore_file, NULL};
	uint64_t tail = 0;

	return decode_metadata((const uint8_t *)record, 2 * STACKBEAT_PATH_MAX, &tail, record->size,
			       &handler, &error);
}

/* A path has its NUL, and not more characters than a path of the kernel. */
static void paths_are_limited(void **state)
{
	struct stackbeat_file *file = calloc(2, STACKBEAT_PATH_MAX);
	struct stackbeat_address_space *space = calloc(2, STACKBEAT_PATH_MAX);

	(void)state;
	assert_non_null(file);
	assert_non_null(space);
	file->record.type = STACKBEAT_RECORD_FILE;
	file->file = 1;
	space->record.type = STACKBEAT_RECORD_ADDRESS_SPACE;
	space->address_space = 1;
	file->record.size = sizeof(*file);
	assert_int_equal(decode_one(&file->record), -EBADMSG);
	assert_non_null(strstr(error.text, "a file is shorter than its header and a path"));
	space->record.size = sizeof(*space);
	assert_int_equal(decode_one(&space->record), -EBADMSG);
	assert_non_null(strstr(error.text, "an address space is shorter than its header"));
	file->record.size += STACKBEAT_PATH_MAX + 8;
	space->record.size += STACKBEAT_PATH_MAX + 8;
	memset(file->path, 'x', STACKBEAT_PATH_MAX - 1);
	memset(space->cgroup_path, 'x', STACKBEAT_PATH_MAX - 1);
	assert_int_equal(decode_one(&file->record), 0);
	assert_int_equal(decode_one(&space->record), 0);
	file->path[STACKBEAT_PATH_MAX - 1] = space->cgroup_path[STACKBEAT_PATH_MAX - 1] = 'x';
	assert_int_equal(decode_one(&file->record), -EBADMSG);
	assert_int_equal(decode_one(&space->record), -EBADMSG);
	free(file);
	free(space);
}

static void survives_any_bytes_of_metadata(void **state)
{
	struct metadata *metadata = malloc(sizeof(*metadata));
	uint32_t rejected = 0;
	struct records records;

	(void)state;
	assert_non_null(metadata);
	srand(2);
	for (int round = 0; round < 20000; round++) {
		uint64_t tail = 0, head = put_records(metadata, &records);

		for (int i = rand() % 4; i >= 0; i--)
			((uint8_t *)metadata->data)[rand() % head] = rand();
		rejected += decode_all(metadata, &tail, head) != 0;
		assert_int_equal(tail, head);
	}
	assert_true(rejected > 1000);
	free(metadata);
}

/* Random bytes over valid records: ASan reports accesses outside the ring. */
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
		cmocka_unit_test(decodes_samples_and_skips_unknown_records),
		cmocka_unit_test(full_ring_is_decoded),
		cmocka_unit_test(refuses_malformed_samples),
		cmocka_unit_test(labels_may_follow_the_words_of_a_goroutine),
		cmocka_unit_test(limits_of_samples_are_exact),
		cmocka_unit_test(shortest_records_are_decoded),
		cmocka_unit_test(limit_of_copies_is_exact),
		cmocka_unit_test(refuses_a_head_out_of_range),
		cmocka_unit_test(a_record_must_not_wrap_around),
		cmocka_unit_test(passes_the_copy_of_a_stack_with_its_sample),
		cmocka_unit_test(a_copy_may_follow_a_pad),
		cmocka_unit_test(refuses_malformed_copies),
		cmocka_unit_test(refuses_a_sample_without_its_copy_at_the_head),
		cmocka_unit_test(refuses_more_table_frames_than_frames),
		cmocka_unit_test(stops_at_an_error_of_the_handler),
		cmocka_unit_test(fast_path_is_called_before_each_record),
		cmocka_unit_test(fast_path_continues_at_the_start),
		cmocka_unit_test(refuses_malformed_sample_behind_fast_path),
		cmocka_unit_test(survives_any_bytes),
		cmocka_unit_test(decodes_metadata),
		cmocka_unit_test(refuses_malformed_metadata),
		cmocka_unit_test(paths_are_limited),
		cmocka_unit_test(survives_any_bytes_of_metadata),
	};

	return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0
/*
 * The metadata ring, and the address spaces and mapped files built from it: the input is the tail,
 * the head and the data.
 */
#include "fuzz.h"

#include "lib/error.h"
#include "mappings/address_space.h"
#include "mappings/mapped_files.h"
#include "source/ring_decode.h"

#include <errno.h>

#define RING_SIZE 8192u
/* A root without processes, so that none of this machine is read. */
#define ROOT "/nonexistent"

struct reader {
	struct mapped_files *objects;
	struct address_spaces *spaces;
	uint64_t sum;
};

static void look_up(struct reader *reader, uint64_t id, uint32_t generation, uint64_t address)
{
	struct address_space *space = address_spaces_get(reader->spaces, id, 1);
	struct mapped_file *object;
	uint64_t number;
	uint32_t place;
	bool is_offset;

	if (!space)
		abort();
	if (!address_space_ready(space, generation, true) &&
	    address_space_advance(space, generation) != 0)
		abort();
	place = address_space_segment_at(space, generation, address, &number);
	object = segment_file(reader->objects, place, &is_offset);
	reader->sum +=
		address_space_is_certain(space, generation) + address_space_pid(space) + number;
	reader->sum += strlen(address_space_comm(space)) + strlen(address_space_cgroup_path(space));
	if (object)
		reader->sum += strlen(object->path) + strlen(object->build_id);
}

static int take_space(const struct stackbeat_address_space *record, void *arg)
{
	struct reader *reader = arg;

	reader->sum += strlen(record->comm) + strlen(record->cgroup_path);
	if (address_spaces_add(reader->spaces, record) != 0)
		abort();
	look_up(reader, record->address_space, record->generation, record->start_time);
	return 0;
}

static int take_mapping(const struct stackbeat_mapping *record, void *arg)
{
	struct reader *reader = arg;

	if (address_spaces_add_mapping(reader->spaces, record) != 0)
		abort();
	/* Look up only odd generations at once; the others stay pending until later records. */
	if (record->generation & 1) {
		look_up(reader, record->address_space, record->generation, record->start);
		look_up(reader, record->address_space, record->generation, record->end);
	}
	return 0;
}

static int take_file(const struct stackbeat_file *record, void *arg)
{
	struct reader *reader = arg;
	struct mapped_file *object;

	if (mapped_files_add(reader->objects, record) != 0)
		abort();
	object = mapped_files_get(reader->objects, record->file);
	if (!object || strspn(object->build_id, "0123456789abcdef") != strlen(object->build_id))
		abort();
	return 0;
}

static int refuse(uint64_t id, void *arg)
{
	(void)id;
	(void)arg;
	return -ENOENT;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct file_source source = {.open = refuse, .release = refuse};
	struct reader reader = {0};
	const struct metadata_handler handler = {take_space, take_mapping, take_file, &reader};
	struct address_space_counts counts;
	struct error error;
	uint64_t tail, head;
	uint8_t *ring;

	if (size < sizeof(tail) + sizeof(head))
		return 0;
	memcpy(&tail, data, sizeof(tail));
	memcpy(&head, data + sizeof(tail), sizeof(head));
	data += sizeof(tail) + sizeof(head);
	size -= sizeof(tail) + sizeof(head);
	ring = calloc(1, RING_SIZE);
	reader.objects = mapped_files_new(ROOT, &source, &error);
	reader.spaces = address_spaces_new(ROOT, reader.objects, &error);
	if (!ring || !reader.spaces)
		abort();
	memcpy(ring, data, size < RING_SIZE ? size : RING_SIZE);
	decode_metadata(ring, RING_SIZE, &tail, head, &handler, &error);
	if (tail != head)
		abort();
	if (address_spaces_collect_garbage(reader.spaces, head, tail, (head & 8) != 0) != 0)
		abort();
	address_spaces_counts(reader.spaces, &counts);
	mapped_files_sweep(reader.objects);
	address_spaces_free(reader.spaces);
	mapped_files_free(reader.objects);
	free(ring);
	return 0;
}

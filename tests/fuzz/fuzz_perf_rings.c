// SPDX-License-Identifier: GPL-2.0
/*
 * The rings of perf events: the input is the fields of samples, a time, and for each of two rings
 * its tail, its size and its bytes. Their records are those that each ring has by itself, in the
 * order of time, whether they wrap around or not.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "source/perf_rings.h"

#define RINGS 2u
#define PAGE 4096u
#define RING_SIZE 4096u

struct input {
	uint64_t until;
	uint8_t sample_fields;
	uint8_t unused;
	uint16_t tail, size; /* of the first ring; the second one has what is left */
	uint16_t second_tail;
};

static uint64_t touched;

/* Reads all that a record leads to. */
static void touch_record(const struct perf_record *record)
{
	if (record->type == PERF_RECORD_SAMPLE) {
		for (uint64_t i = 0; i < record->sample.chain_length; i++)
			touched += record->sample.chain[i];
		for (uint64_t i = 0; i < record->sample.stack_size; i++)
			touched += record->sample.stack[i];
		if (record->sample.stack_size > record->sample.stack_asked)
			abort();
	} else if (record->type == PERF_RECORD_MMAP2) {
		touched += strlen(record->mapping.path);
		if (record->mapping.start >= record->mapping.end)
			abort();
	} else if (record->type == PERF_RECORD_KSYMBOL) {
		touched += strlen(record->symbol.name);
		if (record->symbol.start > record->symbol.end)
			abort();
	} else if (record->type == PERF_RECORD_COMM) {
		touched += strlen(record->comm);
	}
}

/* Counts the records of a ring, whose bytes are in one piece. */
static size_t count_records(const uint8_t *bytes, size_t size, uint64_t sample_type,
			    const char **problem)
{
	struct perf_event_header header;
	struct perf_record record;
	size_t count = 0;

	for (size_t at = 0; at < size; at += header.size) {
		/* As large as the rest, so that the sanitizer notices each byte behind it. */
		uint8_t *rest = malloc(size - at);
		const char *why;

		if (!rest)
			abort();
		memcpy(rest, bytes + at, size - at);
		memcpy(&header, rest, sizeof(header));
		why = perf_record_decode(rest, size - at, sample_type, &record);
		if (!why)
			touch_record(&record);
		free(rest);
		if (why) {
			*problem = why;
			break;
		}
		count++;
	}
	return count;
}

/* Returns the page of the new ring. */
static struct perf_event_mmap_page *add_ring(struct perf_rings *rings, uint64_t tail,
					     const uint8_t *bytes, size_t size)
{
	struct perf_event_mmap_page *page;
	int fd = memfd_create("ring", MFD_CLOEXEC);
	uint8_t *data;

	if (fd < 0 || ftruncate(fd, PAGE + RING_SIZE) || perf_rings_add(rings, fd, 0))
		abort();
	page = rings->items[rings->count - 1].page;
	data = (uint8_t *)page + PAGE;
	rings->items[rings->count - 1].tail = tail;
	page->data_head = tail + size;
	for (size_t i = 0; i < size; i++)
		data[(tail + i) % RING_SIZE] = bytes[i];
	return page;
}

static size_t read_rings(struct perf_rings *rings, uint64_t until, const char **problem)
{
	const struct perf_record *record;
	size_t count = 0;

	perf_rings_snapshot(rings);
	while ((record = perf_rings_next(rings, until, problem))) {
		if (record->time > until)
			abort();
		touch_record(record);
		count++;
	}
	perf_rings_release(rings);
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_event_mmap_page *pages[RINGS];
	struct perf_rings rings = {.size = RING_SIZE};
	const char *problem = NULL, *expected_problem = NULL;
	size_t sizes[RINGS], expected = 0, count;
	struct input input;

	if (size < sizeof(input))
		return 0;
	memcpy(&input, data, sizeof(input));
	data += sizeof(input);
	size -= sizeof(input);
	rings.sample_type = PERF_SAMPLE_ALWAYS |
			    (input.sample_fields & 1 ? PERF_SAMPLE_CALLCHAIN : 0) |
			    (input.sample_fields & 2 ? PERF_SAMPLE_REGS_USER : 0) |
			    (input.sample_fields & 4 ? PERF_SAMPLE_STACK_USER : 0);
	sizes[0] = input.size < size ? input.size : size;
	sizes[1] = size - sizes[0];
	for (size_t i = 0; i < RINGS; i++) {
		const uint64_t tail = (i ? input.second_tail : input.tail) & ~UINT64_C(7);
		const uint8_t *bytes = data + (i ? sizes[0] : 0);

		/* The kernel writes words, and no more than there is room for. */
		sizes[i] = (sizes[i] < RING_SIZE ? sizes[i] : RING_SIZE) & ~(size_t)7;
		pages[i] = add_ring(&rings, tail, bytes, sizes[i]);
		expected += count_records(bytes, sizes[i], rings.sample_type, &expected_problem);
	}
	count = read_rings(&rings, input.until, &problem);
	count += read_rings(&rings, UINT64_MAX, &problem);
	if (count != expected || !problem != !expected_problem)
		abort();
	for (size_t i = 0; i < RINGS; i++) {
		if (pages[i]->data_tail != pages[i]->data_head)
			abort();
	}
	perf_rings_clear(&rings);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
#include "source/perf_rings.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/array.h"

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static int map_perf_ring(struct perf_ring *ring)
{
	void *pages = mmap(NULL, page_size() + ring->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring->fd, 0);

	if (pages == MAP_FAILED)
		return errno == EPERM ? -ENOBUFS : -errno;
	ring->page = pages;
	ring->data = (const uint8_t *)pages + page_size();
	return 0;
}

static void perf_ring_close(const struct perf_ring *ring)
{
	if (ring->page)
		munmap(ring->page, page_size() + ring->size);
	free(ring->bounce);
	close(ring->fd);
}

int perf_rings_add(struct perf_rings *rings, int fd, uint32_t cpu)
{
	struct perf_ring ring = {.cpu = cpu, .fd = fd, .size = rings->size};
	int err = 0;

	if (array_reserve(&rings->items, &rings->capacity, rings->count, 1, sizeof(*rings->items)))
		err = -ENOMEM;
	if (!err)
		err = map_perf_ring(&ring);
	if (err)
		perf_ring_close(&ring);
	else
		rings->items[rings->count++] = ring;
	return err;
}

void perf_rings_remove(struct perf_rings *rings, size_t index)
{
	perf_ring_close(&rings->items[index]);
	rings->count--;
	memmove(&rings->items[index], &rings->items[index + 1],
		(rings->count - index) * sizeof(*rings->items));
}

void perf_rings_clear(struct perf_rings *rings)
{
	while (rings->count)
		perf_rings_remove(rings, rings->count - 1);
	free(rings->items);
	rings->items = NULL;
	rings->capacity = 0;
	rings->read = NULL;
}

void perf_rings_snapshot(struct perf_rings *rings)
{
	rings->read = NULL;
	for (size_t i = 0; i < rings->count; i++) {
		struct perf_ring *ring = &rings->items[i];

		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	}
}

/* Returns the bytes at the tail as a whole; NULL: out of memory. */
static const void *bytes_at_tail(struct perf_ring *ring, size_t *available)
{
	const uint64_t at = ring->tail & (ring->size - 1);
	const size_t contiguous = ring->size - at, left = ring->head - ring->tail;
	size_t size = left < PERF_RECORD_SIZE_MAX ? left : PERF_RECORD_SIZE_MAX;

	*available = size;
	if (size <= contiguous)
		return ring->data + at;
	if (!ring->bounce)
		ring->bounce = malloc(PERF_RECORD_SIZE_MAX);
	if (!ring->bounce)
		return NULL;
	memcpy(ring->bounce, ring->data + at, contiguous);
	memcpy(ring->bounce + contiguous, ring->data, size - contiguous);
	return ring->bounce;
}

/* Decodes the record at the tail, if there is one. */
static void perf_ring_peek(const struct perf_rings *rings, struct perf_ring *ring,
			   const char **problem)
{
	struct perf_event_header header;
	size_t available;
	const void *bytes;
	const char *why;

	if (ring->has_next || ring->tail == ring->head)
		return;
	bytes = bytes_at_tail(ring, &available);
	if (!bytes)
		return;
	why = perf_record_decode(bytes, available, rings->sample_type, &ring->next);
	if (why) {
		*problem = why;
		ring->tail = ring->head;
		return;
	}
	memcpy(&header, bytes, sizeof(header));
	ring->next_size = header.size;
	ring->has_next = true;
}

/* Moves behind the record that was returned last, if there is one. */
static void skip_read_record(struct perf_rings *rings)
{
	if (!rings->read)
		return;
	rings->read->tail += rings->read->next_size;
	rings->read->has_next = false;
	rings->read = NULL;
}

const struct perf_record *perf_rings_next(struct perf_rings *rings, uint64_t until,
					  const char **problem)
{
	struct perf_ring *earliest = NULL;

	skip_read_record(rings);
	for (size_t i = 0; i < rings->count; i++) {
		struct perf_ring *ring = &rings->items[i];

		perf_ring_peek(rings, ring, problem);
		if (ring->has_next && (!earliest || ring->next.time < earliest->next.time))
			earliest = ring;
	}
	if (!earliest || earliest->next.time > until)
		return NULL;
	rings->read = earliest;
	return &earliest->next;
}

void perf_rings_release(struct perf_rings *rings)
{
	skip_read_record(rings);
	for (size_t i = 0; i < rings->count; i++) {
		struct perf_ring *ring = &rings->items[i];

		__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	}
}

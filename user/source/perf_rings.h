/* SPDX-License-Identifier: GPL-2.0 */
/* The rings of perf events, one for each CPU, and their records in the order of time. */
#ifndef STACKBEAT_SOURCE_PERF_RINGS_H
#define STACKBEAT_SOURCE_PERF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/perf_record.h"

struct perf_event_mmap_page;

struct perf_ring {
	uint32_t cpu;
	int fd; /* of the event */
	uint64_t enabled; /* ns of the event, as its owner has read it last */
	/* Private. */
	struct perf_event_mmap_page *page; /* NULL: none */
	const uint8_t *data;
	uint64_t size; /* bytes, a power of two */
	uint64_t head, tail; /* of what is read now */
	uint8_t *bounce; /* a record that wraps around; NULL: none yet */
	struct perf_record next; /* at the tail, if `has_next` */
	size_t next_size;
	bool has_next;
};

/* All zero: none. */
struct perf_rings {
	struct perf_ring *items;
	size_t count, capacity;
	uint64_t sample_type; /* PERF_SAMPLE_* of the events that have samples */
	uint32_t size; /* bytes of each new ring, a power of two */
	/* Private. */
	struct perf_ring *read; /* its record was returned last; NULL: none */
};

/*
 * Adds the ring of an event, whose fd it owns from now on, also after an error. Returns 0 or a
 * negative errno value, with nothing added: -ENOBUFS if the user may not lock so much memory.
 */
int perf_rings_add(struct perf_rings *rings, int fd, uint32_t cpu);

/* Closes a ring, with what was not read: not between perf_rings_snapshot() and _release(). */
void perf_rings_remove(struct perf_rings *rings, size_t index);

/* Closes the events and their rings. */
void perf_rings_clear(struct perf_rings *rings);

/* Begins to read: from now on, perf_rings_next() returns what is in the rings now. */
void perf_rings_snapshot(struct perf_rings *rings);

/*
 * Returns the earliest record of all rings up to a time, or NULL. It is valid until the next call.
 * A record that is malformed is skipped with the others of its ring, and sets *problem.
 */
const struct perf_record *perf_rings_next(struct perf_rings *rings, uint64_t until,
					  const char **problem);

/* Frees the room of the records that perf_rings_next() has returned. */
void perf_rings_release(struct perf_rings *rings);

#endif

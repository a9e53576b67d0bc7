/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring buffer: records of variable size from one producer, a CPU in hard interrupt
 * context (or, for metadata, a worker), to one consumer, the reader that has mapped it.
 *
 * The producer's head and its copy of the tail are in kernel memory. The head in the
 * read-only mapping is a copy. The tail, which the reader writes, is read once and
 * checked; an invalid tail can only lose records of this reader.
 *
 *	producer (here)				consumer (reader)
 *
 *	load-acquire tail	(A)		load-acquire head	(C)
 *	store records				load records
 *	store-release head	(B)		store-release tail	(D)
 *
 * B pairs with C: the reader sees complete records only. D pairs with A: a record
 * is not overwritten while it is still being read.
 */
#ifndef STACKBEAT_RING_H
#define STACKBEAT_RING_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>

#include "stackbeat.h"

struct page;

struct sb_ring {
	u64 head;	/* bytes produced, published or about to be */
	u64 limit;	/* >= head: records fit up to here, by the tail read last */
	u64 wake_head;	/* head at which the watermark is checked again */
	u8 *data;
	u32 size;	/* of data, a power of two */
	u32 lost;	/* records lost since the last one written */
	u64 lost_full;
	u64 lost_bad_tail;
	struct stackbeat_producer_page *producer;
	const struct stackbeat_consumer_page *consumer;
	struct page **pages;	/* of all of these */
};

/* Reads the reader's tail. Returns false if it is invalid. */
static inline bool sb_ring_read_tail(const struct sb_ring *ring, u64 *tail)
{
	*tail = smp_load_acquire(&ring->consumer->tail); /* (A) */
	return ring->head - *tail <= ring->size;
}

/*
 * Sets the limit if a record of `bytes` fits at the head; if it does not fit before the end of
 * the data, pads the rest and continues at the beginning. Returns NULL, or, if there is no room,
 * the counter of the reason.
 */
static noinline u64 *sb_ring_extend(struct sb_ring *ring, u32 bytes)
{
	u32 at = ring->head & (ring->size - 1);
	u32 to_end = ring->size - at;
	u32 pad = to_end < bytes ? to_end : 0;
	u64 tail, used, room;

	if (!sb_ring_read_tail(ring, &tail))
		return &ring->lost_bad_tail;
	used = ring->head - tail + pad;
	if (used + bytes > ring->size)
		return &ring->lost_full;
	if (pad) {
		struct stackbeat_record *record = (void *)(ring->data + at);

		record->type = STACKBEAT_RECORD_PAD;
		record->flags = 0;
		record->size = pad;
		ring->head += pad;
		to_end = ring->size;
	}
	room = ring->size - used;
	ring->limit = ring->head + (room < to_end ? room : to_end);
	return NULL;
}

static inline bool sb_ring_fits(const struct sb_ring *ring, u32 bytes)
{
	return ring->limit - ring->head >= bytes;
}

/*
 * Whether sb_ring_reserve() would succeed now. For a producer that can wait:
 * nothing is counted as lost.
 */
static inline bool sb_ring_has_room(struct sb_ring *ring, u32 bytes)
{
	return sb_ring_fits(ring, bytes) || !sb_ring_extend(ring, bytes);
}

static noinline bool sb_ring_make_room(struct sb_ring *ring, u32 bytes)
{
	u64 *lost = sb_ring_extend(ring, bytes);

	if (!lost)
		return true;
	(*lost)++;
	ring->lost++;
	return false;
}

/*
 * Returns memory for a record of up to `bytes` (a multiple of 8, at most the size of
 * the ring), or NULL if there is no room: then the record is counted as lost. Nothing
 * is visible to the reader before sb_ring_commit().
 */
static __always_inline void *sb_ring_reserve(struct sb_ring *ring, u32 bytes)
{
	if (unlikely(!sb_ring_fits(ring, bytes)) && !sb_ring_make_room(ring, bytes))
		return NULL;
	return ring->data + (ring->head & (ring->size - 1));
}

/*
 * Ends a record of `bytes` in the last reservation, without publishing it: another record follows
 * before sb_ring_commit().
 */
static inline void sb_ring_advance(struct sb_ring *ring, u32 bytes)
{
	ring->head += bytes;
}

/* Publishes `bytes` of the last reservation, which hold the record. */
static __always_inline void sb_ring_commit(struct sb_ring *ring, u32 bytes)
{
	ring->head += bytes;
	ring->lost = 0;
	smp_store_release(&ring->producer->head, ring->head); /* (B) */
}

/* Returns the number of unread bytes; the ring's size if the tail is invalid. */
static inline u32 sb_ring_unread(const struct sb_ring *ring)
{
	u64 head = READ_ONCE(ring->producer->head);
	u64 unread = head - READ_ONCE(ring->consumer->tail);

	return unread <= ring->size ? unread : ring->size;
}

static noinline bool sb_ring_is_late(struct sb_ring *ring, u32 watermark)
{
	u32 unread = sb_ring_unread(ring);

	if (unread < watermark) {
		ring->wake_head = ring->head - unread + watermark;
		return false;
	}
	ring->wake_head = ring->head + watermark / 4;
	return true;
}

/*
 * Whether the reader should be woken now; called after each commit. Reads the tail and the
 * watermark only if the head has reached wake_head. While the unread bytes exceed the
 * watermark, the reader is woken again after each quarter of a watermark.
 */
static __always_inline bool sb_ring_should_wake(struct sb_ring *ring, const u32 *watermark)
{
	return unlikely(ring->head >= ring->wake_head) &&
	       sb_ring_is_late(ring, READ_ONCE(*watermark));
}

/*
 * Allocates zeroed whole pages for vm_insert_page(), on `node` if it has memory (NUMA_NO_NODE: on
 * any). They are charged to the caller's control group if the kernel can map charged pages. Sets
 * *pages, which sb_free_mapped() takes. NULL: no memory.
 */
void *sb_alloc_mapped(size_t size, int node, struct page ***pages);

/* Frees `size` bytes of sb_alloc_mapped(), in process context. Accepts NULL. */
void sb_free_mapped(const void *memory, struct page **pages, size_t size);

int sb_ring_alloc(struct sb_ring *ring, u32 size, u32 cpu);
void sb_ring_free(struct sb_ring *ring);

#endif

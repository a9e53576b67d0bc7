/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A ring: variable records from one producer, a CPU in hard interrupt context
 * (or, for metadata, a worker), to one consumer, the reader that has mapped it.
 *
 * The producer's head and its copy of the tail live in kernel memory. What is
 * mapped read-only is a copy of the head; what the reader writes, the tail, is
 * read once, checked, and can lose the reader its own records and nothing else.
 *
 *	producer (here)				consumer (reader)
 *
 *	load-acquire tail	(A)		load-acquire head	(C)
 *	store records				load records
 *	store-release head	(B)		store-release tail	(D)
 *
 * B pairs with C: a record is seen whole or not at all. D pairs with A: a
 * record is not written over while it is still being read.
 */
#ifndef STACKBEAT_RING_H
#define STACKBEAT_RING_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/barrier.h>

#include "stackbeat.h"

struct sb_ring {
	u64 head;	/* bytes produced, published or about to be */
	u64 tail;	/* bytes consumed, as last read and found right */
	u64 wake_head;	/* head from which on the reader may need to be woken */
	u8 *data;
	u32 size;	/* of data, a power of two */
	u32 lost;	/* records lost since the last one written */
	u64 lost_full;
	u64 lost_tail;
	struct stackbeat_producer_page *producer;
	const struct stackbeat_consumer_page *consumer;
};

/* Reads the reader's tail. Returns false, and says so, when it can't be right. */
static inline bool sb_ring_read_tail(const struct sb_ring *ring, u64 *tail)
{
	*tail = smp_load_acquire(&ring->consumer->tail); /* (A) */
	return ring->head - *tail <= ring->size;
}

static noinline bool sb_ring_make_room(struct sb_ring *ring, u32 bytes)
{
	u64 tail;

	if (!sb_ring_read_tail(ring, &tail)) {
		ring->lost_tail++;
		ring->lost++;
		return false;
	}
	ring->tail = tail;
	if (ring->head - tail + bytes > ring->size) {
		ring->lost_full++;
		ring->lost++;
		return false;
	}
	return true;
}

/* What is left before the end of the data, where `bytes` do not fit into that. */
static inline u32 sb_ring_pad(const struct sb_ring *ring, u32 bytes)
{
	u32 to_end = ring->size - (ring->head & (ring->size - 1));

	return to_end < bytes ? to_end : 0;
}

/*
 * Whether sb_ring_reserve() would find room now. For a producer that can wait:
 * nothing is counted as lost.
 */
static inline bool sb_ring_has_room(struct sb_ring *ring, u32 bytes)
{
	u64 tail;

	bytes += sb_ring_pad(ring, bytes);
	if (ring->head - ring->tail + bytes <= ring->size)
		return true;
	if (!sb_ring_read_tail(ring, &tail))
		return false;
	ring->tail = tail;
	return ring->head - tail + bytes <= ring->size;
}

/*
 * Returns where a record of up to `bytes` (a multiple of 8, at most the size of
 * the ring) may be written, or NULL when it is lost, which is counted. Nothing
 * is visible to the reader before sb_ring_commit().
 */
static inline void *sb_ring_reserve(struct sb_ring *ring, u32 bytes)
{
	u32 at = ring->head & (ring->size - 1);
	u32 pad = sb_ring_pad(ring, bytes);

	if (unlikely(ring->head - ring->tail + pad + bytes > ring->size) &&
	    !sb_ring_make_room(ring, pad + bytes))
		return NULL;

	if (unlikely(pad)) {
		struct stackbeat_record *record = (void *)(ring->data + at);

		record->type = STACKBEAT_RECORD_PAD;
		record->flags = 0;
		record->size = pad;
		ring->head += pad;
		at = 0;
	}
	return ring->data + at;
}

/* Publishes the record that was written at the last reservation. */
static inline void sb_ring_commit(struct sb_ring *ring, u32 bytes)
{
	ring->head += bytes;
	ring->lost = 0;
	smp_store_release(&ring->producer->head, ring->head); /* (B) */
}

/* Bytes that the reader has not consumed; the ring's size where its tail is wrong. */
static inline u32 sb_ring_unread(const struct sb_ring *ring)
{
	u64 head = READ_ONCE(ring->producer->head);
	u64 unread = head - READ_ONCE(ring->consumer->tail);

	return unread <= ring->size ? unread : ring->size;
}

/*
 * Whether the reader should be woken now, asked after each commit. The tail is
 * read only when the head has come far enough; while the reader is late it is
 * woken again each quarter of a watermark.
 */
static inline bool sb_ring_should_wake(struct sb_ring *ring, u32 watermark)
{
	u32 unread;

	if (likely(ring->head < ring->wake_head))
		return false;
	unread = sb_ring_unread(ring);
	if (unread < watermark) {
		ring->wake_head = ring->head - unread + watermark;
		return false;
	}
	ring->wake_head = ring->head + watermark / 4;
	return true;
}

int sb_ring_alloc(struct sb_ring *ring, u32 size, u32 cpu);
void sb_ring_free(struct sb_ring *ring);

#endif

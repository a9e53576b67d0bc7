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
	u64 limit;	/* never behind head: up to here records fit, as last looked at */
	u64 wake_head;	/* head from which on the reader may need to be woken */
	u8 *data;
	u32 size;	/* of data, a power of two */
	u32 lost;	/* records lost since the last one written */
	u64 lost_full;
	u64 lost_bad_tail;
	struct stackbeat_producer_page *producer;
	const struct stackbeat_consumer_page *consumer;
};

/* Reads the reader's tail. Returns false, and says so, when it can't be right. */
static inline bool sb_ring_read_tail(const struct sb_ring *ring, u64 *tail)
{
	*tail = smp_load_acquire(&ring->consumer->tail); /* (A) */
	return ring->head - *tail <= ring->size;
}

/*
 * Finds out up to where records of `bytes` fit from the head on; where they do not fit
 * before the end of the data, the head goes on at its beginning. Returns NULL, or the
 * counter of the reason why there is no room.
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
 * Whether sb_ring_reserve() would find room now. For a producer that can wait:
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
 * Returns where a record of up to `bytes` (a multiple of 8, at most the size of
 * the ring) may be written, or NULL when it is lost, which is counted. Nothing
 * is visible to the reader before sb_ring_commit().
 */
static __always_inline void *sb_ring_reserve(struct sb_ring *ring, u32 bytes)
{
	if (unlikely(!sb_ring_fits(ring, bytes)) && !sb_ring_make_room(ring, bytes))
		return NULL;
	return ring->data + (ring->head & (ring->size - 1));
}

/* Publishes the record that was written at the last reservation. */
static __always_inline void sb_ring_commit(struct sb_ring *ring, u32 bytes)
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
 * Whether the reader should be woken now, asked after each commit. The tail is
 * read only when the head has come far enough, and so is the watermark; while the
 * reader is late it is woken again each quarter of a watermark.
 */
static __always_inline bool sb_ring_should_wake(struct sb_ring *ring, const u32 *watermark)
{
	return unlikely(ring->head >= ring->wake_head) &&
	       sb_ring_is_late(ring, READ_ONCE(*watermark));
}

/*
 * Zeroed memory of whole pages, for vm_insert_page(), to be freed by vfree(). It is charged to
 * the control group of the caller, where such pages can be mapped. NULL: no memory.
 */
void *sb_alloc_mapped(size_t size);

int sb_ring_alloc(struct sb_ring *ring, u32 size, u32 cpu);
void sb_ring_free(struct sb_ring *ring);

#endif

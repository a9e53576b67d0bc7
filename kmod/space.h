/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Address spaces: which one a sample was taken in, and what it maps.
 *
 *	beat	at the first sample of a space: takes a reference, queues it, and
 *		notes it in a table, so that the next samples find its id there
 *	probe	(in the process that maps something executable) queues the change
 *		for each session that has noted the space, and moves its generation
 *	worker	reads the mappings of queued spaces, lets go of them, and writes
 *		records into the metadata ring as it has room
 *
 * The table is a cache: an entry holds no reference, is told from a later process
 * by start time and count of execs, and may be lost at any time. Then the space is
 * read once more, under another id.
 */
#ifndef STACKBEAT_SPACE_H
#define STACKBEAT_SPACE_H

#include <linux/types.h>

struct sb_beat;
struct sb_mapping;
struct sb_seen_queue;
struct sb_session;
struct sb_spaces;

/* Of one session. ENOMEM; ENOENT when the kernel can't be probed for changes. */
struct sb_spaces *sb_spaces_alloc(struct sb_session *session);

/*
 * Frees it with all references it holds. No beat and no probe can reach it any
 * more. NULL is allowed.
 */
void sb_spaces_free(struct sb_spaces *spaces);

/* First sights that a beat has queued for the worker. ENOMEM: NULL. */
struct sb_seen_queue *sb_seen_queue_alloc(u32 cpu);
/* Lets go of what is still queued; NULL is allowed. */
void sb_seen_queue_free(struct sb_seen_queue *queue);

/*
 * The id and the generation of the current task's address space, which is user
 * memory; 0 when too many are pending. Called by a beat, before it publishes the
 * sample, at `now` (ns).
 */
u64 sb_space_see(struct sb_beat *beat, u64 now, u32 *generation);

/* The metadata ring, for device.c. */
struct sb_mapping *sb_spaces_consumer_mapping(struct sb_spaces *spaces);
struct sb_mapping *sb_spaces_ring_mapping(struct sb_spaces *spaces);
/* Whether the reader should look at it. */
bool sb_spaces_have_news(const struct sb_spaces *spaces);

/* As STACKBEAT_IOC_OBJECT_OPEN and _RELEASE. */
int sb_spaces_open_object(struct sb_spaces *spaces, u64 id);
int sb_spaces_release_object(struct sb_spaces *spaces, u64 id);

/* Sets the counters of STACKBEAT_S_SPACES and what follows it, by their number. */
void sb_spaces_count(const struct sb_spaces *spaces, u64 *counts);

int sb_space_init(void);
void sb_space_exit(void);

#endif
